"""What an action does to the body of an agent: actions in, force and torque out.

``u`` is ``[n, A, B]`` here (numbers of the action, agents of the group, rows), a force ``[2, A, B]`` in newtons, a
torque ``[A, B]`` in newton metres.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from marlenv.physics.maths.geometry import heading
from marlenv.physics.maths.rowwise import alike

if TYPE_CHECKING:
    from marlenv.physics.laws.bodies import Bodies


@dataclass(frozen=True)
class Dynamics(ABC):
    """How the numbers of an action become a force and a torque; shared by the agents of a group."""

    size: ClassVar[int]
    """How many numbers of the action it reads; further ones are the scenario's affair."""
    remembers: ClassVar[int] = 0
    """How many numbers it keeps for each agent from step to step, in :attr:`Bodies.inner`; zero after a reset."""

    @abstractmethod
    def drive(self, u: Tensor, agents: Bodies, dt: float) -> tuple[Tensor | None, Tensor | None]:
        """The force and the torque of this step; None for none.

        Args:
            u: ``[n, A, B]``, n at least :attr:`size`.
            agents: the group, as it stands before the step.
            dt: the length of the step, seconds.

        """


@dataclass(frozen=True)
class Holonomic(Dynamics):
    """The action is the force, in any direction."""

    size: ClassVar[int] = 2

    def drive(self, u: Tensor, agents: Bodies, dt: float) -> tuple[Tensor | None, Tensor | None]:
        """The first two numbers."""
        return u[:2], None


@dataclass(frozen=True)
class HolonomicWithRotation(Dynamics):
    """The action is the force and the torque."""

    size: ClassVar[int] = 3

    def drive(self, u: Tensor, agents: Bodies, dt: float) -> tuple[Tensor | None, Tensor | None]:
        """The first two numbers, and the third."""
        return u[:2], u[2]


@dataclass(frozen=True)
class Rotation(Dynamics):
    """The action is the torque; nothing pushes the agent."""

    size: ClassVar[int] = 1

    def drive(self, u: Tensor, agents: Bodies, dt: float) -> tuple[Tensor | None, Tensor | None]:
        """The first number."""
        return None, u[0]


@dataclass(frozen=True)
class Static(Dynamics):
    """The action does nothing to the body."""

    size: ClassVar[int] = 0

    def drive(self, u: Tensor, agents: Bodies, dt: float) -> tuple[Tensor | None, Tensor | None]:
        """Neither force nor torque."""
        return None, None


@dataclass(frozen=True)
class Forward(Dynamics):
    """The action is a force in the direction that the agent faces."""

    size: ClassVar[int] = 1

    def drive(self, u: Tensor, agents: Bodies, dt: float) -> tuple[Tensor | None, Tensor | None]:
        """The first number, forwards."""
        return u[0] * heading(agents.planar("rot")), None


@dataclass(frozen=True)
class Vehicle(Dynamics):
    """Dynamics that say where the agent is a step later, and push it so that it gets there. Abstract.

    It gets there exactly in a world with ``drag=0`` and ``substeps=1``; a :class:`Drone` does not.

    Args:
        integration: how the way is computed: by ``"rk4"`` (Runge and Kutta's method of the fourth order) or
            ``"euler"``.

    """

    integration: Literal["rk4", "euler"] = "rk4"

    def __post_init__(self) -> None:
        if self.integration not in ("rk4", "euler"):
            raise ValueError(f"{type(self).__name__}: integration must be 'rk4' or 'euler', got {self.integration!r}")

    def ahead(self, rate: Callable[[Tensor], Tensor], state: Tensor, dt: float) -> Tensor:
        """How ``state`` changes in ``dt`` seconds when it changes by ``rate(state)`` per second."""
        if self.integration == "euler":
            return dt * rate(state)
        k1 = rate(state)
        k2 = rate(state + dt * k1 / 2)
        k3 = rate(state + dt * k2 / 2)
        k4 = rate(state + dt * k3)
        return (dt / 6) * (k1 + 2 * k2 + 2 * k3 + k4)

    @staticmethod
    def push(way: Tensor, turn: Tensor, agents: Bodies, dt: float) -> tuple[Tensor, Tensor]:
        """The force and torque that, held for ``dt``, move agents by ``way`` ``[2, A, B]`` and ``turn`` ``[A, B]``."""
        force = agents.mass.on(way) * ((way - agents.planar("vel") * dt) / dt**2)
        torque = agents.inertia.on(way) * ((turn - agents.planar("ang_vel") * dt) / dt**2)
        return force, torque


@dataclass(frozen=True)
class DiffDrive(Vehicle):
    """Two wheels on one axle: the action is the speed forwards (m/s) and the angular velocity (rad/s).

    Steady ones are those of the action divided by ``1 + drag``.
    """

    size: ClassVar[int] = 2

    def drive(self, u: Tensor, agents: Bodies, dt: float) -> tuple[Tensor | None, Tensor | None]:
        """Along an arc."""

        def rate(state: Tensor) -> Tensor:
            return torch.cat((u[0] * heading(state[2]), u[1:2]))

        change = self.ahead(rate, _pose(agents), dt)
        return self.push(change[:2], change[2], agents, dt)


