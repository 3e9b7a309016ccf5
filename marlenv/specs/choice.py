"""One of several specs, or one of several pieces of data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from tensordict import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDictBase, is_tensor_collection
from torch import Size, Tensor

from marlenv.errors import EntryMissing, MarlenvError, SpecError, SpecTypeError, Unsupported
from marlenv.specs.base import TensorSpec, same
from marlenv.specs.composite_values import CompositeValues
from marlenv.specs.nontensor import NonTensor
from marlenv.specs.shapes import Rename, Reshape, ShapeLike, concrete, size


class Choice(TensorSpec):
    """A value of one of several specs, which have the same shape, dtype and device.

    A value as a whole comes from one of them. Dimensions that are put in front (``expand``, ``torch.stack``) are batch
    dimensions: every element of the batch makes a choice of its own.

    Args:
        choices: specs, or pieces of data: ``NonTensorData``, ``NonTensorStack``, or anything that is not a tensor.

    Raises:
        SpecTypeError: the choices are in no list.
        SpecError: there are none, or their shapes, dtypes or devices differ.

    >>> spec = Choice([Bounded(0, 1, shape=(2,)), Bounded(4, 5, shape=(2,))])
    >>> spec.is_in(torch.tensor([4.5, 4.5])), spec.is_in(torch.tensor([0.5, 4.5]))
    (True, False)
    """

    domain = None

    choices: list[TensorSpec]

    def __init__(self, choices: Sequence[Any]) -> None:
        if not isinstance(choices, (list, tuple)):
            raise SpecTypeError(f"Choice: expected a list of choices, got {type(choices).__name__}; put them into one")
        if not choices:
            raise SpecError("Choice: expected at least one choice, got none")
        self.choices = [_as_spec(c) for c in choices]
        first = self.choices[0]
        for other in self.choices[1:]:
            if (other.shape, other.dtype, other.device) != (first.shape, first.dtype, first.device):
                raise SpecError(
                    f"Choice: all choices must have the shape, dtype and device of {first!r}, got {other!r}"
                )
        self.shape, self.dtype, self._device = first.shape, first.dtype, first.device
        self._lead = 0

    @property
    def num_choices(self) -> int:
        """How many choices there are."""
        return len(self.choices)

    def _map(self, reshape: Reshape, rename: Rename | None = None, **changes: Any) -> Self:
        return self._of([c._map(reshape) for c in self.choices])

    def _of(self, choices: list[TensorSpec]) -> Self:
        """The same choice between other specs; what is in front of one value is batch."""
        new = type(self)(choices)
        new._lead = max(0, len(new.shape) - self.event_ndim)
        return new

    @property
    def event_ndim(self) -> int:  # type: ignore[override]
        """The dimensions of one value: those that the choices had when the spec was made."""
        return len(self.shape) - self._lead

    def make_neg_dim(self, dim: int) -> Self:
        """Says, in place, that the size of one batch dimension is not known in advance."""
        dim = self._dim(dim)
        for choice in self.choices:
            choice.make_neg_dim(dim)
        self.shape = self.choices[0].shape
        return self

    def to(self, dest: torch.device | torch.dtype | str | int | None) -> Self:
        """The choices on another device, or with another dtype."""
        return self if dest is None else self._of([c.to(dest) for c in self.choices])

    # --- values ----------------------------------------------------------------------------------

    def _single(self) -> list[TensorSpec]:
        """The choices of one element of the batch."""
        return [c[(0,) * self._lead] if self._lead else c for c in self.choices]

    def rand(self, shape: ShapeLike = None, *, rng: Any = None) -> Any:
        """A value of a choice picked at random, anew for each element of the batch."""
        batch = Size((*size(shape), *concrete(self.shape[: self._lead])))
        single = self._single()
        if 0 in batch:
            return self.choices[0].rand(shape, rng=rng)
        if rng is None or isinstance(rng, torch.Generator):
            device = None if rng is None else rng.device
            picked = torch.randint(len(single), batch, generator=rng, device=device)
            return _pile(picked, lambda i: single[i].rand(rng=rng))
        rows = rng.rows
        if batch[: len(rows)] != rows:
            raise Unsupported(
                f"{self!r}.rand: the rows of rng must be batch dimensions {list(batch)} of the choice, got rows "
                f"{list(rows)}; index one row of the rng, or expand the spec"
            )
        picked = rng.randint(0, len(single), batch[len(rows) :])
        values = [choice.expand(*batch, *choice.shape).rand(rng=rng) for choice in single]
        return _select(picked, values)

    sample = rand

    def zero(self, shape: ShapeLike = None) -> Any:
        """The zero of the first choice."""
        return self.choices[0].zero(shape)

    def one(self, shape: ShapeLike = None) -> Any:
        """The one of the first choice."""
        return self.choices[0].one(shape)

    zeros, ones = zero, one

    def from_unit(self, unit: Tensor, mask: Tensor | None = None) -> Tensor:
        raise Unsupported(f"{self!r}.from_unit: one number does not make a value; use rand()")

    def is_in(self, val: Any) -> bool:
        """Whether every element of the batch is in one of the choices."""
        single = self._single()
        if any(_holds(c, val) for c in single):
            return True
        rows = _rows(val, len(self.shape) - self._lead)
        return rows is not None and all(any(_holds(c, row) for c in single) for row in rows)

    def _holds(self, value: Any) -> bool:
        return self.is_in(value)

    def project(self, val: Any) -> Any:
        """``val`` where it is in one of the choices, else as the first choice of the same entries projects it."""
        return val if self.is_in(val) else self._project(val)

    def _project(self, value: Any) -> Any:
        single, event = self._single(), len(self.shape) - self._lead
        rows = _rows(value, event)

        def nearest(row: Any) -> Any:
            return next((c for c in single if _has_entries(c, row)), single[0]).project(row)

        if rows is None:
            return nearest(value)
        batch = value.shape[: value.ndim - event]
        fixed = [row if any(_holds(c, row) for c in single) else nearest(row) for row in rows]
        return _pile(torch.arange(len(fixed)).reshape(batch), lambda i: fixed[i])

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
        """The value as the first choice that accepts it encodes it.

        Raises:
            MarlenvError: what the first choice says, where none can encode it.
        """
        if isinstance(val, list) and isinstance(self.choices[0], CompositeValues):
            row = self[0] if self._lead else self
            return _stack([row.encode(one, ignore_device=ignore_device) for one in val])
        made = []
        for choice in self.choices:
            try:
                one = choice.encode(val, ignore_device=ignore_device)
            except MarlenvError:
                continue
            if self.is_in(one):
                return one
            made.append(one)
        return made[0] if made else self.choices[0].encode(val, ignore_device=ignore_device)

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """The value as simulators take it; ``safe`` checks it first."""
        if safe:
            self.assert_is_in(val)
        choice = next((c for c in self.choices if _holds(c, val)), None)
        if choice is None and isinstance(val, LazyStackedTensorDict):  # elements with entries of their own
            return [self._row(val.ndim).to_numpy(row) for row in val.unbind(0)]
        return (choice or self.choices[0]).to_numpy(val)

    def _row(self, ndim: int) -> Choice:
        """The choice in one row of a value of so many dimensions."""
        return self[0] if ndim == len(self.shape) else self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Choice) and (self.choices, self._lead) == (other.choices, other._lead)

    __hash__ = None

    def _detail(self) -> str:
        return f"{len(self.choices)} choices"


def _as_spec(choice: Any) -> TensorSpec:
    if isinstance(choice, TensorSpec):
        return choice
    if isinstance(choice, NonTensorData):
        return NonTensor(choice.batch_size, device=choice.device, example_data=choice.data)
    if isinstance(choice, NonTensorStack):
        return NonTensor(choice.batch_size, device=choice.device, example_data=choice)
    if isinstance(choice, Tensor) or is_tensor_collection(choice):
        raise SpecTypeError(
            f"Choice: expected specs or data that are no tensors, got {type(choice).__name__}; of tensors make a "
            f"Categorical"
        )
    return NonTensor((), example_data=choice)


def _holds(choice: TensorSpec, val: Any) -> bool:
    """Whether a value is in a choice; non-tensor data must be the example itself, everywhere."""
    if not isinstance(choice, NonTensor):
        try:
            return choice.is_in(val)
        except EntryMissing:
            return False
    if isinstance(choice.example_data, NonTensorStack):
        return isinstance(val, NonTensorStack) and _same_stack(choice.example_data, val)
    if isinstance(val, NonTensorStack):
        return all(_holds(choice, one) for one in val.unbind(0))
    data = val.data if isinstance(val, NonTensorData) else val
    return same(data, choice.example_data)


def _has_entries(choice: TensorSpec, val: Any) -> bool:
    """Whether a value has all entries of a choice, where that has any."""
    if not isinstance(choice, CompositeValues):
        return True
    if isinstance(val, LazyStackedTensorDict):
        return all(_has_entries(choice, row) for row in val.tensordicts)
    return all(one is not None and _has_entries(spec, one) for _, spec, one in choice._each(val))


def _same_stack(example: NonTensorStack, val: NonTensorStack) -> bool:
    """Whether a stack ends in the dimensions of the example, and holds its items everywhere."""
    if val.ndim > example.ndim:
        return all(isinstance(row, NonTensorStack) and _same_stack(example, row) for row in val.unbind(0))
    return val.batch_size == example.batch_size and same(val.tolist(), example.tolist())


def _rows(val: Any, event_ndim: int) -> list[Any] | None:
    """The elements of a batch; None when there is no batch."""
    if not hasattr(val, "ndim") or val.ndim <= event_ndim:
        return None
    rows = [val]
    for _ in range(val.ndim - event_ndim):
        rows = [one for row in rows for one in row.unbind(0)]
    return rows


def _pile(picked: Tensor, value: Callable[[int], Any]) -> Any:
    """``value(i)`` for every number in ``picked``, stacked into its shape."""
    if not picked.ndim:
        return value(int(picked))
    return _stack([_pile(row, value) for row in picked.unbind(0)])


def _select(picked: Tensor, values: list[Any]) -> Any:
    """The element of ``values[i]`` where ``picked`` is ``i``; all have the shape of ``picked`` in front."""
    if not picked.ndim:
        return values[int(picked)]
    columns = zip(*(v.unbind(0) for v in values), strict=True)
    return _stack([_select(p, list(column)) for p, column in zip(picked.unbind(0), columns, strict=True)])


def _stack(values: list[Any]) -> Any:
    """The values side by side, lazily where they have different entries."""
    if isinstance(values[0], TensorDictBase):
        return LazyStackedTensorDict.maybe_dense_stack(values, 0)
    return torch.stack(values)
