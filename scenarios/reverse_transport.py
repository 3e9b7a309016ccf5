"""Agents inside a hollow package push it to its goal.

Source: ``reverse_transport`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import Agent, Box, Landmark, Picture, Scenario, Sphere, World, distance, join, offset, overlap

RADIUS = 0.03  # metres, of an agent
SHAPING = 100  # reward per metre


@dataclass(eq=False)
class ReverseTransport(Scenario):
    """A heavy hollow box moves only when agents push it from within together.

    - observation ``[B, A, 10]``: own position and velocity; velocity of the package; the package seen from the agent,
      and from the goal; metres, m/s.
    - reward, shared: 100 per metre that the package comes nearer to its goal, until it touches it.
    - ends: when the package touches its goal.
    - VMAS: an agent that is put outside of the package feels its corners only if the circles around both bodies
      overlap in some row of the batch; here from 6.7 mm on, whatever other rows do.

    Args:
        n_agents: how many, from 1 on.
        package_width: metres, from 0.06 on, the size of an agent.
        package_length: metres, likewise.
        package_mass: kg, above 0.

    """

    n_agents: int = 4
    package_width: float = 0.6
    package_length: float = 0.6
    package_mass: float = 50.0

    may_overlap = True  # agents in a package that has just room for one
    limits = {
        "n_agents": (1, 1000),
        "package_width": (0.06, 1e3),
        "package_length": (0.06, 1e3),
        "package_mass": (1e-6, 1e9),
    }

    def build(self) -> World:
        world = World(contact_margin=6e-3, substeps=5, collision_force=500)
        self.agents = world.add("agents", [Agent(Sphere(RADIUS), u_multiplier=0.5)] * self.n_agents)
        self.goal = world.add("goal", Landmark(Sphere(0.09), collide=False, color="light_green"))
        box = Box(self.package_length, self.package_width, hollow=True)
        self.package = world.add("package", Landmark(box, movable=True, mass=self.package_mass, color="red"))
        world.remember(shaping=0.0)
        world.note(on_goal=torch.tensor(False))
        return world

    def spawn(self) -> None:
        self.package.pos = self.uniform(-1, 1, 2)
        room = self.tensor([self.package_length / 2 - RADIUS, self.package_width / 2 - RADIUS])
        self.agents.pos = self.uniform(-room, room, self.n_agents, 2) + self.package.pos.unsqueeze(1)
        self.goal.pos = self.uniform(-1, 1, 2)

    def after_spawn(self) -> None:
        self.memory.shaping = distance(self.package, self.goal) * SHAPING

    def observe(self) -> Mapping[str, Tensor]:
        agents, package = self.agents, self.package.alone
        to_package = offset(agents, self.package)
        return {"agents": join(agents.pos, agents.vel, package.vel, to_package, offset(self.goal, package))}

    def rewards(self) -> Mapping[str, Tensor]:
        shaping = distance(self.package, self.goal) * SHAPING
        self.notes.on_goal = overlap(self.package, self.goal)
        reward = torch.where(self.notes.on_goal, 0.0, self.memory.shaping - shaping)
        self.memory.shaping = shaping
        return {"agents": reward.unsqueeze(1)}

    def over(self) -> Tensor:
        return self.notes.on_goal

    def draw(self, picture: Picture) -> None:
        """A package at its goal is green."""
        picture.paint(self.package.alone, overlap(self.package.alone, self.goal), "green")
