"""Several discrete choices at once, as numbers or as one-hot vectors side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import torch
from torch import Size, Tensor

from marlenv.errors import NotInSpec, SpecError
from marlenv.specs.base import ShapeLike, TensorSpec, concrete, size
from marlenv.specs.boxes import BoxList, CategoricalBox
from marlenv.specs.discrete import FINE, Discrete, nearest_allowed, one_hot, pick, refuse_too_many
from marlenv.specs.dtypes import as_dtype, cast
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

    params: ClassVar[tuple[str, ...]] = ("nvec", "mask")
    fields: ClassVar[tuple[str, ...]] = ("remove_singleton",)
    event_ndim = 1

    nvec: Tensor
    remove_singleton: bool

    def __init__(
        self,
        nvec: Sequence[int] | Sequence[Sequence[int]] | Tensor | int,
        shape: ShapeLike = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | str | None = torch.int64,
        mask: Any = None,
        remove_singleton: bool = True,
    ) -> None:
        vector = torch.as_tensor([nvec] if isinstance(nvec, int) else nvec, dtype=torch.int64, device=device).clone()
        vector = vector.reshape(1) if vector.ndim == 0 else vector
        super().__init__(vector.shape if shape is None else size(shape), as_dtype(dtype, torch.int64), device)
        self.remove_singleton = remove_singleton
        if bool((vector < 1).any()) or vector.numel() == 0:
            raise SpecError(
                f"MultiCategorical: every component needs at least one value (nvec >= 1), got nvec={vector.tolist()}"
            )
        refuse_too_many("MultiCategorical", int(vector.max()), self.dtype)
        want = concrete(self.shape)
        if not want or want[-1] != vector.shape[-1] or torch.broadcast_shapes(vector.shape, want) != want:
            raise SpecError(
                f"MultiCategorical: the shape must end in the shape of nvec {list(vector.shape)}, got shape "
                f"{list(self.shape)}"
            )
        self.nvec = vector.expand(want)
        if mask is not None:
            self._one_nvec("a mask")
        self.update_mask(mask)

    def _one_nvec(self, what: str) -> tuple[int, ...]:
        """The ``nvec`` of every element of the batch, which must be the same."""
        rows = self.nvec.reshape(-1, self.nvec.shape[-1])
        if bool((rows != rows[0]).any()):
            raise SpecError(
                f"{self!r}: {what} needs the same nvec in every element of the batch, got "
                f"{rows.unique(dim=0).tolist()}; index one element first"
            )
        return self.space_sizes

    @cached_property
    def space_sizes(self) -> tuple[int, ...]:
        """``nvec`` of the first element of the batch."""
        return tuple(self.nvec.reshape(-1, self.nvec.shape[-1])[0].tolist())

    @cached_property
    def unit_dtype(self) -> torch.dtype:  # type: ignore[override]
        """Double precision where there are very many values."""
        return torch.float64 if int(self.nvec.max()) > FINE else torch.float32

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
        if in_range and value.dtype.is_floating_point:
            in_range = bool((value == value.floor()).all())
        if not in_range or self.mask is None:
            return in_range
        return not bool((self._one_hot(value) & ~self.mask).any())

    def _project(self, value: Tensor) -> Tensor:
        value = torch.minimum(cast(value, torch.int64).clamp(min=0), self.nvec - 1).to(self.dtype)
        if self.mask is None:
            return value
        parts = self.mask.split(self.space_sizes, -1)
        return torch.stack([nearest_allowed(v, m) for v, m in zip(value.unbind(-1), parts, strict=True)], -1)

    def cardinality(self) -> int:
        """The product of ``nvec``, the largest in the batch."""
        return int(self.nvec.prod(-1).max())

    def enumerate(self, use_mask: bool = False) -> Tensor:
        """Every combination once, the same in all elements; ``[prod(nvec), *shape]``."""
        ranges = [torch.arange(n, device=self._device) for n in self._one_nvec("enumerate")]
        if use_mask and self.mask is not None:
            rows = self.mask.reshape(-1, self.mask.shape[-1])
            if bool((rows != rows[0]).any()):
                raise SpecError(
                    f"{self!r}.enumerate: the masks of its elements differ, so there is no one list; index one element"
                )
            ranges = [r[m] for r, m in zip(ranges, rows[0].split(self.space_sizes), strict=True)]
        grid = torch.cartesian_prod(*ranges) if len(ranges) > 1 else ranges[0].unsqueeze(-1)
        grid = grid.to(self.dtype).reshape(-1, *[1] * (len(self.shape) - 1), len(ranges))
        return grid.expand(-1, *concrete(self.shape)).clone()

    def index(self, index: Any, tensor_to_index: Tensor) -> Tensor:
        """Per component the entry of its part of ``tensor_to_index`` (``[..., sum(nvec)]``); leading dimensions broadcast."""
        numbers, sizes = torch.as_tensor(index).long(), self._one_nvec("index")
        tables = torch.as_tensor(tensor_to_index)
        lead = torch.broadcast_shapes(numbers.shape[:-1], tables.shape[:-1])
        starts = torch.tensor([0, *sizes[:-1]], device=numbers.device).cumsum(0)
        return tables.expand(*lead, -1).gather(-1, (numbers + starts).expand(*lead, -1))

    def _number(self, val: Tensor) -> Tensor:
        return val

    def _one_hot(self, val: Tensor) -> Tensor:
        columns = zip(val.unbind(-1), self._one_nvec("to_one_hot"), strict=True)
        return torch.cat([one_hot(v, n, torch.bool) for v, n in columns], -1)

    def to_categorical_spec(self) -> MultiCategorical:
        """This spec."""
        return self

    def to_one_hot_spec(self) -> MultiOneHot:
        """The spec of the same choices as one-hot vectors, mask included."""
        shape = Size((*self.shape[:-1], sum(self._one_nvec("to_one_hot_spec"))))
        return MultiOneHot(self.space_sizes, shape, device=self._device, mask=self.mask)


class MultiOneHot(Discrete):
    """Several discrete choices, each a one-hot vector, side by side in the last dimension.

    Args:
        nvec: the length of each vector.
        shape: ``(sum(nvec),)`` when left out; must end in ``sum(nvec)``.
        device: where values live.
        dtype: bool, an integer or a float type.
        use_register: TorchRL's argument; only False is meaningful.
        mask: bool, broadcastable to ``shape``.

    >>> MultiOneHot([2, 3]).encode([1, 2])
    tensor([False,  True, False, False,  True])
    """

    fields: ClassVar[tuple[str, ...]] = ("nvec",)
    event_ndim = 1

    nvec: tuple[int, ...]

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
            raise SpecError("MultiOneHot: expected use_register=False, got True; number the values from 0 yourself")
        self.nvec = tuple(int(n) for n in nvec)
        if min(self.nvec, default=0) < 1:
            raise SpecError(
                f"MultiOneHot: every vector needs at least one entry (nvec >= 1), got nvec={list(self.nvec)}"
            )
        total = sum(self.nvec)
        super().__init__((total,) if shape is None else size(shape), as_dtype(dtype, torch.bool), device)
        if not self.shape or self.shape[-1] != total:
            raise SpecError(f"MultiOneHot: the last dimension must be sum(nvec)={total}, got shape {list(self.shape)}")
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

    @cached_property
    def _numbers(self) -> MultiCategorical:
        """The spec of the same choices as numbers, mask included."""
        shape = Size((*self.shape[:-1], len(self.nvec)))
        return MultiCategorical(self.nvec, shape, device=self._device, mask=self.mask)

    @cached_property
    def _vectors(self) -> list[OneHot]:
        """Every vector as a spec of its own."""
        masks = self.mask.split(self.nvec, -1) if self.mask is not None else [None] * len(self.nvec)
        shapes = [Size((*self.shape[:-1], n)) for n in self.nvec]
        return [
            OneHot(n, shape, device=self._device, dtype=self.dtype, mask=mask)
            for n, shape, mask in zip(self.nvec, shapes, masks, strict=True)
        ]

    def _parts(self, value: Tensor) -> list[tuple[OneHot, Tensor]]:
        """The vectors as specs, each with its part of ``value``."""
        return list(zip(self._vectors, value.split(self.nvec, -1), strict=True))

    def from_unit(self, unit: Tensor, mask: Tensor | None = None) -> Tensor:
        return self._spread(self._numbers.from_unit(unit, mask))

    def _spread(self, numbers: Tensor) -> Tensor:
        columns = zip(numbers.unbind(-1), self.nvec, strict=True)
        return torch.cat([one_hot(c, n, self.dtype) for c, n in columns], -1)

    def _holds(self, value: Tensor) -> bool:
        return all(spec._holds(part) for spec, part in self._parts(value))

    def _project(self, value: Tensor) -> Tensor:
        return torch.cat([spec.project(part) for spec, part in self._parts(value)], -1)

    def encode(self, val: Any, *, ignore_device: bool = False) -> Tensor:
        """The one-hot vectors of one number per component; a tensor that is in the spec already stays as it is.

        Raises:
            NotInSpec: a number is not below its ``nvec``.
        """
        if isinstance(val, Tensor) and TensorSpec.is_in(self, val):
            return val if ignore_device else val.to(self._device)
        index = self._numbers.encode(val, ignore_device=ignore_device)
        if bool(((index < 0) | (index >= self._numbers.nvec.to(index.device))).any()):
            raise NotInSpec(f"{self!r}.encode: expected {len(self.nvec)} numbers below {list(self.nvec)}, got {val}")
        return self._spread(index)

    def cardinality(self) -> int:
        """The product of ``nvec``."""
        return prod(self.nvec)

    def enumerate(self, use_mask: bool = False) -> Tensor:
        """Every combination once; ``[prod(nvec), *shape]``."""
        return self._spread(self._numbers.enumerate(use_mask))

    def index(self, index: Any, tensor_to_index: Tensor) -> Tensor:
        """Per vector the entry of its part of ``tensor_to_index`` (``[..., sum(nvec)]``) that it points at."""
        return self._numbers.index(self._number(torch.as_tensor(index)), tensor_to_index)

    def _number(self, val: Tensor) -> Tensor:
        return torch.stack([spec._number(part) for spec, part in self._parts(val)], -1)

    def _one_hot(self, val: Tensor) -> Tensor:
        return val

    def to_one_hot_spec(self) -> MultiOneHot:
        """This spec."""
        return self

    def to_categorical_spec(self) -> MultiCategorical:
        """The spec of the same choices as numbers, mask included."""
        return self._numbers.clone()
