"""Distances between VMAS's entities, from points to them, and along rays; rows first outside, rows last inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import SpecError
from marlenv.physics.laws import entities as laws
from marlenv.physics.laws import shapes
from marlenv.physics.maths.geometry import LINE_WIDTH, Segment, closest_on_box, closest_on_line, heading, length, sides
from marlenv.physics.maths.rays import hit_box, hit_disc, hit_line
from marlenv.physics.task.relations import Outlines
from marlenv.physics.vmas_compat.engine import outline
from marlenv.physics.vmas_compat.entities import Box, Entity, Line, Sphere


class Near:
    """How far apart entities are, computed once for as long as they stay where they are."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], tuple[Any, ...]] = {}

    def between(self, a: Entity, b: Entity) -> tuple[Tensor, Tensor]:
        """How far apart two outlines are, metres, and whether they overlap; ``[B]``, bool ``[B]``.

        The result is shared: whoever hands it out clones it.
        """
        seen = (a.state.pos, b.state.pos, a.state.rot, b.state.rot)
        key, versions = (id(a), id(b)), tuple(x._version for x in seen)
        kept = self._kept.get(key)
        if kept is not None and kept[1] == versions and all(x is y for x, y in zip(kept[0], seen, strict=True)):
            return kept[2]  # type: ignore[no-any-return]
        if isinstance(a.shape, Sphere) and isinstance(b.shape, Sphere):
            way = seen[0] - seen[1]
            gap = length(way[:, 0], way[:, 1]) - a.shape.radius - b.shape.radius
            found = gap, gap < 0
        else:
            one, two = _Seen(a), _Seen(b)
            gaps, overlaps = _outlines(outline(a.shape), outline(b.shape))(one, two)  # type: ignore[arg-type]
            found = gaps[0], overlaps[0]
        self._kept[key] = self._kept[id(b), id(a)] = (seen, versions, found)
        if a is not b:
            self._kept[id(b), id(a)] = (
                (seen[1], seen[0], seen[3], seen[2]),
                (versions[1], versions[0], versions[3], versions[2]),
                found,
            )
        return found

    def forget(self) -> None:
        """Lets go of what is kept."""
        self._kept.clear()


@lru_cache(maxsize=1024)
def _outlines(a: shapes.Shape, b: shapes.Shape) -> Outlines:
    one, two = (laws.Entity(str(i), "", laws.Landmark(s, rotatable=True), i) for i, s in enumerate((a, b)))
    return Outlines((one,), (two,))


class _Seen:
    """An entity as :class:`~marlenv.physics.task.relations.Outlines` sees a group of one."""

    def __init__(self, entity: Entity) -> None:
        self.state = entity.state

    def planar(self, name: str) -> Tensor:
        x: Tensor = getattr(self.state, name).t()
        return x.unsqueeze(1) if name == "pos" else x


def from_point(entity: Entity, point: Tensor) -> Tensor:
    """How far a point ``[2]`` or ``[B, 2]`` is from the outline of an entity, metres; ``[B]``."""
    pos, shape = entity.state.pos, entity.shape
    if isinstance(shape, Sphere):
        return torch.linalg.vector_norm(pos - point, dim=-1) - shape.radius
    there = point.expand(pos.shape).t()
    along, half = heading(entity.state.rot[:, 0]), pos.new_tensor(shape.length / 2)
    if isinstance(shape, Line):
        close = closest_on_line(Segment(pos.t(), along, half), there)
    else:
        wide = pos.new_tensor(shape.width / 2)
        across = torch.stack((-along[1], along[0]))
        halves = torch.stack((wide, wide, half, half)).unsqueeze(-1)
        close = closest_on_box(sides(pos.t(), along, across, half, wide, halves), there)
    way = there - close
    return length(way[0], way[1]) - LINE_WIDTH


def along_rays(
    entity: Entity, angles: Tensor, far: float, others: Sequence[Entity], met: Callable[[Entity], bool]
) -> Tensor:
    """How far rays go until they meet something, metres; ``[R, B]``.

    Args:
        entity: where they start.
        angles: their directions, ``[R, B]``, radians.
        far: what rays that miss get, metres.
        others: all entities.
        met: which of them can be met.

    """
    found: dict[type, list[Entity]] = {Box: [], Sphere: [], Line: []}
    for other in others:
        if other is entity or not met(other):
            continue
        if not (other.collides(entity) and entity.collides(other)):
            raise SpecError(
                f"cast_rays: rays meet what the agent collides with, and {entity} and {other} do not collide; "
                f"leave it out in the entity_filter"
            )
        found[type(other.shape)].append(other)
    best = angles.new_full((), far).expand(angles.shape)
    if not any(found.values()):
        return best.clone()
    rays, start = heading(angles).unsqueeze(2), entity.state.pos.t().unsqueeze(1)  # [2, R, 1, B], [2, 1, B]
    for kind, bodies in found.items():
        if not bodies:
            continue
        way = (torch.stack([b.state.pos.t() for b in bodies], 1) - start).unsqueeze(1)  # [2, 1, M, B]
        if kind is Sphere:
            hit = hit_disc(way, rays, _sizes(tuple(b.shape.radius for b in bodies), way), far)
        else:
            turn = heading(torch.stack([b.state.rot[:, 0] for b in bodies])).unsqueeze(1)
            half = _sizes(tuple(b.shape.length / 2 for b in bodies), way)
            if kind is Line:
                hit = hit_line(way, rays, turn, half, far)
            else:
                hit = hit_box(way, rays, turn, half, _sizes(tuple(b.shape.width / 2 for b in bodies), way), far)
        best = torch.minimum(best, hit.amin(1))
    return best


def _sizes(values: tuple[float, ...], like: Tensor) -> Tensor:
    return like.new_tensor(values).unsqueeze(-1)
