"""Steps and draws of breakthrough, compiled by numba: the same bits as the rules in ``breakthrough.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from marlenv.games.fast.board_kernels import (
    NONE,
    ONE,
    at_a_time,
    bits,
    draw_place,
    enter,
    fill,
    finish,
    hand_on,
    hands,
    lowest,
    put_word,
)
from marlenv.games.fast.cached import compiled, inline
from marlenv.games.fast.kernels import Array
from marlenv.games.fast.plain_arrays import bare, rows_from
from marlenv.games.fast.whole_games import Arrays, Before, Data, How, Offsets

Board = tuple[int, int]
"""Rows, columns."""
BYTE, EIGHT = np.uint64(255), np.uint64(8)
COLUMN = np.uint64(0x0101010101010101)


@inline
def _apart(byte: np.uint64) -> np.uint64:
    """Bit ``i`` of a byte as bit ``3 * i``."""
    byte = (byte | byte << np.uint64(8)) & np.uint64(0x00F00F)
    byte = (byte | byte << np.uint64(4)) & np.uint64(0x0C30C3)
    return (byte | byte << np.uint64(2)) & np.uint64(0x249249)


@compiled
def _over(white: np.uint64, black: np.uint64, rows: int) -> int:
    """Why a game is over: 1 for a stone on the other's edge, 2 if one has none left, else 0."""
    if white & BYTE or (black >> np.uint64(8 * (rows - 1))) & BYTE:
        return 1
    return 2 if NONE in (white, black) else 0


@compiled
def _moves(board: Board, white: np.uint64, black: np.uint64, ply: int, out: Array) -> int:
    """Writes the legal actions of each row of the board, three bits for each column; returns how many there are."""
    rows, columns = board
    own = black if ply & 1 else white
    count = 0
    first, last, free = COLUMN, COLUMN << np.uint64(columns - 1), ~(white | black)
    left, ahead, right = ~own, free, ~own
    if ply & 1:  # from where black comes to these
        left, ahead, right = left >> np.uint64(7), ahead >> EIGHT, right >> np.uint64(9)
    else:
        left, ahead, right = left << np.uint64(9), ahead << EIGHT, right << np.uint64(7)
    left, ahead, right = own & ~first & left, own & ahead, own & ~last & right
    for row in range(rows):
        shift = np.uint64(8 * row)
        three = _apart((left >> shift) & BYTE) | _apart((ahead >> shift) & BYTE) << ONE
        out[row] = three | _apart((right >> shift) & BYTE) << np.uint64(2)
        count += bits(out[row])
    return count


@inline
def _narrow(word: np.uint64, rows: int, columns: int) -> Any:
    """A word with a byte per row as one with the cells side by side."""
    if columns == 8:
        return np.int64(word)
    out, whole = NONE, (ONE << np.uint64(columns)) - ONE
    for row in range(rows):
        out |= ((word >> np.uint64(8 * row)) & whole) << np.uint64(columns * row)
    return np.int64(out)


@inline
def _write(
    board: Board, white: np.uint64, black: np.uint64, ply: int, over: bool, moves: Array, r: int, seen: Any, masks: Any
) -> None:
    """Writes what both players see and may do: anything where they do not act."""
    rows, columns = board
    cells, seat = rows * columns, ply & 1
    first, second, at = _narrow(white, rows, columns), _narrow(black, rows, columns), 3 * cells * r
    for k in range(2):
        put_word(seen[k], at, second if k else first, cells)
        put_word(seen[k], at + cells, first if k else second, cells)
        put_word(seen[k], at + 2 * cells, -np.int64(seat == k), cells)
    fill(masks[1 - seat], at, True, 3 * cells)
    if over:
        fill(masks[seat], at, True, 3 * cells)
    else:
        _moves(board, white, black, ply, moves)
        for row in range(rows):
            put_word(masks[seat], at + 3 * columns * row, np.int64(moves[row]), 3 * columns)


@compiled
def play(
    options: tuple[Board, Data], before: Before, how: How, following: Data, restarted: Data, start: int, stop: int
) -> int:
    """See :mod:`marlenv.games.fast.whole_games`."""
    board, opening = options
    rows, columns = board
    (state, (first_player, second_player), done), (ahead, always, steps) = before, how
    whites, blacks, plies = state
    _, seen, masks, turn, outcome, flags, rewards = following
    past, block = at_a_time(steps * done.size, seen[0])
    both = hands(seen, block), hands(masks, block)
    kept = *both, np.empty((3, block), np.int64), np.zeros(8, np.uint64), np.empty((7, 5), np.int64)
    seen_now, masks_now, words, moves, entries = bare(kept)
    hand = words[0], words[1], words[2]
    enter(entries, following[:3], restarted[:3], opening, (hand, seen_now, masks_now), state, steps > 1)
    last = start if always else -1
    for first in range(start, stop, block):
        new = rows_from(state, first) if steps > 1 else hand
        for b in range(first, min(first + block, stop)):
            r, white, black, ply = b - first, np.uint64(whites[b, 0]), np.uint64(blacks[b, 0]), plies[b, 0]
            why, paid = _over(white, black, rows), 0
            if not done[b]:
                action = second_player[b] if ply & 1 else first_player[b]
                if action < 0 or action >= 3 * rows * columns or why:
                    return 0
                _moves(board, white, black, ply, moves)
                row, column, aside = action // 3 // columns, action // 3 % columns, action % 3 - 1
                if (moves[row] >> np.uint64(3 * column + aside + 1)) & ONE == NONE:
                    return 0
                source = ONE << np.uint64(8 * row + column)
                target = ONE << np.uint64(8 * (row + (1 if ply & 1 else -1)) + column + aside)
                if ply & 1:
                    white, black = white & ~target, black ^ (source | target)
                else:
                    white, black = white ^ (source | target), black & ~target
                ply, why = ply + 1, _over(white, black, rows)
                paid = (2 * (ply & 1) - 1) * (why != 0)
            rewards[0, b], rewards[1, b] = paid, 0 - paid
            new[0][r], new[1][r], new[2][r] = np.int64(white), np.int64(black), ply
            turn[b, 0], outcome[b, 0], flags[2, b] = ply & 1, why, why != 0
            _write(board, white, black, ply, why != 0, moves, r, seen_now, masks_now)
        last = hand_on(entries, first, min(block, stop - first), flags[2], past, ahead, steps, last)
    result = finish(entries, following, restarted, ahead, last, start, stop)
    kept[2][0, 0] = 0  # until here they are held
    return result


@compiled
def draw(board: Board, state: Arrays, keys: Array, at: int, offsets: Offsets, out: Array, start: int, stop: int) -> int:
    """See :mod:`marlenv.games.fast.whole_games`."""
    rows, columns = board
    whites, blacks, plies = state
    moves = np.zeros(8, np.uint64)
    for b in range(start, stop):
        white, black, ply = np.uint64(whites[b, 0]), np.uint64(blacks[b, 0]), plies[b, 0]
        out[b, 0] = 3 * rows * columns - 1
        if _over(white, black, rows):
            continue
        place = draw_place(keys[b], at, offsets, ply & 1, _moves(board, white, black, ply, moves))
        for row in range(rows):
            left = moves[row]
            count = bits(left)
            if place < count:
                for _ in range(place):
                    left &= left - ONE
                out[b, 0] = 3 * columns * row + lowest(left)
                break
            place -= count
    return 2
