"""A corridor with a bay in the middle, the map of the tasks in which agents give way to each other."""

from __future__ import annotations

import math
from typing import NamedTuple

LONG, WIDE, DEEP = 5.0, 0.4, 0.48  # metres: how long the corridor is, how wide (its bay too), how deep the bay


class Wall(NamedTuple):
    """A line: metres, metres, metres, radians; and whether it belongs to a bay."""

    length: float
    x: float
    y: float
    rot: float
    bay: bool


def corridor(*, mirrored: bool) -> list[Wall]:
    """The walls of the corridor, with a bay above, and with another one below where it is mirrored.

    >>> len(corridor(mirrored=False)), len(corridor(mirrored=True))
    (8, 12)
    """
    up, ceiling, x = math.pi / 2, LONG / 2 - WIDE / 2, LONG / 4 + WIDE / 4
    walls = [Wall(WIDE, -LONG / 2, 0.0, up, False), Wall(WIDE, LONG / 2, 0.0, up, False)]
    for y in (1, -1)[: 1 + mirrored]:
        walls += [Wall(ceiling, side * x, y * WIDE / 2, 0.0, False) for side in (1, -1)]
        walls += [Wall(DEEP, side * WIDE / 2, y * (WIDE / 2 + DEEP / 2), up, True) for side in (-1, 1)]
        walls.append(Wall(WIDE, 0.0, y * (WIDE / 2 + DEEP), 0.0, True))
    return walls if mirrored else [*walls, Wall(LONG, 0.0, -WIDE / 2, 0.0, False)]


def crossing() -> list[Wall]:
    """The walls of two corridors that cross in the middle: sides first, then ends.

    >>> len(crossing())
    12
    """
    up, side = math.pi / 2, LONG / 2 - WIDE / 2
    x, y = side / 2 - LONG / 2, WIDE / 2
    walls = [Wall(side, way * x, bank * y, 0.0, False) for way in (1, -1) for bank in (-1, 1)]
    walls += [Wall(side, bank * y, way * x, up, False) for way in (1, -1) for bank in (-1, 1)]
    walls += [Wall(WIDE, way * LONG / 2, 0.0, up, False) for way in (-1, 1)]
    return walls + [Wall(WIDE, 0.0, way * LONG / 2, 0.0, False) for way in (-1, 1)]
