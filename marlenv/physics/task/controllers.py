"""Controllers: from the velocity that an action asks for to the force that gets there."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Literal

import torch
from torch import Tensor

from marlenv.errors import GroupError, whole
from marlenv.physics.laws.bodies import Bodies, Body
from marlenv.physics.laws.entities import Agent
from marlenv.physics.laws.world_plan import HUGE, PerEntity
from marlenv.physics.maths.geometry import length, shorten
from marlenv.physics.task.checks import bodies_of, number
from marlenv.physics.task.world import World

REST = 1e-3  # m/s


class VelocityController:
    """A PID controller of the velocity: actions are velocities (m/s) and become forces (N).

    Args:
        world: where the agents are.
        agents: whose actions, of two numbers at least, it turns into forces.
        ctrl_params: in the ``"standard"`` form the gain, the time in which the integral acts and that in which the
            derivative acts, seconds (0 for none); in the ``"parallel"`` form the three gains.
        pid_form: which of the two.
        max_speed: velocities are cut to this length first, m/s.
        dead_band: then those below it are zero, m/s.
        rests: whether an agent that is asked for less than 1 mm/s forgets its past errors.
        delay: actions act so many steps late, from 0 on; before them agents are asked to stand.

    Where agents have limits of force (``f``, the smaller of ``max_f`` and ``f_range``), the integral adds
    ``0.5 * f * mass / dt`` newtons at most in each direction, as in VMAS.

    """

    def __init__(
        self,
        world: World,
        agents: Bodies | Body,
        ctrl_params: tuple[float, float, float] = (1.0, 0.0, 0.0),
        pid_form: Literal["standard", "parallel"] = "standard",
        *,
        max_speed: float | None = None,
        dead_band: float = 0.0,
        rests: bool = False,
        delay: int = 0,
    ) -> None:
        gain, integral, derivative = _gains(ctrl_params)
        if pid_form not in ("standard", "parallel"):
            raise ValueError(f"VelocityController: pid_form must be 'standard' or 'parallel', got {pid_form!r}")
        if pid_form == "parallel":
            integral, derivative = gain / integral if integral else 0.0, derivative / gain
        agents = _with_velocities(bodies_of(world, "VelocityController", "agents", agents))
        self.agents, self.dt = agents, world.laws.dt
        self.gain, self.integral, self.derivative = gain, integral, derivative
        self.max_speed = None if max_speed is None else number("VelocityController", "max_speed", max_speed, 0.0)
        self.dead_band, self.rests = number("VelocityController", "dead_band", dead_band, 0.0), rests
        self.delay = whole("VelocityController", "delay", delay, 0)
        limits = [min(_limit(entity.kind, at) for at in ("max_f", "f_range")) for entity in agents.entities]
        self.windup = PerEntity([HUGE if f == HUGE else 0.5 * f * integral / (self.dt * gain) for f in limits])
        self._sum, self._before, self._late = (f"control.{agents.names[0]}.{x}" for x in ("sum", "before", "late"))
        start = torch.zeros(2, len(agents), dtype=torch.float32, device="cpu")
        memory = {self._late: start.repeat(self.delay, 1, 1)} if self.delay else {}
        memory |= {self._sum: start} if self.integral else {}
        memory |= {self._before: start} if self.derivative else {}
        for name, value in memory.items():
            if name in world.starts:
                raise GroupError(f"VelocityController: {agents} have a controller already; take one for each agent")
            world.remember(**{name: value})
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


def _gains(ctrl_params: object) -> tuple[float, float, float]:
    """The three of them; raises where they are something else."""
    given = list(ctrl_params) if isinstance(ctrl_params, Iterable) else []
    gains = [float(x) for x in given if isinstance(x, Real)]
    if len(gains) == len(given) == 3 and all(0 <= x < math.inf for x in gains) and gains[0] > 0:
        return gains[0], gains[1], gains[2]
    raise ValueError(
        "VelocityController: ctrl_params must be three finite numbers, the first above 0, the others 0 or more, "
        f"got {ctrl_params!r}"
    )


def _with_velocities(agents: Bodies) -> Bodies:
    """Agents whose actions can be velocities; raises where they cannot."""
    if not agents.entities:
        raise GroupError(f"VelocityController: needs agents, and the group {agents.group!r} has none")
    kind = agents.entities[0].kind
    if not isinstance(kind, Agent):
        raise GroupError(f"VelocityController: needs agents, and {agents} are landmarks")
    if kind.size < 2:
        raise GroupError(
            f"VelocityController: a velocity is two numbers, and the actions of {agents} have {kind.size} "
            f"({type(kind.dynamics).__name__}); give them dynamics=Holonomic(), or action_size=2"
        )
    return agents


def _limit(kind: object, at: str) -> float:
    value = getattr(kind, at) if isinstance(kind, Agent) else None
    return HUGE if value is None else float(value)
