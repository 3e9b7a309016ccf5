"""A policy for :mod:`marlenv.scenarios.discovery`, as in VMAS 1.5.2."""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.physics import Heuristic
from marlenv.physics.task.heuristic import ahead_on_circle, towards_nearest


class DiscoveryPolicy(Heuristic):
    """All go round in a circle of 0.75 metres, go for targets that they see, and shy away from agents that they see.

    It needs the lidars of the default options: 15 rays for targets and, if any, 12 for agents.
    """

    widths = (19, 31)

    def act(self, observation: Tensor) -> Tensor:
        """Forces ``[..., 2]``."""
        pos, rays = observation[..., :2], observation[..., 4:19]
        goal = ahead_on_circle(pos, 0.75)
        goal = torch.where((rays < 0.3).any(-1, keepdim=True), pos + towards_nearest(rays) * 0.1, goal)
        if observation.shape[-1] > 19:
            near = observation[..., 19:31]
            goal = torch.where((near < 0.15).any(-1, keepdim=True), pos - towards_nearest(near) * 0.1, goal)
        return ((goal - pos) * 10).clamp(-self.u_range, self.u_range)
