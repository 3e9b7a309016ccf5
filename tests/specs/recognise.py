"""What is looked for in a case on which torchrl and marlenv differ: see differences.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from random_calls import CALLS
from tensordict import LazyStackedTensorDict, TensorDictBase
from torch import Tensor

import marlenv as ours
from marlenv.errors import (
    MarlenvError,
    SpecError,
    Unsupported,
)
from marlenv.specs.shapes import stand_in

WE, THEY, BOTH, ANSWERS = "we refuse", "they refuse", "errors", "answers"


def says(case: Any, *texts: str) -> bool:
    return any(text in str(case.other) for text in texts)


def internal(case: Any) -> bool:
    """Whether their error is one that nobody wrote: an operation on the wrong thing inside."""
    return isinstance(case.other, (AttributeError, TypeError, UnboundLocalError, AssertionError, NotImplementedError))


def first(case: Any) -> Any:
    return case.args[0] if case.args else None


def shape_of(result: Any) -> Any:
    """The shapes of what a shape operation gives."""
    return [shape_of(one) for one in result] if isinstance(result, (tuple, list)) else tuple(result.shape)


def torch_does(case: Any) -> Any:
    """The shapes that the operation gives for a tensor of the spec's shape; an error as the word."""
    name = case.call.removeprefix("torch.")
    unknown = stand_in(case.spec.shape)
    solid = [unknown if n < 0 else n for n in case.spec.shape]
    tensor = (
        torch.zeros(solid)
        if "dynamic" not in case.has and np.prod(solid) < 1000
        else torch.empty(solid, device="meta", dtype=torch.uint8)
    )
    index = lambda i: np.arange(n)[i] if isinstance(i, slice) else i  # noqa: E731
    n = solid[0] if solid else 0
    try:
        if name == "[]" and isinstance(first(case), slice):
            return tuple(tensor[torch.as_tensor(index(first(case)).copy())].shape)
        if name == "index_select":
            return tuple(torch.index_select(tensor, *case.args).shape)
        got = (
            CALLS[case.call].act(torch, tensor, *case.args)
            if name not in ("squeeze", "unsqueeze")
            else getattr(tensor, name)(*case.args)
        )
    except Exception:
        return "refused"
    return (
        [tuple(-1 if m == unknown else m for m in t.shape) for t in got]
        if isinstance(got, tuple)
        else tuple(-1 if m == unknown else m for m in got.shape)
    )


def as_torch(case: Any) -> bool:
    """Whether our shapes, or our refusal, are torch's."""
    mine = "refused" if isinstance(case.mine, Exception) else shape_of(case.mine)
    return mine == torch_does(case)


def has_events(case: Any) -> bool:
    """Whether the spec has dimensions that belong to one value."""
    return bool(case.has & {"OneHot", "MultiOneHot", "MultiCategorical", "Choice"})


def tensors_of(x: Any) -> list[Tensor]:
    """Every tensor in a value; those of a lazy stack may have different shapes."""
    if isinstance(x, Tensor):
        return list(x.unbind()) if x.is_nested else [x]
    if isinstance(x, LazyStackedTensorDict):
        return [tensor for part in x.unbind(x.stack_dim) for tensor in tensors_of(part)]
    return [tensor for one in x.values() for tensor in tensors_of(one)] if isinstance(x, TensorDictBase) else []


def all_ones(case: Any) -> bool:
    """Whether what we give is ones of the spec's dtypes."""
    case.spec.type_check(case.mine)
    return case.call == "ones_update" or all(bool((one == 1).all()) for one in tensors_of(case.mine))


def numel(x: Any) -> int:
    return x.numel() if isinstance(x, Tensor) else -1


def trails(shape: Any, spec: Any) -> bool:
    """Whether a shape ends in the spec's."""
    return len(shape) >= len(spec) and all(
        m in (-1, n) for n, m in zip(shape[len(shape) - len(spec) :], spec, strict=True)
    )


def misses(case: Any) -> bool:
    """Whether the value has another shape or dtype than the spec, or is masked, or is no value of one."""
    value = first(case)
    if isinstance(case.spec, ours.Composite) or not isinstance(value, Tensor):
        return True
    return (
        not trails(value.shape, case.spec.shape)
        or value.dtype != case.spec.dtype
        or bool(case.has & {"masked", "OneHot", "MultiOneHot", "float discrete"})
    )


def counts(spec: Any) -> bool:
    """Whether the cardinality of our spec is the number of the values that it lists, where it lists any."""
    if isinstance(spec, ours.Composite):
        parts = getattr(spec, "parts", None) or [one for one in spec.values() if one is not None]
        return all(counts(one) for one in parts) and spec.cardinality() == np.prod(
            [1.0, *[one.cardinality() for one in parts]]
        )
    try:
        return len(spec.enumerate()) == spec.cardinality()
    except (MarlenvError, RuntimeError):
        return True


def lists(case: Any) -> bool:
    """Whether all values of our list are in the spec, and none twice."""
    if isinstance(case.mine, Exception):
        return isinstance(case.mine, (Unsupported, SpecError))
    rows = case.mine if isinstance(case.mine, list) else list(case.mine.unbind(0))
    masked = "masked" in case.has and not first(case)
    texts = (
        {str(row.to_dict() if hasattr(row, "to_dict") else row.tolist()) for row in rows} if len(rows) < 50 else set()
    )
    distinct = len(rows) >= 50 or len(texts) == len(rows) or bool(case.has & {"Choice", "empty"})
    return distinct and (masked or all(case.spec.is_in(row) for row in rows))


def points(case: Any) -> bool:
    """Whether our entries of a table of numbers are the numbers themselves."""
    spec, value, result = case.spec, first(case), case.mine
    if isinstance(result, Exception):
        return isinstance(result, MarlenvError)
    if isinstance(spec, ours.Binary):
        return torch.equal(result, value.long() * case.args[1])
    if isinstance(spec, (ours.MultiCategorical, ours.MultiOneHot)):
        starts = torch.tensor([0, *spec.space_sizes[:-1]]).cumsum(0)
        return torch.equal(result, spec.to_categorical(value) + starts)
    return torch.equal(result, spec.to_categorical(value).long())


def encodes(case: Any) -> bool:
    """Whether what we encode has the dtype, and ends in the shape, of the spec."""
    results = case.mine if isinstance(case.mine, tuple) else (case.mine,)
    tensors = [one for one in results if isinstance(one, Tensor)]
    return all(
        one.dtype == case.spec.dtype
        and (one.is_nested or trails(one.shape, [abs(n) if n == 0 else n for n in case.spec.shape]))
        for one in tensors
    )


def pops(case: Any) -> bool:
    """Whether what is taken out was there, and is gone."""
    found, left = case.mine
    return (
        found is None
        or isinstance(found, ours.Composite)
        or (case.spec.get(first(case), None) == found and first(case) not in left)
    )


def holds_none(x: Any) -> bool:
    return (
        x is None
        or (isinstance(x, dict) and any(holds_none(v) for v in x.values()))
        or (isinstance(x, list) and any(holds_none(v) for v in x))
    )
