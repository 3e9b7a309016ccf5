"""Sizes: what users write for a shape, dimensions of unknown size, and shapes under an operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from operator import index as whole
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from marlenv.errors import ShapeError, SpecTypeError

Reshape = Callable[[Tensor], Tensor]
Names = list[str | None]
Rename = Callable[[Names], Names]
ShapeLike = Iterable[int] | int | None

PRIMES = (1_000_003, 1_000_003, 65_537, 10_007, 2_003, 1_009, 1_013)  # by the number of dimensions of size -1


def stand_in(shape: Size) -> int:
    """A size that stands in for -1 while shapes are computed: a prime that divides none of the others.

    >>> stand_in(Size([-1, 3]))
    1000003
    """
    count = min(shape.count(-1), len(PRIMES) - 1)
    return next(p for p in PRIMES[max(count - 1, 0) :] if all(s % p for s in shape if s > 0))


def size(shape: ShapeLike) -> Size:
    """A ``Size`` from what users write: a sequence, an int, or nothing.

    >>> size(3), size(None), size([2, 3])
    (torch.Size([3]), torch.Size([]), torch.Size([2, 3]))
    """
    if shape is None:
        return Size()
    if type(shape) is Size:
        return shape
    single = isinstance(shape, (int, np.integer)) or getattr(shape, "ndim", None) == 0
    if not isinstance(shape, (bool, np.bool_, Mapping, Set)):
        with suppress(TypeError):
            return Size((whole(shape),)) if single else Size(whole(s) for s in shape)  # type: ignore[arg-type,union-attr]
    raise SpecTypeError(f"a size is an int or a sequence of them, got {shape!r}")


def concrete(shape: Size) -> Size:
    """The shape with every dynamic dimension (-1) set to 1: what an example value has."""
    return Size(1 if s < 0 else s for s in shape) if -1 in shape else shape


def fits(shape: Size, spec: Size) -> bool:
    """Whether a value of ``shape`` has the spec's trailing dimensions (-1 fits any size)."""
    if len(shape) < len(spec):
        return False
    tail = shape[len(shape) - len(spec) :]
    return tail == spec or all(want in (-1, got) for want, got in zip(spec, tail, strict=True))


def varargs(args: tuple[Any, ...]) -> Size:
    """The sizes of ``expand(2, 3)`` or ``expand((2, 3))``."""
    return size(args[0] if len(args) == 1 else args)


def reshaped(shape: Size, reshape: Reshape) -> Size:
    """The shape that a tensor of ``shape`` has after ``reshape``; dynamic dimensions stay dynamic.

    >>> reshaped(Size([-1, 3]), lambda t: t.unsqueeze(0))
    torch.Size([1, -1, 3])
    """
    if -1 not in shape:
        return reshape(torch.empty(shape, device="meta")).shape
    unknown = stand_in(shape)
    sizes = reshape(torch.empty([unknown if s < 0 else s for s in shape], device="meta", dtype=torch.uint8)).shape
    if any(s != unknown and s % unknown == 0 and s > 0 for s in sizes):
        raise ShapeError(
            f"shape {list(shape)}: a dimension of unknown size (-1) cannot be merged with others; merge those only"
        )
    return Size(-1 if s == unknown else s for s in sizes)


def behind(shape: Size) -> str:
    """A shape with any leading dimensions, in an error message."""
    return f"[..., {str(list(shape))[1:-1]}]" if shape else "[...]"
