"""Agents search for victims among walls, and tell each other over a graph of who sees whom.

Source: own design.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import (
    Agent,
    Box,
    Landmark,
    Lidar,
    Near,
    Neighbours,
    Picture,
    Scenario,
    Sphere,
    World,
    distance,
    join,
    total,
)

LENGTH, WIDTH, RADIUS, EDGE = 0.5, 0.05, 0.05, 1.1  # metres: of walls, of agents, of where things start


@dataclass(eq=False)
class Rescue(Scenario):
    """Agents start at the lower edge; nobody sees through walls, neither victims nor other agents.

    A victim may lie within a wall, where nobody sees it. The graph of who sees whom is ``info.edge_index`` and
    ``info.edge_mask``, for messages between agents that learn; with one agent there is none.

    - observation ``[B, A, 4 + R + 3 n + 3 (A - 1)]``: own position and velocity; what the lidar for walls measures;
      for each victim in sight, the nearest first, where it is, seen from the agent, and 1 (zeros for the rest, and in
      the places of those that were rescued); for each other agent in sight the same; metres, m/s.
    - reward, shared: how many victims were reached in the step for the first time.
    - ends: when all have been.

    Args:
        n_agents: how many, from 1 on.
        n_victims: how many, from 1 on.
        n_walls: how many, from 1 on.
        n_rays: of the lidar for walls, from 1 on.
        sight: how far agents see victims, and their lidar walls, metres, from 0 on.
        comms_range: how far they see each other, metres, from 0 on.
        reach: how near is near enough to rescue, metres, from 0 on.

    """

    n_agents: int = 4
    n_victims: int = 5
    n_walls: int = 4
    n_rays: int = 12
    sight: float = 0.5
    comms_range: float = 1.0
    reach: float = 0.1

    limits = dict.fromkeys(("n_agents", "n_victims", "n_walls", "n_rays"), (1, 1000))
    limits |= dict.fromkeys(("sight", "comms_range", "reach"), (0, 1e6))

    def build(self) -> World:
        world = World(x_semidim=EDGE + RADIUS, y_semidim=EDGE + RADIUS)
        self.agents = world.add("agents", [Agent(Sphere(RADIUS), u_multiplier=2.0)] * self.n_agents)
        self.victims = world.add("victims", [Landmark(Sphere(0.04), collide=False, color="orange")] * self.n_victims)
        self.walls = world.add("walls", [Landmark(Box(LENGTH, WIDTH), color="black")] * self.n_walls)
        self.lidar = Lidar(world, self.agents, [self.walls], n_rays=self.n_rays, max_range=self.sight)
        self.eyes = Neighbours(world, self.agents, self.victims, radius=self.sight, blocked_by=[self.walls])
        self.mates = [Neighbours(world, self.agents, radius=self.comms_range, blocked_by=[self.walls])
                      for _ in range(self.n_agents > 1)]  # fmt: skip
        world.remember(rescued=torch.zeros(self.n_victims, dtype=torch.bool))
        return world

    def spawn(self) -> None:
        self.walls.pos = self.uniform(-0.7, 0.7, self.n_walls, 2)
        self.walls.rot = self.uniform(0, math.pi, self.n_walls)
        self.victims.pos = self.uniform(-0.8, 0.8, self.n_victims, 2)
        low = torch.arange(self.n_agents, device=self.device) * (2 * EDGE / self.n_agents) - EDGE
        self.agents.pos = torch.stack((low + self.uniform(0, 2 * EDGE / self.n_agents, self.n_agents),
                                       self.zeros(self.n_agents) - EDGE), -1)  # fmt: skip

    def observe(self) -> Mapping[str, Tensor]:
        near = self.eyes.measure()
        waits = ~self.memory.rescued.unsqueeze(1).expand(-1, self.n_agents, -1).gather(2, near.index)
        mates = [self._seen(one.measure()) for one in self.mates]
        agents = self.agents
        return {"agents": join(agents.pos, agents.vel, self.lidar.measure(), self._seen(near, waits), *mates)}

    @staticmethod
    def _seen(near: Near, which: Tensor | bool = True) -> Tensor:
        """Where those in sight are, and 1; zeros for the rest; ``[B, A, k, 3]``."""
        mask = (near.mask & which).unsqueeze(-1)
        return torch.cat((torch.where(mask, near.offset, 0.0), mask.float()), -1)

    def rewards(self) -> Mapping[str, Tensor]:
        there = (distance(self.agents, self.victims) < self.reach).any(1) & ~self.memory.rescued
        self.memory.rescued = self.memory.rescued | there
        return {"agents": total(there.float()).unsqueeze(1)}

    def over(self) -> Tensor:
        return self.memory.rescued.all(1)

    def shared_info(self) -> Mapping[str, Tensor]:
        return {name: x for one in self.mates for name, x in one.edges()._asdict().items()}

    def draw(self, picture: Picture) -> None:
        """Who is rescued is green."""
        picture.paint(self.victims, self.memory.rescued, "light_green")
