"""What numba compiles of Leduc poker: one pass over the rows, the same bits as ``leduc.py``, whose words these are.

``options`` are players ``P``, and whether they see all that was done. A position is a row of whole numbers, the parts
of :class:`marlenv.games.leduc.State` one after another; :func:`_parts` says where each begins.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from marlenv.games.fast.cached import compiled
from marlenv.games.fast.kernels import Array
from marlenv.games.fast.row_kernels import (
    chosen,
    clear,
    finish_row,
    finish_rows,
    go_on,
    load_row,
    mark,
    permuted,
    ranked,
    renewed,
    reward_row,
    seen_row,
    store_row,
    whole,
    write_masks,
)
from marlenv.games.fast.whole_games import Arrays, Before, Data, How, Offsets

FOLD, CALL, RAISE = range(3)  # as in leduc.py
MOST_RAISES = 2
BETS = (2, 4)
TURN, WAITING, RNG, END = 0, 1, 2, 4  # behind who has folded
Options = tuple[int, int]


@compiled
def _parts(players: int) -> tuple[int, int, int, int]:
    """Where moves, chips, who has folded, and what is one number each, begin; the card on the table is at ``P``."""
    chips = players + 1 + 2 * (3 * players - 2)
    return players + 1, chips, chips + players, chips + 2 * players


@compiled
def _in_range(players: int, s: Array) -> bool:
    """Whether all numbers of a position are in range that are places elsewhere."""
    fine = 0 <= s[_parts(players)[3] + TURN] < players
    for i in range(players):
        fine &= 0 <= s[i] < 2 * (players + 1)
    return fine


@compiled
def _left(players: int, s: Array) -> int:
    """How many have not folded."""
    folded, left = _parts(players)[2], players
    for i in range(players):
        left -= s[folded + i]
    return left


@compiled
def _outcome(players: int, s: Array) -> int:
    if _left(players, s) == 1:
        return 1
    return 2 if s[_parts(players)[3] + WAITING] == 0 and s[players] >= 0 else 0


@compiled
def _stakes(players: int, s: Array) -> int:
    """The most chips that a player has in the pot."""
    chips = _parts(players)[1]
    most = s[chips]
    for i in range(1, players):
        most = max(most, s[chips + i])
    return most


@compiled
def _legal(players: int, s: Array, out: Array) -> None:
    """What the player to move may do; into bool ``[3]``."""
    moves, chips, _, rest = _parts(players)
    size = 3 * players - 2
    first, raises = moves + size * (s[players] >= 0), 0
    for i in range(first, first + size):
        raises += s[i] == RAISE
    goes_on = _outcome(players, s) == 0
    out[FOLD] = goes_on and s[chips + s[rest + TURN]] < _stakes(players, s)
    out[CALL], out[RAISE] = goes_on, goes_on and raises < MOST_RAISES


@compiled
def _play(players: int, s: Array, action: int) -> None:
    """Plays a legal action in place."""
    moves, chips, folded, rest = _parts(players)
    turn, size, second = s[rest + TURN], 3 * players - 2, s[players] >= 0
    first, count = moves + size * second, 0
    for i in range(first, first + size):
        count += s[i] >= 0
    if count < size:
        s[first + count] = action
    if action == FOLD:
        s[folded + turn] = 1
    else:
        s[chips + turn] = _stakes(players, s) + (BETS[1] if second else BETS[0]) * (action == RAISE)
    left = _left(players, s)
    s[rest + WAITING] = left - 1 if action == RAISE else s[rest + WAITING] - 1
    if s[rest + WAITING] == 0 and not second and left > 1:
        s[rest + WAITING], turn = left, players - 1
        _turn_up(players, s)
    turn = (turn + 1) % players
    for _ in range(players - 1):
        if s[folded + turn]:
            turn = (turn + 1) % players
    s[rest + TURN] = turn


@compiled
def _turn_up(players: int, s: Array) -> None:
    """Draws the card on the table from those that nobody has."""
    rng, count = _parts(players)[3] + RNG, 2 * (players + 1)
    for card in range(2 * (players + 1)):
        count -= _is_held(players, s, card)
    s[rng + 1] += 1
    nth = whole(s[rng], s[rng + 1], 0, count)
    for card in range(2 * (players + 1)):
        if not _is_held(players, s, card):
            if nth == 0:
                s[players] = card
            nth -= 1


@compiled
def _is_held(players: int, s: Array, card: int) -> bool:
    held = False
    for i in range(players):
        held |= s[i] == card
    return held


@compiled
def _strength(players: int, s: Array, seat: int) -> int:
    """How good a player's hand is; -1 of who has folded."""
    rank = s[seat] // 2
    if s[_parts(players)[2] + seat]:
        return -1
    return rank + 2 * (players + 1) * (rank == s[players] // 2)


@compiled
def _pay(players: int, s: Array, b: int, following: tuple[Any, ...]) -> None:
    """Writes what each player has won in a game that is over."""
    chips = _parts(players)[1]
    best, winners, pot = np.int64(-1), 0, np.int64(0)
    for seat in range(players):
        strength = _strength(players, s, seat)
        pot += s[chips + seat]
        if strength > best:
            best, winners = strength, 0
        winners += strength == best
    share = np.float32(pot) / np.float32(winners)
    for seat in range(players):
        won = share if _strength(players, s, seat) == best else np.float32(0)
        reward_row(following, seat)[b] = won - np.float32(s[chips + seat])


@compiled
def _start(players: int, s: Array) -> None:
    """A new game in place of one that is over, whose stream it goes on from."""
    _, chips, folded, rest = _parts(players)
    rng = s[rest + RNG :]
    renewed(rng)
    permuted(rng, 2 * (players + 1), s[:players])
    s[players:chips] = -1
    s[chips:folded] = 1
    s[folded:rest] = 0
    s[rest + TURN], s[rest + WAITING] = 0, players


@compiled
def _observe(options: Options, s: Array, seat: int, out: Any) -> None:
    """Writes what a player sees, into ``[n]``."""
    players, recall = options
    moves, chips, _, _ = _parts(players)
    deck = 2 * (players + 1)
    clear(out, 0, players + 2 * deck + (2 * (chips - moves) if recall else players))
    out[seat] = 1
    at = mark(out, players, s[seat], deck)
    at = mark(out, at, s[players], deck)
    if recall:
        for i in range(moves, chips):
            at = mark(out, at, s[i] - 1, 2)
    else:
        for i in range(players):
            out[at + i] = s[chips + i]


@compiled
def _write(options: Options, s: Array, b: int, legal: Array, out: tuple[Any, ...]) -> bool:
    """Writes a position and what follows from it, all but rewards and most flags; returns whether it is over."""
    players = options[0]
    why, mover = _outcome(players, s), s[_parts(players)[3] + TURN]
    store_row(out, b, s)
    _legal(players, s, legal)
    for seat in range(players):
        _observe(options, s, seat, seen_row(out, seat, b))
    write_masks(out, players, b, legal, -1 if why else mover)
    finish_row(out, b, mover, why)
    return why != 0


@compiled
def draw(
    options: Options, state: Arrays, keys: Array, at: int, offsets: Offsets, out: Array, start: int, stop: int
) -> int:
    """A random legal action for each row; see :mod:`marlenv.games.fast.whole_games`."""
    rest = _parts(options[0])[3]
    s, legal = np.empty(rest + END, np.int64), np.empty(3, np.bool_)
    for b in range(start, stop):
        load_row(state, b, s)
        if not _in_range(options[0], s):
            return 0
        _legal(options[0], s, legal)
        out[b, 0] = ranked(legal, keys[b], at + offsets[s[rest + TURN]])
    return 2


@compiled
def play(options: Options, before: Before, how: How, following: Data, restarted: Data, start: int, stop: int) -> int:
    """A whole step; see :mod:`marlenv.games.fast.whole_games`."""
    (state, actions, done), (ahead, always, _) = before, how
    players = options[0]
    rest = _parts(players)[3]
    s, legal = np.empty(rest + END, np.int64), np.empty(3, np.bool_)
    some_over = False
    for b in range(start, stop):
        load_row(state, b, s)
        if not _in_range(players, s):
            return 0
        for seat in range(players):
            reward_row(following, seat)[b] = 0
        if not done[b]:
            action = chosen(actions, s[rest + TURN], b)
            _legal(players, s, legal)
            if not 0 <= action < 3 or not legal[action]:
                return 0
            _play(players, s, action)
            if _outcome(players, s):
                _pay(players, s, b, following)
        over = _write(options, s, b, legal, following)
        some_over = some_over or over
        if ahead and over:
            _start(players, s)
            _write(options, s, b, legal, restarted)
        elif ahead:
            go_on(following, b, restarted)
    return finish_rows(following, restarted, players, False, ahead, always, some_over, start, stop)
