"""What is done with the values of a composite: tensordicts are drawn, checked, repaired and translated entry by
entry.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat
from math import prod
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, NonTensorData, TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.errors import EntryMissing, MarlenvError, NotInSpec, ShapeError, SpecTypeError, Unsupported
from marlenv.specs.base import TensorSpec
from marlenv.specs.encoding import brief
from marlenv.specs.shapes import ShapeLike, concrete, fits, size


class CompositeValues(TensorSpec):
    """The values of a :class:`~marlenv.specs.composite.Composite`. Abstract."""

    _specs: dict[str, TensorSpec | None]
    _shape: Size
    _names: list[str | None] | None
    data_cls: type | None

    @abstractmethod
    def _entry(self, name: str) -> TensorSpec | None:
        """The entry of a name."""

    @abstractmethod
    def is_empty(self, recurse: bool = False) -> bool:
        """Whether there are no entries."""

    def _collect(self, make: Callable[[TensorSpec], Any], lead: Size) -> Any:
        """A tensordict with ``make(spec)`` for every entry."""
        data = {name: make(spec) for name, spec in self._specs.items() if spec is not None}
        batch = Size((*lead, *concrete(self._shape))) if lead else concrete(self._shape)
        names = None if self._names is None else [*[None] * len(lead), *self._names]
        out = TensorDict._new_unsafe(data, batch_size=batch, device=self._device, names=names)
        return out if self.data_cls is None else self.data_cls.from_tensordict(out)  # type: ignore[attr-defined]

    def rand(self, shape: ShapeLike = None, *, rng: Any = None) -> Any:
        """A tensordict of random values; ``[*shape, *self.shape]``."""
        lead = size(shape)
        return self._collect(lambda spec: spec.rand(lead, rng=rng), lead)

    def zero(self, shape: ShapeLike = None) -> Any:
        """A tensordict of zeros; ``[*shape, *self.shape]``."""
        lead = size(shape)
        return self._collect(lambda spec: spec.zero(lead), lead)

    def one(self, shape: ShapeLike = None) -> Any:
        """A tensordict of ones; ``[*shape, *self.shape]``."""
        lead = size(shape)
        return self._collect(lambda spec: spec.one(lead), lead)

    sample, zeros, ones = rand, zero, one

    def rand_update(self, val: TensorDictBase) -> TensorDictBase:
        """Overwrites the entries of the spec in ``val`` with random values; others stay."""
        return val.update(self.rand(self._lead_of(val)))

    def zeros_update(self, val: TensorDictBase) -> TensorDictBase:
        """Overwrites the entries of the spec in ``val`` with zeros; others stay."""
        return val.update(self.zero(self._lead_of(val)))

    def ones_update(self, val: TensorDictBase) -> TensorDictBase:
        """Overwrites the entries of the spec in ``val`` with ones; others stay."""
        return val.update(self.one(self._lead_of(val)))

    def _lead_of(self, val: TensorDictBase) -> Size:
        """The dimensions of a tensordict in front of the batch size."""
        return val.batch_size[: max(0, val.ndim - self.ndim)]

    def _each(self, val: Any) -> Iterator[tuple[str, TensorSpec, Any]]:
        """Name, spec and value of every entry; the value is None where ``val`` lacks it. Empty composites need none."""
        get = val._get_str if isinstance(val, TensorDictBase) else lambda name, _: look(val, name)
        for name, spec in self._specs.items():
            if spec is None:
                continue
            value = get(name, None)
            if value is not None or not isinstance(spec, CompositeValues) or not spec.is_empty(recurse=True):
                yield name, spec, value

    def _rows_of(self, val: LazyStackedTensorDict) -> Iterator[tuple[Any, Any]]:
        """The parts of a lazy stack, each with the spec that it must be in."""
        dim, rows = val.stack_dim - val.ndim + self.ndim, val.unbind(val.stack_dim)
        if dim < 0:
            return zip(repeat(self), rows, strict=False)
        if self._shape[dim] < 0:
            return zip(repeat(self[(*[slice(None)] * dim, 0)]), rows, strict=False)
        return zip(self.unbind(dim), rows, strict=True)

    def is_in(self, val: Any) -> bool:
        """Whether every entry of the spec is within its own spec; more entries do no harm.

        Raises:
            EntryMissing: ``val`` lacks an entry of the spec.
        """
        if not (isinstance(val, Mapping) or hasattr(val, "get")):
            return False
        if self.data_cls is not None and type(val) is not self.data_cls:
            return False
        if isinstance(val, LazyStackedTensorDict):  # its entries may have different shapes
            return fits(val.batch_size, self._shape) and all(spec.is_in(row) for spec, row in self._rows_of(val))
        for name, spec, value in self._each(val):
            if value is None:
                raise self._missing(name, val, "is_in")
            with _noting(name):
                if not spec.is_in(value):
                    return False
        return True

    def _missing(self, name: str, val: Any, verb: str) -> EntryMissing:
        spec = self._entry(name)
        who = "" if spec is None else spec._who
        return EntryMissing(f"Composite.{verb}: entry {name!r} ({who}) is missing; {_entries_of(val)}")

    def assert_is_in(self, value: Any) -> None:
        """Raises :class:`~marlenv.errors.NotInSpec` naming the first entry that is missing or outside its spec."""
        if isinstance(value, LazyStackedTensorDict):
            if not fits(value.batch_size, self._shape):
                want, got = list(self._shape), list(value.batch_size)
                raise NotInSpec(f"Composite: the batch size must end in {want}, got a lazy stack of batch size {got}")
            for part, row in self._rows_of(value):
                part.assert_is_in(row)
            return
        for name, spec, one in self._each(value):
            if one is None:
                raise self._missing(name, value, "assert_is_in")
            with _noting(name):
                spec.assert_is_in(one)
        if self.data_cls is not None and type(value) is not self.data_cls:
            raise NotInSpec(f"Composite: expected a {self.data_cls.__name__}, got {type(value).__name__}")

    def type_check(self, value: Any, selected_keys: str | Sequence[str] | None = None) -> None:
        """Raises :class:`~marlenv.errors.DtypeError` unless all entries (or the selected ones) have their dtype."""
        if isinstance(selected_keys, str):
            value = {selected_keys: value} if isinstance(value, Tensor) else value
            selected_keys = [selected_keys]
        if isinstance(value, LazyStackedTensorDict):  # its entries may have different shapes
            for part, row in self._rows_of(value):
                part.type_check(row, selected_keys)
            return
        for name, spec, one in self._each(value):
            if selected_keys is None or name in selected_keys:
                if one is None:
                    raise self._missing(name, value, "type_check")
                with _noting(name):
                    spec.type_check(one)

    def project(self, val: Any) -> Any:
        """Projects every entry of ``val`` that is outside its spec, in place.

        Raises:
            EntryMissing: an entry of the spec is not in ``val``.
        """
        if isinstance(val, LazyStackedTensorDict):
            for part, row in self._rows_of(val):
                part.project(row)
            return val
        for name, spec, value in self._each(val):
            if value is None:
                raise self._missing(name, val, "project")
            with _noting(name):
                if not spec.is_in(value):
                    fixed = spec.project(value)
                    if isinstance(val, Mapping):
                        val[name] = fixed  # type: ignore[index]
                    else:
                        val.set(name, fixed)
        return val

    def encode(self, val: Mapping[str, Any], *, ignore_device: bool = False) -> Any:
        """A tensordict from a nested dict of what a simulator gives; entries without a spec are refused."""
        if not hasattr(val, "items"):
            raise SpecTypeError(f"Composite.encode: expected a mapping of {sorted(self._specs)}, got {brief(val)}")
        data: dict[str, Any] = {}
        leads: dict[str, Size] = {}
        for name, value in val.items():
            spec = self._entry(name)
            if spec is not None:
                with _noting(name):
                    data[name] = spec.encode(value, ignore_device=ignore_device)
                own = data[name].shape[: max(0, len(data[name].shape) - spec.ndim)]
                if own or not one_for_all(data[name]):
                    leads[name] = own
        lead = min(leads.values(), key=len, default=Size())
        for name, own in leads.items():
            if own != lead and prod(own) == prod(lead):  # a single value in brackets
                data[name] = data[name].reshape((*lead, *data[name].shape[len(own) :]))
            elif own != lead:
                raise ShapeError(
                    f"Composite.encode: the entries must have the same leading dimensions, got "
                    f"{ {name: list(own) for name, own in leads.items()} }"
                )
        for name in data.keys() - leads.keys() if lead else ():
            data[name] = data[name].expand(*lead, *data[name].shape)
        batch = (*lead, *concrete(self._shape))
        out = TensorDict(data, batch_size=batch, device=None if ignore_device else self._device)
        return out if self.data_cls is None else self.data_cls.from_tensordict(out)  # type: ignore[attr-defined]

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """A nested dict of what simulators take; a list of them for a lazy stack of rows that differ in size."""
        if isinstance(val, LazyStackedTensorDict) and _ragged(val):
            return [part.to_numpy(row, safe) for part, row in self._rows_of(val)]
        return {name: spec.to_numpy(one, safe) for name, spec, one in self._each(val) if one is not None}

    def from_unit(self, unit: Any, mask: Any = None) -> Any:
        raise Unsupported(f"{self._who}.from_unit: its entries take numbers of their own; draw with rand()")

    def _holds(self, value: Any) -> bool:
        return self.is_in(value)

    def _project(self, value: Any) -> Any:
        return self.project(value)

    def cardinality(self) -> float:
        """The product over the entries."""
        return prod(spec.cardinality() for spec in self._specs.values() if spec is not None)

    def enumerate(self, use_mask: bool = False) -> Any:
        """Every combination of the entries' values once; a tensordict ``[n, *shape]``."""
        listed = {name: spec.enumerate(use_mask) for name, spec in self._specs.items() if spec is not None}
        listed = {name: torch.stack(v) if isinstance(v, list) else v for name, v in listed.items()}
        counts = [len(values) for values in listed.values()]
        total = prod(counts)
        grid = torch.arange(total, device=self._device)
        data, step = {}, total
        for (name, values), count in zip(listed.items(), counts, strict=True):
            step //= count
            data[name] = values[(grid // step) % count]
        out = TensorDict(data, batch_size=[total, *concrete(self._shape)], device=self._device)
        return out if self.data_cls is None else self.data_cls.from_tensordict(out)  # type: ignore[attr-defined]


def look(val: Any, name: str) -> Any:
    """An entry of a dict or a tensorclass, or None."""
    if isinstance(val, Mapping):
        return val.get(name)
    return val.get(name, None) if hasattr(val, "get") else None


def _ragged(val: LazyStackedTensorDict) -> bool:
    """Whether the rows of a lazy stack have entries of different sizes."""
    rows = val.tensordicts
    if any(isinstance(row, LazyStackedTensorDict) and _ragged(row) for row in rows):
        return True
    sizes = [{key: entry.shape for key, entry in row.items(True, True)} for row in rows]
    return any(one != sizes[0] for one in sizes)


def one_for_all(value: Any) -> bool:
    """Whether a value holds no tensors, so that one without leading dimensions does for any."""
    if isinstance(value, LazyStackedTensorDict):
        return all(one_for_all(part) for part in value.tensordicts)
    if isinstance(value, NonTensorData):
        return True
    return not isinstance(value, Tensor) and all(one_for_all(entry) for entry in value.values())


def _entries_of(val: Any) -> str:
    """What a value has, in an error message."""
    return f"got {sorted(map(str, val.keys()))}" if hasattr(val, "keys") else f"got {type(val).__name__}"


@contextmanager
def _noting(name: str) -> Iterator[None]:
    """Adds the name of an entry to the errors that are raised below it."""
    try:
        yield
    except MarlenvError as error:
        error.add_note(f"in entry {name!r}")
        raise
