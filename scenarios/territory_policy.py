"""A policy for :mod:`marlenv.scenarios.territory`."""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.physics import Heuristic

VIEW, SIDE, EDGE = 5, 0.25, 1.0  # cells in a line of what an agent sees; metres: of a cell, and half the floor
GROUPS = tuple((team, kind) for team in ("red", "green", "blue") for kind in ("scouts", "guards"))


class TerritoryPolicy(Heuristic):
    """Goes to the nearest cell in view that is not its team's, rather one of another team; else to where the others
    of its team are not.

    It plays the default floor with the default teams.

    Args:
        groups: whom it plays for.

    """

    widths = (45,)

    def __init__(self, groups: tuple[tuple[str, str], ...] = GROUPS) -> None:
        super().__init__()
        self.groups = groups

    def act(self, observation: Tensor) -> Tensor:
        """Forces, ``[..., 2]``."""
        pos, velocity, cells, mates = (observation[..., a:b] for a, b in ((0, 2), (2, 4), (4, 29), (29, 33)))
        line = (torch.arange(VIEW, device=pos.device) - VIEW // 2) * SIDE
        middle = ((pos / SIDE).floor().clamp(-EDGE / SIDE, EDGE / SIDE - 1) + 0.5) * SIDE - pos  # of its cell
        way = middle.unsqueeze(-2) + torch.cartesian_prod(line, line)
        far = torch.linalg.vector_norm(way, dim=-1)
        cost = (far + 0.1 * cells).where(cells < 1, 9.0)
        best, at = cost.min(-1, keepdim=True)
        goal = way.take_along_dim(at.unsqueeze(-1), -2).squeeze(-2)
        away = -mates.unflatten(-1, (2, 2)).mean(-2) - pos
        goal = torch.where(best < 9, goal, away)
        return (8 * goal - 3 * velocity).clamp(-self.u_range, self.u_range)
