"""Where cars are along the lines of their routes: how far away, at which point, and whether their outlines cross them.

Everything is ``[..., A, B]`` here (cars, then rows). The order of the arithmetic is VMAS's: where a car is as near to
one piece of a line as to the next, the last bit says which of them is the nearest.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from marlenv.scenarios.road_traffic.lines import Lines
from torch import Tensor

from marlenv.physics import heading
from marlenv.physics.maths.geometry import length
from marlenv.physics.maths.rowwise import in_graph, repeat, rolls

FLAT = 1e-8  # square metres, added to the square of a length that something is divided by
FEW = 2048  # cars in all rows; more are looked at piece of a line by piece, which stays in the cache


class Found(NamedTuple):
    """What is known of points and a line."""

    distance: Tensor
    """``[K, A, B]``, metres."""
    ahead: Tensor
    """The end of the piece nearest to the first point, int64 ``[A, B]``."""
    crossed: Tensor
    """Whether the outline crosses the line, bool ``[A, B]``."""


def corners(pos: Tensor, rot: Tensor, size: tuple[float, float]) -> Tensor:
    """The four corners of boxes from the front left on, clockwise; ``[2, 4, A, B]``."""
    along = heading(rot)
    signs = ((1, 1), (1, -1), (-1, -1), (-1, 1))
    ends = [(u * size[0] / 2 * along[0] - v * size[1] / 2 * along[1],
             u * size[0] / 2 * along[1] + v * size[1] / 2 * along[0]) for u, v in signs]  # fmt: skip
    return torch.stack([torch.stack([end[i] + pos[i] for end in ends]) for i in (0, 1)])


def track(lines: Lines, path: Tensor, points: Tensor, outline: Tensor | None = None) -> Found:
    """Points ``[2, K, A, B]`` and an outline ``[2, 4, A, B]`` along the lines of routes ``path`` (int64 ``[A, B]``)."""
    if rolls() or (not in_graph() and path.numel() > FEW):
        return _piece_by_piece(lines, path, points, outline)
    base, last = path * lines.length, lines.count(path) - 1
    order = torch.arange(lines.length, device=path.device).reshape(-1, 1, 1)
    line = lines.points(base + order)  # x and y, [L, A, B]
    starts, ways = [x[:-1] for x in line], [x[1:] - x[:-1] for x in line]
    real = order[:-1] < last
    size = ways[0] * ways[0] + ways[1] * ways[1] + FLAT
    far, ahead = [], path
    for k in range(points.shape[1]):
        off = _off(points[:, k], starts, ways, size)
        nearest = torch.where(real, off, torch.inf).min(0)
        far.append(nearest.values)
        ahead = nearest.indices + 1 if k == 0 else ahead
    crossed = torch.zeros_like(path, dtype=torch.bool)
    if outline is not None:
        crossed = crosses(outline, [x[:-1] for x in line], [x[1:] for x in line]).any(0)
    return Found(torch.stack(far), ahead, crossed)


def _piece_by_piece(lines: Lines, path: Tensor, points: Tensor, outline: Tensor | None) -> Found:
    """The same by a loop over the pieces."""
    base, last = path * lines.length, lines.count(path) - 1

    def look(i: Tensor | int, so_far: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        best, ahead, crossed, *start = so_far
        end = lines.points(base + (i + 1))
        way = [b - a for a, b in zip(start, end, strict=True)]
        off = _off(points, start, way, way[0] * way[0] + way[1] * way[1] + FLAT)
        better = (i < last) & (off < best)
        ahead = torch.where(better[0], i + 1, ahead)
        if outline is not None:
            crossed = crossed | crosses(outline, start, list(end))
        return torch.where(better, off, best), ahead, crossed, *end

    never = torch.full_like(points[0], torch.inf)
    carry = (never, torch.ones_like(path), torch.zeros_like(path, dtype=torch.bool), *lines.points(base))
    return Found(*repeat(lines.length - 1, look, carry)[:3])


def _off(point: Tensor, start: list[Tensor], way: list[Tensor], size: Tensor) -> Tensor:
    """How far points are from the pieces of a line; metres."""
    share = (((point[0] - start[0]) * way[0] + (point[1] - start[1]) * way[1]) / size).clamp(0, 1)
    return length(start[0] + way[0] * share - point[0], start[1] + way[1] * share - point[1])


def crosses(outline: Tensor, start: list[Tensor], end: list[Tensor]) -> Tensor:
    """Whether closed outlines ``[2, 4, A, B]`` properly cross pieces of lines ``[..., A, B]``."""
    way = [b - a for a, b in zip(start, end, strict=True)]
    level = way[0] * start[1] - way[1] * start[0]
    found = torch.zeros_like(level, dtype=torch.bool)
    sides = [(y * way[0] - x * way[1]) - level for x, y in zip(*outline, strict=True)]
    for e in range(4):
        f = (e + 1) % 4
        dx, dy = outline[0, f] - outline[0, e], outline[1, f] - outline[1, e]
        own = dx * outline[1, e] - dy * outline[0, e]
        apart = ((dx * start[1] - dy * start[0]) - own) * ((dx * end[1] - dy * end[0]) - own) < 0
        found = found | (apart & (sides[e] * sides[f] < 0))
    return found


def crashes(outline: Tensor, before: Tensor) -> Tensor:
    """Whose outlines ``[2, 4, A, B]`` cross that of another car; bool ``[A, B]``.

    Of two cars the first is where it is, and the second where it was ``before`` the step.
    """
    cars = outline.shape[2]
    none = torch.zeros_like(outline[0, 0], dtype=torch.bool)
    number = torch.arange(cars, device=outline.device).unsqueeze(1).expand(none.shape)

    def turn(_: Tensor | int, so_far: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Each car with the one that is one place further than last time."""
        now, then, at, hit, other_hit = so_far
        now, then, at, other_hit = now.roll(-1, 2), then.roll(-1, 2), at.roll(-1, 0), other_hit.roll(-1, 0)
        first = number < at
        own, other = torch.where(first, outline, before), torch.where(first, then, now)
        touch = none
        for e in range(4):
            a, b = other[:, e], other[:, (e + 1) % 4]
            touch = touch | crosses(own, [a[0], a[1]], [b[0], b[1]])
        return now, then, at, hit | touch, other_hit | touch

    rounds = cars // 2
    *_, hit, other_hit = repeat(rounds, turn, (outline, before, number, none, none))
    return hit | other_hit.roll(rounds, 0)


def further(lines: Lines, path: Tensor, first: Tensor, count: int, every: int, turn_at: Tensor | None) -> Tensor:
    """The points ``first``, ``first + every``, ... (int64 ``[A, B]``) of lines; ``[2, count, A, B]``, metres.

    Args:
        lines: of the routes.
        path: which of them.
        first: the first point; -1 is the last of the table.
        count: how many.
        every: how many places between them.
        turn_at: where routes are loops, how many points theirs have: after the last comes the first.

    """
    order = torch.arange(count, device=path.device).reshape(-1, 1, 1)
    at = first + order * every
    if turn_at is not None:
        at = torch.where(at >= turn_at - 1, (at + 1) % turn_at, at)
    at = torch.where(at < 0, at + lines.length, at).clamp(0, lines.length - 1)
    return torch.stack(lines.points(path * lines.length + at))
