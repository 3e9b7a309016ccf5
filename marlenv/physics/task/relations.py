"""What bodies are to each other: where one sees the other, and how far apart they are. Rows first, ``[B, A, M, ...]``.

A :class:`~marlenv.physics.laws.bodies.Body` on either side drops its dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from marlenv.constants import constant
from marlenv.physics.laws.axes import Axes
from marlenv.physics.laws.bodies import Bodies, Body
from marlenv.physics.laws.contacts import Pose
from marlenv.physics.laws.entities import Entity
from marlenv.physics.laws.pairs import CONTACTS
from marlenv.physics.laws.shapes import Sphere
from marlenv.physics.laws.world_plan import by_shape, tabled
from marlenv.physics.maths.geometry import length
from marlenv.physics.maths.rowwise import EntityIndex, pick


def offset(a: Bodies | Body, b: Bodies | Body) -> Tensor:
    """Where each of ``b`` is, seen from each of ``a``; ``[B, A, M, 2]``, metres."""
    return _rows_first(_delta(a, b))


def distance(a: Bodies | Body, b: Bodies | Body) -> Tensor:
    """How far apart the centres of ``a`` and ``b`` are; ``[B, A, M]``, metres."""
    x, y = _delta(a, b).unbind(0)
    return length(x, y).movedim(-1, 0)


def gap(a: Bodies | Body, b: Bodies | Body) -> Tensor:
    """How far apart the outlines of ``a`` and ``b`` are, negative where they overlap; ``[B, A, M]``, metres."""
    return _between(a, b)[0]


def overlap(a: Bodies | Body, b: Bodies | Body) -> Tensor:
    """Whether the outlines of ``a`` and ``b`` overlap; bool ``[B, A, M]``. No body overlaps itself.

    A disc within a box overlaps it; lines and boxes within a box do not.
    """
    touching = _between(a, b)[1]
    same = [[one is other for other in _entities(b)] for one in _entities(a)]
    if not any(map(any, same)):
        return touching
    apart = ~constant(same, touching.device, torch.bool).reshape(touching.shape[1:])
    return touching & apart


def _between(a: Bodies | Body, b: Bodies | Body) -> tuple[Tensor, Tensor]:
    first, second = (x if isinstance(x, Bodies) else x.alone for x in (a, b))
    gap, overlap = _outlines(first.entities, second.entities)(first, second)
    shape = (*[len(x) for x in (a, b) if isinstance(x, Bodies)], gap.shape[-1])
    return gap.reshape(shape).movedim(-1, 0), overlap.reshape(shape).movedim(-1, 0)


@lru_cache(maxsize=1024)
def _outlines(a: tuple[Entity, ...], b: tuple[Entity, ...]) -> Outlines:
    return Outlines(a, b)


class Outlines:
    """How far apart every one of some bodies is from every one of others: all that is known in advance.

    Args:
        a: the ones.
        b: the others.

    """

    def __init__(self, a: Sequence[Entity], b: Sequence[Entity]) -> None:
        self.same = tuple(a) == tuple(b)
        entities = tuple(a) if self.same else (*a, *b)
        tables = by_shape((one, other) for one in a for other in b)
        order = [number for found in tables.values() for number in found]
        turned = [i for i, entity in enumerate(entities) if not isinstance(entity.shape, Sphere)]
        place = {entity.name: i for i, entity in enumerate(entities)}
        self.axes = Axes(entities, turned)
        self.contacts = [
            CONTACTS[kinds](tabled([*found.values()], place), self.axes) for kinds, found in tables.items()
        ]
        self.order = EntityIndex([order.index(i) for i in range(len(order))])

    def __call__(self, a: Bodies, b: Bodies) -> tuple[Tensor, Tensor]:
        """Gaps and overlaps; ``[A * M, B]``."""
        pos, rot = a.planar("pos"), a.planar("rot")
        if not self.contacts:  # nobody on one side
            gaps = pos[0, :0]
            return gaps, gaps.bool()
        if not self.same:
            pos, rot = torch.cat((pos, b.planar("pos")), -2), torch.cat((rot, b.planar("rot")), -2)
        pose = Pose(pos, self.axes.all(rot, self.axes.still(rot)))
        found = [contact.outlines(pose) for contact in self.contacts]
        if len(found) == 1:
            return found[0]
        gaps, overlaps = (torch.cat(parts) for parts in zip(*found, strict=True))
        return pick(gaps, self.order), pick(overlaps, self.order)


def _entities(x: Bodies | Body) -> tuple[Entity, ...]:
    return x.entities if isinstance(x, Bodies) else (x.entity,)


def _delta(a: Bodies | Body, b: Bodies | Body) -> Tensor:
    """``[2, A, M, B]`` without the dimensions of single bodies."""
    here, there = a.planar("pos"), b.planar("pos")
    if isinstance(a, Bodies) and isinstance(b, Bodies):
        return there.unsqueeze(1) - here.unsqueeze(2)
    if isinstance(a, Bodies):
        return there.unsqueeze(1) - here
    return there - (here.unsqueeze(1) if isinstance(b, Bodies) else here)


def _rows_first(x: Tensor) -> Tensor:
    """``[k, ..., B]`` as ``[B, ..., k]``."""
    return x.permute(x.ndim - 1, *range(1, x.ndim - 1), 0)
