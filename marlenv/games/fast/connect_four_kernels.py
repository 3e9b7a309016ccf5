"""What numba compiles of connect four: one pass over the rows, the same bits as the torch operations.

``compiled.py`` imports this on use, as it needs numba. A board is as in ``connect_four.py``; ``B`` rows, ``n`` columns.
``threads`` is what :func:`marlenv.threads.shared` says.
"""

from __future__ import annotations

import numpy as np

from marlenv.games.fast.by_rows import by_rows
from marlenv.games.fast.cached import compiled, inline
from marlenv.games.fast.kernels import (
    BLOCK,
    Array,
    _put,
    _result,
    _step_of,
    _unit,
    _write_some_flags,
)


@inline
def _column(ranked: Array, room: Array, board: Array, columns: int, unit: np.float32) -> int:
    """A column of one board with room at the place ``unit`` of the way; 0 where the game is over."""
    free = (~board[1] & ((1 << columns) - 1)) * (board[3] == 0)
    return ranked[8 * free + np.int64(room[free] * unit)]


@compiled
def pick(ranked: Array, room: Array, board: Array, unit: Array, columns: int, out: Array) -> None:
    """A column with room at the place ``unit`` ``[B]`` of the way; 0 where the game is over.

    Args:
        ranked: the set bits of each byte in order, ``[256 * 8]``.
        room: how many there are, ``[256]``.
        board: the positions, ``[B, 4]``.
        unit: the numbers.
        columns: of a board.
        out: to write to, ``[B]``.
    """
    for b in range(out.size):
        out[b] = _column(ranked, room, board[b], columns, unit[b])


@compiled
def draw(
    threads: tuple[int, int],
    ranked: Array,
    room: Array,
    board: Array,
    key: Array,
    at: int,
    offsets: tuple[int, int],
    columns: int,
    out: Array,
) -> None:
    """The same with the numbers at place ``at``, and the offset of the player, of the stream of each key ``[B]``."""
    by_rows(_draw, (ranked, room, board, key, at, offsets, columns, out), out.size, threads)


@compiled
def _draw(
    ranked: Array,
    room: Array,
    board: Array,
    key: Array,
    at: int,
    offsets: tuple[int, int],
    columns: int,
    out: Array,
    start: int,
    stop: int,
) -> int:
    for b in range(start, stop):
        out[b] = _column(ranked, room, board[b], columns, _unit(key[b], at + offsets[board[b, 2] & 1]))
    return 0


@compiled
def step(
    threads: tuple[int, int],
    board: Array,
    x: Array,
    o: Array,
    done: Array,
    shape: tuple[int, int, int],
    ahead: bool,
    following: tuple[Array, ...],
    restarted: tuple[Array, ...],
) -> int:
    """Plays a move in each row that is not ``done``, and writes all that an env says about what follows.

    Args:
        threads: to use.
        board: the positions, ``[B, 4]``.
        x: the columns that the first player chose, ``[B]``.
        o: those of the second.
        done: whether the game was over already, bool ``[B]``.
        shape: rows, columns, line.
        ahead: whether to write the next also.
        following: to write to: the positions; the planes of each player, ``[B, 3 * rows * columns]``; the legal
            actions of each, bool ``[B, n]``; whose turn it is ``[B, 1]``; the outcome ``[B, 1]``; flags ``[14, B]`` and
            rewards ``[2, B]``; :class:`marlenv.games.fast.step_buffers.StepBuffers`.
        restarted: the same with a new game in place of each that is over.

    Returns:
        0 if a column is illegal, 2 if a game is over, else 1.
    """
    always = threads[0] > 1  # a game of another thread may be over
    given = board, x, o, done, shape, ahead, always, following, restarted
    return _result(by_rows(_play, given, done.size, threads))


@compiled
def _play(
    board: Array,
    x: Array,
    o: Array,
    done: Array,
    shape: tuple[int, int, int],
    ahead: bool,
    always: bool,
    following: tuple[Array, ...],
    restarted: tuple[Array, ...],
    start: int,
    stop: int,
) -> int:
    """See :func:`step`, and :func:`_result` for what it returns.

    ``always`` says that what is restarted is wanted even where no game is over.
    """
    rows, columns, line = shape
    cells = np.int64(0x0101010101010101) >> (8 * (8 - rows))  # of the first column
    bottom = np.int64(255) << (8 * (rows - 1))
    after, rewards, fresh, fresh_rewards = following[0], following[8], restarted[0], restarted[8]
    some_over = False
    for b in range(start, stop):
        own, stones, ply, won = board[b, 0], board[b, 1], board[b, 2], board[b, 3]
        seat, won_now = ply & 1, np.int64(0)
        if not done[b]:
            column = o[b] if seat else x[b]
            if won or column < 0 or column >= columns or (stones >> column) & 1:
                return 0
            rests = ~stones & ((stones >> 8) | bottom)  # the cell of each column that a stone falls to
            stone = rests & (cells << column)
            mine = own | stone
            for step in (1, 8, 7, 9):
                run, length = mine, 1
                while length < line:
                    reach = min(length, line - length)
                    run = run & (run >> (step * reach))
                    length += reach
                won_now |= np.int64(run != 0)
            own, stones, ply, won = stones ^ own, stones | stone, ply + 1, won | won_now
        after[b, 0], after[b, 1], after[b, 2], after[b, 3] = own, stones, ply, won
        rewards[seat, b], rewards[1 - seat, b] = won_now, 0.0 - won_now
        over = won != 0 or ply == rows * columns
        some_over = some_over or over
        if ahead:
            keep = np.int64(not over)
            fresh[b, 0], fresh[b, 1], fresh[b, 2], fresh[b, 3] = own * keep, stones * keep, ply * keep, 0
            fresh_rewards[0, b], fresh_rewards[1, b] = 0, 0
    _write_all(rows, columns, following, start, stop)
    if ahead and (some_over or always):
        _write_all(rows, columns, restarted, start, stop)
    return 1 if some_over else 2


