"""A nested mapping of specs: what a tensordict may hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Size

from marlenv.errors import KeyMissing, ReservedKey, ShapeError, SpecError, SpecTypeError, nearest
from marlenv.keys import NestedKey, nested, path
from marlenv.specs.base import TensorSpec
from marlenv.specs.composite_values import CompositeValues
from marlenv.specs.dtypes import as_device
from marlenv.specs.locking import Lockable
from marlenv.specs.nontensor import NonTensor
from marlenv.specs.shapes import Rename, Reshape, ShapeLike, reshaped, size
from marlenv.specs.views import Leaf, SpecView

_RAISE = object()

RESERVED = frozenset({"batch_size", "device", "dtype", "shape", "space"})
"""What a composite says of itself, and no entry may be called."""


class Composite(Lockable, CompositeValues):
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
        SpecTypeError: an entry is not a spec.
        ReservedKey: an entry is called ``shape``, ``batch_size``, ``device``, ``dtype`` or ``space``.

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
        if len(args) > 1 or (args and not isinstance(args[0], (Mapping, Composite))):
            raise SpecError(
                f"Composite: expected at most one mapping of specs as a positional argument, got "
                f"{[type(arg).__name__ for arg in args]}; name the entries, as in Composite(reward=spec)"
            )
        if shape is not None and batch_size is not None and size(shape) != size(batch_size):
            raise SpecTypeError(
                f"Composite: shape and batch_size say the same thing, got {shape=} and {batch_size=}; give one of them"
            )
        source = args[0] if args else {}
        if isinstance(source, Composite):
            shape = source.shape if shape is None and batch_size is None else shape
            device = source.device if device is None else device
            data_cls = source.data_cls if data_cls is None else data_cls
            step_mdp_static = step_mdp_static or source.step_mdp_static
        self._init_state(size(batch_size if shape is None else shape), device, data_cls, step_mdp_static)
        for name, spec in {**dict(source.items()), **kwargs}.items():
            self[name] = spec
        if names is not None:
            self.names = names
        elif isinstance(source, Composite) and source._names is not None:
            self._names = self._as_many(source._names)

    def _init_state(self, shape: Size, device: Any, data_cls: type | None, static: bool) -> None:
        self._shape = shape
        self._device = as_device(device)
        self.dtype = None  # type: ignore[assignment]
        self.data_cls = data_cls
        self.step_mdp_static = static
        self._specs: dict[str, TensorSpec | None] = {}
        self._names: list[str | None] | None = None
        self._locked = False
        self._lockers = []

    # --- entries ---------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The batch size."""
        return self._shape

    @shape.setter
    def shape(self, value: ShapeLike) -> None:
        self._refuse_if_locked("change the shape of")
        want = size(value)
        for name, spec in self.items():
            if isinstance(spec, Composite) and not _begins(spec.shape, want):
                spec.shape = want
            elif spec is not None and not _begins(spec.shape, want):
                raise ShapeError(
                    f"Composite: cannot have shape {list(want)}, because entry {name!r} has shape {list(spec.shape)}; "
                    f"expand the composite, or replace the entry"
                )
        self._shape = want
        self._names = None if self._names is None else self._as_many(self._names)

    def _as_many(self, names: list[str | None]) -> list[str | None]:
        """The names of the first dimensions, and none for the others."""
        return [*names, *[None] * self.ndim][: self.ndim]

    batch_size = shape

    def _names_of_entries(self) -> list[str]:
        return list(self._specs)

    def _entry(self, name: str) -> TensorSpec | None:
        try:
            return self._specs[name]
        except KeyError:
            if name in RESERVED:
                raise ReservedKey(f"Composite: no entry is called {name!r}; ask for spec.{name}") from None
            raise KeyMissing(f"Composite: no entry {name!r}; {nearest(name, self._names_of_entries())}") from None

    def _nested_at(self, name: str) -> Composite | None:
        """The nested composite of a name; None where a leaf is."""
        spec = self._specs[name]
        return spec if isinstance(spec, Composite) else None

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
                    raise KeyMissing(f"Composite: no entry {index!r}, because {name!r} would lie below {node!r}")
                node = node._entry(name)
            return node
        return super().__getitem__(index)

    def __setitem__(self, key: NestedKey, spec: Any) -> None:
        name, *below = _names_in(key)
        if not below:
            self._put(name, spec)
            return
        if name not in self._names_of_entries():
            self._put(name, Composite(shape=self.shape, device=self._device))
        self._below(name, key)[nested(below)] = spec

    def _below(self, name: str, key: NestedKey) -> Composite:
        """The nested composite called ``name`` on the way to ``key``."""
        node = self._entry(name)
        if not isinstance(node, Composite):
            raise KeyMissing(f"Composite: no entry {key!r}, because {name!r} is {node!r}; only composites hold entries")
        return node

    def _put(self, name: str, spec: Any) -> None:
        self._refuse_if_locked(f"set {name!r} in")
        if name in RESERVED:
            raise ReservedKey(f"Composite: {name!r} is a word for the composite itself; call the entry something else")
        if isinstance(spec, Mapping) and not isinstance(spec, TensorSpec):
            spec = Composite(spec, shape=self.shape, device=self._device)
        if spec is not None:
            if not isinstance(spec, TensorSpec):
                raise SpecTypeError(
                    f"Composite: entry {name!r} must be a spec, a mapping or None, got {type(spec).__name__}"
                )
            spec = self._fitted(name, spec)
            if self._device is not None and spec.device != self._device:
                spec = spec.to(self._device)
        self._write(name, spec)

    def _fitted(self, name: str, spec: TensorSpec) -> TensorSpec:
        """The spec of an entry; a composite or a NonTensor that has fewer batch dimensions gets ours."""
        want = self.shape
        if _begins(spec.shape, want):
            return spec
        if isinstance(spec, (Composite, NonTensor)) and spec.shape == want[: spec.ndim]:
            spec = spec.clone()
            spec.shape = want
            return spec
        have = f"batch size {list(spec.shape)}" if isinstance(spec, Composite) else f"{spec!r}"
        raise ShapeError(
            f"Composite: the shape of entry {name!r} must begin with the batch size {list(want)}, got {have}; "
            f"expand the entry, or make the batch size shorter"
        )

    def __delitem__(self, key: NestedKey) -> None:
        name, *below = _names_in(key)
        if below:
            del self._below(name, key)[nested(below)]
            return
        self._refuse_if_locked(f"delete {name!r} from")
        self._entry(name)
        self._erase(name)

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
        """Removes and returns an entry, or the default when it is not there."""
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
        """Moves the entries under ``keys`` into a new composite.

        Args:
            *keys: entries that are not there count as ``default``, and are left out if that is None.
            default: see above.

        Returns:
            The new composite; None when nothing was found.
        """
        found = {key: spec for key in keys if (spec := self.pop(key, default)) is not None}
        if not found:
            return None
        out = self.empty()
        for key in sorted(found, key=lambda key: len(path(key))):  # what was below another goes back into it
            out[key] = found[key]
        return out

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, (str, tuple)):
            return self.is_in(key)
        node: Any = self
        try:
            names = path(key)
        except TypeError:  # a number in the key
            return False
        for name in names:
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
            return not self._names_of_entries()
        return all(isinstance(s, Composite) and s.is_empty(True) for s in self.values())

    def empty(self) -> Composite:
        """A composite like this one without entries."""
        new = Composite(shape=self.shape, device=self._device, data_cls=self.data_cls, names=self._names)
        new.step_mdp_static = self.step_mdp_static
        return new

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
        return SpecView(self, lambda _, read: read(), include_nested, leaves_only, is_leaf, step_mdp_static_only)

    def items(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        *,
        is_leaf: Leaf = None,
        step_mdp_static_only: bool = False,
    ) -> SpecView:
        """Pairs of key and spec, chosen as in :meth:`keys`."""
        return SpecView(
            self, lambda key, read: (key, read()), include_nested, leaves_only, is_leaf, step_mdp_static_only
        )

    # --- shape algebra ---------------------------------------------------------------------------

    def _map(self, reshape: Reshape, rename: Rename | None = None, **changes: Any) -> Self:
        new = object.__new__(type(self))
        new._init_state(reshaped(self._shape, reshape), self._device, self.data_cls, self.step_mdp_static)
        new._specs = {name: None if spec is None else spec._map(reshape, rename) for name, spec in self._specs.items()}
        if self._names is not None and rename is not None:
            new.names = (rename(self._names) + [None] * new.ndim)[: new.ndim]
        return new

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
        """All entries on another device, or with another dtype; itself when it is there already."""
        if dest is None or (not isinstance(dest, torch.dtype) and as_device(dest) == self._device):
            return self
        new = self._map_entries(lambda spec: spec.to(dest))
        if not isinstance(dest, torch.dtype):
            new._device = as_device(dest)
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
            raise SpecError(f"Composite.names: expected {self.ndim} names, one per batch dimension, got {list(value)}")
        self._names = None if value is None else list(value)
        for spec in self.values():
            if isinstance(spec, Composite):
                spec.names = None if value is None else [*value, *[None] * (spec.ndim - self.ndim)]

    def refine_names(self, *names: Any) -> Self:
        """Names batch dimensions that have no name yet; ``...`` keeps the names in between."""
        have, wanted = self.names, list(names)
        if Ellipsis in wanted:
            at = wanted.index(Ellipsis)
            wanted[at : at + 1] = have[at : self.ndim - (len(names) - at - 1)]
        if clash := [(old, new) for old, new in zip(have, wanted, strict=False) if old is not None and old != new]:
            raise SpecError(f"Composite.refine_names: dimension {clash[0][0]!r} has a name, got {clash[0][1]!r} for it")
        self.names = wanted
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Composite) or type(other) is not type(self):
            return False
        same = (self._shape, self._device, self.data_cls) == (other._shape, other._device, other.data_cls)
        return same and self._specs == other._specs

    __hash__ = None  # type: ignore[assignment]

    def _nested(self) -> list[Composite]:
        """The composites that are locked with this one."""
        return [spec for spec in self._specs.values() if isinstance(spec, Composite)]

    @property
    def _who(self) -> str:
        return f"{type(self).__name__} of shape {list(self.shape)}"

    def __repr__(self) -> str:
        from marlenv.specs.show import tree

        return tree(self)


def _names_in(key: NestedKey) -> tuple[str, ...]:
    """The names of a nested key, of which there must be one."""
    if not (names := path(key)):
        raise KeyMissing(f"Composite: a key has at least one name, got {key!r}")
    return names


def _begins(shape: Size, batch: Size) -> bool:
    """Whether ``shape`` begins with the batch size; -1 fits any size."""
    return len(shape) >= len(batch) and all(a == b or -1 in (a, b) for a, b in zip(shape, batch, strict=False))
