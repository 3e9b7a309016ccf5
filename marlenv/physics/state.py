"""The state of a world of ``B`` rows, and how an author of scenarios sees it.

A state is a plain dict of tensors with the rows in the LAST dimension, contiguous; nothing else is remembered anywhere:

    ============== ================= ===========================================================
    entry          shape             meaning
    ============== ================= ===========================================================
    pos, vel       ``[2, E, B]``     metres, metres per second
    rot, ang_vel   ``[E, B]``        radians (never wrapped), radians per second
    rng            int64 ``[2, B]``  key and counter of every row (:class:`~marlenv.rng.RowRNG`)
    comm.GROUP     ``[C, A, B]``     what a speaking group said in the last step
    memory.NAME    ``[..., B]``      what the scenario, or a controller of its, remembers
    ============== ================= ===========================================================

While a scenario's methods run, the state lies open in a :class:`Moment`; authors read and write it through
:class:`Bodies`, :class:`Body` and :class:`Memory`, with the rows FIRST.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, overload

import torch
from torch import Tensor

from marlenv.errors import KeyMissing, NeedsReset, ShapeError, nearest
from marlenv.physics.entities import Agent, Entity
from marlenv.physics.views import rows_first, rows_last
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

    __slots__ = ("controls", "forces", "rng", "state", "torques")

    def __init__(self, state: Mapping[str, Tensor]) -> None:
        self.state: State = dict(state)
        self.rng = RowRNG.from_state(rows_first(self.state["rng"]))
        self.controls: dict[str, Tensor] = {}
        """The physical actions of the groups in this step, ``[n, A, B]``."""
        self.forces: dict[str, Tensor | None] = {}
        """The forces that came of them, ``[2, A, B]``, newtons."""
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
            self.state[name] = value.contiguous()
        else:
            self.state[name] = torch.slice_scatter(old, value, old.ndim - 2, start, stop)

    def close(self) -> State:
        """The state as it has become."""
        self.state["rng"] = rows_last(self.rng.state).contiguous()
        return self.state


class Stage:
    """Where the moment lies that is open now; shared by a world and all views of its bodies."""

    __slots__ = ("_moment",)

    def __init__(self) -> None:
        self._moment: Moment | None = None

    @property
    def moment(self) -> Moment:
        """The open moment.

        Raises:
            NeedsReset: none is open.

        """
        if self._moment is None:
            raise NeedsReset(
                "World: no state is open; positions and memory can be read inside spawn, observe, rewards and the other methods of a"
                " scenario, and elsewhere from the state itself (state['pos'])"
            )
        return self._moment

    def open(self, state: Mapping[str, Tensor]) -> Moment:
        """Opens ``state``."""
        self._moment = Moment(state)
        return self._moment

    def shut(self) -> None:
        """Nothing is open any more."""
        self._moment = None


class Place:
    """Where a group begins among all entities; not known before the world is complete."""

    __slots__ = ("start",)

    def __init__(self) -> None:
        self.start = -1


class _Entry:
    """``pos``, ``vel``, ``rot`` or ``ang_vel`` as an attribute of :class:`Bodies` or :class:`Body`."""

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, view: Bodies | Body | None, owner: type) -> Any:
        return self if view is None else view._show(view.planar(self.name))

    def __set__(self, view: Bodies | Body, value: object) -> None:
        view._put(self.name, value)


class Bodies:
    """Some neighbouring bodies of a world, seen by the author of a scenario: rows first, ``[B, A, ...]``.

    ``bodies[0]`` is a :class:`Body`, ``bodies[1:]`` are :class:`Bodies`. Assigning to :attr:`pos`, :attr:`vel`, :attr:`rot`
    or :attr:`ang_vel` moves them; the value is ``[B, A, ...]`` or anything that can be broadcast to it, numbers included.
    """

    def __init__(self, stage: Stage, group: str, entities: Sequence[Entity], place: Place, offset: int = 0) -> None:
        self._stage, self._place, self._offset = stage, place, offset
        self.group = group
        """The group they were added with."""
        self.entities = tuple(entities)
        """Their descriptions, in place."""

    pos = _Entry("Positions ``[B, A, 2]``, metres.")
    vel = _Entry("Velocities ``[B, A, 2]``, metres per second.")
    rot = _Entry("Rotations ``[B, A]``, radians.")
    ang_vel = _Entry("Angular velocities ``[B, A]``, radians per second.")

    @property
    def u(self) -> Tensor:
        """Their physical actions in this step, ``[B, A, n]``; zero when there is no step, as after a reset."""
        return self._controls().permute(2, 1, 0)

    @u.setter
    def u(self, value: Tensor) -> None:
        new = value.permute(2, 1, 0)
        if len(self) != (whole := self._stage.moment.controls.get(self.group, new)).shape[1]:
            new = torch.slice_scatter(whole, new, 1, self._offset, self._offset + len(self))
        self._stage.moment.controls[self.group] = new

    @property
    def said(self) -> Tensor:
        """What they said in the last step, ``[B, A, C]``; zero after a reset."""
        said = self._stage.moment.state[f"comm.{self.group}"]
        return said[:, self._offset : self._offset + len(self)].permute(2, 1, 0)

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called."""
        return tuple(entity.name for entity in self.entities)

    @property
    def start(self) -> int:
        """The place of the first one among all entities of the world."""
        return self._place.start + self._offset

    def planar(self, name: str) -> Tensor:
        """An entry of the state as it lies in memory, ``[..., A, B]``."""
        start = self.start
        return self._stage.moment.state[name][..., start : start + len(self.entities), :]

    def __len__(self) -> int:
        return len(self.entities)

    def __iter__(self) -> Iterator[Body]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, at: int) -> Body: ...
    @overload
    def __getitem__(self, at: slice) -> Bodies: ...
    def __getitem__(self, at: int | slice) -> Body | Bodies:
        if isinstance(at, int):
            i = range(len(self))[at]  # counts from the end, and raises IndexError
            return Body(self._stage, self.group, self.entities[i], self._place, self._offset + i)
        start, _, step = at.indices(len(self))
        if step != 1:
            raise IndexError(f"bodies of {self.group!r} are taken in a row; got a slice with step {step}")
        return Bodies(self._stage, self.group, self.entities[at], self._place, self._offset + start)

    def __repr__(self) -> str:
        return f"Bodies({', '.join(self.names)})"

    def _controls(self) -> Tensor:
        moment = self._stage.moment
        if self.group in moment.controls:
            return moment.controls[self.group][:, self._offset : self._offset + len(self)]
        kind = self.entities[0].kind
        size = kind.size if isinstance(kind, Agent) else 0
        return moment.state["pos"].new_zeros((size, len(self), moment.rows))

    def _show(self, x: Tensor) -> Tensor:
        return x.permute(2, 1, 0) if x.ndim == 3 else x.t()

    def _put(self, name: str, value: object) -> None:
        moment = self._stage.moment
        x = _tensor(value, moment.state[name])
        shape = (moment.rows, len(self), 2)[: moment.state[name].ndim]
        last = _fit(x, shape, f"{self}.{name}").permute(*reversed(range(len(shape))))
        moment.write(name, self.start, self.start + len(self), last)


