"""A policy for :mod:`marlenv.scenarios.balance`, as in VMAS 1.5.2."""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.physics import Heuristic


class BalancePolicy(Heuristic):
    """All push up while the package is below its goal, as hard as it is far.

    >>> observation = torch.zeros(1, 3, 16)
    >>> observation[..., 9] = -0.5  # half a metre below
    >>> BalancePolicy().act(observation)[0, 0]
    tensor([0.0000, 0.5000])
    """

    def act(self, observation: Tensor) -> Tensor:
        """Forces ``[..., 2]``, or choice 4 (up) of nine."""
        below = observation[..., 9]
        if not self.continuous:
            return torch.where(below >= 0, 0, 4)
        up = torch.where(below >= 0, 0.0, (-below).clamp(-self.u_range, self.u_range))
        return torch.stack((torch.zeros_like(up), up), -1)
