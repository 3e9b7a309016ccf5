"""What numba compiles of tic-tac-toe with TorchRL's keys, whose data show boards and not positions.

``compiled.py`` imports this on use, as it needs numba. ``B`` rows. ``threads`` is what
:func:`marlenv.threads.shared` says. What is written are rows of eight entries, given by their addresses: boards
int32 ``[B, 9]``, turns int32 ``[B]``, free cells bool ``[B, 9]``, three flags ``[B]`` and two rewards float32 ``[B]``;
of games that begin there are no rewards.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types

from marlenv.games.fast.by_rows import by_rows
from marlenv.games.fast.cached import compiled, inline
from marlenv.games.fast.kernels import BLOCK, Array, _copy, _moving, _pointer, _result, _unit
from marlenv.games.fast.plain_arrays import bare

_bytes, _int32s, _int64s = (_pointer(kind) for kind in (types.uint8, types.int32, types.int64))
_copy_36, _copy_9, _copy_4, _copy_1 = (_moving(count) for count in (36, 9, 4, 1))


@compiled
def read(from_shown: Array, shown: int, turn: int, start: int, code: Array) -> bool:
    """The positions of shown boards (-1, 0, 1) and turns from a row on; False where one is in no table.

    Args:
        from_shown: the position of a number whose digits are one more than the cells, plus 3**9 where o is to move.
        shown: the address of the boards.
        turn: the address of the turns.
        start: the first row.
        code: to write to, a row each.
    """
    cells, turns = _int32s(shown + 36 * start), _int32s(turn + 4 * start)
    fine: Any = True
    for b in range(code.size):  # a loop for each thing, so that compilers do many rows at once
        at = 9 * b
        low = cells[at] + 3 * cells[at + 1] + 9 * cells[at + 2]
        middle = 27 * cells[at + 3] + 81 * cells[at + 4] + 243 * cells[at + 5]
        high = 729 * cells[at + 6] + 2187 * cells[at + 7] + 6561 * cells[at + 8]
        number = low + middle + high + 19683 * turns[b] + 9841
        fine &= np.uint64(number) < np.uint64(from_shown.size)
        code[b] = number
    if fine:
        for b in range(code.size):
            code[b] = from_shown[code[b]]
    return fine


@inline
def _write_row(source: int, b: int, shown: int, turn: int, free: int) -> None:
    """Writes board, turn and free cells of a position into row ``b``."""
    _copy_36(shown + 36 * b, source)
    _copy_4(turn + 4 * b, source + 36)
    _copy_9(free + 9 * b, source + 48)


@compiled
def step(
    threads: tuple[int, int],
    tables: tuple[Array, Array, Array],
    shown: int,
    turn: int,
    action: int,
    count: int,
    rows: tuple[int, ...],
    ahead: bool,
    restarted: tuple[int, ...],
) -> int:
    """Plays a cell on each board, and writes all data of what follows.

    Args:
        threads: to use.
        tables: as :func:`read` takes them; where each cell leads from each position, -1 where it is not free; all
            data of each position, bytes ``[n, 64]``, see ``tictactoe/env.py``.
        shown: the address of the boards.
        turn: the address of the turns.
        action: the address of the cells, int64 ``[B]``.
        count: how many boards there are.
        rows: where to write.
        ahead: whether to write the next, too.
        restarted: where to write the same with a new game in place of each that is over, if any is.

    Returns:
        0 if a cell is illegal or a board unknown, 2 if a game is over, else 1.
    """
    always = threads[0] > 1  # a game of another thread may be over
    return _result(by_rows(_step, (bare(tables), shown, turn, action, rows, ahead, always, restarted), count, threads))


@compiled
def _step(
    tables: tuple[Array, Array, Array],
    shown: int,
    turn: int,
    action: int,
    rows: tuple[int, ...],
    ahead: bool,
    always: bool,
    restarted: tuple[int, ...],
    start: int,
    stop: int,
) -> int:
    from_shown, after, data = tables
    place = np.empty(stop - start, np.int32)
    if not read(from_shown, shown, turn, start, place):
        return 0
    return _play(after, data, place, action, rows, ahead, always, restarted, start, stop)


@compiled
def _play(
    after: Array,
    data: Array,
    place: Array,
    action: int,
    rows: tuple[int, ...],
    ahead: bool,
    always: bool,
    restarted: tuple[int, ...],
    start: int,
    stop: int,
) -> int:
    """See :func:`step`: moves the positions ``place`` of some rows on, and writes what follows.

    ``always`` says that what is restarted is wanted even where no game is over.
    """
    cells: Any = _int64s(action)
    fine: Any = True
    for b in range(start, stop):
        fine &= np.uint64(cells[b]) < np.uint64(9)
    if not fine:
        return 0
    lowest = np.int64(0)
    for b in range(start, stop):
        i = b - start
        place[i] = after[9 * place[i] + cells[b]]
        lowest = min(lowest, np.int64(place[i]))
    if lowest < 0:
        return 0
    boards, turns, free, terminated, ends, truncated, first, second = rows
    at, over, done, cut = data.ctypes.data, False, _bytes(ends), _bytes(truncated)
    for b in range(start, stop):
        source = at + 64 * np.int64(place[b - start])
        _write_row(source, b, boards, turns, free)
        _copy_4(first + 4 * b, source + 40)
        _copy_4(second + 4 * b, source + 44)
        _copy_1(ends + b, source + 57)
    for b in range(start, stop):
        cut[b] = 0
        over |= done[b] != 0
    _copy(terminated + start, ends + start, stop - start)
    if ahead and (over or always):
        _write_restarted(at, rows, restarted, start, stop)
    return 1 if over else 2


@inline
def _write_restarted(data: int, rows: tuple[int, ...], restarted: tuple[int, ...], start: int, stop: int) -> None:
    """Writes what was written again, with the data at the address ``data`` where a game is over."""
    boards, turns, free, terminated, ends, truncated = restarted
    count = stop - start
    _copy(boards + 36 * start, rows[0] + 36 * start, 36 * count)
    _copy(turns + 4 * start, rows[1] + 4 * start, 4 * count)
    _copy(free + 9 * start, rows[2] + 9 * start, 9 * count)
    done, flags = _bytes(rows[4]), (_bytes(terminated), _bytes(ends), _bytes(truncated))
    for b in range(start, stop):
        flags[0][b] = flags[1][b] = flags[2][b] = 0
    for b in range(start, stop):  # copying all and mending some is several times as fast as looking all of them up
        if done[b]:
            _write_row(data, b, boards, turns, free)


@compiled
def draw(
    threads: tuple[int, int], tables: tuple[Array, Array, Array], shown: int, turn: int, key: Array, at: int, out: int
) -> bool:
    """A free cell for each board, by the number at place ``at`` of the stream of each key ``[B]``.

    Args:
        threads: to use.
        tables: as :func:`read` takes them; how many cells are free in each position, and which.
        shown: the address of the boards.
        turn: the address of the turns.
        key: of the streams.
        at: the place in them.
        out: the address to write to, int64 ``[B]``.

    Returns:
        False if a board is unknown.
    """
    return by_rows(_draw_shown, (bare(tables), shown, turn, bare(key), at, out), key.size, threads) != 0


@compiled
def _draw_shown(
    tables: tuple[Array, Array, Array], shown: int, turn: int, key: Array, at: int, out: int, start: int, stop: int
) -> int:
    from_shown, counts, ranked = tables
    code = np.empty(stop - start, np.int32)
    if not read(from_shown, shown, turn, start, code):
        return 0
    _draw(counts, ranked, code, key, at, out, start)
    return 1


@inline
def _draw(counts: Array, ranked: Array, code: Array, key: Array, at: int, out: int, start: int) -> None:
    cells = _int64s(out)
    for i in range(code.size):
        cells[start + i] = ranked[9 * code[i] + np.int64(counts[code[i]] * _unit(key[start + i], at))]


@compiled
def rollout(
    threads: tuple[int, int],
    steps: int,
    before: tuple[int, ...],
    after: tuple[int, ...],
    chosen: int,
    tables: tuple[Array, Array, Array, Array, Array],
    drawing: tuple[Array, int, int],
    stops: bool,
) -> int:
    """Plays random cells, step after step, into memory where that of a step lies behind that of the step before.

    Args:
        threads: to use.
        steps: ``T``, the most steps.
        before: what the first step starts from, the addresses of six entries; those of other steps are written.
        after: what follows on the first step, and behind it on the others, to write to.
        chosen: the address of the cells, int64 ``[T, B]``, to write to.
        tables: the three of :func:`step`, then how many cells are free in each position, and which.
        drawing: the keys ``[B]``, the place in their streams, how far it moves in a step.
        stops: whether to stop where a game is over; else games that are over begin anew.

    Returns:
        see :func:`marlenv.games.fast.compiled.played`.
    """
    return by_rows(
        _rollout, (steps, before, after, chosen, bare(tables), bare(drawing), stops), drawing[0].size, threads
    )


@inline
def _six(at: tuple[int, ...], n: int) -> tuple[int, int, int, int, int, int]:
    """The addresses of the entries ``n`` rows further on."""
    return at[0] + 36 * n, at[1] + 4 * n, at[2] + 9 * n, at[3] + n, at[4] + n, at[5] + n


@compiled
def _rollout(
    steps: int,
    before: tuple[int, ...],
    after: tuple[int, ...],
    chosen: int,
    tables: tuple[Array, Array, Array, Array, Array],
    drawing: tuple[Array, int, int],
    stops: bool,
    start: int,
    stop: int,
) -> int:
    from_shown, leads, data, counts, ranked = tables
    key, at, width = drawing
    end, code, done = 2 * steps, np.empty(BLOCK, np.int32), _bytes(after[4])
    for low in range(start, stop, BLOCK):
        high = min(low + BLOCK, stop)
        places = code[: high - low]
        if not read(from_shown, before[0], before[1], low, places):
            return 0
        for t in range((end + 1) // 2):
            now, last = t * key.size, t == steps - 1
            cells = chosen + 8 * now
            _draw(counts, ranked, places, key, at + t * width, cells, low)
            then = (*_six(after, now), after[6] + 4 * now, after[7] + 4 * now)
            following = _six(before, now if last else now + key.size)
            how = _play(leads, data, places, cells, then, not last, True, following, low, high)
            if how == 0 or (how == 1 and stops):
                end = min(end, 2 * t + how)
                break
            for b in range(low, high):  # they begin anew
                if done[now + b]:
                    places[b - low] = 0
    return end
