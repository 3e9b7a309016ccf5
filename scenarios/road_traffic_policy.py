"""A policy for :mod:`marlenv.scenarios.road_traffic.scenario`."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from marlenv.physics import Heuristic

LENGTH, UNIT = 0.16, 1.6  # metres: of a car, and what lengths are measured in
STEERING = math.radians(35)
NEAR, BESIDE = 0.4, 0.12  # metres: how far ahead, and to the side, another car is in the way


class RoadTrafficPolicy(Heuristic):
    """Steers towards the road ahead (pure pursuit), slowly in bends, and stops behind whoever is in the way.

    It plays the default observations.

    Args:
        cruise: how fast it drives where nothing is in the way, m/s.

    """

    widths = (32,)

    def __init__(self, cruise: float = 0.8) -> None:
        super().__init__()
        self.cruise = cruise

    def act(self, observation: Tensor) -> Tensor:
        """Speeds and steering angles, ``[..., 2]``."""
        aim = observation[..., 3:5] * UNIT
        far = torch.linalg.vector_norm(aim, dim=-1).clamp(min=LENGTH)
        off = torch.atan2(aim[..., 1], aim[..., 0])
        steering = torch.atan(2 * LENGTH * torch.sin(off) / far).clamp(-STEERING, STEERING)
        cars = observation[..., 10:].unflatten(-1, (2, 11))
        middle = cars[..., :8].unflatten(-1, (4, 2)).mean(-2) * UNIT
        ahead, beside = middle[..., 0], middle[..., 1].abs()
        room = torch.where((ahead > 0) & (beside < BESIDE + 0.3 * ahead), ahead, UNIT).amin(-1)
        speed = self.cruise * ((room - 1.2 * LENGTH) / NEAR).clamp(0, 1) * (1 - 0.4 * off.abs().clamp(max=1))
        return torch.stack((speed, steering), -1)
