"""Two agents tell each other where to go.

Source: ``simple_reference`` of the Multi-Particle Environments (Lowe et al. 2017, arXiv:1706.02275), as in VMAS 1.5.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from marlenv.scenarios.parts.goals import chosen, place
from torch import Tensor

from marlenv.physics import Agent, Landmark, Picture, Scenario, World, join, norm, offset, total

COLORS = ((0.75, 0.25, 0.25), (0.25, 0.75, 0.25), (0.25, 0.25, 0.75))


@dataclass(eq=False)
class SimpleReference(Scenario):
    """Each agent knows to which of three landmarks the other one should go, and can only say so.

    - observation ``[B, 2, 21]``: own velocity, the landmarks seen from the agent, the colour of the landmark to which
      the other should go, and what the other said on ten channels.
    - reward, shared: minus the metres from both agents to their goals.
    - ends: never.
    - VMAS: all rows have the same goals, drawn when all rows are reset at once; here each row has its own, drawn at
      each of its resets.
    """

    def build(self) -> World:
        world = World(channels=10)
        self.agents = world.add("agents", [Agent(collide=False, silent=False, color="gray")] * 2)
        self.landmarks = world.add("landmarks", [Landmark(collide=False, color=color) for color in COLORS])
        world.remember(goals=torch.zeros(2, dtype=torch.int64))  # of the other agent
        return world

    def spawn(self) -> None:
        self.memory.goals = self.randint(0, 3, 2)
        self.agents.pos = self.uniform(-1, 1, 2, 2)
        self.landmarks.pos = self.uniform(-1, 1, 3, 2)

    def observe(self) -> Mapping[str, Tensor]:
        agents = self.agents
        colors = (chosen(self.memory.goals, 3).unsqueeze(3) * self.tensor(COLORS)).sum(2)
        return {"agents": join(agents.vel, offset(agents, self.landmarks), colors, agents.said.flip(1))}

    def rewards(self) -> Mapping[str, Tensor]:
        goals = place(self.memory.goals, self.landmarks)
        return {"agents": 0.0 - total(norm(self.agents.pos.flip(1) - goals)).unsqueeze(1)}

    def draw(self, picture: Picture) -> None:
        """Agents have the colours of their goals."""
        for i, goal in enumerate(self.memory.goals[0].flip(0).tolist()):
            picture.paint(self.agents, torch.tensor([[i == 0, i == 1]]), COLORS[goal])
