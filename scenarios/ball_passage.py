"""Two agents push a ball through a gap in a wall, to its goal.

Source: ``ball_passage`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from marlenv.scenarios.parts.bricks import RADIUS, Bricks, above, below
from torch import Tensor

from marlenv.physics import Agent, Landmark, Scenario, Sphere, World, distance, heading, join, offset, overlap

SPACING = 0.5  # metres between the agents at the start
BUMP = -0.06


@dataclass(eq=False)
class BallPassage(Scenario):
    """A wall of bricks in the middle has gaps; the ball starts below it, between the agents, and its goal is above.

    - observation ``[B, 2, 8 + 2 n]``: own position and velocity; the agent seen from goal, ball and each of the ``n``
      gaps.
    - reward, shared: the metres that the ball comes nearer to the nearest gap while it is below the wall, to the goal
      when it has passed; and -0.06 for each brick that an agent or the ball touches.
    - ends: when the ball is at its goal, or at the border.
    - VMAS: agents and ball feel a brick only if the circles around both bodies overlap in some row of the batch; here
      from 6.7 mm on, whatever other rows do. And there all rows that are reset at once have the same gaps; here each
      has its own.

    Args:
        n_passages: how many gaps, from 1 to 20.
        fixed_passage: whether they are always in the middle.
        random_start_angle: whether agents and ball start in a line of any angle; or upright.

    """

    n_passages: int = 1
    fixed_passage: bool = False
    random_start_angle: bool = True

    limits = {"n_passages": (1, 20)}

    def build(self) -> World:
        world = World(x_semidim=1.0, y_semidim=1.0, drag=0.0)
        self.agents = world.add("agents", [Agent(Sphere(RADIUS), u_multiplier=0.7, mass=2, drag=0.25)] * 2)
        self.goal = world.add("goal", Landmark(Sphere(RADIUS), collide=False, color="green"))
        ball = Landmark(Sphere(RADIUS), movable=True, mass=1, color="black", linear_friction=0.02)
        self.ball = world.add("ball", ball)
        self.bricks = Bricks(world, 0.103, self.n_passages)
        world.remember(before=0.0, behind=0.0)
        world.note(pos_rew=0.0, collision_rew=0.0)
        return world

    def spawn(self) -> None:
        half = torch.pi / 2
        angle = self.uniform(-half, half) if self.random_start_angle else self.zeros() - half
        reach = SPACING / 2 * heading(angle).t()
        ball = self.uniform(*below(reach), 2)
        self.ball.pos, self.agents.pos = ball, torch.stack((ball - reach, ball + reach), 1)
        self.goal.pos = self.uniform(*above(torch.zeros_like(reach)), 2)
        count = self.bricks.count
        slots = torch.arange(count, device=self.device).expand(self.rows, -1)
        self.bricks.all.pos = self.bricks.at(slots if self.fixed_passage else self.permutation(count))

    def _far(self) -> tuple[Tensor, Tensor]:
        """From the ball to the nearest gap, and to the goal; metres."""
        return distance(self.ball, self.bricks.gaps).amin(1), distance(self.ball, self.goal)

    def after_spawn(self) -> None:
        self.memory.before, self.memory.behind = self._far()

    def observe(self) -> Mapping[str, Tensor]:
        agents = self.agents
        gaps = -offset(agents, self.bricks.gaps)
        return {"agents": join(agents.pos, agents.vel, offset(self.goal, agents), offset(self.ball, agents), gaps)}

    def rewards(self) -> Mapping[str, Tensor]:
        memory, (before, behind) = self.memory, self._far()
        passed = self.ball.pos[:, 1] > 0
        bumps = sum(
            overlap(self.agents, part).sum((1, 2)) + overlap(self.ball, part).sum(1) for part in self.bricks.walls
        )
        self.notes.pos_rew = torch.where(passed, memory.behind - behind, memory.before - before)
        self.notes.collision_rew = BUMP * torch.as_tensor(bumps, device=behind.device)
        memory.before, memory.behind = before, behind
        return {"agents": (self.notes.pos_rew + self.notes.collision_rew).unsqueeze(1)}

    def over(self) -> Tensor:
        border = (self.ball.pos.abs() >= 1 - RADIUS).any(1)
        return border | (distance(self.ball, self.goal) <= 0.01)

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": self.noted("pos_rew", "collision_rew")}
