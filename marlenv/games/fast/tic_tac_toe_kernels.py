"""Steps and draws of tic-tac-toe, compiled by numba: the same bits as the rules in ``tictactoe/rules.py``.

The options are tables of all positions: where each cell leads and the free cells in order, ``[9 * n]`` each; how many
are free, whose turn it is and outcomes, ``[n]``; returns ``[n, 2]``; what each player sees and the free cells, as bits
of a word each, ``[n, 3]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from marlenv.games.fast.board_kernels import (
    at_a_time,
    at_hand,
    enter,
    finish,
    hand_on,
    hands,
    put_word,
)
from marlenv.games.fast.cached import compiled, inline
from marlenv.games.fast.kernels import Array, _unit
from marlenv.games.fast.plain_arrays import bare, rows_from
from marlenv.games.fast.whole_games import Arrays, Before, Data, How, Offsets


@inline
def _write(words: Array, place: int, seat: int, over: bool, r: int, seen: Any, masks: Any) -> None:
    """Writes what both players see and may do in a position: anything where they do not act."""
    free = np.int64(-1) if over else words[place, 2]
    for k in range(2):
        put_word(seen[k], 27 * r, words[place, k], 27)
        put_word(masks[k], 9 * r, free if seat == k else np.int64(-1), 9)


@compiled
def play(
    options: tuple[Arrays, Data], before: Before, how: How, following: Data, restarted: Data, start: int, stop: int
) -> int:
    """See :mod:`marlenv.games.fast.whole_games`."""
    tables, opening = options
    leads, _, _, players, outcomes, returns, words = tables
    (state, (x, o), done), (ahead, always, steps) = before, how
    codes = state[0]
    after, seen, masks, turn, outcome, flags, rewards = following
    past, block = at_a_time(steps * done.size, seen[0])
    kept = hands(seen, block), hands(masks, block), at_hand(after[0], block), np.empty((5, 5), np.int64)
    seen_now, masks_now, hand, entries = bare(kept)
    enter(entries, following[:3], restarted[:3], opening, ((hand,), seen_now, masks_now), state, steps > 1)
    last = start if always else -1
    for first in range(start, stop, block):
        now = rows_from(state, first)[0] if steps > 1 else hand
        for b in range(first, min(first + block, stop)):
            r, place = b - first, codes[b, 0]
            if np.uint64(place) >= np.uint64(players.size):
                return 0
            pays = np.float32(not done[b])
            if not done[b]:
                cell = o[b] if players[place] else x[b]
                if np.uint64(cell) >= np.uint64(9):
                    return 0
                place = np.int64(leads[9 * place + cell])
                if place < 0:
                    return 0
            seat, why = players[place], outcomes[place]
            rewards[0, b], rewards[1, b] = pays * returns[place, 0] + 0.0, pays * returns[place, 1] + 0.0
            now[r], turn[b, 0], outcome[b, 0], flags[2, b] = place, seat, why, why != 0
            _write(words, place, seat, why != 0, r, seen_now, masks_now)
        last = hand_on(entries, first, min(block, stop - first), flags[2], past, ahead, steps, last)
    result = finish(entries, following, restarted, ahead, last, start, stop)
    kept[3][0, 0] = 0  # until here they are held
    return result


@compiled
def draw(
    tables: Arrays, state: Arrays, keys: Array, at: int, offsets: Offsets, out: Array, start: int, stop: int
) -> int:
    """See :mod:`marlenv.games.fast.whole_games`."""
    _, ranked, counts, players, _, _, _ = tables
    codes = state[0]
    for b in range(start, stop):
        place = codes[b, 0] if np.uint64(codes[b, 0]) < np.uint64(players.size) else 0
        unit = _unit(keys[b], at + offsets[players[place]])
        out[b, 0] = ranked[9 * place + np.int64(counts[place] * unit)]
    return 2
