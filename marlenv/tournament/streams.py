"""Randomness of games: a key for each stream of each game, whatever else is played."""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.rng import GOLDEN, ROW_STEP, mix, signed

CHANCE = -1  # the stream of dice and cards; those of seats follow from 0


def streams(seed: int, ids: Tensor, stream: int) -> Tensor:
    """The keys of one stream of some games; int64 ``[R]``, a function of seed, game and stream alone.

    >>> both = streams(7, torch.tensor([3, 5]), 0)
    >>> bool(both[1] == streams(7, torch.tensor([5]), 0)[0])
    True
    """
    start = mix(torch.tensor(seed, dtype=torch.int64) + GOLDEN)
    return mix(mix(start + ids * ROW_STEP) + signed((stream + 2) * GOLDEN))
