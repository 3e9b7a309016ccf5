"""Shots: the player nearest to the ball kicks it, where it lies in reach and in front of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from marlenv.physics import Bodies, Body, alike, heading, norm, total

HARD = 2.67


def in_front(players: Bodies, ball: Body, radius: float, angle: float) -> Tensor:
    """Whether the ball lies at most ``radius`` metres from players, and within ``angle`` radians of where they look;
    bool ``[B, A]``.
    """
    way = ball.pos.unsqueeze(1) - players.pos
    off = (players.rot - alike(torch.atan2, way[..., 1], way[..., 0]) + torch.pi) % (2 * torch.pi) - torch.pi
    return (norm(way) <= radius) & (off.abs() <= angle / 2)


def kicks(
    sides: Sequence[Bodies], shooting: Sequence[Bodies], ball: Body, radius: float, angle: float, strength: float
) -> Tensor:
    """The force on the ball, ``[B, 2]``.

    Args:
        sides: all players.
        shooting: those of them whose last number of the action is a shot.
        ball: what they kick.
        radius: how near it must be, metres.
        angle: in which angle in front of them, radians.
        strength: of shots.

    """
    far = [norm(ball.pos.unsqueeze(1) - side.pos) for side in sides if len(side)]
    nearest = torch.cat(far, 1).amin(1, keepdim=True)
    force = torch.zeros_like(ball.pos)
    for side in shooting:
        may = in_front(side, ball, radius, angle) & (norm(ball.pos.unsqueeze(1) - side.pos) == nearest)
        shot = torch.where(may, side.u[..., 3] * HARD * strength, 0.0)
        way = heading(side.rot.t()).permute(2, 1, 0)
        force = force + total(shot.unsqueeze(-1) * way, 1)
    return force
