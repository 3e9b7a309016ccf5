"""An adversary keeps an agent away from a goal that only the agent knows.

Source: ``simple_push`` of the Multi-Particle Environments (Lowe et al. 2017, arXiv:1706.02275), as in VMAS 1.5.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from marlenv.scenarios.parts.goals import chosen, place
from torch import Tensor

from marlenv.physics import Agent, Landmark, Picture, Scenario, World, join, norm, offset

MARKS = ((0.1, 0.9, 0.1), (0.1, 0.1, 0.9))
HINTS = ((0.25, 0.75, 0.25), (0.25, 0.25, 0.75))
"""Colours of the landmarks, and those that the agent has when one of them is its goal."""


@dataclass(eq=False)
class SimplePush(Scenario):
    """The agent goes to its goal, and the adversary pushes it away.

    - observation: the adversary ``[B, 1, 8]`` its velocity, the two landmarks and the agent, seen from it; the agent
      ``[B, 1, 19]`` its velocity, its goal seen from it, the colour that tells its goal, the landmarks seen from it,
      their colours, and the adversary seen from it.
    - reward: the agent loses the metres to its goal; the adversary gains these, and loses its own metres to the goal.
    - ends: never.
    - VMAS: all rows have the same goal, drawn when all rows are reset at once; here each row has its own, drawn at
      each of its resets.
    """

    def build(self) -> World:
        world = World()
        self.wolf = world.add("adversary", [Agent(color=(0.75, 0.25, 0.25))])
        self.sheep = world.add("agent", [Agent(color="gray")])
        self.landmarks = world.add("landmarks", [Landmark(collide=False, color=color) for color in MARKS])
        world.remember(goal=torch.tensor(0))
        return world

    def spawn(self) -> None:
        self.memory.goal = self.randint(0, 2)
        for bodies in (self.wolf, self.sheep, self.landmarks):
            bodies.pos = self.uniform(-1, 1, len(bodies), 2)

    def _goal(self) -> Tensor:
        return place(self.memory.goal, self.landmarks).unsqueeze(1)

    def observe(self) -> Mapping[str, Tensor]:
        wolf, sheep, marks = self.wolf, self.sheep, self.landmarks
        hint = (chosen(self.memory.goal, 2).unsqueeze(2) * self.tensor(HINTS)).sum(1, keepdim=True)
        colors = self.tensor(MARKS).flatten().expand(self.rows, 1, -1)
        goal = self._goal() - sheep.pos
        return {
            "adversary": join(wolf.vel, offset(wolf, marks), offset(wolf, sheep)),
            "agent": join(sheep.vel, goal, hint, offset(sheep, marks), colors, offset(sheep, wolf)),
        }

    def rewards(self) -> Mapping[str, Tensor]:
        goal = self._goal()
        far = norm(self.sheep.pos - goal)
        return {"adversary": far - norm(self.wolf.pos - goal), "agent": 0.0 - far}

    def draw(self, picture: Picture) -> None:
        """The agent has a light shade of its goal's colour."""
        picture.paint(self.sheep, torch.ones(1, 1, dtype=torch.bool), HINTS[int(self.memory.goal)])
