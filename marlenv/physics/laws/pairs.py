"""What two shapes do to each other: one class per pair of shapes, all pairs of a kind at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from marlenv.physics.laws.contacts import Contact, Pose, Push, Solid, Spring, repulsion, single_sum
from marlenv.physics.laws.shapes import Box, Line, Sphere
from marlenv.physics.laws.world_plan import PerEntity
from marlenv.physics.maths.geometry import (
    LINE_WIDTH,
    closest_box_line,
    closest_boxes,
    closest_lines,
    closest_on_box,
    closest_on_line,
    cross,
    length,
)
from marlenv.physics.maths.rowwise import pick


class SphereSphere(Contact):
    """Two discs."""

    twists: ClassVar[bool] = False

    def prepare(self, first: Sequence[Sphere], second: Sequence[Sphere]) -> None:
        """The distances at which they touch."""
        self.radii = [PerEntity([ball.radius for ball in side]) for side in (first, second)]
        self.apart = PerEntity([single_sum(a.radius, b.radius) for a, b in zip(first, second, strict=True)])

    def push(self, pose: Pose, spring: Spring) -> Push:
        """Along the line of centres."""
        delta = pick(pose.pos, self.pairs.first) - pick(pose.pos, self.pairs.second)
        return Push(repulsion(delta, self.apart.on(delta), spring))

    def between(self, pose: Pose) -> tuple[Tensor, Tensor]:
        """Between the nearest points of the rims."""
        delta = pick(pose.pos, self.pairs.first) - pick(pose.pos, self.pairs.second)
        gap = length(delta[0], delta[1]) - self.radii[0].on(delta) - self.radii[1].on(delta)
        return gap, gap < 0


class LineSphere(Contact):
    """A line and a disc."""

    def prepare(self, first: Sequence[Line], second: Sequence[Sphere]) -> None:
        """The lines, and the distances at which discs touch them."""
        self.line = self.lines(0, first)
        self.radius = PerEntity([ball.radius for ball in second])
        self.apart = PerEntity([single_sum(ball.radius, LINE_WIDTH) for ball in second])

    def push(self, pose: Pose, spring: Spring) -> Push:
        """Away from the closest point of the line."""
        line, ball = self.line(pose), pick(pose.pos, self.pairs.second)
        point = closest_on_line(line, ball)
        force = -repulsion(ball - point, self.apart.on(ball), spring)
        return Push(force, cross(point - line.centre, force))

    def between(self, pose: Pose) -> tuple[Tensor, Tensor]:
        """Between the line and the nearest point of the rim."""
        ball = pick(pose.pos, self.pairs.second)
        delta = ball - closest_on_line(self.line(pose), ball)
        gap = length(delta[0], delta[1]) - LINE_WIDTH - self.radius.on(ball)
        return gap, gap < 0


class LineLine(Contact):
    """Two lines; lines that cross do not push."""

    def prepare(self, first: Sequence[Line], second: Sequence[Line]) -> None:
        """Both lines."""
        self.a, self.b = self.lines(0, first), self.lines(1, second)
        self.apart = PerEntity([LINE_WIDTH])

    def push(self, pose: Pose, spring: Spring) -> Push:
        """Between the closest points."""
        a, b = self.a(pose), self.b(pose)
        on_a, on_b = closest_lines(a, b)
        force = repulsion(on_a - on_b, self.apart.on(on_a), spring)
        return Push(force, cross(on_a - a.centre, force), cross(on_b - b.centre, -force))

    def between(self, pose: Pose) -> tuple[Tensor, Tensor]:
        """Between the nearest points."""
        on_a, on_b = closest_lines(self.a(pose), self.b(pose))
        return _gap(on_a - on_b)


class BoxSphere(Contact):
    """A box and a disc."""

    def prepare(self, first: Sequence[Box], second: Sequence[Sphere]) -> None:
        """The boxes, which of them are solid, and the distances at which discs touch them."""
        self.box, self.solid = self.boxes(0, first), Solid(first)
        self.radius = PerEntity([ball.radius for ball in second])
        self.near = PerEntity([ball.radius + LINE_WIDTH for ball in second])
        self.apart = PerEntity([single_sum(ball.radius, LINE_WIDTH) for ball in second])

    def push(self, pose: Pose, spring: Spring) -> Push:
        """Away from the closest point of the outline."""
        ball, centre = pick(pose.pos, self.pairs.second), pick(pose.pos, self.pairs.first)
        point = closest_on_box(self.box(pose), ball)
        inner, deep = self.solid.inside(ball, point, centre)
        apart = self.apart.on(ball)
        force = -repulsion(ball - inner, apart if deep is None else apart + deep, spring)
        return Push(force, cross(point - centre, force))

    def between(self, pose: Pose) -> tuple[Tensor, Tensor]:
        """Between the outline and the rim; -1 where the disc is on the outline or within it."""
        out, within = self._centres(pose)
        overlap = within | (out < self.near.on(out))
        return torch.where(overlap, -1.0, out - LINE_WIDTH - self.radius.on(out)), overlap

    def stuck(self, pose: Pose, least: float) -> Tensor:
        """Where the rim crosses the outline; or the middle of the disc is in a solid box."""
        out, within = self._centres(pose)
        return (out < self.radius.on(out) - least) | (within & (self.solid.share.on(out) > 0))

    def _centres(self, pose: Pose) -> tuple[Tensor, Tensor]:
        """How far the middles of discs are from the outlines, metres, and whether they are within them; ``[P, B]``."""
        ball, centre = pick(pose.pos, self.pairs.second), pick(pose.pos, self.pairs.first)
        point = closest_on_box(self.box(pose), ball)
        ways = torch.stack((ball - point, ball - centre, centre - point), 1)
        out, far, deep = length(ways[0], ways[1]).unbind(0)
        return out, far < deep


class BoxLine(Contact):
    """A box and a line."""

    def prepare(self, first: Sequence[Box], second: Sequence[Line]) -> None:
        """The boxes, which of them are solid, and the lines."""
        self.box, self.solid, self.line = self.boxes(0, first), Solid(first), self.lines(1, second)
        self.apart = PerEntity([LINE_WIDTH])

    def push(self, pose: Pose, spring: Spring) -> Push:
        """Between the closest points."""
        centre, line = pick(pose.pos, self.pairs.first), self.line(pose)
        of_box, of_line = closest_box_line(self.box(pose), line)
        inner, deep = self.solid.inside(of_line, of_box, centre)
        apart = self.apart.on(of_line)
        force = repulsion(inner - of_line, apart if deep is None else apart + deep, spring)
        return Push(force, cross(of_box - centre, force), cross(of_line - line.centre, -force))

    def between(self, pose: Pose) -> tuple[Tensor, Tensor]:
        """Between the nearest points of the outlines; a line inside a box does not overlap it."""
        of_box, of_line = closest_box_line(self.box(pose), self.line(pose))
        return _gap(of_box - of_line)


class BoxBox(Contact):
    """Two boxes."""

    def prepare(self, first: Sequence[Box], second: Sequence[Box]) -> None:
        """Both boxes, and which of them are solid."""
        self.a, self.b = self.boxes(0, first), self.boxes(1, second)
        self.solid_a, self.solid_b = Solid(first), Solid(second)
        self.apart = PerEntity([LINE_WIDTH])

    def push(self, pose: Pose, spring: Spring) -> Push:
        """Between the closest points."""
        at_a, at_b = pick(pose.pos, self.pairs.first), pick(pose.pos, self.pairs.second)
        of_a, of_b = closest_boxes(self.a(pose), self.b(pose))
        inner_a, deep_a = self.solid_a.inside(of_b, of_a, at_a)
        inner_b, deep_b = self.solid_b.inside(of_a, of_b, at_b)
        apart = self.apart.on(of_a)
        deep = deep_a if deep_b is None else deep_b if deep_a is None else deep_a + deep_b
        if deep is not None:
            apart = deep + apart
        force = repulsion(inner_a - inner_b, apart, spring)
        return Push(force, cross(of_a - at_a, force), cross(of_b - at_b, -force))

    def between(self, pose: Pose) -> tuple[Tensor, Tensor]:
        """Between the nearest points of the outlines; a box inside another one does not overlap it."""
        of_a, of_b = closest_boxes(self.a(pose), self.b(pose))
        return _gap(of_a - of_b)


def _gap(delta: Tensor) -> tuple[Tensor, Tensor]:
    gap = length(delta[0], delta[1]) - LINE_WIDTH
    return gap, gap < 0


CONTACTS: dict[tuple[type, type], type[Contact]] = {
    (Sphere, Sphere): SphereSphere,
    (Line, Sphere): LineSphere,
    (Line, Line): LineLine,
    (Box, Sphere): BoxSphere,
    (Box, Line): BoxLine,
    (Box, Box): BoxBox,
}
