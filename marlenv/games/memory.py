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
                return page.anew(), page.memory
        page = _Page(*make())
        held.append(page)
        del held[: -self.MOST]
        return page.anew(), page.memory

    def __deepcopy__(self, memo: Any) -> Pages:
        return Pages()

    def __reduce__(self) -> Any:
        return Pages, ()


class _Page:
    """One page: its leaves, where they are in the data, and what writes to it needs."""

    __slots__ = ("form", "leaves", "memory", "parts")

    def __init__(self, data: Any, memory: Any) -> None:
        self.leaves: list[Tensor] = []
        self.form, self.memory = self._form(data), memory
        whole = {leaf.untyped_storage()._cdata: leaf for leaf in self.leaves}
        self.parts = [(leaf, leaf.data_ptr(), storage, holders(storage)) for storage, leaf in whole.items()]

    def _form(self, data: Any) -> Any:
        """The number of a leaf, or those of the entries of a tensordict with their names."""
        if type(data) is TensorDict:
            entries = [(name, self._form(value)) for name, value in data._tensordict.items()]
            return entries, data.batch_size, data.device
        for i, leaf in enumerate(self.leaves):
            if leaf is data:
                return i
        self.leaves.append(data)
        return len(self.leaves) - 1

    def free(self) -> bool:
        """Whether nobody else holds any of it, and it is where it was: what other processes are given moves."""
        for leaf, where, storage, alone in self.parts:  # a loop: this is asked several times a step
            if holders(storage) > alone or leaf.data_ptr() != where:
                return False
        return True

    def anew(self) -> Any:
        """The data: new tensors, and tensordicts, over the same memory."""
        return _filled(self.form, [leaf.detach() for leaf in self.leaves])


def _filled(form: Any, leaves: list[Tensor]) -> Any:
    if type(form) is int:
        return leaves[form]
    entries, batch, device = form
    return new({name: leaves[at] if type(at) is int else _filled(at, leaves) for name, at in entries}, batch, device)


holders = torch._C._storage_Use_Count


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
