"""Constant tensors that rules look things up in: made once, kept once per device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from marlenv.constants import PerDevice, on_cpu
from marlenv.threads import unshared


class Table:
    """A constant tensor, made when it is first needed and kept per device.

    Args:
        make: makes it, on the CPU.

    >>> squares = Table(lambda: torch.arange(4) ** 2)
    >>> squares.on(torch.device("cpu"))
    tensor([0, 1, 4, 9])
    """

    def __init__(self, make: Callable[[], Tensor]) -> None:
        def made(device: torch.device) -> Tensor:
            with unshared(), on_cpu():
                return make().to(device)

        self._kept = PerDevice(made)
        self._array: NDArray[Any] | None = None

    def on(self, device: torch.device) -> Tensor:
        """The tensor on a device."""
        return self._kept[device,]

    @property
    def array(self) -> NDArray[Any]:
        """The tensor on the CPU as an array."""
        if self._array is None:
            self._array = self.on(torch.device("cpu")).numpy()
        return self._array

    def __getitem__(self, index: Tensor) -> Tensor:
        """The rows at ``index``, int64 ``[*B]``; ``[*B, ...]``. Every index must be in range."""
        table = self.on(index.device)
        if index.ndim == 1:
            return table.index_select(0, index)
        return table.index_select(0, index.reshape(-1)).reshape(index.shape + table.shape[1:])
