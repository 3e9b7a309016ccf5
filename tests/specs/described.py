"""What results of our specs and of torchrl's have in common, in a form that can be compared."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
import torchrl.data as theirs
from tensordict import TensorDictBase
from torch import Tensor

import marlenv as ours


def describe(x: Any, values: bool = True) -> Any:
    """What is compared of a result: specs by family, shape, dtype and mask; tensors by shape, dtype and numbers."""
    if isinstance(x, (ours.Composite, theirs.Composite)):
        return ("Composite", tuple(x.shape), str(x.device), {k: describe(v) for k, v in x.items()})
    if isinstance(x, (ours.TensorSpec, theirs.TensorSpec)):
        family = type(x).__name__.removesuffix("Continuous").removesuffix("Discrete")
        mask = getattr(x, "mask", None)
        return (family, tuple(x.shape), x.dtype, str(x.device), None if mask is None else mask.tolist())
    if isinstance(x, TensorDictBase):
        return (tuple(x.batch_size), {k: describe(v, values) for k, v in x.items()})
    if isinstance(x, Tensor):
        return (tuple(x.shape), x.dtype, x.tolist() if values else None)
    if isinstance(x, np.ndarray):
        return (x.shape, str(x.dtype), x.tolist() if values else None)
    if isinstance(x, (list, tuple)):
        return [describe(v, values) for v in x]
    if isinstance(x, dict):
        return {k: describe(v, values) for k, v in x.items()}
    return x if not hasattr(x, "item") else x.item()


def outcome(act, *args: Any, **kwargs: Any) -> Any:
    """What a call gives, described; or that it fails."""
    with warnings.catch_warnings(action="ignore"):
        try:
            return describe(act(*args, **kwargs))
        except Exception:
            return "error"


def boxes(k, n: int = 2) -> Any:
    return k.Choice([k.Bounded(0, 1, (2,)), k.Bounded(4, 5, (2,))])


def two(k) -> Any:
    return torch.stack([k.Composite(a=k.Unbounded((2,))), k.Composite(a=k.Unbounded((3,)))])
