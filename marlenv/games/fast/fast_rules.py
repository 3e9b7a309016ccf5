"""What an env asks of a game that has a fast form: the answers of its rules, bit for bit, in one pass over memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from numpy.typing import NDArray
from torch import Tensor

from marlenv.games.fast.step_buffers import Arrays, Places
from marlenv.games.rules import Rules

S_contra = TypeVar("S_contra", bound="tuple[Any, ...]", contravariant=True)


Drawing = tuple[NDArray[Any], int, int, tuple[int, ...]]
"""Keys of the rows' streams, int64 ``[n]``; the place in the streams, how far it moves in a step, and how many places
further the number of each player is."""


class FastRules(Protocol[S_contra]):
    """The fast form of a game. A game that has one returns it from a method ``fast_form()``."""

    def permits(self, state: S_contra, action: Tensor) -> Tensor:
        """See :meth:`marlenv.Rules.permits`."""

    def pick(self, state: S_contra, unit: Tensor) -> Tensor:
        """See :meth:`marlenv.Rules.pick`."""

    def draw(self, state: S_contra, keys: NDArray[Any], at: int, offsets: tuple[int, ...]) -> NDArray[Any] | None:
        """:meth:`pick` by numbers that are drawn in the same pass; None where that cannot be.

        Args:
            state: of rows ``[*B]``, in the dtypes of the rules.
            keys: of their streams, int64 ``[n]``.
            at: the place in the streams.
            offsets: how many places further the number of each player is.

        Returns:
            actions, int64 ``[n, 1]``, or ``[n, P]`` where all act at once.
        """


@runtime_checkable
class FastSteps(FastRules[S_contra], Protocol[S_contra]):
    """A fast form that plays whole steps, too."""

    def step(
        self,
        state: S_contra,
        actions: Sequence[Tensor],
        done: Tensor,
        following: Places,
        restarted: Places | None,
        *,
        likely: bool = False,
    ) -> int:
        """Plays a move in every game that is not done, and writes all that an env says about what follows.

        Args:
            state: of rows ``[*B]``, on the CPU.
            actions: of each player, int64 ``[*B]``; those of who does not move may be anything.
            done: where the game was over already, bool ``[*B]`` or ``[*B, 1]``.
            following: where to write, see :meth:`StepBuffers.arrays`.
            restarted: where to write the same, without rewards, with a new game in place of each that is over; None
                if that is not wanted.
            likely: whether a game is likely to be over then, as after the step before: both are written from the first
                row on, and nothing is copied later. Where none is over after all, that was for nothing.

        Returns:
            ``ILLEGAL`` (nothing was written), ``ALL_GO_ON`` or ``SOME_OVER`` of :mod:`marlenv.games.fast.compiled`.
        """


@runtime_checkable
class FastRollouts(FastSteps[S_contra], Protocol[S_contra]):
    """A fast form that plays whole rollouts of random actions, too."""

    def rollout(
        self, steps: int, before: Places, after: Places, actions: Arrays, drawing: Drawing, *, stops: bool
    ) -> tuple[int, int]:
        """Plays random actions, step after step.

        Args:
            steps: the most to play, ``T``.
            before: what each step starts from, see :meth:`StepBuffers.arrays_of_steps`; the first step is there.
            after: what follows on each step, to write to.
            actions: those of each player, int64 ``[T, n]``, to write to.
            drawing: what the actions are drawn from.
            stops: whether to stop where a game is over; else games that are over begin anew.

        Returns:
            how many steps were played, and why no more, see :func:`marlenv.games.fast.compiled.played`.
        """


def fast_form(rules: Rules[Any]) -> FastRules[Any] | None:
    """The fast form of a game; None where there is none. Envs ask this once, when they are made."""
    make = getattr(rules, "fast_form", None)
    return None if make is None else make()
