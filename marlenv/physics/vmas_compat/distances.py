"""Distances between VMAS's entities, from points to them, and along rays; rows first outside, rows last inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from marlenv.constants import constant
from marlenv.errors import SpecError
from marlenv.physics.laws import entities as laws
from marlenv.physics.laws import shapes
from marlenv.physics.laws.world_plan import PerEntity
from marlenv.physics.maths.geometry import LINE_WIDTH, Segment, closest_on_box, closest_on_line, heading, length, sides
from marlenv.physics.maths.rays import hit_box, hit_disc, hit_line
from marlenv.physics.maths.rowwise import EntityIndex, pick
from marlenv.physics.task.relations import Outlines
from marlenv.physics.vmas_compat.engine import outline
from marlenv.physics.vmas_compat.entities import Entity, Line, Sphere
from marlenv.physics.vmas_compat.pure import GIVEN, Fast, Gap, Rays


class Near:
    """How far apart entities are, computed once for as long as they stay where they are."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], tuple[Any, ...]] = {}

    def between(self, a: Entity, b: Entity, fast: Fast) -> tuple[Tensor, Tensor]:
        """How far apart two outlines are, metres, and whether they overlap; ``[B]``, bool ``[B]``.

        The result is shared: whoever hands it out clones it.
        """
        seen = (a.state.pos, b.state.pos, a.state.rot, b.state.rot)
        key, versions = (id(a), id(b)), tuple(x._version for x in seen)
        kept = self._kept.get(key)
        if kept is not None and kept[1] == versions and all(x is y for x, y in zip(kept[0], seen, strict=True)):
            return kept[2]
        if isinstance(a.shape, Sphere) and isinstance(b.shape, Sphere):
            way = seen[0] - seen[1]
            gap = length(way[:, 0], way[:, 1]) - a.shape.radius - b.shape.radius
            found = gap, gap < 0
        else:
            found = _gap(a, b, fast)
        self._kept[key] = (seen, versions, found)
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


def _gap(a: Entity, b: Entity, fast: Fast) -> tuple[Tensor, Tensor]:
    shapes = outline(a.shape), outline(b.shape)
    outlines = _outlines(*shapes)
    engine = fast.engine(("gap", *shapes), lambda: Gap(outlines))
    if engine is None:
        gaps, overlaps = outlines(_Seen(a), _Seen(b))  # type: ignore[arg-type]
        return gaps[0], overlaps[0]
    poses = torch.stack([torch.cat((x.state.pos, x.state.rot), 1) for x in (a, b)], 1)
    results = engine[0].transition(engine[1], {GIVEN: poses})[2][GIVEN]
    return results[:, 0], results[:, 1] > 0


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
    along, half = heading(entity.state.rot[:, 0]), constant(shape.length / 2, pos.device, pos.dtype)
    if isinstance(shape, Line):
        close = closest_on_line(Segment(pos.t(), along, half), there)
    else:
        wide = constant(shape.width / 2, pos.device, pos.dtype)
        across = torch.stack((-along[1], along[0]))
        halves = torch.stack((wide, wide, half, half)).unsqueeze(-1)
        close = closest_on_box(sides(pos.t(), along, across, half, wide, halves), there)
    way = there - close
    return length(way[0], way[1]) - LINE_WIDTH


def along_rays(
    entity: Entity, angles: Tensor, far: float, others: Sequence[Entity], met: Callable[[Entity], bool], fast: Fast
) -> Tensor:
    """How far rays go until they meet something, metres; ``[R, B]``.

    Args:
        entity: where they start.
        angles: their directions, ``[R, B]``, radians.
        far: what rays that miss get, metres.
        others: all entities.
        met: which of them can be met.
        fast: what is machine code.

    """
    bodies = [other for other in others if other is not entity and met(other)]
    for other in bodies:
        if not (other.collides(entity) and entity.collides(other)):
            raise SpecError(
                f"cast_rays: rays meet what the agent collides with, and {entity} and {other} do not collide; "
                f"leave it out in the entity_filter"
            )
    if not bodies:
        return torch.full_like(angles, far)
    outlines = tuple(outline(body.shape) for body in bodies)
    hits = _hits(outlines, far)
    engine = fast.engine(("rays", outlines, far, angles.shape[0]), lambda: Rays(hits, angles.shape[0], len(bodies)))
    if engine is None:
        poses = torch.stack([torch.cat((b.state.pos.t(), b.state.rot.t())) for b in bodies], 1)
        return hits(entity.state.pos.t(), angles, poses)
    poses = torch.stack([torch.cat((b.state.pos, b.state.rot), 1) for b in (entity, *bodies)], 1)
    given = {"rays": angles.t().unsqueeze(-1), "bodies": poses}
    results: Tensor = engine[0].transition(engine[1], given)[2]["rays"]
    return results.t()


@lru_cache(maxsize=1024)
def _hits(bodies: tuple[shapes.Shape, ...], far: float) -> Hits:
    return Hits(bodies, far)


class Hits:
    """How far rays go among bodies of known shapes.

    Args:
        bodies: their shapes.
        far: what rays that miss get, metres.

    """

    def __init__(self, bodies: Sequence[shapes.Shape], far: float) -> None:
        self.far = far
        kinds = [[i for i, shape in enumerate(bodies) if isinstance(shape, k)] for k in HIT]
        self.kinds = [(kind, EntityIndex(at)) for kind, at in zip(HIT, kinds, strict=True) if at]
        """The kinds of shapes that there are, and which bodies have them."""
        self.sizes = {
            kind: [PerEntity([size(bodies[i]) for i in at.at]) for size in SIZES[kind]] for kind, at in self.kinds
        }

    def __call__(self, start: Tensor, angles: Tensor, poses: Tensor) -> Tensor:
        """How far, ``[R, B]``: from ``start`` ``[2, B]`` along ``angles`` ``[R, B]``, among poses ``[3, M, B]``."""
        best = angles.new_full((), self.far).expand(angles.shape)
        rays = heading(angles).unsqueeze(2)  # [2, R, 1, B]
        for kind, at in self.kinds:
            there = pick(poses, at)
            way = (there[:2] - start.unsqueeze(1)).unsqueeze(1)  # [2, 1, M, B]
            turn = () if kind is shapes.Sphere else (heading(there[2]).unsqueeze(1),)
            hit = HIT[kind](way, rays, *turn, *(size.on(way) for size in self.sizes[kind]), self.far)
            best = torch.minimum(best, hit.amin(1))
        return best


HIT: dict[type[shapes.Shape], Callable[..., Tensor]] = {
    shapes.Box: hit_box,
    shapes.Sphere: hit_disc,
    shapes.Line: hit_line,
}
SIZES: dict[type[shapes.Shape], list[Callable[[Any], float]]] = {
    shapes.Box: [lambda s: s.length / 2, lambda s: s.width / 2],
    shapes.Sphere: [lambda s: s.radius],
    shapes.Line: [lambda s: s.length / 2],
}
"""What there is to know of a shape to meet it."""
