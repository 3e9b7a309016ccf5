"""The specs of EnvPool's spaces."""

from __future__ import annotations

from functools import reduce
from operator import getitem
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marlenv.keys import NestedKey, path
from marlenv.specs import Bounded, Composite, TensorSpec, Unbounded
from marlenv.wrappers._space_values import encoder_of
from marlenv.wrappers._spaces import spec_of


class Observed:
    """What is observed in one row, and how it is read of what a pool gives of some rows.

    Args:
        space: EnvPool's; its choices may count from another number than 0, its dtypes need not be those of the data.
    """

    def __init__(self, space: Any) -> None:
        seen = _with_true_bounds(spec_of(space))
        named = isinstance(seen, Composite)
        self.spec = seen if isinstance(seen, Composite) else Composite(observation=seen)
        """``observation`` where it has no name."""
        self._encode = encoder_of(space)
        self._leaves = {
            key: (path(key) if named else (), torch.empty(0, dtype=one.dtype).numpy().dtype)
            for key, one in self.spec.items(True, True)
        }

    def read(self, seen: Any) -> dict[NestedKey, Tensor]:
        """The entries of some rows, in the dtypes of the spec."""
        seen = seen if self._encode is None else self._encode(seen)
        return {
            key: torch.from_numpy(np.ascontiguousarray(reduce(getitem, way, seen), dtype))
            for key, (way, dtype) in self._leaves.items()
        }


def acted(space: Any, *, categorical: bool) -> TensorSpec:
    """The spec of the actions of one row; choices as numbers, or one-hot."""
    return _with_true_bounds(spec_of(space, categorical=categorical))


def _with_true_bounds(spec: TensorSpec) -> TensorSpec:
    """The same without bounds where EnvPool names the smallest positive number and the largest: it has none there."""
    if isinstance(spec, Composite):
        return Composite({name: _with_true_bounds(one) for name, one in spec.items()})
    if not isinstance(spec, Bounded) or not spec.dtype.is_floating_point:
        return spec
    ends = torch.finfo(spec.dtype)
    free = (spec.low == ends.tiny) & (spec.high == ends.max)
    if bool(free.all()):
        return Unbounded(spec.shape, dtype=spec.dtype)
    low, high = spec.low.masked_fill(free, -torch.inf), spec.high.masked_fill(free, torch.inf)
    return Bounded(low, high, spec.shape, dtype=spec.dtype)
