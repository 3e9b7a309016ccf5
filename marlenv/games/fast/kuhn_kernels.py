"""What numba compiles of Kuhn poker: one pass over the rows, the same bits as ``kuhn.py``.

``options`` are players ``P``, and whether they see all that was done. A position is a row of whole numbers, the parts
of :class:`marlenv.games.kuhn.State` one after another: cards ``P``, moves ``2 P - 1``, the stream.
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
    load_row,
    mask_row,
    permuted,
    renewed,
    reward_row,
    seen_row,
    store_row,
)
from marlenv.games.fast.whole_games import Arrays, Before, Data, How, Offsets

Options = tuple[int, int]


@compiled
def _in_range(players: int, s: Array) -> bool:
    """Whether all cards are cards."""
    fine = True
    for seat in range(players):
        fine &= 0 <= s[seat] <= players
    return fine


@compiled
def _count(players: int, s: Array) -> int:
    """How many moves were made."""
    count = 0
    for i in range(players, 3 * players - 1):
        count += s[i] >= 0
    return count


@compiled
def _first_bet(players: int, s: Array) -> int:
    """The move that was the first bet; -1 where nobody has bet."""
    for i in range(2 * players - 1):
        if s[players + i] == 1:
            return i
    return -1


@compiled
def _outcome(players: int, s: Array) -> int:
    first = _first_bet(players, s)
    if _count(players, s) != players + max(first, 0):
        return 0
    return 1 if first < 0 else 2


@compiled
def _has_bet(players: int, s: Array, seat: int) -> bool:
    return s[players + seat] == 1 or (seat < players - 1 and s[2 * players + seat] == 1)


@compiled
def _pay(players: int, s: Array, b: int, following: tuple[Any, ...]) -> None:
    """Writes what each player has won in a game that is over."""
    nobody, pot, best, winner = _first_bet(players, s) < 0, 0, np.int64(-1), 0
    for seat in range(players):
        bets = _has_bet(players, s, seat)
        pot += 1 + bets
        if (bets or nobody) and s[seat] > best:
            best, winner = s[seat], seat
    for seat in range(players):
        reward_row(following, seat)[b] = (pot if seat == winner else 0) - (1 + _has_bet(players, s, seat))


@compiled
def _start(players: int, s: Array) -> None:
    """A new game in place of one that is over, whose stream it goes on from."""
    rng = s[3 * players - 1 :]
    renewed(rng)
    permuted(rng, players + 1, s[:players])
    s[players : 3 * players - 1] = -1


@compiled
def _observe(options: Options, s: Array, seat: int, out: Any) -> None:
    """Writes what a player sees, into ``[n]``."""
    players, recall = options
    clear(out, 0, 6 * players - 1 if recall else 3 * players + 1)
    out[seat] = 1
    out[players + s[seat]] = 1
    at = 2 * players + 1
    if not recall:
        for other in range(players):
            out[at + other] = 1 + _has_bet(players, s, other)
        return
    for i in range(2 * players - 1):
        if 0 <= s[players + i] < 2:
            out[at + 2 * i + s[players + i]] = 1


@compiled
def _write(options: Options, s: Array, b: int, out: tuple[Any, ...]) -> bool:
    """Writes a position and what follows from it, all but rewards and most flags; returns whether it is over."""
    players = options[0]
    why, mover = _outcome(players, s), _count(players, s) % players
    store_row(out, b, s)
    for seat in range(players):
        _observe(options, s, seat, seen_row(out, seat, b))
        mask = mask_row(out, seat, b)
        mask[0] = mask[1] = 1
    finish_row(out, b, mover, why)
    return why != 0


@compiled
def draw(
    options: Options, state: Arrays, keys: Array, at: int, offsets: Offsets, out: Array, start: int, stop: int
) -> int:
    """A random legal action for each row; see :mod:`marlenv.games.fast.whole_games`."""
    players = options[0]
    s = np.empty(3 * players + 1, np.int64)
    for b in range(start, stop):
        load_row(state, b, s)
        if not _in_range(players, s):
            return 0
        unit = _unit(keys[b], at + offsets[_count(players, s) % players])
        out[b, 0] = 1 if _outcome(players, s) else np.int64(unit * np.float32(2))
    return 2


@compiled
def play(options: Options, before: Before, how: How, following: Data, restarted: Data, start: int, stop: int) -> int:
    """A whole step; see :mod:`marlenv.games.fast.whole_games`."""
    (state, actions, done), (ahead, always, _) = before, how
    players = options[0]
    s = np.empty(3 * players + 1, np.int64)
    some_over = False
    for b in range(start, stop):
        load_row(state, b, s)
        if not _in_range(players, s):
            return 0
        count = _count(players, s)
        for seat in range(players):
            reward_row(following, seat)[b] = 0
        if not done[b]:
            action = chosen(actions, count % players, b)
            if not 0 <= action < 2 or _outcome(players, s) or count >= 2 * players - 1:
                return 0
            s[players + count] = action
            if _outcome(players, s):
                _pay(players, s, b, following)
        over = _write(options, s, b, following)
        some_over = some_over or over
        if ahead and over:
            _start(players, s)
            _write(options, s, b, restarted)
        elif ahead:
            go_on(following, b, restarted)
    return finish_rows(following, restarted, players, False, ahead, always, some_over, start, stop)