class Body:
    """One body of a world, seen by the author of a scenario: rows first, ``[B, ...]``. Assigning moves it."""

    def __init__(self, stage: Stage, group: str, entity: Entity, place: Place, offset: int = 0) -> None:
        self._stage, self._place, self._offset = stage, place, offset
        self.group = group
        """The group it was added with."""
        self.entity = entity
        """Its description, in place."""

    pos = _Entry("Position ``[B, 2]``, metres.")
    vel = _Entry("Velocity ``[B, 2]``, metres per second.")
    rot = _Entry("Rotation ``[B]``, radians.")
    ang_vel = _Entry("Angular velocity ``[B]``, radians per second.")

    @property
    def name(self) -> str:
        """What it is called."""
        return self.entity.name

    @property
    def start(self) -> int:
        """Its place among all entities of the world."""
        return self._place.start + self._offset

    @property
    def alone(self) -> Bodies:
        """The same as :class:`Bodies` of one."""
        return Bodies(self._stage, self.group, (self.entity,), self._place, self._offset)

    def planar(self, name: str) -> Tensor:
        """An entry of the state as it lies in memory, ``[..., B]``."""
        return self._stage.moment.state[name][..., self.start, :]

    def __repr__(self) -> str:
        return f"Body({self.name})"

    def _show(self, x: Tensor) -> Tensor:
        return x.t() if x.ndim == 2 else x

    def _put(self, name: str, value: object) -> None:
        moment = self._stage.moment
        x = _tensor(value, moment.state[name])
        shape = (moment.rows, 2)[: moment.state[name].ndim - 1]
        last = _fit(x, shape, f"{self}.{name}").permute(*reversed(range(len(shape))))
        moment.write(name, self.start, self.start + 1, last.unsqueeze(-2))


class Memory:
    """What a scenario remembers from step to step, as attributes with the rows first.

    Every name is declared with its start value in ``build``: ``world.remember(gap=0.0, eaten=torch.zeros(4, dtype=torch.bool))``.
    """

    _stage: Stage
    _starts: Mapping[str, Tensor]

    def __init__(self, stage: Stage, starts: Mapping[str, Tensor]) -> None:
        object.__setattr__(self, "_stage", stage)
        object.__setattr__(self, "_starts", starts)

    def __getattr__(self, name: str) -> Tensor:
        if name.startswith("_") or name not in self._starts:
            raise AttributeError(self._unknown(name))
        return rows_first(self._stage.moment.state[f"memory.{name}"])

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._starts:
            raise KeyMissing(self._unknown(name))
        start, moment = self._starts[name], self._stage.moment
        x = _tensor(value, start)
        x = _fit(x, (moment.rows, *start.shape), f"memory.{name}")
        moment.state[f"memory.{name}"] = rows_last(x).to(start.dtype).contiguous()

    def _unknown(self, name: str) -> str:
        return f"nothing called {name!r} is remembered; declare it in build with world.remember({name}=...); {nearest(name, self._starts)}"


def _tensor(value: object, like: Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=like.dtype, device=like.device)


def _fit(x: Tensor, shape: Sequence[int], who: str) -> Tensor:
    try:
        return x if x.shape == tuple(shape) else x.expand(*shape)
    except RuntimeError:
        raise ShapeError(f"{who}: expected {['B', *list(shape)[1:]]}, got {list(x.shape)}") from None
