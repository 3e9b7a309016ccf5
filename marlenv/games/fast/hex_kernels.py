"""Steps and draws of hex, compiled by numba: the same bits as the rules in ``hex.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from marlenv.games.fast.board_kernels import (
    WORD,
    above,
    at_a_time,
    at_hand,
    below,
    bits,
    draw_place,
    enter,
    fill,
    finish,
    hand_on,
    hands,
    load,
    nth,
    put,
    replace,
    store,
    words_of,
)
from marlenv.games.fast.cached import compiled, inline
from marlenv.games.fast.kernels import Array
from marlenv.games.fast.plain_arrays import bare, rows_from
from marlenv.games.fast.whole_games import Arrays, Before, Data, How, Offsets

Board = tuple[int, int, bool]
"""Rows, columns, whether ``o`` may swap."""
FIRST, SECOND, FREE, ALL = range(4)  # rows of words


@compiled
def _won(chain: Array, cells: int) -> Any:
    """1 if x has connected the edges, -1 if o has, else 0."""
    x, o = chain[cells] == chain[cells + 1], chain[cells + 2] == chain[cells + 3]
    return np.int64(x) - np.int64(o)


@compiled
def _desk(cells: int) -> tuple[Array, Array]:
    """What one position is worked on in: the chain of each cell, and words."""
    words = np.zeros((4, words_of(cells) + 2), np.uint64)
    for i in range(cells):
        words[ALL, 1 + i // WORD] |= np.uint64(1) << np.uint64(i % WORD)
    return np.zeros(cells + 5 + 2 * WORD, np.int16), words


@compiled
def _read(desk: tuple[Array, Array]) -> None:
    """Writes the words of stones and free cells."""
    chain, words = desk
    for w in range(1, words.shape[1] - 1):
        words[FIRST, w] = above(chain, WORD * (w - 1), 0) & words[ALL, w]
        words[SECOND, w] = below(chain, WORD * (w - 1), 0) & words[ALL, w]
        words[FREE, w] = words[ALL, w] & ~(words[FIRST, w] | words[SECOND, w])


@compiled
def _place(chain: Array, cell: int, player: int, board: Board) -> None:
    """Puts a stone of a player on a free cell, and joins all chains beside it."""
    rows, columns, _ = board
    n, row, column = rows * columns, cell // columns, cell % columns
    number = np.int16(-cell - 1) if player else np.int16(cell + 1)
    up, down, left, right = row > 0, row < rows - 1, column > 0, column < columns - 1
    first, last = (left, right) if player else (up, down)
    sides = (
        (up, cell - columns),
        (up and right, cell - columns + 1),
        (right, cell + 1),
        (down, cell + columns),
        (down and left, cell + columns - 1),
        (left, cell - 1),
        (not first, n + 2 * player),
        (not last, n + 2 * player + 1),
    )
    for there, at in sides:
        met = chain[at] if there else number
        if 0 != met != number and (met < 0) == (player == 1):
            for start in range(0, n + 4, WORD):
                replace(chain, start, met, number)
    chain[cell] = number


@compiled
def _swap(chain: Array, rows: int) -> int:
    """Takes the one stone off; returns the cell that mirrors it."""
    n, stone = rows * rows, 0
    while stone < n - 1 and chain[stone] == 0:
        stone += 1
    chain[:n] = 0
    chain[n], chain[n + 1], chain[n + 2], chain[n + 3] = n + 1, n + 2, -n - 3, -n - 4
    return stone % rows * rows + stone // rows


@inline
def _show(words: Array, player: int, cells: int, r: int, x: Array, o: Array) -> None:
    """Writes what both players see."""
    at = 3 * cells * r
    put(x, at, words, FIRST, cells)
    put(x, at + cells, words, SECOND, cells)
    fill(x, at + 2 * cells, player == 0, cells)
    put(o, at, words, SECOND, cells)
    put(o, at + cells, words, FIRST, cells)
    fill(o, at + 2 * cells, player == 1, cells)


@inline
def _permit(words: Array, ply: int, over: bool, cells: int, swaps: bool, r: int, masks: tuple[Array, Array]) -> None:
    """Writes what both players may do: anything where they do not act."""
    mine, other, width = masks[ply & 1], masks[1 - ply & 1], cells + swaps
    fill(other, r * width, True, width)
    if over:
        fill(mine, r * width, True, width)
    else:
        put(mine, r * width, words, FREE, cells)
        if swaps:
            mine[r * width + cells] = ply == 1


@compiled
def play(
    options: tuple[Board, Data], before: Before, how: How, following: Data, restarted: Data, start: int, stop: int
) -> int:
    """See :mod:`marlenv.games.fast.whole_games`."""
    board, opening = options
    rows, columns, swaps = board
    cells = rows * columns
    ((chains, plies), (x, o), done), (ahead, always, steps) = before, how
    (after, moves), seen, masks, turn, outcome, flags, rewards = following
    past, block = at_a_time(steps * done.size, seen[0])
    hand = (at_hand(after, block), at_hand(moves, block)), hands(seen, block), hands(masks, block)
    kept = hand, _desk(cells), np.empty((6, 5), np.int64)
    now, desk, entries = bare(kept)
    state, (hand, seen_now, masks_now) = before[0], now
    enter(entries, following[:3], restarted[:3], opening, now, state, steps > 1)
    chain, words = desk
    last = start if always else -1
    for first in range(start, stop, block):
        chains_now, plies_now = rows_from(state, first) if steps > 1 else hand
        for b in range(first, min(first + block, stop)):
            r, ply = b - first, plies[b, 0]
            load(chains, b, chain)
            won = _won(chain, cells)
            if not done[b]:
                player = ply & 1
                cell = o[b] if player else x[b]
                if swaps and cell == cells and ply == 1 and won == 0:
                    cell = _swap(chain, rows)
                elif cell < 0 or cell >= cells or chain[cell] != 0 or won != 0:
                    return 0
                _place(chain, cell, player, board)
                ply += 1
                won = _won(chain, cells)
            pays = 0 if done[b] else won
            rewards[0, b], rewards[1, b] = pays, 0 - pays
            plies_now[r], turn[b, 0], outcome[b, 0], flags[2, b] = ply, ply & 1, won != 0, won != 0
            _read(desk)
            store(chain, chains_now, r, cells + 5)
            _show(words, ply & 1, cells, r, seen_now[0], seen_now[1])
            _permit(words, ply, won != 0, cells, swaps, r, masks_now)
        last = hand_on(entries, first, min(block, stop - first), flags[2], past, ahead, steps, last)
    result = finish(entries, following, restarted, ahead, last, start, stop)
    kept[2][0, 0] = 0  # until here they are held
    return result


@compiled
def draw(board: Board, state: Arrays, keys: Array, at: int, offsets: Offsets, out: Array, start: int, stop: int) -> int:
    """See :mod:`marlenv.games.fast.whole_games`."""
    rows, columns, swaps = board
    cells = rows * columns
    kept = _desk(cells)
    (chains, plies), desk = state, bare(kept)
    chain, words = desk
    for b in range(start, stop):
        ply, count = plies[b, 0], 0
        load(chains, b, chain)
        _read(desk)
        for w in range(1, words.shape[1] - 1):
            count += bits(words[FREE, w])
        every = count + (swaps and ply == 1)
        place = draw_place(keys[b], at, offsets, ply & 1, every)
        found = nth(words, FREE, place) if place < count else cells
        out[b, 0] = cells - 1 + swaps if _won(chain, cells) else found
    kept[0][0] = 0  # until here they are held
    return 2
