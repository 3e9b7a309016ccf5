"""Bodies of a world as the author of a scenario sees them, while a state lies open: rows FIRST, ``[B, A, ...]``.

Everything is a view of the open state (:mod:`marlenv.physics.laws.state`); assigning replaces entries of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, overload

import torch
from torch import Tensor

from marlenv.constants import constant
from marlenv.errors import KeyMissing
from marlenv.physics.laws.entities import Agent, Entity
from marlenv.physics.laws.state import Place, Stage, as_tensor, fitted
from marlenv.physics.laws.world_plan import PerEntity


class _StateAttribute:
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

    ``bodies[0]`` is a :class:`Body`, ``bodies[1:]`` are :class:`Bodies`. Assigning to :attr:`pos`, :attr:`vel`,
    :attr:`rot` or :attr:`ang_vel` moves them; the value is ``[B, A, ...]`` or anything that can be broadcast to it,
    numbers included.
    """

    __slots__ = ("_offset", "_place", "_stage", "entities", "group")

    def __init__(self, stage: Stage, group: str, entities: Sequence[Entity], place: Place, offset: int = 0) -> None:
        self._stage, self._place, self._offset = stage, place, offset
        self.group = group
        """The group they were added with."""
        self.entities = tuple(entities)
        """Their descriptions, in place."""

    pos = _StateAttribute("Positions ``[B, A, 2]``, metres.")
    vel = _StateAttribute("Velocities ``[B, A, 2]``, metres per second.")
    rot = _StateAttribute("Rotations ``[B, A]``, radians.")
    ang_vel = _StateAttribute("Angular velocities ``[B, A]``, radians per second.")

    @property
    def u(self) -> Tensor:
        """Their physical actions in this step, ``[B, A, n]``; zero when there is no step, as after a reset."""
        return self._controls()[:, self._offset : self._offset + len(self)].permute(2, 1, 0)

    @u.setter
    def u(self, value: object) -> None:
        kind, whole = self.entities[0].kind, self._controls()
        if not isinstance(kind, Agent):
            raise KeyMissing(f"{self}.u: the bodies of {self.group!r} do not act; agents do, scripted ones too")
        x, some = as_tensor(value, whole).to(whole.dtype), len(self) != whole.shape[1]
        drives = x.ndim > 0 and not some and x.shape[-1] == kind.dynamics.size  # in place of what was decided
        width = kind.dynamics.size if drives else whole.shape[0]
        new = fitted(x, (self._stage.moment.rows, len(self), width), f"{self}.u").permute(2, 1, 0)
        if some:
            new = torch.slice_scatter(whole, new, 1, self._offset, self._offset + len(self))
        self._stage.moment.controls[self.group] = new

    @property
    def mass(self) -> PerEntity:
        """Their masses, kg."""
        return _masses(self.entities)

    @property
    def inertia(self) -> PerEntity:
        """Their moments of inertia, kg m²."""
        return _inertias(self.entities)

    @property
    def gravity(self) -> Tensor:
        """Their own gravity, ``[B, A, 2]``, m/s²; settable where the description gives one. Lasts till the next
        spawn.
        """
        return self._piece("gravity").permute(2, 1, 0)

    @gravity.setter
    def gravity(self, value: object) -> None:
        x = as_tensor(value, self._piece("gravity"))
        self._put_piece(
            "gravity", fitted(x, (self._stage.moment.rows, len(self), 2), f"{self}.gravity").permute(2, 1, 0)
        )

    @property
    def inner(self) -> Tensor:
        """What their dynamics remembers, ``[n, A, B]``."""
        return self._piece("inner")

    @inner.setter
    def inner(self, value: Tensor) -> None:
        self._put_piece("inner", value)

    def own(self, rows: int, device: torch.device) -> dict[str, Tensor]:
        """The entries that only this group has in a state, at the start."""
        out = {}
        kinds = [entity.kind for entity in self.entities]
        if any(kind.gravity is not None for kind in kinds):
            pulls = constant([kind.gravity or (0.0, 0.0) for kind in kinds], device, torch.float32)
            out["gravity"] = pulls.t().unsqueeze(-1).repeat(1, 1, rows)
        if kinds and isinstance(kinds[0], Agent) and (size := kinds[0].dynamics.remembers):
            out["inner"] = torch.zeros(size, len(kinds), rows, dtype=torch.float32, device=device)
        return out

    def _piece(self, name: str) -> Tensor:
        whole = self._stage.moment.state.get(f"{name}.{self.group}")
        if whole is None:
            raise KeyMissing(
                f"{self}.{name}: the bodies of {self.group!r} have none; give it in their descriptions: {name}=..."
            )
        return whole[:, self._offset : self._offset + len(self)]

    def _put_piece(self, name: str, value: Tensor) -> None:
        key, state = f"{name}.{self.group}", self._stage.moment.state
        value = value.to(state[key].dtype)
        if len(self) != state[key].shape[1]:
            value = torch.slice_scatter(state[key], value, 1, self._offset, self._offset + len(self))
        state[key] = value.contiguous()

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
        """The physical actions of the whole group, ``[n, A, B]``."""
        moment = self._stage.moment
        if self.group in moment.controls:
            return moment.controls[self.group]
        kind = self.entities[0].kind
        size = kind.size if isinstance(kind, Agent) else 0
        return moment.state["pos"].new_zeros((size, self._place.count, moment.rows))

    def _show(self, x: Tensor) -> Tensor:
        return x.permute(2, 1, 0) if x.ndim == 3 else x.t()

    def _put(self, name: str, value: object) -> None:
        moment = self._stage.moment
        x = as_tensor(value, moment.state[name])
        shape = (moment.rows, len(self), 2)[: moment.state[name].ndim]
        last = fitted(x, shape, f"{self}.{name}").permute(*reversed(range(len(shape))))
        moment.write(name, self.start, self.start + len(self), last)


