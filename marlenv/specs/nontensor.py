"""Anything that is not a tensor: text, objects."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from tensordict import NonTensorData, NonTensorStack, is_tensor_collection
from torch import Size, Tensor

from marlenv.errors import SpecError, Unsupported
from marlenv.specs.base import TensorSpec
from marlenv.specs.dtypes import as_device
from marlenv.specs.shapes import ShapeLike, concrete, fits, size


class NonTensor(TensorSpec):
    """Data that is not a tensor, such as a string, with a batch shape.

    The domain is "anything": the example data is only what draws return.

    Args:
        shape: batch shape; one element when left out.
        device: the device that the data claims.
        dtype: kept for the caller.
        example_data: what :meth:`rand`, :meth:`zero` and :meth:`one` return.
        batched: values are a stack with one item per element, rather than one item for all.
        feature_dims: how many trailing dimensions one item covers: all of ``shape`` when left out, none if ``batched``.
            Dimensions that come in front of them, by ``expand`` or in ``rand(shape)``, are a stack of items; where an
            item covers none (``shape=()``), one item stands for all.

    >>> NonTensor((), example_data="e2e4").rand().data
    'e2e4'
    """

    fields: ClassVar[tuple[str, ...]] = ("example_data", "batched", "feature_dims")
    domain = None

    example_data: Any
    batched: bool
    feature_dims: int

    def __init__(
        self,
        shape: ShapeLike = (1,),
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        example_data: Any = None,
        batched: bool | None = None,
        feature_dims: int | None = None,
    ) -> None:
        if batched is not None and feature_dims is not None:
            raise SpecError(f"NonTensor: expected batched or feature_dims, got both, {batched=} and {feature_dims=}")
        super().__init__(shape, dtype, device)  # type: ignore[arg-type]
        self._device = as_device(device)
        self.example_data = example_data
        self.batched = bool(batched)
        self.feature_dims = 0 if batched else len(self.shape) if feature_dims is None else feature_dims

    def _stacked(self, lead: Size = Size()) -> Size:  # noqa: B008  an immutable default
        """The dimensions along which every element has an item of its own."""
        whole = Size((*lead, *concrete(self.shape)))
        return (
            whole if self.batched else whole[: max(0, len(whole) - self.feature_dims)] if self.feature_dims else Size()
        )

    def _wrap(self, data: Any, lead: Size = Size()) -> Any:  # noqa: B008  an immutable default
        """``data`` once, or in every element of a stack."""
        rows: tuple[int, ...] = self._stacked(lead)
        whole = (*lead, *concrete(self.shape))
        if isinstance(data, NonTensorStack):  # the choice of a whole stack
            front = whole[: len(whole) - data.ndim]
            item: Any = data.clone()
            for n in reversed(front):
                item = torch.stack([item.clone() for _ in range(n)])
            return item
        rows = () if 0 in rows else rows
        one = whole[len(rows) :]

        def pile(sizes: tuple[int, ...]) -> Any:
            if not sizes:
                return NonTensorData(data, batch_size=one, device=self._device)
            return NonTensorStack(*[pile(sizes[1:]) for _ in range(sizes[0])])

        return pile(rows)

    def rand(self, shape: ShapeLike = None, *, rng: Any = None) -> Any:
        """The example data ``[*shape, *self.shape]``."""
        return self._wrap(self.example_data, size(shape))

    zero = one = zeros = ones = sample = rand

    def from_unit(self, unit: Tensor, mask: Tensor | None = None) -> Tensor:
        raise Unsupported(f"{self!r}.from_unit: there are no random values, only the example data; use rand()")

    def is_in(self, val: Any) -> bool:
        """Whether ``val`` is non-tensor data (of the spec's shape, when it has one)."""
        if isinstance(val, (NonTensorData, NonTensorStack)):
            return fits(val.batch_size, self.shape)
        return not isinstance(val, Tensor) and not is_tensor_collection(val)

    def _holds(self, value: Any) -> bool:
        return self.is_in(value)

    def project(self, val: Any) -> Any:
        """``val`` itself; a tensor cannot be made into anything else."""
        self.assert_is_in(val)
        return val

    def _project(self, value: Any) -> Any:
        return value

    def type_check(self, value: Any, key: Any = None) -> None:
        """Nothing to check: the data has no dtype."""

    def encode(self, val: Any, *, ignore_device: bool = False) -> Any:
        """The data wrapped so that a tensordict can hold it; of a list, one item per element of the batch."""
        if isinstance(val, (NonTensorData, NonTensorStack)):
            return val
        rows = self._stacked()
        if rows and isinstance(val, list) and len(val) == rows[0]:
            row = self[0]
            return NonTensorStack(*[row.encode(one) for one in val])
        return self._wrap(val)

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """The data itself; a list when the items of a stack differ."""
        if safe:
            self.assert_is_in(val)
        if isinstance(val, NonTensorStack):
            return [self.to_numpy(one) for one in val.unbind(0)]
        return val.data if isinstance(val, NonTensorData) else val

    def _cast(self, dtype: torch.dtype) -> NonTensor:
        return self

    def _detail(self) -> str:
        return f"e.g. {self.example_data!r}"[:40]
