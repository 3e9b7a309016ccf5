"""Unequal leaves side by side."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from marlenv.errors import ShapeError, SpecError, Unsupported
from marlenv.specs.base import TensorSpec
from marlenv.specs.lazy_stack import LazyStack
from marlenv.specs.shapes import ShapeLike, size


class Stacked(LazyStack, TensorSpec):
    """Unequal leaves side by side along ``dim``; sizes that differ are -1 in ``shape``.

    Made by ``torch.stack`` from specs whose domains cannot be merged. Values are a dense tensor when the parts have the
    same shape, else a nested tensor.

    Args:
        *specs: the parts, with the same dtype, device and number of dimensions.
        dim: where the new dimension stands.

    Raises:
        SpecError: the parts do not go together.

    >>> torch.stack([Categorical(3), Categorical(5)]).is_in(torch.tensor([2, 4]))
    True
    """

    def __init__(self, *specs: TensorSpec, dim: int) -> None:
        self.dim = self._checked(specs, dim)
        if len({(s.dtype, s.device) for s in specs}) != 1:
            raise SpecError(f"Stacked: the specs must have one dtype and one device, got {[repr(s) for s in specs]}")
        self.parts = list(specs)
        self.dtype, self._device = specs[0].dtype, specs[0].device
        self.domain = specs[0].domain

    def _like(self, parts: list[Any], dim: int) -> Stacked:
        return Stacked(*parts, dim=dim)

    @property
    def shape(self) -> Size:  # type: ignore[override]
        """The shape of the parts with their number at the stacked dimension."""
        return self._stack_shape()

    @property
    def batch_ndim(self) -> int:
        """The batch dimensions of the parts and the stacked one."""
        return int(self.parts[0].batch_ndim) + 1

    def __getitem__(self, index: Any) -> Any:
        return self._at(index)

    def _join(self, values: list[Any], lead: int) -> Any:
        if not isinstance(values[0], Tensor) or len({v.shape for v in values}) == 1:
            return torch.stack(values, lead + self.dim)
        if len({v.ndim for v in values}) != 1:
            raise ShapeError(
                f"{self._who}: the values of the parts must have the same number of dimensions, got "
                f"{[list(v.shape) for v in values]}"
            )
        if lead + self.dim == 0:
            with warnings.catch_warnings(action="ignore"):  # it calls itself a prototype
                return torch.nested.nested_tensor(values)
        raise Unsupported(
            f"{self._who}: values of different shapes cannot be one tensor with leading dimensions; stack Composites "
            f"instead of leaves, or pad the specs (marlenv.groups.group_specs(..., unequal='pad'))"
        )

    def _lead_of(self, value: Any) -> int:
        """How many dimensions a value has in front of ours."""
        return 0 if isinstance(value, Tensor) and value.is_nested else len(value.shape) - len(self.shape)

    def rand(self, shape: ShapeLike = None, *, rng: Any = None) -> Any:
        """A random value of every part, stacked."""
        lead = size(shape)
        return self._join([p.rand(lead, rng=rng) for p in self.parts], len(lead))

    def zero(self, shape: ShapeLike = None) -> Any:
        """The zeros of every part, stacked."""
        lead = size(shape)
        return self._join([p.zero(lead) for p in self.parts], len(lead))

    def one(self, shape: ShapeLike = None) -> Any:
        """The ones of every part, stacked."""
        lead = size(shape)
        return self._join([p.one(lead) for p in self.parts], len(lead))

    sample, zeros, ones = rand, zero, one

    def from_unit(self, unit: Tensor, mask: Tensor | None = None) -> Any:
        raise Unsupported(f"{self._who}.from_unit: its parts take numbers of their own; draw with rand()")

    def is_in(self, val: Any) -> bool:
        """Whether every part of ``val`` is in its spec."""
        if val is None or (isinstance(val, Tensor) and val.dtype != self.dtype):
            return False
        values = self._values_of(val)
        return values is not None and all(p.is_in(v) for p, v in zip(self.parts, values, strict=True))

    def _holds(self, value: Any) -> bool:
        return self.is_in(value)

    def project(self, val: Any) -> Any:
        """The parts of ``val`` projected one by one, and stacked again."""
        if self.is_in(val):
            return val
        return self._join([p.project(v) for p, v in self._pairs(val, "project")], self._lead_of(val))

    def _project(self, value: Any) -> Any:
        return self.project(value)

    def encode(self, val: Any, *, ignore_device: bool = False) -> Any:
        """The encoded parts, stacked.

        Args:
            val: a list with one value ``[..., *part.shape]`` per part, or an array ``[..., *shape]``.
            ignore_device: leave the values where they are.

        Raises:
            ShapeError: there are not as many values as parts, or one does not have the shape of its part.
        """
        if isinstance(val, np.ndarray):
            val = torch.tensor(val)
        values = [p.encode(v, ignore_device=ignore_device) for p, v in self._pairs(val, "encode")]
        return self._join(values, values[0].ndim - len(self.parts[0].shape))

    def to_numpy(self, val: Any, safe: bool | None = None) -> list[Any]:
        """One array per part."""
        return [p.to_numpy(v, safe) for p, v in self._pairs(val, "to_numpy")]

    def _detail(self) -> str:
        return f"{len(self.parts)} x {type(self.parts[0]).__name__}"
