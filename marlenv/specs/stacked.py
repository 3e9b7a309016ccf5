"""Lazy stacks of unequal specs: agents that see or do different things, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, Self

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.errors import KeyMissing, ShapeError, SpecError, Unsupported, nearest
from marlenv.specs.base import Reshape, ShapeLike, TensorSpec, size, varargs
from marlenv.specs.composite import Composite


class LazyStack:
    """The shape algebra of a stack: every operation is one on the parts, with the dimensions renumbered. Abstract."""

    parts: list[Any]
    dim: int
    shape: Size

    def _like(self, parts: list[Any], dim: int) -> Any:
        return type(self)(*parts, dim=dim)  # type: ignore[call-arg]

    def _stack_shape(self) -> Size:
        shapes = [part.shape for part in self.parts]
        if len({len(s) for s in shapes}) != 1:
            raise ShapeError(
                f"{type(self).__name__}: the parts must have the same number of dimensions, got {list(map(list, shapes))}"
            )
        merged = [sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*shapes, strict=True)]
        return Size((*merged[: self.dim], len(self.parts), *merged[self.dim :]))

    def _front(self, dim: int, extra: int = 0) -> int:
        front = dim + len(self.shape) + extra if dim < 0 else dim
        if not 0 <= front < len(self.shape) + extra:
            raise IndexError(f"{type(self).__name__} of shape {list(self.shape)}: dimension {dim} is out of range")
        return front

    def _map(self, reshape: Reshape, **changes: Any) -> Any:
        raise Unsupported(
            f"{type(self).__name__}: this shape operation needs equal parts; pad them, or act on the parts"
        )

    def unsqueeze(self, dim: int) -> Any:
        """A new dimension of size 1."""
        dim = self._front(dim, extra=1)
        if dim <= self.dim:
            return self._like([p.unsqueeze(dim) for p in self.parts], self.dim + 1)
        return self._like([p.unsqueeze(dim - 1) for p in self.parts], self.dim)

    def squeeze(self, dim: int | None = None) -> Any:
        """Without one dimension of size 1, or without all of them."""
        if dim is None:
            ones = [i for i, s in enumerate(self.shape) if s == 1]
            out: Any = self
            for i in reversed(ones):
                out = out.squeeze(i)
            return out
        dim = self._front(dim)
        if self.shape[dim] != 1:
            return self
        if dim == self.dim:
            return self.parts[0]
        before = dim < self.dim
        return self._like([p.squeeze(dim if before else dim - 1) for p in self.parts], self.dim - before)

    def expand(self, *shape: Any) -> Any:
        """More dimensions in front, and dimensions of size 1 made larger."""
        want = varargs(shape)
        at = len(want) - len(self.shape) + self.dim
        if len(want) < len(self.shape) or want[at] not in (-1, len(self.parts)):
            raise ShapeError(f"{type(self).__name__} of shape {list(self.shape)}: cannot be expanded to {list(want)}")
        rest = (*want[:at], *want[at + 1 :])
        lead = len(rest) - len(self.parts[0].shape)
        grown = []
        for part in self.parts:
            sizes = [part.shape[i - lead] if s == -1 and i >= lead else s for i, s in enumerate(rest)]
            grown.append(part.expand(*sizes))
        return self._like(grown, at)

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        """The specs along one dimension."""
        dim = self._front(dim)
        if dim == self.dim:
            return tuple(self.parts)
        before = dim < self.dim
        columns = [p.unbind(dim if before else dim - 1) for p in self.parts]
        return tuple(self._like(list(row), self.dim - before) for row in zip(*columns, strict=True))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Any:
        """Several dimensions, all before or all after the stacked one, as one."""
        start, end = self._front(start_dim), self._front(end_dim)
        if end < self.dim:
            return self._like([p.flatten(start, end) for p in self.parts], self.dim - (end - start))
        if start > self.dim:
            return self._like([p.flatten(start - 1, end - 1) for p in self.parts], self.dim)
        return self._map(lambda t: t)

    def unflatten(self, dim: int, sizes: Any) -> Any:
        """One dimension, not the stacked one, as several."""
        dim = self._front(dim)
        if dim == self.dim:
            return self._map(lambda t: t)
        before = dim < self.dim
        parts = [p.unflatten(dim if before else dim - 1, sizes) for p in self.parts]
        return self._like(parts, self.dim + (len(sizes) - 1 if before else 0))

    def _at(self, index: Any) -> Any:
        """``self[index]``: the part of the index that meets the stacked dimension picks parts, the rest goes to them."""
        index = index if isinstance(index, tuple) else (index,)
        taken = sum(i is not None and i is not Ellipsis for i in index)
        if any(i is Ellipsis for i in index):
            at = next(k for k, i in enumerate(index) if i is Ellipsis)
            index = (*index[:at], *[slice(None)] * (len(self.shape) - taken), *index[at + 1 :])
        rest, chosen, source, dim = [], None, 0, self.dim
        for i in index:
            if i is None:
                dim += source <= self.dim and chosen is None
            elif source == self.dim:
                chosen, source = i, source + 1
                continue
            else:
                dim += _added(i) if source < self.dim else 0
                source += 1
            rest.append(i)
        tail = tuple(rest)
        pick = (lambda part: part[tail]) if tail else (lambda part: part)
        if chosen is None:
            return self._like([pick(p) for p in self.parts], dim)
        if isinstance(chosen, int):
            return pick(self.parts[chosen])
        chosen = range(len(self.parts))[chosen] if isinstance(chosen, slice) else torch.as_tensor(chosen)
        if isinstance(chosen, Tensor):
            chosen = chosen.nonzero().flatten().tolist() if chosen.dtype == torch.bool else chosen.tolist()
        return self._like([pick(self.parts[i]) for i in chosen], dim)

    def clone(self) -> Any:
        """A copy that shares no memory."""
        return self._like([p.clone() for p in self.parts], self.dim)

    def to(self, dest: Any) -> Any:
        """The parts on another device, or with another dtype."""
        return self._like([p.to(dest) for p in self.parts], self.dim)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.dim == other.dim and self.parts == other.parts  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]


class Stacked(LazyStack, TensorSpec):
    """Unequal leaves side by side along ``dim``; sizes that differ are -1 in ``shape``.

    Made by ``torch.stack`` from specs whose domains cannot be merged. Values are a dense tensor when the parts have the
    same shape, else a nested tensor.

    >>> torch.stack([Categorical(3), Categorical(5)]).is_in(torch.tensor([2, 4]))
    True
    """

    def __init__(self, *specs: TensorSpec, dim: int) -> None:
        self.parts = list(specs)
        kinds = {(s.dtype, s.device) for s in specs}
        if len(kinds) != 1:
            raise SpecError(f"Stacked: the specs must have one dtype and one device, got {[repr(s) for s in specs]}")
        self.dim = dim + len(specs[0].shape) + 1 if dim < 0 else dim
        self.shape = self._stack_shape()
        self.dtype, self._device = specs[0].dtype, specs[0].device
        self.domain = specs[0].domain

    @property
    def batch_ndim(self) -> int:
        """The batch dimensions of the parts and the stacked one."""
        return self.parts[0].batch_ndim + 1

    def __getitem__(self, index: Any) -> Any:
        return self._at(index)

    def _join(self, values: list[Any], lead: int) -> Any:
        if len({v.shape for v in values}) == 1:
            return torch.stack(values, lead + self.dim)
        if lead + self.dim == 0:
            return torch.nested.nested_tensor(values)
        raise Unsupported(
            f"{self!r}: values of different shapes cannot be one tensor with leading dimensions; stack Composites "
            f"instead of leaves, or pad the specs (marlenv.groups.group_specs(..., unequal='pad'))"
        )

    def _parts_of(self, value: Any) -> list[Any]:
        if value.is_nested:
            return list(value.unbind(0))
        return list(value.unbind(value.ndim - len(self.shape) + self.dim))

    def rand(self, shape: ShapeLike = None, *, rng: Any = None) -> Any:
        """A random value of every part, stacked."""
        lead = size(shape)
        return self._join([p.rand(lead, rng=rng) for p in self.parts], len(lead))

    def zero(self, shape: ShapeLike = None) -> Any:
        """The zeros of every part, stacked."""
        lead = size(shape)
        return self._join([p.zero(lead) for p in self.parts], len(lead))

    def one(self, shape: ShapeLike = None) -> Any:
        """The ones of every part, stacked."""
        lead = size(shape)
        return self._join([p.one(lead) for p in self.parts], len(lead))

    sample, zeros, ones = rand, zero, one

    def from_unit(self, unit: Tensor, mask: Tensor | None = None) -> Any:
        lead = unit.ndim - len(self.shape)
        units = unit.unbind(lead + self.dim)
        masks = [None] * len(units) if mask is None else mask.unbind(lead + self.dim)
        return self._join([p.from_unit(u, m) for p, u, m in zip(self.parts, units, masks, strict=True)], lead)

    def is_in(self, val: Any) -> bool:
        """Whether every part of ``val`` is in its spec."""
        if not isinstance(val, Tensor) or val.dtype != self.dtype or (not val.is_nested and val.ndim < len(self.shape)):
            return False
        values = self._parts_of(val)
        return len(values) == len(self.parts) and all(p.is_in(v) for p, v in zip(self.parts, values, strict=True))

    contains = is_in

    def _holds(self, value: Any) -> bool:
        return self.is_in(value)

    def _project(self, value: Any) -> Any:
        parts = [p.project(v) for p, v in zip(self.parts, self._parts_of(value), strict=True)]
        return self._join(parts, 0 if value.is_nested else value.ndim - len(self.shape))

    def encode(self, val: Any, *, ignore_device: bool = False) -> Any:
        """The encoded parts of a sequence, stacked."""
        values = self._parts_of(val) if isinstance(val, Tensor) else val
        return self._join(
            [p.encode(v, ignore_device=ignore_device) for p, v in zip(self.parts, values, strict=True)], 0
        )

    def to_numpy(self, val: Any, safe: bool | None = None) -> list[Any]:
        """One array per part."""
        return [p.to_numpy(v, safe) for p, v in zip(self.parts, self._parts_of(val), strict=True)]

    def cardinality(self) -> float:
        """The product over the parts."""
        return prod(p.cardinality() for p in self.parts)

    def _detail(self) -> str:
        return f"{len(self.parts)} x {type(self.parts[0]).__name__}"


class StackedComposite(LazyStack, Composite):
    """Unequal composites side by side along ``dim``; values are lazily stacked tensordicts.

    Only the entries that all parts have are listed and read; every part keeps its own besides
    (``spec[0]``, :meth:`repr_exclusive_keys`).

    >>> spec = torch.stack([Composite(obs=Unbounded((2,))), Composite(obs=Unbounded((3,)))])
    >>> spec["obs"].shape, spec.zero()[1]["obs"].shape
    (torch.Size([2, -1]), torch.Size([3]))
    """

    def __init__(self, *specs: Composite, dim: int) -> None:
        devices = {s.device for s in specs}
        dim = dim + len(specs[0].shape) + 1 if dim < 0 else dim
        self.parts, self.dim = list(specs), dim
        self._init_state(self._stack_shape(), devices.pop() if len(devices) == 1 else None, None, False)

    @property
    def shape(self) -> Size:  # type: ignore[override]
        """The batch size."""
        return self._stack_shape()

    batch_size = shape

    @property
    def _shape(self) -> Size:  # type: ignore[override]
        return self._stack_shape()

    @_shape.setter
    def _shape(self, value: Size) -> None:
        pass  # follows from the parts

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str) or (
            isinstance(index, tuple) and index and all(isinstance(i, (str, tuple)) for i in index)
        ):
            return Composite.__getitem__(self, index)
        return self._at(index)

    def _names_of_entries(self) -> list[str]:
        return [name for name in self.parts[0] if all(name in part for part in self.parts[1:])]

    def _entry(self, name: str) -> Any:
        if name not in self._names_of_entries():
            own = [i for i, part in enumerate(self.parts) if name in part]
            hint = f"only the parts {own} have it" if own else nearest(name, self._names_of_entries())
            raise KeyMissing(f"StackedComposite: no entry {name!r}; {hint}")
        from marlenv.specs.dispatch import stack

        return stack([part[name] for part in self.parts], self.dim)

    def _write(self, name: str, spec: TensorSpec | None) -> None:
        parts = [None] * len(self.parts) if spec is None else spec.unbind(self.dim)
        for part, one in zip(self.parts, parts, strict=True):
            part[name] = one

    def _erase(self, name: str) -> None:
        for part in self.parts:
            del part[name]

    def repr_exclusive_keys(self) -> str:
        """The entries that only some parts have, by part."""
        shared = set(self._names_of_entries())
        own = {i: [n for n in part if n not in shared] for i, part in enumerate(self.parts)}
        return "\n".join(f"{i} -> {names}" for i, names in own.items() if names)

    def empty(self) -> Any:
        """The stack without entries."""
        return type(self)(*[p.empty() for p in self.parts], dim=self.dim)

    def update(self, dict_or_spec: Mapping[str, Any] | Composite) -> Any:
        """Updates the parts, from a stack part by part, else all with the same entries."""
        if isinstance(dict_or_spec, StackedComposite):
            for part, other in zip(self.parts, dict_or_spec.parts, strict=True):
                part.update(other)
            return self
        return super().update(dict_or_spec)

    def _collect(self, make: Callable[[TensorSpec], Any], lead: Size) -> Any:
        return LazyStackedTensorDict(*[p._collect(make, lead) for p in self.parts], stack_dim=len(lead) + self.dim)

    def _values_of_parts(self, val: TensorDictBase) -> Iterator[tuple[Composite, Any]]:
        values = val.unbind(val.ndim - len(self.shape) + self.dim)
        if len(values) != len(self.parts):
            raise ShapeError(
                f"StackedComposite: expected {len(self.parts)} parts along dimension {self.dim}, got {len(values)}"
            )
        return zip(self.parts, values, strict=True)

    def is_in(self, val: Any) -> bool:
        """Whether every part of ``val`` is in its spec."""
        return val.ndim >= len(self.shape) and all(p.is_in(v) for p, v in self._values_of_parts(val))

    contains = is_in

    def assert_is_in(self, value: Any) -> None:
        """Raises :class:`~marlenv.errors.NotInSpec` naming the first entry that is outside its spec."""
        for part, one in self._values_of_parts(value):
            part.assert_is_in(one)

    def type_check(self, value: Any, selected_keys: Any = None) -> None:
        """Raises :class:`~marlenv.errors.DtypeError` unless all entries have their dtype."""
        for part, one in self._values_of_parts(value):
            part.type_check(one, selected_keys)

    def project(self, val: Any) -> Any:
        """Projects every part of ``val``, in place."""
        for part, one in self._values_of_parts(val):
            part.project(one)
        return val

    def _fill(self, val: TensorDictBase, how: str) -> TensorDictBase:
        for part, one in self._values_of_parts(val):
            part._fill(one, how)
        return val

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """One nested dict per part."""
        return [p.to_numpy(v, safe) for p, v in self._values_of_parts(val)]

    def make_neg_dim(self, dim: int) -> Self:
        """Not for stacks: the parts already may differ."""
        raise Unsupported("StackedComposite.make_neg_dim: call it on the parts")

    def clear_device_(self) -> Self:
        """Forgets the device, here and in the parts."""
        self._device = None
        for part in self.parts:
            part.clear_device_()
        return self

    def lock_(self, recurse: bool | None = None) -> Self:
        """Refuses writing from now on, here and in the parts."""
        self._locked = True
        for part in self.parts:
            part.lock_(recurse)
        return self

    def unlock_(self, recurse: bool | None = None) -> Self:
        """Allows writing again."""
        super().unlock_(recurse)
        for part in self.parts:
            part.unlock_(recurse)
        return self


def _added(index: Any) -> int:
    """By how much one part of an index changes the number of dimensions."""
    if isinstance(index, int):
        return -1
    return index.ndim - 1 if isinstance(index, Tensor) and index.dtype != torch.bool else 0
