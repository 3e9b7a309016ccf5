"""Machine code for CPUs: a library that the C++ compiler made, on as many threads as PyTorch may use."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import DeviceError
from marlenv.physics.jit import cache
from marlenv.physics.jit.kernel import LANES, TILE, Act, MachineKernel, Room, Source, Steps, Turn
from marlenv.physics.laws.state import State
from marlenv.threads import shared

CACHE = 4 << 20  # bytes; more than this is written past the caches
COPIED = 2  # bytes that are turned in a nanosecond, about
SPEED = 100  # expressions of rows in a nanosecond, about
PLAIN = frozenset(
    getattr(torch, name)
    for name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
)
"""Dtypes whose numbers are what their memory says."""


IDLE, ACTS, LOOKS = range(3)
"""Whether somebody else acts, and whether machine code looks for actions that are no finite numbers."""


class CpuKernel(MachineKernel):
    """Machine code of a simulation for the CPU.

    Args:
        source: of the code.
        patience: seconds to wait for the compiler; left out, until it is done.

    Raises:
        Unsupported: there is no library of it, and none can be had.

    """

    by_rows = True

    def __init__(self, source: Source, patience: float | None = None) -> None:
        super().__init__(source)
        self._library, path, self.compiled = cache.load(source.text, patience)
        self.name = path.name
        self._run, self._begin = self._library.run, self._library.begin
        self._turn = self._library.turn
        self._run.restype = ctypes.c_int64
        self._begin.restype = self._turn.restype = None
        self._run.argtypes = [ctypes.c_int64] * 10 + [ctypes.c_void_p] * 2 + [ctypes.c_int64, ctypes.c_void_p]
        self._begin.argtypes = [ctypes.c_int64] * 2 + [ctypes.c_void_p] * 2 + [ctypes.c_int64, ctypes.c_void_p]
        self._turn.argtypes = [ctypes.c_int64] * 6 + [ctypes.c_void_p] * 4 + [ctypes.c_int64, ctypes.c_void_p]
        self._bytes = sum(f.numbers * f.dtype.itemsize for f in (*self.outs, *self.observations))
        self._first_bytes = sum(f.numbers * f.dtype.itemsize for f in (*self.state, *self.observations))

    def _places(self, tensors: Sequence[Tensor | None]) -> Any:
        at = (None if x is None else x.data_ptr() if x.is_cpu else _elsewhere(x) for x in tensors)
        return (ctypes.c_void_p * len(tensors))(*at)

    def _play(self, rows: int, places: Any, ended: Tensor, steps: Steps) -> None:
        streams, threads = self._ways(rows, steps.stop - steps.start)
        self._run(rows, *steps[:5], TILE, steps.restart, streams, IDLE, places, ended.data_ptr(), *threads)

    def step(self, rows: int, places: Any, ended: Tensor, most: int | None = None, *, looks: bool = False) -> bool:
        """As :meth:`MachineKernel.step`, on as many threads as PyTorch may use."""
        streams, threads = self._ways(rows, 1)
        how = (most or 0, 0, TILE, False, streams, LOOKS if looks else ACTS, places)
        return not self._run(rows, 0, 1, 0, *how, ended.data_ptr(), *threads)

    def acting(self, state: State, room: Room, *, last: int, most: int | None, restart: bool) -> Act:
        """As :meth:`MachineKernel.acting`, on as many threads as PyTorch may use now; looks at the actions."""
        rows, first = len(state["over"]), len(self.state)
        places = self.bind(state, [None] * len(self.actions), *room[:3], shown=room.shown)
        _, threads = self._ways(rows, 1)
        how, to = (last, most or 0, 0, TILE, restart, False, LOOKS, places), room.ended.data_ptr()

        def played(step: int, actions: Sequence[Tensor]) -> bool:
            read = [field.read(x, by_rows=True) for field, x in zip(self.actions, actions, strict=True)]
            for i, x in enumerate(read, first):
                places[i] = x.data_ptr() if x.is_cpu else _elsewhere(x)
            return not self._run(rows, step, step + 1, *how, to, *threads)

        return played

    def _ways(self, rows: int, steps: int) -> tuple[bool, tuple[int, int]]:
        """Whether results are written past the caches, and the threads for so much."""
        streams = rows % LANES == 0 and rows * steps * self._bytes > CACHE
        return streams, shared(rows * steps * self.size / SPEED)

    def turning(self, x: Tensor | None, out: Tensor, before: Tensor | None = None) -> Turn:
        """As :meth:`MachineKernel.turning`."""
        rows, all_steps, apart = out.shape[-1], len(out), out.stride(-1) * out.element_size()
        size, to, streams = out[0].nbytes // rows, out.data_ptr(), rows * apart > CACHE
        staged, first = _steps(x), 0 if before is None else before.data_ptr()

        def turned(start: int, stop: int, shown: Tensor | None, ended: Sequence[int]) -> None:
            count = min(stop, all_steps) - start
            moved = min(count, all_steps - 1 - start) if before is not None else 0  # nothing follows on the last of all
            seen, at = _steps(shown), start * size
            one = x is None  # what followed is what was shown, too, where no row began anew
            steps = [seen[t] if one or (t < moved and not ended[t]) else staged[t] for t in range(count)]
            places = (ctypes.c_void_p * count)(*steps), (ctypes.c_void_p * moved)(*seen[:moved])
            how = (rows, size, apart, count, moved, streams, *places, to + at, first + at + size)
            self._turn(*how, *shared(count * rows * size / COPIED))

        return turned

    def stacked(self, parts: Sequence[Tensor]) -> Tensor:
        """As :meth:`MachineKernel.stacked`; PyTorch stacks what is no plain memory, or has a gradient."""
        first, grows = parts[0], torch.is_grad_enabled() and any(x.requires_grad for x in parts)
        if grows or first.dtype not in PLAIN or not first.numel():
            return super().stacked(parts)
        if not all(_is_memory(x) for x in parts):  # PyTorch is quicker at step after step than at steps side by side
            laid = torch.stack(list(parts))
            if not _is_memory(laid):
                return super().stacked(parts)
            parts = laid.unbind()
        rows, size, steps = len(first), first.nbytes // len(first), len(parts)
        out = first.new_empty((rows, steps, *first.shape[1:]))
        how = (rows, size, steps * size, steps, 0, out.nbytes > CACHE)
        self._turn(*how, self._places(parts), None, out.data_ptr(), None, *shared(out.nbytes / COPIED))
        return out

    def begin(self, state: State, where: Tensor | None, observations: Sequence[Tensor]) -> None:
        """As :meth:`MachineKernel.begin`."""
        pointers = self._places((*self._of(state), *observations))
        rows = state["rng"].shape[-1]
        some, asked = (rows, None) if where is None else (int(where.count_nonzero()), where.data_ptr())
        many, pool = shared(some * self.fresh_size / SPEED)
        self._begin(rows, rows * self._first_bytes > CACHE, asked, pointers, many, pool)


def _elsewhere(x: Tensor) -> int:
    """Raises: the address of a tensor that is not on the CPU is none that machine code may write to."""
    raise DeviceError(f"machine code of an env on the CPU: expected tensors on the CPU, got one on {x.device}")


def _steps(x: Tensor | None) -> Sequence[int]:
    """Where the steps of an entry, ``[T, ..., B]``, begin in memory."""
    if x is None:
        return ()
    first, apart = x.data_ptr(), x.stride(0) * x.element_size()
    return range(first, first + apart * len(x), apart)


def _is_memory(x: Tensor) -> bool:
    """Whether the numbers of a tensor lie in memory as they are, one behind the other."""
    return x.is_cpu and x.layout is torch.strided and x.is_contiguous() and not x.is_neg() and not x._is_zerotensor()


__all__ = ["CpuKernel"]
