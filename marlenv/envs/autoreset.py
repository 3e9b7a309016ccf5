"""Envs that reset themselves: what they answer when they are done already belongs to the next episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.groups.done import DonePlan
from marlenv.keys import NestedKey, level
from marlenv.tensordicts import NON_TENSOR, fetch, rows, shallow, unite, write

if TYPE_CHECKING:
    from marlenv.envs.env import EnvBase


class AutoReset:
    """Keeps the first observations of the new episodes apart from the data of the steps that ended the old ones.

    Nothing stands in for texts, which are left.

    Args:
        replace: blank the observations under ``"next"`` where a row is done, since they are not the final ones. Else
            they are left.
        fill_float: what stands in for floats; None leaves them.
        fill_int: what stands in for integers; None leaves them.
        fill_bool: what stands in for bools; None leaves them.
    """

    def __init__(
        self,
        replace: bool = True,
        fill_float: float | None = float("nan"),
        fill_int: int | None = -1,
        fill_bool: bool | None = False,
    ) -> None:
        self.replace = replace
        self._fills = fill_float, fill_int, fill_bool
        self._first: TensorDictBase | None = None

    def blank(self, env: EnvBase, following: TensorDictBase) -> None:
        """Takes the observations of finished rows out of what a step answered, in place."""
        plan = env.plan
        if not plan.done.any_done(following):
            self._first = None
            return
        self._first = following.select(*plan.observation_keys, strict=False)
        for key in plan.observation_keys if self.replace else ():
            value, done = fetch(following, key), _done_for(plan.done, following, key)
            if value is None or done is None:
                continue
            if isinstance(value, list):  # of agents whose entries have different sizes
                flags = done.unbind(following.ndim) if done.ndim > following.ndim + 1 else [done] * len(value)
                write(following, key, [self._blanked(*one) for one in zip(value, flags, strict=True)])
            else:
                write(following, key, self._blanked(value, done))

    def _blanked(self, value: Any, done: Tensor) -> Any:
        """An observation with something else where its flags, ``[*B, 1]`` or ``[*B, A, 1]``, are True."""
        blank = None if isinstance(value, NON_TENSOR) else blank_of(value, *self._fills)
        if blank is None:
            return value
        flat = rows(done, done.ndim - 1) if value.ndim < done.ndim or done.shape[-1] == 1 else done
        return torch.where(flat.reshape((*flat.shape, *[1] * (value.ndim - flat.ndim))), blank, value)

    def first_observations(self, env: EnvBase, td: TensorDictBase) -> TensorDictBase:
        """What a reset would have answered: the observations that came with the last step."""
        out = env.full_done_spec.zero(td.batch_size[: td.ndim - len(env.batch_size)])
        return out if self._first is None else unite(out, shallow(self._first))


def blank_of(
    value: Tensor, floats: float | None = float("nan"), integers: int | None = -1, bools: bool | None = False
) -> Tensor | None:
    """What stands in for an observation that is not there; None where nothing does.

    >>> blank_of(torch.tensor([1.0])), blank_of(torch.tensor([3]))
    (tensor(nan), tensor(-1))
    """
    blank: Any = floats if value.dtype.is_floating_point else bools if value.dtype == torch.bool else integers
    if blank is None:
        return None
    if value.dtype == torch.uint8:
        blank = max(0, blank)
    return torch.tensor(blank, dtype=value.dtype, device=value.device)


def _done_for(plan: DonePlan, td: TensorDictBase, key: NestedKey) -> Tensor | None:
    """The flag that governs an entry: that of the top level above it."""
    where = level(key)
    for one in plan.top:
        if where[: len(one.path)] == one.path:
            node = plan.node(td, one)
            return None if node is None else plan.done_of(node, one)
    return None
