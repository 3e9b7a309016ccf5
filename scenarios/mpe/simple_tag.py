"""Slow adversaries chase faster agents around obstacles.

Source: ``simple_tag`` of the Multi-Particle Environments (Lowe et al. 2017, arXiv:1706.02275), as in VMAS 1.5.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import Agent, Landmark, Scenario, Sphere, World, distance, join, offset, others, overlap, total


@dataclass(eq=False)
class SimpleTag(Scenario):
    """Adversaries catch agents by touching them.

    - observation: own velocity and position; landmarks, seen from the agent; the others, seen from the agent,
      adversaries first; the velocities of the agents among them. Without ``observe_same_team`` the own kind is left
      out.
    - reward: an adversary gets 10 for each agent that it touches, an agent loses 10 for each adversary that touches it;
      shaped by 0.1 per metre: adversaries lose for their distance from the nearest agent, agents gain for theirs from
      adversaries.
    - ends: never.

    Args:
        num_good_agents: how many, from 1 on.
        num_adversaries: how many, from 1 on.
        num_landmarks: how many, from 0 on.
        shape_agent_rew: whether the rewards of agents are shaped.
        shape_adversary_rew: whether those of adversaries are.
        agents_share_rew: whether agents get the sum of what all of them get.
        adversaries_share_rew: whether adversaries do.
        observe_same_team: whether the own kind is observed.
        observe_pos: whether the own position is.
        observe_vel: whether the own velocity is.
        bound: the world is ``[-bound, bound]`` in both directions, metres; from 0.1 on where there are landmarks.
        respawn_at_catch: whether an agent that is touched starts anew elsewhere.

    """

    num_good_agents: int = 1
    num_adversaries: int = 3
    num_landmarks: int = 2
    shape_agent_rew: bool = False
    shape_adversary_rew: bool = False
    agents_share_rew: bool = False
    adversaries_share_rew: bool = True
    observe_same_team: bool = True
    observe_pos: bool = True
    observe_vel: bool = True
    bound: float = 1.0
    respawn_at_catch: bool = False

    may_overlap = True  # in a world that is a point
    limits = {
        "num_good_agents": (1, 1000),
        "num_adversaries": (1, 1000),
        "num_landmarks": (0, 1000),
        "bound": (0, 1e6),
    }

    def build(self) -> World:
        if self.num_landmarks and self.bound < 0.1:
            raise ValueError(
                f"SimpleTag: bound must be 0.1 at least where there are landmarks, got bound={self.bound!r}"
            )
        world = World(x_semidim=self.bound, y_semidim=self.bound, substeps=10, collision_force=500)
        wolf = Agent(Sphere(0.075), u_multiplier=3.0, max_speed=1.0, color="red")
        sheep = Agent(Sphere(0.05), u_multiplier=4.0, max_speed=1.3, color="green")
        self.wolves = world.add("adversary", [wolf] * self.num_adversaries)
        self.sheep = world.add("agent", [sheep] * self.num_good_agents)
        self.rocks = world.add("landmarks", [Landmark(Sphere(0.2), color="black")] * self.num_landmarks)
        return world

    def spawn(self) -> None:
        for side in (self.wolves, self.sheep):
            side.pos = self.uniform(-self.bound, self.bound, len(side), 2)
        self.rocks.pos = self.uniform(0.1 - self.bound, self.bound - 0.1, len(self.rocks), 2)

    def observe(self) -> Mapping[str, Tensor]:
        wolves, sheep, observations = self.wolves, self.sheep, {}
        for name, side in (("adversary", wolves), ("agent", sheep)):
            own = [side.vel] * self.observe_vel + [side.pos] * self.observe_pos
            team = [others(offset(side, side))] if self.observe_same_team else []
            speed = sheep.vel.unsqueeze(1).expand(-1, len(side), -1, -1)
            if side is sheep:
                rest = [offset(side, wolves), *team] + ([others(speed)] if team else [])
            else:
                rest = [*team, offset(side, sheep), speed]
            observations[name] = join(*own, offset(side, self.rocks), *rest)
        return observations

    def rewards(self) -> Mapping[str, Tensor]:
        caught = overlap(self.wolves, self.sheep)  # [B, W, S]
        wolves, sheep = caught.sum(2) * 10.0, 0.0 - caught.sum(1) * 10.0  # and not -0.0
        away = distance(self.wolves, self.sheep)
        if self.shape_adversary_rew:
            wolves = wolves - 0.1 * away.amin(2)
        if self.shape_agent_rew:
            sheep = sheep + 0.1 * total(away, 1)
        if self.respawn_at_catch:
            self._respawn()
        return {
            "adversary": total(wolves).unsqueeze(1) if self.adversaries_share_rew else wolves,
            "agent": total(sheep).unsqueeze(1) if self.agents_share_rew else sheep,
        }

    def _respawn(self) -> None:
        """Agents that are touched start anew, adversary by adversary."""
        for wolf in self.wolves:
            caught = overlap(wolf, self.sheep).unsqueeze(-1)
            anywhere = self.uniform(-self.bound, self.bound, len(self.sheep), 2)
            self.sheep.pos = torch.where(caught, anywhere, self.sheep.pos)
            self.sheep.vel = torch.where(caught, 0.0, self.sheep.vel)
