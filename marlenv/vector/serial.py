"""Several envs as one, stepped one after the other in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.envs.resetting import reset_rows
from marlenv.envs.rollout import stack_steps
from marlenv.envs.stepping import STEP, present, standing
from marlenv.groups.reset import read_masks
from marlenv.tensordicts import get, lazy, rows, split
from marlenv.vector.base import BatchedEnv, MakeEnv


class SerialEnv(BatchedEnv):
    """Several envs as one, stepped one after the other.

    Child ``i`` behaves as it would alone with its own seed. A ``"_step"`` or ``"_reset"`` mask reaches only the children
    that it marks.

    Args:
        num_workers: how many children.
        create_env_fn: makes a child; or a list with one such function per child.
        create_env_kwargs: keyword arguments for it; or a list with one dict per child.
        device: where the data live; that of the children when left out.

    >>> env = SerialEnv(2, marlenv.testing.CountingEnv, create_env_kwargs=[{"max_steps": 2}, {"max_steps": 9}])
    >>> env.rollout(3, break_when_any_done=False)["next", "observation"].squeeze(-1)
    tensor([[1., 2., 1.],
            [1., 2., 3.]])
    """

    def __init__(
        self,
        num_workers: int,
        create_env_fn: MakeEnv | Sequence[MakeEnv],
        *,
        create_env_kwargs: dict[str, Any] | Sequence[dict[str, Any]] | None = None,
        device: torch.device | str | int | None = None,
    ) -> None:
        super().__init__(num_workers, create_env_fn, create_env_kwargs=create_env_kwargs, device=device)
        self.__dict__["children_envs"] = [make(**options) for make, options in self._recipes]
        self._adopt(self.children_envs)

    children_envs: list[EnvBase]
    """The children, in order."""

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        if tensordict is None:
            return self._stack([child.reset(**kwargs) for child in self.children_envs])
        fresh: list[TensorDictBase] = []
        for child, td, on in zip(self.children_envs, split(tensordict), self._marked(tensordict), strict=True):
            told = self._told(child, td)
            fresh.append(present(child, child.reset(told, **kwargs) if on else told))
        return self._stack(fresh)

    def _reset_rows(self, request: TensorDictBase, tensordict: TensorDictBase) -> TensorDictBase:
        fresh: list[TensorDictBase] = []
        rows_of = zip(self.children_envs, split(request), split(tensordict), self._marked(request), strict=True)
        for child, ask, td, on in rows_of:
            asked, told = self._told(child, ask), self._told(child, td)
            if on:
                told = reset_rows(child, asked, read_masks(child.plan.done, asked), told)
            fresh.append(present(child, told))
        return self._stack(fresh)

    def _marked(self, td: TensorDictBase) -> list[bool]:
        """Which children are reset at all."""
        reached = [self._any_row(mask, td) for mask in read_masks(self.plan.done, td).values()]
        return [any(column) for column in zip(*reached, strict=True)]

    @staticmethod
    def _told(child: EnvBase, td: TensorDictBase) -> TensorDictBase:
        return td if child.device is None or td.device == child.device else td.to(child.device)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        on = self._any_row(get(tensordict, STEP), tensordict)
        stepped: list[Any] = []
        for child, td, go in zip(self.children_envs, split(tensordict), on, strict=True):
            stepped.append(get(child.step(self._told(child, td)), "next") if go else None)
        if not all(on):
            still = standing(self, tensordict).unbind(0)
            stepped = [s if one is None else one for one, s in zip(stepped, still, strict=True)]
        return self._stack(stepped)

    def _any_row(self, mask: Tensor | None, td: TensorDictBase) -> list[bool]:
        """Which children a mask reaches; all of them when there is none."""
        if mask is None:
            return [True] * self.num_workers
        flat = rows(mask, td.ndim)
        return (flat.flatten(1).any(-1) if flat.ndim > 1 else flat).tolist()

    def _stack(self, parts: list[TensorDictBase]) -> TensorDictBase:
        if self.device is not None:
            parts = [part if part.device == self.device else part.to(self.device) for part in parts]
        try:
            return stack_steps(parts, 0)
        except RuntimeError:
            if not self.plan.dynamic:
                raise
            return lazy(parts, 0)  # children whose entries have different sizes now

    def _set_seed(self, seed: int | None) -> None:
        for child in self.children_envs:
            seed = child.set_seed(seed)
        self._last_seed = seed

    def _action_seed(self) -> int:
        return self.children_envs[0].action_stream.seed

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        parts = [None] * self.num_workers if tensordict is None else tensordict.unbind(0)
        return torch.stack([c.get_state(td) for c, td in zip(self.children_envs, parts, strict=True)])

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        return self._stack([c.set_state(s) for c, s in zip(self.children_envs, state.unbind(0), strict=True)])

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Closes all children."""
        for child in self.children_envs:
            child.close(raise_if_closed=raise_if_closed)
        super().close(raise_if_closed=raise_if_closed)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            children = self.__dict__.get("children_envs")
            if name.startswith("_") or not children or not hasattr(children[0], name):
                raise
        found = [getattr(child, name) for child in children]
        if callable(found[0]):
            return lambda *args, **kwargs: [one(*args, **kwargs) for one in found]
        return found

    def __repr__(self) -> str:
        return f"SerialEnv({self.num_workers} x {self.children_envs[0]!r})"
