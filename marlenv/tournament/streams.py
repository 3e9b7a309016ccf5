"""Randomness of games: a key for each stream of each game, whatever else is played."""

from __future__ import annotations

from torch import Tensor

from marlenv.rng import GOLDEN, ROW_STEP, mix_, mixed, signed

CHANCE = -1  # the stream of dice and cards; those of seats follow from 0


def streams(seed: int, ids: Tensor, stream: int) -> Tensor:
    """The keys of one stream of some games; int64 ``[R]``, a function of seed, game and stream alone.

    >>> both = streams(7, torch.tensor([3, 5]), 0)
    >>> bool(both[1] == streams(7, torch.tensor([5]), 0)[0])
    True
    """
    return mix_(mix_(ids * ROW_STEP + mixed(seed + GOLDEN)) + signed((stream + 2) * GOLDEN))
