"""Agents turn a heavy line about its centre, at a given speed.

Source: ``wheel`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import Agent, Landmark, Line, Scenario, Sphere, World, heading, join, offset


@dataclass(eq=False)
class Wheel(Scenario):
    """A line that turns about the origin is pushed by agents.

    - observation ``[B, A, 13]``: own position and velocity; the middle and both ends of the line, seen from the agent;
      its angle, its angular speed, and how far that is from the desired one; metres, m/s, radians, rad/s.
    - reward, shared: minus how far the angular speed is from the desired one.
    - ends: never.
    - VMAS: agents feel the ends of the line only if the circles around both bodies overlap in some row of the batch;
      here from 6.7 mm on, whatever other rows do.

    Args:
        n_agents: how many, from 1 on.
        line_length: metres, above 0.
        line_mass: kg, above 0.
        desired_velocity: rad/s.

    """

    n_agents: int = 4
    line_length: float = 2.0
    line_mass: float = 30.0
    desired_velocity: float = 0.05

    limits = {"n_agents": (1, 1000), "line_length": (1e-6, 1e6), "line_mass": (1e-6, 1e9)}

    def build(self) -> World:
        world = World()
        self.agents = world.add("agents", [Agent(Sphere(0.03), u_multiplier=0.6)] * self.n_agents)
        line = Landmark(Line(self.line_length), rotatable=True, mass=self.line_mass, color="black")
        self.line = world.add("line", line)
        world.add("center", Landmark(Sphere(0.02), collide=False, color="black"))
        return world

    def spawn(self) -> None:
        self.agents.pos = self.uniform(-1, 1, self.n_agents, 2)
        self.line.rot = self.uniform(-torch.pi / 2, torch.pi / 2)

    def _off(self) -> Tensor:
        """How far the angular speed is from the desired one; ``[B, 1]``, rad/s."""
        return (self.line.alone.ang_vel.abs() - self.desired_velocity).abs()

    def observe(self) -> Mapping[str, Tensor]:
        agents, line = self.agents, self.line.alone
        end = (self.line_length / 2 * heading(self.line.rot)).t().unsqueeze(1)
        ends = (end - agents.pos, -end - agents.pos)
        to_line = offset(agents, self.line)
        spin = line.ang_vel.abs()
        return {"agents": join(agents.pos, agents.vel, to_line, *ends, line.rot % torch.pi, spin, self._off())}

    def rewards(self) -> Mapping[str, Tensor]:
        return {"agents": -self._off()}
