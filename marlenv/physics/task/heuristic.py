"""Policies written by hand, as a yardstick for learnt ones; and ways to move that several of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from tensordict import TensorDictBase
from torch import Tensor


class Heuristic(ABC):
    """A rule from what an agent sees to what it does; a policy for ``env.rollout``.

    Args:
        u_range: how large the numbers of an action may be.
        continuous: whether actions are numbers, or choices.

    """

    groups: tuple[str | tuple[str, ...], ...] = ("agents",)
    """Whom it plays for; of nested groups the paths."""

    def __init__(self, u_range: float = 1.0, *, continuous: bool = True) -> None:
        self.u_range, self.continuous = u_range, continuous

    @abstractmethod
    def act(self, observation: Tensor) -> Tensor:
        """The actions ``[..., u]``, or the choices ``[...]``, for the observations ``[..., d]``."""

    def __call__(self, td: TensorDictBase) -> TensorDictBase:
        """Writes actions into the data of a step."""
        for group in self.groups:
            td[group, "action"] = self.act(td[group, "observation"])
        return td


def ahead_on_circle(pos: Tensor, radius: float, step: float = 0.1) -> Tensor:
    """The point ``step`` metres clockwise from the nearest point of a circle about the origin; ``[..., 2]``.

    >>> ahead_on_circle(torch.tensor([2.0, 0.0]), radius=0.5)
    tensor([ 0.5000, -0.1000])
    """
    nearest = pos / torch.linalg.vector_norm(pos, dim=-1, keepdim=True) * radius
    normal = torch.stack((nearest[..., 1], -nearest[..., 0]), -1)
    return nearest + normal / torch.linalg.vector_norm(normal, dim=-1, keepdim=True) * step


def towards_nearest(rays: Tensor) -> Tensor:
    """The direction of the ray that was met first, of rays all around; ``[..., 2]``."""
    angle = rays.argmin(-1) / rays.shape[-1] * 2 * torch.pi
    return torch.stack((torch.cos(angle), torch.sin(angle)), -1)
