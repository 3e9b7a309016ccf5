"""Envs that reset themselves: what they answer when they are done already belongs to the next episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.groups.done import DonePlan
from marlenv.keys import NestedKey, level
from marlenv.tensordicts import rows

if TYPE_CHECKING:
    from marlenv.envs.env import EnvBase


class AutoReset:
    """Keeps the first observations of the new episodes apart from the data of the steps that ended the old ones.

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
        self._first: dict[NestedKey, Tensor] = {}

    def blank(self, env: EnvBase, following: TensorDictBase) -> None:
        """Takes the observations of finished rows out of what a step answered, in place."""
        plan = env.plan
        if not plan.done.any_done(following):
            self._first = {}
            return
        for key in plan.observation_keys:
            value = following.get(key)
            self._first[key] = value
            blank = blank_of(value, *self._fills) if self.replace else None
            if blank is not None:
                done = _done_for(plan.done, following, key)
                if done is not None:
                    flat = rows(done, done.ndim - 1) if value.ndim < done.ndim or done.shape[-1] == 1 else done
                    flat = flat.reshape(*flat.shape, *[1] * (value.ndim - flat.ndim))
                    following.set(key, torch.where(flat, blank, value))

    def first_observations(self, env: EnvBase, td: TensorDictBase) -> TensorDictBase:
        """What a reset would have answered: the observations that came with the last step."""
        out = env.full_done_spec.zero(td.batch_size[: td.ndim - len(env.batch_size)])
        for key, value in self._first.items():
            out.set(key, value)
        return out


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
