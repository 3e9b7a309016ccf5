"""Agents under a line carry a package on it to its goal, and must not let it fall.

Source: ``balance`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import Agent, Box, Landmark, Line, Scenario, Sphere, World, distance, join, offset, overlap

LENGTH = 0.8  # metres, of the line
RADIUS = 0.03  # metres, of an agent
SHAPING = 100  # reward per metre


@dataclass(eq=False)
class Balance(Scenario):
    """``n_agents`` agents balance a heavy ball on a line, against gravity.

    - observation ``[B, A, 16]``: own position and velocity; the agent seen from package and line; the package seen from
      the goal; velocities of package and line; angular velocity and angle of the line; metres, m/s, radians.
    - reward, shared: 100 per metre that the package comes nearer to its goal, and -10 while it or the line is on the
      floor.
    - ends: when the package is at its goal, or it or the line is on the floor.
    - VMAS: agents and package feel the line, and the floor, only if the circles around both bodies overlap in some
      row of the batch; here from 6.7 mm on, whatever other rows do.

    Args:
        n_agents: how many, from 2 to 13; more have no room under the line.
        package_mass: kg, above 0.
        random_package_pos_on_line: whether the package starts anywhere on the line, or in its middle.

    """

    n_agents: int = 3
    package_mass: float = 5.0
    random_package_pos_on_line: bool = True

    draws_edge = False
    limits = {"n_agents": (2, 13), "package_mass": (1e-6, 1e9)}

    def build(self) -> World:
        world = World(gravity=(0.0, -0.05), y_semidim=1.0)
        self.agents = world.add("agents", [Agent(Sphere(RADIUS), u_multiplier=0.7)] * self.n_agents)
        self.goal = world.add("goal", Landmark(collide=False, color="light_green"))
        self.package = world.add("package", Landmark(movable=True, mass=self.package_mass, color="red"))
        line = Landmark(Line(LENGTH), movable=True, rotatable=True, mass=5, color="black")
        self.line = world.add("line", line)
        self.floor = world.add("floor", Landmark(Box(length=10, width=1), color="white"))
        world.remember(shaping=0.0)
        world.note(fallen=torch.tensor(False), pos_rew=0.0, ground_rew=0.0)
        return world

    def spawn(self) -> None:
        x = self.uniform(LENGTH / 2 - 1, 1 - LENGTH / 2)
        line = torch.stack((x, torch.full_like(x, 2 * RADIUS - 1)), -1)
        ball = 0.05
        room = LENGTH / 2 - ball if self.random_package_pos_on_line else 0.0
        aside = self.uniform(-room, room)
        step = (LENGTH - RADIUS) / (self.n_agents - 1)
        under = self.tensor([[i * step - (LENGTH - RADIUS) / 2, -2 * RADIUS] for i in range(self.n_agents)])
        self.agents.pos = line.unsqueeze(1) + under
        self.line.pos = line
        self.package.pos = line + torch.stack((aside, torch.full_like(aside, ball)), -1)
        self.goal.pos = torch.stack((self.uniform(-1, 1), self.uniform(0, 1)), -1)
        self.floor.pos = (0.0, -1 - 0.5 - RADIUS)

    def after_spawn(self) -> None:
        self.memory.shaping = distance(self.package, self.goal) * SHAPING

    def observe(self) -> Mapping[str, Tensor]:
        agents, package, line = self.agents, self.package.alone, self.line.alone
        observation = join(
            agents.pos,
            agents.vel,
            offset(self.package, agents),
            offset(self.line, agents),
            offset(self.goal, package),
            package.vel,
            line.vel,
            line.ang_vel,
            line.rot % torch.pi,
        )
        return {"agents": observation}

    def rewards(self) -> Mapping[str, Tensor]:
        fallen = overlap(self.line, self.floor) | overlap(self.package, self.floor)
        shaping = distance(self.package, self.goal) * SHAPING
        self.notes.fallen = fallen
        self.notes.ground_rew = torch.where(fallen, -10.0, 0.0)
        self.notes.pos_rew = self.memory.shaping - shaping
        self.memory.shaping = shaping
        return {"agents": (self.notes.ground_rew + self.notes.pos_rew).unsqueeze(1)}

    def over(self) -> Tensor:
        return self.notes.fallen | overlap(self.package, self.goal)

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": self.noted("pos_rew", "ground_rew")}
