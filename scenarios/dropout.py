"""Agents need only one of them at the goal, and each that moves costs the team energy.

Source: ``dropout`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import Agent, Landmark, Picture, Scenario, Sphere, World, distance, join, norm, offset, total

RADIUS, GOAL = 0.05, 0.03  # metres, of an agent and of the goal


@dataclass(eq=False)
class Dropout(Scenario):
    """The team is best off when only the agent that is nearest to the goal goes there.

    - observation ``[B, A, 7]``: own position and velocity, the goal seen from the agent, and whether it was reached (0
      or 1).
    - reward, shared: 1 when an agent reaches the goal; minus ``energy_coeff`` times the share of force that all of them
      used.
    - ends: when an agent is at the goal.

    Args:
        n_agents: how many, from 1 on.
        energy_coeff: what each agent costs that uses all of its force.
        start_same_point: whether all agents start in the origin; or anywhere.

    """

    n_agents: int = 4
    energy_coeff: float = 0.02
    start_same_point: bool = False

    limits = {"n_agents": (1, 1000)}

    def build(self) -> World:
        world = World()
        self.agents = world.add("agents", [Agent(Sphere(RADIUS), collide=False)] * self.n_agents)
        self.goal = world.add("goal", Landmark(Sphere(GOAL), collide=False, color="green"))
        world.remember(eaten=torch.tensor(False))
        world.note(pos_rew=0.0, energy_rew=0.0, there=torch.tensor(False))
        return world

    def spawn(self) -> None:
        if not self.start_same_point:
            self.scatter(self.agents, RADIUS + GOAL + 0.01)
        self.scatter(self.goal, RADIUS + GOAL + 0.01, away_from=[self.agents])

    def observe(self) -> Mapping[str, Tensor]:
        agents, eaten = self.agents, self.memory.eaten.float().reshape(-1, 1, 1).expand(-1, self.n_agents, 1)
        return {"agents": join(agents.pos, agents.vel, offset(agents, self.goal), eaten)}

    def rewards(self) -> Mapping[str, Tensor]:
        there = (distance(self.agents, self.goal) < RADIUS + GOAL).any(1)
        first = (there & ~self.memory.eaten).float()
        energy = -self.energy_coeff * total(norm(self.agents.u) / math.sqrt(2))
        self.memory.eaten = self.memory.eaten | there
        self.note(pos_rew=first, energy_rew=energy, there=there)
        return {"agents": (first + energy).unsqueeze(1)}

    def over(self) -> Tensor:
        return self.notes.there

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": self.noted("pos_rew", "energy_rew")}

    def draw(self, picture: Picture) -> None:
        """A goal that was reached is gone."""
        picture.hide(self.goal.alone, self.memory.eaten.unsqueeze(1))
