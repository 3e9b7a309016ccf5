"""VMAS's ``dynamics``: from an agent's action to its force and torque, by the engine's own dynamics."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import ShapeError, SpecError
from marlenv.physics.laws import dynamics as laws
from marlenv.physics.laws.world_plan import PerEntity
from marlenv.physics.vmas_compat.states import emptied


class Dynamics:
    """What an action does to an agent; a scenario may write its own. Abstract."""

    law: laws.Dynamics | None = None
    """The engine's dynamics that does it."""
    dt = 0.1
    needed_action_size: Any
    """How many numbers of the action it reads."""

    def __init__(self) -> None:
        self._agent: Any = None

    @property
    def agent(self) -> Any:
        """Whose it is."""
        if self._agent is None:
            raise SpecError(f"{type(self).__name__}: it belongs to no agent yet; Agent(..., dynamics=...)")
        return self._agent

    @agent.setter
    def agent(self, agent: Any) -> None:
        if self._agent is not None:
            raise SpecError(f"{type(self).__name__}: it belongs to {self._agent} already; make one for each agent")
        self._agent = agent

    def reset(self, index: Any = None) -> None:
        """Forgets what it remembers, in one row or in all."""

    def zero_grad(self) -> None:
        """Cuts the graph of gradients."""

    def check_and_process_action(self) -> None:
        """Raises where the action is too short; else processes it."""
        u = self.agent.action.u
        if u.shape[1] < self.needed_action_size:
            raise ShapeError(
                f"{self.agent}: its {type(self).__name__} needs actions [B, {self.needed_action_size}], "
                f"got {list(u.shape)}"
            )
        self.process_action()

    def process_action(self) -> None:
        """Sets the force and the torque of the agent from its action."""
        if self.law is None:
            raise NotImplementedError(f"{type(self).__name__} must have a method process_action")
        force, torque = self.law.drive(self.agent.action.u.t().unsqueeze(1), _Lone(self.agent, self), self.dt)  # type: ignore[arg-type]
        if force is not None:
            self.agent.state.force = force[:, 0].t()
        if torque is not None:
            self.agent.state.torque = torque.t()


class _Lone:
    """An agent as the engine's dynamics sees a group of one, rows last."""

    def __init__(self, agent: Any, dynamics: Any) -> None:
        self.agent, self.dynamics = agent, dynamics

    def planar(self, name: str) -> Tensor:
        """A quantity, ``[..., 1, B]``."""
        x: Tensor = getattr(self.agent.state, name).t()
        return x.unsqueeze(1) if name in ("pos", "vel") else x

    @property
    def mass(self) -> PerEntity:
        """Its mass, kg."""
        return PerEntity([self.agent.mass])

    @property
    def inertia(self) -> PerEntity:
        """Its moment of inertia, kg m²."""
        return PerEntity([self.agent.moment_of_inertia])

    @property
    def inner(self) -> Tensor:
        """What the dynamics remembers, ``[n, 1, B]``."""
        return self.dynamics.drone_state.t().unsqueeze(1)

    @inner.setter
    def inner(self, value: Tensor) -> None:
        self.dynamics.drone_state = value[:, 0].t()


class Holonomic(Dynamics):
    """The action is the force."""

    law = laws.Holonomic()
    needed_action_size = 2

    def process_action(self) -> None:
        """The first two numbers."""
        self.agent.state.force = self.agent.action.u[:, :2]


class HolonomicWithRotation(Dynamics):
    """The action is the force and the torque."""

    law = laws.HolonomicWithRotation()
    needed_action_size = 3


class Rotation(Dynamics):
    """The action is the torque."""

    law = laws.Rotation()
    needed_action_size = 1


class Static(Dynamics):
    """The action does nothing."""

    law = laws.Static()
    needed_action_size = 0


class Forward(Dynamics):
    """The action is a force forwards."""

    law = laws.Forward()
    needed_action_size = 1


class _Vehicle(Dynamics):
    def __init__(self, world: Any, law: laws.Dynamics, integration: str) -> None:
        super().__init__()
        self.world, self.dt, self.law, self.integration = world, world.dt, law, integration


class DiffDrive(_Vehicle):
    """Two wheels on one axle."""

    needed_action_size = 2

    def __init__(self, world: Any, integration: Any = "rk4") -> None:
        super().__init__(world, laws.DiffDrive(integration), integration)


class KinematicBicycle(_Vehicle):
    """A car as a bicycle."""

    needed_action_size = 2

    def __init__(
        self,
        world: Any,
        width: float,
        l_f: float,
        l_r: float,
        max_steering_angle: float,
        integration: Any = "rk4",
    ) -> None:
        law = laws.KinematicBicycle(integration, l_f=l_f, l_r=l_r, max_steering_angle=max_steering_angle)
        super().__init__(world, law, integration)
        self.width, self.l_f, self.l_r, self.max_steering_angle = width, l_f, l_r, max_steering_angle


class Drone(_Vehicle):
    """A quadrotor seen from above."""

    needed_action_size = 4

    def __init__(
        self,
        world: Any,
        I_xx: float = 8.1e-3,
        I_yy: float = 8.1e-3,
        I_zz: float = 14.2e-3,
        integration: Any = "rk4",
    ) -> None:
        super().__init__(world, laws.Drone(integration, I_xx=I_xx, I_yy=I_yy, I_zz=I_zz), integration)
        self.I_xx, self.I_yy, self.I_zz, self.g = I_xx, I_yy, I_zz, laws.Drone.g
        self.reset()

    def reset(self, index: Any = None) -> None:
        """Level and at rest, in one row or in all."""
        if index is None:
            self.drone_state = torch.zeros(self.world.batch_dim, 12, device=self.world.device)
            """Roll, pitch, yaw, their rates, velocity, position; ``[B, 12]``."""
        else:
            self.drone_state = emptied(self.drone_state, index)

    def zero_grad(self) -> None:
        """Cuts the graph of gradients."""
        self.drone_state = self.drone_state.detach()

    def needs_reset(self) -> Tensor:
        """Whether it rolls or pitches further than 30 degrees; bool ``[B]``."""
        return (self.drone_state[:, :2].abs() > math.radians(30)).any(-1)
