"""Dtypes and devices as users write them, and values taken from one dtype to another."""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.errors import DeviceError


def as_dtype(dtype: torch.dtype | str | None, default: torch.dtype) -> torch.dtype:
    """A torch dtype from what users write: a dtype, its name, or nothing."""
    if dtype is None:
        return default
    return getattr(torch, dtype) if isinstance(dtype, str) else dtype


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
