"""Tasks in which one of several landmarks is the goal, another one in each row."""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.physics import Bodies


def chosen(goal: Tensor, n: int) -> Tensor:
    """1 for the landmark that is the goal, 0 for the others; ``[B, ..., n]`` for goals ``[B, ...]``.

    >>> chosen(torch.tensor([2, 0]), 3)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    return (goal.unsqueeze(-1) == torch.arange(n, device=goal.device)).float()


def place(goal: Tensor, landmarks: Bodies) -> Tensor:
    """Where the goals are; ``[B, ..., 2]`` for goals ``[B, ...]``."""
    marks = chosen(goal, len(landmarks)).unsqueeze(-1)
    pos = landmarks.pos if goal.ndim == 1 else landmarks.pos.unsqueeze(1)
    return (marks * pos).sum(-2)
