"""A policy for :mod:`marlenv.scenarios.rescue`."""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.physics import Heuristic
from marlenv.physics.task.heuristic import ahead_on_circle, towards_nearest


class RescuePolicy(Heuristic):
    """Goes to the nearest victim in sight, else round in a circle of 0.6 metres, and shies away from walls.

    It plays the default numbers of agents, victims and rays.
    """

    widths = (40,)

    def act(self, observation: Tensor) -> Tensor:
        """Forces ``[..., 2]``."""
        pos, velocity, rays, victim = (observation[..., a:b] for a, b in ((0, 2), (2, 4), (4, 16), (16, 19)))
        way = torch.where(victim[..., 2:] > 0, victim[..., :2], ahead_on_circle(pos, 0.6, step=0.3) - pos)
        near = rays.amin(-1, keepdim=True)
        along = towards_nearest(rays)
        push = (0.15 - near).clamp(min=0) * 3
        aside = torch.stack((along[..., 1], -along[..., 0]), -1) * (push > 0) * 0.3
        return (6 * (way - push * along + aside) - 2 * velocity).clamp(-self.u_range, self.u_range)
