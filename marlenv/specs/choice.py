"""One of several specs, or one of several pieces of data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from tensordict import NonTensorData
from torch import Tensor

from marlenv.errors import SpecError, Unsupported
from marlenv.specs.base import Reshape, ShapeLike, TensorSpec
from marlenv.specs.nontensor import NonTensor


class Choice(TensorSpec):
    """A value of one of several specs, which have the same shape, dtype and device.

    Args:
        choices: specs, or pieces of non-tensor data.

    >>> spec = Choice([Bounded(0, 1, shape=(2,)), Bounded(4, 5, shape=(2,))])
    >>> spec.is_in(torch.tensor([4.5, 4.5])), spec.is_in(torch.tensor([0.5, 4.5]))
    (True, False)
    """

    domain = ""

    def __init__(self, choices: Sequence[Any]) -> None:
        if not choices:
            raise SpecError("Choice: give at least one choice, got none")
        self.choices = [_as_spec(c) for c in choices]
        first = self.choices[0]
        for other in self.choices[1:]:
            if (other.shape, other.dtype, other.device) != (first.shape, first.dtype, first.device):
                raise SpecError(
                    f"Choice: all choices must have the shape, dtype and device of {first!r}, got {other!r}"
                )
        self.shape, self.dtype, self._device = first.shape, first.dtype, first.device

    @property
    def num_choices(self) -> int:
        """How many choices there are."""
        return len(self.choices)

    def _map(self, reshape: Reshape, **changes: Any) -> Self:
        return type(self)([c._map(reshape, **changes) for c in self.choices])

    @property
    def batch_ndim(self) -> int:
        """The batch dimensions of the choices."""
        return min(c.batch_ndim for c in self.choices)

    def rand(self, shape: ShapeLike = None, *, rng: Any = None) -> Any:
        """A value of a choice picked at random; the whole value comes from one choice."""
        if rng is None or isinstance(rng, torch.Generator):
            i = int(torch.randint(len(self.choices), (), generator=rng))
            return self.choices[i].rand(shape, rng=rng)
        if rng.rows:
            raise Unsupported("Choice.rand: one choice is made for the whole value; index one row of the rng first")
        return self.choices[int(rng.randint(0, len(self.choices)))].rand(shape, rng=rng)

    sample = rand

    def zero(self, shape: ShapeLike = None) -> Any:
        """The zero of the first choice."""
        return self.choices[0].zero(shape)

    def one(self, shape: ShapeLike = None) -> Any:
        """The one of the first choice."""
        return self.choices[0].one(shape)

    zeros, ones = zero, one

    def from_unit(self, unit: Tensor, mask: Tensor | None = None) -> Tensor:
        raise Unsupported("Choice: has no single way to turn a number into a value; use rand()")

    def is_in(self, val: Any) -> bool:
        """Whether ``val`` is in any of the choices."""
        return any(_holds(c, val) for c in self.choices)

    contains = is_in

    def _holds(self, value: Any) -> bool:
        return self.is_in(value)

    def _project(self, value: Any) -> Any:
        return self.choices[0].project(value)

    def type_check(self, value: Any, key: Any = None) -> None:
        """Raises unless ``value`` has the dtype of the choices."""
        self.choices[0].type_check(value, key)

    def cardinality(self) -> float:
        """The sum over the choices."""
        return sum(1 if isinstance(c, NonTensor) else c.cardinality() for c in self.choices)

    def enumerate(self, use_mask: bool = False) -> list[Any]:
        """Every value of every choice, in a list."""
        values: list[Any] = []
        for choice in self.choices:
            values += [choice.rand()] if isinstance(choice, NonTensor) else list(choice.enumerate(use_mask).unbind(0))
        return values

    def encode(self, val: Any, *, ignore_device: bool = False) -> Any:
        """The value as the first choice that accepts it encodes it."""
        encoded = [c.encode(val, ignore_device=ignore_device) for c in self.choices]
        return next((e for c, e in zip(self.choices, encoded, strict=True) if c.is_in(e)), encoded[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Choice) and self.choices == other.choices

    __hash__ = None  # type: ignore[assignment]

    def _detail(self) -> str:
        return f"{len(self.choices)} choices"


def _as_spec(choice: Any) -> TensorSpec:
    if isinstance(choice, TensorSpec):
        return choice
    if isinstance(choice, NonTensorData):
        return NonTensor(choice.batch_size, device=choice.device, example_data=choice.data)
    raise SpecError(f"Choice: a choice is a spec or NonTensorData, got {type(choice).__name__}")


def _holds(choice: TensorSpec, val: Any) -> bool:
    if not isinstance(choice, NonTensor):
        return choice.is_in(val)
    data = val.data if isinstance(val, NonTensorData) else val
    return bool(data == choice.example_data)
