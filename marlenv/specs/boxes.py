"""The ``space`` objects that users read: ``spec.space.low``, ``spec.space.n``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
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

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ContinuousBox):
            return NotImplemented
        return torch.equal(self.low, other.low) and torch.equal(self.high, other.high)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class CategoricalBox:
    """The numbers ``0 .. n - 1``.

    >>> Categorical(4).space.n
    4
    """

    n: int


@dataclass(frozen=True)
class BoxList:
    """One space per component of a multi-discrete value.

    >>> [box.n for box in MultiCategorical([2, 3]).space]
    [2, 3]
    """

    boxes: tuple[CategoricalBox, ...]

    def __iter__(self) -> Iterator[CategoricalBox]:
        return iter(self.boxes)

    def __len__(self) -> int:
        return len(self.boxes)
