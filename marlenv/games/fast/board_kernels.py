"""What the compiled steps of board games of two share: cells as bits, and blocks of rows. Importing it needs numba.

A board of ``n`` cells is a word of 64 bits for each 64 cells, lowest first. A game plays and writes a block of rows
at a time into memory at hand; :func:`hand_on` moves them to where they belong, past the caches where the data are
large, and twice where games begin anew. In a rollout the positions are at hand from step to step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from marlenv.games.fast.cached import compiled, inline
from marlenv.games.fast.kernels import (
    CACHE,
    LANES,
    Array,
    _copy,
    _put_lanes,
    _unit,
    _write_some_flags,
    move,
)
from marlenv.games.fast.plain_arrays import LINE, each_array
from marlenv.games.fast.whole_games import FLAGS, TURNS

MOST, FEWEST = 64, 8
"""Rows of a block."""
HAND = 1 << 18
"""Bytes of what both players see that are at hand, unless the fewest rows take more."""
WORD = 64
SHOWN = 4
"""The last entries of a row: observations and masks of both players; those before are its position."""
ONE, NONE, EVERY = np.uint64(1), np.uint64(0), np.uint64((1 << 64) - 1)

# --- words -------------------------------------------------------------------------------------------


def _called(name: str, *flags: int) -> Any:
    """A function of LLVM from a word to a number."""

    def typed(context: Any, word: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            more = [ir.Constant(ir.IntType(1), flag) for flag in flags]
            kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64), *(flag.type for flag in more)])
            return builder.call(
                cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.i64"), [args[0], *more]
            )

        return types.int64(types.uint64), code

    return intrinsic(typed)


bits: Any = _called("ctpop")
"""``bits(word)``: how many bits are set."""
lowest: Any = _called("cttz", 0)
"""``lowest(word)``: the number of the lowest bit that is set; 64 where none is."""


def _comparing(compare: Callable[[Any, Any, Any], Any]) -> Any:
    """A word of where 64 numbers of an array, from a place on, compare with a value."""

    def typed(context: Any, array: Any, at: Any, value: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            numbers, value = (
                _numbers(context, builder, array, args[0], args[1]),
                _splat(context, builder, array, args[2]),
            )
            return builder.bitcast(compare(builder, builder.load(numbers, align=1), value), ir.IntType(64))

        return types.uint64(array, types.int64, array.dtype), code

    return intrinsic(typed)


def _numbers(context: Any, builder: Any, kind: Any, array: Any, at: Any, count: int = WORD) -> Any:
    """The address of numbers of an array ``[n]`` from a place on."""
    vector = ir.VectorType(context.get_data_type(kind.dtype), count)
    first = builder.gep(context.make_array(kind)(context, builder, array).data, [at])
    return builder.bitcast(first, vector.as_pointer())


def _splat(context: Any, builder: Any, kind: Any, value: Any, count: int = WORD) -> Any:
    """A value so many times, as an array of this kind holds it."""
    value = context.get_value_as_data(builder, kind.dtype, value)
    empty, index = ir.Constant(ir.VectorType(value.type, count), ir.Undefined), ir.IntType(32)
    one = builder.insert_element(empty, value, ir.Constant(index, 0))
    return builder.shuffle_vector(one, empty, ir.Constant(ir.VectorType(index, count), [0] * count))


equal: Any = _comparing(lambda builder, a, b: builder.icmp_unsigned("==", a, b))
"""``equal(array, at, value)``: where the numbers ``at`` to ``at + 63`` of an array ``[n]`` are a value."""
above: Any = _comparing(lambda builder, a, b: builder.icmp_signed(">", a, b))
below: Any = _comparing(lambda builder, a, b: builder.icmp_signed("<", a, b))


def _replacing(context: Any, array: Any, at: Any, old: Any, new: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _numbers(context, builder, array, args[0], args[1])
        numbers = builder.load(place, align=1)
        old, new = (_splat(context, builder, array, value) for value in args[2:])
        builder.store(builder.select(builder.icmp_unsigned("==", numbers, old), new, numbers), place, align=1)
        return context.get_dummy_value()

    return types.void(array, types.int64, array.dtype, array.dtype), code


replace: Any = intrinsic(_replacing)
"""``replace(array, at, old, new)``: writes ``new`` where the numbers ``at`` to ``at + 63`` are ``old``."""


def _spreading(context: Any, out: Any, at: Any, value: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _numbers(context, builder, out, args[0], args[1], LANES)
        builder.store(_splat(context, builder, out, args[2], LANES), place, align=1)
        return context.get_dummy_value()

    return types.void(out, types.int64, out.dtype), code


_fill_lanes: Any = intrinsic(_spreading)


@inline
def fill(out: Array, at: int, value: Any, count: int) -> None:
    """Writes a value ``count`` times to memory at hand, and some times more, to be written later."""
    for i in range(0, count, LANES):
        _fill_lanes(out, at + i, value)


@inline
def put_word(out: Array, at: int, word: int, count: int) -> None:
    """Writes the lowest bits of a word, int64, as numbers of memory at hand, and some more, to be written later."""
    for i in range(0, count, LANES):
        _put_lanes(out, at + i, word >> i)


@inline
def put(out: Array, at: int, words: Array, k: int, count: int) -> None:
    """The same with the bits of row ``k`` of words, ``[rows, 1 + w + 1]``."""
    for w in range(0, count, WORD):
        put_word(out, at + w, np.int64(words[k, 1 + w // WORD]), min(WORD, count - w))


@compiled
def nth(words: Array, k: int, place: int) -> int:
    """The number of a bit of row ``k`` of words, ``[rows, 1 + w + 1]``, below which ``place`` bits are set.

    ``64 * w`` where no more are.
    """
    for w in range(1, words.shape[1] - 1):
        word = words[k, w]
        count = bits(word)
        if place < count:
            for _ in range(place):
                word &= word - ONE
            return WORD * (w - 1) + lowest(word)
        place -= count
    return WORD * (words.shape[1] - 2)


@inline
def words_of(count: int) -> int:
    """How many words so many cells take."""
    return (count + WORD - 1) // WORD


@inline
def draw_place(key: int, at: int, offsets: tuple[int, int], seat: int, count: int) -> Any:
    """Which of ``count`` actions, counted from 0, the number of a seat at a place of the stream of a key means."""
    return np.int64(np.float32(count) * _unit(key, at + offsets[seat]))


# --- rows --------------------------------------------------------------------------------------------


@compiled
def load(source: Array, row: int, to: Array) -> None:
    """Copies a row of an array ``[n, w]`` to the beginning of another ``[at least w]``."""
    size = source.shape[1] * source.itemsize
    _copy(to.ctypes.data, source.ctypes.data + row * size, size)


@compiled
def store(source: Array, hand: Array, row: int, width: int) -> None:
    """Copies the first numbers of an array to a row of memory at hand."""
    size = width * source.itemsize
    _copy(hand.ctypes.data + row * size, source.ctypes.data, size)


@compiled
def carry(source: Array, row: int, hand: Array, r: int) -> None:
    """Copies a row of an array ``[n, w]`` to a row of memory at hand, unless it is there."""
    size = source.shape[1] * source.itemsize
    to, at = hand.ctypes.data + r * size, source.ctypes.data + row * size
    if to != at:
        _copy(to, at, size)


@inline
def at_a_time(rows: int, seen: Array) -> tuple[bool, int]:
    """Whether so many rows are written past the caches: more than they hold; and how many rows are a block.

    Args:
        rows: of all that is written.
        seen: what one of the players sees of them, ``[n, w]``.
    """
    width, block = 2 * seen.shape[1] * seen.itemsize, MOST
    while block > FEWEST and block * width > HAND:
        block //= 2
    return rows * width > CACHE, block


@inline
def at_hand(array: Array, block: int) -> Array:
    """Memory for a block of rows of an array ``[n, w]``, and for a word that goes beyond."""
    return np.empty(block * array.shape[1] + WORD, array.dtype)


@inline
def hands(arrays: tuple[Array, Array], block: int) -> tuple[Array, Array]:
    """The same for both players."""
    return at_hand(arrays[0], block), at_hand(arrays[1], block)


def _entering(
    context: Any, entries: Any, following: Any, restarted: Any, opening: Any, hand: Any, held: Any, stays: Any
) -> Any:
    """Says where each entry of the data is: ``[n, w]`` twice, ``[1, w]``, and memory at hand; and how long a row is."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = context.make_array(entries)(context, builder, args[0]).data
        parts = [
            [array for _, array in each_array(context, builder, *one)]
            for one in zip((following, restarted, opening, hand, held), args[1:6], strict=True)
        ]
        word, positions = ir.IntType(64), len(parts[-1])
        for k, arrays in enumerate(zip(*parts[:4], strict=True)):
            places = [builder.ptrtoint(array.data, word) for array in arrays]
            if k < positions:
                kept = builder.ptrtoint(parts[-1][k].data, word)
                places[3] = builder.select(args[6], kept, places[3])
            for value in (*places, builder.extract_value(arrays[0].strides, 0)):
                builder.store(value, to)
                to = builder.gep(to, [word(1)])
        return context.get_dummy_value()

    return types.void(entries, following, restarted, opening, hand, held, stays), code


