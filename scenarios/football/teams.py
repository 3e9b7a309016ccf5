"""Who plays: what players are like, and where they stand at the beginning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from marlenv.physics import Agent, Holonomic, HolonomicWithRotation, Sphere

COLORS = {"blue": (0.22, 0.49, 0.72), "red": (0.89, 0.1, 0.11)}


class Gifts(NamedTuple):
    """By how much a player differs from the others of the options."""

    radius: float = 0.0
    """Metres."""
    force: float = 0.0
    """Newtons."""
    speed: float = 0.0
    """Metres per second."""
    turn: float = 0.0
    """Newton metres."""
    shot: float = 0.0
    """Newtons."""


ATTACKER = Gifts(radius=-0.005, force=0.1, speed=0.05, shot=-0.2)
KEEPER = Gifts(radius=0.01, force=-0.05, speed=-0.1, turn=0.2)
ROLES = (ATTACKER, ATTACKER, Gifts(), Gifts(), KEEPER)


class Build(NamedTuple):
    """What players of a team are like, where nothing else is said."""

    radius: float
    force: float
    speed: float
    turn: float
    shot: float


def players(team: str, gifts: Sequence[Gifts], build: Build, *, shooting: bool, scripted: bool) -> list[Agent]:
    """The descriptions of a team, one player for each of ``gifts``; with shooting they turn and shoot too."""
    found = []
    for i, own in enumerate(gifts):
        radius, force, speed, turn, shot = (a + b for a, b in zip(build, own, strict=True))
        strength = (force, force, turn, shot) if shooting else (force, force)
        how: dict[str, Any] = {"dynamics": HolonomicWithRotation(), "action_size": 4} if shooting else {}
        found.append(
            Agent(
                Sphere(radius), name=f"agent_{team}_{i}", u_multiplier=strength, max_speed=speed, color=COLORS[team],
                scripted=scripted, **{"dynamics": Holonomic(), **how},
            )
        )  # fmt: skip
    return found


def formation(n: int, per_column: int, length: float, width: float) -> list[tuple[float, float]]:
    """Where ``n`` players stand in columns from the middle line to ``length`` metres from it, the first in front.

    >>> formation(3, 2, 3.0, 1.5)
    [(1.0, 0.25), (1.0, -0.25), (2.0, 0.0)]

    """
    places: list[tuple[float, float]] = []
    columns = n // per_column + 1
    for column in range(columns):
        here = min(per_column, n - len(places))
        x = length * (column + 1) / (columns + 1)
        places += [(x, width / 2 - width * (i + 1) / (here + 1)) for i in range(here)]
    return places
