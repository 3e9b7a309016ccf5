"""Agents look for targets; a target counts when enough of them are near it at once.

Source: ``discovery`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from marlenv.physics import Agent, Landmark, Lidar, Picture, Scenario, Sphere, World, distance, gap, join, others, total

RADIUS = 0.05  # metres, of agents and targets
NEAR = 0.005  # metres between agents that count as a collision


@dataclass(eq=False)
class Discovery(Scenario):
    """Agents see targets by lidar, and cover a target together.

    - observation ``[B, A, 4 + R]``: own position and velocity; what the lidar for targets measures, and with
      ``use_agent_lidar`` the lidar for agents; metres, m/s.
    - reward: ``covering_rew_coeff`` for each covered target that the agent is near, the penalty for each agent it bumps
      into, and ``time_penalty``.
    - ends: never while targets respawn; else when all have been covered.

    Args:
        n_agents: how many, from 1 on.
        n_targets: how many, from 1 on.
        x_semidim: half the width of the world, metres, above 0.
        y_semidim: half its height, metres, above 0.
        min_dist_between_entities: at the start, and between a new target and the others, metres.
        lidar_range: how far the lidars see, metres, from 0 on.
        covering_range: how near is near a target, metres, from 0 on; with 0 none is ever covered.
        use_agent_lidar: whether agents have a lidar for each other.
        n_lidar_rays_entities: rays for targets, from 0 on.
        n_lidar_rays_agents: rays for agents, from 0 on.
        agents_per_target: how many agents cover a target, from 1 on.
        targets_respawn: whether a covered target appears elsewhere; or is gone.
        shared_reward: whether all get half the sum of all.
        agent_collision_penalty: for each agent that touches it.
        covering_rew_coeff: for each covered target.
        time_penalty: in every step.

    """

    n_agents: int = 5
    n_targets: int = 7
    x_semidim: float = 1.0
    y_semidim: float = 1.0
    min_dist_between_entities: float = 0.2
    lidar_range: float = 0.35
    covering_range: float = 0.25
    use_agent_lidar: bool = False
    n_lidar_rays_entities: int = 15
    n_lidar_rays_agents: int = 12
    agents_per_target: int = 2
    targets_respawn: bool = True
    shared_reward: bool = False
    agent_collision_penalty: float = 0.0
    covering_rew_coeff: float = 1.0
    time_penalty: float = 0.0

    limits = dict.fromkeys(("n_agents", "n_targets"), (1, 1000)) | dict.fromkeys(
        ("x_semidim", "y_semidim"), (1e-6, 1e6)
    )
    limits |= dict.fromkeys(("lidar_range", "covering_range"), (0, 1e6))
    limits |= dict.fromkeys(("n_lidar_rays_entities", "n_lidar_rays_agents"), (0, 1000))
    limits |= {"agents_per_target": (1, 1000)}

    def build(self) -> World:
        world = World(x_semidim=self.x_semidim, y_semidim=self.y_semidim, collision_force=500, substeps=2)
        self.agents = world.add("agents", [Agent(Sphere(RADIUS))] * self.n_agents)
        self.targets = world.add("targets", [Landmark(Sphere(RADIUS), color="green")] * self.n_targets)
        self.lidars = []
        if rays := self.n_lidar_rays_entities:
            green: dict[str, Any] = {"max_range": self.lidar_range, "color": "green"}
            self.lidars.append(Lidar(world, self.agents, [self.targets], n_rays=rays, **green))
        if self.use_agent_lidar and (rays := self.n_lidar_rays_agents):
            turned: dict[str, Any] = {"max_range": self.lidar_range, "angle_start": 0.05}
            self.lidars.append(Lidar(world, self.agents, [self.agents], n_rays=rays, **turned))
        world.remember(found=torch.zeros(self.n_targets, dtype=torch.bool))
        zeros = torch.zeros(self.n_agents)
        world.note(covered=torch.zeros(self.n_targets, dtype=torch.bool), covering=zeros, collision=zeros)
        return world

    def spawn(self) -> None:
        corner = (self.x_semidim, self.y_semidim)
        low = (-self.x_semidim, -self.y_semidim)
        self.scatter(self.targets, self.min_dist_between_entities, low, corner)
        self.scatter(self.agents, self.min_dist_between_entities, low, corner, away_from=[self.targets])

    def observe(self) -> Mapping[str, Tensor]:
        return {"agents": join(self.agents.pos, self.agents.vel, *[lidar.measure() for lidar in self.lidars])}

    def rewards(self) -> Mapping[str, Tensor]:
        notes = self.notes
        near = distance(self.agents, self.targets) < self.covering_range
        notes.covered = covered = near.sum(1) >= self.agents_per_target
        covering = (near & covered.unsqueeze(1)).sum(2) * self.covering_rew_coeff
        if self.shared_reward:
            covering = (total(covering) / 2).unsqueeze(1).expand(-1, self.n_agents)
        bumps = others(gap(self.agents, self.agents) < NEAR).sum(2)
        notes.covering, notes.collision = covering, bumps * self.agent_collision_penalty
        self._renew(covered)
        return {"agents": notes.collision + notes.covering + self.time_penalty}

    def _renew(self, covered: Tensor) -> None:
        """Covered targets appear somewhere else, or outside of the world for good."""
        if not self.targets_respawn:
            self.memory.found = self.memory.found | covered
            gone = self.uniform(-1000 * self.x_semidim, -10 * self.x_semidim, self.n_targets, 2)
            self.targets.pos = torch.where(covered.unsqueeze(-1), gone, self.targets.pos)
            return
        low, high = (-self.x_semidim, -self.y_semidim), (self.x_semidim, self.y_semidim)
        for i, target in enumerate(self.targets):
            rest = [part for part in (self.targets[:i], self.targets[i + 1 :]) if len(part)]
            self.scatter(target, self.min_dist_between_entities, low, high, [self.agents, *rest], where=covered[:, i])

    def over(self) -> Tensor:
        return self.memory.found.all(1)

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        covered = self.notes.covered.sum(1, keepdim=True).float()
        rewards = {"covering_reward": self.notes.covering, "collision_rew": self.notes.collision}
        return {"agents": {**rewards, "targets_covered": covered}}

    def draw(self, picture: Picture) -> None:
        """How near is near a target."""
        for x, y in self.targets.pos[0].tolist():
            picture.circle((x, y), self.covering_range, "light_green", fill="none", width=1.0)
