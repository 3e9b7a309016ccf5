"""Policies written by hand, as a yardstick for learnt ones; and ways to move that several of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import ShapeError


class Heuristic(ABC):
    """A rule from what an agent sees to what it does; a policy for ``env.rollout``.

    Args:
        u_range: how large the numbers of an action may be.
        continuous: whether actions are numbers, or choices.

    Raises:
        ValueError: choices are asked for of a policy that acts in numbers only.

    """

    groups: tuple[str | tuple[str, ...], ...] = ("agents",)
    """Whom it plays for; of nested groups the paths."""
    widths: ClassVar[Sequence[int]] = ()
    """How many numbers the observations that it can read have; any when empty."""
    chooses: ClassVar[bool] = False
    """Whether it can act in choices, too."""

    def __init__(self, u_range: float = 1.0, *, continuous: bool = True) -> None:
        if not continuous and not self.chooses:
            raise ValueError(f"{type(self).__name__}: continuous must be True, got False: it acts in numbers only; "
                             "give the env continuous_actions=True")  # fmt: skip
        self.u_range, self.continuous = u_range, continuous

    @abstractmethod
    def act(self, observation: Tensor) -> Tensor:
        """The actions ``[..., u]``, or the choices ``[...]``, for the observations ``[..., d]``."""

    def __call__(self, td: TensorDictBase) -> TensorDictBase:
        """Writes actions into the data of a step.

        Raises:
            ShapeError: observations have another width than those it can read.

        """
        for group in self.groups:
            observation = td[group, "observation"]
            if self.widths and observation.shape[-1] not in self.widths:
                known = [str(n) for n in self.widths[:3]] + ["..."] * (len(self.widths) > 3)
                raise ShapeError(f"{type(self).__name__}: observations of {group!r} must have {' or '.join(known)} "
                                 f"numbers, as with the default options, got {observation.shape[-1]}")  # fmt: skip
            td[group, "action"] = self.act(observation)
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
