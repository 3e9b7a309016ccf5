"""Dtypes and devices as users write them, and values taken from one dtype to another."""

from __future__ import annotations

from functools import cache
from typing import Any, SupportsFloat

import numpy as np
import torch
from torch import Tensor

from marlenv.errors import DeviceError, DtypeError

ENDS = {
    dtype: (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
}
"""The smallest and the largest number of integer types."""
NUMBERS = "biuf"
"""The kinds of numpy's dtypes that are real numbers."""


def unfit(value: Any, dtype: torch.dtype) -> str:
    """What is wrong with the numbers of an array or a tensor for a dtype, in words; nothing where all fit.

    >>> unfit(np.array([1.0, 2.5]), torch.int64), unfit(np.array([1.0, 2.5]), torch.float32)
    ('expected whole numbers for torch.int64, got [2.5]', '')
    >>> unfit(np.array(["1"]), torch.float32), unfit(np.array([1, 2]), torch.bool)
    ("expected numbers, got array(['1'], dtype='<U1')", 'expected 0 or 1 for torch.bool, got [2]')
    """
    numbers = _numbers(value, dtype)
    if numbers is None:
        return f"expected numbers, got {value!r}"[:200]
    if dtype.is_complex:
        return ""
    if not dtype.is_floating_point and (wrong := fractions(numbers)):
        return f"expected whole numbers for {dtype}, got {wrong}"
    if dtype == torch.bool and (wrong := _no_flags(numbers)):
        return f"expected 0 or 1 for {dtype}, got {wrong}"
    return misfits(numbers, dtype)


def _numbers(value: Any, dtype: torch.dtype) -> Any:
    """The numbers of an array or a tensor; None if it holds anything else, or hides some behind a mask."""
    if isinstance(value, Tensor):
        return None if value.is_complex() and not dtype.is_complex else value
    if isinstance(value, np.ma.MaskedArray) and np.any(value.mask):
        return None
    if value.dtype != object:
        return value if value.dtype.kind in NUMBERS or (dtype.is_complex and value.dtype.kind == "c") else None
    items = value.reshape(-1).tolist()
    if all(isinstance(one, int) for one in items):
        return value
    return value.astype(np.float64) if all(isinstance(one, SupportsFloat) for one in items) else None


def _no_flags(value: Any) -> list[float]:
    """The first numbers that are neither 0 nor 1."""
    if value.dtype in (np.bool_, torch.bool):
        return []
    found: list[float] = value[(value != 0) & (value != 1)][:5].tolist()
    return found


def fractions(value: Any) -> list[float]:
    """The first numbers of an array or a tensor that are no whole ones, for errors.

    >>> fractions(np.array([1.0, 2.5, float("nan")])), fractions(torch.tensor([1, 2]))
    ([2.5, nan], [])
    """
    if not (value.dtype.is_floating_point if isinstance(value, Tensor) else value.dtype.kind == "f"):
        return []
    wrong = (value != value.round()) | (abs(value) == float("inf"))
    found: list[float] = value[wrong][:5].tolist()
    return found


def misfits(value: Tensor | np.ndarray[Any, Any] | float, dtype: torch.dtype) -> str:
    """What keeps numbers out of an integer type, in words; nothing where all fit.

    >>> misfits(np.array([3, 300]), torch.uint8), misfits(torch.tensor(3), torch.uint8)
    ('expected numbers in 0..255, which uint8 holds, got 3..300', '')
    """
    ends = ENDS.get(dtype)
    if ends is None or (found := _least_and_most(value, dtype)) is None:
        return ""
    low, high = found
    if low >= ends[0] and high <= ends[1]:
        return ""
    got = f"{low}" if low == high else f"{low}..{high}"
    return f"expected numbers in {ends[0]}..{ends[1]}, which {dtype_name(dtype)} holds, got {got}"


def _least_and_most(value: Any, dtype: torch.dtype) -> tuple[Any, Any] | None:
    """The smallest and the largest of some numbers; None where they fit an integer type whatever they are."""
    if isinstance(value, (int, float)):
        return value, value
    if always_fits(value.dtype, dtype):
        return None
    if isinstance(value, Tensor):
        return None if value.is_meta or not value.numel() else (value.min().item(), value.max().item())
    if value.dtype == object:  # whole numbers that no type holds, or no numbers
        numbers = value.reshape(-1).tolist()
        return (min(numbers), max(numbers)) if numbers and all(isinstance(n, int) for n in numbers) else None
    return (value.min().item(), value.max().item()) if value.dtype.kind in "iuf" and value.size else None


@cache
def always_fits(have: Any, want: torch.dtype) -> bool:
    """Whether all numbers of a type of torch or numpy fit an integer type.

    >>> always_fits(torch.uint8, torch.int64), always_fits(np.dtype("int64"), torch.uint8)
    (True, False)
    """
    if isinstance(have, np.dtype):
        return np.can_cast(have, dtype_name(want))
    if have in ENDS:
        return ENDS[have][0] >= ENDS[want][0] and ENDS[have][1] <= ENDS[want][1]
    return have == torch.bool


def as_dtype(dtype: torch.dtype | str | None, default: torch.dtype) -> torch.dtype:
    """A torch dtype from what users write: a dtype, its name, or nothing.

    Raises:
        DtypeError: it is none.
    """
    if dtype is None:
        return default
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype):
        raise DtypeError(f"{dtype!r} is no dtype; use one of torch's, such as torch.float32, or its name, 'float32'")
    return found


