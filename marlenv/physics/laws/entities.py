"""What is in a world: descriptions of agents and landmarks. Descriptions hold no state and are shared freely.

Where bodies are and how they move is in :mod:`marlenv.physics.laws.state`.
"""

from __future__ import annotations

import math
import sys
from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, NamedTuple, TypeAlias

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
        if self.name is not None and not is_name(self.name):
            raise ValueError(f"{type(self).__name__}: name must be a string without dots, not empty, got {self.name!r}")
        if not isinstance(self.shape, Shape):
            raise TypeError(f"{self}: shape must be a Sphere, Box or Line, got {self.shape!r}")
        settle(self, str(self))
        if not (self.color in COLORS if isinstance(self.color, str) else _is_mix(self.color)):
            raise ValueError(
                f"{self}: color must be one of {sorted(COLORS)} or three numbers in [0, 1], got {self.color!r}"
            )

    def __str__(self) -> str:
        return type(self).__name__ if self.name is None else f"{type(self).__name__} {self.name!r}"


class Interval(NamedTuple):
    """The numbers that a field, an option or an argument may have.

    >>> Interval(0.0, math.inf, "()").check("mass", 0)
    Traceback (most recent call last):
    ValueError: mass must be in (0.0, inf), got 0
    """

    low: float
    high: float
    ends: str = "[]"
    """Brackets, round where the end itself is not in it."""
    whole: bool = False
    """Whether they are integers."""
    many: bool = False
    """Whether there may be several of them, in a tuple."""

    def holds(self, x: Any) -> bool:
        """Whether a number is in it; nan is in none."""
        above = self.low < x if self.ends[0] == "(" else self.low <= x
        return bool(above and (x < self.high if self.ends[1] == ")" else x <= self.high))

    def check(self, who: str, value: object) -> None:
        """Raises where a value is not in it.

        Args:
            who: what the value is, for the error.
            value: one number, or a tuple of them if it may be.

        """
        for x in value if self.many and isinstance(value, tuple) else (value,):
            if not isinstance(x, int if self.whole else (int, float)):
                raise TypeError(f"{who} must be {'an integer' if self.whole else 'a number'}, got {value!r}")
            if not self.holds(x):
                raise ValueError(f"{who} must be in {self.ends[0]}{self.low}, {self.high}{self.ends[1]}, got {value!r}")


FINITE = Interval(-sys.float_info.max, sys.float_info.max)
_ANY, _POSITIVE = Interval(-math.inf, math.inf, "()"), Interval(0.0, math.inf, "()")
_SOME, _UPWARDS = Interval(0.0, math.inf), Interval(0.0, math.inf, "[)")
LIMITS = {  # of descriptions, of a world and of joints
    "mass": _POSITIVE,
    "drag": Interval(0.0, 1.0),
    **dict.fromkeys(("linear_friction", "angular_friction"), _SOME),
    **dict.fromkeys(("max_speed", "v_range", "max_f", "f_range", "max_t", "t_range"), _SOME),
    "c_noise": _UPWARDS,
    "gravity": _ANY._replace(many=True),
    "u_range": _SOME._replace(many=True),
    "u_multiplier": _ANY._replace(many=True),
    "u_noise": _UPWARDS._replace(many=True),
    "dt": _POSITIVE,
    "substeps": Interval(1, math.inf, "[)", whole=True),
    "channels": Interval(0, math.inf, "[)", whole=True),
    **dict.fromkeys(("x_semidim", "y_semidim"), Interval(-math.inf, math.inf)),  # below 0 as in VMAS: all at that edge
    **dict.fromkeys(("collision_force", "joint_force", "torque_constraint_force"), _UPWARDS),
    "contact_margin": _POSITIVE,
    "fixed_rotation": _ANY,
}


def settle(what: Any, who: str) -> None:
    """Makes the numbers of a description such that it can be compared and hashed, and raises where they cannot be.

    Args:
        what: a frozen dataclass whose fields may be in :data:`LIMITS`.
        who: what it is called in errors.

    """
    for at in fields(what):
        if at.name not in LIMITS and at.name not in ("color", "nvec"):
            continue
        value = plain(getattr(what, at.name))
        object.__setattr__(what, at.name, value)
        if at.name not in LIMITS or (value is None and at.default is None):
            continue
        if at.name == "gravity" and not (isinstance(value, tuple) and len(value) == 2):
            raise ValueError(f"{who}: gravity must be two numbers, (x, y), got {value!r}")
        LIMITS[at.name].check(f"{who}: {at.name}", value)


def plain(value: Any) -> Any:
    """Lists, arrays and tensors of numbers as tuples, or as numbers where they have no dimensions.

    >>> plain([0, 1.5])
    (0, 1.5)
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return tuple(plain(x) for x in value)
    return value


def is_name(name: object) -> bool:
    """Whether a group or a body can be called so: a string, not empty, without the dots that part keys of states."""
    return isinstance(name, str) and name != "" and "." not in name


def _is_mix(color: object) -> bool:
    """Whether it is red, green and blue in [0, 1]."""
    mix = color if isinstance(color, tuple) else ()
    return len(mix) == 3 and all(isinstance(x, (int, float)) and 0 <= x <= 1 for x in mix)


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
        if self.nvec is not None and not (
            isinstance(self.nvec, tuple) and all(isinstance(n, int) and n > 1 for n in self.nvec)
        ):
            raise ValueError(f"{self}: every entry of nvec must be an integer above 1, got {self.nvec!r}")
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
