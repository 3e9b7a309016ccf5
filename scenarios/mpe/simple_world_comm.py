"""Adversaries with a leader that speaks chase faster agents that eat; forests are there to hide in.

Source: ``simple_world_comm`` of the Multi-Particle Environments (Lowe et al. 2017, arXiv:1706.02275), as in VMAS 1.5.2,
where forests hide nobody from the leader, and everybody from everyone else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import Agent, Bodies, Landmark, Scenario, Sphere, World, distance, join, offset, overlap, total


@dataclass(eq=False)
class SimpleWorldComm(Scenario):
    """The leader of the adversaries sees everybody and says something on four channels.

    - observation: own velocity and position; landmarks, food and forests, seen from the agent; for each other agent and
      each forest its position, seen from the agent, and then its velocity: zeros, but for the leader (who sees no
      velocities of adversaries); -1 per forest; for adversaries what the leader said.
    - reward: adversaries share 5 for each touch of an agent by an adversary; an agent loses 5 for each such touch,
      gains 2 for each food that it touches, and loses 0.05 per metre to the nearest food.
    - ends: never.

    Args:
        num_good_agents: how many, from 1 on.
        num_adversaries: how many, the leader among them, from 1 on.
        num_landmarks: how many obstacles, from 0 on.
        num_food: how many, from 1 on.
        num_forests: how many, from 1 on.

    """

    num_good_agents: int = 2
    num_adversaries: int = 4
    num_landmarks: int = 1
    num_food: int = 2
    num_forests: int = 2

    limits = {
        "num_good_agents": (1, 1000),
        "num_adversaries": (1, 1000),
        "num_landmarks": (0, 1000),
        "num_food": (1, 1000),
        "num_forests": (1, 1000),
    }

    def build(self) -> World:
        world = World(x_semidim=1, y_semidim=1, channels=4)
        self.leader = world.add("lead_adversary", [self._wolf("lead_adversary_0", (0.65, 0.15, 0.15), silent=False)])
        self.adversaries = {"lead_adversary": self.leader}
        if names := [f"adversary_{i}" for i in range(1, self.num_adversaries)]:
            pack = [self._wolf(name, (0.95, 0.45, 0.45)) for name in names]
            self.adversaries["adversary"] = world.add("adversary", pack)
        sheep = Agent(Sphere(0.045), u_multiplier=4.0, max_speed=1.3, color="light_green")
        self.sheep = world.add("agent", [sheep] * self.num_good_agents)
        food, forest = (0.15, 0.15, 0.65), (0.6, 0.9, 0.6)
        self.things = [
            world.add("landmarks", [Landmark(Sphere(0.2))] * self.num_landmarks),
            world.add("food", [Landmark(Sphere(0.03), collide=False, color=food)] * self.num_food),
            world.add("forests", [Landmark(Sphere(0.3), collide=False, color=forest)] * self.num_forests),
        ]
        return world

    @staticmethod
    def _wolf(name: str, color: tuple[float, float, float], *, silent: bool = True) -> Agent:
        return Agent(Sphere(0.075), name=name, u_multiplier=3.0, max_speed=1.0, color=color, silent=silent)

    def spawn(self) -> None:
        for side in (*self.adversaries.values(), self.sheep):
            side.pos = self.uniform(-1, 1, len(side), 2)
        for things in self.things:
            things.pos = self.uniform(-0.9, 0.9, len(things), 2)

    def observe(self) -> Mapping[str, Tensor]:
        leader, sheep, forests = self.leader, self.sheep, self.num_forests
        others = [side for side in (*self.adversaries.values(), sheep) if side is not leader]
        to_others = join(*(offset(leader, side) for side in others)).unflatten(2, (-1, 2))
        speeds = join(self.zeros(1, self.num_adversaries - 1, 2), sheep.vel.unsqueeze(1)).unflatten(2, (-1, 2))
        observation = join(*(x.repeat_interleave(forests, 2) for x in (to_others, speeds)))
        blind, said = self.zeros(1, observation.shape[2]), leader.said
        observed = {
            name: self._seen(side, observation if side is leader else blind, said)
            for name, side in self.adversaries.items()
        }
        return {**observed, "agent": self._seen(sheep, blind)}

    def _seen(self, side: Bodies, observation: Tensor, *said: Tensor) -> Tensor:
        things = [offset(side, things) for things in self.things]
        return join(side.vel, side.pos, *things, observation, self.zeros(1, self.num_forests) - 1, *said)

    def rewards(self) -> Mapping[str, Tensor]:
        caught = total(torch.stack([overlap(side, self.sheep).sum(1) for side in self.adversaries.values()], -1))
        food = self.things[1]
        hungry = 0.05 * distance(self.sheep, food).amin(2)
        touches = caught.sum(1, keepdim=True) * 5.0
        sheep = 2.0 * overlap(self.sheep, food).sum(2) - 5.0 * caught - hungry
        return {**dict.fromkeys(self.adversaries, touches), "agent": sheep}
