"""What numba compiles of tic-tac-toe: all that there is to know about a position is looked up.

``compiled.py`` imports this on use, as it needs numba. ``B`` rows. ``threads`` is what
:func:`marlenv.threads.shared` says.
"""

from __future__ import annotations

import numpy as np

from marlenv.games.fast.by_rows import by_rows
from marlenv.games.fast.cached import compiled
from marlenv.games.fast.kernels import BLOCK, Array, _put, _result, _step_of, _unit, _write_some_flags


@compiled
def pick(counts: Array, ranked: Array, code: Array, unit: Array, out: Array) -> None:
    """A free cell of tic-tac-toe for each code, at the place ``unit`` ``[B]`` of the way."""
    for b in range(code.size):
        out[b] = ranked[9 * code[b] + np.int64(counts[code[b]] * unit[b])]


@compiled
def draw(
    threads: tuple[int, int],
    tables: tuple[Array, Array, Array],
    code: Array,
    key: Array,
    at: int,
    offsets: tuple[int, int],
    out: Array,
) -> None:
    """The same with the numbers at place ``at``, and the offset of the player, of the stream of each key ``[B]``.

    Args:
        threads: to use.
        tables: of all positions: how many cells are free, which, and whose turn it is.
        code: the positions, ``[B]``.
        key: of the streams.
        at: the place in them.
        offsets: of the players.
        out: to write to, ``[B]``.
    """
    by_rows(_draw, (tables, code, key, at, offsets, out), code.size, threads)


@compiled
def _draw(
    tables: tuple[Array, Array, Array],
    code: Array,
    key: Array,
    at: int,
    offsets: tuple[int, int],
    out: Array,
    start: int,
    stop: int,
) -> int:
    counts, ranked, players = tables
    alike, first = offsets[0] == offsets[1], at + offsets[0]
    for b in range(start, stop):
        place = code[b] if np.uint64(code[b]) < np.uint64(players.size) else 0
        unit = _unit(key[b], first if alike else at + offsets[players[place]])
        out[b] = ranked[9 * place + np.int64(counts[place] * unit)]
    return 0


@compiled
def step(
    threads: tuple[int, int],
    tables: tuple[Array, ...],
    code: Array,
    x: Array,
    o: Array,
    done: Array,
    following: tuple[Array, ...],
    restarted: tuple[Array, ...],
    ahead: bool,
) -> int:
    """Plays a cell in each row that is not ``done``, and writes all that an env says about what follows.

    Args:
        threads: to use.
        tables: of all positions: where each cell leads ``[9 * n]``, whose turn it is, outcomes, returns ``[n, 2]``,
            and what each player sees and the legal cells, as bits of a word each, ``[n, 3]``.
        code: the positions, ``[B]``.
        x: the cells that the first player chose, ``[B]``.
        o: those of the second.
        done: whether the game was over already, bool ``[B]``.
        following: to write to, as :func:`marlenv.games.fast.connect_four_kernels.step` takes it.
        restarted: the same with a new game in place of each that is over.
        ahead: whether to write that.

    Returns:
        0 if a cell is illegal or a position unknown, 2 if a game is over, else 1.
    """
    always = threads[0] > 1  # a game of another thread may be over
    given = tables, code, x, o, done, following, restarted, ahead, always
    return _result(by_rows(_play, given, code.size, threads))


@compiled
def _play(
    tables: tuple[Array, ...],
    code: Array,
    x: Array,
    o: Array,
    done: Array,
    following: tuple[Array, ...],
    restarted: tuple[Array, ...],
    ahead: bool,
    always: bool,
    start: int,
    stop: int,
) -> int:
    """See :func:`step`, and :func:`_result` for what it returns.

    ``always`` says that what is restarted is wanted even where no game is over.
    """
    after, players, outcomes, returns, _ = tables
    now, rewards, fresh, fresh_rewards = following[0], following[8], restarted[0], restarted[8]
    some_over = False
    for b in range(start, stop):
        place = code[b]
        if np.uint64(place) >= np.uint64(players.size):
            return 0
        if not done[b]:
            cell = o[b] if players[place] else x[b]
            if np.uint64(cell) >= np.uint64(9):
                return 0
            place = np.int64(after[9 * place + cell])
            if place < 0:
                return 0
        now[b, 0] = place
        pays = np.float32(not done[b])
        rewards[0, b], rewards[1, b] = pays * returns[place, 0] + 0.0, pays * returns[place, 1] + 0.0
        over = outcomes[place] != 0
        some_over = some_over or over
        if ahead:
            fresh[b, 0] = 0 if over else place
            fresh_rewards[0, b], fresh_rewards[1, b] = 0, 0
    _write(tables, following, start, stop)
    if ahead and (some_over or always):
        _write(tables, restarted, start, stop)
    return 1 if some_over else 2


