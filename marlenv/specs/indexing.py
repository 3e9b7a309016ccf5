"""Indices of specs: what ``spec[index]`` means, decided from the shape alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from marlenv.errors import BadIndex

Index = tuple[Any, ...]


def spelled_out(index: Any, shape: Size, who: str) -> Index:
    """The index as a tuple of ints, slices, None and tensors, one for each of the leading dimensions it uses.

    ``...`` becomes full slices; lists, ranges and arrays become tensors.

    Args:
        index: what stands in the brackets.
        shape: the dimensions that may be indexed.
        who: the spec, for messages.

    Raises:
        BadIndex: there are more indices than dimensions, one is out of range, or a dimension of unknown size (-1) is
            cut.

    >>> spelled_out((..., 0), Size([2, 3]), "spec")
    (slice(None, None, None), 0)
    """
    parts = [_as_index(i, who) for i in (index if isinstance(index, tuple) else (index,))]
    used = sum(consumes(i) for i in parts)
    if used > len(shape):
        raise BadIndex(f"{who}: too many indices, got {used}; it has {len(shape)} batch dimensions")
    if sum(i is Ellipsis for i in parts) > 1:
        raise BadIndex(f"{who}: an index has at most one '...', got {index}")
    if Ellipsis in [i for i in parts if not isinstance(i, Tensor)]:
        at = next(k for k, i in enumerate(parts) if i is Ellipsis)
        parts[at : at + 1] = [slice(None)] * (len(shape) - used)
    return tuple(_checked(parts, shape, who))


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


def _as_index(part: Any, who: str) -> Any:
    if isinstance(part, (list, tuple, range, np.ndarray)):
        try:
            part = torch.as_tensor(part if isinstance(part, np.ndarray) else list(part))
        except (TypeError, ValueError, RuntimeError) as error:
            raise BadIndex(f"{who}: expected numbers or flags in an index, got {part}") from error
        part = part.long() if part.numel() == 0 and part.dtype != torch.bool else part
    if isinstance(part, Tensor) and not part.ndim and part.dtype != torch.bool:
        part = part.item()
    if isinstance(part, Tensor) and (part.dtype.is_floating_point or part.dtype.is_complex):
        raise BadIndex(f"{who}: a tensor in an index holds integers or flags, got {part.dtype}")
    if isinstance(part, np.bool_):
        return bool(part)
    if not (part is None or part is Ellipsis or isinstance(part, (int, np.integer, slice, Tensor))):
        raise BadIndex(
            f"{who}: an index is made of numbers, slices, '...', None, lists, arrays and tensors, got {part!r}"
        )
    return int(part) if isinstance(part, np.integer) else part


def _checked(parts: list[Any], shape: Size, who: str) -> Iterator[Any]:
    """The parts of an index, each within its dimensions."""
    at = 0
    for part in parts:
        count = consumes(part)
        if count == 0:
            yield part
        elif isinstance(part, slice):
            yield _slice(part, shape[at], f"{who}: dimension {at}")
        else:
            yield _numbers(part, shape[at : at + count], f"{who}: dimension {at}")
        at += count


def _slice(part: slice, n: int, who: str) -> Any:
    """A slice within a dimension of size ``n``; a tensor of numbers where it goes backwards."""
    if n < 0:
        if (part.start, part.stop) == (None, None) and part.step in (None, 1):
            return slice(None)
        raise BadIndex(f"{who} has no known size (-1); index it with numbers or ':', got {part}")
    try:
        start, stop, step = part.indices(n)
    except (TypeError, ValueError) as error:
        raise BadIndex(f"{who}: a slice has whole numbers and a step that is not 0, got {part}") from error
    return part if step > 0 else torch.tensor(range(start, stop, step), dtype=torch.int64)


def _numbers(part: Any, sizes: Size, who: str) -> Any:
    """Numbers within a dimension, or flags over several; of a dimension of unknown size every entry is the first."""
    if isinstance(part, Tensor) and part.dtype == torch.bool:
        if len(sizes) == 1 and sizes[0] < 0:
            return torch.zeros(int(part.sum()), dtype=torch.int64)
        if part.shape != sizes:
            raise BadIndex(f"{who}: expected flags of shape {list(sizes)}, got {list(part.shape)}")
        return part
    if sizes[0] < 0:
        return torch.zeros_like(part) if isinstance(part, Tensor) else 0
    part = part.long() if isinstance(part, Tensor) else part  # first, since narrow numbers are compared as such
    wrong = (part < -sizes[0]) | (part >= sizes[0])
    if wrong.any() if isinstance(wrong, Tensor) else wrong:
        got = part.tolist() if isinstance(part, Tensor) else part
        raise BadIndex(f"{who}: index {got} is out of range for size {sizes[0]}")
    return part
