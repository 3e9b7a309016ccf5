"""A policy for :mod:`marlenv.scenarios.commons`."""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.physics import Heuristic


class CommonsPolicy(Heuristic):
    """Goes to the rim of the nearest patch with enough in it; where there is none, away from the nearest that lives.

    It plays the default numbers of agents and patches.

    Args:
        u_range: how large the force may be in each direction.
        spare: how much is enough: below it a patch is left alone; with 0 it harvests without restraint.
        reach: how near to the middle of a patch an agent harvests, metres.

    """

    widths = (27,)

    def __init__(self, u_range: float = 1.0, spare: float = 0.5, reach: float = 0.2) -> None:
        super().__init__(u_range)
        self.spare, self.reach = spare, reach

    def act(self, observation: Tensor) -> Tensor:
        """Forces ``[..., 2]``."""
        velocity, patches = observation[..., 2:4], observation[..., 4:19].unflatten(-1, (5, 3))
        where, stock = patches[..., :2], patches[..., 2]
        far = torch.linalg.vector_norm(where, dim=-1)
        rich = stock > self.spare
        goal, away = (self._nearest(where, far.where(which, 9.0)) for which in (rich, stock > 0))
        near = torch.linalg.vector_norm(goal, dim=-1, keepdim=True)
        to_rim = goal * (1 - 0.8 * self.reach / near.clamp(min=1e-6))
        shy = torch.linalg.vector_norm(away, dim=-1, keepdim=True)
        flee = -away / shy.clamp(min=1e-6) * (1.4 * self.reach - shy).clamp(min=0)
        way = torch.where(rich.any(-1, keepdim=True), to_rim, flee)
        return (8 * way - 3 * velocity).clamp(-self.u_range, self.u_range)

    @staticmethod
    def _nearest(where: Tensor, far: Tensor) -> Tensor:
        """The nearest of some places ``[..., n, 2]``; ``[..., 2]``."""
        at = far.argmin(-1, keepdim=True).unsqueeze(-1)
        return where.take_along_dim(at, -2).squeeze(-2)
