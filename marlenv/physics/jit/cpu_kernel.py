"""Machine code for CPUs: a library that the C++ compiler made, on as many threads as PyTorch may use."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from marlenv.errors import DeviceError
from marlenv.physics.jit import cache
from marlenv.physics.jit.kernel import TILE, Act, MachineKernel, Room, Steps, Turn, Turned
from marlenv.physics.jit.source import LANES, Source
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


ON_CPU, LAYOUT = attrgetter("is_cpu"), attrgetter("layout")
IDLE, ACTS, LOOKS = range(3)
"""Whether somebody else acts, and whether machine code looks for actions that are no finite numbers."""


class _Call(ctypes.Structure):
    """What ``run`` is asked for, as ``runtime/driver.cpp`` has it."""

    NUMBERS = ("rows", "start", "stop", "last", "most", "drawn", "tile", "restart", "streams", "acting")
    _fields_ = [*((name, ctypes.c_int64) for name in NUMBERS), ("places", ctypes.c_void_p), ("ended", ctypes.c_void_p)]


class _Turn(ctypes.Structure):
    """An entry that ``turn`` copies, as ``runtime/driver.cpp`` has it."""

    NUMBERS = ("size", "pieces", "gap", "pitch", "apart", "steps", "moved")
    PLACES = ("at", "seen", "to", "before")
    _fields_ = [*((name, ctypes.c_int64) for name in NUMBERS), *((name, ctypes.c_void_p) for name in PLACES)]


class Form(NamedTuple):
    """How the rows of a step lie in memory, in bytes."""

    size: int
    """Of a piece of a row; a row has one, or several of a size."""
    pieces: int
    gap: int
    """From one piece to the next."""
    pitch: int
    """From one row to the next."""


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
        self._run.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
        self._begin.argtypes = [ctypes.c_int64] * 2 + [ctypes.c_void_p] * 2 + [ctypes.c_int64, ctypes.c_void_p]
        self._turn.argtypes = [ctypes.c_void_p] + [ctypes.c_int64] * 4 + [ctypes.c_void_p]
        self._bytes = sum(f.numbers * f.dtype.itemsize for f in (*self.outs, *self.observations))
        self._first_bytes = sum(f.numbers * f.dtype.itemsize for f in (*self.state, *self.observations))

    def _places(self, tensors: Sequence[Tensor | None]) -> Any:
        at = (None if x is None else x.data_ptr() if x.is_cpu else _elsewhere(x) for x in tensors)
        return (ctypes.c_void_p * len(tensors))(*at)

    def _play(self, rows: int, places: Any, ended: Tensor, steps: Steps) -> None:
        streams, threads = self._ways(rows, steps.stop - steps.start)
        call = _call(rows, *steps[:5], TILE, steps.restart, streams, IDLE, places, ended)
        self._run(ctypes.byref(call), *threads)

    def step(self, rows: int, places: Any, ended: Tensor, most: int | None = None, *, looks: bool = False) -> bool:
        """As :meth:`MachineKernel.step`, on as many threads as PyTorch may use."""
        streams, threads = self._ways(rows, 1)
        call = _call(rows, 0, 1, 0, most or 0, 0, TILE, False, streams, LOOKS if looks else ACTS, places, ended)
        return not self._run(ctypes.byref(call), *threads)

    def acting(self, state: State, room: Room, *, last: int, most: int | None, restart: bool) -> Act:
        """As :meth:`MachineKernel.acting`, on as many threads as PyTorch may use now; looks at the actions."""
        rows, first = len(state["over"]), len(self.state)
        places = self.bind(state, [None] * len(self.actions), *room[:3], shown=room.shown)
        _, threads = self._ways(rows, 1)
        call = _call(rows, 0, 1, last, most or 0, 0, TILE, restart, False, LOOKS, places, room.ended)
        at = ctypes.addressof(call)

        def played(step: int, actions: Sequence[Tensor]) -> bool:
            read = [field.read(x, by_rows=True) for field, x in zip(self.actions, actions, strict=True)]
            for i, x in enumerate(read, first):
                places[i] = x.data_ptr() if x.is_cpu else _elsewhere(x)
            call.start, call.stop = step, step + 1
            return not self._run(at, *threads)

        return played

    def _ways(self, rows: int, steps: int) -> tuple[bool, tuple[int, int]]:
        """Whether results are written past the caches, and the threads for so much."""
        streams = rows % LANES == 0 and rows * steps * self._bytes > CACHE
        return streams, shared(rows * steps * self.size / SPEED)

    def turning(self, entries: Sequence[Turned]) -> Turn:
        """As :meth:`MachineKernel.turning`."""
        rows, table = entries[0].out.shape[-1], (_Turn * len(entries))()
        for one, (_, out, _) in zip(table, entries, strict=True):
            one.size = one.pitch = out[0].nbytes // rows
            one.pieces, one.apart = 1, out.stride(-1) * out.element_size()
        streams = sum(out.nbytes * (1 + (before is not None)) for _, out, before in entries) > CACHE
        staged = [_steps(x) for x, _, _ in entries]

        def turned(start: int, stop: int, shown: Sequence[Tensor | None], ended: Sequence[int]) -> None:
            held, size = [], 0
            for one, (x, out, before), steps, y in zip(table, entries, staged, shown, strict=True):
                seen, count = _steps(y), min(stop, len(out)) - start
                after = min(count, len(out) - 1 - start)  # nothing follows on the last of all
                moved = 0 if before is None else after
                if x is None:  # what followed is what was shown, too, where no row began anew
                    steps = seen[:count]
                elif moved:
                    steps = [seen[t] if t < moved and not ended[t] else steps[t] for t in range(count)]
                held += [(ctypes.c_void_p * count)(*steps[:count]), (ctypes.c_void_p * moved)(*seen[:moved])]
                one.steps, one.moved, one.at, one.seen = count, moved, *map(ctypes.addressof, held[-2:])
                one.to = out.data_ptr() + start * one.size
                one.before = None if before is None else before.data_ptr() + (start + 1) * one.size
                size += count * rows * one.size
            self._turn(table, len(table), rows, streams, *shared(size / COPIED))

        return turned

    def stacked(self, entries: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        """As :meth:`MachineKernel.stacked`; PyTorch stacks what is no plain memory, or has a gradient."""
        found = [self._stack(parts) for parts in entries]
        turns = [(out, parts, form) for out, parts, form in found if form is not None]
        if turns:
            rows, size, held = len(turns[0][0]), sum(out.nbytes for out, _, _ in turns), []
            table = (_Turn * len(turns))()
            for one, (out, parts, form) in zip(table, turns, strict=True):
                held.append((ctypes.c_void_p * len(parts))(*map(Tensor.data_ptr, parts)))
                one.size, one.pieces, one.gap, one.pitch = form
                one.apart, one.steps = out.nbytes // rows, len(parts)
                one.at, one.to = ctypes.addressof(held[-1]), out.data_ptr()
            self._turn(table, len(table), rows, size > CACHE, *shared(size / COPIED))
        return [out for out, _, _ in found]

    def _stack(self, parts: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor], Form | None]:
        """Room for a stack, what is to be copied there, and how it lies; the stack where nothing is."""
        first, grows = parts[0], torch.is_grad_enabled() and any(x.requires_grad for x in parts)
        if grows or first.dtype not in PLAIN or not first.numel():
            return torch.stack(list(parts), 1), parts, None
        form = _form(parts)
        if form is None:  # PyTorch is quicker at step after step than at steps side by side
            parts = torch.stack(list(parts)).unbind()
            form = _form(parts)
            if form is None:
                return torch.stack(list(parts), 1), parts, None
        return first.new_empty((len(first), len(parts), *first.shape[1:])), parts, form

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


def _call(*asked: Any) -> _Call:
    """What ``run`` is asked for: numbers, places and where ends are noted."""
    *numbers, places, ended = asked
    return _Call(*numbers, ctypes.addressof(places), ended.data_ptr())


def _steps(x: Tensor | None) -> Sequence[int]:
    """Where the steps of an entry, ``[T, ..., B]``, begin in memory."""
    if x is None:
        return ()
    first, apart = x.data_ptr(), x.stride(0) * x.element_size()
    return range(first, first + apart * len(x), apart)


def _form(parts: Sequence[Tensor]) -> Form | None:
    """How rows lie in each of some tensors ``[B, ...]``; None where they are no plain memory, or not alike."""
    if not all(map(ON_CPU, parts)) or {*map(LAYOUT, parts)} != {torch.strided}:
        return None
    if any(map(Tensor.is_neg, parts)) or any(map(Tensor._is_zerotensor, parts)):
        return None
    first, (pitch, *strides), *others = parts[0], *{*map(Tensor.stride, parts)}
    if others:
        return None
    size, pieces, gap = 1, 1, 0
    for count, apart in zip(reversed(first.shape[1:]), reversed(strides), strict=True):
        if count == 1:
            continue
        if pieces == 1 and apart == size:
            size *= count
        elif pieces == 1 or apart == pieces * gap:
            pieces, gap = pieces * count, gap if pieces > 1 else apart
        else:
            return None
    item = first.element_size()
    return Form(size * item, pieces, gap * item, pitch * item)


__all__ = ["CpuKernel"]
