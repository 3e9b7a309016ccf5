"""Short ways of small games on the CPU, compiled by numba: one pass over the rows, the same bits as the torch operations.

Importing this needs numba. A board is as in ``connect_four.py``; ``B`` rows, ``n`` columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def _compiled(function: Callable[..., Any]) -> Any:
    return numba.njit(cache=True, nogil=True)(function)


@_compiled
def unit_numbers(key: Array, lane: Array, at: int, out: Array) -> None:
    """Numbers in [0, 1), as :class:`marlenv.RowRNG` makes them, at place ``at + lane`` of the stream of each key ``[B]``."""
    for b in range(key.size):
        z = np.uint64(key[b]) + np.uint64(at + lane[b]) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
        out[b] = np.float32(z >> np.uint64(40)) * np.float32(2.0**-24)


@_compiled
def tic_tac_toe_turn(
    table: Array,
    told: Array,
    code: Array,
    action: Array,
    after: Array,
    rows: Array,
    ahead: bool,
    begun: Array,
    begun_rows: Array,
) -> int:
    """Where tic-tac-toe goes from each code ``[B]``, and what is told there.

    Args:
        table: where each cell leads from each position, -1 where it is not free.
        told: what is told of each position, words ``[n, 8]``; see ``tictactoe.py``.
        code: the positions.
        action: the cells.
        after: the positions that follow, to write to.
        rows: what is told of them ``[B, 8]``, to write to.
        ahead: whether to write the next two also.
        begun: the positions after games that are over have begun anew.
        begun_rows: what is told of those.

    Returns:
        0 if a cell is illegal, 2 if a game is over, else 1.
    """
    over = False
    for b in range(code.size):
        cell = action[b]
        if cell < 0 or cell > 8:
            return 0
        place = np.int64(table[9 * code[b] + cell])
        if place < 0:
            return 0
        after[b] = place
        for i in range(8):
            rows[b, i] = told[place, i]
        ends = (told[place, 7] >> 8) & 1 != 0
        over = over or ends
        if ahead:
            goes_on = np.int64(0) if ends else place
            begun[b] = goes_on
            for i in range(8):
                begun_rows[b, i] = told[goes_on, i]
    return 2 if over else 1


@_compiled
def look_up_pick(counts: Array, ranked: Array, code: Array, unit: Array, out: Array) -> None:
    """A free cell of tic-tac-toe for each code, at the place ``unit`` ``[B]`` of the way."""
    for b in range(code.size):
        out[b] = ranked[9 * code[b] + np.int64(counts[code[b]] * unit[b])]


@_compiled
def connect_four_pick(board: Array, unit: Array, columns: int, out: Array) -> None:
    """A column with room at the place ``unit`` ``[B]`` of the way; 0 where the game is over."""
    for b in range(out.size):
        stones, room, found = board[b, 1], 0, 0
        for column in range(columns):
            room += 1 - ((stones >> column) & 1)
        rank = np.int64(np.float32(room) * unit[b])
        if not board[b, 3]:
            for column in range(columns):
                if not (stones >> column) & 1:
                    if rank == 0:
                        found = column
                        break
                    rank -= 1
        out[b] = found


@_compiled
def connect_four_turn(
    board: Array,
    x: Array,
    o: Array,
    gone: Array,
    whole: bool,
    shape: tuple[int, int, int],
    after: Array,
    seen: Array,
    allowed: Array,
    facts: Array,
) -> bool:
    """Plays a move in each row that is not ``gone``, and tells; False at the first illegal one.

    ``seen`` holds what was seen before the move, unless the ``whole`` of it is to be written.
    """
    rows, columns, line = shape
    for b in range(gone.size):
        own, stones, ply, won = board[b]
        place = -1
        if not gone[b]:
            column = o[b] if ply & 1 else x[b]
            if column < 0 or column >= columns or (stones >> column) & 1:
                return False
            cell = 8 * (rows - 1) + column
            while (stones >> cell) & 1:
                cell -= 8
            place = (cell >> 3) * columns + column
            stone = np.int64(1) << cell
            mine = own | stone
            for step in (1, 8, 7, 9):
                run, length = mine, 1
                while length < line:
                    reach = min(length, line - length)
                    run = run & (run >> (step * reach))
                    length += reach
                won = won or run != 0
            own, stones, ply = stones ^ own, stones | stone, ply + 1
        after[b, 0], after[b, 1], after[b, 2], after[b, 3] = own, stones, ply, won
        if place >= 0 and not whole:
            seen[1 - ply & 1, b, place] = seen[ply & 1, b, rows * columns + place] = 1
        _connect_four_tell(b, after, gone, whole, shape, seen, allowed, facts)
    return True


@_compiled
def connect_four_renew(
    gone: Array, whole: bool, shape: tuple[int, int, int], after: Array, seen: Array, allowed: Array, facts: Array
) -> None:
    """Empties the boards of ``after`` that are ``gone``, and tells of them, or of the ``whole`` batch."""
    for b in range(gone.size):
        if gone[b]:
            after[b] = 0
        if whole or gone[b]:
            _connect_four_tell(b, after, gone, True, shape, seen, allowed, facts)


@_compiled
def _connect_four_tell(
    b: int,
    board: Array,
    before: Array,
    whole: bool,
    shape: tuple[int, int, int],
    seen: Array,
    allowed: Array,
    facts: Array,
) -> None:
    """Writes what follows from the position of row ``b``.

    Args:
        b: the row.
        board: as the rules have it, ``[B, 4]``.
        before: whether the game was over already, bool ``[B]``.
        whole: whether to write the planes of stones too.
        shape: rows, columns, line.
        seen: the planes of each player, ``[2, B, 3 * rows * columns]``, a byte or a float each.
        allowed: the legal actions of each player, bool ``[2, B, n]``.
        facts: ``[B, 4]``, see :class:`marlenv.games.rules.Told`.
    """
    rows, columns, _ = shape
    cells = rows * columns
    own, stones, ply, won = board[b]
    seat, full = ply & 1, ply == cells
    over = 1 if won or full else 0
    mine, theirs = seen[seat, b], seen[1 - seat, b]
    for row in range(rows if whole else 0):
        ours, others = (own >> 8 * row) & 255, ((stones ^ own) >> 8 * row) & 255
        first, second = row * columns, cells + row * columns
        for column in range(columns):
            a, o = (ours >> column) & 1, (others >> column) & 1
            mine[first + column] = theirs[second + column] = a
            mine[second + column] = theirs[first + column] = o
    for cell in range(2 * cells, 3 * cells):
        mine[cell], theirs[cell] = 1, 0
    for column in range(columns):
        allowed[seat, b, column] = over or not (stones >> column) & 1
        allowed[1 - seat, b, column] = True
    earned = 1.0 if won and not before[b] else 0.0
    facts[b, 0], facts[b, 1] = seat, 0
    flags, floats = facts[b].view(np.uint8), facts[b].view(np.float32)
    flags[8], flags[9] = over, 1 - over
    flags[10], flags[11] = (1 - over) * (1 - seat), (1 - over) * seat
    flags[13] = 1 if won else 2 if full else 0
    floats[4 + seat], floats[5 - seat] = -earned, earned
