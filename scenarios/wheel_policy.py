"""A policy for :mod:`marlenv.scenarios.wheel`, as in VMAS 1.5.2."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from marlenv.physics import Heuristic


class WheelPolicy(Heuristic):
    """All go for a point an eighth of a turn ahead of the second end of the line.

    >>> WheelPolicy().act(torch.zeros(1, 4, 13)).shape
    torch.Size([1, 4, 2])
    """

    widths = (13,)

    def act(self, observation: Tensor) -> Tensor:
        """Forces ``[..., 2]``."""
        pos = observation[..., :2]
        x, y = (observation[..., 8:10] + pos).unbind(-1)
        turn = math.sqrt(0.5)
        goal = torch.stack((x * turn - y * turn, x * turn + y * turn), -1)
        return (goal - pos).clamp(-self.u_range, self.u_range)
