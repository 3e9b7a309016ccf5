"""A policy for :mod:`marlenv.scenarios.predator_prey`."""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.physics import Heuristic

PREDATORS, PREY = 3, 6


class PredatorPreyPolicy(Heuristic):
    """A predator goes to the nearest prey that lives, prey away from the nearest predator and from the edge.

    It plays the default numbers of agents.

    Args:
        groups: whom it plays for.

    """

    widths = (29, 28)  # of predators and prey

    def __init__(self, groups: tuple[str, ...] = ("predators", "prey")) -> None:
        super().__init__()
        self.groups = groups

    def act(self, observation: Tensor) -> Tensor:
        """Forces, ``[..., 2]``."""
        hunts = observation.shape[-1] == self.widths[0]
        rest = observation[..., -3 * (PREY if hunts else PREDATORS) :].unflatten(-1, (-1, 3))
        far = torch.linalg.vector_norm(rest[..., :2], dim=-1).where(rest[..., 2] > 0, 9.0)
        nearest = rest.take_along_dim(far.argmin(-1, keepdim=True).unsqueeze(-1), -2).squeeze(-2)[..., :2]
        pos, velocity = observation[..., :2], observation[..., 2:4]
        if hunts:
            return (8 * nearest - velocity).clamp(-self.u_range, self.u_range)
        near = torch.linalg.vector_norm(nearest, dim=-1, keepdim=True).clamp(min=1e-6)
        return (-nearest / near**2 - pos**3).clamp(-self.u_range, self.u_range)
