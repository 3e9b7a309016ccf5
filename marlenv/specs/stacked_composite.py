"""Unequal composites side by side: agents that see or do different things."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, TensorDictBase
from torch import Size

from marlenv.errors import KeyMissing, ShapeError, SpecTypeError, Unsupported, nearest
from marlenv.keys import NestedKey
from marlenv.specs.base import TensorSpec
from marlenv.specs.composite import Composite
from marlenv.specs.composite_values import look, one_for_all
from marlenv.specs.lazy_stack import LazyStack
from marlenv.specs.shapes import ShapeLike, fits, size


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
        if any(name not in part for part in self.parts):
            own = [i for i, part in enumerate(self.parts) if name in part]
            hint = f"only the parts {own} have it" if own else nearest(name, self._names_of_entries())
            raise KeyMissing(f"StackedComposite: no entry {name!r} in all parts; {hint}")
        from marlenv.specs.dispatch import stack

        if (view := self._nested_at(name)) is not None:
            return view
        specs = [part[name] for part in self.parts]
        return None if all(spec is None for spec in specs) else stack(specs, self.dim)

    def _nested_at(self, name: str) -> StackedComposite | None:
        """The nested composites of the parts; what is written into them reaches the parts."""
        specs = [part._nested_at(name) for part in self.parts]
        if not all(isinstance(spec, Composite) for spec in specs):
            return None
        view = self._like(specs, self.dim)
        view._locked = self._locked
        return view

    def __setitem__(self, key: NestedKey, spec: Any) -> None:
        self._refuse_if_locked(f"set {key!r} in")
        if isinstance(spec, Mapping) and not isinstance(spec, TensorSpec):
            spec = Composite(spec, shape=self.shape)
        if not isinstance(spec, (TensorSpec, type(None))):
            raise SpecTypeError(
                f"StackedComposite: entry {key!r} must be a spec, a mapping or None, got {type(spec).__name__}"
            )
        if spec is not None and not fits(spec.shape[: len(self.shape)], self.shape):
            raise ShapeError(
                f"StackedComposite: the shape of entry {key!r} must begin with the batch size {list(self.shape)}, got "
                f"{list(spec.shape)}"
            )
        own = [None] * len(self.parts) if spec is None else spec.unbind(self.dim)
        for part, one in zip(self.parts, own, strict=True):
            part[key] = None if one is None else one.clone()

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
                part.update(other.clone())
            return self
        for name, spec in dict_or_spec.items():
            if isinstance(spec, (Mapping, Composite)) and name in self:
                whole = spec if isinstance(spec, Composite) else Composite(spec, shape=self.shape)
                for part, own in zip(self.parts, whole.unbind(self.dim), strict=True):
                    part[name].update(own.clone())
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
        rows = [getattr(part, verb)(one) for part, one in self._pairs(val, verb)]
        dim = val.ndim - len(self.shape) + self.dim
        if isinstance(val, LazyStackedTensorDict) and val.stack_dim == dim:
            return val
        if self._ragged():
            raise ShapeError(
                f"{self._who}.{verb}: entries that differ between the parts need a lazy stack along dimension {dim}, "
                f"got a "
                f"{type(val).__name__}; take LazyStackedTensorDict(*parts, stack_dim={dim})"
            )
        return val.update(LazyStackedTensorDict(*rows, stack_dim=dim))

    def _ragged(self) -> bool:
        """Whether the parts have entries of their own, or of sizes of their own."""
        sizes = [{key: leaf and tuple(leaf.shape) for key, leaf in part.items(True, True)} for part in self.parts]
        return any(one != sizes[0] for one in sizes)

    def encode(self, val: Any, *, ignore_device: bool = False) -> Any:
        """A lazy stack from a list with one nested dict per part, or from what :meth:`to_numpy` gives."""
        if isinstance(val, Mapping):
            val = self._by_part(val)
        pairs = self._pairs(val, "encode")
        data = [p.encode(v, ignore_device=ignore_device) for p, v in pairs]
        ndim = len(self.parts[0].shape)
        leads = [one.shape[: one.ndim - ndim] for one in data]
        lead = max(leads, key=len)
        if any(own != lead and (own or not one_for_all(one)) for own, one in zip(leads, data, strict=True)):
            raise ShapeError(
                f"{self._who}.encode: the parts must have the same leading dimensions, got {[list(o) for o in leads]}"
            )
        rows = [one if own == lead else one.expand(*lead, *one.shape) for own, one in zip(leads, data, strict=True)]
        return LazyStackedTensorDict(*rows, stack_dim=len(lead) + self.dim)

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """A nested dict of what simulators take, each entry along the stacked dimension.

        An entry of different sizes or dtypes, or one that only some parts have, is a list with one item per part, None
        where it is missing.
        """
        if safe:
            self.assert_is_in(val)
        rows = [row for _, row in self._pairs(val, "to_numpy")]
        dim = val.ndim - len(self.shape) + self.dim
        out: dict[str, Any] = {}
        for name in dict.fromkeys(name for part in self.parts for name in part):
            own = [(part.get(name, None), look(row, name)) for part, row in zip(self.parts, rows, strict=True)]
            if all(isinstance(spec, Composite) and one is not None for spec, one in own):
                out[name] = self._entry(name).to_numpy(LazyStackedTensorDict(*[one for _, one in own], stack_dim=dim))
                continue
            items: list[Any] = [None if spec is None or one is None else spec.to_numpy(one) for spec, one in own]
            dense = all(isinstance(i, np.ndarray) for i in items) and len({(i.shape, i.dtype) for i in items}) == 1
            out[name] = np.stack(items, dim) if dense else items
        return out

    def _by_part(self, val: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What :meth:`to_numpy` gives, taken apart again."""
        rows: list[dict[str, Any]] = [{} for _ in self.parts]
        for name, value in val.items():
            below = self._nested_at(name) if all(name in part for part in self.parts) else None
            if below is not None and isinstance(value, Mapping):
                items: Any = below._by_part(value)
            elif isinstance(value, np.ndarray):
                first = self.parts[0][name]
                lead = value.ndim - 1 - np.ndim(first.to_numpy(first.zero()))
                items = np.moveaxis(value, lead + self.dim, 0)
            else:
                items = value
            for row, item in zip(rows, items, strict=True):
                if item is not None:
                    row[name] = item
        return rows

    def clear_device_(self) -> Self:
        """Forgets the device, here and in the parts."""
        self._device = None
        for part in self.parts:
            part.clear_device_()
        return self

    def _nested(self) -> list[Any]:
        return self.parts
