"""Agents push packages, too heavy for one alone, to a goal.

Source: ``transport`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import (
    Agent,
    Box,
    Landmark,
    Picture,
    Scenario,
    Sphere,
    World,
    distance,
    join,
    offset,
    overlap,
    total,
)

RADIUS, GOAL = 0.03, 0.15  # metres, of agents and of the goal
SHAPING = 100  # reward per metre


@dataclass(eq=False)
class Transport(Scenario):
    """Agents, packages and the goal start anywhere.

    - observation ``[B, A, 4 + 7 n]``: own position and velocity; for each package where it is, seen from the goal and
      from the agent, its velocity, and whether it is at the goal.
    - reward, shared: 100 per metre that each package comes nearer to the goal, until it touches it.
    - ends: when all packages touch the goal.
    - VMAS: agents and packages feel a package only if the circles around both bodies overlap in some row of the
      batch; here from 6.7 mm on, whatever other rows do.

    Args:
        n_agents: how many, from 1 on.
        n_packages: how many, from 1 on.
        package_width: metres, above 0.
        package_length: metres, above 0.
        package_mass: kg, above 0.

    """

    n_agents: int = 4
    n_packages: int = 1
    package_width: float = 0.15
    package_length: float = 0.15
    package_mass: float = 50.0

    limits = {"n_agents": (1, 1000), "n_packages": (1, 1000), "package_width": (1e-6, 1e3),
              "package_length": (1e-6, 1e3), "package_mass": (1e-6, 1e9)}  # fmt: skip

    def build(self) -> World:
        edge = 1 + 2 * RADIUS + max(self.package_length, self.package_width)
        world = World(x_semidim=edge, y_semidim=edge)
        self.agents = world.add("agents", [Agent(Sphere(RADIUS), u_multiplier=0.6)] * self.n_agents)
        self.goal = world.add("goal", Landmark(Sphere(GOAL), collide=False, color="light_green"))
        box = Box(self.package_length, self.package_width)
        package = Landmark(box, movable=True, mass=self.package_mass, color="red")
        self.packages = world.add("packages", [package] * self.n_packages)
        world.remember(shaping=torch.zeros(self.n_packages), on_goal=torch.zeros(self.n_packages, dtype=torch.bool))
        return world

    def spawn(self) -> None:
        self.scatter(self.agents, 2 * RADIUS)
        apart = self.packages.entities[0].shape.reach + GOAL + 0.01
        self.scatter(self.goal, apart, away_from=[self.agents])
        self.scatter(self.packages, apart, away_from=[self.agents, self.goal])

    def after_spawn(self) -> None:
        self.memory.shaping = distance(self.goal, self.packages) * SHAPING
        self.memory.on_goal = overlap(self.goal, self.packages)

    def observe(self) -> Mapping[str, Tensor]:
        agents, packages, n = self.agents, self.packages, self.n_agents
        at_goal = self.memory.on_goal.float().unsqueeze(-1)
        shared = (offset(self.goal, packages), packages.vel, at_goal)
        to_goal, vel, at_goal = (part.unsqueeze(1).expand(-1, n, -1, -1) for part in shared)
        return {
            "agents": join(agents.pos, agents.vel, torch.cat((to_goal, offset(agents, packages), vel, at_goal), -1))
        }

    def rewards(self) -> Mapping[str, Tensor]:
        before = self.memory.shaping
        self.after_spawn()
        nearer = torch.where(self.memory.on_goal, 0.0, before - self.memory.shaping)
        return {"agents": total(nearer).unsqueeze(1)}

    def over(self) -> Tensor:
        return self.memory.on_goal.all(1)

    def draw(self, picture: Picture) -> None:
        """Packages at their goal are green."""
        picture.paint(self.packages, self.memory.on_goal, "green")
