"""Steps and draws of connect four, compiled by numba: the same bits as the rules in ``connect_four.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from marlenv.games.fast.board_kernels import (
    NONE,
    at_a_time,
    at_hand,
    bits,
    draw_place,
    enter,
    finish,
    hand_on,
    hands,
    put_word,
)
from marlenv.games.fast.cached import compiled, inline
from marlenv.games.fast.kernels import Array
from marlenv.games.fast.plain_arrays import bare, rows_from
from marlenv.games.fast.whole_games import Arrays, Before, Data, How, Offsets

Shape = tuple[int, int, int]
RANKED = np.argsort(~np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), kind="stable")
"""The bits of each byte, those that are set before the others."""


@inline
def _line(mine: int, line: int) -> bool:
    """Whether so many stones are in a row."""
    found = np.int64(0)
    for step in (1, 8, 7, 9):
        run, length = mine, 1
        while length < line:
            reach = min(length, line - length)
            run = run & (run >> (step * reach))
            length += reach
        found |= run
    return found != 0


@inline
def _write(board: Array, rows: int, columns: int, over: bool, r: int, seen: Any, masks: Any) -> None:
    """Writes what both players see and may do, given the board of row ``r``: anything where they do not act."""
    own, stones, seat = board[4 * r], board[4 * r + 1], board[4 * r + 2] & 1
    mine, others, left, n = np.int64(0), np.int64(0), np.int64((1 << columns) - 1), rows * columns
    for row in range(rows):
        mine |= ((own >> (8 * row)) & left) << (columns * row)
        others |= (((stones ^ own) >> (8 * row)) & left) << (columns * row)
    x, o = (others, mine) if seat else (mine, others)
    at, free = 3 * n * r, np.int64(-1) if over else ~stones
    put_word(seen[0], at, x, n)
    put_word(seen[0], at + n, o, n)
    put_word(seen[0], at + 2 * n, seat - 1, n)
    put_word(seen[1], at, o, n)
    put_word(seen[1], at + n, x, n)
    put_word(seen[1], at + 2 * n, -seat, n)
    put_word(masks[0], columns * r, np.int64(-1) if seat else free, columns)
    put_word(masks[1], columns * r, free if seat else np.int64(-1), columns)


@compiled
def play(
    options: tuple[Shape, Data], before: Before, how: How, following: Data, restarted: Data, start: int, stop: int
) -> int:
    """See :mod:`marlenv.games.fast.whole_games`."""
    (rows, columns, line), opening = options
    (state, (x, o), done), (ahead, always, steps) = before, how
    board = state[0]
    after, seen, masks, turn, outcome, flags, rewards = following
    past, block = at_a_time(steps * done.size, seen[0])
    kept = hands(seen, block), hands(masks, block), at_hand(after[0], block), np.empty((5, 5), np.int64)
    seen_now, masks_now, hand, entries = bare(kept)
    enter(entries, following[:3], restarted[:3], opening, ((hand,), seen_now, masks_now), state, steps > 1)
    cells = np.int64(0x0101010101010101) >> (8 * (8 - rows))  # of the first column
    bottom = np.int64(255) << (8 * (rows - 1))
    last = start if always else -1
    for first in range(start, stop, block):
        now = rows_from(state, first)[0] if steps > 1 else hand
        for b in range(first, min(first + block, stop)):
            r, own, stones, ply, won = b - first, board[b, 0], board[b, 1], board[b, 2], board[b, 3]
            seat, wins = ply & 1, False
            if not done[b]:
                column = o[b] if seat else x[b]
                if won or column < 0 or column >= columns or (stones >> column) & 1:
                    return 0
                rests = ~stones & ((stones >> 8) | bottom)  # the cell of each column that a stone falls to
                stone = rests & (cells << column)
                wins = _line(own | stone, line)
                own, stones, ply, won = stones ^ own, stones | stone, ply + 1, won | wins
            over = won != 0 or ply == rows * columns
            rewards[seat, b], rewards[1 - seat, b] = wins, 0.0 - wins
            now[4 * r], now[4 * r + 1], now[4 * r + 2], now[4 * r + 3] = own, stones, ply, won
            turn[b, 0], outcome[b, 0], flags[2, b] = ply & 1, 1 if won else 2 if over else 0, over
            if rows == 6 and columns == 7:  # as constants the compiler unrolls what they bound
                _write(now, 6, 7, over, r, seen_now, masks_now)
            else:
                _write(now, rows, columns, over, r, seen_now, masks_now)
        last = hand_on(entries, first, min(block, stop - first), flags[2], past, ahead, steps, last)
    result = finish(entries, following, restarted, ahead, last, start, stop)
    kept[3][0, 0] = 0  # until here they are held
    return result


@compiled
def draw(shape: Shape, state: Arrays, keys: Array, at: int, offsets: Offsets, out: Array, start: int, stop: int) -> int:
    """See :mod:`marlenv.games.fast.whole_games`."""
    columns, board = shape[1], state[0]
    for b in range(start, stop):
        left = np.uint64(~board[b, 1] & ((1 << columns) - 1)) if board[b, 3] == 0 else NONE
        place = draw_place(keys[b], at, offsets, board[b, 2] & 1, bits(left))
        out[b, 0] = RANKED[np.int64(left), place] if left != NONE else columns - 1
    return 2
