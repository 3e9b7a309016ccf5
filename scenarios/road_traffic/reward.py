"""What a step is worth to a car; ``[A, B]`` here."""

from __future__ import annotations

import math

import torch
from marlenv.scenarios.road_traffic.options import RoadTrafficOptions
from torch import Tensor

from marlenv.constants import constant
from marlenv.physics import Bodies, alike, rows_last, total
from marlenv.physics.maths.geometry import length

OFF_CENTER, STEERED, CRASHED, NEAR, MOVED = -0.02, -0.02, -1.0, -0.2, 0.05
PERCENT = 100.0


def worth(s: RoadTrafficOptions, cars: Bodies, before: Tensor, ways: Tensor, lane: float) -> Tensor:
    """All of it together.

    Args:
        s: says how much of what.
        cars: as they are now.
        before: where they were, ``[2, A, B]``, metres.
        ways: from there to the points ahead, ``[2, K, A, B]``.
        lane: how wide lanes are, metres.

    """
    pos, vel, notes = cars.planar("pos"), cars.planar("vel"), s.notes
    ahead = speed_ahead(vel, ways)
    gain = progress(pos - before, ways, weights(s.n_points_short_term)) / (s.max_speed * s.dt)
    speed = torch.where(ahead > 0, 1.0, 2.0) * ahead / s.max_speed
    reward = gain * (s.reward_progress / PERCENT) + speed * (s.reward_vel / PERCENT)
    reward = reward + rows_last(notes.exit) * (s.reward_reach_goal / PERCENT)
    reward = reward + nearness(rows_last(torch.minimum(notes.left, notes.right)), s.near_line) * NEAR
    reward = reward + crowd(pos, s.near_car) * NEAR
    reward = reward + rows_last(notes.off) / (lane / 2) * OFF_CENTER
    if s.n_stored_steps > 1:
        turned = [rows_last(x) for x in (s.memory.turned, s.memory.turned_before)]
        free = math.radians(s.threshold_change_steering)
        reward = reward + jerk(turned[0], turned[1], s.max_steering_angle, free)
    reward = reward + (rows_last(notes.crash).float() + rows_last(notes.crossed).float()) * CRASHED
    return reward + moving(vel, ahead, s.max_speed)


def crowd(pos: Tensor, ends: tuple[float, float]) -> Tensor:
    """How near other cars are, all together."""
    way = pos.unsqueeze(1) - pos.unsqueeze(2)
    same = torch.eye(len(way[0]), dtype=torch.bool, device=pos.device).unsqueeze(-1)
    return total(torch.where(same, 0.0, nearness(length(way[0], way[1]), ends)), 0)


def weights(count: int) -> list[float]:
    """How much each point of the road ahead counts, the nearest most; together 1."""
    found = torch.linspace(1, 0.2, count, dtype=torch.float32, device="cpu")
    shares: list[float] = (found / found.sum()).tolist()
    return shares


def nearness(x: Tensor, ends: tuple[float, float]) -> Tensor:
    """From 1 at the first of the ``ends`` (and before) down to 0 at the second (and beyond), exponentially."""
    low, high = ends
    share = (x.clamp(low, high) - low) / (high - low)
    return (alike(torch.exp, -share) - 1 / math.e) / (1 - 1 / math.e)


def progress(move: Tensor, ways: Tensor, shares: list[float]) -> Tensor:
    """How far a move ``[2, A, B]`` goes along the ways ``[2, K, A, B]`` to points ahead."""
    along = move[0] * ways[0] + move[1] * ways[1]
    return total(along * constant(shares, along.device, along.dtype).reshape(-1, 1, 1), 0)


def speed_ahead(vel: Tensor, ways: Tensor) -> Tensor:
    """The same of velocities, on average over the points."""
    along = vel[0] * ways[0] + vel[1] * ways[1]
    return total(along, 0) / along.shape[0]


def moving(vel: Tensor, ahead: Tensor, max_speed: float) -> Tensor:
    """For moving at all: a reward where it is ahead, else a penalty."""
    return torch.where(ahead > 0, 1.0, -1.0) * length(vel[0], vel[1]) / max_speed * MOVED


def jerk(now: Tensor, before: Tensor, most: float, free: float) -> Tensor:
    """For sudden steering, by the share of ``most`` radians that is steered now and was before.

    Args:
        now: from -1 to 1.
        before: likewise.
        most: radians.
        free: up to which change it costs nothing, radians.

    """
    change = ((now - before).abs() * most - free).clamp(min=0)
    return change / (2 * most - 2 * free) * STEERED
