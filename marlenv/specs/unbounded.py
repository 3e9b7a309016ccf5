"""Any number of a dtype."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Size, Tensor

from marlenv.errors import SpecError
from marlenv.specs.bounded import Range, normal_of, whole_of
from marlenv.specs.boxes import ContinuousBox
from marlenv.specs.dtypes import as_dtype, cast
from marlenv.specs.shapes import ShapeLike, concrete

COARSE = (
    torch.bool,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.complex64,
)


class Unbounded(Range):
    """Any value of its dtype: standard normal draws for floats, uniform over the whole range for integers.

    Draws of complex numbers are those of ``torch.randn``: real and imaginary parts are normal with variance 1/2 each.

    Args:
        shape: one element when left out.
        device: where values live.
        dtype: the default float type when left out.
        domain: ``"continuous"`` or ``"discrete"``; what the dtype is when left out.

    >>> Unbounded((3,), dtype=torch.int64)
    Unbounded([3], int64)
    """

    def __init__(
        self,
        shape: ShapeLike = (1,),
        device: torch.device | str | None = None,
        dtype: torch.dtype | str | None = None,
        domain: str | None = None,
    ) -> None:
        super().__init__(shape, as_dtype(dtype, torch.get_default_dtype()), device)
        self._name_domain(domain)

    @property
    def domain(self) -> str:  # type: ignore[override]
        """``"discrete"`` for integers and bools, else ``"continuous"``, unless it was said otherwise."""
        return self._domain or ("continuous" if self._gaussian else "discrete")

    @property
    def _gaussian(self) -> bool:
        """Whether draws are normal."""
        return self.dtype.is_floating_point or self.dtype.is_complex

    def _ends(self) -> tuple[Any, Any]:
        """The smallest and the largest value; of complex numbers, of both parts."""
        if self.dtype.is_complex:
            return complex("-inf-infj"), complex("inf+infj")
        if self.dtype.is_floating_point:
            return float("-inf"), float("inf")
        if self.dtype == torch.bool:
            return False, True
        info = torch.iinfo(self.dtype)
        return info.min, info.max

    @property
    def space(self) -> ContinuousBox:
        """The ends of the dtype's range; infinite for floats."""
        shape = concrete(self.shape)
        low, high = (torch.tensor(end, dtype=self.dtype, device=self._device).expand(shape) for end in self._ends())
        return ContinuousBox(low, high, self)

    def _set_bound(self, name: str, value: Any) -> Tensor:
        raise SpecError(f"{self!r}: has no {name} to assign, got {value}; make a Bounded(low, high, shape)")

    @property
    def unit_dtype(self) -> torch.dtype:  # type: ignore[override]
        """Double precision for numbers of more than 24 bits."""
        return torch.float32 if self.dtype in COARSE else torch.float64

    @property
    def unit_shape(self) -> Size:
        """One number for every element; two for complex ones."""
        shape = concrete(self.shape)
        return Size((*shape, 2)) if self.dtype.is_complex else shape

    def _draw(self, lead: Size, generator: torch.Generator | None) -> Tensor:
        if not self._gaussian:
            return super()._draw(lead, generator)
        want = (*lead, *concrete(self.shape))
        return torch.randn(want, generator=generator, dtype=self.dtype, device=self._device)

    def from_unit(self, unit: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.dtype.is_complex:
            return torch.complex(*(normal_of(part) * math.sqrt(0.5) for part in unit.unbind(-1))).to(self.dtype)
        if self.dtype.is_floating_point:
            return normal_of(unit).to(self.dtype)
        if self.dtype == torch.bool:
            return unit >= 0.5
        low, high = (torch.tensor(end, device=unit.device) for end in self._ends())
        return whole_of(unit.to(torch.float64), low, high).to(self.dtype)

    def _holds(self, value: Tensor) -> bool:
        return True

    def _project(self, value: Tensor) -> Tensor:
        return cast(value, self.dtype)

    def cardinality(self) -> float:
        """How many values one element can take; ``inf`` for floats."""
        if self._gaussian:
            return float("inf")
        low, high = self._ends()
        return high - low + 1
