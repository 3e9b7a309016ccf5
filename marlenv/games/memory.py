"""Memory on the CPU: data that are written again, and what numba is given of tensors.

Making a large tensor costs more than filling it, as every page of it has to be found.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from types import ModuleType
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray
from tensordict import TensorDict
from torch import Tensor

from marlenv.optional import has
from marlenv.tensordicts import new

Data = TypeVar("Data")
Memory = TypeVar("Memory")

NUMBA = has("numba")
SOME_OVER = 2  # what kernels that play a ply return where a game is over
WORTH = 64  # rows from which on compiling pays


class Pages:
    """Data in memory that is written again once nobody else holds any of it. Copies of an env share none.

    A kind of page is laid out once, as a tensordict or a tensor, and handed out as new tensors over the same memory. Tensors
    over it are seen, wherever they are kept; a bare address, or a storage without a tensor, is not.

    >>> pages = Pages()
    >>> make = lambda: (torch.empty(2, 3), "whatever writes to it needs")
    >>> first, second = pages.take("kind", make)[0], pages.take("kind", make)[0]
    >>> first.data_ptr() == second.data_ptr()
    False
    >>> at = first.data_ptr()
    >>> del first
    >>> pages.take("kind", make)[0].data_ptr() == at
    True
    """

    MOST = 12  # of a kind are kept
    KINDS = 8

    def __init__(self) -> None:
        self._held: dict[Hashable, list[_Page]] = {}

    def take(self, kind: Hashable, make: Callable[[], tuple[Data, Memory]]) -> tuple[Data, Memory]:
        """A page of any content that shares memory with nothing that is still held elsewhere.

        Args:
            kind: of page.
            make: lays a new one out; returns it, and what writes to it needs, which may keep its tensors.
        """
        kind = (kind, torch.is_inference_mode_enabled())
        held = self._held.get(kind)
        if held is None:
            if len(self._held) == self.KINDS:
                del self._held[next(iter(self._held))]
            held = self._held[kind] = []
        for i in range(len(held) - 1, -1, -1):  # the newest first, which is nearest to the CPU
            page = held[i]
            if page.free():
                held.append(held.pop(i))
                return _anew(page.data), page.memory
        page = _Page(*make())
        held.append(page)
        del held[: -self.MOST]
        return _anew(page.data), page.memory

    def __deepcopy__(self, memo: Any) -> Pages:
        return Pages()

    def __reduce__(self) -> Any:
        return Pages, ()


class _Page:
    """One page: its data, what writes to it needs, and how many hold each part of its memory while nobody else does."""

    __slots__ = ("data", "memory", "parts")

    def __init__(self, data: Any, memory: Any) -> None:
        self.data, self.memory = data, memory
        whole = {leaf.untyped_storage()._cdata: leaf for leaf in _leaves(data)}
        self.parts = [(leaf, leaf.data_ptr(), at, _holders(at)) for at, leaf in whole.items()]

    def free(self) -> bool:
        """Whether nobody else holds any of it, and it is where it was: what other processes are given moves."""
        return all(_holders(at) <= alone and leaf.data_ptr() == where for leaf, where, at, alone in self.parts)


def _leaves(data: Any) -> list[Tensor]:
    return [data] if isinstance(data, Tensor) else list(data.values(True, True))


def _anew(data: Any) -> Any:
    """New tensors, and tensordicts, over the memory of others."""
    if type(data) is not TensorDict:
        return data.detach()
    return new({name: _anew(value) for name, value in data._tensordict.items()}, data.batch_size, data.device)


def _holders(storage: int) -> int:
    return int(torch._C._storage_Use_Count(storage))


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