enter: Any = intrinsic(_entering)
"""``enter(entries, following, restarted, opening, hand, positions, stays)``: writes ``[entries, 5]``, where they and
their rows are. If ``stays`` is set, positions are not at hand but where they are, ``[n, w]``."""


def _fetched(context: Any, at: Any) -> Any:
    """Has the line of the cache at an address read ahead of its use."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(fetch, [builder.inttoptr(args[0], byte), word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(types.int64), code


_fetch_line: Any = intrinsic(_fetched)


@compiled
def fetch(array: Array, row: int, count: int) -> None:
    """Has the first numbers of a row of an array ``[n, w]`` read ahead of their use."""
    at = array.ctypes.data + row * array.shape[1] * array.itemsize
    for i in range(0, count * array.itemsize, LINE):
        _fetch_line(at + i)


@compiled
def hand_on(entries: Array, first: int, rows: int, over: Array, past: bool, ahead: bool, steps: int, seen: int) -> int:
    """Moves a block of rows to where it belongs, and to the data of games that begin anew, if any was over so far.

    Args:
        entries: of the data, as :func:`enter` wrote them.
        first: the first row of the block.
        rows: how many there are.
        over: which games are over, bool ``[n]``.
        past: whether they go past the caches.
        ahead: whether games begin anew.
        steps: how many are written side by side; where they are several, positions stay, see :data:`enter`.
        seen: what the block before returned; -1 for the first, or the first row to move all twice.

    Returns:
        The first row of the block in which a game was over; -1 for none so far.
    """
    ended = NONE
    for r in range(rows):
        ended |= np.uint64(over[first + r]) << np.uint64(r)
    if seen < 0 and ended != NONE:
        seen = first
    soon = entries.shape[0] - SHOWN if steps > 1 else 0
    for k in range(entries.shape[0]):
        size, source = entries[k, 4], entries[k, 3]
        if k < soon:
            source += first * size
        move(entries[k, 0] + first * size, source, rows * size, past)
        if ahead and seen >= 0:
            left = ended
            while left != NONE:
                _copy(source + lowest(left) * size, entries[k, 2], size)
                left &= left - ONE
            move(entries[k, 1] + first * size, source, rows * size, past)
    return seen


@compiled
def finish(
    entries: Array,
    following: tuple[Any, ...],
    restarted: tuple[Any, ...],
    ahead: bool,
    seen: int,
    start: int,
    stop: int,
) -> int:
    """Writes what is small, after the last block.

    Args:
        entries: of the data, as :func:`enter` wrote them.
        following: what follows; ``flags[2]`` holds who is over.
        restarted: the same where games have begun anew, to write turns, outcomes, flags and rewards to.
        ahead: whether games begin anew.
        seen: what the last block returned.
        start: the first row.
        stop: behind the last.

    Returns:
        1 if a game is over, or 2.
    """
    turn, flags = following[TURNS], following[FLAGS]
    _write_some_flags(turn, flags, start, stop)
    if ahead and seen >= 0:
        for k in range(entries.shape[0]):  # of the blocks before the first game that is over
            past = start * entries[k, 4]
            _copy(entries[k, 1] + past, entries[k, 0] + past, seen * entries[k, 4] - past)
        turns, outcomes, all_flags, rewards = restarted[TURNS:]
        for b in range(start, stop):
            turns[b, 0] = 0 if flags[2, b] else turn[b, 0]
            outcomes[b, 0] = 0
            all_flags[2, b] = False
            rewards[0, b], rewards[1, b] = 0, 0
        _write_some_flags(turns, all_flags, start, stop)
    for b in range(start, stop):
        if flags[2, b]:
            return 1
    return 2
