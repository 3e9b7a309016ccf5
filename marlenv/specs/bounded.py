"""Numbers between two bounds."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marlenv.errors import SpecError
from marlenv.specs.base import ShapeLike, TensorSpec, as_dtype, concrete, size
from marlenv.specs.boxes import ContinuousBox

Bound = float | int | Tensor | np.ndarray

NORMAL_EDGE = 2.0**-25  # keeps ndtri away from 0 and 1, where it is infinite


def normal_of(unit: Tensor) -> Tensor:
    """Gaussian numbers from numbers in [0, 1)."""
    return torch.special.ndtri(unit.clamp(NORMAL_EDGE, 1 - NORMAL_EDGE))


class Bounded(TensorSpec):
    """Numbers in ``[low, high]``, both ends included.

    Args:
        low: smallest value, a number or something that broadcasts to ``shape``; may be ``-inf``.
        high: largest value, likewise.
        shape: taken from ``low`` or ``high`` when left out.
        device: where values live.
        dtype: a float or an integer type; taken from the bounds when left out.

    Raises:
        SpecError: ``low`` exceeds ``high``, or no shape is given.

    >>> Bounded(-1, 1, shape=(2, 3)).unsqueeze(0)
    Bounded([1, 2, 3], float32, -1..1)
    """

    params = ("low", "high")

    low: Tensor
    high: Tensor

    def __init__(
        self,
        low: Bound,
        high: Bound,
        shape: ShapeLike = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | str | None = None,
    ) -> None:
        guess = next((torch.as_tensor(b).dtype for b in (low, high) if isinstance(b, (Tensor, np.ndarray))), None)
        dtype = as_dtype(dtype, guess or torch.get_default_dtype())
        ends = [_end(b, dtype, device) for b in (low, high)]
        if shape is None and not any(isinstance(b, (Tensor, np.ndarray, list, tuple)) for b in (low, high)):
            raise SpecError(
                f"Bounded: give a shape, or bounds that are tensors; got low={low}, high={high} and no shape"
            )
        shape = size(shape) if shape is not None else torch.broadcast_shapes(*(e.shape for e in ends))
        super().__init__(shape, dtype, device)
        try:
            self.low, self.high = (end.expand(concrete(self.shape)) for end in ends)
        except RuntimeError as error:
            raise SpecError(
                f"Bounded: bounds of shape {[list(e.shape) for e in ends]} do not fit shape {list(shape)}"
            ) from error
        if bool((self.low > self.high).any()):
            raise SpecError(f"Bounded: low must not exceed high, got low={low}, high={high}")

    @property
    def domain(self) -> str:  # type: ignore[override]
        """``"continuous"`` for floating-point numbers, else ``"discrete"``."""
        return "continuous" if self.dtype.is_floating_point else "discrete"

    @property
    def space(self) -> ContinuousBox:
        """The bounds."""
        return ContinuousBox(self.low, self.high)

    @cached_property
    def _flat(self) -> tuple[float, float] | None:
        """The bounds as numbers, when every element has the same."""
        if self.low.numel() == 0 or self.low.is_meta:
            return None
        low, high = self.low.flatten()[0], self.high.flatten()[0]
        same = bool((self.low == low).all()) and bool((self.high == high).all())
        return (low.item(), high.item()) if same else None

    @cached_property
    def _span(self) -> Tensor | None:
        """``high - low`` a hair too small, so that ``low + unit * span`` never passes ``high``; None if infinite."""
        wide = torch.float64 if self.dtype == torch.float64 else torch.float32
        span = self.high.to(wide) - self.low.to(wide)
        return torch.nextafter(span, torch.zeros_like(span)) if bool(span.isfinite().all()) else None

    @cached_property
    def _scale(self) -> tuple[Any, Any] | None:
        """Offset and factor from [0, 1) to the domain: numbers if they are the same everywhere, else tensors."""
        if not self.dtype.is_floating_point or self._span is None:
            return None
        if self._flat is not None and self._span.numel():
            return self._flat[0], self._span.flatten()[0].item()
        return self.low.to(self._span.dtype), self._span

    @property
    def unit_dtype(self) -> torch.dtype:  # type: ignore[override]
        """Double precision where single is too coarse for the range."""
        return torch.float32 if self.dtype.is_floating_point and self.dtype != torch.float64 else torch.float64

    def from_unit(self, unit: Tensor, mask: Tensor | None = None) -> Tensor:
        if not self.dtype.is_floating_point:
            low, high = self.low.to(torch.float64), self.high.to(torch.float64)
            whole = (low + unit * (high - low + 1)).floor()
            return torch.minimum(torch.maximum(whole, low), high).to(self.dtype).clamp(self.low, self.high)
        if self._scale is not None:
            low, span = self._scale
            out = unit * span if isinstance(low, float) and low == 0 else unit * span + low
            return out if out.dtype == self.dtype else out.to(self.dtype)
        return self._from_unit_unlimited(unit)

    def _from_unit_unlimited(self, unit: Tensor) -> Tensor:
        """Draws where ``high - low`` is infinite: half-lines by an exponential, huge ranges by interpolation."""
        low, high = self.low.to(unit.dtype), self.high.to(unit.dtype)
        steps = -torch.log1p(-unit)
        inner = low * (1 - unit) + high * unit
        out = torch.where(low.isfinite(), torch.where(high.isfinite(), inner, low + steps), high - steps)
        out = torch.where(low.isinf() & high.isinf(), normal_of(unit), out)
        return out.to(self.dtype).clamp(self.low, self.high)

    def _holds(self, value: Tensor) -> bool:
        if value.numel() == 0:
            return True
        if self._flat is not None:
            low, high = torch.aminmax(value)
            return bool(low.item() >= self._flat[0]) and bool(high.item() <= self._flat[1])
        return bool(((value >= self.low) & (value <= self.high)).all())

    def _project(self, value: Tensor) -> Tensor:
        return value.to(self.dtype).clamp(self.low, self.high)

    def _cast(self, dtype: torch.dtype) -> Bounded:
        return self._map(lambda t: t.to(dtype), dtype=dtype)

    def cardinality(self) -> float:
        """The number of integers between the bounds for one element, ``inf`` for floats."""
        if self.dtype.is_floating_point:
            return float("inf")
        return int((self.high - self.low + 1).max().item())

    def enumerate(self, use_mask: bool = False) -> Tensor:
        """Every integer between the bounds, the same in all elements; ``[n, *shape]``."""
        if self.dtype.is_floating_point or self._flat is None:
            return super().enumerate(use_mask)
        values = torch.arange(int(self._flat[0]), int(self._flat[1]) + 1, dtype=self.dtype, device=self._device)
        return values.reshape(-1, *[1] * len(self.shape)).expand(-1, *concrete(self.shape)).clone()

    def _detail(self) -> str:
        if self.low.is_meta or self.low.numel() == 0:
            return "bounded"
        return f"{self.low.min().item():g}..{self.high.max().item():g}"


def _end(bound: Bound, dtype: torch.dtype, device: torch.device | str | None) -> Tensor:
    """A bound as a tensor of the spec's dtype; infinite bounds of integers become the largest integers."""
    value = torch.as_tensor(bound, device=device)
    if not dtype.is_floating_point and value.dtype.is_floating_point and dtype != torch.bool:
        info = torch.iinfo(dtype)
        whole = value.to(torch.float64).clamp(float(info.min), float(info.max)).to(dtype)
        return torch.where(value.isinf(), torch.where(value > 0, info.max, info.min).to(dtype), whole)
    return value.to(dtype)
