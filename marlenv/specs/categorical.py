"""One of ``n`` values, as a number; and zeros and ones."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from torch import Size, Tensor

from marlenv.errors import SpecError, SpecTypeError
from marlenv.specs.boxes import CategoricalBox
from marlenv.specs.discrete import FINE, Discrete, count_of, nearest_allowed, one_hot, pick, refuse_too_many
from marlenv.specs.dtypes import as_dtype, cast
from marlenv.specs.shapes import ShapeLike, concrete, size


class Categorical(Discrete):
    """One of the integers ``0 .. n - 1``; ``mask`` says which of them are allowed where.

    Args:
        n: how many values; -1 when not known yet (see :meth:`set_provisional_n`).
        shape: a single number when left out.
        device: where values live.
        dtype: an integer type or bool.
        mask: bool, broadcastable to ``[*shape, n]``; True is allowed.

    Raises:
        SpecError: ``n`` is 0, no whole number, or does not fit the dtype, or the mask does not fit the shape.

    >>> mask = torch.tensor([[True, False, False], [False, True, True]])
    >>> Categorical(3, shape=(2,), mask=mask).expand(5, 2)[:, 0].rand()
    tensor([0, 0, 0, 0, 0])
    """

    fields: ClassVar[tuple[str, ...]] = ("_n", "_provisional")

    _n: int
    _provisional: int | None

    def __init__(
        self,
        n: int,
        shape: ShapeLike = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | str | None = torch.int64,
        mask: Any = None,
    ) -> None:
        super().__init__(shape, as_dtype(dtype, torch.int64), device)
        self._n, self._provisional = count_of("Categorical", "n", n, -1), None
        if self._n == 0:
            raise SpecError("Categorical: n must be positive, or -1 for not known yet, got n=0")
        refuse_too_many(type(self).__name__, self._n, self.dtype)
        self.update_mask(mask)

    @property
    def n(self) -> int:
        """How many values there are."""
        if self._n >= 0:
            return self._n
        if self._provisional is None:
            raise SpecError(
                f"{self!r}: n is not known yet (n=-1); say how many values there are with set_provisional_n(n)"
            )
        return self._provisional

    def set_provisional_n(self, n: int | None) -> None:
        """Says how many values there are for now, when the spec was made with ``n=-1``; None takes it back.

        Raises:
            SpecError: it is no whole number from 1 on, does not fit the dtype, or is not what the mask says.
        """
        if self._n >= 0:
            return
        if n is not None:
            n = count_of(repr(self), "n", n, 1)
            refuse_too_many(repr(self), n, self.dtype)
            if self.mask is not None and n != self.mask.shape[-1]:
                raise SpecError(
                    f"{self!r}: its mask is for n={self.mask.shape[-1]} values, got n={n}; take it away first, with "
                    f"update_mask(None)"
                )
        self._provisional = n
        self._forget()

    @property
    def unit_dtype(self) -> torch.dtype:  # type: ignore[override]
        """Double precision where there are very many values."""
        return torch.float64 if max(self._n, self._provisional or 0) > FINE else torch.float32

    def _cast(self, dtype: torch.dtype) -> Self:
        refuse_too_many(f"{self!r}.to", max(self._n, self._provisional or 0), dtype)
        return super()._cast(dtype)

    @property
    def space(self) -> CategoricalBox:
        """The number of values."""
        return CategoricalBox(self._n)

    @property
    def space_sizes(self) -> tuple[int, ...]:
        """``(n,)``."""
        return (self._n,)

    @property
    def _mask_shape(self) -> tuple[int, ...]:
        return (*concrete(self.shape), self.n)

    def _draw(self, lead: Size, generator: torch.Generator | None) -> Tensor:
        if self.mask is not None:
            return super()._draw(lead, generator)
        want = (*lead, *concrete(self.shape))
        return torch.randint(self.n, want, generator=generator, dtype=self.dtype, device=self._device)

    def from_unit(self, unit: Tensor, mask: Tensor | None = None) -> Tensor:
        mask = self.mask if mask is None else mask
        index = (unit * self.n).floor() if mask is None else pick(unit, mask.expand(*unit.shape, self.n))
        return index.to(self.dtype)

    def _holds(self, value: Tensor) -> bool:
        if value.numel() == 0:
            return True
        if value.dtype == torch.bool:
            in_range = self._n != 1 or not bool(value.any())
        else:
            low, high = torch.aminmax(value)
            in_range = low.item() >= 0 and (self._n < 0 or high.item() < self._n)
            if in_range and value.dtype.is_floating_point:
                in_range = bool((value == value.floor()).all())
        if not in_range or self.mask is None:
            return in_range
        return bool(self.mask.expand(*value.shape, self.n).gather(-1, value.long().unsqueeze(-1)).all())

    def _project(self, value: Tensor) -> Tensor:
        most = None if self._n < 0 and self._provisional is None else self.n - 1
        value = cast(value, torch.int64).clamp(0, most).to(self.dtype)
        return value if self.mask is None else nearest_allowed(value, self.mask)

    def cardinality(self) -> int:
        """``n``: how many values one element can take."""
        return self.n

    def enumerate(self, use_mask: bool = False) -> Tensor:
        """The values ``0 .. n - 1``, the same in all elements; ``[n, *shape]``."""
        values = torch.arange(self.n, device=self._device)
        if use_mask and self.mask is not None:
            rows = self.mask.reshape(-1, self.n)
            if len(rows) == 0 or bool((rows != rows[0]).any()):
                raise SpecError(
                    f"{self!r}.enumerate: the masks of its elements differ, so there is no one list; index one element"
                )
            values = values[rows[0]]
        return values.to(self.dtype).reshape(-1, *[1] * len(self.shape)).expand(-1, *concrete(self.shape)).clone()

    def index(self, index: Any, tensor_to_index: Tensor) -> Tensor:
        """The entries of ``tensor_to_index`` (``[..., n]``) at ``index`` (``[...]``); leading dimensions broadcast."""
        index, table = torch.as_tensor(index), torch.as_tensor(tensor_to_index)
        lead = torch.broadcast_shapes(index.shape, table.shape[:-1])
        return table.expand(*lead, -1).gather(-1, index.long().expand(lead).unsqueeze(-1)).squeeze(-1)

    def _number(self, val: Tensor) -> Tensor:
        return val

    def _one_hot(self, val: Tensor) -> Tensor:
        return one_hot(val.long(), self.n, torch.bool)

    def to_categorical_spec(self) -> Categorical:
        """This spec."""
        return self

    def to_one_hot_spec(self) -> Any:
        """The spec of the same values as one-hot vectors, mask included."""
        from marlenv.specs.onehot import OneHot

        return OneHot(self.n, Size((*self.shape, self.n)), device=self._device, mask=self.mask)


class Binary(Discrete):
    """Zeros and ones.

    Args:
        n: length of the last dimension.
        shape: ``(n,)`` when left out.
        device: where values live.
        dtype: an integer type, a float type or bool.

    Raises:
        SpecTypeError: neither ``n`` nor a shape is given.
        SpecError: ``n`` is negative or no whole number, or the shape does not end in it.

    ``isinstance(spec, Categorical)`` is True, as in TorchRL.

    >>> Binary(3).cardinality()
    8
    """

    params: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        n: int | None = None,
        shape: ShapeLike = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | str | None = torch.int8,
    ) -> None:
        if n is None and shape is None:
            raise SpecTypeError(
                "Binary: expected n (the length of the last dimension) or a shape, got neither; give one"
            )
        n = None if n is None else count_of("Binary", "n", n, 0)
        shape = size(shape) if shape is not None else size(n)
        if n is not None and (shape[-1] if shape else 1) not in (n, -1):
            raise SpecError(f"Binary: the last dimension must be n={n}, got shape {list(shape)}; leave one of them out")
        super().__init__(shape, as_dtype(dtype, torch.int8), device)

    @property
    def n(self) -> int:
        """The length of the last dimension."""
        return self.shape[-1] if self.shape else 1

    @property
    def space(self) -> CategoricalBox:
        """Two values each."""
        return CategoricalBox(2)

    @property
    def space_sizes(self) -> tuple[int, ...]:
        """``(2,)``."""
        return (2,)

    @property
    def _mask_shape(self) -> tuple[int, ...]:
        return (*concrete(self.shape), 2)

    def update_mask(self, mask: Any) -> None:
        """Binary specs have no mask, and take None only."""
        if mask is not None:
            raise SpecError(f"{self!r}.update_mask: a binary spec has no mask; take to_categorical_spec()")

    def _draw(self, lead: Size, generator: torch.Generator | None) -> Tensor:
        want = (*lead, *concrete(self.shape))
        return torch.randint(2, want, generator=generator, dtype=self.dtype, device=self._device)

    def from_unit(self, unit: Tensor, mask: Tensor | None = None) -> Tensor:
        return (unit >= 0.5).to(self.dtype)

    def _holds(self, value: Tensor) -> bool:
        return self.dtype == torch.bool or bool(((value == 0) | (value == 1)).all())

    def _project(self, value: Tensor) -> Tensor:
        return (value if value.dtype == torch.bool else value >= 0.5).to(self.dtype)

    def cardinality(self) -> float:
        """Two to the length of the last dimension; ``inf`` when that is not known (-1)."""
        return 2**self.n if self.n >= 0 else float("inf")

    def enumerate(self, use_mask: bool = False) -> Tensor:
        """Every vector of zeros and ones; ``[2**n, *shape]``."""
        if self.n < 0:
            return super().enumerate(use_mask)
        places = torch.arange(self.n - 1, -1, -1, device=self._device)
        values = ((torch.arange(2**self.n, device=self._device).unsqueeze(-1) >> places) & 1).to(self.dtype)
        values = values.reshape(2**self.n, *[1] * (len(self.shape) - 1), self.n) if self.shape else values[:, 0]
        return values.expand(-1, *concrete(self.shape)).clone()

    def index(self, index: Any, tensor_to_index: Tensor) -> Tensor:
        """The entries of ``tensor_to_index`` that are switched on, zeros elsewhere."""
        return torch.where(torch.as_tensor(index).bool(), torch.as_tensor(tensor_to_index), 0)

    def _number(self, val: Tensor) -> Tensor:
        return val

    def _one_hot(self, val: Tensor) -> Tensor:
        return one_hot(val.long(), 2, torch.bool)

    def to_categorical_spec(self) -> Categorical:
        """The same values as a :class:`Categorical` with two values."""
        return Categorical(2, self.shape, device=self._device, dtype=self.dtype)

    def to_one_hot_spec(self) -> Any:
        """The spec in which each zero or one is a pair; ``[*shape, 2]``."""
        return self.to_categorical_spec().to_one_hot_spec()


Categorical.register(Binary)
