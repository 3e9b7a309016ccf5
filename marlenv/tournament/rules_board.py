"""Games of rules alone, many at once: positions are tensors, and nothing else remembers anything."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from marlenv.errors import IllegalAction, PoolError, SpecError
from marlenv.games.rules import Rules, where
from marlenv.rng import RowRNG
from marlenv.tournament.adjudicate import ADJUDICATED, Adjudication, Judge
from marlenv.tournament.games import NONE, Game, Games
from marlenv.tournament.openings import Opening
from marlenv.tournament.streams import CHANCE, streams
from marlenv.tournament.turns import Positions

ALONE = 3  # references to a tensor that only the state has: its tuple's, and two of who counts


class RulesPositions(Positions):
    """Positions of rules, of those who are to move."""

    rules: Rules[Any]

    def __init__(self, rules: Rules[Any], held: Any, row: Tensor, seat: Tensor) -> None:
        super().__init__(row, seat)
        self.rules, self.held = rules, held
        self._legal: Tensor | None = None
        self._observed: Tensor | None = None

    def state(self, mine: Tensor | None) -> Any:
        """The positions themselves, not copied where all are asked for."""
        if mine is None and not self.rules.simultaneous:
            return self.held
        rows = self.row if mine is None else self.row[mine]
        return type(self.held)(*(leaf[rows] for leaf in self.held))

    @property
    def legal(self) -> Tensor:
        """What the one to move may do; bool ``[K, n]``."""
        if self._legal is None:
            legal = self.rules.legal(self.held)
            self._legal = legal[self.row, self.seat] if self.rules.simultaneous else legal
        return self._legal

    def observation(self, mine: Tensor | None) -> Tensor:
        """What the one to move may know; ``[R, ...]``."""
        if self._observed is None:
            self._observed = self.rules.observe(self.held)
        row, seat = (self.row, self.seat) if mine is None else (self.row[mine], self.seat[mine])
        seats = self._observed.shape[1]
        return self._observed.flatten(0, 1).index_select(0, row * seats + seat)


class RulesBoard:
    """Plays games of rules.

    Args:
        rules: of the game.
        openings: moves to begin with, or positions.
        seed: of dice and cards.
        adjudicate: when games are ended before their end.
        max_plies: the move limit of the env that the rules come from.
    """

    def __init__(
        self,
        rules: Rules[Any],
        openings: Sequence[Opening | Sequence[int]],
        seed: int,
        adjudicate: Adjudication | None = None,
        max_plies: int | None = None,
    ) -> None:
        if adjudicate is not None and (rules.simultaneous or len(rules.players) != 2):
            raise SpecError(f"Arena: adjudicate= is for games of two who move in turn, got {type(rules).__name__}")
        self._how, self._judge = adjudicate, None if adjudicate is None else Judge(adjudicate, 0)
        self.rules, self.seed, self.max_plies = rules, seed, max_plies
        self.openings = [Opening.of(given) for given in openings]
        self.seats = {name: [name] for name in rules.players}
        self.groups = {name: name for name in rules.players}
        self._state: Any = None

    def rows(self, wanted: int) -> int:
        """How many games are played at once."""
        return wanted

    def begin(self, games: Games, rows: Tensor | None) -> bool:
        """Begins games in ``rows``, or in new ones; whether any of them is over at once."""
        new = self._begun(games)
        if self._how is not None and rows is None:
            self._judge = Judge(self._how, len(games))
        if self._judge is not None:
            self._judge.begin(self.rules, new, rows)
        if rows is None:
            self._state = new
        else:
            alone = [sys.getrefcount(a) == ALONE and a.is_contiguous() and not a._is_view() for a in self._state]
            trios = zip(self._state, new, alone, strict=True)
            leaves = [a.index_copy_(0, rows, b) if mine else a.index_copy(0, rows, b) for a, b, mine in trios]
            self._state = type(new)(*leaves)
        return bool(self.rules.over(new).any())

    def opening(self, game: Game) -> Sequence[int]:
        """The moves that a game begins with."""
        return () if game.opening is None else self.openings[game.opening].moves

    @property
    def state(self) -> Any:
        """The positions, ``[B, ...]`` in each of their tensors."""
        return self._state

    def keep(self, mask: Tensor) -> None:
        """Drops the rows outside ``mask``."""
        self._state = type(self._state)(*(leaf[mask] for leaf in self._state))
        if self._judge is not None:
            self._judge.keep(mask)

    def over(self) -> tuple[Tensor, Tensor]:
        """Which games have ended, bool ``[B]``, and the ending of those that were ended before; int8 ``[B]``."""
        over = self.rules.over(self._state)
        if self._judge is None:
            return over, torch.zeros_like(over, dtype=torch.int8)
        decided = self._judge.decided & ~over
        return over | decided, decided.to(torch.int8) * ADJUDICATED

    def returns(self, rows: Tensor) -> Tensor:
        """What each seat earned; float ``[R, P]``."""
        state = type(self._state)(*(leaf[rows] for leaf in self._state))
        returns = self.rules.returns(state).to(torch.float32)
        if self._judge is None:
            return returns
        decided, winner = self._judge.decided[rows] & ~self.rules.over(state), self._judge.winner[rows].float()
        return torch.where(decided.unsqueeze(1), torch.stack([winner, 0 - winner], -1), returns)

    def forfeited(self, returns: Tensor, culprit: Tensor) -> Tensor:
        """The returns of games that somebody forfeits: -1, and +1 shared among the others where the sum is zero."""
        others = returns.shape[1] - 1
        given = torch.full_like(returns, 1 / others) if self.rules.zero_sum and others else returns.clone()
        return given.scatter(1, culprit.unsqueeze(1), -1.0)

    def positions(self) -> list[RulesPositions]:
        """Who is asked what."""
        first = self._state[0]
        rows = torch.arange(len(first))
        if not self.rules.simultaneous:
            return [RulesPositions(self.rules, self._state, rows, self.rules.player(self._state))]
        seats = len(self.seats)
        return [
            RulesPositions(
                self.rules, self._state, rows.repeat(seats), torch.arange(seats).repeat_interleave(len(rows))
            )
        ]

    def permits(self, positions: RulesPositions, mine: Tensor | None, action: Tensor) -> Tensor:
        """Whether actions are legal; bool ``[R]``."""
        if not self.rules.simultaneous:
            return self.rules.permits(positions.state(mine), action)
        legal = positions.legal if mine is None else positions.legal[mine]
        inside = action.clamp(0, legal.shape[-1] - 1)
        return legal.gather(-1, inside.unsqueeze(-1)).squeeze(-1) & (inside == action)

    def legal_names(self, positions: RulesPositions, k: int) -> list[int]:
        """Some legal actions of a position, for messages."""
        return positions.legal[k].nonzero().flatten().tolist()[:20]

    def shape(self, positions: RulesPositions, rows: int) -> tuple[int, ...]:
        """The shape of an answer about so many positions."""
        return (rows,)

    def step(self, asked: Sequence[RulesPositions], actions: list[Tensor], failed: list[Tensor]) -> Tensor:
        """Plays the actions; what was played as int64 ``[B, k]``. Rows in which somebody failed stay as they are."""
        action, lost = actions[0], failed[0] > 0
        if self.rules.simultaneous:
            seats = len(self.seats)
            action, lost = action.reshape(seats, -1).T.contiguous(), lost.reshape(seats, -1).T
        if bool(lost.any()):
            some = self.rules.legal(self._state).int().argmax(-1)
            played = self.rules.play(self._state, torch.where(lost, some, action))
            still = lost.any(-1) if self.rules.simultaneous else lost
            self._state = where(still, self._state, played)
        else:
            self._state = self.rules.play(self._state, action)
        if self._judge is not None:
            self._judge.look(self.rules, self._state, ~lost)
        return action if self.rules.simultaneous else action.unsqueeze(-1)

    def _begun(self, games: Games) -> Any:
        """The positions in which games begin, their openings played."""
        key = streams(self.seed, torch.tensor(games.drawn), CHANCE)
        state = self.rules.start(Size([len(games)]), rng=RowRNG.of(key, torch.zeros_like(key)))
        for number in np.unique(games.openings[games.openings != NONE]).tolist():
            if not 0 <= number < len(self.openings):
                raise PoolError(f"Arena: opening {number} is named, and there are {len(self.openings)}")
            mine, opening = torch.from_numpy(games.openings == number), self.openings[number]
            if opening.start is not None:
                others = type(state)(*(leaf.expand(len(games), *leaf.shape[1:]) for leaf in opening.start))
                state = where(mine, others, state)
            for move in opening.moves:
                action = torch.full((len(games),), move)
                legal = self.rules.permits(state, action)
                if not bool((legal | ~mine).all()):
                    why = "legal are others"
                    if "rng" in state._fields:
                        why = "dice and cards differ from game to game, and an opening must be legal in each"
                    raise IllegalAction(f"Arena: move {move} of opening {number} is illegal; {why}")
                other = self.rules.legal(state).int().argmax(-1)
                state = where(mine, self.rules.play(state, torch.where(legal, action, other)), state)
        return state
