"""One step of the world: forces, contacts, and semi-implicit Euler in substeps.

The order of operations, and so of their roundings, is that of VMAS 1.5.2. ``M`` are the bodies that can move or turn,
``E`` all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from marlenv.physics.laws.axes import Axes
from marlenv.physics.laws.contacts import Contact, Pose, Spring, add
from marlenv.physics.laws.entities import Description, settle
from marlenv.physics.laws.joints import Link, Links
from marlenv.physics.laws.pairs import CONTACTS
from marlenv.physics.laws.shapes import Sphere
from marlenv.physics.laws.world_plan import HUGE, PerEntity, WorldPlan
from marlenv.physics.maths.geometry import length, shorten
from marlenv.physics.maths.rowwise import put_rows, repeat, take_rows


@dataclass(frozen=True, kw_only=True)
class Laws:
    """The numbers that hold everywhere in a world; see :class:`marlenv.physics.task.world.World`."""

    dt: float = 0.1
    substeps: int = 1
    drag: float = 0.25
    linear_friction: float = 0.0
    angular_friction: float = 0.0
    x_semidim: float | None = None
    y_semidim: float | None = None
    collision_force: float = 100.0
    joint_force: float = 130.0
    torque_constraint_force: float = 1.0
    contact_margin: float = 1e-3
    gravity: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        settle(self, "World")


class Motion(NamedTuple):
    """Where bodies are and how they move: ``pos``, ``vel`` ``[2, E, B]``, ``rot``, ``ang_vel`` ``[E, B]``."""

    pos: Tensor
    vel: Tensor
    rot: Tensor
    ang_vel: Tensor


class Stepper:
    """Moves a world of known bodies one step on.

    Args:
        plan: the bodies.
        laws: the world's numbers.
        links: what holds bodies together, in the order in which their forces are summed.

    """

    def __init__(self, plan: WorldPlan, laws: Laws, links: Sequence[Link] = ()) -> None:
        self.plan, self.laws = plan, laws
        self.dt = laws.dt / laws.substeps
        self.spring = Spring(laws.collision_force, laws.contact_margin)
        self.axes = Axes(plan.entities, _turned(plan, links))
        self.contacts: list[Contact] = [CONTACTS[kinds](pairs, self.axes) for kinds, pairs in plan.pairs.items()]
        pull = Spring(laws.joint_force, laws.contact_margin)
        self.links = Links(links, plan.place, self.axes, pull, laws.torque_constraint_force) if links else None
        self.keep = self._own(lambda k: 1 - _either(k.drag, laws.drag) if k.movable else 1.0)
        self.keep_turning = self._own(lambda k: 1 - _either(k.drag, laws.drag) if k.rotatable else 1.0)
        self.move = self._own(lambda k: self.dt if k.movable else 0.0)
        self.turn = self._own(lambda k: self.dt if k.rotatable else 0.0)
        self.friction = self._own(lambda k: _either(k.linear_friction, laws.linear_friction) * k.mass)
        self.turning_friction = self._own(
            lambda k: _either(k.angular_friction, laws.angular_friction) * k.shape.moment_of_inertia(k.mass)
        )
        self.max_speed = self._own(lambda k: _either(k.max_speed, HUGE) if k.movable else HUGE)
        self.v_range = self._own(lambda k: _either(k.v_range, HUGE) if k.movable else HUGE)
        self.walls = self._own_pair(
            lambda k: [_either(at, HUGE) if k.movable else HUGE for at in (laws.x_semidim, laws.y_semidim)]
        )
        self.pull = self._own_pair(lambda k: [k.mass * _single(at) * k.movable for at in laws.gravity])
        self.weight = self._own(lambda k: k.mass * k.movable)
        self.twists = bool(
            (plan.movers and self.turning_friction.same != 0) or any(c.twists for c in self.contacts) or links
        )
        """Whether anything but an action can turn a body."""
        met = [rows for c in self.contacts for rows in (c.pairs.first, c.pairs.second)]
        met += self.links.bodies if self.links else []
        self.still = any(at >= plan.movers for rows in met for at in rows.at)
        """Whether a contact or a joint needs to know where a body is that never moves."""

    def _own(self, f: Callable[[Description], float]) -> PerEntity:
        return self.plan.moving(f)

    def _own_pair(self, f: Callable[[Description], Sequence[float]]) -> PerEntity:
        """A constant for each of ``x`` and ``y``."""
        x, y = self.plan.moving(lambda k: f(k)[0]), self.plan.moving(lambda k: f(k)[1])
        return PerEntity([*x.values, *y.values], lead=(2,))

    # --- the step --------------------------------------------------------------------------------

    def __call__(
        self,
        motion: Motion,
        force: Sequence[Tensor],
        torque: Sequence[Tensor] | None,
        gravity: Sequence[Tensor] | None = None,
        bends: Tensor | None = None,
    ) -> Motion:
        """The motion one step later.

        Args:
            motion: as it is.
            force: the forces of the actions, parts of ``[2, M, B]`` in order along ``M``.
            torque: the torques of the actions, parts of ``[M, B]``; None when there is none.
            gravity: the bodies' own gravity, parts of ``[2, M, B]``; None when there is none.
            bends: of joints, as the spawn gave them, ``[I, B]``.

        """
        movers = self.plan.movers
        if not movers:
            return motion
        now = Motion(*(x[..., :movers, :] for x in motion))
        action = _whole(force, 1)
        twist = (
            _whole(torque, 0)
            if torque is not None
            else now.rot.new_zeros(()).expand_as(now.rot)
            if self.twists
            else None
        )
        own = None if gravity is None else _whole(gravity, 1) * self.weight.on(action)
        meet = _Meeting(self, motion, bends)

        def substep(i: int | Tensor, so_far: tuple[Tensor, ...]) -> Motion:
            now = Motion(*so_far)
            f, t = meet(now, *self._forces(now, action, twist, own))
            return self._advance(now, f, t, drag=i == 0)

        now = Motion(*(repeat(self.laws.substeps, substep, now) if self.laws.substeps > 1 else substep(0, now)))
        return Motion(*(_replace(old, new, movers) for old, new in zip(motion, now, strict=True)))

    def _forces(
        self, now: Motion, force: Tensor, torque: Tensor | None, gravity: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """The forces ``[2, M, B]`` and torques ``[M, B]`` that bodies feel by themselves, in a substep."""
        if self.friction.same != 0:
            speed = length(now.vel[0], now.vel[1])
            force = force + self._rub(now.vel, speed, self.friction.on(force), self.plan.mass.on(force))
        if torque is not None and self.turning_friction.same != 0:
            spin = now.ang_vel.abs().clamp(min=1e-18)
            torque = torque + self._rub(
                now.ang_vel, spin, self.turning_friction.on(torque), self.plan.inertia.on(torque)
            )
        if self.pull.same != 0:
            force = force + self.pull.on(force)
        if gravity is not None:
            force = force + gravity
        return force, torque

    def _rub(self, vel: Tensor, speed: Tensor, most: Tensor, mass: Tensor) -> Tensor:
        """Coulomb friction: against the velocity, ``most`` newtons, and no more than what stops the body."""
        return -(vel / speed) * torch.minimum(most, (vel.abs() / self.dt) * mass)

    def _advance(self, now: Motion, force: Tensor, torque: Tensor | None, *, drag: bool | Tensor) -> Motion:
        pos, vel, rot, ang_vel = now
        vel, ang_vel = _slower(vel, self.keep, drag), _slower(ang_vel, self.keep_turning, drag)
        accel = force if self.plan.mass.same == 1 else force / self.plan.mass.on(vel)
        vel = vel + accel * self.move.on(vel)
        if self.max_speed.same != HUGE:
            vel = torch.stack(shorten(vel[0], vel[1], self.max_speed.on(vel)))
        if self.v_range.same != HUGE:
            most = self.v_range.on(vel)
            vel = vel.clamp(-most, most)
        pos = pos + vel * self.move.on(vel)
        if self.walls.same != HUGE:
            wall = self.walls.on(pos)
            pos = pos.clamp(-wall, wall)
        if torque is not None:
            ang_vel = ang_vel + (torque / self.plan.inertia.on(vel)) * self.turn.on(vel)
        return Motion(pos, vel, rot + ang_vel * self.turn.on(vel), ang_vel)


class _Meeting:
    """The forces between bodies, in the substeps of one step."""

    def __init__(self, stepper: Stepper, before: Motion, bends: Tensor | None) -> None:
        self.stepper, self.before, self.bends = stepper, before, bends
        self.still = stepper.axes.still(before.rot)

    def __call__(self, now: Motion, force: Tensor, torque: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Those of the actions and so on, and those of joints and contacts added."""
        stepper = self.stepper
        if not stepper.contacts and stepper.links is None:
            return force, torque
        movers = stepper.plan.movers
        pos, rot = now.pos, now.rot
        if stepper.still:
            pos, rot = _replace(self.before.pos, pos, movers), _replace(self.before.rot, rot, movers)
        pose = Pose(pos, stepper.axes.all(rot, self.still))
        if stepper.links is not None and torque is not None:
            force, torque = stepper.links.add(pose, rot, self.bends, force, torque)
        for contact in stepper.contacts:
            near = contact.nearby(pose)
            if near is None:
                force, torque = add(contact.pairs, contact.felt(pose, stepper.spring), force, torque)
            elif len(near):
                there = Pose(*(take_rows(x, near) for x in pose))
                some = take_rows(force, near), None if torque is None else take_rows(torque, near)
                f, t = add(contact.pairs, contact.push(there, stepper.spring), *some)
                force = put_rows(force, near, f)
                torque = torque if torque is None or t is None else put_rows(torque, near, t)
        return force, torque


