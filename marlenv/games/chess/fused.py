"""One ply of many games in one call, with all that an env says about it; compiled by numba for the CPU.

The rules are those of ``kernels.py``. The cache looks at this file alone: after a change there, touch this one too.

A row of facts is three words, which are given three times over: as int64 the seat to move stands at 0; as float32 the
rewards of White and Black stand at 2 and 3; and as bytes, from 16 on, terminated, truncated, done, alive, whether White acts,
whether Black does, and why the game ended.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marlenv.games.chess.kernels import ONE, ZERO, Rows, U, Word, _compiled, _count, _index, _inline, _lowest, _mixed, play

FACTS = 3  # words

Flags = NDArray[np.bool_]
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


@_compiled
def turn(
    board: Rows,
    history: Rows,
    moves: Rows,
    white: Rows,
    black: Rows,
    gone: Flags,
    limits: Rows,
    chess960: bool,
    new_board: Rows,
    new_history: Rows,
    new_moves: Rows,
    white_mask: Rows,
    black_mask: Rows,
    facts: Rows,
    earned: Floats,
    told: Bytes,
) -> bool:
    """Plays the actions ``[N]`` of those to move, and tells what follows; False, and nothing, if one of them is illegal.

    Games that are ``gone`` must be over by the rules.
    """
    chosen = np.empty_like(white)
    for b in range(board.shape[0]):
        a = black[b] if board[b, 10] else white[b]
        chosen[b] = a
        if gone[b]:
            chosen[b] = -1
            if not board[b, 15]:
                return False
        elif not (0 <= a < 4672 and (moves[b, a >> 6] >> (a & 63)) & 1):
            return False
    play(board, history, moves, chosen, limits, chess960, new_board, new_history, new_moves, False)
    for b in range(board.shape[0]):
        _tell(new_board[b], not gone[b], facts[b], earned[b], told[b])
        _allow(new_moves[b], told[b, 20] != 0, white_mask[b])
        _allow(new_moves[b], told[b, 21] != 0, black_mask[b])
    return True


@_compiled
def renew(
    gone: Flags,
    fresh_board: Rows,
    fresh_history: Rows,
    fresh_moves: Rows,
    board: Rows,
    history: Rows,
    moves: Rows,
    white_mask: Rows,
    facts: Rows,
    earned: Floats,
    told: Bytes,
) -> None:
    """Writes fresh positions (one row, or one per row), White to move, where games are ``gone``, and the facts of all.

    Black's mask of a game that is over fits that of a fresh one.
    """
    many = fresh_board.shape[0] > 1
    for b in range(board.shape[0]):
        if gone[b]:
            f = b if many else 0
            for i in range(board.shape[1]):
                board[b, i] = fresh_board[f, i]
            for i in range(history.shape[1]):
                history[b, i] = fresh_history[f, i]
            for i in range(moves.shape[1]):
                moves[b, i] = fresh_moves[f, i]
            _allow(moves[b], True, white_mask[b])
        _tell(board[b], False, facts[b], earned[b], told[b])


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
def choose(board: Rows, moves: Rows, key: Rows, counter: int, lanes: Rows, white: Rows, black: Rows) -> None:
    """Draws a legal action per row with the number of the mover's lane, and gives it to both players."""
    for b in range(board.shape[0]):
        at = U(counter + lanes[board[b, 10]] + 1)
        number = _mixed(U(key[b]) + at * GOLDEN)
        white[b] = black[b] = _ranked(moves[b], number >> U(40))
