"""A policy for :mod:`marlenv.scenarios.balance`, as in VMAS 1.5.2."""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.physics import Heuristic

UP = 2  # of [3, 3] choices, flat: 0 (nothing) of the first number and 2 (up to its range) of the second


class BalancePolicy(Heuristic):
    """All push up while the package is below its goal, as hard as it is far.

    >>> observation = torch.zeros(1, 3, 16)
    >>> observation[..., 9] = -0.5  # half a metre below
    >>> BalancePolicy().act(observation)[0, 0]
    tensor([0.0000, 0.5000])
    """

    widths = (16,)
    chooses = True

    def act(self, observation: Tensor) -> Tensor:
        """Forces ``[..., 2]``, or choice 2 (up) of nine; VMAS's takes 4, which is down and left there, too."""
        below = observation[..., 9]
        if not self.continuous:
            return torch.where(below >= 0, 0, UP)
        up = torch.where(below >= 0, 0.0, (-below).clamp(-self.u_range, self.u_range))
        return torch.stack((torch.zeros_like(up), up), -1)
