"""The shape algebra of lazy stacks: specs side by side that cannot be one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NoReturn

import torch
from torch import Size, Tensor

from marlenv.errors import BadIndex, ShapeError, SpecError, SpecTypeError, Unsupported
from marlenv.specs.indexing import consumes, spelled_out
from marlenv.specs.shapes import size, varargs


class LazyStack(ABC):
    """The shape algebra of a stack: every operation is one on the parts, with the dimensions renumbered. Abstract."""

    parts: list[Any]
    dim: int
    shape: Size

    @abstractmethod
    def _like(self, parts: list[Any], dim: int) -> Any:
        """A stack of the same kind."""

    def _checked(self, specs: tuple[Any, ...], dim: int) -> int:
        """The stacked dimension, counted from the front."""
        who = type(self).__name__
        if not specs:
            raise SpecError(f"{who}: expected at least one spec, got none")
        ndims = {len(spec.shape) for spec in specs}
        if len(ndims) != 1:
            raise ShapeError(
                f"{who}: the parts must have the same number of dimensions, got {[list(s.shape) for s in specs]}"
            )
        ndim = ndims.pop() + 1
        if not -ndim <= dim < ndim:
            raise BadIndex(f"{who}: dimension {dim} is out of range for {ndim} dimensions, the stacked one included")
        return dim % ndim

    def _stack_shape(self) -> Size:
        shapes = [part.shape for part in self.parts]
        merged = [sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*shapes, strict=True)]
        return Size((*merged[: self.dim], len(self.parts), *merged[self.dim :]))

    @property
    def stack_dim(self) -> int:
        """The stacked dimension, as tensordicts call it; the same as ``dim``."""
        return self.dim

    @property
    def _who(self) -> str:
        return f"{type(self).__name__} of shape {list(self.shape)}, stacked along dimension {self.dim}"

    def _front(self, dim: int, extra: int = 0) -> int:
        front = dim + len(self.shape) + extra if dim < 0 else dim
        if not 0 <= front < len(self.shape) + extra:
            raise BadIndex(f"{self._who}: dimension {dim} is out of range for {len(self.shape) + extra} dimensions")
        return front

    def _inner(self, dim: int) -> int:
        """The number of one of our dimensions, not the stacked one, in the parts."""
        return dim if dim < self.dim else dim - 1

    def __len__(self) -> int:
        if self.shape[0] < 0:
            raise SpecTypeError(f"{self._who}: has no length, since its first dimension has no known size (-1)")
        return self.shape[0]

    def _map(self, reshape: Callable[[Any], Any], rename: Any = None, **changes: Any) -> Any:
        return reshape(self)

    def _refuse(self, what: str) -> NoReturn:
        raise Unsupported(f"{self._who}: {what} needs equal parts; pad them to equal shapes, or act on the parts")

    def unsqueeze(self, dim: int) -> Any:
        """A new dimension of size 1."""
        dim = self._front(dim, extra=1)
        before = dim <= self.dim
        return self._like([p.unsqueeze(dim if before else dim - 1) for p in self.parts], self.dim + before)

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Any:
        """Without some dimensions of size 1, or without all of them."""
        dims = [i for i, s in enumerate(self.shape) if s == 1] if dim is None else [self._front(i) for i in size(dim)]
        if len(dims) != 1:
            out: Any = self
            for i in sorted({*dims}, reverse=True):
                out = out.squeeze(i)
            return out
        dim = dims[0]
        if self.shape[dim] != 1:
            return self
        if dim == self.dim:
            return self.parts[0]
        return self._like([p.squeeze(self._inner(dim)) for p in self.parts], self.dim - (dim < self.dim))

    def expand(self, *shape: Any) -> Any:
        """More dimensions in front, and dimensions of size 1 made larger."""
        want = varargs(shape)
        at = len(want) - len(self.shape) + self.dim
        parts = self.parts * want[at] if len(self.parts) == 1 and at >= 0 and want[at] > 1 else self.parts
        if len(want) < len(self.shape) or want[at] not in (-1, len(parts)):
            raise ShapeError(
                f"{self._who}: cannot be expanded to {list(want)}; the stacked dimension keeps its {len(parts)} parts"
            )
        rest = (*want[:at], *want[at + 1 :])
        lead = len(rest) - len(parts[0].shape)

        def grown(part: Any) -> Any:
            return part.expand([part.shape[i - lead] if s == -1 and i >= lead else s for i, s in enumerate(rest)])

        return self._like([grown(part) for part in parts], at)

    def permute(self, *dims: Any) -> Any:
        """The dimensions in another order."""
        order = [self._front(d) for d in varargs(dims)]
        if sorted(order) != list(range(len(self.shape))):
            raise ShapeError(f"{self._who}.permute: expected an order of its dimensions, got {list(varargs(dims))}")
        inner = [self._inner(d) for d in order if d != self.dim]
        return self._like([p.permute(inner) for p in self.parts], order.index(self.dim))

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        """The specs along one dimension."""
        dim = self._front(dim)
        if dim == self.dim:
            return tuple(self.parts)
        if self.shape[dim] < 0:
            raise ShapeError(
                f"{self._who}.unbind: the parts have different sizes along dimension {dim}; unbind the parts"
            )
        columns = [p.unbind(self._inner(dim)) for p in self.parts]
        return tuple(self._like(list(row), self.dim - (dim < self.dim)) for row in zip(*columns, strict=True))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Any:
        """Several dimensions, all before or all after the stacked one, as one."""
        start, end = self._front(start_dim), self._front(end_dim)
        if start > end:
            raise ShapeError(f"{self._who}.flatten: dimension {start_dim} comes behind dimension {end_dim}; swap them")
        if start <= self.dim <= end:
            return self if start == end else self._refuse(f"flatten({start_dim}, {end_dim})")
        parts = [p.flatten(self._inner(start), self._inner(end)) for p in self.parts]
        return self._like(parts, self.dim - (end - start if end < self.dim else 0))

    def unflatten(self, dim: int, sizes: Any) -> Any:
        """One dimension, not the stacked one, as several."""
        dim = self._front(dim)
        if dim == self.dim:
            self._refuse(f"unflatten({dim}, {list(sizes)})")
        parts = [p.unflatten(self._inner(dim), sizes) for p in self.parts]
        return self._like(parts, self.dim + (len(sizes) - 1 if dim < self.dim else 0))

    def reshape(self, *shape: Any) -> Any:
        """Other dimensions before, or behind, the stacked one."""
        want, n = varargs(shape), len(self.parts)
        before, behind = self.shape[: self.dim], self.shape[self.dim + 1 :]
        at = len(want) - len(behind) - 1
        if at >= 0 and want[at] == n and want[at + 1 :] == behind:
            return self._like([p.reshape(*want[:at], *p.shape[self.dim :]) for p in self.parts], at)
        if want[: self.dim + 1] == (*before, n):
            return self._like([p.reshape(*p.shape[: self.dim], *want[self.dim + 1 :]) for p in self.parts], self.dim)
        return self._refuse(f"reshape to {list(want)}")

    view = reshape

    def make_neg_dim(self, dim: int) -> Any:
        """Says, in place, that the size of one dimension, not the stacked one, is not known in advance."""
        dim = self._front(dim)
        if dim == self.dim:
            raise Unsupported(f"{self._who}.make_neg_dim: the number of parts is known; take another dimension")
        for part in self.parts:
            part.make_neg_dim(self._inner(dim))
        return self

    def _at(self, index: Any) -> Any:
        """``self[index]``: what meets the stacked dimension picks parts, the rest goes to the parts."""
        index = spelled_out(index, self.shape, self._who)
        if sum(isinstance(i, (Tensor, bool)) for i in index) > 1:
            raise Unsupported(f"{self._who}: expected at most one tensor or list in an index, got {index}; index twice")
        rest, chosen, source, dim = [], None, 0, self.dim
        for i in index:
            used = consumes(i)
            if source <= self.dim < source + used:
                if used > 1:
                    self._refuse("an index by a mask of several dimensions")
                chosen = i
            else:
                dim += _added(i) if source <= self.dim and chosen is None else 0
                rest.append(i)
            source += used
        tail = tuple(rest)
        parts = [part[tail] if tail else part for part in self.parts]
        if chosen is None:
            return self._like(parts, dim)
        return self._pick(parts, chosen, dim)

    def _pick(self, parts: list[Any], chosen: Any, dim: int) -> Any:
        """The parts that an int, a slice or a tensor chooses."""
        if isinstance(chosen, Tensor) and chosen.dtype == torch.bool:
            chosen = chosen.nonzero().flatten()
        if isinstance(chosen, Tensor) and chosen.ndim > 1:
            self._refuse("an index by a tensor of several dimensions")
        numbers = range(len(parts))[chosen] if isinstance(chosen, slice) else chosen
        numbers = numbers.tolist() if isinstance(numbers, Tensor) else numbers
        return parts[numbers] if isinstance(numbers, int) else self._like([parts[i] for i in numbers], dim)

    def clone(self) -> Any:
        """A copy that shares no memory."""
        return self._like([p.clone() for p in self.parts], self.dim)

    def to(self, dest: Any) -> Any:
        """The parts on another device, or with another dtype."""
        return self if dest is None else self._like([p.to(dest) for p in self.parts], self.dim)

    def cardinality(self) -> float:
        """The product over the parts."""
        return prod(p.cardinality() for p in self.parts)

    def enumerate(self, use_mask: bool = False) -> Any:
        """Not for stacks: the parts have different values."""
        raise Unsupported(f"{self._who}.enumerate: the parts have different values; enumerate the parts")

    def _values_of(self, value: Any) -> list[Any] | None:
        """One value per part; None when the value has another number of parts."""
        if isinstance(value, (list, tuple)):
            values = list(value)
        elif isinstance(value, Tensor) and value.is_nested:
            values = list(value.unbind(0))
        elif not hasattr(value, "unbind") or len(value.shape) < len(self.shape):
            return None
        else:
            values = list(value.unbind(len(value.shape) - len(self.shape) + self.dim))
        return values if len(values) == len(self.parts) else None

    def _pairs(self, value: Any, verb: str) -> list[tuple[Any, Any]]:
        """Every part with its value."""
        values = self._values_of(value)
        if values is None:
            kind = type(value).__name__
            ragged = isinstance(value, (list, tuple)) or (isinstance(value, Tensor) and value.is_nested)
            got = f"{kind} of {len(value)}" if ragged else f"{kind} {list(getattr(value, 'shape', []))}"
            raise ShapeError(
                f"{self._who}.{verb}: expected {len(self.parts)} parts along the stacked dimension, got {got}"
            )
        return list(zip(self.parts, values, strict=True))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LazyStack)
            and type(other) is type(self)
            and (self.dim, self.parts) == (other.dim, other.parts)
        )

    __hash__ = None  # type: ignore[assignment]


def _added(index: Any) -> int:
    """By how much one part of an index changes the number of dimensions in front of the stacked one."""
    if isinstance(index, (int, slice)) and not isinstance(index, bool):
        return 0 if isinstance(index, slice) else -1
    return index.ndim - 1 if isinstance(index, Tensor) and index.dtype != torch.bool else 1 - consumes(index)
