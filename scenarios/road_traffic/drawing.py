"""Lanes, and the road ahead of each car."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from marlenv.physics import Bodies, Picture

EDGE = (0.72, 0.72, 0.75)


def draw_lanes(picture: Picture, sides: Iterable[Sequence[tuple[float, float]]]) -> None:
    """The lines at the sides of lanes."""
    for side in sides:
        picture.path(side, EDGE, width=1.0)


def draw_aims(picture: Picture, cars: Bodies, aims: Tensor) -> None:
    """The points ``[2, K, A, 1]`` that cars are to reach next."""
    for i, body in enumerate(cars):
        color = body.entity.kind.color
        points = aims[:, :, i, 0].t().tolist()
        picture.path(points, color, width=1.0)
        for x, y in points:
            picture.circle((x, y), 0.012, color, width=0.5)
