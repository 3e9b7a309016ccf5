"""Agents flock around a moving target between obstacles.

Source: ``flocking`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import Agent, Landmark, Lidar, Scenario, Sphere, World, heading
from marlenv.physics.maths.views import join, others, total
from marlenv.physics.task.relations import distance, gap, offset

DISTANCE = 0.1  # metres that all should keep from each other
NEAR = 0.005  # metres between agents that count as a collision


@dataclass(eq=False)
class Flocking(Scenario):
    """Agents see obstacles by lidar and should keep 0.1 metres from each other and from the target, which moves by
    itself.

    - observation ``[B, A, 6 + R]``: own position and velocity; the agent seen from the target; what the lidar measures.
    - reward: how much nearer the mean squared distance from the others comes to the desired one; and
      ``collision_reward`` for each one that the agent touches.
    - ends: never.

    Args:
        n_agents: how many, from 1 on.
        n_obstacles: how many, from 0 on.
        min_dist_between_entities: at the start, metres.
        n_lidar_rays: rays, from 0 on.
        collision_reward: for each agent or target touched.
        dist_shaping_factor: reward per square metre.

    """

    n_agents: int = 4
    n_obstacles: int = 5
    min_dist_between_entities: float = 0.15
    n_lidar_rays: int = 12
    collision_reward: float = -0.1
    dist_shaping_factor: float = 1.0

    limits = {"n_agents": (1, 1000), "n_obstacles": (0, 1000), "n_lidar_rays": (0, 10000)}

    def build(self) -> World:
        world = World(collision_force=400, substeps=5)
        self.target = world.add("target", [Agent(name="target", color="green", scripted=True)])
        self.agents = world.add("agents", [Agent()] * self.n_agents)
        self.obstacles = world.add("obstacles", [Landmark(Sphere(0.1), color="red")] * self.n_obstacles)
        rays = self.n_lidar_rays
        self.lidars = [Lidar(world, self.agents, [self.obstacles], n_rays=rays, max_range=0.2)] if rays else []
        zeros = torch.zeros(self.n_agents)
        world.remember(shaping=zeros)
        world.note(collision=zeros, closer=zeros)
        return world

    def spawn(self) -> None:
        self.target.pos = (0.0, -1.0)
        self.scatter(self.obstacles, self.min_dist_between_entities, away_from=[self.target])
        self.scatter(self.agents, self.min_dist_between_entities, away_from=[self.target, self.obstacles])

    def after_spawn(self) -> None:
        self.memory.shaping = self._spread()

    def _spread(self) -> Tensor:
        """How far the flock is from its desired distance; ``[B, A]``."""
        away = torch.cat((distance(self.agents, self.target), others(distance(self.agents, self.agents))), -1)
        return total((away - DISTANCE).square()) / self.n_agents * self.dist_shaping_factor

    def before_step(self) -> None:
        self.target.u = heading((self.steps - 1) / 30).t().unsqueeze(1)

    def observe(self) -> Mapping[str, Tensor]:
        agents = self.agents
        behind = -offset(agents, self.target).squeeze(2)
        return {"agents": join(agents.pos, agents.vel, behind, *[lidar.measure() for lidar in self.lidars])}

    def rewards(self) -> Mapping[str, Tensor]:
        shaping = self._spread()
        touch = others(gap(self.agents, self.agents) <= NEAR).sum(2)
        bumps = (gap(self.agents, self.target) <= NEAR).sum(2) + touch
        self.notes.collision, self.notes.closer = bumps * self.collision_reward, self.memory.shaping - shaping
        self.memory.shaping = shaping
        return {"agents": self.notes.collision + self.notes.closer}

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": {"agent_collision_rew": self.notes.collision, "agent_distance_rew": self.notes.closer}}
