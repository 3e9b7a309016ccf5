"""Joints: two bodies held together at a point of each.

Every joint of the world is made of links without length; a joint with a distance is a bar between two links. The
formulas are those of VMAS 1.5.2. ``J`` are the links, ``M`` the bodies that can move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from marlenv.constants import constant
from marlenv.errors import GroupError
from marlenv.physics.laws.axes import Axes
from marlenv.physics.laws.bodies import Body
from marlenv.physics.laws.contacts import NEAREST, Pose, Spring, depth
from marlenv.physics.laws.entities import Entity
from marlenv.physics.laws.world_plan import PerEntity, Side
from marlenv.physics.maths.geometry import cross, heading, length, rotate
from marlenv.physics.maths.rowwise import EntityIndex, alike, pick

STRAIGHT = 1e-9  # radians; what is bent less is not turned


@dataclass(frozen=True, eq=False)
class Link:
    """Point ``at_a`` of one body held at point ``at_b`` of another.

    Args:
        a: one body.
        b: the other.
        at_a: metres from its centre, in its own coordinates.
        at_b: likewise.
        rotate: whether the two may turn against each other.
        bend: else, how far ``a`` is turned against ``b``, radians; None: as far as when they were spawned.

    """

    a: Entity
    b: Entity
    _: KW_ONLY
    at_a: tuple[float, float] = (0.0, 0.0)
    at_b: tuple[float, float] = (0.0, 0.0)
    rotate: bool = True
    bend: float | None = None

    @property
    def inferred(self) -> bool:
        """Whether its bend is that of the spawn, and so a part of the state."""
        return not self.rotate and self.bend is None


class Links:
    """All links of a world, as forces and torques.

    Args:
        links: in the order in which their forces are summed.
        place: entity -> its place.
        axes: the directions of the bodies that they hold.
        spring: how hard they pull.
        twist: how hard those that do not rotate turn, newton metres.

    """

    def __init__(self, links: Sequence[Link], place: dict[str, int], axes: Axes, spring: Spring, twist: float) -> None:
        self.spring, self.twist = spring, twist
        sides = [
            [(place[link.a.name], link.a.kind) for link in links],
            [(place[link.b.name], link.b.kind) for link in links],
        ]
        self.bodies = [EntityIndex([at for at, _ in side]) for side in sides]
        self.axes = [axes.rows(rows) for rows in self.bodies]
        self.push = [Side([at if kind.movable else None for at, kind in side]) for side in sides]
        self.turn = [Side([at if kind.rotatable else None for at, kind in side]) for side in sides]
        self.anchors = [
            PerEntity([at[i] for i in (0, 1) for at in points], lead=(2,))
            for points in ([link.at_a for link in links], [link.at_b for link in links])
        ]
        self.fixed = EntityIndex([k for k, link in enumerate(links) if not link.rotate])
        self.fixed_bodies = [EntityIndex([rows.at[k] for k in self.fixed.at]) for rows in self.bodies]
        self.stiff = PerEntity([float(not link.rotate) for link in links])
        given = [links[k] for k in self.fixed.at]
        self.given = PerEntity([link.bend or 0.0 for link in given] or [0.0])
        self.inferred = EntityIndex([k for k, link in enumerate(given) if link.inferred])
        """Which of the fixed ones have their bend in the state."""

    def spawned(self, rot: Tensor) -> Tensor:
        """The bends of the links that keep what the spawn gave them; ``[I, B]``, from the rotations ``[E, B]``."""
        a, b = (pick(pick(rot, rows), self.inferred) for rows in self.fixed_bodies)
        return a - b

    def add(
        self, pose: Pose, rot: Tensor, bends: Tensor | None, force: Tensor, torque: Tensor
    ) -> tuple[Tensor, Tensor]:
        """``force`` ``[2, M, B]`` and ``torque`` ``[M, B]`` with those of the links added.

        Args:
            pose: where all bodies are.
            rot: all rotations, ``[E, B]``.
            bends: what :meth:`spawned` gave at the reset.
            force: so far.
            torque: so far.

        """
        centres = [pick(pose.pos, rows) for rows in self.bodies]
        points = [
            c + rotate(anchor.on(c).expand_as(c), pick(pose.axes, rows))
            for c, anchor, rows in zip(centres, self.anchors, self.axes, strict=True)
        ]
        pull = self._pull(points[0] - points[1])
        turns = [cross(points[0] - centres[0], pull), cross(points[1] - centres[1], -pull)]
        if len(self.fixed):
            straighten = self._straighten(rot, bends)
            turns = [turns[0] - straighten, turns[1] + straighten]
        for side, sign in ((1, -1), (0, 1)):
            force = self.push[side].add(force, pull, sign)
            torque = self.turn[side].add(torque, turns[side])
        return force, torque

    def _pull(self, delta: Tensor) -> Tensor:
        """The force on the first bodies, ``[2, J, B]``."""
        apart = length(delta[0], delta[1])
        size = depth(apart, self.spring.margin) * (apart >= NEAREST)
        return -self.spring.stiffness * delta / apart.clamp(min=NEAREST) * size

    def _straighten(self, rot: Tensor, bends: Tensor | None) -> Tensor:
        """The torque that turns the bodies back, ``[J, B]``; minus it acts on the first ones."""
        bend = self.given.on(rot)
        if bends is not None:
            bend = _put(bend.expand(len(self.fixed), rot.shape[-1]), self.inferred, bends)
        a, b = (pick(rot, rows) for rows in self.fixed_bodies)
        off = a - (b + bend)
        size = (alike(torch.exp, off.abs()) - 1) * (off.abs() >= STRAIGHT)
        turn = self.twist * off.sign() * size
        if len(self.fixed) == len(self.stiff.values):
            return turn
        return _put(rot.new_zeros(()).expand(len(self.stiff.values), rot.shape[-1]), self.fixed, turn)


def _put(x: Tensor, which: EntityIndex, value: Tensor) -> Tensor:
    """``x`` ``[n, B]`` with the entries ``which`` replaced."""
    if len(which) == x.shape[0]:
        return value
    parts, new = list(x.unbind(0)), value.unbind(0)
    for k, one in zip(which.at, new, strict=True):
        parts[k] = one
    return torch.stack(parts)


@dataclass(frozen=True, eq=False)
class Joint:
    """Two bodies of a world that are joined; made by :meth:`World.join <marlenv.physics.task.world.World.join>`."""

    a: Body
    b: Body
    between: Body | None
    """What is between them; None when they are joined without a distance."""
    links: tuple[Link, ...]

    @property
    def bar(self) -> Body:
        """What is between them."""
        if self.between is None:
            raise GroupError(f"{self.a} and {self.b} are joined without a distance: there is no bar between them")
        return self.between

    def place(self) -> None:
        """Puts the bar between the points that it joins."""
        points = [_point(body, link) for body, link in zip((self.a, self.b), self.links, strict=True)]
        way = points[1] - points[0]
        self.bar.pos = ((points[0] + points[1]) / 2).t()
        self.bar.rot = alike(torch.atan2, way[1], way[0])


def _point(body: Body, link: Link) -> Tensor:
    """Where a link holds a body, ``[2, B]``."""
    pos = body.planar("pos")
    anchor = constant(link.at_b, pos.device, pos.dtype).unsqueeze(-1).expand_as(pos)
    return pos + rotate(anchor, heading(body.planar("rot")))


class JointOptions(NamedTuple):
    """What :meth:`World.join <marlenv.physics.task.world.World.join>` was asked for."""

    anchor_a: tuple[float, float]
    anchor_b: tuple[float, float]
    rotate_a: bool
    rotate_b: bool
    fixed_rotation_a: float | None
    fixed_rotation_b: float | None
    dist: float
    collidable: bool
    width: float

    def check(self, a: Entity, b: Entity, substeps: int) -> None:
        """Raises where it cannot be."""
        who = f"World.join({a.name!r}, {b.name!r})"
        if a is b:
            raise ValueError(f"{who}: a body cannot be joined to itself")
        if substeps < 2:
            raise ValueError(f"{who}: a world with joints needs more than 1 substep, got {substeps}; World(substeps=5)")
        if outside := [at for at in (self.anchor_a, self.anchor_b) if not all(-1 <= x <= 1 for x in at)]:
            raise ValueError(f"{who}: anchors must be in [-1, 1], got {outside[0]}")
        if self.dist < 0 or self.width < 0:
            raise ValueError(f"{who}: dist and width must be 0 or more metres, got {self.dist} and {self.width}")
        if self.dist == 0 and (self.collidable or self.width):
            raise ValueError(
                f"{who}: a joint without a distance has no bar; give a dist, or leave out collidable and width"
            )
        if self.dist == 0 and self.fixed_rotation_a != self.fixed_rotation_b:
            raise ValueError(
                f"{who}: without a distance, fixed_rotation_a and fixed_rotation_b are one; give both alike"
            )
        if self.width and not self.collidable:
            raise ValueError(f"{who}: a bar with a width must be collidable, got collidable=False")
        for side, rotates, fixed in (
            ("a", self.rotate_a, self.fixed_rotation_a),
            ("b", self.rotate_b, self.fixed_rotation_b),
        ):
            if rotates and fixed is not None:
                raise ValueError(f"{who}: fixed_rotation_{side}={fixed} needs rotate_{side}=False")
