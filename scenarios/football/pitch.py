"""The pitch: how large it is, its walls and goals, and where players may be."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import Bodies, Box, Landmark, Line, World

WHITE, NET = (0.85, 0.85, 0.85), (0.5, 0.5, 0.5)


@dataclass(frozen=True)
class Pitch:
    """Its measures, metres; the origin is in its middle, the goal of the blue team on the left.

    >>> Pitch(3.0, 1.5, 0.35, 0.1, 0.025).wall
    0.55

    """

    length: float
    width: float
    goal_size: float
    goal_depth: float
    player: float
    """The radius of players, from which the edges of the pitch follow."""

    @property
    def wall(self) -> float:
        """How long the wall beside a goal is."""
        return self.width / 2 - self.player - self.goal_size / 2

    def add_to(self, world: World) -> tuple[Bodies, Bodies]:
        """Puts walls and nets into a world; :meth:`place` places them."""
        sides = ("Right", "Left")
        lines = [(f"{side} {end} Wall", self.wall) for end in ("Top", "Bottom") for side in sides]
        for part, size in (("Back", self.goal_size), ("Top", self.goal_depth), ("Bottom", self.goal_depth)):
            lines += [(f"{side} Goal {part}", size) for side in sides]
        walls = [Landmark(Line(size), name=name, color=WHITE) for name, size in lines]
        net = Box(length=self.goal_depth, width=self.goal_size)
        nets = [Landmark(net, name=f"{team} Net", collide=False, color=NET) for team in ("Blue", "Red")]
        return world.add("walls", walls), world.add("nets", nets)

    def place(self, walls: Bodies, nets: Bodies) -> None:
        """Puts walls and nets in their places."""
        edge, middle = self.length / 2, self.width / 4 + self.goal_size / 4
        back, half = edge + self.goal_depth - self.player, edge + self.goal_depth / 2 - self.player
        post = self.goal_size / 2
        at = [(side * edge, y) for y in (middle, -middle) for side in (1, -1)] + [(back, 0.0), (-back, 0.0)]
        walls.pos = at + [(side * half, y) for y in (post, -post) for side in (1, -1)]
        walls.rot = [math.pi / 2] * 6 + [0.0] * 4
        nets.pos = [(side * (edge + self.goal_depth / 2 - self.player / 2), 0.0) for side in (-1, 1)]

    def onto(self, pos: Tensor) -> Tensor:
        """The places nearest to ``pos [..., 2]`` where a player fits, goals included."""
        x, y, edge = pos[..., 0], pos[..., 1], self.length / 2 - self.player
        y = y.clamp(-(self.width / 2 - self.player), self.width / 2 - self.player)
        inside = y.abs() < self.goal_size / 2 - self.player
        deep = edge + self.goal_depth
        return torch.stack((torch.where(inside, x.clamp(-deep, deep), x.clamp(-edge, edge)), y), -1)

    def from_walls(self, pos: Tensor) -> tuple[Tensor, Tensor]:
        """How far ``pos [..., 2]`` is from the nearer of the two walls up and down, and of those left and right."""
        x, y = self.length / 2, self.width / 2
        up, right = torch.minimum(y - pos[..., 1], pos[..., 1] + y), torch.minimum(pos[..., 0] + x, x - pos[..., 0])
        return up.abs(), right.abs()

    def off_walls(self, pos: Tensor, vel: Tensor) -> Tensor:
        """The force ``[B, 2]`` that keeps a ball from getting stuck at walls: none where it is fast, or at a goal."""
        near, fast = self.player * 2, 0.3
        close = [
            1 - half.clamp(max=near) / near
            for half in (
                self.width / 2 - pos[:, 1], self.width / 2 + pos[:, 1],
                self.length / 2 - pos[:, 0], self.length / 2 + pos[:, 0],
            )
        ]  # fmt: skip
        up, down, right, left = close
        slow = 1 - vel[:, 1].abs().clamp(max=fast) / fast
        before_goal = (pos[:, 1] < self.goal_size / 2) & (pos[:, 1] > -self.goal_size / 2)
        along = torch.where(before_goal, 0.0, (left - right) * slow * 0.05)
        return torch.stack((along, (down - up) * slow * 0.05), 1)

    def scored(self, ball: Tensor, radius: float) -> tuple[Tensor, Tensor]:
        """Whether a ball at ``[B, 2]`` is over the line in the right goal, and in the left one; bool ``[B]``."""
        line = self.length / 2 + radius / 2
        inside = (ball[:, 1] <= self.goal_size / 2) & (ball[:, 1] >= -self.goal_size / 2)
        return (ball[:, 0] > line) & inside, (ball[:, 0] < -line) & inside
