"""What an env knows after a reset or a move: positions, and the flags and rewards that belong to them."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, Self, TypeVar

import torch
from torch import Tensor

from marlenv.games.rules import Rules, rows_where

S = TypeVar("S", bound="tuple[Any, ...]")


class TimeStep(NamedTuple, Generic[S]):
    """What an env says about its games after a reset (:meth:`first`) or a move (:meth:`following`).

    A layout writes it into data.
    """

    state: S
    terminated: Tensor
    """bool ``[*B]``: the game is over by its rules, or for an illegal move."""
    truncated: Tensor | None
    """bool ``[*B]``: the move limit ended it; None where there is no limit."""
    outcome: Tensor
    """int8 ``[*B]``: why it ended, an index into the env's ``outcomes``."""
    rewards: Tensor | None
    """float32 ``[*B, P]``; None after a reset."""
    plies: Tensor | None
    """int64 ``[*B]``: how many moves were played; None where there is no limit."""
    opponent_rng: Tensor | None
    """int64 ``[*B, 2]``: what a random opponent draws from, if there is one."""
    opening_rewards: Tensor | None = None
    """float32 ``[*B, P]``: what moves before the caller's first one earned, which its first step pays; None where
    the layout does not hold it."""
    first_rng: Tensor | None = None
    """int64 ``[*B, 2]``: what first positions are drawn from, where positions themselves hold no stream."""

    @classmethod
    def first(
        cls,
        rules: Rules[S],
        state: S,
        *,
        plies: Tensor | None = None,
        limit: int | None = None,
        opponent_rng: Tensor | None = None,
        first_rng: Tensor | None = None,
    ) -> Self:
        """Games that begin with ``state``; after ``plies`` moves of ``limit``."""
        terminated, outcome, truncated = rules.over(state), rules.outcome(state), None
        if limit is not None:
            plies = torch.zeros_like(terminated, dtype=torch.int64) if plies is None else plies
            truncated = (plies >= limit) & ~terminated
            outcome = outcome.masked_fill(truncated, len(rules.outcomes) + 1)
        return cls(state, terminated, truncated, outcome, None, plies, opponent_rng, first_rng=first_rng)

    @classmethod
    def following(
        cls,
        rules: Rules[S],
        state: S,
        rewards: Tensor,
        *,
        forfeit: Tensor | None = None,
        plies: Tensor | None = None,
        limit: int | None = None,
        opponent_rng: Tensor | None = None,
    ) -> Self:
        """Games after a move.

        Args:
            rules: of the game.
            state: the positions after the move.
            rewards: of all players, float32 ``[*B, P]``.
            forfeit: which games an illegal move has ended, bool ``[*B]``.
            plies: how many moves were played, int64 ``[*B]``.
            limit: how many may be played.
            opponent_rng: what a random opponent draws from.
        """
        terminated, outcome = rules.over(state), rules.outcome(state)
        if forfeit is not None:
            terminated, outcome = terminated | forfeit, outcome.masked_fill(forfeit, len(rules.outcomes))
        if plies is None or limit is None:
            return cls(state, terminated, None, outcome, rewards, None, opponent_rng)
        truncated = (plies >= limit) & ~terminated
        outcome = outcome.masked_fill(truncated, len(rules.outcomes) + 1)
        return cls(state, terminated, truncated, outcome, rewards, plies, opponent_rng)

    @property
    def done(self) -> Tensor:
        """Whether the game ended, either way; bool ``[*B]``."""
        return self.terminated if self.truncated is None else self.terminated | self.truncated

    def then(self, reply: TimeStep[S], moved: Tensor) -> TimeStep[S]:
        """This move and the opponent's ``reply`` as one, given where the opponent moved, bool ``[*B]``."""
        cut, before, rewards = self.truncated, self.rewards, reply.rewards
        return reply._replace(
            terminated=self.terminated | (reply.terminated & moved),
            truncated=cut if cut is None or reply.truncated is None else cut | (reply.truncated & moved),
            outcome=torch.where(moved, reply.outcome, self.outcome),
            rewards=rewards if before is None or rewards is None else before + rewards,
            opening_rewards=self.opening_rewards,
            first_rng=self.first_rng,
        )

    def lost(self, games: Tensor, outcome: int) -> TimeStep[S]:
        """The same, with ``games``, bool ``[*B]``, over by the illegal move that ended them before."""
        return self._replace(
            terminated=self.terminated | games,
            truncated=None if self.truncated is None else self.truncated & ~games,
            outcome=self.outcome.masked_fill(games, outcome),
        )

    def paying(self, opening_rewards: Tensor | None) -> TimeStep[S]:
        """The same, with what was earned before it paid, too, float32 ``[*B, P]``; None is nothing."""
        assert self.rewards is not None
        rewards = self.rewards if opening_rewards is None else self.rewards + opening_rewards
        return self._replace(rewards=rewards, opening_rewards=torch.zeros_like(rewards))

    def as_first(self) -> TimeStep[S]:
        """The same as the beginning of an episode, which has no rewards: they are paid in its first step."""
        owed, earned = self.opening_rewards, self.rewards
        if owed is not None and earned is not None:
            owed = owed + earned
        return self._replace(rewards=None, opening_rewards=owed)


def streams_where(reset: Tensor, fresh: Tensor | None, old: Tensor | None) -> Tensor | None:
    """The streams of new games in the rows of ``reset``, bool ``[*B]``, the old ones in the others."""
    return fresh if fresh is None or old is None else rows_where(reset, fresh, old)
