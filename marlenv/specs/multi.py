"""Several discrete choices at once, as numbers or as one-hot vectors side by side."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Size, Tensor

from marlenv.errors import SpecError
from marlenv.specs.base import ShapeLike, as_dtype, concrete, size
from marlenv.specs.boxes import BoxList, CategoricalBox
from marlenv.specs.discrete import Discrete, nearest_allowed, one_hot, pick
from marlenv.specs.onehot import OneHot


class MultiCategorical(Discrete):
    """Several discrete choices: component ``k`` is one of ``0 .. nvec[k] - 1``.

    Args:
        nvec: how many values each component has; may have batch dimensions in front.
        shape: the shape of ``nvec`` when left out; must end in the number of components.
        device: where values live.
        dtype: an integer type.
        mask: bool ``[*batch, sum(nvec)]``, the components side by side.
        remove_singleton: TorchRL's argument. Values always have the component dimension here, as ``shape`` says.

    >>> MultiCategorical([2, 3]).cardinality()
    6
    """

    params = ("nvec", "mask")
    fields = ("remove_singleton",)
    event_ndim = 1

    nvec: Tensor

    def __init__(
        self,
        nvec: Sequence[int] | Tensor | int,
        shape: ShapeLike = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | str | None = torch.int64,
        mask: Any = None,
        remove_singleton: bool = True,
    ) -> None:
        vector = torch.as_tensor([nvec] if isinstance(nvec, int) else nvec, dtype=torch.int64, device=device)
        super().__init__(vector.shape if shape is None else shape, as_dtype(dtype, torch.int64), device)
        self.remove_singleton = remove_singleton
        if bool((vector < 1).any()):
            raise SpecError(f"MultiCategorical: every component needs at least one value, got nvec={vector.tolist()}")
        try:
            self.nvec = vector.expand(concrete(self.shape))
        except RuntimeError as error:
            raise SpecError(
                f"MultiCategorical: nvec {vector.tolist()} does not fit shape {list(self.shape)}"
            ) from error
        if mask is not None and bool((self.nvec != self.nvec.reshape(-1, self.nvec.shape[-1])[0]).any()):
            raise SpecError("MultiCategorical: a mask needs the same nvec in every element of the batch")
        self.update_mask(mask)

    @property
    def space_sizes(self) -> tuple[int, ...]:
        """``nvec`` of the first element of the batch."""
        return tuple(self.nvec.reshape(-1, self.nvec.shape[-1])[0].tolist())

    @property
    def space(self) -> BoxList:
        """One space per component."""
        return BoxList(tuple(CategoricalBox(n) for n in self.space_sizes))

    @property
    def _mask_shape(self) -> tuple[int, ...]:
        return (*concrete(self.shape[:-1]), sum(self.space_sizes))

    def from_unit(self, unit: Tensor, mask: Tensor | None = None) -> Tensor:
        mask = self.mask if mask is None else mask
        if mask is None:
            return (unit * self.nvec).floor().to(self.dtype)
        parts = mask.expand(*unit.shape[:-1], mask.shape[-1]).split(self.space_sizes, -1)
        return torch.stack([pick(u, m) for u, m in zip(unit.unbind(-1), parts, strict=True)], -1).to(self.dtype)

    def _holds(self, value: Tensor) -> bool:
        in_range = bool(((value >= 0) & (value < self.nvec)).all())
        if not in_range or self.mask is None:
            return in_range
        return not bool((self._one_hot(value) & ~self.mask).any())

    def _project(self, value: Tensor) -> Tensor:
        value = torch.minimum(value.clamp(min=0), self.nvec - 1).to(self.dtype)
        if self.mask is None:
            return value
        parts = self.mask.split(self.space_sizes, -1)
        return torch.stack([nearest_allowed(v, m) for v, m in zip(value.unbind(-1), parts, strict=True)], -1)

    def cardinality(self) -> int:
        """The product of ``nvec``."""
        return prod(self.space_sizes)

    def enumerate(self, use_mask: bool = False) -> Tensor:
        """Every combination once; ``[prod(nvec), *shape]``."""
        ranges = [torch.arange(n, device=self._device) for n in self.space_sizes]
        if use_mask and self.mask is not None:
            row = self.mask.reshape(-1, self.mask.shape[-1])[0].split(self.space_sizes)
            ranges = [r[m] for r, m in zip(ranges, row, strict=True)]
        grid = torch.cartesian_prod(*ranges) if len(ranges) > 1 else ranges[0].unsqueeze(-1)
        grid = grid.to(self.dtype).reshape(-1, *[1] * (len(self.shape) - 1), len(ranges))
        return grid.expand(-1, *concrete(self.shape)).clone()

    def _number(self, val: Tensor) -> Tensor:
        return val

    def _one_hot(self, val: Tensor) -> Tensor:
        columns = zip(val.unbind(-1), self.space_sizes, strict=True)
        return torch.cat([one_hot(v, n, torch.bool) for v, n in columns], -1)

    def to_categorical_spec(self) -> MultiCategorical:
        """This spec."""
        return self

    def to_one_hot_spec(self) -> MultiOneHot:
        """The spec of the same choices as one-hot vectors, mask included."""
        shape = Size((*self.shape[:-1], sum(self.space_sizes)))
        return MultiOneHot(self.space_sizes, shape, device=self._device, mask=self.mask)


class MultiOneHot(Discrete):
    """Several discrete choices, each a one-hot vector, side by side in the last dimension.

    Args:
        nvec: the length of each vector.
        shape: ``(sum(nvec),)`` when left out; must end in it.
        device: where values live.
        dtype: bool, an integer or a float type.
        use_register: TorchRL's argument; only False is meaningful.
        mask: bool, broadcastable to ``shape``.

    >>> MultiOneHot([2, 3]).encode([1, 2])
    tensor([False,  True, False, False,  True])
    """

    fields = ("nvec",)
    event_ndim = 1

    def __init__(
        self,
        nvec: Sequence[int],
        shape: ShapeLike = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | str | None = torch.bool,
        use_register: bool = False,
        mask: Any = None,
    ) -> None:
        if use_register:
            raise SpecError("MultiOneHot: use_register=True is not supported; number the values from 0")
        self.nvec = tuple(int(n) for n in nvec)
        total = sum(self.nvec)
        super().__init__((total,) if shape is None else size(shape), as_dtype(dtype, torch.bool), device)
        if not self.shape or self.shape[-1] != total:
            raise SpecError(f"MultiOneHot: the last dimension of shape {list(self.shape)} must be sum(nvec)={total}")
        self.update_mask(mask)

    @property
    def space_sizes(self) -> tuple[int, ...]:
        """``nvec``."""
        return self.nvec

    @property
    def space(self) -> BoxList:
        """One space per vector."""
        return BoxList(tuple(CategoricalBox(n) for n in self.nvec))

    @property
    def _mask_shape(self) -> tuple[int, ...]:
        return concrete(self.shape)

    @property
    def unit_shape(self) -> Size:
        """One number per vector."""
        return Size((*concrete(self.shape[:-1]), len(self.nvec)))

    def _parts(self, value: Tensor) -> list[tuple[OneHot, Tensor]]:
        """The vectors as specs of their own, each with its part of ``value``."""
        masks = self.mask.split(self.nvec, -1) if self.mask is not None else [None] * len(self.nvec)
        specs = [
            OneHot(n, Size((*self.shape[:-1], n)), device=self._device, dtype=self.dtype, mask=m)
            for n, m in zip(self.nvec, masks, strict=True)
        ]
        return list(zip(specs, value.split(self.nvec, -1), strict=True))

    def from_unit(self, unit: Tensor, mask: Tensor | None = None) -> Tensor:
        numbers = self.to_categorical_spec().from_unit(unit, mask)
        return self._spread(numbers)

    def _spread(self, numbers: Tensor) -> Tensor:
        columns = zip(numbers.unbind(-1), self.nvec, strict=True)
        return torch.cat([one_hot(c, n, self.dtype) for c, n in columns], -1)

    def _holds(self, value: Tensor) -> bool:
        return all(spec._holds(part) for spec, part in self._parts(value))

    def _project(self, value: Tensor) -> Tensor:
        return torch.cat([spec.project(part) for spec, part in self._parts(value)], -1)

    def encode(self, val: Any, *, ignore_device: bool = False) -> Tensor:
        """The one-hot vectors of one number per component."""
        if isinstance(val, Tensor) and val.dtype == self.dtype and val.shape[-1:] == self.shape[-1:]:
            return val if ignore_device else val.to(self._device)
        numbers = self.to_categorical_spec()
        index = numbers._as_tensor(val, ignore_device)
        if not numbers.is_in(index) and self.mask is None:
            raise SpecError(f"{self!r}.encode: expected {len(self.nvec)} numbers below {list(self.nvec)}, got {val}")
        return self._spread(index)

    def cardinality(self) -> int:
        """The product of ``nvec``."""
        return prod(self.nvec)

    def enumerate(self, use_mask: bool = False) -> Tensor:
        """Every combination once; ``[prod(nvec), *shape]``."""
        return self._spread(self.to_categorical_spec().enumerate(use_mask))

    def index(self, index: Any, tensor_to_index: Tensor) -> Tensor:
        """Per component the entry of ``tensor_to_index`` (``[..., sum(nvec)]``) that its vector points at."""
        flags = torch.as_tensor(index)
        tables = torch.as_tensor(tensor_to_index).expand(flags.shape).split(self.nvec, -1)
        return torch.stack([s.index(f, t) for (s, f), t in zip(self._parts(flags), tables, strict=True)], -1)

    def _number(self, val: Tensor) -> Tensor:
        return torch.stack([spec._number(part) for spec, part in self._parts(val)], -1)

    def _one_hot(self, val: Tensor) -> Tensor:
        return val

    def to_one_hot_spec(self) -> MultiOneHot:
        """This spec."""
        return self

    def to_categorical_spec(self) -> MultiCategorical:
        """The spec of the same choices as numbers, mask included."""
        shape = Size((*self.shape[:-1], len(self.nvec)))
        return MultiCategorical(self.nvec, shape, device=self._device, mask=self.mask)
