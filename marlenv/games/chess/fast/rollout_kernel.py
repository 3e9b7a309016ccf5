"""Rollouts of random play in one call; compiled by numba for the CPU. ``paths.py`` calls this.

Of some games at a time positions and masks stay in memory at hand: games are played there, and what an env says of them
is moved to where it belongs, past the caches where all of it is more than they hold.
"""

from __future__ import annotations

import numpy as np

from marlenv.games.chess.fast.env_kernels import (
    Masks,
    _chosen,
    _draw,
    _entries,
    _flags,
    _masks,
    _positions,
    _rows,
    _say,
    _write_mask,
)
from marlenv.games.chess.fast.kernels import RowArray, U, _copy, _permitted, _ply
from marlenv.games.fast.by_rows import by_rows
from marlenv.games.fast.cached import compiled, inline
from marlenv.games.fast.kernels import CACHE, move
from marlenv.games.fast.plain_arrays import bare

AT_HAND = 64
"""Games whose steps are played before those of the next."""
BOARD, PLANES = 128, 584
"""Bytes of a board; of its moves, and of packed masks."""

Step = tuple[int, int, int, int, int, int, int, int, int]
"""The addresses of a step: board, history, moves, the masks of White and Black, turns, flags, outcomes, rewards."""
Near = tuple[int, int, int, int, int]
"""The addresses of what is at hand, counted from game 0 as those of a step: board, history, moves, packed masks."""


@compiled
def rollout(
    threads: tuple[int, int],
    n: int,
    kept: int,
    width: int,
    steps: int,
    before: Step,
    after: Step,
    chosen: tuple[int, int],
    fresh: tuple[int, int],
    stops: bool,
    drawing: tuple[int, int, int, int],
    limits: RowArray,
    chess960: bool,
) -> int:
    """Plays random actions, step after step, into memory where that of a step lies behind that of the step before.

    Args:
        threads: what :func:`marlenv.threads.shared` says.
        n: games.
        kept: positions in a history.
        width: words of a mask.
        steps: the most steps.
        before: the first step. It is there; others are written.
        after: the same of what follows on each step, to write to.
        chosen: the actions of White and of Black, to write to.
        fresh: a fresh board and its moves.
        stops: whether to stop where a game is over; else games that are over begin anew.
        drawing: the address of the keys, the place in their streams, the offsets of White and Black there.
        limits: see ``kernels.play``.
        chess960: how castling is numbered.

    Returns:
        see :func:`marlenv.games.fast.compiled.played`.
    """
    given = n, kept, width, steps, before, after, chosen, fresh, stops, drawing, bare(limits), chess960
    return by_rows(_rollout, given, n, threads)


