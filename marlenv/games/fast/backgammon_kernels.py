"""What numba compiles of backgammon: one pass over the rows, the same bits as ``backgammon.py``, whose words these are.

``options`` are how many checkers a player has, the most that a game pays, and which setup it has. A
position is a row of whole numbers, the parts of :class:`marlenv.games.backgammon.State` one after another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from marlenv.games.fast.cached import compiled
from marlenv.games.fast.kernels import Array, _unit
from marlenv.games.fast.row_kernels import (
    chosen,
    finish_row,
    finish_rows,
    go_on,
    load_row,
    mask_row,
    renewed,
    reward_row,
    seen_row,
    store_row,
    whole,
)
from marlenv.games.fast.whole_games import Arrays, Before, Data, How, Offsets

POINTS, BAR, OFF, NONE = 24, 24, 25, 25
PAIR = 26 * 26
HOME = (1 << 6) - 1
DICE, TURN, AGAIN, RNG, END = 52, 54, 55, 56, 58  # behind the checkers of both, 26 each
SETUPS = np.zeros((2, 26), np.int64)
SETUPS[0, 5], SETUPS[0, 7], SETUPS[0, 12], SETUPS[0, 23] = 5, 3, 5, 2
SETUPS[1, 21:24] = 1
UNEQUAL = np.array([[high, low] for low in range(1, 7) for high in range(low + 1, 7)], np.int64)
Options = tuple[int, int, int]


@compiled
def _in_range(s: Array) -> bool:
    """Whether all numbers of a position are in range that are places elsewhere."""
    return 0 <= s[TURN] < 2 and 1 <= s[DICE] <= 6 and 1 <= s[DICE + 1] <= 6


@compiled
def _worth(checkers: int, s: Array) -> int:
    """1 for a win, 2 for a gammon, 3 for a backgammon, 0 while the game goes on."""
    if s[OFF] != checkers and s[26 + OFF] != checkers:
        return 0
    bare, behind = False, False
    for first in (0, 26):
        if s[first + OFF] == 0:
            bare = True
            held = 0
            for place in range(POINTS - 6, BAR + 1):
                held += s[first + place]
            behind = behind or held > 0
    return 1 + bare + behind


@compiled
def _movable(mine: int, inside: int, number: int) -> int:
    """From which places a checker can move by a number; bits."""
    moves = mine & inside
    if mine >> BAR != 0:
        moves &= 1 << BAR
    if mine <= HOME:
        exact = 1 << (number - 1)
        if mine & exact:
            moves |= exact
        elif mine < exact:
            last = 32
            while last and not mine & last:
                last >>= 1
            moves |= last
    return moves


@compiled
def _moves(checkers: int, s: Array, out: Array) -> None:
    """The legal actions: for both orders of the numbers and each first place, the second ones as bits; ``[52]``."""
    for i in range(52):
        out[i] = 0
    if _worth(checkers, s):
        return
    own, other = 26 * s[TURN], 26 * (1 - s[TURN])
    mine, alone, free = np.int64(0), np.int64(0), np.int64(0)
    for place in range(NONE):
        mine |= np.int64(s[own + place] > 0) << place
        alone |= np.int64(s[own + place] == 1) << place
    for place in range(POINTS):
        free |= np.int64(s[other + POINTS - 1 - place] <= 1) << place
    every = (np.int64(1) << NONE) - 1
    some, two = False, False
    firsts = (np.int64(0), np.int64(0))
    for low in range(2):
        number, next_ = s[DICE + low], s[DICE + 1 - low]
        first = _movable(mine, (free << number) & every, number)
        firsts = (first, firsts[1]) if low == 0 else (firsts[0], first)
        some = some or first != 0
        inside = (free << next_) & every
        for place in range(NONE):
            bit = np.int64(1) << place
            if first & bit:
                second = _movable((mine & ~(alone & bit)) | (bit >> number), inside, next_)
                two = two or second != 0
                out[26 * low + place] = second
    if not two:
        low = 0 if firsts[0] else 1
        for place in range(NONE):
            if (firsts[low] >> place) & 1:
                out[26 * low + place] |= np.int64(1) << NONE
    if s[DICE] == s[DICE + 1]:  # of a double, one order is enough
        for place in range(26, 52):
            out[place] = 0
    if not some:
        out[51] = np.int64(1) << NONE


@compiled
def _move(s: Array, place: int, number: int) -> None:
    """Moves a checker of the player to move from a place; 25 moves none."""
    if place == NONE:
        return
    own, other, to = 26 * s[TURN], 26 * (1 - s[TURN]), place - number
    s[own + place] -= 1
    s[own + (to if to >= 0 else OFF)] += 1
    if to >= 0 and s[other + 23 - to] == 1:
        s[other + 23 - to] = 0
        s[other + BAR] += 1


@compiled
def _play(s: Array, action: int) -> None:
    """Plays a legal action in place."""
    low, places = action // PAIR, action % PAIR
    _move(s, places // 26, s[DICE + low])
    _move(s, places % 26, s[DICE + 1 - low])
    if s[DICE] == s[DICE + 1] and not s[AGAIN] and places % 26 != NONE:
        s[AGAIN] = 1
        return
    first, second = whole(s[RNG], s[RNG + 1] + 1, 1, 7), whole(s[RNG], s[RNG + 1] + 2, 1, 7)
    s[DICE], s[DICE + 1] = max(first, second), min(first, second)
    s[TURN], s[AGAIN] = 1 - s[TURN], 0
    s[RNG + 1] += 2


@compiled
def _start(options: Options, s: Array) -> None:
    """A new game in place of one that is over, whose stream it goes on from."""
    renewed(s[RNG:END])
    pair = whole(s[RNG], 1, 0, 15)
    for place in range(26):
        s[place] = s[26 + place] = SETUPS[options[2], place]
    s[DICE], s[DICE + 1] = UNEQUAL[pair, 0], UNEQUAL[pair, 1]
    s[TURN], s[AGAIN], s[RNG + 1] = whole(s[RNG], 2, 0, 2), 0, 2


@compiled
def _observe(s: Array, seat: int, out: Any) -> None:
    """Writes what a player sees, into ``[201]``."""
    mine, theirs = 26 * seat, 26 * (1 - seat)
    for point in range(2 * POINTS):
        count = s[mine + point] if point < POINTS else s[theirs + 2 * POINTS - 1 - point]
        at = 4 * point
        out[at], out[at + 1], out[at + 2], out[at + 3] = count == 1, count == 2, count == 3, max(count - 3, 0)
    out[192], out[193], out[194] = s[mine + BAR], s[mine + OFF], s[TURN] == seat
    out[195], out[196], out[197] = s[theirs + BAR], s[theirs + OFF], s[TURN] != seat
    out[198], out[199], out[200] = s[DICE + 1], s[DICE], s[AGAIN]


@compiled
def _write(options: Options, s: Array, b: int, moves: Array, out: tuple[Any, ...]) -> bool:
    """Writes a position and what follows from it, all but rewards and most flags; returns whether it is over."""
    why, mover = _worth(options[0], s), s[TURN]
    store_row(out, b, s)
    _moves(options[0], s, moves)
    for seat in range(2):
        _observe(s, seat, seen_row(out, seat, b))
        mask, free = mask_row(out, seat, b), why != 0 or seat != mover
        for i in range(2 * PAIR):
            mask[i] = free
        if not free:
            for first in range(52):
                if moves[first]:
                    for second in range(26):
                        mask[26 * first + second] = (moves[first] >> second) & 1
    finish_row(out, b, mover, why)
    return why != 0


@compiled
def draw(
    options: Options, state: Arrays, keys: Array, at: int, offsets: Offsets, out: Array, start: int, stop: int
) -> int:
    """A random legal action for each row; see :mod:`marlenv.games.fast.whole_games`."""
    s, moves = np.empty(END, np.int64), np.empty(52, np.int64)
    for b in range(start, stop):
        load_row(state, b, s)
        if not _in_range(s):
            return 0
        _moves(options[0], s, moves)
        count = 0
        for first in range(52):
            if moves[first]:
                for second in range(26):
                    count += (moves[first] >> second) & 1
        rank = np.int64(_unit(keys[b], at + offsets[s[TURN]]) * np.float32(count))
        action = 2 * PAIR - 1
        for first in range(52):
            if moves[first] and rank >= 0:
                for second in range(26):
                    if (moves[first] >> second) & 1:
                        if rank == 0:
                            action = 26 * first + second
                        rank -= 1
        out[b, 0] = action
    return 2


@compiled
def play(options: Options, before: Before, how: How, following: Data, restarted: Data, start: int, stop: int) -> int:
    """A whole step; see :mod:`marlenv.games.fast.whole_games`."""
    (state, actions, done), (ahead, always, _) = before, how
    checkers, most, _ = options
    s, moves = np.empty(END, np.int64), np.empty(52, np.int64)
    some_over = False
    for b in range(start, stop):
        load_row(state, b, s)
        if not _in_range(s):
            return 0
        won: Any = np.int64(0)
        if not done[b]:
            action = chosen(actions, s[TURN], b)
            _moves(checkers, s, moves)
            if not 0 <= action < 2 * PAIR or not (moves[action // 26] >> (action % 26)) & 1:
                return 0
            _play(s, action)
            won = min(_worth(checkers, s), most)
        for seat in range(2):
            reward_row(following, seat)[b] = won if s[26 * seat + OFF] == checkers else -won
        over = _write(options, s, b, moves, following)
        some_over = some_over or over
        if ahead and over:
            _start(options, s)
            _write(options, s, b, moves, restarted)
        elif ahead:
            go_on(following, b, restarted)
    return finish_rows(following, restarted, 2, False, ahead, always, some_over, start, stop)
