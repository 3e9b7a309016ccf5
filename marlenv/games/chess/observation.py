"""What the players see: the planes of AlphaZero for one position, from each player's own seat.

| plane | what it holds |
|---|---|
| 0..5 | own pawns, knights, bishops, rooks, queens, king: 1 where one stands |
| 6..11 | the opponent's, in the same order |
| 12, 13 | all 1 where the position stands on the board for the second time, for the third time or more |
| 14 | all 1 for Black |
| 15 | the number of the move, divided by 100 |
| 16, 17 | all 1 where one may still castle on the king's side, on the queen's side |
| 18, 19 | the same for the opponent |
| 20 | plies without capture or pawn move, divided by the number that ends the game |
| 21 | the square where a legal en-passant capture would end |
| 22 | all 1 for the player to move |

A plane is ``[8, 8]``: first one's own first rank, a-file first. For Black the ranks are turned over and files stay,
so that ``planes.flatten(-2)[..., s]`` is the square ``s`` of ``board.py`` and an action's from-square for the player
to move.

The first twenty-one are the ones of Silver et al. 2018 (https://doi.org/10.1126/science.aar6404) for one time step,
with counts scaled to the order of 1; the last two say what they can only take from earlier positions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.games.chess.bits import turned
from marlenv.games.chess.board import (
    CASTLING,
    FULLMOVE,
    HALFMOVE,
    KINGS,
    OPPONENT,
    OWN,
    PASSANT,
    PAWNS,
    RANK_1,
    REPEATS,
    SQUARES,
    TURN,
    WORDS,
)
from marlenv.games.chess.tables import tables

OBSERVED = 23
MOVES_SCALE = 100.0


def observe(board: Tensor, plies: int) -> Tensor:
    """The planes of both players; float32 ``[*B, 2, 23, 8, 8]``, White first.

    Args:
        board: the words of ``State.board``, ``[*B, 16]``.
        plies: the number without capture or pawn move that ends a game.
    """
    words = board.reshape(-1, WORDS)
    own, opponent, turn = words[:, OWN : OWN + 1], words[:, OPPONENT : OPPONENT + 1], words[:, TURN : TURN + 1]
    pieces, passant = words[:, PAWNS : KINGS + 1], words[:, PASSANT : PASSANT + 1]
    to_move = (turn == torch.arange(2, device=board.device)).unsqueeze(-1)  # [N, 2, 1]
    mine = torch.cat((pieces & own, pieces & opponent, passant), -1)
    theirs = turned(torch.cat((pieces & opponent, pieces & own, passant), -1))
    sets = torch.where(to_move, mine.unsqueeze(1), theirs.unsqueeze(1)).contiguous()
    places = sets.view(torch.uint8).to(torch.int32).flatten()
    squares = tables(board.device).spread.index_select(0, places).view(torch.uint8).to(torch.float32)
    squares = squares.reshape(-1, 2, 13, SQUARES)
    counts = _counts(words, to_move, plies).unsqueeze(-1).expand(-1, -1, -1, SQUARES)
    planes = torch.cat((squares[:, :, :12], counts[:, :, :9], squares[:, :, 12:], counts[:, :, 9:]), 2)
    return planes.reshape(*board.shape[:-1], 2, OBSERVED, 8, 8)


def with_history(boards: Tensor, plies: int) -> Tensor:
    """The planes of both players with earlier positions; float32 ``[*B, 2, 14 * T + 9, 8, 8]``.

    Fourteen planes (0 to 13) for each position, the present one first, then planes 14 to 22 of the present one.

    Args:
        boards: the words of the present position and of those before it, ``[*B, T, 16]``; all 0 where there was none.
        plies: the number without capture or pawn move that ends a game.
    """
    planes = observe(boards, plies).movedim(-5, -4)  # [*B, 2, T, 23, 8, 8]
    return torch.cat((planes[..., :14, :, :].flatten(-4, -3), planes[..., 0, 14:, :, :]), -3)


def _counts(words: Tensor, to_move: Tensor, plies: int) -> Tensor:
    """The planes 12 to 20 and 22, one number each; float32 ``[N, 2, 10]``."""
    kings = words[:, KINGS]
    king, other = kings & words[:, OWN] & RANK_1, ((kings & words[:, OPPONENT]) >> 56) & RANK_1
    home, away = words[:, CASTLING] & RANK_1, (words[:, CASTLING] >> 56) & RANK_1
    rooks = torch.stack((home & -(king << 1), home & (king - 1), away & -(other << 1), away & (other - 1)), -1)
    rights = torch.where(to_move, rooks.unsqueeze(1), rooks.roll(2, -1).unsqueeze(1)) != 0  # [N, 2, 4]
    repeats, number, clock = (words[:, i : i + 1].unsqueeze(1) for i in (REPEATS, FULLMOVE, HALFMOVE))  # [N, 1, 1]
    black = torch.arange(2, device=words.device).reshape(1, 2, 1)
    parts = (repeats >= 2, repeats >= 3, black, number / MOVES_SCALE, rights, clock / plies, to_move)
    return torch.cat([part.to(torch.float32).expand(words.shape[0], 2, -1) for part in parts], -1)
