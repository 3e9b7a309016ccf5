"""What the specs of countably many values share: masks, and the way between numbers and one-hot vectors."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import SpecError
from marlenv.specs.base import TensorSpec


def pick(unit: Tensor, mask: Tensor) -> Tensor:
    """The index that a number in [0, 1) picks among those allowed; int64 ``[...]``.

    Args:
        unit: numbers in [0, 1), ``[...]``.
        mask: what is allowed, bool ``[..., n]``; where it allows nothing the answer is ``n - 1``.

    >>> pick(torch.tensor([0.0, 0.9]), torch.tensor([False, True, True]))
    tensor([1, 2])
    """
    ranks = mask.cumsum(-1, dtype=torch.int32)
    place = (unit * ranks[..., -1]).floor().unsqueeze(-1)
    return (ranks <= place).sum(-1).clamp(max=mask.shape[-1] - 1)


def one_hot(index: Tensor, n: int, dtype: torch.dtype) -> Tensor:
    """Vectors with a one at ``index``; ``[..., n]``.

    >>> one_hot(torch.tensor(1), 3, torch.int64)
    tensor([0, 1, 0])
    """
    return (torch.arange(n, device=index.device) == index.unsqueeze(-1)).to(dtype)


def nearest_allowed(value: Tensor, allowed: Tensor) -> Tensor:
    """``value`` where it is allowed, else the first number that is; ``allowed`` is bool ``[..., n]``."""
    allowed = allowed.expand(*value.shape, allowed.shape[-1])
    held = allowed.gather(-1, value.long().unsqueeze(-1)).squeeze(-1)
    return torch.where(held, value, allowed.to(torch.uint8).argmax(-1).to(value.dtype))


class Discrete(TensorSpec):
    """A spec of countably many values; abstract."""

    params = ("mask",)

    mask: Tensor | None
    """What is allowed where, bool ``[*batch, ...]``; None allows everything."""

    @property
    @abstractmethod
    def _mask_shape(self) -> tuple[int, ...]:
        """The shape of a full mask."""

    def update_mask(self, mask: Any) -> None:
        """Replaces the mask: bool, broadcastable to one number per possible value; None allows everything."""
        if mask is not None:
            mask = torch.as_tensor(mask, device=self._device).bool()
            try:
                mask = mask.expand(self._mask_shape)
            except RuntimeError as error:
                want = list(self._mask_shape)
                raise SpecError(
                    f"{self!r}: expected a mask that broadcasts to {want}, got {list(mask.shape)}"
                ) from error
        self.mask = mask

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
        """The value as one-hot vectors, bool; ``safe`` checks it first."""
        if safe:
            self.assert_is_in(val)
        return self._one_hot(val)

    def to_numpy(self, val: Tensor, safe: bool | None = None) -> Any:
        """The numbers that the value stands for, as an array; ``safe`` checks it first."""
        return self.to_categorical(val, safe).detach().cpu().numpy()

    def _detail(self) -> str:
        words = f"nvec={list(self.space_sizes)}" if len(self.space_sizes) > 1 else f"n={self.space_sizes[0]}"
        return words + (", masked" if getattr(self, "mask", None) is not None else "")

    @property
    @abstractmethod
    def space_sizes(self) -> tuple[int, ...]:
        """How many values each component has."""
