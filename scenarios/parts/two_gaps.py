"""A wall of bricks with a large gap and a small one, somewhere."""

from __future__ import annotations

import math

import torch
from marlenv.scenarios.parts.bricks import Bricks
from torch import Tensor

from marlenv.physics import Scenario, World


class TwoGaps:
    """The wall; where its gaps are is remembered as ``large`` and ``small``, and as ``way``.

    ``way`` is the direction from the small gap to the large one, radians: pi where the small one is on the right.

    Args:
        world: where it is added.
        n: how many bricks are missing: 3, or 4 for two gaps of two bricks.

    """

    def __init__(self, world: World, n: int) -> None:
        self.n, self.bricks = n, Bricks(world, 0.1476, n, first=0)
        world.remember(large=torch.zeros(2), small=torch.zeros(2), way=0.0)

    def spawn(self, scenario: Scenario, *, fixed: bool) -> None:
        """The large gap is anywhere, the small one two bricks to its right, or to its left, where there is room."""
        bricks, memory = self.bricks, scenario.memory
        start = scenario.randint(0, bricks.count - 1) * (not fixed) + 5 * fixed
        right = (scenario.randint(0, 2) == 1) | fixed
        right = (right & (start < bricks.count - 1 - self.n)) | (start < self.n)
        small, on = start + torch.where(right, 4, -3), torch.where(right, 1, -1)
        slots: list[Tensor] = [start, start + 1, small, small + on]
        bricks.place(torch.stack(slots[: self.n], 1))
        memory.large = (bricks.at(start) + bricks.at(start + 1)) / 2
        memory.small, memory.way = bricks.at(small), torch.where(right, math.pi, 0.0)
