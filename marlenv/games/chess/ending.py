"""What follows from a position and its past: the legal moves, the hash, how often it has stood there, and the result.

As in ``moves.py``: torch operations on words with the batch last, no look at the data. The rules are the FIDE Laws of Chess
(https://handbook.fide.com/chapter/E012023), articles 5.2, 6.9 (which combinations can mate), 9.2, 9.3 and 9.6.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from marlenv.games.bits import signed
from marlenv.games.chess.bits import filled
from marlenv.games.chess.board import (
    CASTLING,
    CHECKMATE,
    DARK,
    FULLMOVE,
    HALFMOVE,
    INSUFFICIENT,
    KINGS,
    PASSANT,
    STALEMATE,
    TURN,
)
from marlenv.games.chess.moves import Moves, generate
from marlenv.games.chess.tables import tables
from marlenv.rng import mix


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
    words = torch.cat((words[:PASSANT], moves.passant.unsqueeze(0), words[TURN : FULLMOVE + 1]))
    key = position_hash(words)
    seen = (history == key.unsqueeze(-1)).view(torch.int8).sum(-1, dtype=torch.int8)  # no large tensor in between
    counted = seen.to(torch.int64) + 1
    if repeats is not None:
        known = filled(repeats)
        counted = (repeats & known) | (counted & ~known)
    outcome = _outcome(words, moves, counted, limits)
    goes_on = ((outcome == 0) & (words[HALFMOVE] != 0)).to(torch.int64)
    history = history.bitwise_and_(-goes_on.unsqueeze(-1))
    packed = moves.planes.bitwise_and_(~filled(outcome)).t().contiguous()
    return torch.cat((words, torch.stack((key, counted, outcome)))), history, packed


def position_hash(words: Tensor) -> Tensor:
    """One word for all that must agree in a repetition (article 9.2.3): squares, castling, en passant, turn; ``[N]``."""
    rights = words[CASTLING] | words[PASSANT] | (words[TURN] << 28)  # three sets of bits that never meet
    parts = torch.cat((words[:1], words[2 : KINGS + 1], rights.unsqueeze(0)))
    return mix(parts + tables(words.device).hash_keys).sum(0)


def _outcome(words: Tensor, moves: Moves, repeats: Tensor, limits: Limits) -> Tensor:
    """The code of the result, 0 while the game goes on; ``[N]``."""
    planes = moves.planes
    stuck = (planes.amax(0) <= 0) & ((~planes[28:64]).amax(0) < 0)  # no word is positive; no move down starts on bit 63
    code = (repeats >= limits.repeats) * limits.repeats_code
    code.masked_fill_(words[HALFMOVE] >= limits.plies, limits.plies_code)
    code.masked_fill_(stuck, STALEMATE)
    code.masked_fill_(_insufficient(words), INSUFFICIENT)
    return code.masked_fill_(stuck & (moves.checkers != 0), CHECKMATE)


def _insufficient(words: Tensor) -> Tensor:
    """Whether no sequence of moves can mate: one minor piece at most, or bishops on squares of one colour; bool ``[N]``."""
    pawns, knights, bishops, rooks, queens = words[2:KINGS].unbind(0)
    minors = knights | bishops
    one = (minors & (minors - 1)) == 0
    one_colour = (knights == 0) & (((bishops & signed(DARK)) == 0) | ((bishops & ~signed(DARK)) == 0))
    return ((pawns | rooks | queens) == 0) & (one | one_colour)
