"""Seeds: the chain from one env's seed to the next one's."""

from __future__ import annotations

import os

import numpy as np


def next_seed(seed: int) -> int:
    """The seed of the next env in a chain that starts at ``seed``; the same chain as TorchRL's.

    >>> next_seed(0) == next_seed(0) != next_seed(1)
    True
    """
    return int.from_bytes(np.random.default_rng(seed).bytes(8), "big") % (2**32 - 1)


def fresh_seed() -> int:
    """A seed from the operating system, for envs that were never seeded; no generator is read."""
    return int.from_bytes(os.urandom(6), "big")
