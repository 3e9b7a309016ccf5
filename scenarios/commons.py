"""Agents harvest patches whose stock regrows the slower the less is left, and never again from nothing.

Source: own design; the idea is that of Pérolat et al. 2017, arXiv:1707.06600.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import Agent, Landmark, Picture, Scenario, Sphere, World, distance, join, offset, others, total


@dataclass(eq=False)
class Commons(Scenario):
    """A social dilemma: whoever harvests more now gains, and all lose what would have grown.

    An agent within ``reach`` of a patch harvests from it, whether it wants to or not; to spare a patch is to go away.
    Those at the same patch share what they take. What is left then grows by ``growth * stock * (1 - stock)``: fastest
    when half is there.

    - observation ``[B, A, 4 + 3 n + 2 (A - 1)]``: own position and velocity; for each patch where it is, seen from the
      agent, and its stock, 0 to 1; other agents, seen from the agent; metres, m/s.
    - reward: what the agent harvested, in full patches, or with ``shared_reward`` the mean over agents.
    - ends: when nothing is left in any patch.

    Args:
        n_agents: how many, from 1 on.
        n_patches: how many, from 1 on.
        reach: how near to the middle of a patch an agent harvests, metres, from 0 on.
        appetite: how much an agent takes in a step where there is enough, in full patches, from 0 on.
        growth: the rate of regrowth per step, from 0 to 1.
        x_semidim: half the width of the world, metres, above 0.
        y_semidim: half its height, metres, above 0.
        shared_reward: whether all get the mean of what all harvest: then there is no dilemma.

    """

    n_agents: int = 5
    n_patches: int = 5
    reach: float = 0.2
    appetite: float = 0.03
    growth: float = 0.05
    x_semidim: float = 1.0
    y_semidim: float = 1.0
    shared_reward: bool = False

    limits = dict.fromkeys(("n_agents", "n_patches"), (1, 1000)) | dict.fromkeys(("reach", "appetite"), (0, 1e6))
    limits |= dict.fromkeys(("x_semidim", "y_semidim"), (1e-6, 1e6)) | {"growth": (0, 1)}

    def build(self) -> World:
        world = World(x_semidim=self.x_semidim, y_semidim=self.y_semidim)
        self.agents = world.add("agents", [Agent(Sphere(0.04), collide=False)] * self.n_agents)
        names = [f"patch_{i}" for i in range(self.n_patches)]
        self.patches = world.add(
            "patches", [Landmark(Sphere(0.03), name=name, collide=False, color="green") for name in names]
        )
        world.remember(stock=torch.ones(self.n_patches))
        return world

    def spawn(self) -> None:
        size = self.tensor([self.x_semidim, self.y_semidim])
        self.scatter(self.patches, 2 * self.reach, (-self.x_semidim, -self.y_semidim), (self.x_semidim, self.y_semidim))
        self.agents.pos = self.uniform(-size, size, self.n_agents, 2)

    def observe(self) -> Mapping[str, Tensor]:
        agents = self.agents
        stock = self.memory.stock[:, None, :, None].expand(-1, self.n_agents, -1, -1)
        patches = torch.cat((offset(agents, self.patches), stock), -1)
        return {"agents": join(agents.pos, agents.vel, patches, others(offset(agents, agents)))}

    def rewards(self) -> Mapping[str, Tensor]:
        there = distance(self.agents, self.patches) < self.reach  # [B, A, n]
        takers, stock = there.sum(1), self.memory.stock
        taken = torch.minimum(stock, takers * self.appetite)
        harvest = total(there * (taken / takers.clamp(min=1)).unsqueeze(1))  # [B, A]
        left = stock - taken
        self.memory.stock = left + self.growth * left * (1 - left)
        if self.shared_reward:
            return {"agents": (total(harvest) / self.n_agents).unsqueeze(1)}
        return {"agents": harvest}

    def over(self) -> Tensor:
        return (self.memory.stock == 0).all(1)

    def draw(self, picture: Picture) -> None:
        """How far a patch reaches, and how much of it is left."""
        picture.paint(self.patches, self.memory.stock == 0, "gray")
        for (x, y), stock in zip(self.patches.pos[0].tolist(), self.memory.stock[0].tolist(), strict=True):
            picture.circle((x, y), self.reach, "light_green", fill="none", width=1.0)
            picture.circle((x, y), self.reach * stock**0.5, "light_green", fill="tint", width=0.5)
