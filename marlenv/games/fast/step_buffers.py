"""The memory that a fast step writes its answer to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Size, Tensor

from marlenv.buffer_pool import fresh
from marlenv.games.rules import State

Arrays = tuple[NDArray[Any], ...]
Places = tuple[Any, ...]
"""Memory for numba: arrays of the state, of observations and of masks, then those of the other parts."""
Blank = Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], Tensor]
"""Gives memory of any content, ``[*lead, *B, *tail]``, for ``lead``, ``tail`` and a dtype."""


def new_memory(batch: Size) -> Blank:
    """New memory for games ``[*B]``."""

    def blank(lead: tuple[int, ...], tail: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        shape = (*lead, *batch, *tail)
        return fresh(math.prod(shape) * dtype.itemsize).view(dtype).view(shape)

    return blank


class StepBuffers(NamedTuple, Generic[State]):
    """Memory for positions of a game whose players have a group each, and for all that an env says about them.

    :class:`FastSteps` write to it.
    """

    state: State
    observations: Sequence[Tensor]
    """What each player may know, ``[*B, 1, *observation_shape]``."""
    action_masks: Tensor
    """What each player may do, everything where it does not act; ``[P, *B, 1, n]``."""
    turn: Tensor
    """Whose turn it is; int64 ``[*B, 1]``."""
    outcome: Tensor
    """Why the game ended; int8 ``[*B, 1]``."""
    flags: Tensor
    """Terminated, truncated, done, alive; whether each player acts; then the first four once more for each player, who
    have flags of their own; bool ``[4 + 5 * P, *B, 1]``. """
    rewards: Tensor
    """Of each player, float32 ``[P, *B, 1, 1]``."""

    @classmethod
    def blank(
        cls, blank: Blank, state: State, observations: Sequence[Tensor], action_masks: Tensor
    ) -> StepBuffers[State]:
        """Memory of any content around the parts that are given."""
        players = len(observations)
        return cls(
            state,
            observations,
            action_masks,
            blank((), (1,), torch.int64),
            blank((), (1,), torch.int8),
            blank((4 + 5 * players,), (1,), torch.bool),
            blank((players,), (1, 1), torch.float32),
        )

    def later(self, step: int) -> StepBuffers[State]:
        """The memory of a later step, where that lies behind this, step by step."""

        def moved(x: Tensor) -> Tensor:
            return x.as_strided(x.shape, x.stride(), x.storage_offset() + step * x.numel())

        state, observations = (type(self.state)(*map(moved, self.state)), [moved(x) for x in self.observations])
        return type(self)(state, observations, *map(moved, self[2:]))

    def take(self, other: StepBuffers[State]) -> None:
        """Writes what other memory holds, too."""
        parts = ((*one.state, *one.observations, *one[2:]) for one in (self, other))
        for mine, theirs in zip(*parts, strict=True):
            mine.copy_(theirs)

    def arrays_of_steps(self, steps: int) -> Places:
        """What :meth:`arrays` gives where that of further steps lies behind it: ``[T, n, ...]``, flags ``[T, 14, n]``.

        Actions that are allowed are one array, ``[T, P, n, ...]``.
        """
        n = self.turn.numel()

        def whole(x: Tensor, *shape: int) -> NDArray[Any]:
            return x.as_strided((steps, x.numel()), (x.numel(), 1)).numpy().reshape(steps, *shape)

        return (
            *(tuple(whole(part, n, -1) for part in parts) for parts in (self.state, self.observations)),
            whole(self.action_masks, len(self.action_masks), n, -1),
            *(whole(part, n, -1) for part in (self.turn, self.outcome)),
            *(whole(part, len(part), n) for part in (self.flags, self.rewards)),
        )

    def arrays(self) -> Places:
        """The same memory for numba, by its parts: ``[n, ...]`` each, flags ``[.., n]`` and rewards ``[P, n]``."""
        n = self.turn.numel()

        def whole(x: Tensor) -> NDArray[Any]:
            return x.numpy().reshape(n, x.numel() // n)

        return (
            *(tuple(map(whole, parts)) for parts in (self.state, self.observations, self.action_masks)),
            *map(whole, (self.turn, self.outcome)),
            *(part.numpy().reshape(len(part), n) for part in (self.flags, self.rewards)),
        )
