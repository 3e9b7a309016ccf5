"""The kinds of units that fight in :mod:`marlenv.scenarios.skirmish`."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """What a kind of unit can do."""

    name: str
    """What it is called."""
    radius: float
    """Of its body, metres."""
    health: float
    """When it is unhurt."""
    reach: float
    """How near its target must be, metres."""
    strength: float
    """What it takes from the health of its target in a step, or gives to it."""


FIGHTER = Kind("fighter", 0.06, 1.5, 0.2, 0.06)
ARCHER = Kind("archer", 0.045, 0.8, 0.5, 0.04)
HEALER = Kind("healer", 0.05, 0.8, 0.4, 0.05)
KINDS = (FIGHTER, ARCHER, HEALER)
