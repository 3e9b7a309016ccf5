"""What every spec is: a domain of tensors, and the shape algebra of domains, written once.

``shape`` is batch dimensions plus event dimensions. The parameters of a domain (bounds, masks) are tensors whose leading
dimensions are the batch dimensions, so every shape operation is one function applied to ``shape`` and to each
parameter: nothing can be forgotten on the way. A leaf says its domain only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from torch import Size, Tensor

from marlenv.errors import DtypeError, NotInSpec, ShapeError, Unsupported

if TYPE_CHECKING:
    from marlenv.rng import RowRNG

Reshape = Callable[[Tensor], Tensor]
ShapeLike = Sequence[int] | int | None

DYNAMIC = 1_000_003  # stands in for a dimension of size -1 while shapes are computed


def size(shape: ShapeLike) -> Size:
    """A ``Size`` from what users write: a sequence, an int, or nothing.

    >>> size(3), size(None), size([2, 3])
    (torch.Size([3]), torch.Size([]), torch.Size([2, 3]))
    """
    if shape is None:
        return Size()
    return Size((shape,)) if isinstance(shape, int) else Size(shape)


def concrete(shape: Size) -> Size:
    """The shape with every dynamic dimension (-1) set to 1: what an example value has."""
    return Size(1 if s < 0 else s for s in shape) if -1 in shape else shape


def as_dtype(dtype: torch.dtype | str | None, default: torch.dtype) -> torch.dtype:
    """A torch dtype from what users write: a dtype, its name, or nothing."""
    if dtype is None:
        return default
    return getattr(torch, dtype) if isinstance(dtype, str) else dtype


def fits(shape: Size, spec: Size) -> bool:
    """Whether a value of ``shape`` has the spec's trailing dimensions (-1 fits any size)."""
    if len(shape) < len(spec):
        return False
    tail = shape[len(shape) - len(spec) :]
    return tail == spec or all(want in (-1, got) for want, got in zip(spec, tail, strict=True))


def varargs(args: tuple[Any, ...]) -> Size:
    """The sizes of ``expand(2, 3)`` or ``expand((2, 3))``."""
    return Size(args[0]) if len(args) == 1 and not isinstance(args[0], int) else Size(args)