@dataclass(frozen=True)
class KinematicBicycle(Vehicle):
    """A car as a bicycle: the action is the speed (m/s) and the angle of the front wheel (radians).

    A steady speed is that of the action divided by ``1 + drag``.

    Args:
        l_f: from the centre of gravity to the front axle, metres.
        l_r: from the centre of gravity to the rear axle, metres.
        max_steering_angle: the front wheel is turned no further, radians; below a quarter turn, beyond which it would
            steer the other way.
        integration: ``"rk4"`` or ``"euler"``.

    Source: Polack et al. 2017, equation 2, https://doi.org/10.1109/IVS.2017.7995816

    """

    size: ClassVar[int] = 2

    l_f: float = 0.1
    l_r: float = 0.1
    max_steering_angle: float = math.radians(30)

    def drive(self, u: Tensor, agents: Bodies, dt: float) -> tuple[Tensor | None, Tensor | None]:
        """Around the point that the axles point at."""
        speed, base = u[0], self.l_f + self.l_r
        tangent = alike(torch.tan, u[1].clamp(-self.max_steering_angle, self.max_steering_angle))
        slip = alike(torch.atan, tangent * self.l_r / base)
        spin = speed / base * alike(torch.cos, slip) * tangent

        def rate(state: Tensor) -> Tensor:
            return torch.cat((speed * heading(state[2] + slip), spin.unsqueeze(0)))

        change = self.ahead(rate, _pose(agents), dt)
        return self.push(change[:2], change[2], agents, dt)


@dataclass(frozen=True)
class Drone(Vehicle):
    """A quadrotor seen from above: the action is the thrust beyond its weight (N) and the torques about x, y and z (N
    m).

    It remembers roll, pitch, yaw, their rates, the velocity and the position, 12 numbers. As in VMAS the body is pushed
    so that in each step it moves by as many metres as the remembered velocity changes by m/s, and turns by as many
    radians as the yaw rate by rad/s: without drag its velocity is the acceleration times one second. The remembered
    velocity follows Newton's law, the remembered position and yaw are those of the body.

    Args:
        I_xx: moment of inertia about the x axis, kg m².
        I_yy: about the y axis.
        I_zz: about the z axis.
        integration: ``"rk4"`` or ``"euler"``.

    """

    size: ClassVar[int] = 4
    remembers: ClassVar[int] = 12

    I_xx: float = 8.1e-3
    I_yy: float = 8.1e-3
    I_zz: float = 14.2e-3
    g: ClassVar[float] = 9.81
    """m/s²"""

    def drive(self, u: Tensor, agents: Bodies, dt: float) -> tuple[Tensor | None, Tensor | None]:
        """As the tilted thrust pulls it."""
        mass = agents.mass.on(u)
        thrust, torque = u[0] + mass * self.g, u[1:4]
        pos, kept = agents.planar("pos"), agents.inner
        before = torch.cat((kept[:2], agents.planar("rot").unsqueeze(0), kept[3:9], pos, kept[11:]))
        change = self.ahead(lambda state: self._rate(state, thrust, mass, torque), before, dt)
        agents.inner = before + change
        return self.push(change[6:8], change[5], agents, dt)

    def _rate(self, state: Tensor, thrust: Tensor, mass: Tensor, torque: Tensor) -> Tensor:
        p, q, r = state[3:6].unbind(0)
        cos, sin = alike(torch.cos, state[:3]), alike(torch.sin, state[:3])
        forwards = cos[0] * sin[1]
        up = torch.stack((
            forwards * cos[2] + sin[0] * sin[2],
            forwards * sin[2] - sin[0] * cos[2],
            cos[0] * cos[1],
        ))  # fmt: skip
        accel = up * thrust / mass
        spin = (
            (torque[0] - (self.I_yy - self.I_zz) * q * r) / self.I_xx,
            (torque[1] - (self.I_zz - self.I_xx) * p * r) / self.I_yy,
            (torque[2] - (self.I_xx - self.I_yy) * p * q) / self.I_zz,
        )
        return torch.stack((p, q, r, *spin, accel[0], accel[1], accel[2] - self.g, *state[6:9].unbind(0)))


def tilted(agents: Bodies, most: float = math.radians(30)) -> Tensor:
    """Whether drones roll or pitch further than ``most`` radians; bool ``[B, A]``."""
    return (agents.inner[:2].abs() > most).any(0).t()


def _pose(agents: Bodies) -> Tensor:
    """Position and rotation, ``[3, A, B]``."""
    return torch.cat((agents.planar("pos"), agents.planar("rot").unsqueeze(0)))
