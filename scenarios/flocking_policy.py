"""A policy for :mod:`marlenv.scenarios.flocking`, as in VMAS 1.5.2."""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.physics import Heuristic
from marlenv.physics.task.heuristic import ahead_on_circle, towards_nearest


class FlockingPolicy(Heuristic):
    """All go round in a circle of 0.3 metres, and shy away from obstacles.

    It plays with the default number of rays.
    """

    widths = (18,)

    def act(self, observation: Tensor) -> Tensor:
        """Forces ``[..., 2]``."""
        pos, rays = observation[..., :2], observation[..., 6:18]
        shy = (rays < 0.1).any(-1, keepdim=True)
        goal = torch.where(shy, pos - towards_nearest(rays) * 0.1, ahead_on_circle(pos, 0.3))
        return ((goal - pos) * 10).clamp(-self.u_range, self.u_range)
