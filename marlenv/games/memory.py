"""Memory on the CPU: large tensors that are used again, and what numba is given of tensors.

Making a large tensor costs more than filling it, as every page of it has to be found.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from marlenv.optional import has

NUMBA = has("numba")
SOME_OVER = 2  # what kernels that play a ply return where a game is over
WORTH = 64  # rows from which on compiling pays


class Buffers:
    """Tensors that are handed out again once nobody else holds them. Copies of an env share none.

    >>> pool = Buffers()
    >>> first, second = pool.take((2, 3)), pool.take((2, 3))
    >>> first.data_ptr() == second.data_ptr()
    False
    >>> at = first.data_ptr()
    >>> del first
    >>> pool.take((2, 3)).data_ptr() == at
    True
    """

    MOST = 24  # of a kind are kept
    KINDS = 8  # shapes and dtypes

    def __init__(self) -> None:
        self._held: dict[tuple[Any, ...], list[Tensor]] = {}

    def take(self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        """A tensor of any content that shares memory with nothing that is still held elsewhere."""
        kind = (shape, dtype, torch.is_inference_mode_enabled())
        held = self._held.get(kind)
        if held is None:
            if len(self._held) == self.KINDS:
                del self._held[next(iter(self._held))]
            held = self._held[kind] = []
        for i, one in enumerate(held):  # the oldest first, which is free most likely
            if _holders(one) <= ALONE:
                held.append(held.pop(i))
                return one.view(shape)
        made = torch.empty(shape, dtype=dtype)
        held.append(made)
        del held[: -self.MOST]
        return made.view(shape)

    def __deepcopy__(self, memo: Any) -> Buffers:
        return Buffers()

    def __reduce__(self) -> Any:
        return Buffers, ()


def _holders(one: Tensor) -> int:
    return int(torch._C._storage_Use_Count(one.untyped_storage()._cdata))


def _alone() -> int:
    """How many hold the memory of a tensor that only one list holds, while one looks."""
    held = [torch.empty(1)]
    return min(_holders(one) for one in held)


ALONE = _alone()


@cache
def kernels() -> ModuleType:
    """What numba compiles; importing it needs numba."""
    from marlenv.games import kernels  # optional: compiled on first use

    return kernels


def for_numba(*tensors: Tensor, rows: int | None = None) -> bool:
    """Whether numba should work on int64 tensors: on the CPU, where it is installed, for many rows.

    Args:
        tensors: all that it is to read.
        rows: how many there are; as many as numbers in the first tensor when left out.
    """
    if not NUMBA or (tensors[0].numel() if rows is None else rows) < WORTH or torch.compiler.is_compiling():
        return False
    return all(tensor.is_cpu and tensor.dtype == torch.int64 for tensor in tensors)


def as_rows(tensor: Tensor, columns: int = 0) -> NDArray[Any]:
    """The memory of a tensor as ``[B]``, or ``[B, columns]``; of a copy of one that has gaps."""
    array: NDArray[Any] = tensor.numpy()
    if array.ndim == 1 and not columns and array.flags.c_contiguous:
        return array
    return array.reshape((-1, columns) if columns else -1)
