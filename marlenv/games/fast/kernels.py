"""What the kernels of small games share: one pass over the rows, the same bits as the torch operations.

``compiled.py`` imports this on use, as it needs numba. ``B`` rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from marlenv.games.fast.cached import compiled, inline
from marlenv.games.fast.plain_arrays import LINE
from marlenv.rng import UNSIGNED_1, UNSIGNED_2, UNSIGNED_GOLDEN

Array = NDArray[Any]

BLOCK = 64
"""Rows whose steps of a rollout are played before those of the next: what a step writes is at hand for the next."""
CACHE = 1 << 22
"""Bytes; more are written past the caches: reading what is written over would take longer than writing it."""
STEP, FACTOR_1, FACTOR_2 = np.uint64(UNSIGNED_GOLDEN), np.uint64(UNSIGNED_1), np.uint64(UNSIGNED_2)  # of SplitMix64


@compiled
def _unit(key: int, place: int) -> np.float32:
    """The number in [0, 1), as :class:`marlenv.RowRNG` makes it, at a place of the stream of a key."""
    z = np.uint64(key) + np.uint64(place) * STEP
    z = (z ^ (z >> np.uint64(30))) * FACTOR_1
    z = (z ^ (z >> np.uint64(27))) * FACTOR_2
    z = z ^ (z >> np.uint64(31))
    return np.float32(z >> np.uint64(40)) * np.float32(2.0**-24)


@compiled
def unit_numbers(key: Array, offset: Array, at: int, out: Array) -> None:
    """The numbers at place ``at + offset`` of the stream of each key ``[B]``."""
    for b in range(key.size):
        out[b] = _unit(key[b], at + offset[b])


def _pointer(kind: Any) -> Any:
    """An address as numbers of a kind."""

    def typed(context: Any, at: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(types.CPointer(kind)))

        return types.CPointer(kind)(types.int64), code

    return intrinsic(typed)


def _moved(context: Any, to: Any, source: Any, count: Any) -> Any:
    """Copies ``count`` bytes from an address to another."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to, source = (builder.inttoptr(at, ir.IntType(8).as_pointer()) for at in args[:2])
        cgutils.raw_memcpy(builder, to, source, args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), code


_copy: Any = intrinsic(_moved)


def _moving(count: int) -> Any:
    """The same for a count that is known when it is compiled."""

    def typed(context: Any, to: Any, source: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            to, source = (builder.inttoptr(at, ir.IntType(8).as_pointer()) for at in args)
            cgutils.raw_memcpy(builder, to, source, ir.Constant(ir.IntType(64), count), 1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), code

    return intrinsic(typed)


def _streamed(context: Any, to: Any, source: Any) -> Any:
    """Copies a line of the cache past the caches to an address that is a multiple of its size."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.IntType(64), 8).as_pointer()
        line = builder.load(builder.inttoptr(args[1], kind), align=1)
        written = builder.store(line, builder.inttoptr(args[0], kind), align=LINE)
        written.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code


_stream_line: Any = intrinsic(_streamed)


@compiled
def move(to: int, source: int, count: int, past: bool) -> None:
    """Copies bytes, past the caches where that can be."""
    if past and count >= 2 * LINE:
        start = -to & (LINE - 1)
        end = start + ((count - start) & -LINE)
        _copy(to, source, start)
        for at in range(start, end, LINE):
            _stream_line(to + at, source + at)
        _copy(to + end, source + end, count - end)
    else:
        _copy(to, source, count)


LANES = 16


def _lanes(context: Any, out: Any, at: Any, word: Any) -> Any:
    """Writes the lowest bits of a word as so many numbers of an array ``[n]`` from a place on, at once."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = context.get_data_type(out.dtype)
        bits = builder.bitcast(builder.trunc(args[2], ir.IntType(LANES)), ir.VectorType(ir.IntType(1), LANES))
        many = ir.VectorType(kind, LANES)
        numbers = builder.select(bits, *(ir.Constant(many, [ir.Constant(kind, value)] * LANES) for value in (1, 0)))
        first = builder.gep(context.make_array(out)(context, builder, args[0]).data, [args[1]])
        builder.store(numbers, builder.bitcast(first, many.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(out, types.int64, types.int64), code


_put_lanes: Any = intrinsic(_lanes)


@inline
def _result(least: int) -> int:
    """What a step returns, see :mod:`marlenv.games.fast.compiled`, of the least that blocks of rows say.

    They say 0 if an action is illegal, 1 if a game is over, else 2.
    """
    return 0 if least == 0 else 3 - least


@inline
def _write_some_flags(turn: Array, flags: Array, start: int, stop: int) -> None:
    """Writes all flags ``[14, B]`` of games of two: ``flags[2]`` holds who is done, ``[B, 1]`` whose turn it is.

    Those of the rows from ``start`` to ``stop``.
    """
    for b in range(start, stop):
        over = flags[2, b]
        flags[0, b], flags[1, b], flags[3, b] = over, False, not over
        flags[4, b], flags[5, b] = not over and turn[b, 0] == 0, not over and turn[b, 0] == 1
    for k in range(4):
        for b in range(start, stop):
            flags[6 + k, b] = flags[10 + k, b] = flags[k, b]
