"""Lengths, distances and closest points in the plane.

Points and directions are ``[2, ...]`` (x, then y), rows last; everything is elementwise, so a row never meets another
one, and differentiable with finite gradients everywhere. The choices among equally close points are those of VMAS
1.5.2.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from torch import Tensor

from marlenv.physics.maths.rowwise import alike, in_graph

TINY = 1e-37  # square metres; the square root of anything smaller has no finite gradient
FLAT = 1e-20  # square metres; lines whose cross product is smaller are parallel
LINE_WIDTH = 4 / 6e2  # metres between a line or a box's side and what touches it


def length(x: Tensor, y: Tensor) -> Tensor:
    """The length of the vectors ``(x, y)``, at least 3e-19 (so that its gradient is finite at zero).

    On the CPU in eager mode the last bit is that of ``torch.linalg.vector_norm(torch.stack((x, y), -1), dim=-1)``, by
    vectorised operations at a fraction of its cost: one fused multiply-add, and a correctly rounded square root.

    >>> length(torch.tensor([3.0]), torch.tensor([4.0]))
    tensor([5.])
    """
    if in_graph() or x.device.type != "cpu" or x.dtype != torch.float32:
        return torch.sqrt((x * x + y * y).clamp(min=TINY))
    return torch.addcmul(x * x, y, y).clamp(min=TINY).double().sqrt().float()


def shorten(x: Tensor, y: Tensor, longest: float | Tensor) -> tuple[Tensor, Tensor]:
    """The vectors ``(x, y)``, cut to the length ``longest`` where they are longer.

    >>> shorten(torch.tensor([3.0, 0.0]), torch.tensor([4.0, 0.0]), 1.0)
    (tensor([0.6000, 0.0000]), tensor([0.8000, 0.0000]))
    """
    size = length(x, y)
    over = size > longest
    return torch.where(over, (x / size) * longest, x), torch.where(over, (y / size) * longest, y)


def dot(a: Tensor, b: Tensor) -> Tensor:
    """The scalar product of ``[2, ...]`` and ``[2, ...]``."""
    product = a * b
    return product[0] + product[1]


def cross(a: Tensor, b: Tensor) -> Tensor:
    """The cross product of ``[2, ...]`` and ``[2, ...]``: the torque of the force ``b`` at ``a``."""
    return a[0] * b[1] - a[1] * b[0]


def heading(angle: Tensor) -> Tensor:
    """The direction ``[2, ...]`` of angles in radians.

    >>> heading(torch.tensor(0.0))
    tensor([1., 0.])
    """
    return torch.stack((alike(torch.cos, angle), alike(torch.sin, angle)))


def between_lines(a: Tensor, b: Tensor | float) -> Tensor:
    """How far two lines are turned against each other, radians in [0, pi / 2].

    >>> round(between_lines(torch.tensor(3.0), 0.1).item(), 4)
    0.2416
    """
    a, b = a % torch.pi, b % torch.pi
    straight = (a - b).abs()
    return torch.minimum(straight, torch.minimum((a - (b - torch.pi)).abs(), ((a - torch.pi) - b).abs()))


def rotate(x: Tensor, along: Tensor) -> Tensor:
    """``x`` ``[2, ...]`` turned by the angle whose direction is ``along`` ``[2, ...]``."""
    cos, sin = along[0], along[1]
    return torch.stack((x[0] * cos - x[1] * sin, x[0] * sin + x[1] * cos))


class Segment(NamedTuple):
    """Straight segments: their middles ``[2, ...]``, directions ``[2, ...]`` and half lengths ``[...]``."""

    centre: Tensor
    axis: Tensor
    half: Tensor

    def ends(self) -> Tensor:
        """Both ends; ``[2, 2, ...]``."""
        reach = self.axis * self.half
        return torch.stack((self.centre + reach, self.centre - reach), 1)

    def spread(self, dim: int) -> Self:
        """With a new dimension of size 1 at ``dim`` (counted behind x and y), to meet others."""
        half = self.half if self.half.ndim <= 2 else self.half.unsqueeze(dim)
        return self._replace(centre=self.centre.unsqueeze(dim + 1), axis=self.axis.unsqueeze(dim + 1), half=half)


def sides(
    centre: Tensor, along: Tensor, across: Tensor, half_length: Tensor, half_width: Tensor, halves: Tensor
) -> Segment:
    """The four sides of boxes: ends of the length, then ends of the width; a new dimension of 4 behind x and y.

    Args:
        centre: ``[2, P, B]``.
        along: the direction of the length, ``[2, P, B]``.
        across: the direction of the width, ``[2, P, B]``.
        half_length: ``[P, 1]`` or ``[]``.
        half_width: likewise.
        halves: the half lengths of the sides in their order, ``[4, P, 1]`` or ``[]``.

    """
    x, y = along * half_length, across * half_width
    middles = torch.stack((centre + x, centre - x, centre + y, centre - y), 1)
    return Segment(middles, torch.stack((across, across, along, along), 1), halves)


# --- closest points ------------------------------------------------------------------------------


def closest_on_line(line: Segment, point: Tensor) -> Tensor:
    """The point of a segment that is closest to ``point``; ``[2, ...]``.

    >>> line = Segment(torch.zeros(2), torch.tensor([1.0, 0.0]), torch.tensor(0.5))
    >>> closest_on_line(line, torch.tensor([2.0, 1.0]))
    tensor([0.5000, 0.0000])
    """
    along = dot(line.centre - point, line.axis)
    return line.centre - torch.clamp(along, -line.half, line.half) * line.axis


def closest_on_box(box: Segment, point: Tensor) -> Tensor:
    """The point of the outline of a box, given by its :func:`sides`, that is closest to ``point`` ``[2, ...]``."""
    points = closest_on_line(box, point.unsqueeze(1))
    away = point.unsqueeze(1) - points
    return _nearest(length(away[0], away[1]), points)[0]


def closest_lines(a: Segment, b: Segment) -> tuple[Tensor, Tensor]:
    """The points of two segments that are closest to each other, each ``[2, ...]``; one point twice where they
    cross.
    """
    ends_a, ends_b = a.ends(), b.ends()
    on_b, on_a = closest_on_line(b.spread(0), ends_a), closest_on_line(a.spread(0), ends_b)
    ends_a, ends_b = ends_a.expand_as(on_b), ends_b.expand_as(on_a)
    of_a, of_b = torch.cat((ends_a, on_a), 1), torch.cat((on_b, ends_b), 1)
    away = of_a - of_b
    near_a, near_b = _nearest(length(away[0], away[1]), of_a, of_b)
    (a1, a2), (b1, b2) = ends_a.unbind(1), ends_b.unbind(1)
    r, s, q = a2 - a1, b2 - b1, b1 - a1
    area = cross(r, s)
    crossing = area.abs() > FLAT
    area = torch.where(crossing, area, 1.0)
    u, t = cross(q, r) / area, cross(q, s) / area
    crossing = crossing & (u >= 0) & (u <= 1) & (t >= 0) & (t <= 1)
    meet = a1 + t * r
    return torch.where(crossing, meet, near_a), torch.where(crossing, meet, near_b)


def closest_box_line(box: Segment, line: Segment) -> tuple[Tensor, Tensor]:
    """The points of a box's outline and of a segment that are closest to each other, each ``[2, ...]``."""
    of_box, of_line = closest_lines(box, line.spread(0))
    away = of_box - of_line
    near_box, near_line = _nearest(length(away[0], away[1]), of_box, of_line)
    return near_box, near_line


