"""Scripted players: who is best placed takes the ball to the goal, the others look for better places.

Every step a player plans a path (a cubic Hermite spline) to where it wants to be, and follows its beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from marlenv.scenarios.football.pitch import Pitch
from torch import Tensor

from marlenv.constants import constant
from marlenv.physics import Bodies, Body, join, norm, others, total

FORESIGHT = 0.5  # s: where ball and players will be then says who has the ball
TRIES, SPREAD = 2, 0.5  # places tried in a step; metres
AHEAD, GAIN = 0.01, 25.0  # share of the path that is looked at; newtons per metre and per m/s


class Skill(NamedTuple):
    """How good they are, from 0 to 1."""

    speed: float
    decision: float
    precision: float


class View(NamedTuple):
    """What players of a team look at."""

    team: Bodies
    foes: Bodies | None
    ball: Body
    own_goal: Tensor
    target: Tensor
    """The goals ``[B, 2]``, metres."""


class Plan(NamedTuple):
    """Where players want to be, how fast there, and how fast they begin; ``[B, A, 2]`` each."""

    pos: Tensor
    vel: Tensor
    start: Tensor


def unit(x: Tensor) -> Tensor:
    """Vectors ``[..., 2]`` of length 1; zero ones as they are."""
    size = norm(x).unsqueeze(-1)
    return torch.where(size > 0, x / torch.where(size > 0, size, 1.0), x)


def holder(see: View, skill: Skill, noise: Callable[..., Tensor]) -> Tensor:
    """Which of the team goes for the ball: bool ``[B, A]``, one of each row."""
    sides = [see.team] if see.foes is None else [see.team, see.foes]
    pos, vel = (torch.cat([getattr(side, at) for side in sides], 1) for at in ("pos", "vel"))
    ball, speed = see.ball.pos.unsqueeze(1), see.ball.vel.unsqueeze(1)
    far = norm(ball - pos + (speed - vel) * FORESIGHT)
    far = far - 0.5 * total(unit(ball - pos) * unit(see.target.unsqueeze(1) - pos)) * skill.decision
    if skill.decision != 1:
        far = far + 0.5 * noise(far.shape[1]) * (1 - skill.decision) ** 2
    count, first = len(see.team), torch.zeros_like(far[:, :1], dtype=torch.bool)
    nearest, chosen = far[:, :count].amin(1, keepdim=True), []
    for one in (far[:, :count] == nearest).unbind(1):  # the first of those that are equally near
        chosen.append(one.unsqueeze(1) & ~first)
        first = first | one.unsqueeze(1)
    return torch.cat(chosen, 1)


def beginning(pos: Tensor, vel: Tensor, start: Tensor, haste: Tensor | float) -> Tensor:
    """The velocity with which a path begins at ``start`` that ends at ``pos`` with ``vel``, in a curve from behind.

    Args:
        pos: ``[B, A, 2]``.
        vel: likewise.
        start: likewise.
        haste: from 0 (as fast as it ends) to 1 (1 m/s); ``[B, A]`` or a number.

    """
    fast = (haste + norm(vel) * (1 - haste)).unsqueeze(-1)
    way = torch.where(fast > 0, vel / torch.where(fast > 0, fast, 1.0), vel)
    return unit(pos - way * 0.6 * norm(pos - start).unsqueeze(-1) - start) * fast


def dribble(see: View, skill: Skill) -> Plan:
    """To the place behind the ball from which it goes towards the goal."""
    here, ball = see.team.pos, see.ball.pos.unsqueeze(1)
    way = unit(see.target.unsqueeze(1) - ball)
    vel = (way * (0.16 + 0.16 * skill.speed)).expand_as(here)
    start = beginning(ball, vel, here, 0.0)
    apart = constant([see.ball.entity.shape.reach + e.shape.reach for e in see.team.entities], here.device, here.dtype)
    return Plan(ball - unit(way + 0.5 * unit(start)) * apart.unsqueeze(-1) * 0.7, vel, start)


def better_place(see: View, skill: Skill, pitch: Pitch, aim: Tensor, noise: Callable[..., Tensor]) -> Plan:
    """To the best of a few random places and the present aim (``[B, A, 2]``, seen from the ball)."""
    here, ball = see.team.pos, see.ball.pos.unsqueeze(1)
    count = len(see.team)
    near = noise(count, TRIES, 2) * SPREAD * (1 + 3 * (1 - skill.decision))
    tried = pitch.onto(torch.stack([aim + ball, near[:, :, 0] + ball, near[:, :, 1] + here], 2))  # [B, A, 3, 2]
    worth = value(see, pitch, tried)
    if skill.decision != 1:
        worth = worth + noise(count, 1 + TRIES) * (1 - skill.decision)
    best, most = tried[:, :, 0], worth[..., 0] + 3 * (1 - skill.decision)
    for i in range(1, 1 + TRIES):
        better = worth[..., i] > most
        best = torch.where(better.unsqueeze(-1), tried[:, :, i], best)
        most = torch.where(better, worth[..., i], most)
    still = torch.zeros_like(best)
    return Plan(best, still, beginning(best, still, here, (norm(best - here) > 0.1).float()))


def value(see: View, pitch: Pitch, pos: Tensor) -> Tensor:
    """How good places ``[B, A, n, 2]`` are: near the ball, not in its way to the goal, between it and the own goal,
    far from others of the team and from walls; ``[B, A, n]``.
    """
    ball = see.ball.pos[:, None, None]
    way, goal = unit(ball - pos), see.target[:, None, None] - pos
    worth = torch.exp(-2 * norm(ball - pos) ** 4) + (total(way * unit(goal)) + 1.25).clamp(max=1)
    worth = worth + total(way * (pos - see.own_goal[:, None, None])).clamp(min=0)
    if len(see.team) > 1:
        team = others(see.team.pos.unsqueeze(1).expand(-1, len(see.team), -1, -1))
        close = torch.exp(-5 * norm(team.unsqueeze(2) - pos.unsqueeze(3)))
        worth = worth + 1 - total(close * close).sqrt()
    up, right = pitch.from_walls(pos)
    return (worth + 1 - norm(torch.stack((torch.exp(-8 * up), torch.exp(-8 * right)), -1))) / 5


def follow(see: View, plan: Plan, skill: Skill) -> Tensor:
    """The action that follows a path from where players are; ``[B, A, 2]``, in [-1, 1]."""
    here, u = see.team.pos, AHEAD
    ends, begins = 3 * u**2 - 2 * u**3, (u**3 - 2 * u**2 + u, u**3 - u**2)
    pos = (1 - ends) * here + ends * plan.pos + begins[0] * plan.start + begins[1] * plan.vel
    slope = 6 * u - 6 * u**2
    vel = slope * (plan.pos - here) + (3 * u**2 - 4 * u + 1) * plan.start + (3 * u**2 - 2 * u) * plan.vel
    return ((0.5 * (pos - here) + 0.5 * (vel - see.team.vel)) * (skill.speed**2 * GAIN)).clamp(-1, 1)


def turn_ahead(rot: Tensor) -> Tensor:
    """The action that turns players ``[B, A]`` to the right, and no shot; ``[B, A, 2]``."""
    off = (torch.pi - rot) % (2 * torch.pi) - torch.pi
    turn = torch.where(off > torch.pi / 2, 1.0, torch.where(off < -torch.pi / 2, -1.0, torch.sin(off)))
    return join(turn, torch.zeros_like(turn))
