"""One ply of many games in one call, with all that an env says about it; compiled by numba for the CPU.

The rules are those of ``kernels.py``. The cache looks at this file alone: after a change there, touch this one too.

A row of facts is three words, which are given three times over: as int64 the seat to move stands at 0; as float32 the
rewards of White and Black stand at 2 and 3; and as bytes, from 16 on, terminated, truncated, done, alive, whether White acts,
whether Black does, and why the game ended.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from marlenv.games.chess.kernels import (
    ONE,
    ZERO,
    Rows,
    U,
    Word,
    _compiled,
    _copy,
    _count,
    _index,
    _inline,
    _lowest,
    _mixed,
    _ply,
    numba,
)

FACTS = 3  # words

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

GOLDEN = U(0x9E3779B97F4A7C15)  # of marlenv.rng
ALL_TRUE = np.int64(0x0101010101010101)


@_inline
def _tell(board: Rows, came: bool, facts: Rows, earned: Floats, told: Bytes) -> None:
    """Writes the facts of one board, at which somebody just came, or not."""
    turn, why = board[10], board[15]
    facts[0] = turn
    won = np.float32(2 * turn - 1) if why == 1 and came else np.float32(0.0)
    earned[2], earned[3] = won, -won
    told[16], told[17], told[18], told[19] = why != 0, 0, why != 0, why == 0
    told[20], told[21], told[22], told[23] = why == 0 and turn == 0, why == 0 and turn == 1, why, 0


@_inline
def _allow(moves: Rows, acts: bool, mask: Rows) -> None:
    """What a seat may do in one game, packed or as 584 words of bools: anything where it does not act."""
    if mask.shape[0] == moves.shape[0]:
        for p in range(moves.shape[0]):
            mask[p] = moves[p] if acts else -1
    elif not acts:
        other = mask[0] ^ ALL_TRUE
        if not other:  # memory that was used before may say so already, and reading is cheaper than writing
            for p in range(mask.shape[0]):
                other |= mask[p] ^ ALL_TRUE
        if other:
            for p in range(mask.shape[0]):
                mask[p] = ALL_TRUE
    else:
        for p in range(mask.shape[0]):
            mask[p] = 0
        for p in range(moves.shape[0]):
            left = U(moves[p])
            while left:
                square = _index(_lowest(left))
                mask[8 * p + (square >> 3)] |= np.int64(1) << (8 * (square & 7))
                left &= left - ONE


def _inttoptr(context: Any, address: Any) -> Any:
    """The code of a number as a pointer."""
    return types.voidptr(types.int64), lambda context, builder, signature, args: builder.inttoptr(
        args[0], cgutils.voidptr_t
    )


_pointer: Any = intrinsic(_inttoptr)


@_inline
def _rows(address: int, n: int, width: int) -> Rows:
    return numba.carray(_pointer(address), (n, width), np.int64)


@_inline
def _flags(address: int, n: int) -> Bytes:
    return numba.carray(_pointer(address), (n,), np.uint8)


@_inline
def _facts(address: int, n: int) -> tuple[Rows, Floats, Bytes]:
    words = _rows(address, n, FACTS)
    floats = numba.carray(_pointer(address), (n, 2 * FACTS), np.float32)
    return words, floats, numba.carray(_pointer(address), (n, 8 * FACTS), np.uint8)


@_compiled
def turn(
    n: int,
    kept: int,
    width: int,
    old: tuple[int, int, int],
    chosen: tuple[int, int],
    gone_at: int,
    limits: Rows,
    chess960: bool,
    new: tuple[int, int, int],
    masks: tuple[int, int],
    facts_at: int,
) -> bool:
    """Plays the actions of those to move in ``n`` games, and tells what follows; False, and nothing, if one is illegal.

    Games that are gone must be over by the rules. Arguments are addresses of int64 (gone: of bool): reading a number
    costs much less than reading an array does.

    Args:
        n: games.
        kept: positions in a history.
        width: words of a mask.
        old: board, history, moves.
        chosen: the actions of White, of Black.
        gone_at: which games are over, bool ``[n]``.
        limits: see ``kernels.play``.
        chess960: how castling is numbered.
        new: board, history, moves to write to.
        masks: of White and Black, to write to.
        facts_at: facts to write to.
    """
    board, history, moves = _rows(old[0], n, 16), _rows(old[1], n, kept), _rows(old[2], n, 73)
    white, black, gone = _rows(chosen[0], n, 1), _rows(chosen[1], n, 1), _flags(gone_at, n)
    new_board, new_history, new_moves = _rows(new[0], n, 16), _rows(new[1], n, kept), _rows(new[2], n, 73)
    white_mask, black_mask = _rows(masks[0], n, width), _rows(masks[1], n, width)
    facts, earned, told = _facts(facts_at, n)
    action = np.empty(n, dtype=np.int64)
    for b in range(n):
        a = black[b, 0] if board[b, 10] else white[b, 0]
        action[b] = a
        if gone[b]:
            if not board[b, 15]:
                return False
        elif not (0 <= a < 4672 and (moves[b, a >> 6] >> (a & 63)) & 1):
            return False
    words, past, planes = new_board.view(U), new_history.view(U), new_moves.view(U)
    before = history.view(U)
    for b in range(n):
        _copy(board[b], new_board[b])
        if gone[b]:
            _copy(history[b], new_history[b])
            _copy(moves[b], new_moves[b])
        else:
            _ply(words[b], before[b], past[b], planes[b], action[b], limits, chess960)
        _tell(new_board[b], gone[b] == 0, facts[b], earned[b], told[b])
        _allow(new_moves[b], told[b, 20] != 0, white_mask[b])
        _allow(new_moves[b], told[b, 21] != 0, black_mask[b])
    return True


@_compiled
def renew(
    n: int,
    width: int,
    gone_at: int,
    many: bool,
    fresh: tuple[int, int],
    old: tuple[int, int],
    old_mask: int,
    new: tuple[int, int],
    new_mask: int,
    facts_at: int,
) -> bool:
    """Writes fresh boards and moves (one, or one per row), White to move, where games are gone, else the old ones.

    Facts are written of all games. Of the masks White's is written; Black's mask of a game that is over fits that of a
    fresh one. False, and nothing, if a game that is gone is not over.
    """
    fresh_board, fresh_moves = _rows(fresh[0], n if many else 1, 16), _rows(fresh[1], n if many else 1, 73)
    board, moves, mask, gone = _rows(old[0], n, 16), _rows(old[1], n, 73), _rows(old_mask, n, width), _flags(gone_at, n)
    new_board, new_moves, white_mask = _rows(new[0], n, 16), _rows(new[1], n, 73), _rows(new_mask, n, width)
    facts, earned, told = _facts(facts_at, n)
    for b in range(n):
        if gone[b] and not board[b, 15]:
            return False
    for b in range(n):
        if gone[b]:
            f = b if many else 0
            _copy(fresh_board[f], new_board[b])
            _copy(fresh_moves[f], new_moves[b])
            _allow(new_moves[b], True, white_mask[b])
        else:
            _copy(board[b], new_board[b])
            _copy(moves[b], new_moves[b])
            _copy(mask[b], white_mask[b])
        _tell(new_board[b], False, facts[b], earned[b], told[b])
    return True


@_inline
def _ranked(moves: Rows, random: Word) -> np.int64:
    """The action that 24 random bits choose; 0 where there is none."""
    total = ZERO
    for p in range(73):
        total += _count(U(moves[p]))
    rank = (random * total) >> U(24)
    for p in range(73):
        left = U(moves[p])
        here = _count(left)
        if rank < here:
            for _ in range(rank):
                left &= left - ONE
            return 64 * p + _index(_lowest(left))
        rank -= here
    return np.int64(0)


@_compiled
def choose(
    n: int, board_at: int, moves_at: int, key_at: int, counter: int, lanes: tuple[int, int], chosen: tuple[int, int]
) -> None:
    """Draws a legal action per row with the number of the mover's lane, and gives it to both players."""
    board, moves, key = _rows(board_at, n, 16), _rows(moves_at, n, 73), _rows(key_at, n, 1)
    white, black = _rows(chosen[0], n, 1), _rows(chosen[1], n, 1)
    for b in range(n):
        at = U(counter + (lanes[1] if board[b, 10] else lanes[0]) + 1)
        number = _mixed(U(key[b, 0]) + at * GOLDEN)
        white[b, 0] = black[b, 0] = _ranked(moves[b], number >> U(40))
