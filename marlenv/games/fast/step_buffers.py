"""The memory that a fast step writes its answer to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Size, Tensor

from marlenv.games.rules import State

Arrays = tuple[NDArray[Any], ...]


class StepBuffers(NamedTuple, Generic[State]):
    """Memory for positions of a game of two, and for all that an env says about them.

    :class:`FastSteps` write to it.
    """

    state: State
    observations: Sequence[Tensor]
    """What each player may know, ``[*B, 1, *observation_shape]``."""
    action_masks: Tensor
    """What each player may do, everything where it does not act; ``[2, *B, 1, n]``."""
    turn: Tensor
    """Whose turn it is; int64 ``[*B, 1]``."""
    outcome: Tensor
    """Why the game ended; int8 ``[*B, 1]``."""
    flags: Tensor
    """Terminated, truncated, done, alive; whether the first player acts, whether the second does; then the first four
    once more for each player, who have flags of their own; bool ``[14, *B, 1]``. """
    rewards: Tensor
    """Of each player, float32 ``[2, *B, 1, 1]``."""

    @classmethod
    def blank(
        cls, batch: Size, state: State, observations: Sequence[Tensor], action_masks: Tensor
    ) -> StepBuffers[State]:
        """Memory of any content around the parts that are given."""
        return cls(
            state,
            observations,
            action_masks,
            torch.empty((*batch, 1), dtype=torch.int64),
            torch.empty((*batch, 1), dtype=torch.int8),
            torch.empty((14, *batch, 1), dtype=torch.bool),
            torch.empty((2, *batch, 1, 1), dtype=torch.float32),
        )

    def arrays(self) -> Arrays:
        """The same memory for numba, the state first: ``[n, ...]`` each, flags ``[14, n]`` and rewards ``[2, n]``."""
        n = self.turn.numel()
        rows = (*self.state, *self.observations, *self.action_masks, self.turn, self.outcome)
        return (
            *(part.numpy().reshape(n, -1) for part in rows),
            *(part.numpy().reshape(len(part), n) for part in (self.flags, self.rewards)),
        )
