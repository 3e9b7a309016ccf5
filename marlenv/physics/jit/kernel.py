"""Machine code of a simulation: transitions, resets, random actions and whole rollouts of any number of rows.

A kernel computes what :class:`~marlenv.physics.simulation.Simulation` computes, on the same state, sixteen rows at a
time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from marlenv.keys import Path
from marlenv.physics.jit.source import Source
from marlenv.physics.laws.state import State

TILE = 64  # vectors of rows whose state is in the cache at once


class Room(NamedTuple):
    """Memory for steps in which somebody else acts, each as :attr:`MachineKernel.by_rows` says."""

    outs: Sequence[Tensor | None]
    """For what follows on each step, as of :meth:`MachineKernel.bind`."""
    flags: Sequence[Tensor]
    """For terminated, truncated, done."""
    observations: Sequence[Tensor]
    """For what comes before each step; none where steps lie row by row."""
    shown: Sequence[Tensor]
    """For observations and infos before the next step, ``[T, ..., B]``; every step begins at the next multiple of 64
    bytes.
    """
    ended: Tensor
    """Uint8 ``[T]``, is set where any row is done."""


class Steps(NamedTuple):
    """Which steps machine code plays, and how."""

    start: int
    stop: int
    last: int
    most: int
    drawn: int
    restart: bool


class Turned(NamedTuple):
    """An entry of a rollout, and where its last steps are."""

    x: Tensor | None
    """What followed on the last steps, ``[C, ..., B]``, each as :attr:`MachineKernel.by_rows` says; None to copy what
    was shown."""
    out: Tensor
    """Room for all steps, ``[T, ..., B]``, or for fewer; all of a row lies side by side, the rows anywhere."""
    before: Tensor | None = None
    """Room for what comes before all steps, ``[T, ..., B]``: what was shown after the step before."""


Turn = Callable[[int, int, Sequence["Tensor | None"], Sequence[int]], None]
"""Copies the last steps, from this one of the rollout up to that one, given what was shown after each, ``[C, ..., B]``,
of each entry as it is by now, and whether any row ended in each."""
Act = Callable[[int, Sequence[Tensor]], bool]
"""Plays a step: its number, and the actions of each group, ``[B, ...]``. Returns whether it did: a kernel that looks at
actions does not where any is no finite number."""


class MachineKernel(ABC):
    """Machine code of a simulation for some processor; made once, used for any number of rows.

    Args:
        source: of the code.

    """

    name: str
    """Of its library or cubin: what it was made from, and the checksum of its bytes."""
    by_rows: bool
    """Whether steps lie row by row where somebody else acts: actions and all that follows, and what a reset shows. Else
    the rows are last, as in the state and where machine code acts.
    """

    def __init__(self, source: Source) -> None:
        self.state, self.actions, self.outs, self.observations = (
            source.state,
            source.actions,
            source.outs,
            source.observations,
        )
        self.draws, self.size, self.fresh_size = source.draws, source.size, source.fresh_size

    def bind(
        self,
        state: State,
        actions: Sequence[Tensor | None],
        outs: Sequence[Tensor | None],
        flags: Sequence[Tensor | None],
        observations: Sequence[Tensor | None] = (),
        keys: Tensor | None = None,
        shown: Sequence[Tensor] = (),
    ) -> Any:
        """The places of the data of :meth:`run`; the tensors must live as long as they are used.

        Args:
            state: contiguous, ``[..., B]``.
            actions: of each group, ``[T, ..., B]``; read, or written where ``keys`` are given.
            outs: room for what follows on each step, as :attr:`outs` lists it, ``[T, ..., B]``; None for
                what is not wanted.
            flags: room for terminated, truncated, done: bool ``[T, B]`` each.
            observations: room for observations and infos before each step, ``[T, ..., B]``; the first is not written.
            keys: int64 ``[B]``, the streams of random actions.
            shown: as of :class:`Room`, on the CPU.
        """
        observations = observations or [None] * len(self.observations)
        return self._places((*self._of(state), *actions, *outs, *observations, *flags, keys, *shown))

    @abstractmethod
    def _places(self, tensors: Sequence[Tensor | None]) -> Any:
        """Where tensors are, as the code takes it; 0 for what is not there."""

    def _of(self, state: State) -> list[Tensor]:
        """The entries of a state in the order in which kernels take them."""
        return [state[field.name[0]] for field in self.state]

    def run(
        self,
        rows: int,
        places: Any,
        ended: Tensor,
        start: int = 0,
        stop: int = 1,
        *,
        last: int | None = None,
        drawn: int = 0,
        most: int | None = None,
        restart: bool = False,
    ) -> None:
        """Plays the steps ``start`` to ``stop``; changes the state in place and writes all results.

        On the CPU on as many threads as PyTorch may use; on a GPU in one launch, for which nothing waits.

        Args:
            rows: ``B``.
            places: what :meth:`bind` gave.
            ended: uint8 ``[T]``, is set where any row is done.
            start: the first step.
            stop: the one behind the last.
            last: the step after which nothing begins; ``stop - 1`` when left out.
            drawn: how many numbers of the random actions' streams are used.
            most: the longest episode.
            restart: whether rows that are done start anew.

        """
        steps = Steps(start, stop, stop - 1 if last is None else last, most or 0, drawn, restart)
        self._play(rows, places, ended, steps)

    @abstractmethod
    def _play(self, rows: int, places: Any, ended: Tensor, steps: Steps) -> None:
        """As :meth:`run`."""

    @abstractmethod
    def step(self, rows: int, places: Any, ended: Tensor, most: int | None = None, *, looks: bool = False) -> bool:
        """Plays a step with somebody else's actions, which lie, as all that follows, as :attr:`by_rows` says.

        The other arguments are those of :meth:`run`.

        Args:
            looks: whether a kernel that can look at actions does.

        Returns:
            whether it did: not where any action is no finite number, and it looked.
        """

    @abstractmethod
    def acting(self, state: State, room: Room, *, last: int, most: int | None, restart: bool) -> Act:
        """What plays steps in which somebody else acts, in some room; the rest as of :meth:`run`."""

    @abstractmethod
    def turning(self, entries: Sequence[Turned]) -> Turn:
        """What copies the last steps of a rollout to where it lies row by row; the memory must live as long."""

    def stacked(self, entries: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        """Entries of steps, ``[B, ...]`` each, as ``[B, T, ...]``."""
        return [torch.stack(list(parts), 1) for parts in entries]

    @abstractmethod
    def begin(self, state: State, where: Tensor | None, observations: Sequence[Tensor]) -> None:
        """New episodes in the rows ``where`` (bool ``[B]``, contiguous); writes into ``state``, and into
        ``observations``, which lie as :attr:`by_rows` says.
        """

    def transition(self, state: State, actions: Mapping[str, Tensor]) -> tuple[dict[Path, Tensor], Tensor]:
        """Plays a step; changes the state in place.

        Args:
            state: contiguous, ``[..., B]``.
            actions: of each group, ``[B, ...]``.

        Returns:
            What follows, ``[B, ...]``, and whether episodes are over.

        """
        over = state["over"]
        rows, flags = len(over), over.new_empty((4, len(over)))
        acts = [f.read(actions[f.name[0]], by_rows=self.by_rows) for f in self.actions]
        outs = [f.room(rows, over.device, by_rows=self.by_rows) for f in self.outs]
        self.step(rows, self.bind(state, acts, outs, flags.unbind(0)[:3]), flags[3])
        return {f.name: x for f, x in zip(self.outs, outs, strict=True)}, flags[0]


__all__ = ["Act", "MachineKernel", "Room", "Steps", "Turn", "Turned"]
