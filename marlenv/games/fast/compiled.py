"""Fast forms ask here whether numba works for them, and for what it is given of tensors."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from marlenv.optional import has

NUMBA = has("numba")
WORTH = 64  # rows from which on compiling pays
ILLEGAL, ALL_GO_ON, SOME_OVER = 0, 1, 2
"""What a compiled step returns: an action is illegal and nothing was written; no game is over; some are."""


@cache
def kernels() -> ModuleType:
    """What numba compiles; importing it needs numba."""
    from marlenv.games.fast import kernels  # optional: compiled on first use

    return kernels


def worth_compiling(rows: int) -> bool:
    """Whether numba should work on so many rows."""
    return NUMBA and rows >= WORTH and not torch.compiler.is_compiling()


def for_numba(*tensors: Tensor, rows: int | None = None) -> bool:
    """Whether numba should work on int64 tensors: on the CPU, where it is installed, for many rows.

    Args:
        tensors: all that it is to read.
        rows: how many there are; as many as numbers in the first tensor when left out.
    """
    if not worth_compiling(tensors[0].numel() if rows is None else rows):
        return False
    return all(tensor.is_cpu and tensor.dtype == torch.int64 for tensor in tensors)


def as_rows(tensor: Tensor, columns: int = 0) -> NDArray[Any]:
    """The memory of a tensor as ``[B]``, or ``[B, columns]``; of a copy of one that has gaps."""
    array: NDArray[Any] = tensor.numpy()
    if array.ndim == 1 and not columns and array.flags.c_contiguous:
        return array
    return array.reshape((-1, columns) if columns else -1)
