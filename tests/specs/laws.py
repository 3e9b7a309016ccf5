"""What the law tests of specs share: the same examples in every run, and comparing values of any spec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import torch
from hypothesis import HealthCheck, settings
from tensordict import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDictBase
from torch import Tensor

SETTINGS = settings(max_examples=25, suppress_health_check=list(HealthCheck))


def given(*strategies: Any, **named: Any) -> Callable[[Any], Any]:
    """``hypothesis.given`` with few examples, the same in every run."""
    return lambda test: SETTINGS(hypothesis.given(*strategies, **named)(test))


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal: kind, shape, dtype and every number."""
    if isinstance(a, (NonTensorData, NonTensorStack)):
        return isinstance(b, (NonTensorData, NonTensorStack)) and (a.shape, a.tolist()) == (b.shape, b.tolist())
    if isinstance(a, LazyStackedTensorDict):
        return a.shape == b.shape and all(
            same(x, y) for x, y in zip(a.unbind(a.stack_dim), b.unbind(a.stack_dim), strict=True)
        )
    if isinstance(a, TensorDictBase):
        return (
            a.shape == b.shape
            and set(a.keys()) == set(b.keys())
            and all(same(a._get_str(k, None), b._get_str(k, None)) for k in a.keys())
        )
    if isinstance(a, Tensor) and a.is_nested:
        return all(same(x, y) for x, y in zip(a.unbind(), b.unbind(), strict=True))
    if isinstance(a, Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
    return bool(a == b)


def seeded(seed: int) -> torch.Generator:
    """A generator of its own."""
    return torch.Generator().manual_seed(seed)
