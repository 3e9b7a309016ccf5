"""What every spec is: a domain of tensors, and the shape algebra of domains, written once.

``shape`` is batch dimensions plus event dimensions. The parameters of a domain (bounds, masks) are tensors whose
leading dimensions are the batch dimensions, so every shape operation is one function applied to ``shape`` and to each
parameter: nothing can be forgotten on the way. A leaf says its domain only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import cached_property
from math import prod
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from tensordict import NonTensorStack
from torch import Size, Tensor

from marlenv.errors import BadIndex, DtypeError, MarlenvError, NotInSpec, ShapeError, Unsupported
from marlenv.specs.dtypes import as_device, dtype_name
from marlenv.specs.encoding import Encoding, brief
from marlenv.specs.indexing import kept_names, spelled_out
from marlenv.specs.shapes import Rename, Reshape, ShapeLike, behind, concrete, fits, reshaped, size, varargs

if TYPE_CHECKING:
    from marlenv.rng import RowRNG


class TensorSpec(Encoding, ABC):
    """The set of tensors that an entry may hold: shape, dtype, device and domain.

    Every spec draws (:meth:`rand`), checks (:meth:`is_in`), repairs (:meth:`project`) and translates (:meth:`encode`,
    :meth:`to_numpy`) values, and takes part in shape algebra like a tensor (``expand``, ``unsqueeze``, ``spec[0]``,
    ``torch.stack``).

    >>> spec = torch.stack([Categorical(3), Categorical(3)])
    >>> spec.shape, spec.is_in(spec.rand()), spec.is_in(torch.tensor([0, 3])), spec.project(torch.tensor([0, 3]))
    (torch.Size([2]), True, False, tensor([0, 2]))
    """

    params: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes that are tensors ``[*batch, ...]`` or None."""
    fields: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes that do not change with the shape."""
    event_ndim: ClassVar[int] = 0
    """How many trailing dimensions belong to one value and cannot be reshaped."""
    domain: str | None = "discrete"
    """``"continuous"`` or ``"discrete"``; None for what is no tensor, or several."""

    _computed: ClassVar[tuple[str, ...]] = ()
    """Names of what is computed from the parameters once, and kept."""

    shape: Size
    dtype: torch.dtype
    _device: torch.device | None

    def __init_subclass__(cls) -> None:
        kept = {
            name for kind in cls.__mro__ for name, value in vars(kind).items() if isinstance(value, cached_property)
        }
        cls._computed = tuple(sorted(kept))

    def __init__(self, shape: ShapeLike, dtype: torch.dtype, device: torch.device | str | None) -> None:
        self.shape = size(shape)
        self.dtype = dtype
        self._device = as_device(torch.get_default_device() if device is None else device)

    # --- the domain: what a leaf says ------------------------------------------------------------

    @property
    def unit_shape(self) -> Size:
        """How many numbers in [0, 1) one draw takes."""
        return concrete(self.shape)

    unit_dtype: torch.dtype = torch.float32
    """The precision of those numbers."""

    @abstractmethod
    def from_unit(self, unit: Tensor, mask: Tensor | None = None) -> Tensor:
        """The value that numbers in [0, 1) stand for; ``unit`` is ``[..., *unit_shape]``.

        ``mask`` (bool, like the spec's own) replaces the spec's mask for this draw.
        """

    @abstractmethod
    def _holds(self, value: Tensor) -> bool:
        """Whether ``value``, which has the right shape and dtype, is in the domain."""

    @abstractmethod
    def _project(self, value: Tensor) -> Tensor:
        """The nearest value of the domain."""

    @property
    def space(self) -> Any:
        """The domain as an object with ``low`` and ``high``, or ``n``."""
        return None

    def cardinality(self) -> float:
        """How many values one element of the batch can take; ``inf`` when they cannot be counted."""
        return float("inf")

    def enumerate(self, use_mask: bool = False) -> Any:
        """Every value once, stacked along a new first dimension; ``use_mask`` leaves out what the mask forbids."""
        raise Unsupported(f"{self._who}.enumerate: its values cannot be listed; only discrete specs list theirs")

    # --- drawing ---------------------------------------------------------------------------------

    def rand(self, shape: ShapeLike = None, *, rng: RowRNG | torch.Generator | None = None) -> Any:
        """A random value ``[*shape, *self.shape]``.

        Args:
            shape: extra leading dimensions.
            rng: where the randomness comes from: a torch generator, or a :class:`~marlenv.rng.RowRNG` whose rows are
                the value's leading dimensions. Torch's default generator when left out, as in ``torch.rand``.

        >>> Bounded(-1, 1, shape=(2,)).rand(3).shape
        torch.Size([3, 2])
        """
        lead = size(shape)
        self._refuse_if_empty()
        if rng is None or isinstance(rng, torch.Generator):
            return self._draw(lead, rng)
        want = Size((*lead, *self.unit_shape))
        rows = rng.rows
        if want[: len(rows)] != rows:
            raise ShapeError(
                f"{self._who}.rand: the rows of rng must be the leading dimensions of the draw {list(want)}, got rows "
                f"{list(rows)}; pass shape={list(rows)}, or an rng with other rows"
            )
        return self.from_unit(rng.uniform(shape=want[len(rows) :], dtype=self.unit_dtype).to(self._device))

    def _refuse_if_empty(self) -> None:
        """Raises when there is no value to draw."""

    def _draw(self, lead: Size, generator: torch.Generator | None) -> Any:
        """:meth:`rand` from a torch generator."""
        want = (*lead, *self.unit_shape)
        return self.from_unit(torch.rand(want, generator=generator, device=self._device, dtype=self.unit_dtype))

    def sample(self, shape: ShapeLike = None, *, rng: RowRNG | torch.Generator | None = None) -> Any:
        """The same as :meth:`rand`."""
        return self.rand(shape, rng=rng)

    def zero(self, shape: ShapeLike = None) -> Any:
        """Zeros ``[*shape, *self.shape]``, whether or not zero is in the domain."""
        return torch.zeros((*size(shape), *concrete(self.shape)), dtype=self.dtype, device=self._device)

    def one(self, shape: ShapeLike = None) -> Any:
        """Ones ``[*shape, *self.shape]``, whether or not one is in the domain."""
        return torch.ones((*size(shape), *concrete(self.shape)), dtype=self.dtype, device=self._device)

    zeros, ones = zero, one

    # --- checking --------------------------------------------------------------------------------

    def is_in(self, val: Any) -> bool:
        """Whether ``val`` (``[..., *self.shape]``) has the right dtype and lies in the domain, on any device."""
        if not isinstance(val, Tensor) or val.dtype != self.dtype:
            return False
        if val.shape != self.shape and not fits(val.shape, self.shape):
            return False
        if val.device == self._device and not val.is_meta:
            return self._holds(val)
        return val.is_meta or self._is_meta or self.to(val.device)._holds(val)

    def contains(self, item: Any) -> bool:
        """The same as ``is_in``."""
        return self.is_in(item)

    def __contains__(self, val: Any) -> bool:
        return self.is_in(val)

    @property
    def _is_meta(self) -> bool:
        """Whether values are shapes without numbers."""
        return self._device is not None and self._device.type == "meta"

    def assert_is_in(self, value: Any) -> None:
        """Raises :class:`~marlenv.errors.NotInSpec`, an AssertionError, unless ``value`` is in the spec."""
        if not self.is_in(value):
            raise NotInSpec(f"{self!r}: the value is not in the spec, got {brief(value)}; project(value) makes it fit")

    def type_check(self, value: Any, key: Any = None) -> None:
        """Raises :class:`~marlenv.errors.DtypeError` unless ``value`` has the spec's dtype."""
        if value.dtype is not self.dtype:
            where = "" if key is None else f" under {key!r}"
            raise DtypeError(
                f"{type(self).__name__}{where}: expected {dtype_name(self.dtype)}, got {dtype_name(value.dtype)}; "
                f"convert the value, or the spec with spec.to(dtype)"
            )

    def project(self, val: Any) -> Any:
        """``val`` where it is in the domain, else the nearest value that is.

        Raises:
            ShapeError: the value does not have the spec's trailing dimensions.
        """
        if self.is_in(val):
            return val
        if not fits(val.shape, self.shape):
            raise ShapeError(f"{self!r}.project: expected a value of shape {behind(self.shape)}, got {list(val.shape)}")
        spec = self if val.device == self._device else self.to(val.device)
        return spec._project(val)

    def index(self, index: Any, tensor_to_index: Tensor) -> Tensor:
        """The entries of ``tensor_to_index`` (last dimension) that a discrete value names."""
        raise Unsupported(
            f"{type(self).__name__}.index: only discrete specs name entries; use Categorical, OneHot, their Multi "
            f"forms "
            f"or Binary"
        )

    # --- shape algebra, for every leaf -----------------------------------------------------------

    @property
    def device(self) -> torch.device | None:
        """Where values live."""
        return self._device

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def ndimension(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def batch_ndim(self) -> int:
        """How many leading dimensions are batch dimensions."""
        return len(self.shape) - self.event_ndim

    def _map(self, reshape: Reshape, rename: Rename | None = None, **changes: Any) -> Self:
        """A copy with ``reshape`` applied to the leading dimensions of the shape and of every parameter.

        Args:
            reshape: a shape operation on tensors, written with methods that lazy stacks of specs have too.
            rename: the same operation on the names of the dimensions, which only composites have.
            **changes: attributes of the copy.
        """
        new = object.__new__(type(self))
        new.dtype, new._device = self.dtype, self._device
        new.shape = reshaped(self.shape, reshape)
        for name in self.fields:
            setattr(new, name, getattr(self, name))
        for name in self.params:
            old = getattr(self, name)
            setattr(new, name, None if old is None else reshape(old))
        for name, value in changes.items():
            setattr(new, name, value)
        return new

    def _changed(self, verb: str, want: Any, reshape: Reshape, rename: Rename | None = None) -> Self:
        """:meth:`_map`, with an error that names the spec when torch refuses."""
        try:
            return self._map(reshape, rename)
        except MarlenvError:
            raise
        except RuntimeError as error:
            have = f"{list(self.shape[: self.batch_ndim])}"
            raise ShapeError(f"{self._who}.{verb}: batch dimensions {have} cannot become {want}") from error

    def _dim(self, dim: int, extra: int = 0) -> int:
        """``dim`` counted from the front; it must be a batch dimension."""
        front = dim + len(self.shape) + extra if dim < 0 else dim
        if not 0 <= front < self.batch_ndim + extra:
            raise BadIndex(
                f"{self._who}: dimension {dim} is out of range; it has {self.batch_ndim} batch dimensions"
                + (f" and {self.event_ndim} event dimensions" if self.event_ndim else "")
            )
        return front

    def _split(self, shape: Size, verb: str) -> tuple[Size, int]:
        """The batch part of a wanted shape, and how many dimensions the present batch part has."""
        at = len(shape) - self.event_ndim
        events = self.shape[self.batch_ndim :]
        if at < 0 or any(want not in (-1, have) for want, have in zip(shape[at:], events, strict=True)):
            raise ShapeError(
                f"{self._who}.{verb}: the last {self.event_ndim} dimensions must stay {list(events)}, got {list(shape)}"
            )
        return shape[:at], self.batch_ndim

    def expand(self, *shape: Any) -> Self:
        """More batch dimensions in front, and batch dimensions of size 1 made larger.

        >>> Categorical(2, mask=torch.tensor([True, False])).expand(3).rand()
        tensor([0, 0, 0])
        """
        want = varargs(shape)
        batch, rest = self._split(want, "expand")
        new = len(batch) - rest
        return self._changed(
            "expand", list(batch), lambda t: t.expand([*batch, *t.shape[rest:]]), lambda names: [None] * new + names
        )

    def reshape(self, *shape: Any) -> Self:
        """Other batch dimensions with the same number of elements; one may be -1."""
        batch, rest = self._split(varargs(shape), "reshape")
        want = list(batch)
        if want.count(-1) > max(1, self.shape[:rest].count(-1)):
            raise ShapeError(f"{self._who}.reshape: at most one size may be -1, got {want}")
        if -1 in want and -1 not in self.shape:
            have, others = prod(self.shape[:rest]), -prod(want)
            want = [(have // others if others else 0) if n == -1 else n for n in want]
        return self._changed("reshape", list(batch), lambda t: t.reshape([*want, *t.shape[rest:]]))

    view = reshape

    def unsqueeze(self, dim: int) -> Self:
        """A new batch dimension of size 1."""
        dim = self._dim(dim, extra=1)
        return self._map(lambda t: t.unsqueeze(dim), lambda names: [*names[:dim], None, *names[dim:]])

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Self:
        """Without some batch dimensions of size 1, or without all of them."""
        gone = range(self.batch_ndim) if dim is None else [self._dim(i) for i in size(dim)]
        gone = [i for i in gone if self.shape[i] == 1]
        if not gone:
            return self
        return self._map(lambda t: t.squeeze(gone), lambda names: [n for i, n in enumerate(names) if i not in gone])

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Several batch dimensions as one; ``end_dim=-1`` is the last batch dimension.

        Raises:
            BadIndex: ``start_dim`` is counted from the end, over the dimensions of single values.
        """
        if not self.batch_ndim:
            for dim in (start_dim, end_dim):
                if dim not in (0, -1):
                    raise BadIndex(f"{self._who}.flatten: dimension {dim} is out of range; it has no batch dimensions")
            return self.unsqueeze(0)
        if start_dim < 0 and end_dim == -1 and self.event_ndim:
            raise BadIndex(
                f"{self._who}.flatten: dimension -1 belongs to single values; count from the front, over the "
                f"{self.batch_ndim} batch dimensions"
            )
        start, end = self._dim(start_dim), self.batch_ndim - 1 if end_dim == -1 else self._dim(end_dim)
        return self._changed(
            f"flatten({start_dim}, {end_dim})",
            "one",
            lambda t: t.flatten(start, end),
            lambda names: [*names[:start], None, *names[end + 1 :]],
        )

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """One batch dimension as several."""
        dim, want = self._dim(dim), tuple(sizes)
        return self._changed(
            f"unflatten({dim}, {list(want)})",
            f"{[*self.shape[:dim], *want, *self.shape[dim + 1 : self.batch_ndim]]}",
            lambda t: t.unflatten(dim, want),
            lambda names: [*names[:dim], *[None] * len(want), *names[dim + 1 :]],
        )

    def permute(self, *dims: Any) -> Self:
        """The batch dimensions in another order; event dimensions, if given, must stay behind them."""
        given = [d + len(self.shape) if d < 0 else d for d in varargs(dims)]
        order, n = given[: self.batch_ndim], self.batch_ndim
        if sorted(order) != list(range(n)) or given[n:] not in ([], list(range(n, len(self.shape)))):
            raise ShapeError(f"{self._who}.permute: expected an order of its {n} batch dimensions, got {list(dims)}")
        return self._map(
            lambda t: t.permute([*order, *range(n, t.ndim)]), lambda names: [names[i] for i in order] + names[n:]
        )

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """The specs along one batch dimension."""
        dim = self._dim(dim)
        if self.shape[dim] < 0:
            raise ShapeError(f"{self._who}.unbind: dimension {dim} has no known size (-1); it cannot be taken apart")

        rows = [(*[slice(None)] * dim, i) for i in range(self.shape[dim])]
        return tuple(self._map(itemgetter(row), lambda names: [*names[:dim], *names[dim + 1 :]]) for row in rows)

    def __getitem__(self, index: Any) -> Self:
        used = spelled_out(index, self.shape[: self.batch_ndim], self._who)
        return self._map(lambda t: t[used], lambda names: kept_names(names, used))

    def make_neg_dim(self, dim: int) -> Self:
        """Says, in place, that the size of one batch dimension is not known in advance.

        The parameters of the first entry along it hold for all.
        """
        dim = self._dim(dim)
        for name in self.params:
            if (old := getattr(self, name)) is not None:
                setattr(self, name, old.narrow(dim, 0, min(1, old.shape[dim])).clone())
        self.shape = Size(-1 if i == dim else s for i, s in enumerate(self.shape))
        self._forget()
        return self

    def _forget(self) -> None:
        """Drops what was computed from the parameters, after they changed."""
        self.erase_memoize_cache()
        for name in self._computed:
            self.__dict__.pop(name, None)

    # --- moving and comparing --------------------------------------------------------------------

    def to(self, dest: torch.device | torch.dtype | str | int | None) -> Self:
        """The spec on another device, or with another dtype."""
        if dest is None:
            return self
        if isinstance(dest, torch.dtype):
            return self if dest == self.dtype else self._cast(dest)
        device = as_device(dest)
        if device == self._device:
            return self
        moved = {n: getattr(self, n).to(device) for n in self.params if getattr(self, n) is not None}
        return self._map(lambda t: t, _device=device, **moved)

    def _cast(self, dtype: torch.dtype) -> Self:
        return self._map(lambda t: t, dtype=dtype)

    def cpu(self) -> Self:
        """The spec on the CPU."""
        return self.to("cpu")

    def cuda(self, device: torch.device | int | None = None) -> Self:
        """The spec on a CUDA device."""
        return self.to(torch.device("cuda", device) if isinstance(device, int) else device or "cuda")

    def clear_device_(self) -> Self:
        """Composites forget their device; a leaf cannot, and stays as it is."""
        return self

    def clone(self) -> Self:
        """A copy that shares no memory."""
        return self._map(lambda t: t.clone())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorSpec) or type(other) is not type(self):
            return False
        if (self.shape, self.dtype, self._device) != (other.shape, other.dtype, other._device):
            return False
        if not all(same(getattr(self, n), getattr(other, n)) for n in self.fields):
            return False
        return all(same(getattr(self, n), getattr(other, n)) for n in self.params)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        from marlenv.specs.dispatch import call

        return call(func, args, kwargs or {})

    @property
    def _who(self) -> str:
        """The spec in an error message."""
        return repr(self)

    def __repr__(self) -> str:
        words = [str(list(self.shape)), dtype_name(self.dtype), self._detail()]
        return f"{type(self).__name__}({', '.join(word for word in words if word)})"

    def _detail(self) -> str:
        """The domain in a few characters."""
        return ""


def same(a: Any, b: Any) -> bool:
    """Whether two attributes are equal; tensors and arrays as a whole, however deep in lists and mappings."""
    if a is b:
        return True
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape if a.is_meta else torch.equal(a, b)
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return False
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, NonTensorStack) and isinstance(b, NonTensorStack):
        return a.batch_size == b.batch_size and same(a.tolist(), b.tolist())
    if type(a) is type(b) and isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if is_dataclass(a) and type(a) is type(b):
        return same(vars(a), vars(b))
    return bool(a == b)
