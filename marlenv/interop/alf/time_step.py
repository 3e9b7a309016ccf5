"""ALF's time steps and specs of tensors, field by field as its chapter of environments has them."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import torch
from torch import Size, Tensor

from marlenv.errors import SpecError
from marlenv.interop.spaces import check_equal
from marlenv.specs import Bounded, Categorical, Composite, OneHot, TensorSpec
from marlenv.specs.plain import is_plain


class StepType(IntEnum):
    """Where in an episode a time step is."""

    FIRST = 0
    MID = 1
    LAST = 2


class TimeStep(NamedTuple):
    """What an env gives at a step, for ``B`` envs at once. Fields that nothing is known of are ``()``.

    Whether the last step is worth something is said by two fields together: ``LAST`` with ``discount`` 0 has
    terminated, ``LAST`` with 1 was cut off.
    """

    step_type: Any = ()  # int32 [B], of StepType
    reward: Any = ()  # float32 [B], for the action before
    discount: Any = ()  # float32 [B]: 0 where an episode has terminated, else 1
    observation: Any = ()  # a nest of tensors [B, ...]
    prev_action: Any = ()  # the action before; zeros at the first step
    env_id: Any = ()  # int32 [B]
    untransformed: Any = ()  # the time step before anything changed it
    env_info: Any = ()  # a dict

    def is_first(self) -> Tensor:
        """Which envs are at their first step; bool ``[B]``."""
        return torch.as_tensor(self.step_type) == StepType.FIRST

    def is_mid(self) -> Tensor:
        """Which envs are in the middle; bool ``[B]``."""
        return torch.as_tensor(self.step_type) == StepType.MID

    def is_last(self) -> Tensor:
        """Which envs are at their last step; bool ``[B]``."""
        return torch.as_tensor(self.step_type) == StepType.LAST


class AlfSpec(NamedTuple):
    """The shape and dtype of a tensor, as ALF's ``TensorSpec`` and, with bounds, ``BoundedTensorSpec`` say them."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    minimum: Any = None
    maximum: Any = None

    @property
    def is_discrete(self) -> bool:
        """Whether values are whole numbers."""
        return not self.dtype.is_floating_point

    @property
    def is_continuous(self) -> bool:
        """Whether values are real numbers."""
        return self.dtype.is_floating_point


def alf_spec(who: str, key: str, spec: TensorSpec) -> Any:
    """A spec of ours, without a batch, as a nest of ALF's.

    Raises:
        SpecError: ALF has no spec of such values; the text says which entry.
        GroupError: it is an entry of agents who differ in it.

    >>> alf_spec("here", "action", Categorical(3))
    AlfSpec(shape=(), dtype=torch.int64, minimum=0, maximum=2)
    """
    check_equal(who, key, spec)
    if isinstance(spec, Composite):
        return {name: alf_spec(who, f"{key}/{name}", one) for name, one in spec.items()}
    if isinstance(spec, OneHot):
        return AlfSpec(tuple(spec.shape[:-1]), torch.int64, 0, int(spec.n) - 1)
    if not is_plain(spec) or -1 in spec.shape:
        raise SpecError(f"{who}: entry {key!r} is {spec!r}; ALF has no spec of such values")
    shape = tuple(Size(spec.shape))
    if isinstance(spec, Bounded):
        return AlfSpec(shape, spec.dtype, spec.low.expand(shape), spec.high.expand(shape))
    if isinstance(spec, Categorical) and spec.dtype != torch.bool:
        return AlfSpec(shape, spec.dtype, 0, int(spec.n) - 1)
    return AlfSpec(shape, spec.dtype)
