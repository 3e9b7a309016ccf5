"""What numba compiles of matrix games: one pass over the rows, the same bits as ``matrix.py``.

``options`` are players ``P``, the most choices ``n``, rounds (0 without end), how many choices each player has ``[P]``,
and the table ``[cells, P]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from marlenv.games.fast.cached import compiled
from marlenv.games.fast.kernels import Array, _unit
from marlenv.games.fast.row_kernels import (
    chosen,
    clear,
    finish_row,
    finish_rows,
    go_on,
    mark,
    mask_row,
    seen_row,
)
from marlenv.games.fast.whole_games import REWARDS, STATE, Arrays, Before, Data, How, Offsets

Options = tuple[int, int, int, Array, Array]


@compiled
def _over(rounds: int, played: int) -> bool:
    return rounds > 0 and played >= rounds


@compiled
def _write(options: Options, last: Array, played: int, b: int, out: tuple[Any, ...]) -> bool:
    """Writes what follows from a position, all but rewards and most flags; returns whether it is over.

    Args:
        options: see above.
        last: what was chosen in the last round, ``[B, P]``.
        played: how many rounds were played.
        b: the row.
        out: to write to.
    """
    players, n, rounds, counts, _ = options
    over = _over(rounds, played)
    left = np.float32(rounds - played) / np.float32(rounds) if rounds > 0 else np.float32(1)
    for seat in range(players):
        seen, mask = seen_row(out, seat, b), mask_row(out, seat, b)
        clear(seen, 0, players * n)
        at = mark(seen, 0, last[b, seat], n)
        for other in range(players):
            if other != seat:
                at = mark(seen, at, last[b, other], n)
        seen[at] = left
        for i in range(n):
            mask[i] = over or i < counts[seat]
    finish_row(out, b, 0, over)
    return over


@compiled
def draw(
    options: Options, state: Arrays, keys: Array, at: int, offsets: Offsets, out: Array, start: int, stop: int
) -> int:
    """Random legal actions for each row; see :mod:`marlenv.games.fast.whole_games`."""
    players, n, rounds, counts, _ = options
    played = state[1]
    for b in range(start, stop):
        for seat in range(players):
            rank = np.int64(_unit(keys[b], at + offsets[seat]) * np.float32(counts[seat]))
            out[b, seat] = n - 1 if _over(rounds, played[b, 0]) else rank
    return 2


@compiled
def play(options: Options, before: Before, how: How, following: Data, restarted: Data, start: int, stop: int) -> int:
    """A whole step; see :mod:`marlenv.games.fast.whole_games`."""
    players, _, rounds, counts, table = options
    ((last, played, score), actions, done), (ahead, always, _) = before, how
    now_last, now_played, now_score = following[STATE]
    new_last, new_played, new_score = restarted[STATE]
    rewards = following[REWARDS]
    some_over = False
    for b in range(start, stop):
        cell, waits = np.int64(0), done[b]
        if not waits and _over(rounds, played[b, 0]):
            return 0
        for seat in range(players):
            choice = chosen(actions, seat, b)
            if not waits and not 0 <= choice < counts[seat]:
                return 0
            cell = cell * counts[seat] + choice
            now_last[b, seat] = last[b, seat] if waits else choice
        now_played[b, 0] = played[b, 0] + (not waits)
        for seat in range(players):
            held = score[b, seat]
            after = held if waits else held + table[cell, seat]
            now_score[b, seat] = after
            rewards[seat, b] = 0.0 if waits else after + 0.0 - held
        over = _write(options, now_last, now_played[b, 0], b, following)
        some_over = some_over or over
        if ahead and over:
            new_played[b, 0] = 0
            for seat in range(players):
                new_last[b, seat], new_score[b, seat] = -1, 0.0
            _write(options, new_last, 0, b, restarted)
        elif ahead:
            go_on(following, b, restarted)
    return finish_rows(following, restarted, players, True, ahead, always, some_over, start, stop)
