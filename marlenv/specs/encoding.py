"""Between simulators and tensors: ``encode``, ``to_numpy``, and what a spec remembers of the values it has encoded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from marlenv.errors import NotInSpec, ShapeError, SpecError
from marlenv.specs.dtypes import ENDS, always_fits, dtype_name, misfits
from marlenv.specs.shapes import behind, concrete, fits


class Encoding(ABC):
    """The translating side of a spec. Abstract."""

    shape: Size
    dtype: torch.dtype
    _device: torch.device | None

    @abstractmethod
    def assert_is_in(self, value: Any) -> None:
        """Raises unless ``value`` is in the spec."""

    def encode(self, val: Any, *, ignore_device: bool = False) -> Any:
        """A tensor of this spec from what a simulator gives: a number, a list, an array or a tensor.

        A number stands for every element; a list of one item is that item.

        Args:
            val: the value, with the spec's shape behind any leading dimensions.
            ignore_device: leave the value where it is.

        Raises:
            ShapeError: the value does not have the spec's trailing dimensions.
            NotInSpec: a number is beyond the ends of the spec's dtype, an integer one.
        """
        out = self._as_tensor(val, ignore_device)
        want = self._encoded_shape(out.shape, isinstance(val, list))
        return out if want is None else out.expand(want).clone() if not out.ndim else out.reshape(want)

    def _encoded_shape(self, got: Size, listed: bool) -> Size | None:
        """The shape that an encoded value of shape ``got`` takes; None when it stays."""
        want = concrete(self.shape)
        if listed and len(got) == len(want) + 1 and got[0] == 1 and fits(got[1:], self.shape):
            return got[1:]
        if fits(got, self.shape):
            return None
        if len(got) == 1 and self.shape.count(-1) == 1 and got[0] % (n := prod(abs(s) for s in self.shape) or 1) == 0:
            return Size(got[0] // n if s < 0 else s for s in self.shape)
        flat = len(got) == 1 or [n for n in got if n != 1] == [n for n in want if n != 1]
        if not got or (prod(got) == prod(want) and flat):
            return want
        raise ShapeError(f"{self!r}.encode: expected a value of shape {behind(self.shape)}, got {list(got)}")

    def _as_tensor(self, val: Any, ignore_device: bool) -> Tensor:
        """The value as a tensor of the spec's dtype; arrays are copied, since simulators write into theirs again."""
        device = None if ignore_device else self._device
        try:
            if isinstance(val, (list, tuple)) and any(isinstance(v, Tensor) for v in val):
                val = torch.stack([torch.as_tensor(v, device=device) for v in val])
            array = val if isinstance(val, (int, float, bool, Tensor)) else np.asarray(val)
            if self.dtype in ENDS and (wrong := misfits(array, self.dtype)):
                raise NotInSpec(f"{self!r}.encode: {wrong}; take a wider dtype")
            if isinstance(array, Tensor):
                return array.to(device=device, dtype=self.dtype)
            if isinstance(array, np.ndarray) and any(stride < 0 for stride in array.strides):
                array = array.copy()
            return torch.tensor(array, dtype=self.dtype, device=device)
        except (TypeError, ValueError, RuntimeError) as error:
            raise SpecError(f"{self!r}.encode: expected numbers, got {brief(val)}, which make no tensor") from error

    def memoize_encode(self, mode: bool = True) -> None:
        """Lets :meth:`encode` remember how values of one type, dtype and shape are encoded; False goes back.

        The results are the same; values of a kind that came before are checked no more.

        >>> spec = Unbounded((3,))
        >>> spec.memoize_encode()
        >>> spec.encode(np.arange(3)), spec.encode(1.0)
        (tensor([0., 1., 2.]), tensor([1., 1., 1.]))
        """
        if mode:
            self.__dict__.setdefault("encode", MemoizedEncode(self))
        else:
            self.__dict__.pop("encode", None)

    def erase_memoize_cache(self) -> None:
        """Forgets the kinds of values that :meth:`encode` remembers."""
        if memo := self.__dict__.get("encode"):
            memo.shapes.clear()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "encode"}

    def to_numpy(self, val: Tensor, safe: bool | None = None) -> Any:
        """The value as simulators take it: an array; ``safe`` checks it first. bfloat16 becomes float32."""
        if safe:
            self.assert_is_in(val)
        return as_array(val.float() if val.dtype == torch.bfloat16 else val)


def as_array(val: Tensor) -> Any:
    """A tensor as an array, wherever it is; it shares the memory of one on the CPU.

    >>> as_array(torch.ones(2, requires_grad=True))
    array([1., 1.], dtype=float32)
    """
    try:
        return val.numpy()  # force=True takes several times as long, needed or not
    except (RuntimeError, TypeError):  # it has a gradient, a lazy sign, another device
        return val.numpy(force=True)


class MemoizedEncode:
    """``spec.encode`` that remembers, per kind of array, the shape that its values take.

    Only what is decided by type, dtype and shape alone is remembered: what looks at the numbers is done each time.
    """

    def __init__(self, spec: Encoding) -> None:
        self.spec = spec
        self.shapes: dict[tuple[Any, ...], Size | None] = {}

    def __call__(self, val: Any, *, ignore_device: bool = False) -> Any:
        spec = self.spec
        if type(spec).encode is not Encoding.encode or type(val) is not np.ndarray:
            return type(spec).encode(spec, val, ignore_device=ignore_device)
        kind = (val.dtype, val.shape)
        if kind not in self.shapes:
            out = type(spec).encode(spec, val, ignore_device=ignore_device)
            if spec.dtype not in ENDS or always_fits(val.dtype, spec.dtype):
                self.shapes[kind] = None if out.shape == val.shape else out.shape
            return out
        want = self.shapes[kind]
        if any(stride < 0 for stride in val.strides):
            val = val.copy()
        out = torch.tensor(val, dtype=spec.dtype, device=None if ignore_device else spec._device)
        return out if want is None else out.expand(want).clone() if not out.ndim else out.reshape(want)


def brief(value: Any) -> str:
    """A value in an error message."""
    if not isinstance(value, Tensor):
        return f"{type(value).__name__} {value!r}"[:200]
    head = f"{dtype_name(value.dtype)} {list(value.shape) if not value.is_nested else 'of several shapes'}"
    if value.is_meta or value.is_nested or value.numel() == 0 or value.dtype == torch.bool or value.is_complex():
        return head
    low, high = value.min().item(), value.max().item()
    return f"{head} in {low:g}..{high:g}"
