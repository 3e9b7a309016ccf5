"""What bodies are to each other: where one sees the other, and how far apart they are. Rows first, ``[B, A, M, ...]``.

A :class:`~marlenv.physics.state.Body` on either side drops its dimension.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from marlenv.errors import Unsupported
from marlenv.physics.entities import Entity
from marlenv.physics.geometry import length
from marlenv.physics.plan import Column
from marlenv.physics.shapes import Sphere
from marlenv.physics.state import Bodies, Body


def offset(a: Bodies | Body, b: Bodies | Body) -> Tensor:
    """Where each of ``b`` is, seen from each of ``a``; ``[B, A, M, 2]``, metres."""
    return _rows_first(_delta(a, b))


def distance(a: Bodies | Body, b: Bodies | Body) -> Tensor:
    """How far apart the centres of ``a`` and ``b`` are; ``[B, A, M]``, metres."""
    x, y = _delta(a, b).unbind(0)
    return length(x, y).movedim(-1, 0)


def gap(a: Bodies | Body, b: Bodies | Body) -> Tensor:
    """How far apart the outlines of ``a`` and ``b`` are, negative where they overlap; ``[B, A, M]``, metres."""
    x, y = _delta(a, b).unbind(0)
    near, far = _radii(_entities(a)).on(x), _radii(_entities(b)).on(x)
    if isinstance(b, Bodies) and near.ndim:
        near = near.unsqueeze(-1)
    apart = length(x, y) - near - far
    return apart.movedim(-1, 0)


@lru_cache(maxsize=256)
def _radii(entities: tuple[Entity, ...]) -> Column:
    if wrong := [entity.name for entity in entities if not isinstance(entity.shape, Sphere)]:
        raise Unsupported(f"gap: only spheres so far, got {wrong}")
    return Column([entity.shape.reach for entity in entities])


def overlap(a: Bodies | Body, b: Bodies | Body) -> Tensor:
    """Whether the outlines of ``a`` and ``b`` overlap; bool ``[B, A, M]``. No body overlaps itself."""
    touching = gap(a, b) < 0
    same = [[one is other for other in _entities(b)] for one in _entities(a)]
    if not any(map(any, same)):
        return touching
    apart = ~torch.tensor(same, device=touching.device).reshape(touching.shape[1:])
    return touching & apart


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
