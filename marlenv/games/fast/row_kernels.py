"""What numba compiles for games row by row: draws from the stream of a row, copies of rows, masks and flags.

The numbers are those of :class:`marlenv.RowRNG`, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from marlenv.games.fast.cached import compiled
from marlenv.games.fast.kernels import CACHE, FACTOR_1, FACTOR_2, STEP, Array, _unit, move
from marlenv.games.fast.plain_arrays import each_array
from marlenv.games.fast.whole_games import FLAGS, MASKS, OUTCOMES, REWARDS, SEEN, STATE, TURNS

FORK = np.uint64(0xA0761D6478BD642F)  # as RowRNG.fork(0) takes it
UNIT = 2.0**-53
MOST = (1 << 63) - 1


@compiled
def _mixed(z: Any) -> Any:
    """:func:`marlenv.rng.mix` of one word."""
    z = np.uint64(z)
    z = (z ^ (z >> np.uint64(30))) * FACTOR_1
    z = (z ^ (z >> np.uint64(27))) * FACTOR_2
    return np.int64(z ^ (z >> np.uint64(31)))


@compiled
def word(key: int, place: int) -> Any:
    """The 64 bits at a place of the stream of a key, places counted from 1."""
    return _mixed(np.uint64(key) + np.uint64(place) * STEP)


@compiled
def whole(key: int, place: int, low: int, high: int) -> Any:
    """:meth:`marlenv.RowRNG.randint` from the bits at a place."""
    bits = np.int64(np.uint64(word(key, place)) >> np.uint64(32))
    return low + ((bits * (high - low)) >> 32)


@compiled
def weighted(key: int, place: int, weights: Array, total: int) -> int:
    """:meth:`marlenv.RowRNG.choice` among whole numbers ``[n]`` of that total, which is not 0."""
    point = np.float64(np.uint64(word(key, place)) >> np.uint64(11)) * UNIT * np.float64(total)
    edge = 0
    for i in range(weights.size):
        edge += weights[i]
        if np.float64(edge) > point:
            return i
    return weights.size - 1


@compiled
def renewed(rng: Array) -> None:
    """The stream ``[2]`` of the game that follows, in place: :meth:`marlenv.RowRNG.fork` of 0."""
    rng[0], rng[1] = _mixed(np.uint64(rng[0]) ^ FORK), 0


@compiled
def permuted(rng: Array, n: int, out: Array) -> None:
    """The first numbers of :meth:`marlenv.RowRNG.permutation` of ``n``, into ``out``; the stream ``[2]`` moves on."""
    words = np.empty(n, np.int64)
    for i in range(n):
        words[i] = word(rng[0], rng[1] + i + 1)
    rng[1] += n
    for i in range(out.size):
        lowest = 0
        for j in range(1, n):
            if words[j] < words[lowest]:
                lowest = j
        out[i], words[lowest] = lowest, MOST


@compiled
def ranked(legal: Array, key: int, place: int) -> int:
    """The legal action, of bool ``[n]``, by the number at a place of the stream; ``n - 1`` where nothing is."""
    count = 0
    for i in range(legal.size):
        count += legal[i]
    rank = np.int64(_unit(key, place) * np.float32(count))
    for i in range(legal.size):
        rank -= legal[i]
        if rank < 0 and legal[i]:
            return i
    return legal.size - 1


BYTES = ir.IntType(8).as_pointer()
MOVE = types.void(types.int64, types.int64, types.int64, types.boolean)


def _row(builder: Any, array: Any, b: Any) -> Any:
    """Where row ``b`` of an array ``[B, n]``, or ``[B]``, begins."""
    width = builder.extract_value(array.shape, 1) if array.shape.type.count > 1 else ir.Constant(ir.IntType(64), 1)
    return builder.gep(array.data, [builder.mul(b, width)])


def _copying(context: Any, source: Any, b: Any, to: Any) -> Any:
    """Copies row ``b`` of all that is written, but flags and rewards, to where the same is written.

    What players see goes past the caches, where it is large.
    """
    seen = range(len(source[STATE]), len(source[STATE]) + len(source[SEEN]))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        ends = ((source, args[0]), (to, args[2]))
        wholes = [list(each_array(context, builder, kind, value))[:-2] for kind, value in ends]
        for k, ((_, one), (_, other)) in enumerate(zip(*wholes, strict=True)):
            here, there = (builder.bitcast(_row(builder, x, args[1]), BYTES) for x in (one, other))
            size = builder.extract_value(one.strides, 0)
            if k in seen:
                rows, word = builder.extract_value(one.shape, 0), size.type
                large = builder.icmp_signed(">", builder.mul(rows, size), word(CACHE))
                given = (builder.ptrtoint(there, word), builder.ptrtoint(here, word), size, large)
                context.compile_internal(builder, move.py_func, MOVE, given)
            else:
                cgutils.raw_memcpy(builder, there, here, size, 1)
        return context.get_dummy_value()

    return types.void(source, types.int64, to), code


def _storing(context: Any, out: Any, b: Any, row: Any) -> Any:
    """Writes a row of int64 into row ``b`` of the arrays of a position, one after another."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        numbers = context.make_array(row)(context, builder, args[2]).data
        for kind, array in each_array(context, builder, out[STATE], builder.extract_value(args[0], STATE)):
            count, first = builder.extract_value(array.shape, 1), _row(builder, array, args[1])
            with cgutils.for_range(builder, count) as loop:
                number, place = (builder.gep(at, [loop.index]) for at in (numbers, first))
                value = context.cast(builder, builder.load(number), types.int64, kind.dtype)
                context.pack_value(builder, kind.dtype, value, place)
            numbers = builder.gep(numbers, [count])
        return context.get_dummy_value()

    return types.void(out, types.int64, row), code


