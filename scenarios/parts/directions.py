"""Directions of vectors."""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.physics import norm


def unit(x: Tensor) -> Tensor:
    """Vectors of length 1 in the direction of ``x`` ``[..., 2]``; zero where ``x`` is.

    >>> unit(torch.tensor([[0.0, 2.0], [0.0, 0.0]]))
    tensor([[0., 1.],
            [0., 0.]])
    """
    size = norm(x).unsqueeze(-1)
    return torch.where(size > 0, x / size, 0.0)
