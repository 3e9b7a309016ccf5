"""The pitch, the paths of scripted players, and where players can shoot from."""

from __future__ import annotations

import math

import torch
from marlenv.scenarios.football.pitch import WHITE, Pitch
from torch import Tensor

from marlenv.physics import Bodies, Picture

GRASS, PATH, SHOT = (0.45, 0.75, 0.45), (0.3, 0.3, 0.3), (0.97, 0.51, 0.75)


def draw_pitch(picture: Picture, pitch: Pitch) -> None:
    """Grass and lines."""
    x, y = pitch.length / 2, pitch.width / 2
    picture.polygon([(-x, -y), (x, -y), (x, y), (-x, y)], GRASS)
    x, y = x - pitch.player, y - pitch.player
    picture.polygon([(-x, -y), (x, -y), (x, y), (-x, y)], WHITE, filled=False)
    picture.line((0.0, -y), (0.0, y), WHITE)
    picture.circle((0.0, 0.0), pitch.goal_size / 2, WHITE, fill="none")


def draw_paths(picture: Picture, path: Tensor, points: int) -> None:
    """Points of the paths ``[4, A, 2]`` that players plan: from where, to where, how fast then, how fast at first."""
    here, there, last, first = path
    for u in torch.linspace(0, 1, points).tolist():
        whole = (1 - 3 * u**2 + 2 * u**3) * here + (3 * u**2 - 2 * u**3) * there
        at = whole + (u**3 - 2 * u**2 + u) * first + (u**3 - u**2) * last
        for x, y in at.tolist():
            picture.circle((x, y), 0.01, PATH)


def draw_reach(picture: Picture, players: Bodies, ready: Tensor, radius: float, angle: float) -> None:
    """The sectors in which the ball must lie for a shot; pink where it does (``ready``, bool ``[1, A]``)."""
    for body, yes in zip(players, ready[0].tolist(), strict=True):
        (x, y), rot = body.pos[0].tolist(), body.rot[0].item()
        turns = [rot + angle * (i / 8 - 0.5) for i in range(9)]
        rim = [(x + radius * math.cos(a), y + radius * math.sin(a)) for a in turns]
        picture.polygon([(x, y), *rim], SHOT if yes else body.entity.kind.color, filled=yes)
