"""One agent goes to one landmark.

Source: ``simple`` of the Multi-Particle Environments (Lowe et al. 2017, arXiv:1706.02275), as in VMAS 1.5.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from marlenv.physics import Agent, Landmark, Scenario, World, join, offset


@dataclass(eq=False)
class Simple(Scenario):
    """An agent alone learns to go to a landmark.

    - observation ``[B, 1, 4]``: own velocity, and the landmark seen from the agent.
    - reward: minus the square of the metres to the landmark.
    - ends: never.
    """

    def build(self) -> World:
        world = World()
        self.agents = world.add("agents", [Agent(collide=False, color="gray")])
        self.landmark = world.add("landmark", Landmark(collide=False, color="red"))
        return world

    def spawn(self) -> None:
        self.agents.pos = self.uniform(-1, 1, 1, 2)
        self.landmark.pos = self.uniform(-1, 1, 2)

    def observe(self) -> Mapping[str, Tensor]:
        return {"agents": join(self.agents.vel, offset(self.agents, self.landmark))}

    def rewards(self) -> Mapping[str, Tensor]:
        return {"agents": 0.0 - (offset(self.agents, self.landmark) ** 2).sum(-1)}