@lru_cache(maxsize=256)
def _masses(entities: tuple[Entity, ...]) -> PerEntity:
    return PerEntity([entity.kind.mass for entity in entities])


@lru_cache(maxsize=256)
def _inertias(entities: tuple[Entity, ...]) -> PerEntity:
    return PerEntity([entity.shape.moment_of_inertia(entity.kind.mass) for entity in entities])


class Body:
    """One body of a world, seen by the author of a scenario: rows first, ``[B, ...]``. Assigning moves it."""

    __slots__ = ("_offset", "_place", "_stage", "entity", "group")

    def __init__(self, stage: Stage, group: str, entity: Entity, place: Place, offset: int = 0) -> None:
        self._stage, self._place, self._offset = stage, place, offset
        self.group = group
        """The group it was added with."""
        self.entity = entity
        """Its description, in place."""

    pos = _StateAttribute("Position ``[B, 2]``, metres.")
    vel = _StateAttribute("Velocity ``[B, 2]``, metres per second.")
    rot = _StateAttribute("Rotation ``[B]``, radians.")
    ang_vel = _StateAttribute("Angular velocity ``[B]``, radians per second.")

    @property
    def u(self) -> Tensor:
        """Its physical action in this step, ``[B, n]``; as :attr:`Bodies.u`."""
        return self.alone.u.squeeze(1)

    @u.setter
    def u(self, value: object) -> None:
        alone = self.alone
        alone.u = value.unsqueeze(1) if isinstance(value, Tensor) and value.ndim > 1 else value

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
        x = as_tensor(value, moment.state[name])
        shape = (moment.rows, 2)[: moment.state[name].ndim - 1]
        last = fitted(x, shape, f"{self}.{name}").permute(*reversed(range(len(shape))))
        moment.write(name, self.start, self.start + 1, last.unsqueeze(-2))
