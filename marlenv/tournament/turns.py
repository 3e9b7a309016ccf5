"""What a player is asked: positions in which it is to move, and what it may use to choose.

``K`` are the positions of a step in which somebody is to move, ``R`` those of one player among them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.games.rules import Rules
from marlenv.rng import RowRNG
from marlenv.specs import TensorSpec
from marlenv.tournament.games import Game, Games


class Positions(ABC):
    """The positions of one step in which seats of one kind are to move; what is not asked for is not computed.

    What it gives, observations apart, may be what the game goes on with; a :class:`Turn` makes copies for players.

    Args:
        row: which row of the arena each is in; int64 ``[K]``.
        seat: who is to move; int64 ``[K]``.
        kind: a number that seats share if their data have the same shapes.
        lead: the agents of a seat: ``()`` or ``(A,)``.
    """

    rules: Rules[Any] | None = None
    spec: TensorSpec | None = None
    """What an action may be where it is no number of an action: ``[1, *lead, ...]``."""

    def __init__(self, row: Tensor, seat: Tensor, kind: int = 0, lead: tuple[int, ...] = ()) -> None:
        self.row, self.seat, self.kind, self.lead = row, seat, kind, lead

    @abstractmethod
    def state(self, mine: Tensor | None) -> Any:
        """The positions themselves, where the game gives them away; those of ``mine``, or all."""

    @abstractmethod
    def observation(self, mine: Tensor | None) -> Tensor:
        """What the one to move may know; ``[R, *lead, ...]``, of those of ``mine``, or all; a copy."""

    @property
    @abstractmethod
    def legal(self) -> Tensor | None:
        """What it may do; bool ``[K, *lead, n]``, None where actions are not counted."""

    @property
    def data(self) -> TensorDictBase | None:
        """All that the env shows to the agents of the seat; ``[K, *lead]``; None in games of rules alone."""
        return None


class Turn:
    """What a player is asked, about ``R`` positions at once. What it reads there are copies, which it may write into.

    Args:
        positions: those of the step.
        mine: which of them are meant; int64 ``[R]``, or None for all.
        games: the ids of their games; int64 ``[R]``.
        rng: randomness of each game and seat.
        memory: what the player keeps, ``[R, *lead]``; None where it keeps nothing.
        moves: of each game so far, for players with ``wants_moves``.
        clock: the seconds that each seat has left; None without clocks.
        increment: the seconds that are added for each move.
        lent: whether nothing is copied.
    """

    def __init__(
        self,
        positions: Positions,
        mine: Tensor | None,
        games: Tensor,
        rng: RowRNG,
        memory: TensorDictBase | None,
        moves: list[list[int]] | None = None,
        clock: Tensor | None = None,
        increment: float = 0.0,
        *,
        lent: bool = False,
    ) -> None:
        self._positions, self._mine, self._lent = positions, mine, lent
        self.games = games
        """The ids of the games; int64 ``[R]``."""
        self.rng = rng
        """Randomness of each game and seat, whatever other rows there are."""
        self.memory = memory
        """What the player keeps for each game and seat, to be written into; None for players without ``memory``."""
        self.moves = moves
        """The moves of each game so far, those of its opening among them, where one moves at a time; None for players
        without a true attribute ``wants_moves``."""
        self.clock, self.increment = clock, increment
        """The seconds that each seat has left, ``[R, P]``, None without clocks; and those added for each move."""

    @property
    def rules(self) -> Rules[Any] | None:
        """The rules; None where an env is played that has none."""
        return self._positions.rules

    @property
    def spec(self) -> TensorSpec | None:
        """What actions may be, ``[1, *A, ...]``, where they are no numbers of actions."""
        return self._positions.spec

    @cached_property
    def seat(self) -> Tensor:
        """Where the player sits in each of them; int64 ``[R]``."""
        return self._of(self._positions.seat)

    @cached_property
    def state(self) -> Any:
        """The positions, ``[R, ...]`` in each of their tensors. A player that does not cheat looks at the
        observation.
        """
        state = self._positions.state(self._mine)
        return state if self._mine is not None or self._lent else type(state)(*(leaf.clone() for leaf in state))

    @cached_property
    def observation(self) -> Any:
        """What it may know there, where that is one tensor; ``[R, *A, ...]``."""
        return self._positions.observation(self._mine)

    @cached_property
    def legal(self) -> Any:
        """What it may do; bool ``[R, *A, n]``; None where actions are not counted."""
        return self._of(self._positions.legal)

    @cached_property
    def data(self) -> TensorDictBase:
        """All of it as a tensordict, ``[R, *A]``: observations, ``"action_mask"`` and ``"seat"`` int64 ``[R]``."""
        held = self._positions.data
        if held is not None:
            return self._of(held)
        return TensorDict(
            {"observation": self.observation, "action_mask": self.legal, "seat": self.seat}, self.seat.shape
        )

    def lent(self) -> Turn:
        """The same turn without copies, which cost time where rows are many: for players that only read.

        What is written into its tensors changes the games themselves.
        """
        held = self._positions, self._mine, self.games, self.rng, self.memory, self.moves, self.clock, self.increment
        return Turn(*held, lent=True)

    def __len__(self) -> int:
        return len(self.games)

    def _of(self, value: Any) -> Any:
        if value is None or (self._mine is None and self._lent):
            return value
        return value.clone() if self._mine is None else value[self._mine]


class Board(Protocol):
    """What an arena plays on: ``B`` games at once, of which finished ones make room for others."""

    seats: dict[str, list[str]]
    """The agents of each seat."""
    groups: dict[str, str]
    """The group of each seat."""
    max_plies: int | None
    """After how many moves games are cut off because the env of the game was made so; None where the board does it."""

    def rows(self, wanted: int) -> int:
        """How many games are played at once, if so many are wanted."""

    def begin(self, games: Games, rows: Tensor | None) -> bool:
        """Begins games in ``rows``, or in new ones; whether any of them may be over at once."""

    def opening(self, game: Game) -> Sequence[int]:
        """The moves that a game begins with."""

    def keep(self, mask: Tensor) -> None:
        """Drops the rows outside ``mask``."""

    def over(self) -> tuple[Tensor, Tensor]:
        """Which games have ended, bool ``[B]``, and the ending of those that were ended before; int8 ``[B]``."""

    def returns(self, rows: Tensor) -> Tensor:
        """What each seat earned; float ``[R, P]``."""

    def forfeited(self, returns: Tensor, culprit: Tensor) -> Tensor:
        """The returns of games that the seat ``culprit`` forfeits."""

    def positions(self) -> Sequence[Any]:
        """Who is asked what: :class:`Positions` of the board's own kind."""

    def permits(self, positions: Any, mine: Tensor | None, action: Tensor) -> Tensor:
        """Whether actions are legal; bool ``[R]``."""

    def legal_names(self, positions: Any, k: int) -> Any:
        """Some legal actions of a position, for messages."""

    def shape(self, positions: Any, rows: int) -> tuple[int, ...]:
        """The shape of an answer about so many positions."""

    def step(self, asked: Sequence[Any], actions: list[Tensor], failed: list[Tensor]) -> Tensor:
        """Plays the actions; what was played as int64 ``[B, k]``. Rows in which somebody failed stay as they are."""
