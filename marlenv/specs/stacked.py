"""Lazy stacks of unequal specs: agents that see or do different things, side by side."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NoReturn, Self

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.errors import KeyMissing, ShapeError, SpecError, Unsupported, nearest
from marlenv.keys import NestedKey
from marlenv.specs.base import ShapeLike, TensorSpec, fits, size, varargs
from marlenv.specs.composite import Composite
from marlenv.specs.indexing import spelled_out


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
            raise IndexError(f"{who}: dimension {dim} is out of range for {ndim} dimensions, the stacked one included")
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
            raise IndexError(f"{self._who}: dimension {dim} is out of range for {len(self.shape) + extra} dimensions")
        return front

    def _inner(self, dim: int) -> int:
        """The number of one of our dimensions, not the stacked one, in the parts."""
        return dim if dim < self.dim else dim - 1

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
        if not isinstance(dim, int):
            out: Any = self
            for i in sorted((i for i, s in enumerate(self.shape) if s == 1) if dim is None else dim, reverse=True):
                out = out.squeeze(i)
            return out
        dim = self._front(dim)
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
        if isinstance(index, Tensor) and index.dtype == torch.bool and index.ndim > 1:
            self._refuse("an index by a mask of several dimensions")
        index = spelled_out(index, self.shape, self._who)
        if sum(isinstance(i, Tensor) for i in index) > 1:
            raise Unsupported(f"{self._who}: expected at most one tensor or list in an index, got {index}; index twice")
        rest, chosen, source, dim = [], None, 0, self.dim
        for i in index:
            if i is not None and source == self.dim:
                chosen, source = i, source + 1
                continue
            dim += _added(i) if source <= self.dim and chosen is None else 0
            source += i is not None
            rest.append(i)
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
        if any(not -len(parts) <= i < len(parts) for i in ([numbers] if isinstance(numbers, int) else numbers)):
            raise IndexError(f"{self._who}: index {numbers} is out of range for {len(parts)} parts")
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


class Stacked(LazyStack, TensorSpec):
    """Unequal leaves side by side along ``dim``; sizes that differ are -1 in ``shape``.

    Made by ``torch.stack`` from specs whose domains cannot be merged. Values are a dense tensor when the parts have the
    same shape, else a nested tensor.

    Args:
        *specs: the parts, with the same dtype, device and number of dimensions.
        dim: where the new dimension stands.

    Raises:
        SpecError: the parts do not go together.

    >>> torch.stack([Categorical(3), Categorical(5)]).is_in(torch.tensor([2, 4]))
    True
    """

    def __init__(self, *specs: TensorSpec, dim: int) -> None:
        self.dim = self._checked(specs, dim)
        if len({(s.dtype, s.device) for s in specs}) != 1:
            raise SpecError(f"Stacked: the specs must have one dtype and one device, got {[repr(s) for s in specs]}")
        self.parts = list(specs)
        self.dtype, self._device = specs[0].dtype, specs[0].device
        self.domain = specs[0].domain

    def _like(self, parts: list[Any], dim: int) -> Stacked:
        return Stacked(*parts, dim=dim)

    @property
    def shape(self) -> Size:  # type: ignore[override]
        """The shape of the parts with their number at the stacked dimension."""
        return self._stack_shape()

    @property
    def batch_ndim(self) -> int:
        """The batch dimensions of the parts and the stacked one."""
        return int(self.parts[0].batch_ndim) + 1

    def __getitem__(self, index: Any) -> Any:
        return self._at(index)

    def _join(self, values: list[Any], lead: int) -> Any:
        if not isinstance(values[0], Tensor) or len({v.shape for v in values}) == 1:
            return torch.stack(values, lead + self.dim)
        if lead + self.dim == 0:
            with warnings.catch_warnings(action="ignore"):  # it calls itself a prototype
                return torch.nested.nested_tensor(values)
        raise Unsupported(
            f"{self._who}: values of different shapes cannot be one tensor with leading dimensions; stack Composites "
            f"instead of leaves, or pad the specs (marlenv.groups.group_specs(..., unequal='pad'))"
        )

    def _lead_of(self, value: Any) -> int:
        """How many dimensions a value has in front of ours."""
        return 0 if isinstance(value, Tensor) and value.is_nested else len(value.shape) - len(self.shape)

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
        raise Unsupported(f"{self._who}.from_unit: its parts take numbers of their own; draw with rand()")

    def is_in(self, val: Any) -> bool:
        """Whether every part of ``val`` is in its spec."""
        if val is None or (isinstance(val, Tensor) and val.dtype != self.dtype):
            return False
        values = self._values_of(val)
        return values is not None and all(p.is_in(v) for p, v in zip(self.parts, values, strict=True))

    contains = is_in

    def _holds(self, value: Any) -> bool:
        return self.is_in(value)

    def project(self, val: Any) -> Any:
        """The parts of ``val`` projected one by one, and stacked again."""
        if self.is_in(val):
            return val
        return self._join([p.project(v) for p, v in self._pairs(val, "project")], self._lead_of(val))

    def _project(self, value: Any) -> Any:
        return self.project(value)

    def encode(self, val: Any, *, ignore_device: bool = False) -> Any:
        """The encoded parts, stacked: of a list with one value per part, or of an array ``[..., *shape]``."""
        if isinstance(val, np.ndarray):
            val = torch.tensor(val)
        pairs = self._pairs(val, "encode")
        lead = 0 if isinstance(val, (list, tuple)) else self._lead_of(val)
        return self._join([p.encode(v, ignore_device=ignore_device) for p, v in pairs], lead)

    def to_numpy(self, val: Any, safe: bool | None = None) -> list[Any]:
        """One array per part."""
        return [p.to_numpy(v, safe) for p, v in self._pairs(val, "to_numpy")]

    def _detail(self) -> str:
        return f"{len(self.parts)} x {type(self.parts[0]).__name__}"


class StackedComposite(LazyStack, Composite):
    """Unequal composites side by side along ``dim``; values are lazily stacked tensordicts.

    Only the entries that all parts have are listed and read; every part keeps its own besides
    (``spec[0]``, :meth:`repr_exclusive_keys`).

    Args:
        *specs: the parts, with the same number of batch dimensions.
        dim: where the new dimension stands.

    >>> spec = torch.stack([Composite(obs=Unbounded((2,))), Composite(obs=Unbounded((3,)))])
    >>> spec["obs"].shape, spec.zero()[1]["obs"].shape
    (torch.Size([2, -1]), torch.Size([3]))
    """

    def __init__(self, *specs: Composite, dim: int) -> None:
        self.dim, self.parts = self._checked(specs, dim), list(specs)
        devices = {s.device for s in specs}
        self._init_state(self._stack_shape(), devices.pop() if len(devices) == 1 else None, None, False)

    def _like(self, parts: list[Any], dim: int) -> StackedComposite:
        return StackedComposite(*parts, dim=dim)

    @property
    def shape(self) -> Size:
        """The batch size."""
        return self._stack_shape()

    @shape.setter
    def shape(self, value: ShapeLike) -> None:
        if size(value) != self.shape:
            raise Unsupported(f"{self._who}: cannot have shape {list(size(value))}; change the shape of the parts")

    batch_size = shape

    @property
    def _shape(self) -> Size:
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
            raise KeyMissing(f"StackedComposite: no entry {name!r} in all parts; {hint}")
        from marlenv.specs.dispatch import stack

        specs = [part[name] for part in self.parts]
        return None if all(spec is None for spec in specs) else stack(specs, self.dim)

    def __setitem__(self, key: NestedKey, spec: Any) -> None:
        self._refuse_if_locked(f"set {key!r} in")
        if isinstance(spec, Mapping) and not isinstance(spec, TensorSpec):
            spec = Composite(spec, shape=self.shape)
        if not isinstance(spec, (TensorSpec, type(None))):
            raise SpecError(
                f"StackedComposite: entry {key!r} must be a spec, a mapping or None, got {type(spec).__name__}"
            )
        if spec is not None and not fits(spec.shape[: len(self.shape)], self.shape):
            raise ShapeError(
                f"StackedComposite: the shape of entry {key!r} must begin with the batch size {list(self.shape)}, got "
                f"{list(spec.shape)}"
            )
        own = [None] * len(self.parts) if spec is None else spec.unbind(self.dim)
        for part, one in zip(self.parts, own, strict=True):
            part[key] = one

    def __delitem__(self, key: NestedKey) -> None:
        self._refuse_if_locked(f"delete {key!r} from")
        having = [part for part in self.parts if key in part]
        if not having:
            raise KeyMissing(f"StackedComposite: no entry {key!r} in any part; all have {self._names_of_entries()}")
        for part in having:
            del part[key]

    def repr_exclusive_keys(self) -> str:
        """The entries that only some parts have, by part."""
        shared = set(self._names_of_entries())
        own = {i: [n for n in part if n not in shared] for i, part in enumerate(self.parts)}
        return "\n".join(f"{i} -> {names}" for i, names in own.items() if names)

    def empty(self) -> Any:
        """The stack without entries."""
        return self._like([p.empty() for p in self.parts], self.dim)

    def update(self, dict_or_spec: Mapping[str, Any] | Composite) -> Any:
        """Writes all entries of another composite, or of a mapping, each ``[*shape, ...]``; nested ones are merged."""
        self._refuse_if_locked("update")
        if isinstance(dict_or_spec, Composite) and dict_or_spec.shape == self.shape:
            for part, other in zip(self.parts, dict_or_spec.unbind(self.dim), strict=True):
                part.update(other)
            return self
        for name, spec in dict_or_spec.items():
            if isinstance(spec, (Mapping, Composite)) and name in self:
                whole = spec if isinstance(spec, Composite) else Composite(spec, shape=self.shape)
                for part, own in zip(self.parts, whole.unbind(self.dim), strict=True):
                    part[name].update(own)
            else:
                self[name] = spec
        return self

    def _collect(self, make: Callable[[TensorSpec], Any], lead: Size) -> Any:
        return LazyStackedTensorDict(*[p._collect(make, lead) for p in self.parts], stack_dim=len(lead) + self.dim)

    def is_in(self, val: Any) -> bool:
        """Whether every part of ``val`` is in its spec."""
        if not isinstance(val, TensorDictBase):
            return False
        values = self._values_of(val)
        return values is not None and all(p.is_in(v) for p, v in zip(self.parts, values, strict=True))

    contains = is_in

    def assert_is_in(self, value: Any) -> None:
        """Raises :class:`~marlenv.errors.NotInSpec` naming the first entry that is outside its spec."""
        for i, (part, one) in enumerate(self._pairs(value, "assert_is_in")):
            try:
                part.assert_is_in(one)
            except AssertionError as error:
                error.add_note(f"in part {i} along dimension {self.dim}")
                raise

    def type_check(self, value: Any, selected_keys: Any = None) -> None:
        """Raises :class:`~marlenv.errors.DtypeError` unless all entries have their dtype."""
        for part, one in self._pairs(value, "type_check"):
            part.type_check(one, selected_keys)

    def project(self, val: Any) -> Any:
        """Projects every part of ``val``, in place when it is a lazy stack."""
        if self.is_in(val):
            return val
        parts = [part.project(one) for part, one in self._pairs(val, "project")]
        dim = val.ndim - len(self.shape) + self.dim
        return val if isinstance(val, LazyStackedTensorDict) and val.stack_dim == dim else torch.stack(parts, dim)

    def rand_update(self, val: TensorDictBase) -> TensorDictBase:
        """Overwrites the entries of the spec in ``val`` with random values; others stay."""
        return self._each_part(val, "rand_update")

    def zeros_update(self, val: TensorDictBase) -> TensorDictBase:
        """Overwrites the entries of the spec in ``val`` with zeros; others stay."""
        return self._each_part(val, "zeros_update")

    def ones_update(self, val: TensorDictBase) -> TensorDictBase:
        """Overwrites the entries of the spec in ``val`` with ones; others stay."""
        return self._each_part(val, "ones_update")

    def _each_part(self, val: TensorDictBase, verb: str) -> TensorDictBase:
        for part, one in self._pairs(val, verb):
            getattr(part, verb)(one)
        return val

    def encode(self, val: Any, *, ignore_device: bool = False) -> Any:
        """A lazy stack from a list with one nested dict per part."""
        pairs = self._pairs(val, "encode")
        data = [p.encode(v, ignore_device=ignore_device) for p, v in pairs]
        return LazyStackedTensorDict(*data, stack_dim=data[0].ndim - len(self.parts[0].shape) + self.dim)

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """One nested dict per part."""
        return [p.to_numpy(v, safe) for p, v in self._pairs(val, "to_numpy")]

    def clear_device_(self) -> Self:
        """Forgets the device, here and in the parts."""
        self._device = None
        for part in self.parts:
            part.clear_device_()
        return self

    def _nested(self) -> list[Any]:
        return self.parts


def _added(index: Any) -> int:
    """By how much one part of an index changes the number of dimensions in front of the stacked one."""
    if index is None:
        return 1
    if isinstance(index, int) and not isinstance(index, bool):
        return -1
    return index.ndim - 1 if isinstance(index, Tensor) and index.dtype != torch.bool else 0
