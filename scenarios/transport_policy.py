"""A policy for :mod:`marlenv.scenarios.transport`, as in VMAS 1.5.2."""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.physics import Heuristic

REACH = 0.075 - 0.02  # metres from the middle of a package to where it is hit
SPEED = 0.95  # of the highest force


class TransportPolicy(Heuristic):
    """All go around the first package and dribble it to the goal, along a curve that is planned anew in every step.

    The curve is a cubic from the agent to behind the package, where it points at the goal; the policy follows its
    start.
    """

    widths = range(11, 7005, 7)  # for each package, of which the first counts, 7

    def act(self, observation: Tensor) -> Tensor:
        """Forces ``[..., 2]``."""
        pos = observation[..., :2]
        package = observation[..., 6:8] + pos
        goal = package - observation[..., 4:6]
        way = goal - package
        way = way / torch.linalg.vector_norm(way, dim=-1, keepdim=True)
        behind = package - way * REACH
        # At its start the curve is where the agent is; half of its velocity there is all that is left of the plan.
        return (0.5 * self._start(behind, way, pos) * SPEED * self.u_range).clamp(-self.u_range, self.u_range)

    @staticmethod
    def _start(target: Tensor, way: Tensor, pos: Tensor) -> Tensor:
        """The velocity at the start of the curve: 2 m/s towards a point beside and behind the target."""
        to_target = target - pos
        far = torch.linalg.vector_norm(to_target, dim=-1, keepdim=True)
        normal = torch.stack((-way[..., 1], way[..., 0]), -1)
        side = (to_target / far * normal).sum(-1, keepdim=True)
        normal = torch.where(side > 0, -normal, normal)
        start = target + (0.5 * normal - 0.5 * way) * 0.5 * far - pos
        size = torch.linalg.vector_norm(start, dim=-1, keepdim=True)
        return torch.where(size > 0, start / size.clamp(min=1e-30), start) * 2.0
