"""Constant tensors on the device that asks for them: made once for each, as copying makes the host wait."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor


def on_cpu() -> AbstractContextManager[Any]:
    """Within it PyTorch makes tensors on the CPU where nobody says a device, whatever its default device is.

    >>> with torch.device("meta"), on_cpu():
    ...     torch.zeros(2).device
    device(type='cpu')
    """
    return nullcontext() if torch.empty(0).is_cpu else torch.device("cpu")


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


class PerDevice(dict["tuple[Any, ...]", Tensor]):
    """Tensors that are made when they are first looked up, by a key with a device in it. They must not be written to.

    What a compiler's graph makes is not kept, as it must not outlive the graph. What inference mode asks for
    first serves gradients too.

    Args:
        make: a key's tensor, from the entries of the key.

    >>> squares = PerDevice(lambda device: torch.arange(3, device=device) ** 2)
    >>> squares[torch.device("cpu"),]
    tensor([0, 1, 4])
    """

    def __init__(self, make: Callable[..., Tensor]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: tuple[Any, ...]) -> Tensor:
        with torch.inference_mode(False):
            made = self._make(*key)
        if not torch.compiler.is_compiling():
            self[key] = made
        return made


class Constants(dict[str, Tensor]):
    """Tensors by name that are not written to.

    >>> starts = Constants(gap=torch.zeros(2))
    >>> starts.on("gap", torch.device("meta")).device
    device(type='meta')
    """

    def __init__(self, **tensors: Tensor) -> None:
        super().__init__(tensors)
        self._moved = PerDevice(lambda name, device: self[name].to(device))

    def on(self, name: str, device: torch.device) -> Tensor:
        """The tensor of a name on a device."""
        own = self[name]
        return own if own.device == device else self._moved[name, device]
