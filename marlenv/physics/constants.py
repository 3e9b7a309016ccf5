"""Numbers that never change, where the rows live: copied to another device once, as copying makes the host wait for it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor


def constant(values: Any, device: torch.device, dtype: torch.dtype) -> Tensor:
    """A number, or numbers in lists, as a tensor on a device. It must not be written to.

    The dtype is said, as ``True``, ``1`` and ``1.0`` are the same key.

    >>> constant([[1.0, 2.0]], torch.device("cpu"), torch.float32)
    tensor([[1., 2.]])
    """
    if device.type == "cpu" or torch.compiler.is_compiling():
        return torch.tensor(values, dtype=dtype, device=device)
    return _kept(_frozen(values), device, dtype)


@lru_cache(maxsize=4096)
def _kept(values: Any, device: torch.device, dtype: torch.dtype) -> Tensor:
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=dtype, device=device)


def _frozen(values: Any) -> Any:
    values = values.tolist() if hasattr(values, "tolist") else values
    return tuple(map(_frozen, values)) if isinstance(values, (list, tuple)) else values


class Constants(dict[str, Tensor]):
    """Tensors by name that are not written to.

    >>> starts = Constants(gap=torch.zeros(2))
    >>> starts.on("gap", torch.device("meta")).device
    device(type='meta')
    """

    def __init__(self, **tensors: Tensor) -> None:
        super().__init__(tensors)
        self._moved: dict[tuple[str, torch.device], Tensor] = {}

    def on(self, name: str, device: torch.device) -> Tensor:
        """The tensor of a name on a device."""
        own = self[name]
        if own.device == device:
            return own
        key = (name, device)
        if key not in self._moved:
            self._moved[key] = own.to(device)
        return self._moved[key]
