"""Machine code on many threads: those of the OpenMP library that PyTorch computes with, as many as it may use.

There is no pool of our own. A row is computed by the same instructions whichever thread has it, so that results are
equal bit for bit whatever ``torch.get_num_threads()`` is; it only decides how long they take.

A process that was forked from one that had this open stays on one thread: OpenMP's threads are not there any more, and
GNU's library waits for them for ever.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch

NAMES = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
WORTH = 10_000  # nanoseconds of work that a thread must have to itself
ONE = (1, 0)
"""One thread, which needs no pool."""

_forks: list[int] = []
"""The process ids of the processes that this one was forked from, one after another, since this was imported."""

if hasattr(os, "register_at_fork"):  # where there is no fork there is none of this
    os.register_at_fork(after_in_child=lambda: _forks.append(os.getppid()))


@contextmanager
def unshared() -> Iterator[None]:
    """Within it PyTorch computes on one thread where this process was forked; it would wait for ever for others."""
    if not _forks:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def renew() -> None:
    """Lets PyTorch have its threads anew, where this process was forked, before threads of ours compute with it.

    Each thread that computes first looks whether they are there, and two that find out at once that they are not end
    in PyTorch's "Invalid thread pool!".
    """
    if _forks:
        torch.set_num_threads(torch.get_num_threads())


@lru_cache(maxsize=1)
def pool() -> Any:
    """The addresses of OpenMP's functions; None where PyTorch has brought no such library."""
    loaded = ctypes.CDLL(None)
    if not all(hasattr(loaded, name) for name in NAMES):
        return None
    return (ctypes.c_void_p * len(NAMES))(*(ctypes.cast(getattr(loaded, name), ctypes.c_void_p) for name in NAMES))


def shared(work: float) -> tuple[int, int]:
    """How many threads share some work, and the address of their :func:`pool`; 0 where one does it alone.

    Args:
        work: how many nanoseconds it takes one thread, about.
    """
    most = min(int(work // WORTH), torch.get_num_threads())
    if most < 2 or _forks or pool() is None:
        return ONE
    return most, ctypes.addressof(pool())


__all__ = ["ONE", "renew", "shared", "unshared"]