def _turned(plan: WorldPlan, links: Sequence[Link]) -> list[int]:
    """The places of the bodies whose directions matter."""
    bodies = [
        e for pairs in plan.pairs.values() for pair in pairs.entities for e in pair if not isinstance(e.shape, Sphere)
    ]
    bodies += [body for link in links for body in (link.a, link.b)]
    return [plan.place[body.name] for body in bodies]


def _slower(x: Tensor, keep: PerEntity, when: bool | Tensor) -> Tensor:
    """``x`` times ``keep``, where ``when`` holds."""
    if when is False or keep.same == 1:
        return x
    return x * (keep.on(x) if when is True else torch.where(when, keep.on(x), 1.0))


def _either(own: float | None, world: float | None) -> float:
    """The body's own number, or the world's where it has none."""
    return own if own is not None else HUGE if world is None else world


def _single(x: float) -> float:
    """``x`` in float32."""
    return float(torch.tensor(x, dtype=torch.float32, device="cpu"))


def _whole(parts: Sequence[Tensor], dim: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(tuple(parts), dim)


def _replace(old: Tensor, new: Tensor, movers: int) -> Tensor:
    """``old`` ``[..., E, B]`` with its first entities replaced."""
    return new if old.shape[-2] == movers else torch.cat((new, old[..., movers:, :]), -2)
