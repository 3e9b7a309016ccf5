"""Two agents drive a ball around a circle.

Source: ``ball_trajectory`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from marlenv.scenarios.parts.directions import unit
from torch import Tensor

from marlenv.physics import Agent, Landmark, Picture, Scenario, Sphere, World, distance, join, norm, offset, total

SPEED, CIRCLE = 1.0, 0.5  # m/s, and metres: how fast the ball should be, and where
SPACING, RADIUS = 0.4, 0.03  # metres: between agents at the start, and of an agent
NAMES = ("pos_rew", "speed_rew", "dist_rew")


@dataclass(eq=False)
class BallTrajectory(Scenario):
    """The ball hangs between two agents, or lies there; it should be fast and stay on a circle of half a metre.

    - observation ``[B, 2, 8]``: own position and velocity, the agent seen from the ball, own position once more.
    - reward of the first agent: how much nearer the ball came to 1 m/s, times ``speed_shaping_factor``; to the circle
      (the root of the metres), times ``pos_shaping_factor``; and the agents to the ball, times ``dist_shaping_factor``.
      The second agent gets 0: as in VMAS, where it asks for what changed since the first one asked.
    - ends: never.
    - VMAS: a reset of one row puts the rods of all rows anew, and gives all rows its distance from the circle; all rows
      that are reset at once begin with the same agent on the left; and infos are always 0. Here each row is on its own,
      and infos say what the reward is made of.

    Args:
        pos_shaping_factor: reward per root of a metre.
        speed_shaping_factor: reward per m/s.
        dist_shaping_factor: reward per metre.
        joints: whether the ball hangs between the agents; or lies there.

    """

    pos_shaping_factor: float = 0.0
    speed_shaping_factor: float = 1.0
    dist_shaping_factor: float = 0.0
    joints: bool = True

    def build(self) -> World:
        forces: dict[str, Any] = {"substeps": 5, "collision_force": 400}
        if self.joints:
            forces = {"substeps": 15, "collision_force": 1500, "joint_force": 900}
        world = World(drag=0, **forces)
        self.agents = world.add("agents", [Agent(Sphere(RADIUS), drag=0.25)] * 2)
        self.ball = world.add("ball", Landmark(Sphere(2 * RADIUS), movable=True, linear_friction=0.04))
        for agent in self.agents if self.joints else ():
            world.join(agent, self.ball, dist=SPACING / 2)
        world.remember(pos=0.0, speed=0.0, dist=0.0)
        world.note(**dict.fromkeys(NAMES, torch.zeros(2)))
        return world

    def spawn(self) -> None:
        ball = self.uniform(-CIRCLE, CIRCLE, 2)
        aside = self.tensor([SPACING / 2, 0]) * (self.randint(0, 2, 1) * 2 - 1)
        self.ball.pos, self.agents.pos = ball, torch.stack((ball - aside, ball + aside), 1)

    def _shapings(self) -> dict[str, Tensor]:
        pos, speed = self.ball.pos, norm(self.ball.vel)
        return {
            "pos": norm(pos - unit(pos) * CIRCLE) ** 0.5 * self.pos_shaping_factor,
            "speed": (SPEED - speed).abs() * self.speed_shaping_factor,
            "dist": total(distance(self.agents, self.ball)) * self.dist_shaping_factor,
        }

    def after_spawn(self) -> None:
        self.keep(self._shapings())

    def observe(self) -> Mapping[str, Tensor]:
        agents = self.agents
        return {"agents": join(agents.pos, agents.vel, -offset(agents, self.ball), agents.pos)}

    def rewards(self) -> Mapping[str, Tensor]:
        first = self.tensor([1, 0])
        gains = {f"{name}_rew": x.unsqueeze(1) * first for name, x in self.gains(self._shapings()).items()}
        self.note(**gains)
        return {"agents": gains["pos_rew"] + gains["speed_rew"] + gains["dist_rew"]}

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": self.noted(*NAMES)}

    def draw(self, picture: Picture) -> None:
        """The circle."""
        picture.circle((0.0, 0.0), CIRCLE, "black", fill="none")
