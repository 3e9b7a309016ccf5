"""Short ways of small games on the CPU, compiled by numba: one pass over the rows, the same bits as the torch operations.

Importing this needs numba. A board is as in ``connect_four.py``; ``B`` rows, ``n`` columns.
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

Array = NDArray[Any]


def _compiled(function: Callable[..., Any]) -> Any:
    return numba.njit(cache=True, nogil=True)(function)


def _inline(function: Callable[..., Any]) -> Any:
    return numba.njit(inline="always")(function)


@_compiled
def _unit(key: int, place: int) -> np.float32:
    """The number in [0, 1), as :class:`marlenv.RowRNG` makes it, at a place of the stream of a key."""
    z = np.uint64(key) + np.uint64(place) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float32(z >> np.uint64(40)) * np.float32(2.0**-24)


@_compiled
def unit_numbers(key: Array, lane: Array, at: int, out: Array) -> None:
    """The numbers at place ``at + lane`` of the stream of each key ``[B]``."""
    for b in range(key.size):
        out[b] = _unit(key[b], at + lane[b])


@_compiled
def tic_tac_toe_read(from_shown: Array, shown: Array, turn: Array, code: Array) -> bool:
    """The positions of shown boards ``[B, 9]`` (-1, 0, 1) and turns ``[B]``; False where that is in no table.

    Args:
        from_shown: the position of a number whose digits are one more than the cells, plus 3**9 where o is to move.
        shown: the boards.
        turn: whose turn it is.
        code: to write to, ``[B]``.
    """
    fine = True
    for b in range(code.size):
        s = shown[b]
        low = (s[0] + 1) + 3 * (s[1] + 1) + 9 * (s[2] + 1)
        middle = (s[3] + 1) + 3 * (s[4] + 1) + 9 * (s[5] + 1)
        high = (s[6] + 1) + 3 * (s[7] + 1) + 9 * (s[8] + 1)
        number = low + 27 * middle + 729 * high + 19683 * turn[b]
        inside = 0 <= number < from_shown.size
        fine = fine and inside
        code[b] = from_shown[number if inside else 0]
    return fine


def _moving(count: int) -> Any:
    """Copies ``count`` bytes from an address to another."""

    def typed(context: Any, to: Any, source: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            to, source = (builder.inttoptr(at, ir.IntType(8).as_pointer()) for at in args)
            cgutils.raw_memcpy(builder, to, source, ir.Constant(ir.IntType(64), count), 1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), code

    return intrinsic(typed)


_copy_36, _copy_9, _copy_4, _copy_1 = (_moving(count) for count in (36, 9, 4, 1))


@_inline
def _say(position: int, b: int, told: int, rows: tuple[int, ...]) -> None:
    """Writes what is told of a position into row ``b``."""
    shown, turn, free, terminated, done, truncated, first, second = rows
    at = told + 64 * position
    _copy_36(shown + 36 * b, at)
    _copy_4(turn + 4 * b, at + 36)
    _copy_4(first + 4 * b, at + 40)
    _copy_4(second + 4 * b, at + 44)
    _copy_9(free + 9 * b, at + 48)
    _copy_1(terminated + b, at + 57)
    _copy_1(done + b, at + 58)
    _copy_1(truncated + b, at + 59)


@_compiled
def tic_tac_toe_turn(
    table: Array,
    told: Array,
    code: Array,
    action: Array,
    rows: tuple[int, ...],
    ahead: bool,
    begun_rows: tuple[int, ...],
) -> int:
    """What is told of where tic-tac-toe goes from each code ``[B]``.

    Args:
        table: where each cell leads from each position, -1 where it is not free.
        told: what is told of each position, bytes ``[n, 64]``; see ``tictactoe.py``.
        code: the positions.
        action: the cells.
        rows: where to write what is told of the positions that follow: the addresses of boards, turns, free cells, three flags,
            two returns.
        ahead: whether to write the next ones also.
        begun_rows: where to write what is told of the positions after games that are over have begun anew.

    Returns:
        0 if a cell is illegal, 2 if a game is over, else 1.
    """
    over, at = False, told.ctypes.data
    for b in range(code.size):
        cell = action[b]
        if cell < 0 or cell > 8:
            return 0
        place = np.int64(table[9 * code[b] + cell])
        if place < 0:
            return 0
        _say(place, b, at, rows)
        ends = told[place, 58] != 0
        over = over or ends
        if ahead:
            goes_on = np.int64(0) if ends else place
            _say(goes_on, b, at, begun_rows)
    return 2 if over else 1


@_compiled
def look_up_pick(counts: Array, ranked: Array, code: Array, unit: Array, out: Array) -> None:
    """A free cell of tic-tac-toe for each code, at the place ``unit`` ``[B]`` of the way."""
    for b in range(code.size):
        out[b] = ranked[9 * code[b] + np.int64(counts[code[b]] * unit[b])]


@_compiled
def look_up_pick_from(
    counts: Array,
    ranked: Array,
    players: Array,
    code: Array,
    key: Array,
    at: int,
    lanes: tuple[int, int],
    out: Array,
) -> None:
    """The same with the numbers at place ``at``, and the lane of the player, of the stream of each key ``[B]``."""
    alike, first = lanes[0] == lanes[1], at + lanes[0]
    for b in range(code.size):
        unit = _unit(key[b], first if alike else at + lanes[players[code[b]]])
        out[b] = ranked[9 * code[b] + np.int64(counts[code[b]] * unit)]


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
def connect_four_pick_from(
    ranked: Array, room: Array, board: Array, key: Array, at: int, lanes: tuple[int, int], columns: int, out: Array
) -> None:
    """The same with the numbers at place ``at``, and the lane of the player, of the stream of each key ``[B]``."""
    for b in range(out.size):
        out[b] = _column(ranked, room, board[b], columns, _unit(key[b], at + lanes[board[b, 2] & 1]))


@_compiled
def connect_four_turn(
    board: Array,
    x: Array,
    o: Array,
    gone: Array,
    shape: tuple[int, int, int],
    ahead: bool,
    told: tuple[Array, ...],
    begun: tuple[Array, ...],
) -> int:
    """Plays a move in each row that is not ``gone``, and tells what follows.

    Args:
        board: the positions, ``[B, 4]``.
        x: the columns that the first player chose, ``[B]``.
        o: those of the second.
        gone: whether the game was over already, bool ``[B]``.
        shape: rows, columns, line.
        ahead: whether to write the next also.
        told: to write to: the positions that follow; the planes of each player, ``[B, 3 * rows * columns]``; the legal
            actions of each, bool ``[B, n]``; whose turn it is ``[B, 1]``; the outcome ``[B, 1]``; flags ``[14, B]`` and what was
            earned ``[2, B]``, as in :class:`marlenv.games.rules.Told`.
        begun: the same for the positions after games that are over have begun anew.

    Returns:
        0 if a column is illegal, 2 if a game is over, else 1.
    """
    rows, columns, line = shape
    cells = np.int64(0x0101010101010101) >> (8 * (8 - rows))  # of the first column
    bottom = np.int64(255) << (8 * (rows - 1))
    after, gains, fresh, fresh_gains = told[0], told[8], begun[0], begun[8]
    some_over = False
    for b in range(gone.size):
        own, stones, ply, won = board[b, 0], board[b, 1], board[b, 2], board[b, 3]
        seat, earned = ply & 1, np.int64(0)
        if not gone[b]:
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
                earned |= np.int64(run != 0)
            own, stones, ply, won = stones ^ own, stones | stone, ply + 1, won | earned
        after[b, 0], after[b, 1], after[b, 2], after[b, 3] = own, stones, ply, won
        gains[seat, b], gains[1 - seat, b] = earned, -earned
        over = won != 0 or ply == rows * columns
        some_over = some_over or over
        if ahead:
            keep = np.int64(not over)
            fresh[b, 0], fresh[b, 1], fresh[b, 2], fresh[b, 3] = own * keep, stones * keep, ply * keep, 0
            fresh_gains[0, b], fresh_gains[1, b] = 0, 0
    _connect_four_tell(rows, columns, told)
    if ahead and some_over:
        _connect_four_tell(rows, columns, begun)
    return 2 if some_over else 1


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
    """Writes bits of a word as numbers of an array ``[n]``: those from ``at`` to ``at + count``, and some that are to be
    written later.
    """
    for i in range(0, count, LANES):
        if at + i + LANES <= out.size:
            _put_lanes(out, at + i, word >> i)
        else:
            for j in range(i, count):
                out[at + j] = (word >> j) & 1
            break


@_inline
def _tell(rows: int, columns: int, told: tuple[Array, ...]) -> None:
    board, seen_x, seen_o, allowed_x, allowed_o, turn, outcome, flags, _ = told
    n, sight_x, sight_o = rows * columns, seen_x.reshape(-1), seen_o.reshape(-1)
    moves_x, moves_o = allowed_x.reshape(-1), allowed_o.reshape(-1)
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
        turn[b, 0], outcome[b, 0] = seat, 1 if won else 2 if full else 0
        flags[0, b], flags[1, b], flags[2, b], flags[3, b] = over, False, over, not over
        flags[4, b], flags[5, b] = not over and not seat, not over and seat
    for k in range(4):
        for b in range(board.shape[0]):
            flags[6 + k, b] = flags[10 + k, b] = flags[k, b]


@_compiled
def _connect_four_tell(rows: int, columns: int, told: tuple[Array, ...]) -> None:
    """Writes what follows from positions, but for what was earned; see :func:`connect_four_turn`."""
    if rows == 6 and columns == 7:  # as constants the compiler unrolls what they bound
        _tell(6, 7, told)
    else:
        _tell(rows, columns, told)
