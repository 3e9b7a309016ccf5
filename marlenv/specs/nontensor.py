"""Anything that is not a tensor: text, objects."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import NonTensorData, NonTensorStack, is_tensor_collection
from torch import Size, Tensor

from marlenv.errors import Unsupported
from marlenv.specs.base import ShapeLike, TensorSpec, concrete, size


class NonTensor(TensorSpec):
    """Data that is not a tensor, such as a string, with a batch shape.

    Args:
        shape: batch shape; one element when left out.
        device: the device that the data claims.
        dtype: kept for the caller.
        example_data: what :meth:`rand`, :meth:`zero` and :meth:`one` return.
        batched: values are a stack with one item per element, rather than one item for all.
        feature_dims: how many trailing dimensions of ``shape`` are not batch dimensions.

    >>> NonTensor((), example_data="e2e4").rand().data
    'e2e4'
    """

    fields = ("example_data", "batched", "feature_dims")
    domain = ""

    def __init__(
        self,
        shape: ShapeLike = (1,),
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        example_data: Any = None,
        batched: bool | None = None,
        feature_dims: int | None = None,
    ) -> None:
        super().__init__(shape, dtype, device)  # type: ignore[arg-type]
        self._device = None if device is None else torch.device(device)
        self.example_data = example_data
        self.batched = bool(batched)
        self.feature_dims = feature_dims or 0

    def _draw(self, lead: Size, generator: torch.Generator | None) -> Any:
        shape = Size((*lead, *concrete(self.shape[: len(self.shape) - self.feature_dims])))
        if self.batched and shape:
            items = self.example_data
            for n in reversed(shape):
                items = [items] * n
            return NonTensorStack.from_list(items)
        return NonTensorData(self.example_data, batch_size=shape, device=self._device)

    def rand(self, shape: ShapeLike = None, *, rng: Any = None) -> Any:
        """The example data ``[*shape, *self.shape]``."""
        return self._draw(size(shape), None)

    zero = one = zeros = ones = sample = rand

    def from_unit(self, unit: Tensor, mask: Tensor | None = None) -> Tensor:
        raise Unsupported("NonTensor: there are no random values, only the example data")

    def is_in(self, val: Any) -> bool:
        """Whether ``val`` is non-tensor data (of the spec's shape, when it has one)."""
        if isinstance(val, (NonTensorData, NonTensorStack)):
            want = self.shape[: len(self.shape) - self.feature_dims]
            got = val.batch_size
            return len(got) >= len(want) and all(
                w in (-1, g) for w, g in zip(reversed(want), reversed(got), strict=False)
            )
        return not isinstance(val, Tensor) and not is_tensor_collection(val)

    contains = is_in

    def _holds(self, value: Any) -> bool:
        return self.is_in(value)

    def _project(self, value: Any) -> Any:
        return value

    def type_check(self, value: Any, key: Any = None) -> None:
        """Nothing to check: the data has no dtype."""

    def encode(self, val: Any, *, ignore_device: bool = False) -> Any:
        """The data wrapped so that a tensordict can hold it."""
        if isinstance(val, (NonTensorData, NonTensorStack)):
            return val
        return NonTensorData(val, batch_size=concrete(self.shape), device=self._device)

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """The data itself."""
        return val.data if isinstance(val, NonTensorData) else val

    def _cast(self, dtype: torch.dtype) -> NonTensor:
        return self

    def _detail(self) -> str:
        return f"e.g. {self.example_data!r}"[:40]
