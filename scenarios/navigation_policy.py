"""A policy for :mod:`marlenv.scenarios.navigation`: a control Lyapunov function, as in VMAS 1.5.2.

VMAS solves the quadratic program with cvxpylayers; with two variables it has a closed form.
"""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.physics import Heuristic


class NavigationPolicy(Heuristic):
    """The smallest force under which ``V = |x|² + x v / 2 + |v|²`` shrinks, ``x`` being the way to the goal, ``v`` the
    velocity.

    It plays with any number of rays; with ``observe_all_goals`` it takes the first agent's goal for everybody's.

    Source: Lyapunov function of https://arxiv.org/abs/1903.03692

    Args:
        u_range: how large the force may be in each direction.
        clf_epsilon: how fast ``V`` must shrink, as a share of it per second; as in VMAS, ``|v|² / 2`` faster than that.
        clf_slack: how much it costs if it does not.

    """

    widths = range(6, 10_007)  # behind position, velocity and way stand the rays of the lidar

    def __init__(self, u_range: float = 1.0, clf_epsilon: float = 0.2, clf_slack: float = 100.0) -> None:
        super().__init__(u_range)
        self.clf_epsilon, self.clf_slack = clf_epsilon, clf_slack

    def act(self, observation: Tensor) -> Tensor:
        """Forces ``[..., 2]``."""
        pos, vel = observation[..., :2], observation[..., 2:4]
        goal = pos - observation[..., 4:6]
        off = pos - goal
        value = (off.square() + 0.5 * off * vel + vel.square()).sum(-1)
        drift = ((2 * off + vel) * vel).sum(-1)
        return self.smallest(0.5 * off + 2 * vel, drift + self.clf_epsilon * value)

    def smallest(self, lever: Tensor, need: Tensor) -> Tensor:
        """The force ``u`` in range that minimises ``|u|² + slack * max(0, need + lever · u)²``; ``[..., 2]``.

        The force is ``-m * lever``, cut to its range, where ``m = slack * max(0, need + lever · u)``. What is left of
        ``need`` falls with ``m``, along a line that bends where a component reaches its range.

        Args:
            lever: ``[..., 2]``.
            need: ``[...]``.

        >>> NavigationPolicy(clf_slack=1e6).smallest(torch.tensor([2.0, -1.0]), torch.tensor(1.0))
        tensor([-0.4000,  0.2000])
        """
        size = lever.abs()
        bends = torch.where(size > 0, self.u_range / size.clamp(min=1e-30), torch.inf)
        first, second = bends.amin(-1), bends.amax(-1)
        flat, steep = size.square().sum(-1), torch.where(bends == second.unsqueeze(-1), size.square(), 0.0).amax(-1)
        cut = torch.where(bends == first.unsqueeze(-1), size, 0.0).amax(-1) * self.u_range
        free = self.clf_slack * need / (1 + self.clf_slack * flat)
        one_cut = self.clf_slack * (need - cut) / (1 + self.clf_slack * steep)
        force = torch.where(free <= first, free, one_cut.clamp(min=0)).clamp(min=0)
        force = torch.where(free > first, torch.maximum(force, first), force)
        return (-force.unsqueeze(-1) * lever).clamp(-self.u_range, self.u_range)
