"""How much of what players win from each other goes in circles, once what chance adds to that is taken out.

``n`` are players, ``R`` replicates. Squares are sums over both ``[i, j]`` and ``[j, i]``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marlenv.errors import whole
from marlenv.tournament.arrays import level_of
from marlenv.tournament.game_theory import decompose
from marlenv.tournament.likelihood import Array
from marlenv.tournament.luck import drawn, noise
from marlenv.tournament.results import Results, results_of_games

GRID = np.linspace(0, 1, 1001)  # shares that are tried as bounds


class CyclicShare(NamedTuple):
    """How much of the payoffs is cyclic, from 0 to 1, judged from games, and between which bounds it lies."""

    share: float
    low: float
    high: float


def cyclic_share(results: Results, *, level: float = 0.95, replicates: int = 1000, seed: int = 0) -> CyclicShare:
    """How much of what players win from each other a number per player does not explain, whatever their games' luck.

    :func:`decompose` takes a table for the truth, and the luck of finite games is almost all cyclic. Here its expected
    square, which the spread of each pair's games tells, is taken out of both parts. Bounds are the shares at which the
    parts that were seen would be rare; 0 is among them where the games do not tell a circle from none.

    Args:
        results: games of every pair.
        level: the chance that the bounds hold the true share.
        replicates: how often luck is drawn.
        seed: of the draws.

    Raises:
        PoolError: some pair has not played; names one.

    >>> games = [("ada", "bob", 1), ("bob", "cyd", 1), ("ada", "cyd", 1)] * 12
    >>> games += [("ada", "bob", 0), ("bob", "cyd", 0), ("ada", "cyd", 0)] * 6
    >>> results = Results.of(games)
    >>> round(decompose(results.payoffs()).share, 3), cyclic_share(results).share  # as much as luck makes of none
    (0.111, 0.0)
    """
    level_of(level)
    whole("cyclic_share", "replicates", replicates, 1)
    results_of_games(results, "cyclic_share")
    found, n = decompose(results.payoffs()), len(results.names)
    if n < 3:
        return CyclicShare(0.0, 0.0, 0.0)
    luck = noise(results.counts).sum()
    cyclic = max(float((found.cyclic**2).sum() - (1 - 2 / n) * luck), 0.0)  # every pair's luck is transitive to 2 / n
    transitive = max(float((found.transitive**2).sum() - 2 / n * luck), 0.0)
    share = cyclic / (cyclic + transitive) if cyclic + transitive else 0.0
    variance = noise(results.counts, floor=True)
    parts = _luck(drawn(variance, replicates, seed), variance, found.cyclic, found.transitive)
    more, fewer = _tails(cyclic, transitive, parts)
    tail = (1 - level) / 2
    low, high = GRID[more > tail].min(initial=1.0), GRID[fewer > tail].max(initial=0.0)
    return CyclicShare(share, min(float(low), share), max(float(high), share))


def _luck(luck: Array, variance: Array, cyclic: Array, transitive: Array) -> Array:
    """What luck adds to the squares of both parts; ``[4, R]``.

    Per unit of the root of the cyclic square, and by itself; and these of the transitive one. Those by themselves are 0
    on average.

    Args:
        luck: of each pair, ``[R, pairs]``.
        variance: of it, ``[n, n]``.
        cyclic: the one part, ``[n, n]``.
        transitive: the other.
    """
    n = len(variance)
    i, j = np.triu_indices(n, 1)
    along = [4 * luck @ part[i, j] / max(float(np.sqrt((part**2).sum())), 1e-300) for part in (cyclic, transitive)]
    skill = luck @ (np.eye(n)[i] - np.eye(n)[j]) / n
    explained, total = 2 * n * (skill**2).sum(1), 2 * (luck**2).sum(1)
    mean = 2 / n * variance.sum()
    return np.stack([along[0], total - explained - (variance.sum() - mean), along[1], explained - mean])


def _tails(cyclic: float, transitive: float, drawn: Array) -> tuple[Array, Array]:
    """How often luck would make the parts look as cyclic as they do, or as little, if a share of :data:`GRID` were
    true; one number per share.

    What is compared is ``(1 - share) cyclic - share transitive``, which is 0 on average at the true share (Fieller):
    at both ends one of the two alone, so that nothing depends on how large the other is.
    """
    total, share = cyclic + transitive, GRID[:, None]
    circles = drawn[0] * np.sqrt(share * total) + drawn[1]
    over = drawn[2] * np.sqrt((1 - share) * total) + drawn[3]
    off = (1 - share) * (circles - cyclic) - share * (over - transitive)
    return (off >= -1e-12).mean(1), (off <= 1e-12).mean(1)
