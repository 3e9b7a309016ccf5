"""What chance adds to a table of payoffs, as the spread of each pair's games tells.

``n`` are players, ``R`` replicates. Every function that draws takes a seed; no global generator is read or moved.
"""

from __future__ import annotations

import numpy as np

from marlenv.tournament.likelihood import Array
from marlenv.tournament.results import DRAW, LOSS, WIN


def noise(counts: Array, *, floor: bool = False) -> Array:
    """The variance of each pair's mean payoff, from the spread of its games; ``[n, n]``.

    A seat in which a pair has played once takes the spread of both seats, and a single game the largest there is.

    Args:
        counts: ``[n, n, 3]``.
        floor: whether games that all ended alike still have some, as if one more had been won and one more lost.

    >>> from marlenv.tournament.results import Results
    >>> noise(Results.of([("a", "b", 1)] * 3 + [("a", "b", 0)]).counts).round(4).tolist()
    [[0.0, 0.25], [0.25, 0.0]]
    """
    total, both = counts.sum(-1), counts + counts.swapaxes(0, 1)[..., ::-1]
    spread = np.where(total >= 2, _spread(counts), np.where(both.sum(-1) >= 2, _spread(both), 1.0))
    if floor:
        more = counts + np.array([1, 0, 1])
        spread = np.maximum(spread, _spread(more) * (1 - 1 / more.sum(-1)))
    seats = (total > 0).astype(float) + (total > 0).T
    each = np.where(total > 0, spread / np.maximum(total, 1e-300), 0.0)
    return np.asarray((each + each.T) / np.maximum(seats, 1) ** 2)


def _spread(counts: Array) -> Array:
    """The variance of a game's payoff, without bias, from two games or more; ``[n, n]``."""
    total = np.maximum(counts.sum(-1), 2.0)
    mean = (counts[..., WIN] - counts[..., LOSS]) / total
    return np.asarray((1 - counts[..., DRAW] / total - mean**2) * total / (total - 1))


def drawn(variance: Array, replicates: int, seed: int) -> Array:
    """The luck of each pair, ``i < j`` in the order of ``np.triu_indices``; ``[R, pairs]``.

    Args:
        variance: of each pair's mean payoff, ``[n, n]``.
        replicates: how often luck is drawn.
        seed: of the draws.
    """
    i, j = np.triu_indices(len(variance), 1)
    rng = np.random.Generator(np.random.Philox(seed))
    return np.asarray(rng.normal(size=(replicates, len(i))) * np.sqrt(variance[i, j]))