def _loading(context: Any, state: Any, b: Any, row: Any) -> Any:
    """Reads row ``b`` of the arrays of a position, one after another, into a row of int64."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        numbers = context.make_array(row)(context, builder, args[2]).data
        for kind, array in each_array(context, builder, state, args[0]):
            count, first = builder.extract_value(array.shape, 1), _row(builder, array, args[1])
            with cgutils.for_range(builder, count) as loop:
                number, place = (builder.gep(at, [loop.index]) for at in (numbers, first))
                value = context.unpack_value(builder, kind.dtype, place)
                builder.store(context.cast(builder, value, kind.dtype, types.int64), number)
            numbers = builder.gep(numbers, [count])
        return context.get_dummy_value()

    return types.void(state, types.int64, row), code


def _seated(part: int) -> Any:
    """Row ``b`` of what belongs to a seat, of a part of what is written; a pointer.

    Arrays would be counted as held each time; bools are bytes.
    """

    def typed(context: Any, out: Any, seat: Any, b: Any) -> Any:
        own = out[part]
        dtype = types.uint8 if own.dtype.dtype == types.boolean else own.dtype.dtype

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            each = [array for _, array in each_array(context, builder, own, builder.extract_value(args[0], part))]
            found = _row(builder, each[0], args[2])
            for i, array in enumerate(each[1:], 1):
                here = builder.icmp_signed("==", args[1], ir.Constant(ir.IntType(64), i))
                found = builder.select(here, _row(builder, array, args[2]), found)
            return found

        return types.CPointer(dtype)(out, types.int64, types.int64), code

    return intrinsic(typed)


def _alone(part: int) -> Any:
    """Row ``b`` of an array that is a part of what is written; a pointer."""

    def typed(context: Any, arrays: Any, b: Any) -> Any:
        own = arrays[part]
        dtype = types.uint8 if own.dtype == types.boolean else own.dtype

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array = context.make_array(own)(context, builder, builder.extract_value(args[0], part))
            return _row(builder, array, args[1])

        return types.CPointer(dtype)(arrays, types.int64), code

    return intrinsic(typed)


copy_row: Any = intrinsic(_copying)
store_row: Any = intrinsic(_storing)
load_row: Any = intrinsic(_loading)
seen_row, mask_row, action_row = _seated(SEEN), _seated(MASKS), _seated(0)
turn_row, outcome_row, flag_row, reward_row = (_alone(part) for part in (TURNS, OUTCOMES, FLAGS, REWARDS))


@compiled
def chosen(actions: tuple[Array, ...], seat: int, b: int) -> int:
    """The action of a seat in row ``b``, given those of all."""
    return action_row((actions,), seat, b)[0]


@compiled
def finish_row(out: tuple[Any, ...], b: int, mover: int, why: int) -> None:
    """Writes whose turn it is in row ``b``, the outcome, and whether the game is over."""
    turn_row(out, b)[0], outcome_row(out, b)[0], flag_row(out, 2)[b] = mover, why, why != 0


@compiled
def clear(out: Any, start: int, stop: int) -> None:
    """Writes zeros."""
    for i in range(start, stop):
        out[i] = 0


@compiled
def ones(out: Any, at: int, count: int, most: int) -> int:
    """Writes a number as so many ones, into zeros; returns the place behind the ``most``."""
    for i in range(min(count, most)):
        out[at + i] = 1
    return at + most


@compiled
def mark(out: Any, at: int, index: int, n: int) -> int:
    """Writes a one at the index, if it is in range, into zeros; returns the place behind all ``n``."""
    if 0 <= index < n:
        out[at + index] = 1
    return at + n


@compiled
def go_on(following: tuple[Any, ...], b: int, restarted: tuple[Any, ...]) -> None:
    """Writes what follows in row ``b``, where a game goes on, to what is restarted, too."""
    copy_row(following, b, restarted)
    flag_row(restarted, 2)[b] = False


@compiled
def finish_rows(
    following: tuple[Any, ...],
    restarted: tuple[Any, ...],
    players: int,
    at_once: bool,
    ahead: bool,
    always: bool,
    some_over: bool,
    start: int,
    stop: int,
) -> int:
    """Writes all flags, after the last row; returns 1 if a game is over, else 2.

    Args:
        following: what follows.
        restarted: the same where games have begun anew.
        players: how many there are.
        at_once: whether all act at once.
        ahead: whether games begin anew.
        always: whether that is written even where none is over.
        some_over: whether one is over.
        start: the first row.
        stop: behind the last.
    """
    write_flags(following, players, at_once, start, stop)
    if ahead and (some_over or always):
        write_flags(restarted, players, at_once, start, stop)
    return 1 if some_over else 2


@compiled
def write_flags(out: tuple[Any, ...], players: int, at_once: bool, start: int, stop: int) -> None:
    """Writes all flags of :class:`marlenv.games.fast.step_buffers.StepBuffers`, given whose turn it is and who is done.

    Args:
        out: to write to; ``flags[2]`` is given.
        players: how many there are.
        at_once: whether all act at once.
        start: the first row.
        stop: behind the last.
    """
    flags, turn = out[FLAGS], out[TURNS]
    for b in range(start, stop):
        over = flags[2, b]
        flags[0, b], flags[1, b], flags[3, b] = over, False, not over
    for seat in range(players):
        for b in range(start, stop):
            flags[4 + seat, b] = flags[3, b] and (at_once or turn[b, 0] == seat)
        for k in range(4):
            for b in range(start, stop):
                flags[4 + players + 4 * seat + k, b] = flags[k, b]


@compiled
def write_masks(out: tuple[Any, ...], players: int, b: int, legal: Array, mover: int) -> None:
    """Writes what each player may do in row ``b``: all that is legal, bool ``[n]``, or all where it does not move."""
    for seat in range(players):
        mask = mask_row(out, seat, b)
        if seat == mover:
            for i in range(legal.size):
                mask[i] = legal[i]
        else:
            for i in range(legal.size):
                mask[i] = 1
