"""An env seen through transforms."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.envs.access import SIDE
from marlenv.envs.stepping import finish
from marlenv.errors import SpecError
from marlenv.keys import NestedKey
from marlenv.specs import Composite
from marlenv.tensordicts import shallow
from marlenv.transforms.base import Kind, Transform
from marlenv.transforms.compose import Compose, as_transform

MEMORY = "transforms"  # where get_state keeps what transforms remember


class TransformedEnv(EnvBase):
    """An env whose data go through transforms.

    Args:
        env: the env. A transformed env is unwrapped: its transforms come first.
        transform: a transform, a chain, or a function of tensordicts; nothing when left out.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(max_steps=3), RewardSum())
    >>> env.rollout(5)["next", "episode_reward"].squeeze(-1)
    tensor([1., 2., 3.])
    """

    base_env: EnvBase
    """The env under the transforms."""
    chain: Compose
    """The transforms, first to last."""

    def __init__(self, env: EnvBase, transform: Any = None, **options: Any) -> None:
        if not isinstance(env, EnvBase):
            raise SpecError(f"TransformedEnv: expected an env, got {type(env).__name__}; make it first")
        given = [] if transform is None else [as_transform(transform)]
        for one in given:
            if one.container is not None:
                raise SpecError(f"TransformedEnv: {one!r} belongs to an env already; pass its copy, transform.clone()")
        inner = []
        if isinstance(env, TransformedEnv):
            inner, env = [leaf.clone() for leaf in env.chain.leaves()], env.base_env
        super().__init__(device=env.device, batch_size=env.batch_size, allow_done_after_reset=True, **options)
        self.batch_locked = env.batch_locked
        self.handles_partial_steps = env.handles_partial_steps
        self.resets_without_looking = env.resets_without_looking
        self.supports_set_state = env.supports_set_state
        self.base_env = env
        self.chain = given[0] if given and not inner and isinstance(given[0], Compose) else Compose(*inner, *given)
        self.chain.set_container(self)
        self._rebuild()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.chain.set_container(self)

    # --- the chain -------------------------------------------------------------------------------

    @property
    def transform(self) -> Transform:
        """The transform, when there is one only; else the chain."""
        only: Transform = self.chain[0] if len(self.chain) == 1 else self.chain
        return only

    def append_transform(self, transform: Any) -> TransformedEnv:
        """Adds a transform at the end, in place, and returns the env."""
        return self.insert_transform(len(self.chain), transform)

    def insert_transform(self, index: int, transform: Any) -> TransformedEnv:
        """Adds a transform before the one at ``index``, in place, and returns the env."""
        self.chain.insert(index, transform)
        self._rebuild()
        return self

    def before(self, transform: Transform) -> EnvBase:
        """The env with copies of the transforms that come before ``transform``."""
        leaves = self.chain.leaves()
        first = transform.leaves()[0] if isinstance(transform, Compose) and len(transform) else transform
        at = next((i for i, leaf in enumerate(leaves) if leaf is first), 0)
        return TransformedEnv(self.base_env, Compose(*(leaf.clone() for leaf in leaves[:at])))

    def _rebuild(self) -> None:
        """Lets every transform see the specs before it, and edit them."""
        locked = self.is_spec_locked
        self.set_spec_lock_(False)
        self._write_specs({kind: getattr(self.base_env, f"full_{kind}_spec").clone() for kind in SIDE})
        for leaf in self.chain.leaves():
            leaf.join(self)
            specs: dict[Kind, Composite] = {kind: getattr(self, f"full_{kind}_spec").clone() for kind in SIDE}  # type: ignore[misc]
            leaf.respec(specs)
            self._write_specs(specs)  # type: ignore[arg-type]
        self.set_spec_lock_(locked)

    def _write_specs(self, specs: dict[str, Composite]) -> None:
        for kind, spec in specs.items():
            setattr(self, f"full_{kind}_spec", spec)

    # --- stepping --------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        return self._started(tensordict, self.base_env._reset(self._told(tensordict), **kwargs))

    def _reset_rows(self, request: TensorDictBase, tensordict: TensorDictBase) -> TensorDictBase:
        return self._started(tensordict, self.base_env._reset_rows(request, tensordict))

    def _told(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        return None if tensordict is None else self.chain._inv_call(shallow(tensordict))

    def _started(self, tensordict: TensorDictBase | None, fresh: TensorDictBase) -> TensorDictBase:
        self.base_env.plan.done.complete(fresh)
        return self.chain._reset(tensordict, fresh)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        told = self.chain._inv_call(shallow(tensordict))
        base = self.base_env
        return self.chain._step(tensordict, finish(base, base.plan, base._step(told), told))

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Draws random actions; by the env under the transforms, if it has a way of its own and they leave it what it reads."""
        if "own_draws" not in self._cache:
            base, seen = self.base_env, {*self.observation_keys}
            own = type(base).rand_action is not EnvBase.rand_action and seen >= {*base.state_keys}
            kept = all(type(t)._inv_call is Transform._inv_call and not t.in_keys_inv for t in self.chain.leaves())
            self._cache["own_draws"] = own and kept and self.full_action_spec == base.full_action_spec
        return self.base_env.rand_action(tensordict) if self._cache["own_draws"] else super().rand_action(tensordict)

    def _on_reset(self, tensordict: TensorDictBase) -> None:
        self.base_env._on_reset(tensordict)
        self.chain._on_reset(tensordict)

    def _set_seed(self, seed: int | None) -> None:
        self.base_env.set_seed(seed)

    def _action_seed(self) -> int:
        return self.base_env.action_stream.seed  # an env that was made with a seed stays seeded

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        state = self.base_env.get_state(tensordict)
        if tensordict is None:
            return state
        memory = tensordict.select(*self._memory_keys(), strict=False)  # what transforms remember lives in the data
        return state if memory.is_empty() else state.copy().set(MEMORY, memory.clone())

    def _state_of(self, state: TensorDictBase, mask: Tensor, tensordict: TensorDictBase | None) -> TensorDictBase:
        memory = self._memory_keys()
        if memory and (tensordict is None or MEMORY not in state.keys()):
            raise SpecError(
                f"TransformedEnv.set_state: {memory} live in the data; with a mask, save them too, state = env.get_state(td), and "
                f"pass those of the rows that go on, env.set_state(state, mask, td)"
            )
        return super()._state_of(state, mask, tensordict)

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        out = self._started(None, self.base_env.set_state(state.exclude(MEMORY)))
        memory = state.get(MEMORY, None)
        return out if memory is None else out.update(memory)

    def _memory_keys(self) -> list[NestedKey]:
        """The observations and flags that the transforms added."""
        base = {*self.base_env.observation_keys, *self.base_env.done_keys}
        return [key for key in (*self.observation_keys, *self.done_keys) if key not in base]

    def to(self, device: torch.device | str | int) -> TransformedEnv:  # type: ignore[override]
        """Moves the env under the transforms, and their buffers."""
        self.base_env.to(device)
        super().to(device)
        self._rebuild()
        return self

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Closes the env under the transforms too."""
        self.chain.close()
        self.base_env.close(raise_if_closed=raise_if_closed)
        super().close(raise_if_closed=raise_if_closed)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or "base_env" not in self.__dict__.get("_modules", {}):
                raise
            return getattr(self.base_env, name)

    def __repr__(self) -> str:
        return f"TransformedEnv({self.base_env!r}, {self.transform!r})"
