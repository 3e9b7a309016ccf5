"""What follows from a position and its past: the legal moves, the hash, how often it has stood there, and the result.

As in ``moves.py``: torch operations on words with the batch last, no look at the data. The rules are the FIDE Laws of
Chess (https://handbook.fide.com/chapter/E012023), articles 5.2, 6.9 (which combinations can mate), 9.2, 9.3 and 9.6.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from marlenv.games.chess.bits import filled, filled_single, unfilled
from marlenv.games.chess.board import (
    CASTLING,
    CHECKMATE,
    DARK,
    FULLMOVE,
    HALFMOVE,
    HASH,
    INSUFFICIENT,
    KINGS,
    OUTCOME,
    PASSANT,
    REPEATS,
    STALEMATE,
    TURN,
    WORDS,
)
from marlenv.games.chess.moves import Moves, generate
from marlenv.games.chess.tables import tables
from marlenv.rng import mix_, signed


class Limits(NamedTuple):
    """When a game without progress is drawn, and how the two draws are called."""

    repeats: int  # times that a position stands on the board
    plies: int  # without a capture or a pawn move
    repeats_code: int
    plies_code: int


def settle(
    words: Tensor, history: Tensor, repeats: Tensor | None, limits: Limits, chess960: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Completes positions of which the words up to ``FULLMOVE`` are known; the same again changes nothing.

    Args:
        words: int64 ``[13+, N]``; the en-passant square may be one where nobody can capture.
        history: int64 ``[N, K]``, the hashes before these positions, 0 from the clock on; it is written to.
        repeats: int64 ``[N]``, where it is known (above 0) how often a position has stood there; None: nowhere.
        limits: when draws are given.
        chess960: how castling moves are numbered.

    Returns:
        the words ``[16, N]``, the history, 0 from the clock on and in finished games, the legal moves ``[N, 73]``.
    """
    moves = generate(words, chess960)
    words = torch.cat((words[: FULLMOVE + 1], words.new_empty(WORDS - FULLMOVE - 1, words.shape[1])))
    key = keyed(words, moves)
    before = (history == key.unsqueeze(-1)).view(torch.int8).sum(-1, dtype=torch.int8)
    outcome = judged(words, stuck(moves.planes), moves.checkers, repetitions(before.to(torch.int64), repeats), limits)
    history = history.bitwise_and_(progressing(words).unsqueeze(-1))
    return words, history, moves.planes.bitwise_and_(~filled(outcome)).t().contiguous()


def keyed(words: Tensor, moves: Moves) -> Tensor:
    """Writes the en-passant squares where a capture is legal, and the hashes, into ``[16, N]``; returns the hashes."""
    words[PASSANT].copy_(moves.passant)
    return words[HASH].copy_(position_hash(words))


def repetitions(before: Tensor, repeats: Tensor | None) -> Tensor:
    """How often positions have stood on the board, given how often they did before; ``repeats`` where that is not 0."""
    now = before + 1
    if repeats is None:
        return now
    known = filled(repeats)
    return (repeats & known) | (now & ~known)


def judged(words: Tensor, stuck: Tensor, checkers: Tensor, repeats: Tensor, limits: Limits) -> Tensor:
    """Writes how often positions have stood on the board, and the results, into ``[16, N]``; returns the results."""
    code = (repeats >= limits.repeats) * limits.repeats_code
    code.masked_fill_(words[HALFMOVE] >= limits.plies, limits.plies_code)
    code.masked_fill_(stuck, STALEMATE)
    code.masked_fill_(_insufficient(words), INSUFFICIENT)
    code.masked_fill_(stuck & (checkers != 0), CHECKMATE)
    words[REPEATS].copy_(repeats)
    return words[OUTCOME].copy_(code)


def stuck(planes: Tensor) -> Tensor:
    """Whether there is no move; bool ``[N]``."""
    return planes.view(torch.uint8).amax(0).view(torch.int64) == 0  # as bytes, for words have signs


def progressing(words: Tensor) -> Tensor:
    """All bits where a game goes on and its last move can be taken back, so that its past counts, else none.

    ``[N]``.
    """
    return unfilled(words[OUTCOME]).bitwise_and_(filled_single(words[HALFMOVE]))


def position_hash(words: Tensor) -> Tensor:
    """One word for all that must agree in a repetition (article 9.2.3): squares, castling, en passant, turn.

    ``[N]``.
    """
    rights = words[CASTLING] | words[PASSANT] | (words[TURN] << 28)  # three sets of bits that never meet
    parts = torch.cat((words[:1], words[2 : KINGS + 1], rights.unsqueeze(0)))
    return mix_(parts + tables(words.device).hash_keys).sum(0)


def _insufficient(words: Tensor) -> Tensor:
    """Whether no sequence of moves can mate: one minor piece at most, or bishops on squares of one colour.

    bool ``[N]``.
    """
    pawns, knights, bishops, rooks, queens = words[2:KINGS].unbind(0)
    minors = knights | bishops
    both_colours = (bishops & signed(DARK)).logical_and_(bishops & ~signed(DARK))
    enough = (minors & (minors - 1)).logical_and_(both_colours.logical_or_(knights))
    return enough.logical_or_(pawns | rooks | queens) == 0
