"""What the author of a scenario hands to a sensor or a controller, checked."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real

from marlenv.errors import GroupError, SpecError
from marlenv.physics.laws.bodies import Bodies, Body
from marlenv.physics.laws.entities import FINITE, Interval
from marlenv.physics.task.world import World


def number(who: str, name: str, value: float, low: float | None = None) -> float:
    """The value of an option, where it is a number from ``low`` on; where there is no ``low``, a finite one.

    Raises:
        SpecError: it is not.

    >>> number("Lidar", "max_range", 0.5, 0.0)
    0.5
    >>> number("Lidar", "max_range", float("nan"), 0.0)
    Traceback (most recent call last):
    marlenv.errors.SpecError: Lidar: max_range must be a number from 0 on, got nan
    """
    limits = FINITE if low is None else Interval(low, math.inf)
    if not isinstance(value, Real) or isinstance(value, bool) or not limits.holds(value):
        kind = "a finite number" if low is None else f"a number from {low:g} on"
        raise SpecError(f"{who}: {name} must be {kind}, got {value!r}")
    return float(value)


def bodies_of(world: World, who: str, name: str, what: Bodies | Body) -> Bodies:
    """Bodies that are in the world; one alone is a group of one.

    Raises:
        TypeError: they are something else.
        GroupError: they are in another world.

    >>> from marlenv.physics import Landmark
    >>> world = World()
    >>> bodies_of(world, "Lidar", "targets", world.add("ball", Landmark()))
    Bodies(ball)
    """
    bodies = what.alone if isinstance(what, Body) else what
    if not isinstance(bodies, Bodies):
        raise TypeError(f"{who}: {name} must be bodies as World.add returns them, got {type(what).__name__}")
    there = {id(entity) for group in world.groups.values() for entity in group.entities}
    if foreign := [entity.name for entity in bodies.entities if id(entity) not in there]:
        raise GroupError(
            f"{who}: {name} must be bodies of its own world, whose groups are {sorted(world.groups)}; "
            f"got {foreign} of another one"
        )
    return bodies


def each_body(world: World, who: str, name: str, what: Bodies | Body | Iterable[Bodies | Body]) -> list[Body]:
    """All bodies of some groups, or of one, in order; errors as :func:`bodies_of`."""
    if isinstance(what, (Bodies, Body)):
        what = [what]
    if not isinstance(what, Iterable):
        raise TypeError(f"{who}: {name} must be bodies or a list of them, got {type(what).__name__}")
    return [body for part in what for body in bodies_of(world, who, name, part)]
