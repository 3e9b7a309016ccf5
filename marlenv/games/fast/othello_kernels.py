"""Steps and draws of Othello, compiled by numba: the same bits as the rules in ``othello.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from marlenv.games.fast.board_kernels import (
    NONE,
    ONE,
    at_a_time,
    at_hand,
    bits,
    draw_place,
    enter,
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

PASS = 64
STEPS = (np.uint64(1), np.uint64(8), np.uint64(7), np.uint64(9))
INNER = np.uint64(0x7E7E7E7E7E7E7E7E)  # not in the first or last column: what a line may run through from side to side
THROUGH = (INNER, ~NONE, INNER, INNER)


@inline
def _up(start: np.uint64, through: np.uint64, step: np.uint64) -> np.uint64:
    """What is reached from ``start`` along an unbroken line of up to six cells of ``through``, to higher bits."""
    line = through & (start << step)
    for _ in range(5):
        line |= through & (line << step)
    return line


@inline
def _down(start: np.uint64, through: np.uint64, step: np.uint64) -> np.uint64:
    line = through & (start >> step)
    for _ in range(5):
        line |= through & (line >> step)
    return line


@compiled
def _moves(own: np.uint64, other: np.uint64) -> np.uint64:
    """Where ``own`` may play."""
    found = NONE
    for k in range(4):
        step, through = STEPS[k], other & THROUGH[k]
        found |= (_up(own, through, step) << step) | (_down(own, through, step) >> step)
    return found & ~(own | other)


@compiled
def _turned(own: np.uint64, other: np.uint64, disc: np.uint64) -> np.uint64:
    """What ``disc`` turns over: the lines from it that end at one of ``own``."""
    found = NONE
    for k in range(4):
        step, through = STEPS[k], other & THROUGH[k]
        up, down = _up(disc, through, step), _down(disc, through, step)
        found |= up if (up << step) & own else NONE
        found |= down if (down >> step) & own else NONE
    return found


@inline
def _write(own: int, other: int, moves: int, turn: int, over: bool, r: int, seen: Any, masks: Any) -> None:
    """Writes what both players see and may do: anything where they do not act."""
    black, white = (other, own) if turn else (own, other)
    at = 192 * r
    put_word(seen[0], at, black, 64)
    put_word(seen[0], at + 64, white, 64)
    put_word(seen[1], at, white, 64)
    put_word(seen[1], at + 64, black, 64)
    for seat in range(2):
        put_word(seen[seat], at + 128, -np.int64(turn == seat), 64)
        acts = turn == seat and not over
        put_word(masks[seat], 65 * r, moves if acts else -1, 64)
        masks[seat][65 * r + PASS] = moves == 0 or not acts


@compiled
def play(
    options: tuple[Any, Data], before: Before, how: How, following: Data, restarted: Data, start: int, stop: int
) -> int:
    """See :mod:`marlenv.games.fast.whole_games`."""
    _, opening = options
    (state, (first_player, second_player), done), (ahead, always, steps) = before, how
    owns, others, moves, turns, ends = state
    after, seen, masks, turn, outcome, flags, rewards = following
    past, block = at_a_time(steps * done.size, seen[0])
    both = hands(seen, block), hands(masks, block)
    kept = *both, at_hand(after[4], block), np.empty((4, block), np.int64), np.empty((9, 5), np.int64)
    seen_now, masks_now, ends_now, words, entries = bare(kept)
    hand = words[0], words[1], words[2], words[3], ends_now
    enter(entries, following[:3], restarted[:3], opening, (hand, seen_now, masks_now), state, steps > 1)
    last = start if always else -1
    for first in range(start, stop, block):
        new = rows_from(state, first) if steps > 1 else hand
        for b in range(first, min(first + block, stop)):
            r, own, other = b - first, np.uint64(owns[b, 0]), np.uint64(others[b, 0])
            may, seat, over = np.uint64(moves[b, 0]), turns[b, 0], ends[b, 0]
            lead = 0
            if not done[b]:
                action = second_player[b] if seat else first_player[b]
                if action < 0 or action > PASS or over or (action == PASS and may != NONE):
                    return 0
                disc = NONE if action == PASS else ONE << np.uint64(action & 63)
                if action < PASS and may & disc == NONE:
                    return 0
                turned = _turned(own, other, disc)
                own, other = other & ~turned, own | disc | turned
                may, seat = _moves(own, other), 1 - seat
                over = may == NONE and _moves(other, own) == NONE
                if over:
                    lead = np.sign(bits(own) - bits(other)) * (1 - 2 * seat)
            rewards[0, b], rewards[1, b] = lead, 0 - lead
            new[0][r], new[1][r], new[2][r] = np.int64(own), np.int64(other), np.int64(may)
            new[3][r], new[4][r] = seat, over
            turn[b, 0], outcome[b, 0], flags[2, b] = seat, over, over
            _write(new[0][r], new[1][r], new[2][r], seat, over, r, seen_now, masks_now)
        last = hand_on(entries, first, min(block, stop - first), flags[2], past, ahead, steps, last)
    result = finish(entries, following, restarted, ahead, last, start, stop)
    kept[3][0, 0] = 0  # until here they are held
    return result


@compiled
def draw(
    board: tuple[int, ...], state: Arrays, keys: Array, at: int, offsets: Offsets, out: Array, start: int, stop: int
) -> int:
    """See :mod:`marlenv.games.fast.whole_games`."""
    _, _, moves, turns, _ = state
    for b in range(start, stop):
        left = np.uint64(moves[b, 0])
        place = draw_place(keys[b], at, offsets, turns[b, 0], bits(left))
        for _ in range(place):
            left &= left - ONE
        out[b, 0] = lowest(left)  # 64 where there is none
    return 2
