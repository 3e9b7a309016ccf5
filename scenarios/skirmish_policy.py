"""A policy for :mod:`marlenv.scenarios.skirmish`."""

from __future__ import annotations

import torch
from marlenv.scenarios.parts.units import KINDS
from torch import Tensor

from marlenv.constants import constant
from marlenv.physics import Heuristic


class SkirmishPolicy(Heuristic):
    """Goes to the nearest living enemy, a healer to the most hurt of its own, and acts as soon as it is in reach.

    It plays the default numbers of units.

    Args:
        groups: the teams that it plays for.

    """

    widths = (35,)

    def __init__(self, groups: tuple[str, ...] = ("red", "blue")) -> None:
        super().__init__()
        self.groups = groups

    def act(self, observation: Tensor) -> Tensor:
        """Forces and whether to act, ``[..., 3]``."""
        velocity, kind = observation[..., 2:4], observation[..., 5:8]
        friends, enemies = observation[..., 8:20].unflatten(-1, (4, 3)), observation[..., 20:35].unflatten(-1, (5, 3))
        far = torch.linalg.vector_norm(enemies[..., :2], dim=-1)
        enemy = self._least(enemies, far.where(enemies[..., 2] > 0, 9.0))
        friend = self._least(friends, friends[..., 2].where(friends[..., 2] > 0, 9.0))
        heals = kind[..., 2:] > 0
        way = torch.where(heals, friend, enemy)[..., :2]
        reach = (kind * constant([k.reach for k in KINDS], kind.device, kind.dtype)).sum(-1, keepdim=True)
        there = torch.linalg.vector_norm(way, dim=-1, keepdim=True) < 0.95 * reach
        ready = there & (~heals | (friend[..., 2:] < 1))
        force = torch.where(there, -velocity, 4 * way - velocity).clamp(-1, 1)
        return torch.cat((force, ready.to(force.dtype) * 2 - 1), -1)

    @staticmethod
    def _least(units: Tensor, x: Tensor) -> Tensor:
        """The unit ``[..., n, 3]`` of which ``x [..., n]`` is least; ``[..., 3]``."""
        return units.take_along_dim(x.argmin(-1, keepdim=True).unsqueeze(-1), -2).squeeze(-2)
