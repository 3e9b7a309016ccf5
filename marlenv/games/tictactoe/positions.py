"""The positions of tic-tac-toe, and all that there is to know about each of the 3**9 boards, in tables."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from marlenv.games.parts.tables import Table

LINES = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]]
BOARDS = 3**9
WEIGHTS = 3 ** torch.arange(9)
POWERS = WEIGHTS.tolist()


def _order() -> Tensor:
    """Which base-3 number each position stands for: those that can be reached come first, near to each other."""
    layers, layer = [torch.zeros(1, dtype=torch.int64)], torch.zeros(1, dtype=torch.int64)
    for ply in range(9):
        digits = layer.unsqueeze(-1) // WEIGHTS % 3
        free = (digits == 0) & (_winner(_signed(digits)) < 0).unsqueeze(-1)
        layer = (layer.unsqueeze(-1) + (1 + ply % 2) * WEIGHTS)[free].unique()
        layers.append(layer)
    reached = torch.cat(layers)
    rest = torch.ones(BOARDS, dtype=torch.bool)
    rest[reached] = False
    return torch.cat((reached, rest.nonzero().flatten()))


def _signed(digits: Tensor) -> Tensor:
    return torch.tensor([0, 1, -1], dtype=torch.int8)[digits]


def _winner(board: Tensor) -> Tensor:
    """Who has three in a row, 0 or 1, -1 for nobody; int64 ``[*B]`` of boards ``[*B, 9]``."""
    sums = torch.stack([board[..., line].sum(-1) for line in LINES], -1)
    return torch.where((sums == 3).any(-1), 0, torch.where((sums == -3).any(-1), 1, -1))


def boards() -> Tensor:
    """The cells of every position, 0 free, +1 x, -1 o; int8 ``[3**9, 9]``."""
    return _signed(ORDER.on(CPU).unsqueeze(-1) // WEIGHTS % 3)


def _legal() -> Tensor:
    return (boards() == 0) & (_winner(boards()) < 0).unsqueeze(-1)


def players() -> Tensor:
    """Whose turn it is; int64 ``[3**9]``."""
    return boards().sum(-1).clamp(0, 1)


def _after() -> Tensor:
    """The position after a cell is taken, -1 where that is illegal; int16 ``[3**9 * 9]``."""
    number, stone = ORDER.on(CPU).unsqueeze(-1), 1 + players().unsqueeze(-1)
    after = NUMBERED.on(CPU)[(number + stone * WEIGHTS).clamp(max=BOARDS - 1)]
    return torch.where(_legal(), after, -1).flatten().to(torch.int16)


def _free_by_rank() -> Tensor:
    """The legal cells of each position in order, then 8; int8 ``[3**9 * 9]``."""
    order = torch.where(_legal(), torch.arange(9), 9).sort(-1)[0]
    return order.clamp(max=8).flatten().to(torch.int8)


def outcomes() -> Tensor:
    """0 while it goes on, 1 three in a row, 2 board full; int8 ``[3**9]``."""
    full = torch.where((boards() != 0).all(-1), 2, 0)
    return torch.where(_winner(boards()) >= 0, 1, full).to(torch.int8)


def returns() -> Tensor:
    """+1 for the winner, -1 for the loser; float32 ``[3**9, 2]``."""
    winner = _winner(boards())
    score = torch.where(winner < 0, 0.0, 1.0 - 2.0 * winner)
    return torch.stack((score, 0.0 - score), -1)


def _planes() -> Tensor:
    """What both players see of each position; bool ``[3**9, 2, 3, 3, 3]``."""
    board, turn = boards(), players().unsqueeze(-1)
    seats = [
        torch.stack((board == own, board == -own, (turn == seat).expand(board.shape)), 1)
        for seat, own in ((0, 1), (1, -1))
    ]
    return torch.stack(seats, 1).unflatten(-1, (3, 3))


def _words() -> Tensor:
    """What both players see of each position, and its legal cells, as bits of a word each; int64 ``[3**9, 3]``."""
    seen = (_planes().flatten(2) * 2 ** torch.arange(27)).sum(-1)
    return torch.cat((seen, (_legal() * 2 ** torch.arange(9)).sum(-1, keepdim=True)), 1)


CPU = torch.device("cpu")
ORDER = Table(_order)
NUMBERED = Table(lambda: ORDER.on(CPU).argsort())
BOARD, WINNER, LEGAL, PLAYER = Table(boards), Table(lambda: _winner(boards())), Table(_legal), Table(players)
AFTER, RANKED, COUNT = Table(_after), Table(_free_by_rank), Table(lambda: _legal().sum(-1).to(torch.float32))
OUTCOME, RETURNS, PLANES, OVER = Table(outcomes), Table(returns), Table(_planes), Table(lambda: outcomes() != 0)
WORDS = Table(_words)


class State(NamedTuple):
    """A position."""

    code: Tensor  # [*B] int64: the number of the position in the rules' tables; the empty board is 0

    @property
    def board(self) -> Tensor:
        """int8 ``[*B, 9]``: 0 free, +1 x, -1 o."""
        return BOARD[self.code]

    @property
    def player(self) -> Tensor:
        """int64 ``[*B]``: whose turn it is, 0 or 1."""
        return PLAYER[self.code]

    @property
    def winner(self) -> Tensor:
        """int64 ``[*B]``: 0 or 1, -1 while nobody has won."""
        return WINNER[self.code]
