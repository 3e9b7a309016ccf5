"""What the specs of countably many values share: masks, and the way between numbers and one-hot vectors."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from marlenv.errors import NotInSpec, SpecError, whole
from marlenv.specs.base import TensorSpec
from marlenv.specs.encoding import as_array, brief

FINE = 1 << 20  # more values than this need numbers in [0, 1) of double precision


def pick(unit: Tensor, mask: Tensor) -> Tensor:
    """The index that a number in [0, 1) picks among those allowed; int64 ``[...]``.

    Args:
        unit: numbers in [0, 1), ``[...]``.
        mask: what is allowed, bool ``[..., n]``; where it allows nothing the answer is ``n - 1``.

    >>> pick(torch.tensor([0.0, 0.9]), torch.tensor([False, True, True]))
    tensor([1, 2])
    """
    allowed = mask if mask.dtype == torch.bool else mask != 0
    ranks = allowed.cumsum(-1, dtype=torch.int32)
    place = (unit * ranks[..., -1]).int().unsqueeze(-1)
    if ranks.ndim > 1:  # the search takes one row for all numbers, or one for each
        ranks = ranks.expand(*place.shape[:-1], -1)
    found = torch.searchsorted(ranks.contiguous(), place.contiguous(), right=True).squeeze(-1)
    return found.clamp(max=mask.shape[-1] - 1)


def one_hot(index: Tensor, n: int, dtype: torch.dtype) -> Tensor:
    """Vectors with a one at ``index``; ``[..., n]``.

    >>> one_hot(torch.tensor(1), 3, torch.int64)
    tensor([0, 1, 0])
    """
    hot = torch.arange(n, device=index.device) == index.unsqueeze(-1)
    return hot if dtype == torch.bool else hot.to(dtype)


def nearest_allowed(value: Tensor, allowed: Tensor) -> Tensor:
    """The allowed number nearest to ``value``, the smaller of two; ``allowed`` is bool ``[..., n]``.

    >>> nearest_allowed(torch.tensor(3), torch.tensor([True, True, False, False, False]))
    tensor(1)
    """
    number = torch.arange(allowed.shape[-1], device=value.device)
    distance = (number - value.long().unsqueeze(-1)).abs().masked_fill(~allowed, allowed.shape[-1])
    return distance.argmin(-1).to(value.dtype)


def count_of(who: str, name: str, n: Any, low: int) -> int:
    """A number of values, as an int.

    Raises:
        SpecError: it is no whole number, or below ``low``.
    """
    single = (isinstance(n, Tensor) and n.numel() == 1) or (isinstance(n, np.ndarray) and n.ndim == 0)
    count: Any = n.item() if single else n
    return whole(who, name, count, low)


def refuse_too_many(who: str, n: int, dtype: torch.dtype) -> None:
    """Raises when the numbers ``0 .. n - 1`` do not fit a dtype."""
    most = 2 if dtype == torch.bool else None if dtype.is_floating_point else torch.iinfo(dtype).max + 1
    if most is not None and n > most:
        raise SpecError(
            f"{who}: n={n} values do not fit dtype {str(dtype)[6:]}, which holds {most}; take a wider dtype"
        )


class Discrete(TensorSpec):
    """A spec of countably many values; abstract."""

    params: ClassVar[tuple[str, ...]] = ("mask",)

    mask: Tensor | None = None
    """What is allowed where, bool ``[*batch, ...]``; None allows everything."""

    @property
    @abstractmethod
    def _mask_shape(self) -> tuple[int, ...]:
        """The shape of a full mask."""

    @property
    @abstractmethod
    def space_sizes(self) -> tuple[int, ...]:
        """How many values each component has."""

    @property
    def unit_dtype(self) -> torch.dtype:  # type: ignore[override]
        """Double precision where there are very many values."""
        return torch.float64 if max(self.space_sizes) > FINE else torch.float32

    def update_mask(self, mask: Any) -> None:
        """Replaces the mask, by a copy; None allows everything.

        Args:
            mask: bool, broadcastable to one flag per possible value.

        Raises:
            SpecError: it does not broadcast.
        """
        if mask is not None:
            mask = torch.as_tensor(mask, device=self._device).bool().clone()
            want = self._mask_shape
            if mask.ndim > len(want) and mask.numel() == want[-1]:
                mask = mask.reshape(want[-1])
            try:
                mask = mask.expand(want)
            except RuntimeError as error:
                raise SpecError(
                    f"{self!r}.update_mask: expected a mask that broadcasts to {list(want)}, got shape "
                    f"{list(mask.shape)}"
                ) from error
        self.mask = mask
        self._forget()

    def set_provisional_n(self, n: int | None) -> None:
        """Says how many values there are for now, where that is not known; other specs stay as they are."""

    @cached_property
    def _drawable(self) -> bool:
        """Whether the mask allows a value everywhere."""
        if self.mask is None or self.mask.is_meta:
            return True
        parts = self.mask.split(self.space_sizes, -1) if len(self.space_sizes) > 1 else (self.mask,)
        return all(bool(part.any(-1).all()) for part in parts)

    def _refuse_if_empty(self) -> None:
        if self.mask is not None and not self._drawable:
            raise SpecError(
                f"{self!r}.rand: the mask allows no value at all in some element; allow one with update_mask(mask)"
            )

    @abstractmethod
    def _number(self, val: Tensor) -> Tensor:
        """The value as numbers from 0."""

    @abstractmethod
    def _one_hot(self, val: Tensor) -> Tensor:
        """The value as one-hot vectors."""

    @abstractmethod
    def to_categorical_spec(self) -> Any:
        """The spec of the same values as numbers, mask included."""

    @abstractmethod
    def to_one_hot_spec(self) -> Any:
        """The spec of the same values as one-hot vectors, mask included."""

    def to_categorical(self, val: Tensor, safe: bool | None = None) -> Tensor:
        """The value as numbers from 0; ``safe`` checks it first."""
        if safe:
            self.assert_is_in(val)
        return self._number(val)

    def to_one_hot(self, val: Tensor, safe: bool | None = None) -> Tensor:
        """The value as one-hot vectors, bool unless it is one-hot already; ``safe`` checks it first."""
        if safe:
            self.assert_is_in(val)
        hot: Tensor = self._one_hot(val)
        if not val.is_meta and hot is not val and int(hot.sum()) != val.numel():
            raise NotInSpec(f"{self!r}.to_one_hot: expected numbers from 0 that are below n, got {brief(val)}")
        return hot

    def to_numpy(self, val: Tensor, safe: bool | None = None) -> Any:
        """The numbers that the value stands for, as an array; ``safe`` checks it first."""
        return as_array(self.to_categorical(val, safe))

    def _detail(self) -> str:
        words = f"nvec={list(self.space_sizes)}" if len(self.space_sizes) > 1 else f"n={self.space_sizes[0]}"
        return words + (", masked" if self.mask is not None else "")
