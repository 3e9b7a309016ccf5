"""What numba compiles of the small games: one pass over the rows, the same bits as the torch operations.

``compiled.py`` imports this on use, as it needs numba. A board is as in ``connect_four.py``; ``B`` rows, ``n`` columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from marlenv.rng import UNSIGNED_1, UNSIGNED_2, UNSIGNED_GOLDEN

Array = NDArray[Any]

STEP, FACTOR_1, FACTOR_2 = np.uint64(UNSIGNED_GOLDEN), np.uint64(UNSIGNED_1), np.uint64(UNSIGNED_2)  # of SplitMix64


def _compiled(function: Callable[..., Any]) -> Any:
    return numba.njit(cache=True, nogil=True)(function)


def _inline(function: Callable[..., Any]) -> Any:
    return numba.njit(inline="always")(function)


@_compiled
def _unit(key: int, place: int) -> np.float32:
    """The number in [0, 1), as :class:`marlenv.RowRNG` makes it, at a place of the stream of a key."""
    z = np.uint64(key) + np.uint64(place) * STEP
    z = (z ^ (z >> np.uint64(30))) * FACTOR_1
    z = (z ^ (z >> np.uint64(27))) * FACTOR_2
    z = z ^ (z >> np.uint64(31))
    return np.float32(z >> np.uint64(40)) * np.float32(2.0**-24)


@_compiled
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


_bytes, _int32s, _int64s = (_pointer(kind) for kind in (types.uint8, types.int32, types.int64))


@_compiled
def tic_tac_toe_read(from_shown: Array, shown: int, turn: int, code: Array) -> bool:
    """The positions of shown boards (-1, 0, 1) and turns; False where one is in no table.

    Args:
        from_shown: the position of a number whose digits are one more than the cells, plus 3**9 where o is to move.
        shown: the address of the boards, int32 ``[B, 9]``.
        turn: the address of the turns, int32 ``[B]``.
        code: to write to, ``[B]``.
    """
    cells, turns = _int32s(shown), _int32s(turn)
    fine: Any = True
    for b in range(code.size):  # a loop for each thing, so that compilers do many rows at once
        at = 9 * b
        low = cells[at] + 3 * cells[at + 1] + 9 * cells[at + 2]
        middle = 27 * cells[at + 3] + 81 * cells[at + 4] + 243 * cells[at + 5]
        high = 729 * cells[at + 6] + 2187 * cells[at + 7] + 6561 * cells[at + 8]
        number = low + middle + high + 19683 * turns[b] + 9841
        fine &= np.uint64(number) < np.uint64(from_shown.size)
        code[b] = number
    if fine:
        for b in range(code.size):
            code[b] = from_shown[code[b]]
    return fine


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


_copy_36, _copy_9, _copy_4, _copy_1 = (_moving(count) for count in (36, 9, 4, 1))


@_inline
def _write_row(source: int, b: int, shown: int, turn: int, free: int) -> None:
    """Writes board, turn and free cells of a position into row ``b``."""
    _copy_36(shown + 36 * b, source)
    _copy_4(turn + 4 * b, source + 36)
    _copy_9(free + 9 * b, source + 48)


@_compiled
def tic_tac_toe_step(
    tables: tuple[Array, Array, Array],
    shown: int,
    turn: int,
    action: int,
    count: int,
    rows: tuple[int, ...],
    ahead: bool,
    restarted: tuple[int, ...],
) -> int:
    """Plays a cell of tic-tac-toe on each board, and writes all data of what follows.

    Args:
        tables: as :func:`tic_tac_toe_read` takes them; where each cell leads from each position, -1 where it is not
            free; all data of each position, bytes ``[n, 64]``, see ``tictactoe/env.py``.
        shown: the address of the boards, int32 ``[B, 9]``.
        turn: the address of the turns, int32 ``[B]``.
        action: the address of the cells, int64 ``[B]``.
        count: how many boards there are.
        rows: where to write: the addresses of boards, turns, free cells, three flags, two rewards.
        ahead: whether to write the next, too.
        restarted: where to write the same with a new game in place of each that is over, if any is.

    Returns:
        0 if a cell is illegal or a board unknown, 2 if a game is over, else 1.
    """
    from_shown, after, data = tables
    place, cells = np.empty(count, np.int32), _int64s(action)
    fine = tic_tac_toe_read(from_shown, shown, turn, place)
    for b in range(count):
        fine &= np.uint64(cells[b]) < np.uint64(9)
    if not fine:
        return 0
    lowest = np.int64(0)
    for b in range(count):
        place[b] = after[9 * place[b] + cells[b]]
        lowest = min(lowest, np.int64(place[b]))
    if lowest < 0:
        return 0
    boards, turns, free, terminated, ends, truncated, first, second = rows
    at, over, done, cut = data.ctypes.data, False, _bytes(ends), _bytes(truncated)
    for b in range(count):
        source = at + 64 * np.int64(place[b])
        _write_row(source, b, boards, turns, free)
        _copy_4(first + 4 * b, source + 40)
        _copy_4(second + 4 * b, source + 44)
        _copy_1(ends + b, source + 57)
    for b in range(count):
        cut[b] = 0
        over |= done[b] != 0
    _copy(terminated, ends, count)
    if ahead and over:
        _write_restarted(at, count, rows, restarted)
    return 2 if over else 1


@_inline
def _write_restarted(start: int, count: int, rows: tuple[int, ...], restarted: tuple[int, ...]) -> None:
    """Writes what was written again, with the data at the address ``start`` where a game is over."""
    boards, turns, free, terminated, ends, truncated = restarted
    _copy(boards, rows[0], 36 * count)
    _copy(turns, rows[1], 4 * count)
    _copy(free, rows[2], 9 * count)
    done, flags = _bytes(rows[4]), (_bytes(terminated), _bytes(ends), _bytes(truncated))
    for b in range(count):
        flags[0][b] = flags[1][b] = flags[2][b] = 0
    for b in range(count):  # copying all and mending some is several times as fast as looking all of them up
        if done[b]:
            _write_row(start, b, boards, turns, free)


@_compiled
def tic_tac_toe_draw_shown(
    tables: tuple[Array, Array, Array], shown: int, turn: int, key: Array, at: int, out: int
) -> bool:
    """A free cell of tic-tac-toe for each board, by the number at place ``at`` of the stream of each key ``[B]``.

    Args:
        tables: as :func:`tic_tac_toe_read` takes them; how many cells are free in each position, and which.
        shown: the address of the boards, int32 ``[B, 9]``.
        turn: the address of the turns, int32 ``[B]``.
        key: of the streams.
        at: the place in them.
        out: the address to write to, int64 ``[B]``.

    Returns:
        False if a board is unknown.
    """
    from_shown, counts, ranked = tables
    code, cells = np.empty(key.size, np.int32), _int64s(out)
    if not tic_tac_toe_read(from_shown, shown, turn, code):
        return False
    for b in range(key.size):
        cells[b] = ranked[9 * code[b] + np.int64(counts[code[b]] * _unit(key[b], at))]
    return True


@_compiled
def tic_tac_toe_pick(counts: Array, ranked: Array, code: Array, unit: Array, out: Array) -> None:
    """A free cell of tic-tac-toe for each code, at the place ``unit`` ``[B]`` of the way."""
    for b in range(code.size):
        out[b] = ranked[9 * code[b] + np.int64(counts[code[b]] * unit[b])]


@_compiled
def tic_tac_toe_draw(
    counts: Array,
    ranked: Array,
    players: Array,
    code: Array,
    key: Array,
    at: int,
    offsets: tuple[int, int],
    out: Array,
) -> None:
    """The same with the numbers at place ``at``, and the offset of the player, of the stream of each key ``[B]``."""
    alike, first = offsets[0] == offsets[1], at + offsets[0]
    for b in range(code.size):
        unit = _unit(key[b], first if alike else at + offsets[players[code[b]]])
        out[b] = ranked[9 * code[b] + np.int64(counts[code[b]] * unit)]


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


@_inline
def _put(out: Array, at: int, word: int, count: int) -> None:
    """Writes bits of a word as numbers of an array ``[n]``, from ``at`` to ``at + count``.

    It may write some more, that are to be written later.
    """
    for i in range(0, count, LANES):
        if at + i + LANES <= out.size:
            _put_lanes(out, at + i, word >> i)
        else:
            for j in range(i, count):
                out[at + j] = (word >> j) & 1
            break


@_inline
def _write_flags(turn: Array, flags: Array) -> None:
    """Writes all flags ``[14, B]`` of games of two: ``flags[2]`` holds who is done, ``[B, 1]`` whose turn it is."""
    rows = flags.shape[1]
    for b in range(rows):
        over = flags[2, b]
        flags[0, b], flags[1, b], flags[3, b] = over, False, not over
        flags[4, b], flags[5, b] = not over and turn[b, 0] == 0, not over and turn[b, 0] == 1
    for k in range(4):
        for b in range(rows):
            flags[6 + k, b] = flags[10 + k, b] = flags[k, b]


@_compiled
def tic_tac_toe_play(
    tables: tuple[Array, ...],
    code: Array,
    x: Array,
    o: Array,
    done: Array,
    following: tuple[Array, ...],
    restarted: tuple[Array, ...],
    ahead: bool,
) -> int:
    """Plays a cell in each row that is not ``done``, and writes all that an env says about what follows.

    Args:
        tables: of all positions: where each cell leads ``[9 * n]``, whose turn it is, outcomes, returns ``[n, 2]``,
            and what each player sees and the legal cells, as bits of a word each, ``[n, 3]``.
        code: the positions, ``[B]``.
        x: the cells that the first player chose, ``[B]``.
        o: those of the second.
        done: whether the game was over already, bool ``[B]``.
        following: to write to, as :func:`connect_four_step` takes it.
        restarted: the same with a new game in place of each that is over.
        ahead: whether to write that.

    Returns:
        0 if a cell is illegal or a position unknown, 2 if a game is over, else 1.
    """
    after, players, outcomes, returns, _ = tables
    now, rewards, fresh, fresh_rewards = following[0], following[8], restarted[0], restarted[8]
    some_over = False
    for b in range(code.size):
        place = code[b]
        if np.uint64(place) >= np.uint64(players.size):
            return 0
        if not done[b]:
            cell = o[b] if players[place] else x[b]
            if np.uint64(cell) >= np.uint64(9):
                return 0
            place = np.int64(after[9 * place + cell])
            if place < 0:
                return 0
        now[b, 0] = place
        pays = np.float32(not done[b])
        rewards[0, b], rewards[1, b] = pays * returns[place, 0] + 0.0, pays * returns[place, 1] + 0.0
        over = outcomes[place] != 0
        some_over = some_over or over
        if ahead:
            fresh[b, 0] = 0 if over else place
            fresh_rewards[0, b], fresh_rewards[1, b] = 0, 0
    _tic_tac_toe_write(tables, following)
    if ahead and some_over:
        _tic_tac_toe_write(tables, restarted)
    return 2 if some_over else 1


@_compiled
def _tic_tac_toe_write(tables: tuple[Array, ...], out: tuple[Array, ...]) -> None:
    """Writes what follows from positions, all but the rewards; see :func:`tic_tac_toe_play`."""
    _, players, outcomes, _, words = tables
    code, seen_x, seen_o, mask_x, mask_o, turn, outcome, flags, _ = out
    sight_x, sight_o = seen_x.reshape(-1), seen_o.reshape(-1)
    moves_x, moves_o = mask_x.reshape(-1), mask_o.reshape(-1)
    for b in range(code.shape[0]):
        place = code[b, 0]
        seat, why = players[place], outcomes[place]
        free = -1 if why else words[place, 2]
        _put(sight_x, 27 * b, words[place, 0], 27)
        _put(sight_o, 27 * b, words[place, 1], 27)
        _put(moves_x, 9 * b, -1 if seat else free, 9)
        _put(moves_o, 9 * b, free if seat else -1, 9)
        turn[b, 0], outcome[b, 0], flags[2, b] = seat, why, why != 0
    _write_flags(turn, flags)


@_inline
def _column(ranked: Array, room: Array, board: Array, columns: int, unit: np.float32) -> int:
    """A column of one board with room at the place ``unit`` of the way; 0 where the game is over."""
    free = (~board[1] & ((1 << columns) - 1)) * (board[3] == 0)
    return ranked[8 * free + np.int64(room[free] * unit)]


@_compiled
def connect_four_pick(ranked: Array, room: Array, board: Array, unit: Array, columns: int, out: Array) -> None:
    """A column with room at the place ``unit`` ``[B]`` of the way; 0 where the game is over.

    Args:
        ranked: the set bits of each byte in order, ``[256 * 8]``.
        room: how many there are, ``[256]``.
        board: the positions, ``[B, 4]``.
        unit: the numbers.
        columns: of a board.
        out: to write to, ``[B]``.
    """
    for b in range(out.size):
        out[b] = _column(ranked, room, board[b], columns, unit[b])


@_compiled
def connect_four_draw(
    ranked: Array, room: Array, board: Array, key: Array, at: int, offsets: tuple[int, int], columns: int, out: Array
) -> None:
    """The same with the numbers at place ``at``, and the offset of the player, of the stream of each key ``[B]``."""
    for b in range(out.size):
        out[b] = _column(ranked, room, board[b], columns, _unit(key[b], at + offsets[board[b, 2] & 1]))


@_compiled
def connect_four_step(
    board: Array,
    x: Array,
    o: Array,
    done: Array,
    shape: tuple[int, int, int],
    ahead: bool,
    following: tuple[Array, ...],
    restarted: tuple[Array, ...],
) -> int:
    """Plays a move in each row that is not ``done``, and writes all that an env says about what follows.

    Args:
        board: the positions, ``[B, 4]``.
        x: the columns that the first player chose, ``[B]``.
        o: those of the second.
        done: whether the game was over already, bool ``[B]``.
        shape: rows, columns, line.
        ahead: whether to write the next also.
        following: to write to: the positions; the planes of each player, ``[B, 3 * rows * columns]``; the legal
            actions of each, bool ``[B, n]``; whose turn it is ``[B, 1]``; the outcome ``[B, 1]``; flags ``[14, B]`` and
            rewards ``[2, B]``; :class:`marlenv.games.fast.step_buffers.StepBuffers`.
        restarted: the same with a new game in place of each that is over.

    Returns:
        0 if a column is illegal, 2 if a game is over, else 1.
    """
    rows, columns, line = shape
    cells = np.int64(0x0101010101010101) >> (8 * (8 - rows))  # of the first column
    bottom = np.int64(255) << (8 * (rows - 1))
    after, rewards, fresh, fresh_rewards = following[0], following[8], restarted[0], restarted[8]
    some_over = False
    for b in range(done.size):
        own, stones, ply, won = board[b, 0], board[b, 1], board[b, 2], board[b, 3]
        seat, won_now = ply & 1, np.int64(0)
        if not done[b]:
            column = o[b] if seat else x[b]
            if column < 0 or column >= columns or (stones >> column) & 1:
                return 0
            rests = ~stones & ((stones >> 8) | bottom)  # the cell of each column that a stone falls to
            stone = rests & (cells << column)
            mine = own | stone
            for step in (1, 8, 7, 9):
                run, length = mine, 1
                while length < line:
                    reach = min(length, line - length)
                    run = run & (run >> (step * reach))
                    length += reach
                won_now |= np.int64(run != 0)
            own, stones, ply, won = stones ^ own, stones | stone, ply + 1, won | won_now
        after[b, 0], after[b, 1], after[b, 2], after[b, 3] = own, stones, ply, won
        rewards[seat, b], rewards[1 - seat, b] = won_now, 0.0 - won_now
        over = won != 0 or ply == rows * columns
        some_over = some_over or over
        if ahead:
            keep = np.int64(not over)
            fresh[b, 0], fresh[b, 1], fresh[b, 2], fresh[b, 3] = own * keep, stones * keep, ply * keep, 0
            fresh_rewards[0, b], fresh_rewards[1, b] = 0, 0
    _connect_four_write(rows, columns, following)
    if ahead and some_over:
        _connect_four_write(rows, columns, restarted)
    return 2 if some_over else 1


@_inline
def _write(rows: int, columns: int, out: tuple[Array, ...]) -> None:
    board, seen_x, seen_o, mask_x, mask_o, turn, outcome, flags, _ = out
    n, sight_x, sight_o = rows * columns, seen_x.reshape(-1), seen_o.reshape(-1)
    moves_x, moves_o = mask_x.reshape(-1), mask_o.reshape(-1)
    for b in range(board.shape[0]):
        own, stones, ply, won = board[b, 0], board[b, 1], board[b, 2], board[b, 3]
        seat, full = ply & 1, ply == n
        over, at = won != 0 or full, 3 * n * b
        mine, others, left = np.int64(0), np.int64(0), np.int64((1 << columns) - 1)
        for row in range(rows):
            mine |= ((own >> (8 * row)) & left) << (columns * row)
            others |= (((stones ^ own) >> (8 * row)) & left) << (columns * row)
        x, o = (others, mine) if seat else (mine, others)
        for i, plane in enumerate((x, o, np.int64(seat - 1))):
            _put(sight_x, at + i * n, plane, n)
        for i, plane in enumerate((o, x, np.int64(-seat))):
            _put(sight_o, at + i * n, plane, n)
        free = -1 if over else ~stones
        _put(moves_x, b * columns, -1 if seat else free, columns)
        _put(moves_o, b * columns, free if seat else -1, columns)
        turn[b, 0], outcome[b, 0], flags[2, b] = seat, 1 if won else 2 if full else 0, over
    _write_flags(turn, flags)


@_compiled
def _connect_four_write(rows: int, columns: int, out: tuple[Array, ...]) -> None:
    """Writes what follows from positions, all but the rewards; see :func:`connect_four_step`."""
    if rows == 6 and columns == 7:  # as constants the compiler unrolls what they bound
        _write(6, 7, out)
    else:
        _write(rows, columns, out)
