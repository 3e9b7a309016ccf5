"""Several discrete choices at once, as numbers or as one-hot vectors side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Size, Tensor

from marlenv.errors import NotInSpec, ShapeError, SpecError
from marlenv.specs.base import TensorSpec
from marlenv.specs.boxes import BoxList, CategoricalBox
from marlenv.specs.categorical import Categorical
from marlenv.specs.discrete import FINE, Discrete, count_of, nearest_allowed, one_hot, pick, refuse_too_many
from marlenv.specs.dtypes import as_dtype, cast
from marlenv.specs.onehot import OneHot
from marlenv.specs.register import Register
from marlenv.specs.shapes import Rename, Reshape, ShapeLike, concrete, fits, size


class MultiCategorical(Discrete):
    """Several discrete choices: component ``k`` is one of ``0 .. nvec[k] - 1``.

    Args:
        nvec: how many values each component has; may have batch dimensions in front.
        shape: the shape of ``nvec`` when left out; must end in the number of components.
        device: where values live.
        dtype: an integer type.
        mask: bool ``[*batch, sum(nvec)]``, the components side by side.
        remove_singleton: where ``nvec`` is a number, values of shape ``[1]`` are drawn as plain numbers ``[]``; both
            are in the spec.

    Raises:
        SpecError: a component has no value, or the shape does not end in the number of components.

    ``isinstance(spec, Categorical)`` is True, as in TorchRL.

    >>> MultiCategorical([2, 3]).cardinality()
    6
    """

    params: ClassVar[tuple[str, ...]] = ("nvec", "mask")
    fields: ClassVar[tuple[str, ...]] = ("_plain",)
    event_ndim = 1

    nvec: Tensor
    remove_singleton: bool
    _plain: bool
    """Whether ``nvec`` was a number."""
    _widths: tuple[int, ...]
    """What ``nvec`` is where the batch has no element, or the device no numbers."""

    def __init__(
        self,
        nvec: Sequence[int] | Sequence[Sequence[int]] | Tensor | int,
        shape: ShapeLike = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | str | None = torch.int64,
        mask: Any = None,
        remove_singleton: bool = True,
    ) -> None:
        vector = _sizes(nvec)
        self._plain = remove_singleton and vector.ndim == 0
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
        self.nvec = vector.to(self._device).expand(want)
        self._widths = tuple(vector.reshape(-1, vector.shape[-1])[0].tolist())
        if mask is not None:
            self._one_nvec("a mask")
        self.update_mask(mask)

    def _one_nvec(self, what: str) -> tuple[int, ...]:
        """The ``nvec`` of every element of the batch, which must be the same."""
        rows = self._rows()
        if bool((rows != rows[:1]).any()):
            raise SpecError(
                f"{self!r}: {what} needs the same nvec in every element of the batch, got "
                f"{rows.unique(dim=0).tolist()}; index one element first"
            )
        return self.space_sizes

    @cached_property
    def space_sizes(self) -> tuple[int, ...]:
        """``nvec`` of the first element of the batch."""
        return tuple(self._rows()[0].tolist())

    def _rows(self) -> Tensor:
        """The ``nvec`` of every element of the batch, ``[n, components]``; one row where that holds no numbers."""
        rows = self.nvec.reshape(-1, self.nvec.shape[-1])
        return rows if rows.numel() and not rows.is_meta else torch.tensor([self._widths], device="cpu")

    def _map(self, reshape: Reshape, rename: Rename | None = None, **changes: Any) -> Self:
        kept = {"_widths": self._widths, "remove_singleton": self.remove_singleton}
        return super()._map(reshape, rename, **{**kept, **changes})

    def _cast(self, dtype: torch.dtype) -> Self:
        refuse_too_many(f"{self!r}.to", int(self._rows().max()), dtype)
        return super()._cast(dtype)

    @cached_property
    def unit_dtype(self) -> torch.dtype:  # type: ignore[override]
        """Double precision where there are very many values."""
        return torch.float64 if int(self._rows().max()) > FINE else torch.float32

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

    @property
    def _bare(self) -> bool:
        """Whether plain numbers are values too."""
        return self._plain and self.shape == (1,)

    def rand(self, shape: ShapeLike = None, *, rng: Any = None) -> Tensor:
        """A random value ``[*shape, *self.shape]``; without the last dimension where it is the only one, of size 1."""
        out: Tensor = super().rand(shape, rng=rng)
        return out.squeeze(-1) if self._bare else out

    def is_in(self, val: Any) -> bool:
        """Whether ``val`` has the right dtype and lies in the domain."""
        if super().is_in(val):
            return True
        return self._bare and isinstance(val, Tensor) and super().is_in(val.unsqueeze(-1))

    def project(self, val: Any) -> Tensor:
        """``val`` where it is in the domain, else the nearest value that is."""
        if self._bare and not fits(val.shape, self.shape):
            return super().project(val.unsqueeze(-1)).squeeze(-1)
        return super().project(val)

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
        return max(prod(row) for row in self._rows().unique(dim=0).tolist())

    def enumerate(self, use_mask: bool = False) -> Tensor:
        """Every combination once, the same in all elements; ``[prod(nvec), *shape]``."""
        ranges = [torch.arange(n, device=self._device) for n in self._one_nvec("enumerate")]
        if use_mask and self.mask is not None:
            rows = self.mask.reshape(-1, self.mask.shape[-1])
            if len(rows) == 0 or bool((rows != rows[0]).any()):
                raise SpecError(
                    f"{self!r}.enumerate: the masks of its elements differ, so there is no one list; index one element"
                )
            ranges = [r[m] for r, m in zip(ranges, rows[0].split(self.space_sizes), strict=True)]
        grid = torch.cartesian_prod(*ranges) if len(ranges) > 1 else ranges[0].unsqueeze(-1)
        grid = grid.to(self.dtype).reshape(-1, *[1] * (len(self.shape) - 1), len(ranges))
        return grid.expand(-1, *concrete(self.shape)).clone()

    def index(self, index: Any, tensor_to_index: Tensor) -> Tensor:
        """Per component the entry of its part of ``tensor_to_index`` (``[..., sum(nvec)]``); leading dimensions
        broadcast.
        """
        numbers, sizes = torch.as_tensor(index).long(), self._one_nvec("index")
        tables = torch.as_tensor(tensor_to_index)
        lead = torch.broadcast_shapes(numbers.shape[:-1], tables.shape[:-1])
        starts = torch.tensor([0, *sizes[:-1]], device=numbers.device).cumsum(0)
        return tables.expand(*lead, -1).gather(-1, (numbers + starts).expand(*lead, -1))

    def _number(self, val: Tensor) -> Tensor:
        return val

    def _one_hot(self, val: Tensor) -> Tensor:
        val = val.unsqueeze(-1) if self._bare and not fits(val.shape, self.shape) else val
        sizes = self._one_nvec("to_one_hot")
        if val.shape[-1:] != (len(sizes),):
            raise ShapeError(f"{self!r}.to_one_hot: expected {len(sizes)} numbers per value, got {list(val.shape)}")
        columns = zip(val.unbind(-1), sizes, strict=True)
        return torch.cat([one_hot(v, n, torch.bool) for v, n in columns], -1)

    def to_categorical_spec(self) -> MultiCategorical:
        """This spec."""
        return self

    def to_one_hot_spec(self) -> MultiOneHot:
        """The spec of the same choices as one-hot vectors, mask included."""
        shape = Size((*self.shape[:-1], sum(self._one_nvec("to_one_hot_spec"))))
        return MultiOneHot(self.space_sizes, shape, device=self._device, mask=self.mask)


def _sizes(nvec: Any) -> Tensor:
    """``nvec`` as a tensor of whole numbers that nobody else holds, on the CPU."""
    try:
        vector = torch.as_tensor(nvec, device="cpu").clone()
    except (TypeError, ValueError, RuntimeError) as error:
        raise SpecError(f"MultiCategorical: nvec must be whole numbers in rows of one length, got {nvec}") from error
    if vector.dtype.is_floating_point and vector.numel():
        raise SpecError(f"MultiCategorical: nvec must be whole numbers, got {vector.tolist()}")
    return vector.long()


Categorical.register(MultiCategorical)


class MultiOneHot(Discrete):
    """Several discrete choices, each a one-hot vector, side by side in the last dimension.

    Args:
        nvec: the length of each vector.
        shape: ``(sum(nvec),)`` when left out; must end in ``sum(nvec)``.
        device: where values live.
        dtype: bool, an integer or a float type.
        use_register: :meth:`encode` numbers the values of each component as they come, and :meth:`to_numpy` gives them
            back.
        mask: bool, broadcastable to ``shape``.

    Raises:
        SpecError: a vector has no entry, or the shape does not end in their sum.

    ``isinstance(spec, OneHot)`` is True, as in TorchRL.

    >>> MultiOneHot([2, 3]).encode([1, 2])
    tensor([False,  True, False, False,  True])
    """

    fields: ClassVar[tuple[str, ...]] = ("nvec", "registers")
    event_ndim = 1

    nvec: tuple[int, ...]
    registers: tuple[Register, ...] | None
    """The values that were encoded, per component, where the spec numbers them itself."""

    def __init__(
        self,
        nvec: Sequence[int],
        shape: ShapeLike = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | str | None = torch.bool,
        use_register: bool = False,
        mask: Any = None,
    ) -> None:
        self.nvec = tuple(count_of("MultiOneHot", f"nvec[{i}]", n, 1) for i, n in enumerate(nvec))
        if not self.nvec:
            raise SpecError("MultiOneHot: expected the length of at least one vector, got nvec=[]")
        self.registers = tuple(Register() for _ in self.nvec) if use_register else None
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
        registers = self.registers or (None,) * len(self.nvec)
        return BoxList(tuple(CategoricalBox(n, kept) for n, kept in zip(self.nvec, registers, strict=True)))

    @property
    def use_register(self) -> bool:
        """Whether the spec numbers the values itself."""
        return self.registers is not None

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
        if value.shape[-1:] != (sum(self.nvec),):
            raise ShapeError(f"{self!r}: expected vectors of length {sum(self.nvec)}, got {list(value.shape)}")
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
        if self.registers is not None:
            val = self._registered(val, self.registers)
        index = self._numbers.encode(val, ignore_device=ignore_device)
        if bool(((index < 0) | (index >= self._numbers.nvec.to(index.device))).any()):
            raise NotInSpec(f"{self!r}.encode: expected {len(self.nvec)} numbers below {list(self.nvec)}, got {val}")
        return self._spread(index)

    def _registered(self, val: Any, registers: tuple[Register, ...]) -> Any:
        """The numbers of values, one per component in the innermost lists."""
        val = val.tolist() if hasattr(val, "tolist") else val
        if val and isinstance(val[0], list):
            return [self._registered(row, registers) for row in val]
        if len(val) != len(registers):
            raise ShapeError(f"{self!r}.encode: expected {len(registers)} values, got {val}")
        return [r.numbers(one, n, repr(self)) for r, one, n in zip(registers, val, self.nvec, strict=True)]

    def to_numpy(self, val: Tensor, safe: bool | None = None) -> Any:
        """The numbers that the vectors stand for, or the values that were registered; ``safe`` checks it first."""
        numbers = super().to_numpy(val, safe)
        if self.registers is None:
            return numbers
        pairs = zip(self.registers, np.moveaxis(numbers, -1, 0), strict=True)
        columns = [r.values(column, repr(self)) for r, column in pairs]
        mixed = len({column.dtype.kind for column in columns}) > 1
        return np.stack([column.astype(object) if mixed else column for column in columns], -1)

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


OneHot.register(MultiOneHot)
