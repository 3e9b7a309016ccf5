"""What a step is worth to a team that learns: goals, and how near the ball is to the goal and the team to the ball."""

from __future__ import annotations

import torch
from marlenv.scenarios.football.options import FootballOptions
from torch import Tensor

from marlenv.physics import World, distance, norm

WAYS = {"blue": 1.0, "red": -1.0}
"""The direction in which each team plays."""


class Score:
    """Keeps the score of a team.

    Args:
        options: of the game.
        world: remembers how near the ball was.
        team: its name.

    """

    def __init__(self, options: FootballOptions, world: World, team: str) -> None:
        self.options, self.way = options, WAYS[team]
        self.players, self.ball = world.groups[f"agent_{team}"], world.groups["ball"][0]
        self.group, self.factors = self.players.group, {
            f"{team}_to_goal": options.pos_shaping_factor_ball_goal,
            f"{team}_to_ball": options.pos_shaping_factor_agent_ball,
        }  # fmt: skip
        self.to_goal, self.to_ball = self.factors
        world.remember(**dict.fromkeys(self.factors, 0.0))
        world.note(**{f"{name}_gain": 0.0 for name in self.factors})

    @property
    def goal(self) -> Tensor:
        """The middle of the goal in which the team scores; ``[2]``."""
        return self.options.tensor([self.way * (self.options.pitch_length / 2 + self.options.ball_size / 2), 0.0])

    def distances(self) -> dict[str, Tensor]:
        """How far the ball is from the goal, and the nearest player from the ball; ``[B]`` each."""
        near = distance(self.players, self.ball).amin(1)
        return {self.to_goal: norm(self.ball.pos - self.goal), self.to_ball: near}

    def reward(self, scored: Tensor) -> Tensor:
        """Of this step, ``[B]``; ``scored`` is that of blue for goals."""
        if not self.options.dense_reward:
            return scored * self.way
        now, memory = self.distances(), self.options.memory
        gains = {name: getattr(memory, name) * by - now[name] * by for name, by in self.factors.items()}
        near = now[self.to_ball] < self.options.distance_to_ball_trigger
        gains[self.to_ball] = torch.where(near | (norm(self.ball.vel) > 1e-6), 0.0, gains[self.to_ball])
        self.options.keep(now)
        self.options.note(**{f"{name}_gain": gain for name, gain in gains.items()})
        return scored * self.way + (gains[self.to_goal] + gains[self.to_ball])

    def info(self, scored: Tensor) -> dict[str, Tensor]:
        """What the team is told."""
        s = self.options
        near = getattr(s.memory, self.to_ball)
        gains = [getattr(s.notes, f"{name}_gain") for name in (self.to_goal, self.to_ball)]
        told = {
            "sparse_reward": scored * self.way,
            "ball_goal_pos_rew": gains[0],
            "all_agent_ball_pos_rew": gains[1],
            "ball_pos": self.ball.pos,
            "dist_ball_to_goal": getattr(s.memory, self.to_goal),
            "min_agent_dist_to_ball": near,
            "touching_ball": (near <= s.agent_size + s.ball_size + 1e-2).float(),
        }
        return {name: x.unsqueeze(1) for name, x in told.items()}
