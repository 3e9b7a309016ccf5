"""Agents cover landmarks without bumping into each other.

Source: ``simple_spread`` of the Multi-Particle Environments (Lowe et al. 2017, arXiv:1706.02275), as in VMAS 1.5.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from marlenv.physics import Agent, Landmark, Scenario, Sphere, World, distance, join, offset, others, overlap, total


@dataclass(eq=False)
class SimpleSpread(Scenario):
    """``n_agents`` agents share the reward of covering as many landmarks.

    - observation ``[B, A, 4 + 2 n + 2 (n - 1)]``: own position and velocity, the landmarks seen from the agent, and
      with ``obs_agents`` the other agents too; metres, m/s.
    - reward, shared: minus ``n`` times the distances from each landmark to its nearest agent, minus 2 for each pair of
      agents that overlap.
    - ends: never.

    Args:
        n_agents: how many agents, and landmarks, from 1 on.
        obs_agents: whether agents see each other.

    """

    n_agents: int = 3
    obs_agents: bool = True

    def build(self) -> World:
        world = World()
        self.agents = world.add("agents", [Agent(Sphere(0.15))] * self.n_agents)
        self.landmarks = world.add("landmarks", [Landmark(collide=False, color="black")] * self.n_agents)
        return world

    def spawn(self) -> None:
        self.agents.pos = self.uniform(-1, 1, self.n_agents, 2)
        self.landmarks.pos = self.uniform(-1, 1, self.n_agents, 2)

    def observe(self) -> Mapping[str, Tensor]:
        agents = self.agents
        observation = [agents.pos, agents.vel, offset(agents, self.landmarks)]
        if self.obs_agents:
            observation.append(others(offset(agents, agents)))
        return {"agents": join(*observation)}

    def rewards(self) -> Mapping[str, Tensor]:
        uncovered = total(distance(self.agents, self.landmarks).amin(1))
        bumps = overlap(self.agents, self.agents).sum((1, 2))  # each pair twice
        return {"agents": (-self.n_agents * uncovered - bumps).unsqueeze(1)}
