"""Ending games that are decided: by a score that is high for long, as arbiters and match programs do.

Repetition and want of progress are the business of the rules (``Chess(draws=...)``, ``Go(repetition=...)``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import SpecError, Unsupported, whole
from marlenv.games.rules import Rules

Score = Callable[[Rules[Any], Any], Tensor]
ADJUDICATED = 6
"""The number of this ending in ``ENDINGS``."""
WORTH = (1.0, 3.0, 3.0, 5.0, 9.0)  # of pawns, knights, bishops, rooks, queens


@dataclass(frozen=True)
class Adjudication:
    """When games of two are ended before their end.

    Args:
        score: takes rules and positions, returns how much better the first seat stands in each; float ``[B]``.
        win: who is better by as much after each of ``win_plies`` moves running has won; None for nobody.
        win_plies: see there.
        draw: whose positions differ by no more after each of ``draw_plies`` moves running have drawn; None for nobody.
        draw_plies: see there.
        after: how many moves are played before any draw.

    >>> from marlenv.games.chess import Chess
    >>> from marlenv.tournament import Arena, Game, random_player
    >>> how = Adjudication(material, win=3.0, win_plies=2)
    >>> arena = Arena(Chess(), {"a": random_player}, adjudicate=how, max_plies=200)
    >>> arena.play([Game(k, ("a", "a")) for k in range(8)]).returns.abs().sum().item()
    16.0
    """

    score: Score
    win: float | None = None
    win_plies: int = 6
    draw: float | None = None
    draw_plies: int = 20
    after: int = 0

    def __post_init__(self) -> None:
        for name, low in (("win_plies", 1), ("draw_plies", 1), ("after", 0)):
            whole("Adjudication", name, getattr(self, name), low)
        if self.win is None and self.draw is None:
            raise SpecError("Adjudication: say win= or draw=, the scores that decide a game")
        if self.win is not None and not self.win > 0:
            raise SpecError(f"Adjudication: win must be above 0, got {self.win}")
        if self.draw is not None and not 0 <= self.draw < (self.win or float("inf")):
            raise SpecError(f"Adjudication: draw must be from 0 to below win, got {self.draw}")


class Judge:
    """How long each of ``B`` games has been decided.

    Args:
        how: when it ends.
        rows: how many games.
    """

    def __init__(self, how: Adjudication, rows: int) -> None:
        self.how = how
        self.lead, self.even, self.plies = (torch.zeros(rows, dtype=torch.int64) for _ in range(3))

    def begin(self, rows: Tensor) -> None:
        """Other games are played in some rows."""
        self.lead[rows], self.even[rows], self.plies[rows] = 0, 0, 0

    def keep(self, mask: Tensor) -> None:
        """Drops the rows outside ``mask``."""
        self.lead, self.even, self.plies = self.lead[mask], self.even[mask], self.plies[mask]

    def look(self, score: Tensor, moved: Tensor) -> None:
        """Takes note of the scores after a move; of the games that ``moved``."""
        win = float("inf") if self.how.win is None else self.how.win
        draw = -1.0 if self.how.draw is None else self.how.draw
        ahead = torch.where(score >= win, self.lead.clamp(min=0) + 1, 0)
        lead = torch.where(score <= -win, self.lead.clamp(max=0) - 1, ahead)
        even = torch.where((score.abs() <= draw) & (self.plies >= self.how.after), self.even + 1, 0)
        self.lead, self.even = torch.where(moved, lead, self.lead), torch.where(moved, even, self.even)
        self.plies = self.plies + moved

    @property
    def winner(self) -> Tensor:
        """1 where the first seat has won, -1 where the second has; int64 ``[B]``."""
        return self.lead.sign() * (self.lead.abs() >= self.how.win_plies)

    @property
    def decided(self) -> Tensor:
        """Which games are ended; bool ``[B]``."""
        return (self.winner != 0) | (self.even >= self.how.draw_plies)


def material(rules: Rules[Any], state: Any) -> Tensor:
    """How many pawns more white has in chess, pieces counted as people do; float ``[B]``.

    >>> from marlenv.games.chess import Chess
    >>> rules = Chess()
    >>> fens = ["4k3/8/8/8/8/8/8/QQ2K3 b - - 0 1", "r3k3/p7/8/8/8/8/8/4KB2 w - - 0 1"]
    >>> material(rules, rules.from_fens(fens)).tolist()
    [18.0, -3.0]
    """
    if not hasattr(rules, "from_fens"):
        raise Unsupported(f"material: it is counted in chess, got {type(rules).__name__}; give a score of your own")
    from marlenv.games.chess.board import OPPONENT, OWN, PAWNS, TURN
    from marlenv.games.parts.bits import counted

    board, total = state.board, torch.zeros(state.board.shape[:-1])
    for k, worth in enumerate(WORTH):
        kind = board[..., PAWNS + k]
        total += worth * (counted(kind & board[..., OWN]) - counted(kind & board[..., OPPONENT])).float()
    return torch.where(board[..., TURN] == 0, total, -total)
