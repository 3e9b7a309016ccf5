"""Five agents in the shape of a cross pass through gaps in a wall and take that shape again behind it.

Source: ``passage`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from marlenv.scenarios.parts.bricks import RADIUS, Bricks, above, below
from torch import Tensor

from marlenv.physics import Agent, Landmark, Scenario, Sphere, World, join, norm, offset, overlap, total

SPOTS = ((0.1, 0.0), (0.0, 0.1), (-0.1, 0.0), (0.0, -0.1), (0.0, 0.0))  # metres, of the cross
SHAPING, BUMP = 100.0, 10.0


@dataclass(eq=False)
class Passage(Scenario):
    """A wall of bricks has gaps somewhere; agents start below it and have their goals above.

    - observation ``[B, 5, 6 + 2 n]``: own position and velocity; the goal and the ``n`` gaps, seen from the agent.
    - reward: 100 for each metre that the agent comes nearer to its goal; minus 10 for each agent and brick that it
      touches. With ``shared_reward`` the metres of all; and, as in VMAS, an agent then pays for those before it too.
    - ends: when all are at their goals.
    - VMAS: agents feel a brick only if the circles around both bodies overlap in some row of the batch; here from 6.7
      mm on, whatever other rows do. And there all rows that are reset at once have the same gaps, and agents the same
      places in the cross; here each row has its own.

    Args:
        n_passages: how many gaps, from 1 to 20 (of 20 bricks).
        shared_reward: whether all get what all come nearer.

    """

    n_passages: int = 1
    shared_reward: bool = False

    limits = {"n_passages": (1, 20)}

    def build(self) -> World:
        world = World(x_semidim=1, y_semidim=1)
        self.agents = world.add("agents", [Agent(Sphere(RADIUS), u_multiplier=0.7)] * 5)
        self.goals = world.add("goals", [Landmark(Sphere(RADIUS), collide=False, color="light_green")] * 5)
        self.bricks = Bricks(world, 0.103, self.n_passages, first=0)
        world.remember(shaping=torch.zeros(5))
        return world

    def spawn(self) -> None:
        spots = self.tensor(SPOTS)[self.permutation(5)]
        reach = self.zeros(2) + 2 * RADIUS + 0.1
        low, high = below(reach)
        shift = self.tensor([0, RADIUS])  # the cross comes one radius nearer to the wall than a disc of its size
        self.agents.pos = self.uniform(low, high + shift, 2).unsqueeze(1) + spots
        low, high = above(reach)
        self.goals.pos = self.uniform(low - shift, high, 2).unsqueeze(1) + spots
        self.bricks.all.pos = self.bricks.at(self.permutation(self.bricks.count))

    def _far(self) -> Tensor:
        return norm(self.agents.pos - self.goals.pos)

    def after_spawn(self) -> None:
        self.memory.shaping = self._far() * SHAPING

    def observe(self) -> Mapping[str, Tensor]:
        agents = self.agents
        return {"agents": join(agents.pos, agents.vel, self.goals.pos - agents.pos, offset(agents, self.bricks.gaps))}

    def rewards(self) -> Mapping[str, Tensor]:
        agents = self.agents
        gain = self.gains({"shaping": self._far() * SHAPING})["shaping"]
        bumps = torch.stack([overlap(agents, part).sum(2) for part in (agents, *self.bricks.walls)]).sum(0) * BUMP
        if self.shared_reward:
            return {"agents": total(gain).unsqueeze(1) - bumps.cumsum(1)}
        return {"agents": gain - bumps}

    def over(self) -> Tensor:
        return (self._far() <= RADIUS / 2).all(1)
