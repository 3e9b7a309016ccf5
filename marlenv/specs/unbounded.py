"""Any number of a dtype."""

from __future__ import annotations

import torch
from torch import Size, Tensor

from marlenv.specs.base import ShapeLike, TensorSpec, as_dtype, concrete
from marlenv.specs.bounded import normal_of
from marlenv.specs.boxes import ContinuousBox


class Unbounded(TensorSpec):
    """Any value of its dtype: standard normal draws for floats, the whole range for integers.

    Args:
        shape: one element when left out.
        device: where values live.
        dtype: the default float type when left out.

    >>> Unbounded((3,), dtype=torch.int64)
    Unbounded([3], int64)
    """

    def __init__(
        self,
        shape: ShapeLike = (1,),
        device: torch.device | str | None = None,
        dtype: torch.dtype | str | None = None,
    ) -> None:
        super().__init__(shape, as_dtype(dtype, torch.get_default_dtype()), device)

    @property
    def domain(self) -> str:  # type: ignore[override]
        """``"continuous"`` for floating-point numbers, else ``"discrete"``."""
        return "continuous" if self.dtype.is_floating_point else "discrete"

    @property
    def space(self) -> ContinuousBox:
        """The ends of the dtype's range; infinite for floats."""
        if self.dtype.is_floating_point:
            low, high = float("-inf"), float("inf")
        elif self.dtype == torch.bool:
            low, high = False, True
        else:
            low, high = torch.iinfo(self.dtype).min, torch.iinfo(self.dtype).max
        full = [
            torch.tensor(end, dtype=self.dtype, device=self._device).expand(concrete(self.shape)) for end in (low, high)
        ]
        return ContinuousBox(*full)

    @property
    def unit_dtype(self) -> torch.dtype:  # type: ignore[override]
        """Double precision for 64-bit numbers."""
        return torch.float64 if self.dtype in (torch.float64, torch.int64) else torch.float32

    def _draw(self, lead: Size, generator: torch.Generator | None) -> Tensor:
        if not self.dtype.is_floating_point:
            return super()._draw(lead, generator)
        want = (*lead, *concrete(self.shape))
        return torch.randn(want, generator=generator, dtype=self.dtype, device=self._device)

    def from_unit(self, unit: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.dtype.is_floating_point:
            return normal_of(unit).to(self.dtype)
        if self.dtype == torch.bool:
            return unit >= 0.5
        info = torch.iinfo(self.dtype)
        scaled = (unit.to(torch.float64) * (float(info.max) - float(info.min) + 1) + float(info.min)).floor()
        return scaled.clamp(float(info.min), float(info.max) if info.bits < 54 else 2.0 ** (info.bits - 1) - 1024).to(
            self.dtype
        )

    def _holds(self, value: Tensor) -> bool:
        return True

    def _project(self, value: Tensor) -> Tensor:
        return value.to(self.dtype)
