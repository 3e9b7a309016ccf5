"""Seeds: the chain from one env's seed to the next one's."""

from __future__ import annotations

import os
from numbers import Integral

import numpy as np

from marlenv.errors import DtypeError


def next_seed(seed: int) -> int:
    """The seed of the next env in a chain that starts at ``seed``; the same chain as TorchRL's, where that has one.

    >>> next_seed(0) == next_seed(0) != next_seed(1)
    True
    """
    return int.from_bytes(np.random.default_rng(seed if seed >= 0 else seed % 2**64).bytes(8), "big") % (2**32 - 1)


def as_seed(who: str, seed: int) -> int:
    """The seed, where it is an integer.

    Raises:
        DtypeError: it is not.
    """
    if not isinstance(seed, Integral) or isinstance(seed, bool):
        raise DtypeError(f"{who}: seed must be an int, got {seed!r}")
    return int(seed)


def fresh_seed() -> int:
    """A seed from the operating system, for envs that were never seeded; no generator is read."""
    return int.from_bytes(os.urandom(6), "big")
