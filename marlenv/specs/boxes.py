"""The ``space`` objects that users read: ``spec.space.low``, ``spec.space.n``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from marlenv.specs.register import Register

if TYPE_CHECKING:
    from marlenv.specs.bounded import Range


class ContinuousBox:
    """Numbers between ``low`` and ``high``, tensors of the spec's shape; assigning a bound changes the spec.

    Args:
        low: smallest values.
        high: largest values.
        spec: whose bounds these are.

    >>> from marlenv import Bounded
    >>> spec = Bounded(-1, 1, shape=(2,))
    >>> spec.space.high = 5
    >>> spec.space.high
    tensor([5., 5.])
    """

    def __init__(self, low: Tensor, high: Tensor, spec: Range | None = None) -> None:
        self._low, self._high, self._spec = low, high, spec

    @property
    def low(self) -> Tensor:
        """The smallest values."""
        return self._low

    @low.setter
    def low(self, value: Any) -> None:
        self._low = value if self._spec is None else self._spec._set_bound("low", value)

    @property
    def high(self) -> Tensor:
        """The largest values."""
        return self._high

    @high.setter
    def high(self, value: Any) -> None:
        self._high = value if self._spec is None else self._spec._set_bound("high", value)

    def __repr__(self) -> str:
        return f"ContinuousBox(low={self.low}, high={self.high})"

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
    register: Register | None = field(default=None, compare=False, repr=False)
    """The values that the numbers stand for, where a spec keeps them."""


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