def dtype_name(dtype: torch.dtype | None) -> str:
    """``"float32"`` for ``torch.float32``, nothing for None."""
    return "" if dtype is None else str(dtype).removeprefix("torch.")


def as_device(device: torch.device | str | int | None) -> torch.device | None:
    """A device as tensors report it: ``cuda`` is ``cuda:0``, or the current one, and ``cpu:0`` is ``cpu``."""
    return None if device is None else _numbered(_device("device", device))


def usable_device(who: str, device: torch.device | str | int) -> torch.device:
    """The device as tensors report it, where this machine has it.

    Raises:
        DeviceError: it is none, or one that this machine, or this build of torch, lacks.
    """
    device = _device(who, device)
    count = torch.cuda.device_count() if device.type == "cuda" else 0
    if device.type == "cuda" and (device.index or 0) >= count:
        have = f"there are {count}" if count else "there is none that this torch can use"
        raise DeviceError(f"{who}: device {str(device)!r} needs a CUDA device, and {have}; use 'cpu'")
    if device.type in ("cpu", "cuda", "meta"):
        return _numbered(device)
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, ImportError) as error:  # as backends that are not there say it
        raise DeviceError(f"{who}: device {str(device)!r} cannot be used here; use 'cpu'") from error


def _numbered(device: torch.device) -> torch.device:
    """The device with its number, where CUDA's has none."""
    if device.type == "cuda" and device.index is None and torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return device


def _device(who: str, device: torch.device | str | int) -> torch.device:
    try:
        made = torch.device(device)
        return torch.device("cpu") if made.type == "cpu" else made
    except (RuntimeError, TypeError) as error:
        raise DeviceError(
            f"{who}: {device!r} is no device; use 'cpu', 'cuda', or 'cuda:1' for a certain GPU"
        ) from error


def cast(value: Tensor, dtype: torch.dtype) -> Tensor:
    """The nearest value of another dtype: rounded, and kept within its range; NaN becomes 0 in integers.

    >>> cast(torch.tensor([-1.0, 1.7, 300.0]), torch.uint8)
    tensor([  0,   2, 255], dtype=torch.uint8)
    """
    if value.dtype == dtype or dtype.is_floating_point:
        return value.to(dtype)
    if dtype == torch.bool:
        return value > 0.5 if value.dtype.is_floating_point else value > 0
    info = torch.iinfo(dtype)
    if value.dtype.is_floating_point:
        value = value.to(torch.float64).nan_to_num(0.0).round()
        inside = value.clamp(float(info.min), float(info.max))
        inside = inside.masked_fill(inside >= float(info.max), 0).to(dtype)
        return inside.masked_fill(value >= float(info.max), info.max)
    return value.to(torch.int64).clamp(info.min, info.max).to(dtype)
