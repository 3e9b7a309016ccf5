"""Memory that is used again once nobody can see it: first writes to fresh memory are several times as slow.

A lent tensor is a NumPy array that PyTorch holds. When the last tensor, view, array or dlpack capsule of it is gone, or
when its data were moved elsewhere (into shared memory, for another process), PyTorch lets go of that array, and only
then the memory is lent again.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import weakref
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

LARGE = 1 << 20  # bytes from which on memory is kept; the allocator's own is as good for less, most often
PAGE, ADVICE = 1 << 21, 14  # a large page of memory; MADV_HUGEPAGE of Linux


class BufferPool:
    """Lends tensors for data of one kind again and again, such as the rollouts of an env.

    What is free and not of use for the last request is let go, so that no more is kept than one request takes, and a
    few more blocks of each size where asked for.

    Args:
        spare: how many more, for those who hold the last blocks when they ask for the next.
        least: bytes from which on memory is kept; :data:`LARGE` when left out.

    >>> pool = BufferPool()
    >>> [x] = pool.lend([((1 << 20,), torch.float32)])
    >>> place, view = x.data_ptr(), x[3:]
    >>> del x
    >>> pool.free  # the view is still there
    0
    >>> del view
    >>> [y] = pool.lend([((1 << 20,), torch.float32)])
    >>> y.data_ptr() == place
    True
    """

    def __init__(self, spare: int = 0, least: int | None = None) -> None:
        self._spare, self._least = spare, LARGE if least is None else least
        self._free: dict[int, list[Tensor]] = {}
        self._most: Counter[int] = Counter()

    def __reduce__(self) -> tuple[type[BufferPool], tuple[int, int]]:
        """Copies, and what is read again from a file, begin with nothing."""
        return BufferPool, (self._spare, self._least)

    @property
    def free(self) -> int:
        """Bytes that are kept and not lent."""
        return sum(size * len(kept) for size, kept in self._free.items())

    def lend(
        self, wanted: Sequence[tuple[Sequence[int], torch.dtype]], device: torch.device | None = None
    ) -> list[Tensor]:
        """A contiguous tensor with unknown values for each shape and dtype; each has memory of its own.

        Args:
            wanted: shapes and dtypes.
            device: where; memory is used again on the CPU only, other devices have pools of their own.
        """
        if device is not None and device.type != "cpu":
            return [torch.empty(tuple(shape), dtype=dtype, device=device) for shape, dtype in wanted]
        sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in wanted]
        self._most = Counter(size for size in sizes if size >= self._least)
        self._most.update(dict.fromkeys(self._most, self._spare))
        self._free = {size: self._free.get(size, [])[:count] for size, count in self._most.items()}
        return [
            self._lent(size).view(dtype).view(tuple(shape))
            if size >= self._least
            else torch.empty(tuple(shape), dtype=dtype, device="cpu")
            for size, (shape, dtype) in zip(sizes, wanted, strict=True)
        ]

    def _lent(self, size: int) -> Tensor:
        blocks = self._free[size]
        memory = blocks.pop() if blocks else fresh(size)
        loan = memory.numpy()
        back = weakref.finalize(loan, self._return, weakref.ref(self), size, memory)
        back.atexit = False
        return torch.from_numpy(loan)

    @staticmethod
    def _return(pool: weakref.ref[BufferPool], size: int, memory: Tensor) -> None:
        here = pool()
        if here is not None and len(blocks := here._free.get(size, [])) < here._most[size]:
            blocks.append(memory)


def fresh(size: int) -> Tensor:
    """Bytes of unknown values, where they are many in large pages if they are to be had; uint8 ``[size]``.

    >>> fresh(1 << 22).shape
    torch.Size([4194304])
    """
    memory = torch.empty(size, dtype=torch.uint8, device="cpu")
    start = -(-memory.data_ptr() // PAGE) * PAGE
    length = (memory.data_ptr() + size - start) // PAGE * PAGE
    if length > 0:
        with contextlib.suppress(OSError, AttributeError):  # not every system takes this advice
            ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), ADVICE)
    return memory
