"""Numbers between two bounds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from marlenv.errors import ShapeError, SpecError, SpecTypeError
from marlenv.specs.base import TensorSpec
from marlenv.specs.boxes import ContinuousBox
from marlenv.specs.dtypes import as_device, as_dtype, cast
from marlenv.specs.shapes import Rename, Reshape, ShapeLike, concrete, size

Bound = float | int | Tensor | np.ndarray | Sequence[Any]

NORMAL_EDGE = 2.0**-25  # keeps ndtri away from 0 and 1, where it is infinite
UNSIGNED = 2.0**64


def normal_of(unit: Tensor) -> Tensor:
    """Gaussian numbers from numbers in [0, 1)."""
    return torch.special.ndtri(unit.clamp(NORMAL_EDGE, 1 - NORMAL_EDGE))


def whole_of(unit: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The int64 in ``low .. high`` that a float64 in [0, 1) stands for; exact up to ``2**53`` values.

    A number below 1 times the count is at least one unit in the last place below it, so the steps never pass ``high``.

    >>> whole_of(torch.tensor([0.0, 0.999], dtype=torch.float64), torch.tensor(2**62), torch.tensor(2**62 + 9))
    tensor([4611686018427387904, 4611686018427387913])
    """
    span = high - low  # wraps around where it exceeds int64
    count = span.to(torch.float64) + torch.where(span < 0, UNSIGNED, 0.0) + 1
    steps = (unit * count).floor()
    return low + torch.where(steps < 2.0**63, steps, steps - UNSIGNED).to(torch.int64)


class Range(TensorSpec):
    """Numbers of a dtype between two ends; abstract."""

    fields: ClassVar[tuple[str, ...]] = ("_domain",)

    _domain: str | None
    """A domain that is not the dtype's own."""

    def _name_domain(self, domain: str | None) -> None:
        if domain not in (None, "continuous", "discrete"):
            raise SpecError(f"{type(self).__name__}: domain must be 'continuous' or 'discrete', got {domain!r}")
        self._domain = None
        self._domain = None if domain == self.domain else domain

    @property
    def domain(self) -> str:  # type: ignore[override]
        """``"continuous"`` for floating-point numbers, else ``"discrete"``, unless it was said otherwise."""
        return self._domain or ("continuous" if self.dtype.is_floating_point else "discrete")

    @abstractmethod
    def _set_bound(self, name: str, value: Any) -> Tensor:
        """Assigns ``low`` or ``high``; returns it as a tensor of the spec's shape."""


