"""The numbers of ``san.py`` one board at a time, compiled by numba for the CPU.

``threads`` is what :func:`marlenv.threads.shared` says.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marlenv.games.chess.board import MOST, OFFSETS
from marlenv.games.chess.fast.env_kernels import _flags, _pointer, _positions, _rows
from marlenv.games.chess.fast.kernels import (
    ONE,
    ZERO,
    RowArray,
    U,
    Word,
    Words,
    _advance,
    _copy,
    _index,
    _lowest,
    _ply,
    generate,
    numba,
)
from marlenv.games.fast.by_rows import by_rows
from marlenv.games.fast.cached import compiled, inline
from marlenv.games.fast.plain_arrays import bare

OFFSET = np.array(OFFSETS, dtype=np.int64)
SAID = 81  # how a piece can be told from others
KEYS = 10 * SAID * 2 * 64 * 3


@inline
def _floats(address: int, n: int) -> NDArray[np.float32]:
    return numba.carray(_pointer(address), (n,), np.float32)


@inline
def _said(planes: Words, same: Word, start: np.int64, target: np.int64) -> np.int64:
    """How a piece is told from others of its kind that may go to ``target``."""
    some, on_file, on_rank = False, False, False
    for p in range(64):
        square = target - OFFSET[p]
        if 0 <= square < 64 and square != start and (planes[p] & same) >> U(square) & ONE:
            some = True
            on_file = on_file or (square & 7) == (start & 7)
            on_rank = on_rank or (square >> 3) == (start >> 3)
    if not some:
        return np.int64(0)
    if not on_file:
        return 1 + (start & 7)
    return 17 + start if on_rank else 9 + (start >> 3)


@inline
def _key(w: Words, planes: Words, action: np.int64, suffix: np.int64, chess960: bool) -> np.int64:
    plane, start = action >> 6, action & 63
    target = start + OFFSET[plane]
    goal = ONE << U(target)
    kind = np.int64(0)
    for i in range(1, 6):
        if w[2 + i] >> U(start) & ONE:
            kind = np.int64(i)
    if kind == 5 and (goal & w[0] if chess960 else plane in (4, 32)):
        return KEYS + 3 * np.int64(OFFSET[plane] < 0) + suffix
    takes = np.int64(goal & w[1] != ZERO or (kind == 0 and goal & w[9] != ZERO))
    said = np.int64(0)
    if kind == 0:
        if takes:
            said = 1 + (start & 7)
        if target >= 56:
            kind = 6 + (plane - 64) // 3 if plane >= 64 else np.int64(9)
    elif kind < 5:
        said = _said(planes, w[2 + kind] & w[0], start, target)
    if w[10]:
        target ^= 56
        if said >= 17:
            said = 17 + ((said - 17) ^ 56)
        elif said >= 9:
            said = 9 + (16 - said)
    return (((kind * SAID + said) * 2 + takes) * 64 + target) * 3 + suffix


@compiled
def san(
    threads: tuple[int, int],
    board: RowArray,
    moves: RowArray,
    table: NDArray[np.int32],
    chess960: bool,
    numbers: RowArray,
    actions: RowArray,
) -> None:
    """Writes the numbers and actions of all legal moves to rows of 218, which are filled up with -1."""
    by_rows(_san, bare((board, moves, table, chess960, numbers, actions)), board.shape[0], threads)


@compiled
def _san(
    board: RowArray,
    moves: RowArray,
    table: NDArray[np.int32],
    chess960: bool,
    numbers: RowArray,
    actions: RowArray,
    start: int,
    stop: int,
) -> int:
    words, planes = board.view(U), moves.view(U)
    then, follow = np.empty(16, dtype=U), np.empty(73, dtype=U)
    for b in range(start, stop):
        n = 0
        for p in range(73):
            left = planes[b, p]
            while left:
                bit = _lowest(left)
                left ^= bit
                action = 64 * p + _index(bit)
                for i in range(16):
                    then[i] = words[b, i]
                _advance(then, action, chess960)
                checkers, _ = generate(then, follow, chess960)
                suffix = np.int64(0)
                if checkers:
                    some = ZERO
                    for i in range(73):
                        some |= follow[i]
                    suffix = np.int64(1) if some else np.int64(2)
                numbers[b, n] = table[_key(words[b], planes[b], action, suffix, chess960)]
                actions[b, n] = action
                n += 1
        for i in range(n, numbers.shape[1]):
            numbers[b, i] = actions[b, i] = -1
    return 0


@compiled
def pick(n: int, numbered: tuple[int, int], unit_at: int, out_at: int) -> None:
    """Writes the number of a legal move of each game for a number in [0, 1); 0 where there is none.

    Args:
        n: games.
        numbered: the addresses of the numbers and actions of legal moves, as :func:`san` writes them.
        unit_at: the address of the numbers in [0, 1), float32 ``[n]``.
        out_at: where to write, int64 ``[n]``.
    """
    numbers, actions, out = _rows(numbered[0], n, MOST), _rows(numbered[1], n, MOST), _rows(out_at, n, 1)
    unit = _floats(unit_at, n)
    for b in range(n):
        total = 0
        while total < MOST and actions[b, total] >= 0:
            total += 1
        rank = (U(unit[b] * np.float32(2.0**32)) * U(total)) >> U(32)
        out[b, 0] = max(numbers[b, np.int64(rank)], 0) if total else 0


@compiled
def step(
    threads: tuple[int, int],
    n: int,
    kept: int,
    old: tuple[int, int, int],
    numbered: tuple[int, int],
    chosen_at: int,
    done_at: int,
    table: NDArray[np.int32],
    limits: RowArray,
    chess960: bool,
    new: tuple[int, int, int],
    new_numbered: tuple[int, int],
    mask_at: int,
    size: int,
    turn_at: int,
) -> bool:
    """Plays moves by their numbers, and writes the moves that are legal then.

    False, and nothing of use, where a game is over before or after, a move is illegal, or no legal move has a number.

    Args:
        threads: to use.
        n: games.
        kept: positions in a history.
        old: the addresses of board, history, moves.
        numbered: those of the numbers and actions of their legal moves.
        chosen_at: that of the chosen numbers, int64 ``[n]``.
        done_at: of which games are over, bool ``[n]``.
        table: the numbers by their keys.
        limits: see ``kernels.play``.
        chess960: how castling is numbered.
        new: the addresses of board, history, moves to write to.
        new_numbered: those of the numbers and actions, to write to.
        mask_at: that of the mask, bool ``[n, size]``, to write to.
        size: how many numbers there are.
        turn_at: where to write whether White is to move, bool ``[n]``.
    """
    given = (
        n,
        kept,
        old,
        numbered,
        chosen_at,
        done_at,
        bare(table),
        bare(limits),
        chess960,
        new,
        new_numbered,
        mask_at,
        size,
        turn_at,
    )
    return by_rows(_step, given, n, threads) != 0


@compiled
def _step(
    n: int,
    kept: int,
    old: tuple[int, int, int],
    numbered: tuple[int, int],
    chosen_at: int,
    done_at: int,
    table: NDArray[np.int32],
    limits: RowArray,
    chess960: bool,
    new: tuple[int, int, int],
    new_numbered: tuple[int, int],
    mask_at: int,
    size: int,
    turn_at: int,
    start: int,
    stop: int,
) -> int:
    """See :func:`step`; 0 where that says False."""
    board, history, _ = _positions(old, n, kept)
    new_board, new_history, moves = _positions(new, n, kept)
    chosen, numbers, actions = _rows(chosen_at, n, 1), _rows(numbered[0], n, MOST), _rows(numbered[1], n, MOST)
    words, before, past, planes = new_board.view(U), history.view(U), new_history.view(U), moves.view(U)
    mask, turn, done = _flags(mask_at, n * size), _flags(turn_at, n), _flags(done_at, n)
    for b in range(start, stop):
        action = np.int64(-1)
        for i in range(MOST):
            if actions[b, i] < 0:
                break
            if numbers[b, i] == chosen[b, 0]:
                action = max(action, actions[b, i])
        if done[b] or action < 0:
            return 0
        _copy(board[b], new_board[b])
        _ply(words[b], before[b], past[b], planes[b], action, limits, chess960)
        if new_board[b, 15]:
            return 0
    found, found_actions = _rows(new_numbered[0], n, MOST), _rows(new_numbered[1], n, MOST)
    _san(new_board, moves, table, chess960, found, found_actions, start, stop)
    mask[start * size : stop * size] = 0
    for b in range(start, stop):
        turn[b], some = new_board[b, 10] == 0, False
        for i in range(MOST):
            if found_actions[b, i] < 0:
                break
            if found[b, i] >= 0:
                mask[b * size + found[b, i]], some = 1, True
        if not some:
            return 0
    return 1