class TensorSpec(ABC):
    """The set of tensors that an entry may hold: shape, dtype, device and domain.

    Every spec draws (:meth:`rand`), checks (:meth:`is_in`), repairs (:meth:`project`) and translates (:meth:`encode`,
    :meth:`to_numpy`) values, and takes part in shape algebra like a tensor (``expand``, ``unsqueeze``, ``spec[0]``,
    ``torch.stack``).
    """

    params: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes that are tensors ``[*batch, ...]`` or None."""
    fields: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes that do not change with the shape."""
    event_ndim: ClassVar[int] = 0
    """How many trailing dimensions belong to one value and cannot be reshaped."""
    domain: str = "discrete"
    """``"continuous"`` or ``"discrete"``."""

    shape: Size
    dtype: torch.dtype
    _device: torch.device | None

    def __init__(self, shape: ShapeLike, dtype: torch.dtype, device: torch.device | str | None) -> None:
        self.shape = size(shape)
        self.dtype = dtype
        self._device = torch.get_default_device() if device is None else torch.device(device)

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
        raise Unsupported(f"{type(self).__name__}: its values cannot be listed; only discrete specs can")

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
        if rng is None or isinstance(rng, torch.Generator):
            return self._draw(lead, rng)
        want = Size((*lead, *self.unit_shape))
        if want[: len(rng.rows)] != rng.rows:
            who = f"{type(self).__name__}.rand"
            raise ShapeError(f"{who}: the rows of rng {list(rng.rows)} must be the leading dimensions of {list(want)}")
        return self.from_unit(rng.uniform(shape=want[len(rng.rows) :], dtype=self.unit_dtype))

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
        """Whether ``val`` (``[..., *self.shape]``) has the right dtype and lies in the domain."""
        return (
            isinstance(val, Tensor)
            and val.dtype == self.dtype
            and (val.shape == self.shape or fits(val.shape, self.shape))
            and self._holds(val)
        )

    contains = is_in

    def __contains__(self, val: Any) -> bool:
        return self.is_in(val)

    def assert_is_in(self, value: Any) -> None:
        """Raises :class:`~marlenv.errors.NotInSpec`, an AssertionError, unless ``value`` is in the spec."""
        if not self.is_in(value):
            raise NotInSpec(f"{self!r}: the value is not in the spec, got {_brief(value)}; expected {self!r}")

    def type_check(self, value: Any, key: Any = None) -> None:
        """Raises :class:`~marlenv.errors.DtypeError` unless ``value`` has the spec's dtype."""
        if value.dtype is not self.dtype:
            where = "" if key is None else f" under {key!r}"
            raise DtypeError(f"{type(self).__name__}{where}: expected {self.dtype}, got {value.dtype}")

    def project(self, val: Any) -> Any:
        """``val`` where it is in the domain, else the nearest value that is."""
        return val if self.is_in(val) else self._project(val)

    # --- translating -----------------------------------------------------------------------------

    def encode(self, val: Any, *, ignore_device: bool = False) -> Any:
        """A tensor of this spec from what a simulator gives: a number, a list, an array or a tensor.

        Args:
            val: the value, with the spec's shape behind any leading dimensions.
            ignore_device: leave the value where it is.

        Raises:
            ShapeError: the value does not have the spec's trailing dimensions.
        """
        out = self._as_tensor(val, ignore_device)
        if not fits(out.shape, self.shape):
            if out.numel() == prod(concrete(self.shape)):
                return out.reshape(concrete(self.shape))
            raise ShapeError(f"{self!r}.encode: expected a value of shape {list(self.shape)}, got {list(out.shape)}")
        return out

    def _as_tensor(self, val: Any, ignore_device: bool) -> Tensor:
        if isinstance(val, (list, tuple)) and val and not isinstance(val[0], (int, float, bool)):
            val = torch.stack([torch.as_tensor(v) for v in val]) if isinstance(val[0], Tensor) else np.asarray(val)
        if isinstance(val, np.ndarray) and any(stride < 0 for stride in val.strides):
            val = val.copy()
        return torch.as_tensor(val, dtype=self.dtype, device=None if ignore_device else self._device)

    def to_numpy(self, val: Tensor, safe: bool | None = None) -> Any:
        """The value as simulators take it: an array; ``safe`` checks it first."""
        if safe:
            self.assert_is_in(val)
        return val.detach().cpu().numpy()

    def index(self, index: Any, tensor_to_index: Tensor) -> Tensor:
        """The entries of ``tensor_to_index`` (last dimension) that a discrete value names."""
        raise Unsupported(f"{type(self).__name__}.index: only discrete specs name entries")

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

    def _map(self, reshape: Reshape, **changes: Any) -> Self:
        """A copy with ``reshape`` applied to the leading dimensions of the shape and of every parameter."""
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

    def _dim(self, dim: int, extra: int = 0) -> int:
        """``dim`` counted from the front; it must be a batch dimension."""
        front = dim + len(self.shape) + extra if dim < 0 else dim
        if not 0 <= front < self.batch_ndim + extra:
            raise IndexError(
                f"{self._who}: dimension {dim} is out of range; it has {self.batch_ndim} batch dimensions"
                + (f" and {self.event_ndim} event dimensions" if self.event_ndim else "")
            )
        return front

    def _split(self, shape: Size, verb: str) -> tuple[Size, int]:
        """The batch part of a wanted shape, and how many dimensions the present batch part has."""
        events = self.shape[self.batch_ndim :]
        batch, tail = shape[: len(shape) - self.event_ndim], shape[len(shape) - self.event_ndim :]
        if any(want not in (-1, have) for want, have in zip(tail, events, strict=False)) or len(tail) != len(events):
            raise ShapeError(
                f"{self._who}.{verb}: the last {self.event_ndim} dimensions must stay {list(events)}, got {list(shape)}"
            )
        return batch, self.batch_ndim

    def expand(self, *shape: Any) -> Self:
        """More batch dimensions in front, and batch dimensions of size 1 made larger."""
        want = varargs(shape)
        batch, rest = self._split(want, "expand")
        try:
            return self._map(lambda t: t.expand(*batch, *t.shape[rest:]))
        except RuntimeError as error:
            raise ShapeError(f"{self._who}: cannot be expanded to {list(want)}") from error

    def reshape(self, *shape: Any) -> Self:
        """Other batch dimensions with the same number of elements."""
        want = varargs(shape)
        batch, rest = self._split(want, "reshape")
        return self._map(lambda t: t.reshape(*batch, *t.shape[rest:]))

    view = reshape

    def unsqueeze(self, dim: int) -> Self:
        """A new batch dimension of size 1."""
        dim = self._dim(dim, extra=1)
        return self._map(lambda t: t.unsqueeze(dim))

    def squeeze(self, dim: int | None = None) -> Self:
        """Without one batch dimension of size 1, or without all of them."""
        if dim is None:
            ones = [i for i in range(self.batch_ndim) if self.shape[i] == 1]
            return self._map(lambda t: t.squeeze(ones)) if ones else self
        dim = self._dim(dim)
        return self._map(lambda t: t.squeeze(dim)) if self.shape[dim] == 1 else self

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Several batch dimensions as one."""
        start, end = self._dim(start_dim), self._dim(end_dim)
        return self._map(lambda t: t.flatten(start, end))

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """One batch dimension as several."""
        dim = self._dim(dim)
        return self._map(lambda t: t.unflatten(dim, tuple(sizes)))

    def permute(self, *dims: Any) -> Self:
        """The batch dimensions in another order."""
        order = [self._dim(d) for d in varargs(dims)][: self.batch_ndim]
        return self._map(lambda t: t.permute(*order, *range(len(order), t.ndim)))

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """The specs along one batch dimension."""
        dim = self._dim(dim)
        return tuple(self._map(lambda t, i=i: t.select(dim, i)) for i in range(self.shape[dim]))  # type: ignore[misc]

    def __getitem__(self, index: Any) -> Self:
        index = index if isinstance(index, tuple) else (index,)
        used = sum(_consumes(i) for i in index)
        if used > self.batch_ndim:
            raise IndexError(f"{self._who}: too many indices, got {used}; it has {self.batch_ndim} batch dimensions")
        if any(i is Ellipsis for i in index):
            at = next(k for k, i in enumerate(index) if i is Ellipsis)
            index = (*index[:at], *[slice(None)] * (self.batch_ndim - used), *index[at + 1 :])
        return self._map(lambda t: t[index])

    def make_neg_dim(self, dim: int) -> Self:
        """Says, in place, that the size of one batch dimension is not known in advance."""
        dim = self._dim(dim)
        self.shape = Size(-1 if i == dim else s for i, s in enumerate(self.shape))
        for name in self.params:
            if (old := getattr(self, name)) is not None:
                setattr(self, name, old.narrow(dim, 0, min(1, old.shape[dim])))
        return self

    # --- moving and comparing --------------------------------------------------------------------

    def to(self, dest: torch.device | torch.dtype | str | int | None) -> Self:
        """The spec on another device, or with another dtype."""
        if dest is None:
            return self
        if isinstance(dest, torch.dtype):
            return self if dest == self.dtype else self._cast(dest)
        device = torch.device(dest)
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
        return self.to(
            "cuda" if device is None else torch.device("cuda", device) if isinstance(device, int) else device
        )

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
        if any(getattr(self, n) != getattr(other, n) for n in self.fields):
            return False
        pairs = ((getattr(self, n), getattr(other, n)) for n in self.params)
        return all(a is b or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs)

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
        detail = self._detail()
        return f"{type(self).__name__}({list(self.shape)}, {dtype_name(self.dtype)}{', ' if detail else ''}{detail})"

    def _detail(self) -> str:
        """The domain in a few characters."""
        return ""


def reshaped(shape: Size, reshape: Reshape) -> Size:
    """The shape that a tensor of ``shape`` has after ``reshape``; dynamic dimensions stay dynamic."""
    sizes = [DYNAMIC if s < 0 else s for s in shape]
    token = torch.empty(sizes, device="meta") if sizes else torch.empty((), device="meta")
    return Size(-1 if s == DYNAMIC else s for s in reshape(token).shape)


def dtype_name(dtype: torch.dtype | None) -> str:
    """``"float32"`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def _consumes(index: Any) -> int:
    """How many dimensions one part of an index uses up."""
    if index is None or index is Ellipsis or isinstance(index, bool):
        return 0
    return index.ndim if isinstance(index, Tensor) and index.dtype == torch.bool else 1


def _brief(value: Any) -> str:
    """A value in an error message."""
    if not isinstance(value, Tensor):
        return f"{type(value).__name__} {value!r}"[:200]
    head = f"{dtype_name(value.dtype)} {list(value.shape)}"
    if value.numel() == 0 or value.dtype == torch.bool or value.is_nested:
        return head
    low, high = value.min().item(), value.max().item()
    return f"{head} in {low:g}..{high:g}"
