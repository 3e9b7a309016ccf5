"""Two agents lead a ball that hangs between them along a corridor, and touch no wall.

Source: ``buzz_wire`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import Agent, Landmark, Line, Scenario, Sphere, World, distance, heading, join, offset, overlap

RADIUS, SPACING, LONG = 0.03, 0.5, 2.0  # metres: of agents and ball, between agents, of the corridor


@dataclass(eq=False)
class BuzzWire(Scenario):
    """The ball runs in a corridor along the y axis, each agent beside it; the goal is at its other end.

    - observation ``[B, 2, 6]``: own position and velocity, and the agent seen from the goal.
    - reward, shared: the metres that the ball comes nearer to the goal, times ``pos_shaping_factor``;
      ``collision_reward`` for each line that an agent or the ball touches.
    - ends: when the ball is at the goal, or something touched a line.
    - VMAS: a reset of one row puts the rods of all rows anew between agents and ball; and bodies feel a line only if
      the circles around both overlap in some row of the batch. Here each row is on its own, and lines are felt from 6.7
      mm on.

    Args:
        random_start_angle: whether the agents start up to 30 degrees off; or beside the ball.
        pos_shaping_factor: reward per metre.
        collision_reward: for each touch of a line.
        max_speed_1: of the second agent, m/s, from 0 on; left out, there is no limit.

    """

    random_start_angle: bool = True
    pos_shaping_factor: float = 1.0
    collision_reward: float = -10.0
    max_speed_1: float | None = None

    limits = {"max_speed_1": (0, 1e6)}

    def build(self) -> World:
        world = World(substeps=15, joint_force=900, collision_force=1500)
        self.agents = world.add("agents", [Agent(Sphere(RADIUS), max_speed=v) for v in (None, self.max_speed_1)])
        self.goal = world.add("goal", Landmark(Sphere(RADIUS), collide=False, color="green"))
        self.ball = world.add("ball", Landmark(Sphere(RADIUS), movable=True))
        for agent in self.agents:
            world.join(agent, self.ball, dist=SPACING / 2)
        self.walls = world.add("walls", [Landmark(Line(LONG), color="black")] * 2)
        self.floors = world.add("floors", [Landmark(Line(SPACING / 2), color="black")] * 2)
        world.remember(far=0.0)
        world.note(pos_rew=0.0, collision_rew=0.0, touched=torch.tensor(False))
        return world

    def spawn(self) -> None:
        most = math.pi / 6 if self.random_start_angle else 0.0
        reach = SPACING / 2 * heading(self.uniform(-most, most)).t()
        low, high = self.tensor([-RADIUS, 2 * RADIUS - LONG / 2]), self.tensor([RADIUS, -RADIUS])
        ball = self.uniform(low, high, 2)
        self.goal.pos = self.uniform(self.tensor([-RADIUS, -RADIUS]), self.tensor([RADIUS, LONG / 2 - 2 * RADIUS]), 2)
        self.ball.pos, self.agents.pos = ball, torch.stack((ball - reach, ball + reach), 1)
        self.walls.pos = self.tensor([[-SPACING / 4, 0], [SPACING / 4, 0]])
        self.walls.rot = self.tensor([math.pi / 2, math.pi / 2])
        self.floors.pos = self.tensor([[0, -LONG / 2], [0, LONG / 2]])

    def _shaping(self) -> dict[str, Tensor]:
        return {"far": distance(self.ball, self.goal) * self.pos_shaping_factor}

    def after_spawn(self) -> None:
        self.keep(self._shaping())

    def observe(self) -> Mapping[str, Tensor]:
        agents = self.agents
        return {"agents": join(agents.pos, agents.vel, -offset(agents, self.goal))}

    def rewards(self) -> Mapping[str, Tensor]:
        bodies, lines = (self.agents, self.ball.alone), (self.walls, self.floors)
        touches = torch.stack([overlap(body, line).sum((1, 2)) for body in bodies for line in lines]).sum(0)
        gain, cost = self.gains(self._shaping())["far"], touches * self.collision_reward
        self.note(pos_rew=gain, collision_rew=cost, touched=touches > 0)
        return {"agents": (gain + cost).unsqueeze(1)}

    def over(self) -> Tensor:
        return (distance(self.ball, self.goal) <= 0.01) | self.notes.touched

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": self.noted("pos_rew", "collision_rew")}