def closest_boxes(a: Segment, b: Segment) -> tuple[Tensor, Tensor]:
    """The points of the outlines of two boxes that are closest to each other, each ``[2, ...]``."""
    b_of_sides, sides_of_a = closest_box_line(b.spread(1), a)
    a_of_sides, sides_of_b = closest_box_line(a.spread(1), b)
    of_a, of_b = torch.cat((sides_of_a, a_of_sides), 1), torch.cat((b_of_sides, sides_of_b), 1)
    away = of_a - of_b
    near_a, near_b = _nearest(length(away[0], away[1]), of_a, of_b)
    return near_a, near_b


def _nearest(far: Tensor, *points: Tensor) -> tuple[Tensor, ...]:
    """Of candidates along the first dimension of ``far``, and behind x and y in ``points``, the first of the
    nearest.
    """
    best, chosen = far[0], [p[:, 0] for p in points]
    for k in range(1, far.shape[0]):
        nearer = far[k] < best
        best = torch.where(nearer, far[k], best)
        chosen = [torch.where(nearer, p[:, k], old) for p, old in zip(points, chosen, strict=True)]
    return tuple(chosen)


def inside(outside: Tensor, surface: Tensor, centre: Tensor) -> tuple[Tensor, Tensor]:
    """How a solid body pushes from within: the way inwards from its surface, and how long it is.

    From the point ``surface`` that is closest to the point ``outside``, on towards the foot of the perpendicular from
    the centre; so what has come through the surface is still pushed out of it.

    Returns:
        The vector inwards ``[2, ...]`` and its length ``[...]``, metres; zero where the two points are one.

    """
    v, u = surface - outside, centre - surface
    size = length(v[0], v[1])
    deep = dot(v, u) / size
    return (v / size) * deep, deep.abs()
