"""Controllers: from the velocity that an action asks for to the force that gets there."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from marlenv.physics.laws.bodies import Bodies
from marlenv.physics.laws.entities import Agent
from marlenv.physics.laws.world_plan import HUGE, PerEntity
from marlenv.physics.maths.geometry import length, shorten
from marlenv.physics.task.world import World

REST = 1e-3  # m/s


class VelocityController:
    """A PID controller of the velocity: actions are velocities (m/s) and become forces (N).

    Args:
        world: where the agents are.
        agents: whose actions it turns into forces.
        ctrl_params: in the ``"standard"`` form the gain, the time in which the integral acts and that in which the
            derivative acts, seconds (0 for none); in the ``"parallel"`` form the three gains.
        pid_form: which of the two.
        max_speed: velocities are cut to this length first, m/s.
        dead_band: then those below it are zero, m/s.
        rests: whether an agent that is asked for less than 1 mm/s forgets its past errors.
        delay: actions act so many steps late, from 0 on; before them agents are asked to stand.

    Half of an agent's largest force is the most that the integral adds, where agents have limits of force.

    """

    def __init__(
        self,
        world: World,
        agents: Bodies,
        ctrl_params: tuple[float, float, float] = (1.0, 0.0, 0.0),
        pid_form: Literal["standard", "parallel"] = "standard",
        *,
        max_speed: float | None = None,
        dead_band: float = 0.0,
        rests: bool = False,
        delay: int = 0,
    ) -> None:
        gain, integral, derivative = ctrl_params
        if pid_form not in ("standard", "parallel"):
            raise ValueError(f"VelocityController: pid_form must be 'standard' or 'parallel', got {pid_form!r}")
        if gain <= 0 or integral < 0 or derivative < 0:
            raise ValueError(f"VelocityController: ctrl_params must be above 0, and 0 or more, got {ctrl_params}")
        if pid_form == "parallel":
            integral, derivative = gain / integral if integral else 0.0, derivative / gain
        self.agents, self.dt = agents, world.laws.dt
        self.gain, self.integral, self.derivative = gain, integral, derivative
        self.max_speed, self.dead_band, self.rests = max_speed, dead_band, rests
        limits = [min(_limit(entity.kind, at) for at in ("max_f", "f_range")) for entity in agents.entities]
        self.windup = PerEntity([HUGE if f == HUGE else 0.5 * f * integral / (self.dt * gain) for f in limits])
        start = torch.zeros(2, len(agents), dtype=torch.float32, device="cpu")
        self._sum, self._before, self._late = (f"control.{agents.names[0]}.{x}" for x in ("sum", "before", "late"))
        if delay:
            world.remember(**{self._late: torch.zeros(delay, 2, len(agents), dtype=torch.float32, device="cpu")})
        self.delay = delay
        if self.integral:
            world.remember(**{self._sum: start})
        if self.derivative:
            world.remember(**{self._before: start})
        self._stage = world.stage

    def drive(self) -> None:
        """Turns the velocities in the first two numbers of the actions into forces; for ``before_step``."""
        self.ask()
        self.push()

    def ask(self) -> None:
        """Makes of the actions the velocities that are really asked for: late, no longer than ``max_speed``, or
        none.
        """
        u = self.agents.u.permute(2, 1, 0)
        self._write(u, self._wanted(self._delayed(u[:2])))

    def push(self) -> None:
        """Makes forces of velocities that were asked for."""
        agents = self.agents
        u = agents.u.permute(2, 1, 0)
        error = u[:2] - agents.planar("vel")
        self._write(u, self.gain * self._with_past(error) * agents.mass.on(error))

    def _write(self, u: Tensor, first: Tensor) -> None:
        self.agents.u = (first if u.shape[0] == 2 else torch.cat((first, u[2:]))).permute(2, 1, 0)

    def _delayed(self, u: Tensor) -> Tensor:
        """The velocities that were asked for ``delay`` steps ago, ``[2, A, B]``; these are kept for later."""
        if not self.delay:
            return u
        state, name = self._stage.moment.state, f"memory.{self._late}"
        queue = torch.cat((state[name], u.unsqueeze(0)))
        state[name] = queue[1:]
        return queue[0]

    def _wanted(self, u: Tensor) -> Tensor:
        """The velocities that are asked for, ``[2, A, B]``; the past of agents that are to rest is forgotten."""
        if self.max_speed is not None:
            u = torch.stack(shorten(u[0], u[1], self.max_speed))
        if self.dead_band:
            u = torch.where(length(u[0], u[1]) < self.dead_band, 0.0, u)
        if self.rests:
            state, rest = self._stage.moment.state, length(u[0], u[1]) < REST
            for used, name in ((self.integral, self._sum), (self.derivative, self._before)):
                if used:
                    state[f"memory.{name}"] = torch.where(rest, 0.0, state[f"memory.{name}"])
        return u

    def _with_past(self, error: Tensor) -> Tensor:
        """The error with what its integral and its derivative add."""
        state, total = self._stage.moment.state, error
        if self.integral:
            gathered = state[f"memory.{self._sum}"] + self.dt * error
            if self.windup.same != HUGE:
                most = self.windup.on(error)
                gathered = gathered.clamp(-most, most)
            state[f"memory.{self._sum}"] = gathered
            total = total + (1.0 / self.integral) * gathered
        if self.derivative:
            total = total + self.derivative * (error - state[f"memory.{self._before}"]) / self.dt
            state[f"memory.{self._before}"] = error
        return total


def _limit(kind: object, at: str) -> float:
    value = getattr(kind, at) if isinstance(kind, Agent) else None
    return HUGE if value is None else float(value)
