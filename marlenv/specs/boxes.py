"""The ``space`` objects that users read: ``spec.space.low``, ``spec.space.n``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class ContinuousBox:
    """Numbers between ``low`` and ``high``, tensors of the spec's shape.

    >>> from marlenv import Bounded
    >>> Bounded(-1, 1, shape=(2,)).space.high
    tensor([1., 1.])
    """

    low: Tensor
    high: Tensor

    def __iter__(self) -> Iterator[Tensor]:
        yield self.low
        yield self.high

    @property
    def minimum(self) -> Tensor:
        """The same as ``low``."""
        return self.low

    @property
    def maximum(self) -> Tensor:
        """The same as ``high``."""
        return self.high


@dataclass(frozen=True)
class CategoricalBox:
    """The numbers ``0 .. n - 1``."""

    n: int


@dataclass(frozen=True)
class BoxList:
    """One space per component of a multi-discrete value."""

    boxes: tuple[CategoricalBox, ...]

    def __iter__(self) -> Iterator[CategoricalBox]:
        return iter(self.boxes)

    def __len__(self) -> int:
        return len(self.boxes)
