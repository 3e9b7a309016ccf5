"""A wall of bricks with gaps across the middle of the world: what the tasks with a passage have in common.

The world is 2 metres wide and high, the wall lies along the x axis. A gap is a brick that nothing collides with.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from marlenv.physics import Bodies, Box, Entity, Landmark, World

RADIUS = 0.03333  # metres, of what must pass
WIDTH = 0.2  # metres, of the wall


class Bricks:
    """The wall.

    Args:
        world: where it is added, as the group ``passages``.
        length: of a brick, metres.
        gaps: how many bricks are gaps.
        first: the number of the first brick that is a gap, when they are counted as the world does; gaps are in the
            middle when left out.

    >>> Bricks(World(), 0.103, gaps=2).count
    20
    """

    def __init__(self, world: World, length: float, gaps: int, first: int | None = None) -> None:
        self.length, self.count = length, int((2 + 2 * RADIUS) // length)
        if first is None:
            first = next(i for i in range(self.count) if self.count // 2 - gaps / 2 <= i)
        free = range(first, first + gaps)
        meets: Callable[[Entity], bool] = lambda other: not isinstance(other.shape, Box)  # noqa: E731
        kinds = [
            Landmark(Box(length, WIDTH), collide=solid, visible=solid, collides_with=meets, color="red")
            for solid in (i not in free for i in range(self.count))
        ]
        self.all = world.add("passages", kinds)
        """All bricks."""
        self.gaps = self.all[first : first + gaps]
        """Those that are gaps."""
        self.walls: list[Bodies] = [part for part in (self.all[:first], self.all[first + gaps :]) if len(part)]
        """The others."""
        middle = [self.count // 2]
        for i in range(1, gaps):
            middle.append(middle[-1] + i * (-1 if i % 2 == 0 else 1))
        self.middle = middle
        """The slots of the gaps when they are in the middle."""

    def beside_gaps(self) -> set[str]:
        """The names of the bricks next to gaps in the middle."""
        slots = [slot for slot in range(self.count) if slot not in self.middle]
        names = [name for part in self.walls for name in part.names]  # with nothing but gaps, one of them is outside
        return {name for name, slot in zip(names, slots, strict=False) if {slot - 1, slot + 1} & set(self.middle)}

    def place(self, gaps: Tensor) -> None:
        """Puts the gaps into slots ``[B, gaps]`` and the others into the rest, from left to right."""
        slots = torch.arange(self.count, device=gaps.device)
        taken = (slots.unsqueeze(-1) == gaps.unsqueeze(1)).any(-1)
        rest = taken.sort(dim=1, stable=True)[1][:, : self.count - gaps.shape[1]]
        self.gaps.pos = self.at(gaps)
        done = 0
        for part in self.walls:
            part.pos = self.at(rest[:, done : done + len(part)])
            done += len(part)

    def at(self, slots: Tensor) -> Tensor:
        """The middles of slots; ``[*slots, 2]``, metres."""
        x = -1 - RADIUS + self.length / 2 + self.length * slots
        return torch.stack((x, torch.zeros_like(x)), -1)


def below(reach: Tensor, radius: float = RADIUS) -> tuple[Tensor, Tensor]:
    """Where the middle of something that reaches ``reach`` ``[B, 2]`` on either side can be below the wall: two
    corners.

    At its ends are discs of ``radius`` metres.
    """
    edge = 1 - radius - reach.abs()
    return -edge, torch.stack((edge[:, 0], -2 * radius - WIDTH / 2 - reach[:, 1].abs()), -1)


def above(reach: Tensor, radius: float = RADIUS) -> tuple[Tensor, Tensor]:
    """The same above the wall."""
    low, high = below(reach, radius)
    return torch.stack((low[:, 0], -high[:, 1]), -1), torch.stack((high[:, 0], -low[:, 1]), -1)