@inline
def _write(rows: int, columns: int, out: tuple[Array, ...], start: int, stop: int) -> None:
    board, seen_x, seen_o, mask_x, mask_o, turn, outcome, flags, _ = out
    n, sight_x, sight_o = rows * columns, seen_x.reshape(-1), seen_o.reshape(-1)
    moves_x, moves_o = mask_x.reshape(-1), mask_o.reshape(-1)
    seen_end, mask_end = 3 * n * stop, columns * stop
    for b in range(start, stop):
        own, stones, ply, won = board[b, 0], board[b, 1], board[b, 2], board[b, 3]
        seat, full = ply & 1, ply == n
        over, at = won != 0 or full, 3 * n * b
        mine, others, left = np.int64(0), np.int64(0), np.int64((1 << columns) - 1)
        for row in range(rows):
            mine |= ((own >> (8 * row)) & left) << (columns * row)
            others |= (((stones ^ own) >> (8 * row)) & left) << (columns * row)
        x, o = (others, mine) if seat else (mine, others)
        for i, plane in enumerate((x, o, np.int64(seat - 1))):
            _put(sight_x, at + i * n, plane, n, seen_end)
        for i, plane in enumerate((o, x, np.int64(-seat))):
            _put(sight_o, at + i * n, plane, n, seen_end)
        free = -1 if over else ~stones
        _put(moves_x, b * columns, -1 if seat else free, columns, mask_end)
        _put(moves_o, b * columns, free if seat else -1, columns, mask_end)
        turn[b, 0], outcome[b, 0], flags[2, b] = seat, 1 if won else 2 if full else 0, over
    _write_some_flags(turn, flags, start, stop)


@compiled
def _write_all(rows: int, columns: int, out: tuple[Array, ...], start: int, stop: int) -> None:
    """Writes what follows from positions, all but the rewards; see :func:`step`."""
    if rows == 6 and columns == 7:  # as constants the compiler unrolls what they bound
        _write(6, 7, out, start, stop)
    else:
        _write(rows, columns, out, start, stop)


@compiled
def rollout(
    threads: tuple[int, int],
    steps: int,
    before: tuple[Array, ...],
    after: tuple[Array, ...],
    chosen: tuple[Array, Array],
    tables: tuple[Array, Array],
    drawing: tuple[Array, int, int, tuple[int, int]],
    shape: tuple[int, int, int],
    stops: bool,
) -> int:
    """Plays random columns, step after step.

    Args:
        threads: to use.
        steps: ``T``, the most steps.
        before: what each step starts from, see :meth:`marlenv.games.fast.step_buffers.StepBuffers.arrays_of_steps`;
            the first step is there, others are written.
        after: the same of what follows on each step, to write to.
        chosen: the columns of both players, ``[T, B]``, to write to.
        tables: ``ranked`` and ``room`` of :func:`pick`.
        drawing: the keys ``[B]``, the place in their streams, how far it moves in a step, the offsets of the players.
        shape: rows, columns, line.
        stops: whether to stop where a game is over; else games that are over begin anew.

    Returns:
        see :func:`marlenv.games.fast.compiled.played`.
    """
    rows = drawing[0].size
    return by_rows(_rollout, (steps, before, after, chosen, tables, drawing, shape, stops), rows, threads)


@compiled
def _rollout(
    steps: int,
    before: tuple[Array, ...],
    after: tuple[Array, ...],
    chosen: tuple[Array, Array],
    tables: tuple[Array, Array],
    drawing: tuple[Array, int, int, tuple[int, int]],
    shape: tuple[int, int, int],
    stops: bool,
    start: int,
    stop: int,
) -> int:
    (ranked, room), (key, at, width, offsets) = tables, drawing
    end = 2 * steps
    for low in range(start, stop, BLOCK):
        high = min(low + BLOCK, stop)
        for t in range((end + 1) // 2):
            now, then = _step_of(before, t), _step_of(after, t)
            x, o = chosen[0][t], chosen[1][t]
            _draw(ranked, room, now[0], key, at + t * width, offsets, shape[1], x, low, high)
            for b in range(low, high):
                o[b] = x[b]
            last = t == steps - 1
            following = _step_of(before, t if last else t + 1)
            how = _play(now[0], x, o, now[7][2], shape, not last, True, then, following, low, high)
            if how == 0 or (how == 1 and stops):
                end = min(end, 2 * t + how)
                break
    return end
