"""Agents go to their goals without bumping into each other.

Source: ``navigation`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from marlenv.scenarios.parts.colors import distinct
from torch import Tensor

from marlenv.physics import Agent, Landmark, Lidar, Neighbours, Scenario, Sphere, World
from marlenv.physics.maths.views import join, norm, others, total
from marlenv.physics.task.relations import gap, offset

NEAR = 0.005  # metres between agents that count as a collision


@dataclass(eq=False)
class Navigation(Scenario):
    """Each agent has a goal of its colour, and sees the others by lidar.

    - observation ``[B, A, 6 + R]``: own position and velocity; the agent seen from its goal, or from all goals; how
      much nearer than its range the lidar meets agents.
    - reward: the metres that the agent (or with ``shared_rew`` all together) comes nearer, times
      ``pos_shaping_factor``; ``final_reward`` while all are there; the penalty for each agent it touches.
    - ends: when all agents are on their goals.
    - VMAS: an agent is punished for another one within 5 mm only if two agents overlap in some row of the batch; here
      whatever other rows do.

    Args:
        n_agents: how many, from 1 on.
        collisions: whether agents collide and have a lidar.
        world_spawning_x: half the width of where all start, metres.
        world_spawning_y: half its height, metres.
        enforce_bounds: whether they stay there.
        agents_with_same_goal: so many of the first agents share a goal; more than one need ``collisions=False``.
        split_goals: whether the second half of the agents shares one too, which the first half must do.
        observe_all_goals: whether agents see the goals of all.
        lidar_range: metres, from 0 on.
        agent_radius: metres, above 0.
        comms_range: metres; lines between agents that near are drawn.
        n_lidar_rays: rays, from 0 on.
        shared_rew: whether all get the sum of what all come nearer.
        pos_shaping_factor: reward per metre.
        final_reward: in each step in which all are on their goals.
        agent_collision_penalty: for each agent touched.

    """

    n_agents: int = 4
    collisions: bool = True
    world_spawning_x: float = 1.0
    world_spawning_y: float = 1.0
    enforce_bounds: bool = False
    agents_with_same_goal: int = 1
    split_goals: bool = False
    observe_all_goals: bool = False
    lidar_range: float = 0.35
    agent_radius: float = 0.1
    comms_range: float = 0.0
    n_lidar_rays: int = 12
    shared_rew: bool = True
    pos_shaping_factor: float = 1.0
    final_reward: float = 0.01
    agent_collision_penalty: float = -1.0

    limits = {"n_agents": (1, 1000), "agents_with_same_goal": (1, 1000), "agent_radius": (1e-6, 1e6),
              "lidar_range": (0, 1e6), "comms_range": (0, 1e6), "n_lidar_rays": (0, 10000)}  # fmt: skip

    def build(self) -> World:
        n, same = self.n_agents, self.agents_with_same_goal
        if same > n or (same > 1 and self.collisions) or (self.split_goals and 2 * same != n):
            raise ValueError(
                f"Navigation: agents_with_same_goal={same} must be at most n_agents={n}, needs "
                "collisions=False, and with "
                f"split_goals half of the agents; got collisions={self.collisions}, split_goals={self.split_goals}"
            )
        x, y = (self.world_spawning_x, self.world_spawning_y) if self.enforce_bounds else (None, None)
        world = World(substeps=2, x_semidim=x, y_semidim=y)
        colors, shape = distinct(n), Sphere(self.agent_radius)
        self.agents = world.add("agents", [Agent(shape, collide=self.collisions, color=c) for c in colors])
        self.goals = world.add("goals", [Landmark(collide=False, color=c) for c in colors])
        rays, self.lidars = self.n_lidar_rays if self.collisions else 0, []
        if rays:
            self.lidars.append(Lidar(world, self.agents, [self.agents], n_rays=rays, max_range=self.lidar_range))
        if self.comms_range and n > 1:
            Neighbours(world, self.agents, radius=self.comms_range)
        world.remember(shaping=torch.zeros(n))
        world.note(pos_rew=torch.zeros(n), final_rew=0.0, agent_collisions=torch.zeros(n))
        return world

    def spawn(self) -> None:
        corner = (self.world_spawning_x, self.world_spawning_y)
        low, apart = (-corner[0], -corner[1]), 2 * self.agent_radius + 0.05
        self.scatter(self.agents, apart, low, corner)
        self.scatter(self.goals, apart, low, corner, away_from=[self.agents])
        same = self.agents_with_same_goal
        which = [i // same if self.split_goals else max(0, i * (i >= same)) for i in range(self.n_agents)]
        self.goals.pos = torch.stack([self.goals.pos[:, i] for i in which], 1)

    def after_spawn(self) -> None:
        self.memory.shaping = self._far() * self.pos_shaping_factor

    def _far(self) -> Tensor:
        return norm(self.agents.pos - self.goals.pos)

    def observe(self) -> Mapping[str, Tensor]:
        agents, goals = self.agents, self.goals
        behind = -offset(agents, goals) if self.observe_all_goals else agents.pos - goals.pos
        rays = [self.lidar_range - lidar.measure() for lidar in self.lidars]
        return {"agents": join(agents.pos, agents.vel, behind, *rays)}

    def rewards(self) -> Mapping[str, Tensor]:
        notes, far = self.notes, self._far()
        shaping = far * self.pos_shaping_factor
        nearer, self.memory.shaping = self.memory.shaping - shaping, shaping
        notes.pos_rew = total(nearer).unsqueeze(1).expand(-1, self.n_agents) if self.shared_rew else nearer
        notes.final_rew = self.final_reward * (far < 0.05).all(1)
        if self.collisions:
            touch = others(gap(self.agents, self.agents) <= NEAR)
            notes.agent_collisions = touch.sum(2) * self.agent_collision_penalty
        return {"agents": notes.pos_rew + notes.final_rew.unsqueeze(1) + notes.agent_collisions}

    def over(self) -> Tensor:
        return (self._far() < self.agent_radius).all(1)

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": self.noted("pos_rew", "final_rew", "agent_collisions")}