class Bounded(Range):
    """Numbers in ``[low, high]``, both ends included.

    Draws are uniform. Where ``high - low`` is infinite they are the bound plus or minus an exponential, or standard
    normal where both ends are infinite.

    Args:
        low: smallest value, a number or something that broadcasts to ``shape``; may be ``-inf``.
        high: largest value, likewise.
        shape: taken from ``low`` and ``high`` when left out.
        device: where values live.
        dtype: a float or an integer type; the default float type when left out.
        domain: ``"continuous"`` or ``"discrete"``; what the dtype is when left out.

    Raises:
        SpecError: ``low`` exceeds ``high``, the bounds do not fit the shape, or no shape is given.

    >>> Bounded(-1, 1, shape=(2, 3)).unsqueeze(0)
    Bounded([1, 2, 3], float32, -1..1)
    """

    params: ClassVar[tuple[str, ...]] = ("_low", "_high")

    _low: Tensor
    _high: Tensor
    _seen: Any = None
    """The versions of the bounds, once they were handed out and may be written in place."""

    def __init__(
        self,
        low: Bound,
        high: Bound,
        shape: ShapeLike = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | str | None = None,
        domain: str | None = None,
    ) -> None:
        dtype = as_dtype(dtype, torch.get_default_dtype())
        if shape is None and not any(isinstance(b, (Tensor, np.ndarray, list, tuple)) for b in (low, high)):
            raise SpecError(
                f"Bounded: expected a shape, or bounds that are tensors, got low={low}, high={high} and no shape; "
                f"a single number has shape=()"
            )
        ends = [
            _end(b, dtype, as_device(torch.get_default_device() if device is None else device)) for b in (low, high)
        ]
        given = None if shape is None else size(shape)
        try:
            super().__init__(
                torch.broadcast_shapes(*(e.shape for e in ends)) if given is None else given, dtype, device
            )
            self._low, self._high = (end.expand(concrete(self.shape)) for end in ends)
        except RuntimeError as error:
            raise SpecError(
                f"Bounded: low and high must broadcast to the shape {given and list(given)}, "
                f"got bounds of shape {[list(e.shape) for e in ends]}"
            ) from error
        if not self._low.is_meta and not bool((self._low <= self._high).all()):
            raise SpecError(f"Bounded: low must not exceed high, got low={low}, high={high}; swap or raise them")
        self._name_domain(domain)

    @property
    def low(self) -> Tensor:
        """The smallest values, of the spec's shape; what is written into them in place holds from then on."""
        return self._handed_out()[0]

    @low.setter
    def low(self, value: Any) -> None:
        self._set_bound("low", value)

    @property
    def high(self) -> Tensor:
        """The largest values, of the spec's shape; what is written into them in place holds from then on."""
        return self._handed_out()[1]

    @high.setter
    def high(self, value: Any) -> None:
        self._set_bound("high", value)

    @property
    def space(self) -> ContinuousBox:
        """The bounds; ``spec.space.low = ...`` assigns one, ``spec.space.low[0] = ...`` a part of it."""
        return ContinuousBox(*self._handed_out(), self)

    def _handed_out(self) -> tuple[Tensor, Tensor]:
        """The bounds as tensors with a memory of their own, which only this spec and its users hold."""
        if self._seen is None:
            self._low, self._high = _own(self._low), _own(self._high)
            self._seen = self._versions()
        return self._low, self._high

    def _versions(self) -> Any:
        """What changes when a bound is written in place; tensors of ``inference_mode`` count as always changed."""
        ends = (self._low, self._high)
        return object() if any(end.is_inference() for end in ends) else tuple(end._version for end in ends)

    def _follow(self) -> None:
        """Takes over what was written into the bounds in place.

        Raises:
            SpecError: a lower bound exceeds its upper bound since.
        """
        now = self._versions()
        if now != self._seen:
            if not self._low.is_meta and not bool((self._low <= self._high).all()):
                raise SpecError(f"{self!r}: low must not exceed high, got bounds written in place that do; mend them")
            self._seen = now
            self._forget()

    def _map(self, reshape: Reshape, rename: Rename | None = None, **changes: Any) -> Self:
        if self._seen is None:
            return super()._map(reshape, rename, **changes)
        return super()._map(lambda t: reshape(t.clone()), rename, **changes)  # what users hold stays this spec's own

    def _set_bound(self, name: str, value: Any) -> Tensor:
        try:
            end = _end(value, self.dtype, self._device).expand(concrete(self.shape))
        except RuntimeError as error:
            raise ShapeError(
                f"{self!r}: {name} must broadcast to {list(self.shape)}, got shape {list(np.shape(value))}"
            ) from error
        low, high = (end, self._high) if name == "low" else (self._low, end)
        if not end.is_meta and not bool((low <= high).all()):
            raise SpecError(f"{self!r}: low must not exceed high, got {name}={value}; assign the other bound first")
        self._handed_out()
        end = _own(end)
        setattr(self, f"_{name}", end)
        self._seen = self._versions()
        self._forget()
        return end

    @cached_property
    def _flat(self) -> tuple[float, float] | None:
        """The bounds as numbers, when every element has the same."""
        if self._low.numel() == 0 or self._low.is_meta:
            return None
        low, high = self._low.flatten()[0], self._high.flatten()[0]
        same = bool((self._low == low).all()) and bool((self._high == high).all())
        return (low.item(), high.item()) if same else None

    @cached_property
    def _span(self) -> Tensor | None:
        """``high - low`` a hair too small, so that ``low + unit * span`` never passes ``high``; None if infinite."""
        wide = torch.float64 if self.dtype == torch.float64 else torch.float32
        span = self._high.to(wide) - self._low.to(wide)
        known = span.is_meta or bool(span.isfinite().all())
        return torch.nextafter(span, torch.zeros_like(span)) if known else None

    @cached_property
    def _scale(self) -> tuple[Tensor | None, Tensor] | None:
        """Offset (None is zero) and factor from [0, 1) to the domain: one number each if they are the same
        everywhere.
        """
        if not self.dtype.is_floating_point or self._span is None:
            return None
        low = self._low.to(self._span.dtype)
        if self._flat is None:
            return low, self._span
        return low.reshape(-1)[0].clone() if self._flat[0] else None, self._span.reshape(-1)[0].clone()

    @cached_property
    def _whole(self) -> tuple[Tensor, Tensor]:
        """The bounds of an integer type as int64; one number each if they are the same everywhere."""
        flat = self._flat is not None
        low, high = ((end.reshape(-1)[0] if flat else end).long() for end in (self._low, self._high))
        return low, high

    @property
    def unit_dtype(self) -> torch.dtype:  # type: ignore[override]
        """Double precision where single is too coarse for the range."""
        return torch.float32 if self.dtype.is_floating_point and self.dtype != torch.float64 else torch.float64

    def from_unit(self, unit: Tensor, mask: Tensor | None = None) -> Tensor:
        if self._seen is not None:
            self._follow()
        if not self.dtype.is_floating_point:
            return whole_of(unit.to(torch.float64), *self._whole).to(self.dtype)
        if self._scale is not None:
            low, span = self._scale
            out = unit * span if low is None else unit * span + low
            return out if out.dtype == self.dtype else out.to(self.dtype)
        return self._from_unit_unlimited(unit)

    def _from_unit_unlimited(self, unit: Tensor) -> Tensor:
        """Draws where ``high - low`` is infinite: half-lines by an exponential, huge ranges by interpolation."""
        low, high = self._low.to(unit.dtype), self._high.to(unit.dtype)
        steps = -torch.log1p(-unit)
        inner = low * (1 - unit) + high * unit
        out = torch.where(low.isfinite(), torch.where(high.isfinite(), inner, low + steps), high - steps)
        out = torch.where(low.isinf() & high.isinf(), normal_of(unit), out)
        return self._project(out)

    def _holds(self, value: Tensor) -> bool:
        if value.numel() == 0:
            return True
        if self._seen is not None:
            self._follow()
        if self._flat is not None:
            low, high = torch.aminmax(value)
            return bool(low.item() >= self._flat[0]) and bool(high.item() <= self._flat[1])
        return bool(((value >= self._low) & (value <= self._high)).all())

    def _project(self, value: Tensor) -> Tensor:
        if self.dtype == torch.bool:
            return (cast(value, torch.bool) | self._low) & self._high
        value = cast(value, self.dtype)
        if self.dtype.is_floating_point:
            value = torch.where(value.isnan(), torch.zeros_like(value), value)
        return torch.minimum(torch.maximum(value, self._low), self._high)

    def _cast(self, dtype: torch.dtype) -> Bounded:
        return self._map(lambda t: _end(t, dtype, t.device), dtype=dtype)

    def cardinality(self) -> float:
        """The number of integers between the bounds for one element, ``inf`` for floats."""
        if self.dtype.is_floating_point:
            return float("inf")
        low, high = self._low.long().reshape(-1).tolist(), self._high.long().reshape(-1).tolist()
        return max((b - a + 1 for a, b in zip(low, high, strict=True)), default=0)

    def enumerate(self, use_mask: bool = False) -> Tensor:
        """Every integer between the bounds, the same in all elements; ``[n, *shape]``."""
        if self._seen is not None:
            self._follow()
        if self.dtype.is_floating_point or self._flat is None:
            return super().enumerate(use_mask)
        values = torch.arange(int(self._flat[0]), int(self._flat[1]) + 1, device=self._device).to(self.dtype)
        return values.reshape(-1, *[1] * len(self.shape)).expand(-1, *concrete(self.shape)).clone()

    def _detail(self) -> str:
        if self._low.is_meta or self._low.numel() == 0:
            return "bounded"
        low, high = self._low.min().item(), self._high.max().item()
        return "bounded" if isinstance(low, torch.SymFloat | torch.SymInt) else f"{low:g}..{high:g}"


def _own(end: Tensor) -> Tensor:
    """A copy in which every element is a number of its own."""
    return end.clone(memory_format=torch.contiguous_format)


def _end(bound: Bound, dtype: torch.dtype, device: torch.device | None) -> Tensor:
    """A bound as a tensor of the spec's dtype that nobody else holds; bounds out of an integer type's range become its
    ends.
    """
    try:
        value = bound.clone() if isinstance(bound, Tensor) else torch.tensor(np.asarray(bound))
    except (TypeError, ValueError) as error:
        raise SpecTypeError(f"Bounded: a bound must be a number, or numbers in an array, got {bound!r}") from error
    value = value.to(device)
    if dtype.is_complex or value.is_complex():
        raise SpecTypeError(f"Bounded: complex numbers have no bounds, got {bound!r} and {dtype}; take Unbounded")
    if dtype.is_floating_point:
        return value.to(dtype)
    if value.dtype.is_floating_point and bool(value.isnan().any() if not value.is_meta else False):
        raise SpecError(f"Bounded: a bound must be a number, got {bound}")
    return cast(value.trunc() if value.dtype.is_floating_point else value, dtype)
