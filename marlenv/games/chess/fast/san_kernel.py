"""The numbers of ``san.py`` one board at a time, compiled by numba for the CPU.

The cache looks at this file alone: after a change to ``kernels.py`` or to the order of keys in ``san.py``, touch this
one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marlenv.games.chess.board import OFFSETS
from marlenv.games.chess.fast.kernels import (
    ONE,
    ZERO,
    RowArray,
    U,
    Word,
    Words,
    _advance,
    _compiled,
    _index,
    _inline,
    _lowest,
    generate,
)

OFFSET = np.array(OFFSETS, dtype=np.int64)
SAID = 81  # how a piece can be told from others
KEYS = 10 * SAID * 2 * 64 * 3


@_inline
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


@_inline
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


@_compiled
def san(
    board: RowArray, moves: RowArray, table: NDArray[np.int32], chess960: bool, numbers: RowArray, actions: RowArray
) -> None:
    """Writes the numbers and actions of all legal moves to rows of 218, which are filled up with -1."""
    words, planes = board.view(U), moves.view(U)
    then, follow = np.empty(16, dtype=U), np.empty(73, dtype=U)
    for b in range(board.shape[0]):
        n = 0
        for p in range(73):
            left = planes[b, p]
            while left:
                bit = _lowest(left)
                left ^= bit
                action = 64 * p + _index(bit)
                for i in range(16):
                    then[i] = words[b, i]
                _advance(then, action, chess960)  # type: ignore[arg-type]
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
