"""What is in a world: descriptions of agents and landmarks. Descriptions hold no state and are shared freely.

Where bodies are and how they move is in :mod:`marlenv.physics.laws.state`.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import TypeAlias

from marlenv.physics.laws.dynamics import Dynamics, Holonomic
from marlenv.physics.laws.shapes import Shape, Sphere

Color: TypeAlias = "str | tuple[float, float, float]"
PerAction: TypeAlias = "float | Sequence[float]"

COLORS = {
    "red": (0.75, 0.25, 0.25),
    "green": (0.25, 0.75, 0.25),
    "blue": (0.25, 0.25, 0.75),
    "light_green": (0.45, 0.95, 0.45),
    "white": (0.75, 0.75, 0.75),
    "gray": (0.25, 0.25, 0.25),
    "black": (0.15, 0.15, 0.15),
    "orange": (1.00, 0.50, 0.00),
    "pink": (0.97, 0.51, 0.75),
    "purple": (0.60, 0.31, 0.64),
    "yellow": (0.87, 0.87, 0.00),
}


@dataclass(frozen=True)
class Description(ABC):
    """What agents and landmarks have in common; use :class:`Agent` or :class:`Landmark`.

    Args:
        shape: the outline.
        name: what the body is called; left out, it is named after its group and counted (``agent_0``).
        movable: whether forces move it.
        rotatable: whether torques turn it.
        collide: whether it takes part in contacts at all.
        collides_with: given the other :class:`Entity`, whether the two may touch. Asked once, when the world is
            built; both bodies must agree.
        mass: kg.
        drag: the share of the velocity lost in every step, in [0, 1]; left out, the world's.
        linear_friction: the deceleration by friction, m/s²; left out, the world's.
        angular_friction: the same for rotations, rad/s²; left out, the world's.
        gravity: an acceleration ``(x, y)`` in m/s², added to the world's. :attr:`Bodies.gravity
            <marlenv.physics.laws.bodies.Bodies.gravity>` of such bodies may be set row by row.
        max_speed: the length of the velocity is cut to this, m/s.
        v_range: each component of the velocity is cut to this, m/s.
        color: one of :data:`COLORS`, or red, green and blue in [0, 1].
        visible: whether pictures show it.

    """

    shape: Shape = field(default_factory=Sphere)
    _: KW_ONLY
    name: str | None = None
    movable: bool = False
    rotatable: bool = False
    collide: bool = True
    collides_with: Callable[[Entity], bool] | None = None
    mass: float = 1.0
    drag: float | None = None
    linear_friction: float | None = None
    angular_friction: float | None = None
    gravity: tuple[float, float] | None = None
    max_speed: float | None = None
    v_range: float | None = None
    color: Color = "gray"
    visible: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.shape, Shape):
            raise TypeError(f"{self}: shape must be a Sphere, Box or Line, got {self.shape!r}")
        for at in fields(self):
            if at.name not in LIMITS or (value := getattr(self, at.name)) is None:
                continue
            low, high, open_low = LIMITS[at.name]
            if not (low < value <= high if open_low else low <= value <= high):
                raise ValueError(
                    f"{self}: {at.name} must be in {'(' if open_low else '['}{low}, {high}], got {value!r}"
                )
        if isinstance(self.color, str) and self.color not in COLORS:
            raise ValueError(f"{self}: color must be one of {sorted(COLORS)} or three numbers, got {self.color!r}")

    def __str__(self) -> str:
        return type(self).__name__ if self.name is None else f"{type(self).__name__} {self.name!r}"


LIMITS = {  # field -> lowest, highest, whether the lowest is excluded
    "mass": (0.0, math.inf, True),
    "drag": (0.0, 1.0, False),
    **dict.fromkeys(("linear_friction", "angular_friction"), (0.0, math.inf, False)),
    **dict.fromkeys(("max_speed", "v_range", "max_f", "f_range", "max_t", "t_range"), (0.0, math.inf, False)),
    "c_noise": (0.0, math.inf, False),
}


@dataclass(frozen=True, kw_only=True)
class Landmark(Description):
    """A body without a will of its own: a wall, a goal, a package.

    >>> Landmark(Sphere(0.1), movable=True, mass=5).rotatable
    False
    """


@dataclass(frozen=True, kw_only=True)
class Agent(Description):
    """A body with actions.

    Args:
        dynamics: what the numbers of an action do to the body.
        action_size: how many numbers an action has, when the scenario itself makes something of them in
            ``before_step``; left out, as many as the dynamics needs.
        u_range: actions lie in ``[-u_range, u_range]``; one number, or one per number of the action.
        u_multiplier: actions are multiplied by this before anything else happens to them.
        u_noise: the standard deviation of Gaussian noise added to them then.
        nvec: with discrete actions, how many choices each number of the action has; left out, three each.
        silent: whether it does not speak on the world's channels.
        c_noise: the standard deviation of Gaussian noise on what it says.
        scripted: whether the scenario moves it, by setting its ``u`` in ``before_step``, and not a policy.
        f_range, max_f: each component, or the length, of the force of its action is cut to this, N.
        t_range, max_t: its torque is cut to this, N m.

    >>> Agent(Sphere(0.1), u_multiplier=0.5).size
    2

    """

    movable: bool = True
    rotatable: bool = True
    color: Color = "blue"
    dynamics: Dynamics = field(default_factory=Holonomic)
    action_size: int | None = None
    u_range: PerAction = 1.0
    u_multiplier: PerAction = 1.0
    u_noise: PerAction = 0.0
    nvec: Sequence[int] | None = None
    silent: bool = True
    c_noise: float = 0.0
    scripted: bool = False
    f_range: float | None = None
    max_f: float | None = None
    t_range: float | None = None
    max_t: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nvec is not None and not all(isinstance(n, int) and n > 1 for n in self.nvec):
            raise ValueError(f"{self}: every entry of nvec must be an integer above 1, got {list(self.nvec)}")
        for at in ("u_range", "u_multiplier", "u_noise", "nvec"):
            value = getattr(self, at)
            if isinstance(value, Sequence) and len(value) != self.size:
                raise ValueError(
                    f"{self}: {at} must be one number or {self.size}, one for each of the action, got {list(value)}"
                )

    @property
    def size(self) -> int:
        """How many numbers its physical action has."""
        if self.action_size is not None:
            return self.action_size
        return len(self.nvec) if self.nvec is not None else self.dynamics.size

    def per_action(self, at: str) -> tuple[float, ...]:
        """``u_range``, ``u_multiplier`` or ``u_noise``, one number for each of the action."""
        value = getattr(self, at)
        return tuple(float(v) for v in value) if isinstance(value, Sequence) else (float(value),) * self.size


@dataclass(frozen=True)
class Entity:
    """A body in its world: a description with a name and a place among the others.

    Args:
        name: unique in the world.
        group: the group it was added with.
        kind: its description.
        order: its place in the order of contacts: landmarks as they were added, then agents as they were added.

    """

    name: str
    group: str
    kind: Agent | Landmark
    order: int

    @property
    def shape(self) -> Shape:
        """The outline."""
        return self.kind.shape

    @property
    def dynamic(self) -> bool:
        """Whether anything can change its position or rotation."""
        return self.kind.movable or self.kind.rotatable
