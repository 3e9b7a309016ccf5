"""The outlines of bodies: spheres, boxes and lines, as plain values.

How shapes meet is in :mod:`marlenv.physics.maths.geometry`; here is only what one shape knows about itself.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Shape(ABC):
    """The outline of a body, centred at the body's position and turned by its rotation."""

    def __post_init__(self) -> None:
        for field in fields(self):
            size = getattr(self, field.name)
            if hasattr(size, "tolist"):  # of numpy or torch
                size = size.tolist()
                object.__setattr__(self, field.name, size)
            if isinstance(size, bool):
                continue
            if not (isinstance(size, (int, float)) and 0 < size < math.inf):
                raise ValueError(
                    f"{type(self).__name__}: {field.name} must be a positive number of metres, got {size!r}"
                )

    @abstractmethod
    def moment_of_inertia(self, mass: float) -> float:
        """How hard it is to turn a body of this shape and ``mass`` (kg) about its centre; kg m²."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """The largest distance from the centre to the outline; metres."""

    @abstractmethod
    def anchor(self, x: float, y: float) -> tuple[float, float]:
        """The point of the body, metres from its centre, at the relative coordinates ``x``, ``y`` in [-1, 1]."""


@dataclass(frozen=True)
class Sphere(Shape):
    """A disc.

    >>> Sphere(0.1).anchor(1.0, 0.0)
    (0.1, 0.0)
    """

    radius: float = 0.05

    def moment_of_inertia(self, mass: float) -> float:
        """Of a solid disc."""
        return (1 / 2) * mass * self.radius**2

    @property
    def reach(self) -> float:
        """The radius; metres."""
        return self.radius

    def anchor(self, x: float, y: float) -> tuple[float, float]:
        """The point at ``(x, y)`` radii from the centre; points outside the disc are moved onto its edge."""
        shrink = self.radius / max(1.0, math.hypot(x, y))
        return x * shrink, y * shrink


@dataclass(frozen=True)
class Box(Shape):
    """A rectangle, ``length`` along the body's own x axis and ``width`` along its y axis.

    A solid box pushes everything out of its area. A hollow one is only its four walls: things can be inside.

    >>> Box(length=0.4, width=0.2).anchor(-1.0, 0.5)
    (-0.2, 0.05)
    """

    length: float = 0.3
    width: float = 0.1
    hollow: bool = False

    def moment_of_inertia(self, mass: float) -> float:
        """Of a solid rectangle, hollow or not."""
        return (1 / 12) * mass * (self.length**2 + self.width**2)

    @property
    def reach(self) -> float:
        """Half the diagonal; metres."""
        return math.sqrt((self.length / 2) ** 2 + (self.width / 2) ** 2)

    def anchor(self, x: float, y: float) -> tuple[float, float]:
        """The point at ``x`` half lengths and ``y`` half widths from the centre."""
        return x * self.length / 2, y * self.width / 2


@dataclass(frozen=True)
class Line(Shape):
    """A straight segment along the body's own x axis, without thickness.

    >>> round(Line(2.0).moment_of_inertia(3.0), 9)
    1.0
    """

    length: float = 0.5

    def moment_of_inertia(self, mass: float) -> float:
        """Of a thin rod."""
        return (1 / 12) * mass * self.length**2

    @property
    def reach(self) -> float:
        """Half the length; metres."""
        return self.length / 2

    def anchor(self, x: float, y: float) -> tuple[float, float]:
        """The point at ``x`` half lengths from the centre; ``y`` has no meaning on a line."""
        return x * self.length / 2, 0.0
