"""A nested mapping of specs: what a tensordict may hold."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, Self

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size

from marlenv.errors import DtypeError, KeyMissing, LockedSpec, NotInSpec, ShapeError, SpecError, nearest
from marlenv.keys import NestedKey, nested, path
from marlenv.specs.base import Reshape, ShapeLike, TensorSpec, concrete, reshaped, size, varargs

_RAISE = object()
Leaf = Callable[[type], bool] | None


class Composite(TensorSpec):
    """A named collection of specs, nested to any depth: the shape of a tensordict.

    ``shape`` is the batch size of the tensordict; every entry's shape begins with it. Entries are read and written with
    nested keys: ``spec["agents", "reward"]``.

    Args:
        *args: at most one mapping or composite with the entries.
        shape: the batch size.
        device: where values live; None leaves it to the entries.
        data_cls: a tensorclass that values are returned as.
        step_mdp_static: the values are handed from step to step as they are.
        names: names of the batch dimensions.
        **kwargs: more entries.

    Raises:
        ShapeError: an entry's shape does not begin with the batch size.

    >>> spec = Composite(agents=Composite(reward=Unbounded((3, 1)), shape=(3,)))
    >>> spec["agents", "reward"]
    Unbounded([3, 1], float32)
    >>> spec.zero()["agents", "reward"].shape
    torch.Size([3, 1])
    """

    domain = "composite"

    def __init__(
        self,
        *args: Any,
        shape: ShapeLike = None,
        batch_size: ShapeLike = None,
        device: torch.device | str | None = None,
        data_cls: type | None = None,
        step_mdp_static: bool = False,
        names: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> None:
        if len(args) > 1:
            raise SpecError(f"Composite: at most one mapping as a positional argument, got {len(args)}")
        source = args[0] if args else {}
        if isinstance(source, Composite):
            shape = source.shape if shape is None and batch_size is None else shape
            device = source.device if device is None else device
            data_cls = source.data_cls if data_cls is None else data_cls
        self._init_state(size(batch_size if shape is None else shape), device, data_cls, step_mdp_static)
        self._names = None if names is None else list(names)
        for name, spec in {**dict(source.items()), **kwargs}.items():
            self[name] = spec

    def _init_state(self, shape: Size, device: Any, data_cls: type | None, static: bool) -> None:
        self._shape = shape
        self._device = None if device is None else torch.device(device)
        self.dtype = None  # type: ignore[assignment]
        self.data_cls = data_cls
        self.step_mdp_static = static
        self._specs: dict[str, TensorSpec | None] = {}
        self._names: list[str | None] | None = None
        self._locked = False
        self._lockers: list[weakref.ref[Composite]] = []

    # --- entries ---------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:  # type: ignore[override]
        """The batch size."""
        return self._shape

    @shape.setter
    def shape(self, value: ShapeLike) -> None:
        self._refuse_if_locked("change the shape of")
        want = size(value)
        for name, spec in self._specs.items():
            if spec is not None and not _begins(spec.shape, want):
                raise ShapeError(
                    f"Composite: cannot have shape {list(want)}; entry {name!r} has shape {list(spec.shape)}"
                )
            if isinstance(spec, Composite) and spec.ndim < len(want):
                spec.shape = want
        self._shape = want

    batch_size = shape

    def _names_of_entries(self) -> list[str]:
        return list(self._specs)

    def _entry(self, name: str) -> TensorSpec | None:
        try:
            return self._specs[name]
        except KeyError:
            raise KeyMissing(f"Composite: no entry {name!r}; {nearest(name, self._names_of_entries())}") from None

    def _write(self, name: str, spec: TensorSpec | None) -> None:
        self._specs[name] = spec

    def _erase(self, name: str) -> None:
        del self._specs[name]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            return self._entry(index)
        if isinstance(index, tuple) and index and all(isinstance(i, (str, tuple)) for i in index):
            node: Any = self
            for name in path(index):
                if not isinstance(node, Composite):
                    raise KeyMissing(f"Composite: no entry {index!r}; {name!r} would lie below a leaf")
                node = node._entry(name)
            return node
        out = super().__getitem__(index)
        out._names = self._kept_names(index)
        return out

    def __setitem__(self, key: NestedKey, spec: Any) -> None:
        *parents, name = path(key)
        node = self
        for parent in parents:
            if parent not in node._names_of_entries():
                node[parent] = Composite(shape=node.shape, device=node._device)
            node = node[parent]
        node._put(name, spec)

    def _put(self, name: str, spec: Any) -> None:
        self._refuse_if_locked(f"set {name!r} in")
        if isinstance(spec, Mapping) and not isinstance(spec, TensorSpec):
            spec = Composite(spec, shape=self.shape, device=self._device)
        if spec is not None:
            if not isinstance(spec, TensorSpec):
                raise SpecError(f"Composite: entry {name!r} must be a spec, got {type(spec).__name__}")
            if not _begins(spec.shape, self.shape):
                raise ShapeError(
                    f"Composite: entry {name!r} must have a shape that begins with the batch size {list(self.shape)}, "
                    f"got {spec!r}"
                    if not isinstance(spec, Composite)
                    else f"Composite: entry {name!r} must have a batch size that begins with {list(self.shape)}, got {list(spec.shape)}"
                )
            if self._device is not None and spec.device != self._device:
                spec = spec.to(self._device)
        self._write(name, spec)

    def __delitem__(self, key: NestedKey) -> None:
        *parents, name = path(key)
        node = self[nested(parents)] if parents else self
        node._refuse_if_locked(f"delete {name!r} from")
        node._entry(name)
        node._erase(name)

    def get(self, item: NestedKey, default: Any = _RAISE) -> Any:
        """The entry under a nested key, or the default."""
        try:
            return self[item]
        except KeyError:
            if default is _RAISE:
                raise
            return default

    def set(self, name: NestedKey, spec: Any) -> Self:
        """Writes an entry; returns the composite."""
        self[name] = spec
        return self

    def pop(self, key: NestedKey, default: Any = _RAISE) -> Any:
        """Removes and returns an entry."""
        found = self.get(key, default)
        if key in self:
            del self[key]
        return found

    def update(self, dict_or_spec: Mapping[str, Any] | Composite) -> Self:
        """Writes all entries of another composite; entries that both nest are merged."""
        for name, spec in dict_or_spec.items():
            mine = self.get(name, None)
            if isinstance(mine, Composite) and isinstance(spec, (Mapping, Composite)):
                mine.update(spec)
            else:
                self[name] = spec
        return self

    def separates(self, *keys: NestedKey, default: Any = None) -> Composite | None:
        """Moves the entries under ``keys`` into a new composite; ``default`` when there are none."""
        found = [(key, self.pop(key)) for key in keys if key in self]
        if not found:
            return default
        out = self.empty()
        for key, spec in found:
            out[key] = spec
        return out

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, (str, tuple)):
            return self.is_in(key)
        node: Any = self
        for name in path(key):
            if not isinstance(node, Composite) or name not in node._names_of_entries():
                return False
            node = node._entry(name)
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._names_of_entries())

    def __len__(self) -> int:
        return len(self._names_of_entries())

    def is_empty(self, recurse: bool = False) -> bool:
        """Whether there are no entries; with ``recurse`` empty nested composites do not count."""
        if not recurse:
            return len(self) == 0
        return all(isinstance(s, Composite) and s.is_empty(True) for s in self.values())

    def empty(self) -> Composite:
        """A composite like this one without entries."""
        return Composite(shape=self.shape, device=self._device, data_cls=self.data_cls, names=self._names)

    # --- views -----------------------------------------------------------------------------------

    def keys(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        *,
        is_leaf: Leaf = None,
        step_mdp_static_only: bool = False,
    ) -> SpecView:
        """The keys; nested keys as tuples with ``include_nested``, without the composites with ``leaves_only``."""
        return SpecView(self, lambda key, _: key, include_nested, leaves_only, is_leaf, step_mdp_static_only)

    def values(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        *,
        is_leaf: Leaf = None,
        step_mdp_static_only: bool = False,
    ) -> SpecView:
        """The specs, chosen as in :meth:`keys`."""
        return SpecView(self, lambda _, spec: spec, include_nested, leaves_only, is_leaf, step_mdp_static_only)

    def items(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        *,
        is_leaf: Leaf = None,
        step_mdp_static_only: bool = False,
    ) -> SpecView:
        """Pairs of key and spec, chosen as in :meth:`keys`."""
        return SpecView(self, lambda key, spec: (key, spec), include_nested, leaves_only, is_leaf, step_mdp_static_only)

    # --- values ----------------------------------------------------------------------------------

    def _collect(self, make: Callable[[TensorSpec], Any], lead: Size) -> Any:
        """A tensordict with ``make(spec)`` for every entry."""
        data = {name: make(spec) for name, spec in self._specs.items() if spec is not None}
        batch = Size((*lead, *concrete(self._shape))) if lead else concrete(self._shape)
        names = None if self._names is None else [None] * len(lead) + self._names
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
        """Fills in, at random, the entries that ``val`` lacks."""
        return self._fill(val, "rand")

    def zeros_update(self, val: TensorDictBase) -> TensorDictBase:
        """Fills in, with zeros, the entries that ``val`` lacks."""
        return self._fill(val, "zero")

    def ones_update(self, val: TensorDictBase) -> TensorDictBase:
        """Fills in, with ones, the entries that ``val`` lacks."""
        return self._fill(val, "one")

    def _fill(self, val: TensorDictBase, how: str) -> TensorDictBase:
        lead = val.batch_size[: val.ndim - self.ndim]
        for name, spec in self.items():
            if spec is None:
                continue
            have = val._get_str(name, None)
            if have is None:
                val.set(name, getattr(spec, how)(lead))
            elif isinstance(spec, Composite):
                spec._fill(have, how)
        return val

    def _each(self, val: Any) -> Iterator[tuple[str, TensorSpec, Any]]:
        """Name, spec and value of every entry; the value is None where ``val`` lacks it."""
        get = (
            (lambda name: val._get_str(name, None))
            if isinstance(val, TensorDictBase)
            else (lambda name: _look(val, name))
        )
        for name, spec in self._specs.items():
            if spec is not None:
                yield name, spec, get(name)

    def is_in(self, val: Any) -> bool:
        """Whether every entry of the spec is in ``val`` and within its own spec; more entries do no harm."""
        return all(value is not None and spec.is_in(value) for _, spec, value in self._each(val))

    contains = is_in

    def assert_is_in(self, value: Any) -> None:
        """Raises :class:`~marlenv.errors.NotInSpec` naming the first entry that is missing or outside its spec."""
        for name, spec, one in self._each(value):
            if one is None:
                raise NotInSpec(f"Composite: entry {name!r} is missing; the value has {sorted(map(str, value.keys()))}")
            try:
                spec.assert_is_in(one)
            except NotInSpec as error:
                error.add_note(f"in entry {name!r}")
                raise

    def type_check(self, value: Any, selected_keys: str | Sequence[str] | None = None) -> None:  # type: ignore[override]
        """Raises :class:`~marlenv.errors.DtypeError` unless all entries (or the selected ones) have their dtype."""
        chosen = [selected_keys] if isinstance(selected_keys, str) else selected_keys
        for name, spec, one in self._each(value):
            if one is not None and (chosen is None or name in chosen):
                try:
                    spec.type_check(one)
                except DtypeError as error:
                    error.add_note(f"in entry {name!r}")
                    raise

    def project(self, val: Any) -> Any:
        """Projects every entry of ``val``, in place."""
        for name, spec, value in self._each(val):
            if value is None:
                raise KeyMissing(
                    f"Composite.project: entry {name!r} is missing; the value has {sorted(map(str, val.keys()))}"
                )
            val.set(name, spec.project(value))
        return val

    def encode(self, val: Mapping[str, Any], *, ignore_device: bool = False) -> Any:
        """A tensordict from a nested dict of what a simulator gives; entries without a spec are refused."""
        data = {}
        for name, value in val.items():
            spec = self._entry(name)
            if spec is not None:
                data[name] = spec.encode(value, ignore_device=ignore_device)
        return TensorDict(data, batch_size=concrete(self._shape), device=None if ignore_device else self._device)

    def to_numpy(self, val: Any, safe: bool | None = None) -> dict[str, Any]:
        """A nested dict of what simulators take."""
        return {name: spec.to_numpy(one, safe) for name, spec, one in self._each(val) if one is not None}

    def from_unit(self, unit: Any, mask: Any = None) -> Any:
        raise SpecError("Composite: draw with rand(); its entries take different numbers of random numbers")

    def _holds(self, value: Any) -> bool:
        return self.is_in(value)

    def _project(self, value: Any) -> Any:
        return self.project(value)

    def cardinality(self) -> float:
        """The product over the entries."""
        return prod(spec.cardinality() for spec in self.values() if spec is not None)

    def enumerate(self, use_mask: bool = False) -> Any:
        """Every combination of the entries' values once; a tensordict ``[n, *shape]``."""
        listed = {name: spec.enumerate(use_mask) for name, spec in self.items() if spec is not None}
        counts = [len(values) for values in listed.values()]
        total = prod(counts)
        grid = torch.arange(total, device=self._device)
        data, step = {}, total
        for (name, values), count in zip(listed.items(), counts, strict=True):
            step //= count
            data[name] = values[(grid // step) % count]
        return TensorDict(data, batch_size=[total, *concrete(self._shape)], device=self._device)

    # --- shape algebra ---------------------------------------------------------------------------

    def _map(self, reshape: Reshape, **changes: Any) -> Self:
        new = object.__new__(type(self))
        new._init_state(reshaped(self._shape, reshape), self._device, self.data_cls, self.step_mdp_static)
        new._specs = {name: None if spec is None else spec._map(reshape) for name, spec in self._specs.items()}
        return new

    def _kept_names(self, index: Any) -> list[str | None] | None:
        index = index if isinstance(index, tuple) else (index,)
        if self._names is None or not all(isinstance(i, (int, slice)) for i in index):
            return None
        return [n for n, i in zip(self._names, index, strict=False) if isinstance(i, slice)] + self._names[len(index) :]

    def expand(self, *shape: Any) -> Self:
        """More batch dimensions in front, and batch dimensions of size 1 made larger."""
        out = super().expand(*shape)
        if self._names is not None:
            out._names = [None] * (len(varargs(shape)) - self.ndim) + self._names
        return out

    def unsqueeze(self, dim: int) -> Self:
        """A new batch dimension of size 1."""
        out = super().unsqueeze(dim)
        if self._names is not None:
            at = self._dim(dim, extra=1)
            out._names = [*self._names[:at], None, *self._names[at:]]
        return out

    def make_neg_dim(self, dim: int) -> Self:
        """Says, in place, that the size of one batch dimension is not known in advance."""
        dim = self._dim(dim)
        self._refuse_if_locked("change the shape of")
        for spec in self.values():
            if spec is not None:
                spec.make_neg_dim(dim)
        self._shape = Size(-1 if i == dim else s for i, s in enumerate(self._shape))
        return self

    def to(self, dest: Any) -> Self:
        """All entries on another device, or with another dtype."""
        if dest is None:
            return self
        new = self._map_entries(lambda spec: spec.to(dest))
        if not isinstance(dest, torch.dtype):
            new._device = torch.device(dest)
        return new

    def clone(self) -> Self:
        """A copy, unlocked, that shares no memory."""
        return self._map_entries(lambda spec: spec.clone())

    def _map_entries(self, change: Callable[[TensorSpec], TensorSpec]) -> Self:
        new = object.__new__(type(self))
        new._init_state(self._shape, self._device, self.data_cls, self.step_mdp_static)
        new._names = None if self._names is None else list(self._names)
        new._specs = {name: None if spec is None else change(spec) for name, spec in self._specs.items()}
        return new

    def clear_device_(self) -> Self:
        """Forgets the device, here and in nested composites."""
        self._device = None
        for spec in self.values():
            if spec is not None:
                spec.clear_device_()
        return self

    @property
    def names(self) -> list[str | None]:
        """The names of the batch dimensions."""
        return [None] * self.ndim if self._names is None else list(self._names)

    @names.setter
    def names(self, value: Sequence[str | None] | None) -> None:
        if value is not None and len(value) != self.ndim:
            raise SpecError(f"Composite: {self.ndim} batch dimensions need {self.ndim} names, got {list(value)}")
        self._names = None if value is None else list(value)

    def refine_names(self, *names: Any) -> Self:
        """Names the batch dimensions; ``...`` keeps the names in between."""
        if Ellipsis in names:
            at = names.index(Ellipsis)
            kept = self.names[at : self.ndim - (len(names) - at - 1)]
            names = (*names[:at], *kept, *names[at + 1 :])
        self.names = list(names)
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Composite) or type(other) is not type(self):
            return False
        same = (self._shape, self._device, self.data_cls) == (other._shape, other._device, other.data_cls)
        return same and self._specs == other._specs

    __hash__ = None  # type: ignore[assignment]

    # --- locking ---------------------------------------------------------------------------------

    @property
    def is_locked(self) -> bool:
        """Whether writing is refused."""
        return self._locked

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        if value:
            self.lock_()
        else:
            self.unlock_()

    locked = is_locked

    def lock_(self, recurse: bool | None = None) -> Self:
        """Refuses writing from now on, here and in nested composites."""
        self._locked = True
        for spec in self.values():
            if isinstance(spec, Composite) and recurse is not False:
                spec._lockers.append(weakref.ref(self))
                spec.lock_()
        return self

    def unlock_(self, recurse: bool | None = None) -> Self:
        """Allows writing again; refused while a composite above this one is locked."""
        self._lockers = [r for r in self._lockers if (above := r()) is not None and above._locked]
        if self._lockers:
            raise LockedSpec(
                "Composite: cannot be unlocked while the composite that holds it is locked; unlock that one"
            )
        self._locked = False
        for spec in self.values():
            if isinstance(spec, Composite) and recurse is not False:
                spec.unlock_()
        return self

    def _refuse_if_locked(self, what: str) -> None:
        if self._locked:
            raise LockedSpec(
                f"Composite: cannot {what} a locked spec; call unlock_() first, or assign the spec on the env "
                f"(env.observation_spec = ...), which unlocks, writes and locks again"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lockers": []}

    @property
    def _who(self) -> str:
        return f"{type(self).__name__} of shape {list(self.shape)}"

    def __repr__(self) -> str:
        from marlenv.specs.show import tree

        return tree(self)


class SpecView:
    """What ``keys()``, ``values()`` and ``items()`` return: iterable, sized, and ``in`` works."""

    def __init__(
        self, spec: Composite, pick: Callable[[Any, Any], Any], nest: bool, leaves: bool, is_leaf: Leaf, static: bool
    ) -> None:
        self._spec, self._pick, self._nest, self._leaves = spec, pick, nest, leaves
        self._is_leaf = is_leaf
        self._static = static

    def __iter__(self) -> Iterator[Any]:
        return (self._pick(nested(key), spec) for key, spec in self._walk(self._spec, ()))

    def _walk(self, node: Composite, prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        for name in node:
            spec, key = node._entry(name), (*prefix, name)
            composite = isinstance(spec, Composite)
            whole = self._static and composite and spec.step_mdp_static
            leaf = whole or not composite or (self._is_leaf is not None and self._is_leaf(type(spec)))
            if (leaf or not self._leaves) and (whole or not self._static):
                yield key, spec
            if self._nest and not leaf:
                yield from self._walk(spec, key)

    def __contains__(self, item: object) -> bool:
        if isinstance(item, (str, tuple)):
            item = nested(path(item))
        return any(item == one for one in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"{list(self)}"


def _begins(shape: Size, batch: Size) -> bool:
    """Whether ``shape`` begins with the batch size; -1 fits any size."""
    return len(shape) >= len(batch) and all(a == b or -1 in (a, b) for a, b in zip(shape, batch, strict=False))


def _look(val: Any, name: str) -> Any:
    """An entry of a dict or a tensorclass, or None."""
    if isinstance(val, Mapping):
        return val.get(name)
    return val.get(name, None) if hasattr(val, "get") else None
