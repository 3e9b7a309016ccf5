"""Indices of specs: what ``spec[index]`` means, decided from the shape alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

Index = tuple[Any, ...]


def spelled_out(index: Any, shape: Size, who: str) -> Index:
    """The index as a tuple of ints, slices, None and tensors, one for each of the leading dimensions it uses.

    ``...`` becomes full slices; lists, ranges and arrays become tensors.

    Args:
        index: what stands in the brackets.
        shape: the dimensions that may be indexed.
        who: the spec, for messages.

    Raises:
        IndexError: there are more indices than dimensions, or a dimension of unknown size (-1) is cut.

    >>> spelled_out((..., 0), Size([2, 3]), "spec")
    (slice(None, None, None), 0)
    """
    parts = [_as_index(i) for i in (index if isinstance(index, tuple) else (index,))]
    used = sum(consumes(i) for i in parts)
    if used > len(shape):
        raise IndexError(f"{who}: too many indices, got {used}; it has {len(shape)} batch dimensions")
    if sum(i is Ellipsis for i in parts) > 1:
        raise IndexError(f"{who}: an index has at most one '...', got {index}")
    if Ellipsis in [i for i in parts if not isinstance(i, Tensor)]:
        at = next(k for k, i in enumerate(parts) if i is Ellipsis)
        parts[at : at + 1] = [slice(None)] * (len(shape) - used)
    return _known(parts, shape, who) if -1 in shape else tuple(parts)


def consumes(index: Any) -> int:
    """How many dimensions one part of an index uses up.

    >>> consumes(0), consumes(None), consumes(torch.ones(2, 3, dtype=torch.bool))
    (1, 0, 2)
    """
    if index is None or index is Ellipsis or isinstance(index, bool):
        return 0
    return index.ndim if isinstance(index, Tensor) and index.dtype == torch.bool else 1


def kept_names(names: list[str | None], index: Index) -> list[str | None]:
    """The names of the dimensions that are left, when the index has no tensors; no names otherwise."""
    if not all(i is None or isinstance(i, (int, slice)) for i in index):
        return [None]
    left: list[str | None] = []
    at = 0
    for i in index:
        if i is None:
            left.append(None)
            continue
        if isinstance(i, slice):
            left.append(names[at])
        at += 1
    return left + names[at:]


def _as_index(part: Any) -> Any:
    if isinstance(part, (list, tuple, range)):
        part = torch.as_tensor(list(part))
        return part.long() if part.numel() == 0 else part
    if isinstance(part, np.ndarray):
        return torch.as_tensor(part)
    return int(part) if isinstance(part, np.integer) else part


def _known(parts: list[Any], shape: Size, who: str) -> Index:
    """The index for a shape with dynamic dimensions: any single entry is like the first; nothing else can be cut."""
    out, at = [], 0
    for part in parts:
        count = consumes(part)
        if count and -1 in shape[at : at + count]:
            if isinstance(part, int):
                part = 0
            elif part != slice(None):
                raise IndexError(f"{who}: dimension {at} has no known size (-1); index it with a number or ':'")
        out.append(part)
        at += count
    return tuple(out)