@compiled
def _write(tables: tuple[Array, ...], out: tuple[Array, ...], start: int, stop: int) -> None:
    """Writes what follows from positions, all but the rewards; see :func:`step`."""
    _, players, outcomes, _, words = tables
    code, seen_x, seen_o, mask_x, mask_o, turn, outcome, flags, _ = out
    sight_x, sight_o = seen_x.reshape(-1), seen_o.reshape(-1)
    moves_x, moves_o = mask_x.reshape(-1), mask_o.reshape(-1)
    for b in range(start, stop):
        place = code[b, 0]
        seat, why = players[place], outcomes[place]
        free = -1 if why else words[place, 2]
        _put(sight_x, 27 * b, words[place, 0], 27, 27 * stop)
        _put(sight_o, 27 * b, words[place, 1], 27, 27 * stop)
        _put(moves_x, 9 * b, -1 if seat else free, 9, 9 * stop)
        _put(moves_o, 9 * b, free if seat else -1, 9, 9 * stop)
        turn[b, 0], outcome[b, 0], flags[2, b] = seat, why, why != 0
    _write_some_flags(turn, flags, start, stop)


@compiled
def rollout(
    threads: tuple[int, int],
    steps: int,
    before: tuple[Array, ...],
    after: tuple[Array, ...],
    chosen: tuple[Array, Array],
    drawn_by: tuple[Array, Array, Array],
    tables: tuple[Array, ...],
    drawing: tuple[Array, int, int, tuple[int, int]],
    stops: bool,
) -> int:
    """Plays random cells, step after step.

    Args:
        threads: to use.
        steps: ``T``, the most steps.
        before: what each step starts from, see :meth:`marlenv.games.fast.step_buffers.StepBuffers.arrays_of_steps`;
            the first step is there, others are written.
        after: the same of what follows on each step, to write to.
        chosen: the cells of both players, ``[T, B]``, to write to.
        drawn_by: the tables of :func:`draw`.
        tables: those of :func:`step`.
        drawing: the keys ``[B]``, the place in their streams, how far it moves in a step, the offsets of the players.
        stops: whether to stop where a game is over; else games that are over begin anew.

    Returns:
        see :func:`marlenv.games.fast.compiled.played`.
    """
    rows = drawing[0].size
    return by_rows(_rollout, (steps, before, after, chosen, drawn_by, tables, drawing, stops), rows, threads)


@compiled
def _rollout(
    steps: int,
    before: tuple[Array, ...],
    after: tuple[Array, ...],
    chosen: tuple[Array, Array],
    drawn_by: tuple[Array, Array, Array],
    tables: tuple[Array, ...],
    drawing: tuple[Array, int, int, tuple[int, int]],
    stops: bool,
    start: int,
    stop: int,
) -> int:
    key, at, width, offsets = drawing
    end = 2 * steps
    for low in range(start, stop, BLOCK):
        high = min(low + BLOCK, stop)
        for t in range((end + 1) // 2):
            now, then = _step_of(before, t), _step_of(after, t)
            code, x, o = now[0].reshape(-1), chosen[0][t], chosen[1][t]
            _draw(drawn_by, code, key, at + t * width, offsets, x, low, high)
            for b in range(low, high):
                o[b] = x[b]
            last = t == steps - 1
            following = _step_of(before, t if last else t + 1)
            how = _play(tables, code, x, o, now[7][2], then, following, not last, True, low, high)
            if how == 0 or (how == 1 and stops):
                end = min(end, 2 * t + how)
                break
    return end
