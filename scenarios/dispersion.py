"""Agents spread out from the middle to eat food.

Source: ``dispersion`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import Agent, Landmark, Picture, Scenario, Sphere, World, join, offset, overlap, total


@dataclass(eq=False)
class Dispersion(Scenario):
    """All agents start in the middle; food lies anywhere, and who touches it eats it.

    - observation ``[B, A, 4 + 3 n]``: own position and velocity; for each food where it is, seen from the agent, and
      whether it is eaten.
    - reward: 1 for each food, divided among those who touch it in the same step; with ``share_reward`` 1 for all.
    - ends: when all food is eaten.

    Args:
        n_agents: how many, from 1 on.
        share_reward: whether all are rewarded for all food.
        penalise_by_time: -0.01 instead of 0 for who eats nothing.
        food_radius: metres, above 0.
        pos_range: the world is ``[-pos_range, pos_range]`` in both directions, metres; 0 for a point.
        n_food: how many, from 1 on; left out, as many as agents.

    """

    n_agents: int = 4
    share_reward: bool = False
    penalise_by_time: bool = False
    food_radius: float = 0.05
    pos_range: float = 1.0
    n_food: int | None = None

    limits = {"n_agents": (1, 1000), "n_food": (1, 1000), "food_radius": (1e-6, 1000), "pos_range": (0, 1e6)}

    def build(self) -> World:
        world = World(x_semidim=self.pos_range, y_semidim=self.pos_range)
        self.agents = world.add("agents", [Agent(Sphere(0.035), collide=False)] * self.n_agents)
        self.count = self.n_agents if self.n_food is None else self.n_food
        food = Landmark(Sphere(self.food_radius), collide=False, color="green")
        self.food = world.add("food", [food] * self.count)
        world.remember(eaten=torch.zeros(self.count, dtype=torch.bool))
        return world

    def spawn(self) -> None:
        self.food.pos = self.uniform(-self.pos_range, self.pos_range, self.count, 2)

    def observe(self) -> Mapping[str, Tensor]:
        agents = self.agents
        eaten = self.memory.eaten[:, None, :, None].expand(-1, self.n_agents, -1, -1).float()
        food = offset(agents, self.food)
        return {"agents": join(agents.pos, agents.vel, torch.cat((food, eaten), -1))}

    def rewards(self) -> Mapping[str, Tensor]:
        eaten = self.memory.eaten
        on_food = overlap(self.agents, self.food)  # [B, A, F]
        eaters = on_food.sum(1)
        now = (eaters > 0) & ~eaten
        if self.share_reward:
            reward = total(now.float()).unsqueeze(1).expand(-1, self.n_agents)
        else:
            share = torch.where(now, 1 / eaters.clamp(min=1), 0.0)
            reward = total(on_food * share.unsqueeze(1))
        self.memory.eaten = eaten | now
        return {"agents": torch.where(reward == 0, -0.01, reward) if self.penalise_by_time else reward}

    def over(self) -> Tensor:
        return self.memory.eaten.all(1)

    def draw(self, picture: Picture) -> None:
        """Food that is eaten is gone."""
        picture.hide(self.food, self.memory.eaten)
