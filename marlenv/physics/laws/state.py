"""The state of a world of ``B`` rows, and how an author of scenarios sees it.

A state is a plain dict of tensors with the rows in the LAST dimension, contiguous; nothing else is remembered anywhere:

    ============== ================= ===========================================================
    entry          shape             meaning
    ============== ================= ===========================================================
    pos, vel       ``[2, E, B]``     metres, metres per second
    rot, ang_vel   ``[E, B]``        radians (never wrapped), radians per second
    rng            int64 ``[2, B]``  key and counter of every row (:class:`~marlenv.rng.RowRNG`)
    steps          int64 ``[B]``     how many steps the episode has
    over           bool ``[B]``      whether the task ended with the last step
    comm.GROUP     ``[C, A, B]``     what a speaking group said in the last step
    gravity.GROUP  ``[2, A, B]``     the bodies' own gravity, metres per second squared
    inner.GROUP    ``[n, A, B]``     what the dynamics of agents remembers
    bends          ``[I, B]``        how far bodies are turned that a joint holds as they were spawned, radians
    memory.NAME    ``[..., B]``      what the scenario, or a controller of its, remembers
    ============== ================= ===========================================================

While a scenario's methods run, the state lies open in a :class:`Moment`; authors read and write it, with the rows
FIRST, through :mod:`marlenv.physics.laws.bodies` and :mod:`marlenv.physics.task.memory`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from marlenv.constants import constant
from marlenv.errors import NeedsReset, ShapeError
from marlenv.physics.maths.views import rows_first, rows_last
from marlenv.rng import RowRNG

State: TypeAlias = "dict[str, Tensor]"


def merge(where: Tensor, new: Mapping[str, Tensor], old: Mapping[str, Tensor]) -> State:
    """``new`` in the rows ``where`` (bool ``[B]``), ``old`` in the others.

    >>> merge(torch.tensor([True, False]), {"t": torch.tensor([0, 0])}, {"t": torch.tensor([5, 7])})["t"]
    tensor([0, 7])
    """
    return {name: torch.where(where, new[name], value) for name, value in old.items()}


class Moment:
    """A state that lies open for reading and writing, with what holds only during one step.

    Writing replaces tensors and never changes one in place: the state that was opened stays as it was.
    """

    __slots__ = ("controls", "forces", "notes", "rng", "state", "torques")

    def __init__(self, state: Mapping[str, Tensor]) -> None:
        self.state: State = dict(state)
        self.rng = RowRNG.from_state(rows_first(self.state["rng"]))
        self.controls: dict[str, Tensor] = {}
        """The physical actions of the groups in this step, ``[n, A, B]``."""
        self.forces: dict[str, Tensor | None] = {}
        """The forces that came of them, ``[2, A, B]``, newtons."""
        self.notes: dict[str, Tensor] = {}
        """What the scenario noted in this step, rows first."""
        self.torques: dict[str, Tensor | None] = {}
        """The torques that came of them, ``[A, B]``, newton metres."""

    @property
    def rows(self) -> int:
        """``B``."""
        return self.state["rng"].shape[-1]

    def write(self, name: str, start: int, stop: int, value: Tensor) -> None:
        """Replaces the entities ``start`` to ``stop`` of an entry by ``value`` ``[..., stop - start, B]``."""
        old = self.state[name]
        if stop - start == old.shape[-2]:
            self.state[name] = value.to(old.dtype).contiguous()
        else:
            self.state[name] = torch.slice_scatter(old, value.to(old.dtype), old.ndim - 2, start, stop)

    def close(self) -> State:
        """The state as it has become."""
        self.state["rng"] = rows_last(self.rng.state).contiguous()
        return self.state


class Stage(threading.local):
    """Where the moments lie that are open now, the last one on top; shared by a world and all views of its bodies.

    Every thread has its own: threads that step rows of one scenario do not see each other's.
    """

    def __init__(self) -> None:
        self._open: list[Moment] = []

    @property
    def moment(self) -> Moment:
        """The open moment.

        Raises:
            NeedsReset: none is open.

        """
        if not self._open:
            raise NeedsReset(
                "World: no state is open; positions and memory can be read inside spawn, observe, rewards and "
                "the other methods of a"
                " scenario, and elsewhere from the state itself (state['pos'])"
            )
        return self._open[-1]

    def open(self, state: Mapping[str, Tensor]) -> Moment:
        """Opens ``state``, until :meth:`shut`."""
        self._open.append(Moment(state))
        return self._open[-1]

    def shut(self) -> None:
        """The state that was opened last is not open any more."""
        self._open.pop()


class Place:
    """Where a group begins among all entities, not known before the world is complete; and how many bodies it has."""

    __slots__ = ("count", "start")

    def __init__(self, count: int) -> None:
        self.count, self.start = count, -1


def as_tensor(value: object, like: Tensor) -> Tensor:
    """A tensor from what an author assigned: numbers take the dtype and device of ``like``."""
    return value if isinstance(value, Tensor) else constant(value, like.device, like.dtype)


def single(x: Tensor) -> Tensor:
    """Numbers of PyTorch's default dtype as float32, which physics is computed in whatever that default is.

    >>> single(torch.zeros(2)).dtype, single(torch.tensor(2)).dtype
    (torch.float32, torch.int64)
    """
    return x.float() if x.dtype is not torch.float32 and x.dtype == torch.get_default_dtype() else x


def fitted(x: Tensor, shape: Sequence[int], who: str) -> Tensor:
    """``x`` broadcast to ``shape``, whose first entry is ``B``; raises in the name of ``who``."""
    try:
        return x if x.shape == tuple(shape) else x.expand(*shape)
    except RuntimeError:
        raise ShapeError(f"{who}: expected {['B', *list(shape)[1:]]}, got {list(x.shape)}") from None
