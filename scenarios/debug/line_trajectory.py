"""An agent runs along a line.

Source: ``debug/line_trajectory`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from marlenv.scenarios.parts.directions import unit
from torch import Tensor

from marlenv.physics import Agent, Picture, Scenario, Sphere, VelocityController, World, join, total

LONG = 3.0  # metres: the line goes from y = -1 to y = 2
NAMES = ("pos_rew", "dot_product", "steady_rew")


@dataclass(eq=False)
class LineTrajectory(Scenario):
    """One agent stays on the y axis and runs up along it, the way that it wants to.

    - observation ``[B, 1, 6]``: own position, velocity, and position once more.
    - reward: minus the root of the metres from the axis, half the speed along it, and 0.2 times the cosine of the angle
      between the velocity and the action.
    - ends: when the agent is above the line.
    - action: velocities, m/s.

    Args:
        obs_noise: the size of uniform noise on observations, from 0 on.

    """

    obs_noise: float = 0.0

    limits = {"obs_noise": (0, 1e6)}

    def build(self) -> World:
        world = World(drag=0.1)
        self.agents = world.add("agents", [Agent(Sphere(0.03), mass=2.0, f_range=0.5)])
        self.control = VelocityController(world, self.agents, (4.0, 1.25, 0.001))
        world.note(asked=torch.zeros(2), **dict.fromkeys(NAMES, 0.0))
        return world

    def spawn(self) -> None:
        self.agents.pos = self.uniform(self.tensor([-1, -1]), self.tensor([1, 0]), 1, 2)

    def before_step(self) -> None:
        self.note(asked=self.agents.u.squeeze(1))
        self.control.drive()

    def observe(self) -> Mapping[str, Tensor]:
        agents = self.agents
        return {"agents": self.blur(join(agents.pos, agents.vel, agents.pos), self.obs_noise)}

    def rewards(self) -> Mapping[str, Tensor]:
        notes, vel = self.notes, self.agents.vel.squeeze(1)
        pos = 0.0 - self.agents.pos[:, 0, 0].abs() ** 0.5
        steady = 0.2 * total(unit(vel) * unit(notes.asked))
        self.note(pos_rew=pos, dot_product=0.5 * vel[:, 1], steady_rew=steady)
        return {"agents": (notes.pos_rew + notes.dot_product + notes.steady_rew).unsqueeze(1)}

    def over(self) -> Tensor:
        return self.agents.pos[:, 0, 1] > LONG - 1

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": self.noted(*NAMES)}

    def draw(self, picture: Picture) -> None:
        """The line."""
        picture.line((0.0, -1.0), (0.0, LONG - 1.0), "black")
