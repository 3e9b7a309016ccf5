"""The floor of :mod:`marlenv.scenarios.territory`, its teams, and the kinds of agents in them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from marlenv.physics import rows_last

TEAMS = {
    "red": ("green", "blue"),
    "green": ("blue", "red"),
    "blue": ("red", "green"),
}
"""Each team, and the other two in the order in which it observes them."""
PALE = {"red": (0.95, 0.72, 0.72), "green": (0.72, 0.92, 0.72), "blue": (0.72, 0.76, 0.96)}
"""The colours of their cells."""
VIEW = 5
"""Cells in a line of what an agent observes."""


class Kind(NamedTuple):
    """What agents of a kind are like."""

    radius: float
    """Of its body, metres."""
    force: float
    """The most that it pushes itself with, newtons."""
    strength: float
    """What it counts at a cell."""


KINDS = {"scouts": Kind(0.04, 2.5, 1.0), "guards": Kind(0.07, 1.0, 2.0)}


def around(pos: Tensor, values: Tensor, count: int, semidim: float) -> Tensor:
    """The values of the cells around agents, ``[B, A, 25]``, column by column from the lower left; 1 outside.

    Args:
        pos: of the agents, ``[2, A, B]``, metres.
        values: of all cells, ``[B, count * count]``, likewise.
        count: cells in a line of the floor.
        semidim: half its width and height, metres.

    >>> floor = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    >>> around(torch.tensor([[[-0.5]], [[-0.5]]]), floor, 2, 1.0).unflatten(-1, (5, 5))[0, 0, 2:, 2:]
    tensor([[1., 2., 1.],
            [3., 4., 1.],
            [1., 1., 1.]])
    """
    line = torch.arange(VIEW, device=pos.device) - VIEW // 2
    steps = torch.cartesian_prod(line, line).t().reshape(2, 1, -1, 1)
    own = (pos / (2 * semidim / count) + count / 2).long().clamp(0, count - 1)  # at its edge, too
    at = (own.unsqueeze(2) + steps).flatten(1, 2)  # [2, A * 25, B]
    column, row = at.clamp(0, count - 1).unbind(0)
    seen = rows_last(values).gather(0, column * count + row)
    outside = ((at < 0) | (at >= count)).any(0)
    return torch.where(outside, 1.0, seen).unflatten(0, (pos.shape[1], -1)).movedim(-1, 0)
