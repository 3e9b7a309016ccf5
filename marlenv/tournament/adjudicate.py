"""Ending games that are decided, as arbiters and match programs do: by a score that is high for long, by repetition.

What the rules themselves say comes first (``Chess(draws=...)``, ``Go(repetition=...)``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import ShapeError, SpecError, Unsupported, whole
from marlenv.games.rules import Rules

Score = Callable[[Rules[Any], Any], Tensor]
ADJUDICATED = 6
"""The number of this ending in ``ENDINGS``."""
WORTH = (1.0, 3.0, 3.0, 5.0, 9.0)  # of pawns, knights, bishops, rooks, queens


@dataclass(frozen=True)
class Adjudication:
    """When games of two are ended before their end.

    Args:
        score: takes rules and positions, returns how much better the first seat stands in each; float ``[B]``. For
            ``win`` and ``draw``.
        win: who is better by as much after each of ``win_plies`` moves running has won; None for nobody.
        win_plies: see there.
        draw: whose positions differ by no more after each of ``draw_plies`` moves running have drawn; None for nobody.
        draw_plies: see there.
        after: how many moves are played before any such draw.
        repetition: a game has been drawn when a position comes for the ``repetition``-th time since players were first
            asked, the first one among them; None for never. Which positions are the same says
            :meth:`~marlenv.games.Rules.position_key`. A game that its rules end by the same move is theirs.

    >>> from marlenv.games.chess import Chess
    >>> from marlenv.tournament import Arena, Game, random_player
    >>> how = Adjudication(material, win=3.0, win_plies=2)
    >>> arena = Arena(Chess(), {"a": random_player}, adjudicate=how, max_plies=200)
    >>> arena.play([Game(k, ("a", "a")) for k in range(8)]).returns.abs().sum().item()
    16.0
    """

    score: Score | None = None
    win: float | None = None
    win_plies: int = 6
    draw: float | None = None
    draw_plies: int = 20
    after: int = 0
    repetition: int | None = None

    def __post_init__(self) -> None:
        for name, low in (("win_plies", 1), ("draw_plies", 1), ("after", 0)):
            whole("Adjudication", name, getattr(self, name), low)
        if self.repetition is not None:
            whole("Adjudication", "repetition", self.repetition, 2)
        by_score = self.win is not None or self.draw is not None
        if not by_score and self.repetition is None:
            raise SpecError("Adjudication: say win= or draw=, the scores that decide a game, or repetition=")
        if by_score and self.score is None:
            raise SpecError("Adjudication: win= and draw= are about a score; say score=, such as material")
        if self.score is not None and not by_score:
            raise SpecError("Adjudication: a score decides nothing without win= or draw=; say one of them")
        if self.win is not None and not self.win > 0:
            raise SpecError(f"Adjudication: win must be above 0, got {self.win}")
        if self.draw is not None and not 0 <= self.draw < (self.win or float("inf")):
            raise SpecError(f"Adjudication: draw must be from 0 to below win, got {self.draw}")


class Judge:
    """How long each of ``B`` games has been decided, and which positions it has seen.

    Args:
        how: when it ends.
        rows: how many games.
    """

    def __init__(self, how: Adjudication, rows: int) -> None:
        self.how = how
        self.lead, self.even, self.plies, self.repeats = (torch.zeros(rows, dtype=torch.int64) for _ in range(4))
        self.seen = torch.zeros(rows, 64, dtype=torch.int64)  # keys of positions, by the number of the move

    def begin(self, rules: Rules[Any], state: Any, rows: Tensor | None) -> None:
        """Other games begin in some rows, or in all, in these positions."""
        rows = torch.arange(len(self.lead)) if rows is None else rows
        self.lead[rows], self.even[rows], self.plies[rows], self.repeats[rows] = 0, 0, 0, 1
        if self.how.repetition is not None:
            self.seen[rows, 0] = rules.position_key(state)

    def keep(self, mask: Tensor) -> None:
        """Drops the rows outside ``mask``."""
        self.lead, self.even, self.plies = self.lead[mask], self.even[mask], self.plies[mask]
        self.repeats, self.seen = self.repeats[mask], self.seen[mask]

    def look(self, rules: Rules[Any], state: Any, moved: Tensor) -> None:
        """Takes note of the positions after a move; of the games that ``moved``."""
        if self.how.score is not None:
            score = self.how.score(rules, state)
            if score.shape != moved.shape:
                raise ShapeError(
                    f"Adjudication: score must return a number per position {[*moved.shape]}, got {[*score.shape]}"
                )
            self._compare(score, moved)
        self.plies = self.plies + moved
        if self.how.repetition is not None:
            self._remember(rules.position_key(state))

    def _compare(self, score: Tensor, moved: Tensor) -> None:
        win = float("inf") if self.how.win is None else self.how.win
        draw = -1.0 if self.how.draw is None else self.how.draw
        ahead = torch.where(score >= win, self.lead.clamp(min=0) + 1, 0)
        lead = torch.where(score <= -win, self.lead.clamp(max=0) - 1, ahead)
        even = torch.where((score.abs() <= draw) & (self.plies >= self.how.after), self.even + 1, 0)
        self.lead, self.even = torch.where(moved, lead, self.lead), torch.where(moved, even, self.even)

    def _remember(self, key: Tensor) -> None:
        """Notes the positions, each at the number of its move; games that did not move stand where they stood."""
        plies, size = self.plies.unsqueeze(1), self.seen.shape[1]
        if int(self.plies.max()) >= size:
            self.seen = torch.cat((self.seen, torch.zeros_like(self.seen)), 1)
        self.seen.scatter_(1, plies, key.unsqueeze(1))
        known = torch.arange(self.seen.shape[1]) <= plies
        self.repeats = ((self.seen == key.unsqueeze(1)) & known).sum(1)

    @property
    def winner(self) -> Tensor:
        """1 where the first seat has won, -1 where the second has; int64 ``[B]``."""
        return self.lead.sign() * (self.lead.abs() >= self.how.win_plies)

    @property
    def decided(self) -> Tensor:
        """Which games are ended; bool ``[B]``."""
        repeated = self.repeats >= (self.how.repetition or torch.inf)
        return (self.winner != 0) | (self.even >= self.how.draw_plies) | repeated


def check_material(rules: Rules[Any] | None) -> None:
    """Raises Unsupported where :func:`material` cannot be counted."""
    if not hasattr(rules, "from_fens"):
        got = "an env" if rules is None else type(rules).__name__
        raise Unsupported(f"material: it is counted in chess, got {got}; give a score of your own")


def material(rules: Rules[Any], state: Any) -> Tensor:
    """How many pawns more white has in chess, pieces counted as people do; float ``[B]``.

    >>> from marlenv.games.chess import Chess
    >>> rules = Chess()
    >>> fens = ["4k3/8/8/8/8/8/8/QQ2K3 b - - 0 1", "r3k3/p7/8/8/8/8/8/4KB2 w - - 0 1"]
    >>> material(rules, rules.from_fens(fens)).tolist()
    [18.0, -3.0]
    """
    check_material(rules)
    from marlenv.games.chess.board import OPPONENT, OWN, PAWNS, TURN
    from marlenv.games.parts.bits import counted

    board, total = state.board, torch.zeros(state.board.shape[:-1])
    for k, worth in enumerate(WORTH):
        kind = board[..., PAWNS + k]
        total += worth * (counted(kind & board[..., OWN]) - counted(kind & board[..., OPPONENT])).float()
    return torch.where(board[..., TURN] == 0, total, -total)
