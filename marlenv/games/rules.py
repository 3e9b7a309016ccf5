"""What the rules of a game are: pure functions of a state of tensors, for any batch of positions at once.

Rules know no players' names, no env, no rendering and no randomness of their own: a game with chance keeps the state of
a :class:`~marlenv.rng.RowRNG` (int64 ``[*B, 2]``) among its tensors. :mod:`marlenv.games.turn_based` makes any rules an
env. The letters: ``*B`` batch dimensions, ``P`` players, ``n`` actions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Size, Tensor

from marlenv.rng import RowRNG

State = TypeVar("State", bound=tuple)  # a NamedTuple of tensors, each [*B, ...]


class Rules(ABC, Generic[State]):
    """The rules of a game; a frozen dataclass whose fields are the game's options (board size, komi, ...).

    A subclass sets :attr:`players` and :attr:`n_actions` (class attributes or properties) and writes the methods below. Every
    method takes and returns whole batches; row ``i`` of the answer depends on row ``i`` alone.
    """

    players: ClassVar[tuple[str, ...]]
    """The players' names as people of the game say them: ``("white", "black")``."""

    zero_sum: ClassVar[bool] = True
    """Whether the returns of all players add up to zero at every state."""

    simultaneous: ClassVar[bool] = False
    """Whether all players act at once: then ``legal`` is ``[*B, P, n]`` and ``play`` takes ``[*B, P]``."""

    @property
    @abstractmethod
    def n_actions(self) -> int:
        """How many different actions there are, legal or not: ``n``."""

    @property
    @abstractmethod
    def observation_shape(self) -> tuple[int, ...]:
        """The shape of what one player sees, without batch and player dimensions."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """An upper bound on the number of actions in a game."""

    @abstractmethod
    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> State:
        """The first position of ``batch_size`` games; games with chance draw from ``rng`` and keep its state."""

    @abstractmethod
    def player(self, state: State) -> Tensor:
        """Whose turn it is; int64 ``[*B]``. Anything at all in a finished game, but in range."""

    @abstractmethod
    def legal(self, state: State) -> Tensor:
        """The actions of the player to move; bool ``[*B, n]``, all False in a finished game."""

    @abstractmethod
    def play(self, state: State, action: Tensor) -> State:
        """The position after ``action``, int64 ``[*B]``, which must be legal where the game is not over.

        A finished game stays as it is, whatever the action.
        """

    @abstractmethod
    def over(self, state: State) -> Tensor:
        """Whether the game has ended; bool ``[*B]``."""

    @abstractmethod
    def returns(self, state: State) -> Tensor:
        """What each player has earned since the start; float32 ``[*B, P]``. The reward of a step is the difference."""

    @abstractmethod
    def observe(self, state: State) -> Tensor:
        """What each player may know, from the player's own seat; ``[*B, P, *observation_shape]``."""

    def outcome(self, state: State) -> Tensor:
        """Why the game ended, as an index into :attr:`outcomes`; int8 ``[*B]``, 0 while it goes on."""
        return self.over(state).to(torch.int8)

    outcomes: ClassVar[tuple[str, ...]] = ("", "over")
    """The words for :meth:`outcome`."""

    def show(self, state: State, *, color: bool = False) -> str:
        """One position (no batch dimensions) drawn with characters, as the game's people draw it."""
        raise NotImplementedError(f"{type(self).__name__} has no drawing")

    def action_name(self, state: State, action: int) -> str:
        """An action as the game's people write it (``"e4"``, ``"D"``), in one position without batch dimensions."""
        return str(action)


def where(mask: Tensor, yes: State, no: State) -> State:
    """Row by row one position or the other; ``mask`` is bool ``[*B]``."""
    pick = [
        torch.where(mask.reshape((*mask.shape, *[1] * (a.ndim - mask.ndim))), a, b)
        for a, b in zip(yes, no, strict=True)
    ]
    return type(yes)(*pick)