@compiled
def _rollout(
    n: int,
    kept: int,
    width: int,
    steps: int,
    before: Step,
    after: Step,
    chosen: tuple[int, int],
    fresh: tuple[int, int],
    stops: bool,
    drawing: tuple[int, int, int, int],
    limits: RowArray,
    chess960: bool,
    first_game: int,
    last_game: int,
) -> int:
    end, row = 2 * steps, 3 * BOARD + 8 * kept + PLANES + 16 * width
    past, offsets = 2 * steps * n * row > CACHE, (drawing[2], drawing[3])
    room = np.empty((BOARD + 8 * kept + 3 * PLANES) * AT_HAND, np.uint8)
    for low in range(first_game, last_game, AT_HAND):
        high = min(low + AT_HAND, last_game)
        near = _near(room.ctypes.data, low, kept)
        _take_up(near, before, kept, low, high)
        for t in range((end + 1) // 2):
            now, then = _step_at(before, t, n, kept, width), _step_at(after, t, n, kept, width)
            actions = chosen[0] + t * 8 * n, chosen[1] + t * 8 * n
            _draw(n, near[0], near[2], drawing[0], drawing[1] + 2 * t, offsets, actions, low, high)
            over = _play(n, kept, width, near, actions, now[6] + 2 * n, then, limits, chess960, low, high)
            if over < 0:
                end = min(end, 2 * t)
                break
            _hand_on(near, then, n, kept, width, low, high, past)
            if stops and over:
                end = min(end, 2 * t + 1)
                break
            if t < steps - 1:
                then = _step_at(before, t + 1, n, kept, width)
                _begin(n, kept, width, near, fresh, then, low, high)
                _hand_on(near, then, n, kept, width, low, high, past)
    room[0] = 0  # until here it is held
    return end


@inline
def _step_at(first: Step, t: int, n: int, kept: int, width: int) -> Step:
    """Step ``t``."""
    board, history, moves, white, black, turns, flags, outcomes, rewards = first
    rows = t * n
    state = board + 3 * BOARD * rows, history + 8 * kept * rows, moves + PLANES * rows
    masks = white + 16 * width * rows, black + 16 * width * rows
    return *state, *masks, turns + 8 * rows, flags + 14 * rows, outcomes + rows, rewards + 8 * rows


@inline
def _near(memory: int, low: int, kept: int) -> Near:
    """What is at hand in some memory, of the games from ``low`` on."""
    history = memory + BOARD * AT_HAND
    moves = history + 8 * kept * AT_HAND
    white = moves + PLANES * AT_HAND
    black, planes = white + PLANES * AT_HAND, PLANES * low
    return memory - BOARD * low, history - 8 * kept * low, moves - planes, white - planes, black - planes


@inline
def _take_up(near: Near, first: Step, kept: int, low: int, high: int) -> None:
    """Copies positions to what is at hand."""
    for k, size in enumerate((BOARD, 8 * kept, PLANES)):
        move(near[k] + size * low, first[k] + size * low, size * (high - low), False)


@inline
def _hand_on(near: Near, to: Step, n: int, kept: int, width: int, low: int, high: int, past: bool) -> None:
    """Moves what is at hand to a step; boards to what players see, too."""
    for k in range(3):
        move(to[0] + BOARD * (k * n + low), near[0] + BOARD * low, BOARD * (high - low), past)
    for k, size in enumerate((8 * kept, PLANES, PLANES, PLANES)):
        if k < 2 or 8 * width == PLANES:
            move(to[k + 1] + size * low, near[k + 1] + size * low, size * (high - low), past)


@inline
def _write_masks(b: int, board: RowArray, moves: RowArray, masks: tuple[Masks, Masks]) -> None:
    """What both players may do in game ``b``."""
    for seat in range(2):
        _write_mask(b, moves, board[15] == 0 and board[10] == seat, masks[seat])


@inline
def _masks_to(near: Near, to: Step, n: int, width: int) -> tuple[Masks, Masks]:
    """Where masks are written: packed ones at hand."""
    if 8 * width == PLANES:
        return _masks(near[3], n, width), _masks(near[4], n, width)
    return _masks(to[3], n, width), _masks(to[4], n, width)


@inline
def _play(
    n: int,
    kept: int,
    width: int,
    near: Near,
    chosen: tuple[int, int],
    done_at: int,
    to: Step,
    limits: RowArray,
    chess960: bool,
    low: int,
    high: int,
) -> int:
    """Plays actions in games at hand; whether one is over then, -1 where that cannot be."""
    board, history, moves = _positions((near[0], near[1], near[2]), n, kept)
    white, black, done = _rows(chosen[0], n, 1), _rows(chosen[1], n, 1), _flags(done_at, n)
    for b in range(low, high):
        if not (board[b, 15] if done[b] else _permitted(moves[b], _chosen(b, board, white, black))):
            return -1
    words, past, planes, over = board.view(U), history.view(U), moves.view(U), 0
    entries, masks = _entries(n, (to[5], to[6], to[7], to[8], to[0])), _masks_to(near, to, n, width)
    for b in range(low, high):
        if not done[b]:
            _ply(words[b], past[b], past[b], planes[b], _chosen(b, board, white, black), limits, chess960)
        _say(b, board[b], done[b] == 0, entries)
        over |= board[b, 15] != 0
    for b in range(low, high):
        _write_masks(b, board[b], moves[b], masks)
    return over


@inline
def _begin(n: int, kept: int, width: int, near: Near, fresh: tuple[int, int], to: Step, low: int, high: int) -> None:
    """Begins other games in place of those at hand that are over; those have no history, like new ones."""
    board, _, moves = _positions((near[0], near[1], near[2]), n, kept)
    first = _rows(fresh[0], 1, 16), _rows(fresh[1], 1, 73)
    entries, masks = _entries(n, (to[5], to[6], to[7], to[8], to[0])), _masks_to(near, to, n, width)
    for b in range(low, high):
        over = board[b, 15] != 0
        if over:
            _copy(first[0][0], board[b])
            _copy(first[1][0], moves[b])
        if over or 8 * width != PLANES:  # packed ones of others are at hand
            _write_masks(b, board[b], moves[b], masks)
        _say(b, board[b], False, entries)
