"""Agents cover a goal without giving away to adversaries which landmark it is.

Source: ``simple_adversary`` of the Multi-Particle Environments (Lowe et al. 2017, arXiv:1706.02275), as in VMAS 1.5.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from marlenv.scenarios.parts.goals import place
from torch import Tensor

from marlenv.physics import Agent, Landmark, Picture, Scenario, Sphere, World, join, norm, offset, others, total


@dataclass(eq=False)
class SimpleAdversary(Scenario):
    """One of the landmarks is the goal; agents know which, adversaries guess it from what agents do.

    - observation: the landmarks seen from the agent, then the others seen from it, adversaries first; for agents,
      before all that, the goal seen from the agent.
    - reward: an adversary loses its metres to the goal; agents share what adversaries lose, less the metres from the
      goal to the nearest of them.
    - ends: never.
    - VMAS: all rows have the same goal, drawn when all rows are reset at once; here each row has its own, drawn at
      each of its resets.

    Args:
        n_agents: how many, adversaries among them, from 2 on; there is one landmark less.
        n_adversaries: how many of them, from 1 on, and fewer than ``n_agents``.

    """

    n_agents: int = 3
    n_adversaries: int = 1

    limits = {"n_agents": (2, 1000), "n_adversaries": (1, 999)}

    def build(self) -> World:
        if self.n_adversaries >= self.n_agents:
            raise ValueError(
                "SimpleAdversary: n_agents must be more than n_adversaries, which they include; "
                f"got n_agents={self.n_agents}, n_adversaries={self.n_adversaries}"
            )
        world = World()
        foe, friend = (Agent(Sphere(0.15), collide=False, color=color) for color in ("red", "blue"))
        self.foes = world.add("adversary", [foe] * self.n_adversaries)
        self.friends = world.add("agent", [friend] * (self.n_agents - self.n_adversaries))
        mark = Landmark(Sphere(0.08), collide=False, color="black")
        self.landmarks = world.add("landmarks", [mark] * (self.n_agents - 1))
        world.remember(goal=torch.tensor(0))
        return world

    def spawn(self) -> None:
        self.memory.goal = self.randint(0, len(self.landmarks))
        for bodies in (self.foes, self.friends, self.landmarks):
            bodies.pos = self.uniform(-1, 1, len(bodies), 2)

    def _goal(self) -> Tensor:
        return place(self.memory.goal, self.landmarks).unsqueeze(1)

    def observe(self) -> Mapping[str, Tensor]:
        foes, friends, marks = self.foes, self.friends, self.landmarks
        return {
            "adversary": join(offset(foes, marks), others(offset(foes, foes)), offset(foes, friends)),
            "agent": join(
                self._goal() - friends.pos,
                offset(friends, marks),
                offset(friends, foes),
                others(offset(friends, friends)),
            ),
        }

    def rewards(self) -> Mapping[str, Tensor]:
        goal = self._goal()
        foes, friends = norm(self.foes.pos - goal), norm(self.friends.pos - goal)
        return {"adversary": 0.0 - foes, "agent": (total(foes) - friends.amin(1)).unsqueeze(1)}

    def draw(self, picture: Picture) -> None:
        """Which landmark is the goal."""
        x, y = self.landmarks.pos[0, int(self.memory.goal)].tolist()
        picture.circle((x, y), 0.1, "green", fill="none", width=3.0)
