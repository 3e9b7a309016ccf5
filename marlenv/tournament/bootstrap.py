"""Intervals by playing the games again: what would have come out if chance had gone otherwise.

``R`` are replicates. Every function takes a seed; no global generator is read or moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from marlenv.errors import SpecError, whole
from marlenv.tournament.likelihood import FAR, Array, Flags, maximum
from marlenv.tournament.ratings import ELO, Interval, Ratings, anchors, halved, spread, tied, took, within
from marlenv.tournament.results import Results, payoffs_of

Kind = Literal["model", "games"]


def replayed(counts: Array, replicates: int, seed: int, chances: Array | None = None) -> Array:
    """Counts of as many games of each pairing as were played, drawn anew; ``[R, n, n, 3]``.

    Args:
        counts: ``[n, n, 3]``, whole games.
        replicates: how often.
        seed: of the draws.
        chances: of win, draw and loss, ``[n, n, 3]``; without it those that were seen.

    Raises:
        SpecError: some counts are no whole numbers, or there are too few replicates.

    >>> again = replayed(np.array([[[0, 0, 0], [5, 2, 3]], [[0, 0, 0], [0, 0, 0]]], dtype=float), 4, seed=0)
    >>> again.shape, again.sum(-1)[:, 0, 1].tolist()
    ((4, 2, 2, 3), [10.0, 10.0, 10.0, 10.0])
    """
    whole("bootstrap", "replicates", replicates, 1)
    if (odd := counts[counts != np.round(counts)]).size:
        raise SpecError(
            f"bootstrap: games are drawn anew, so counts must be whole numbers, got {odd[0]:g}; give the counts of the "
            f"games, or use Ratings.wald, which takes any"
        )
    total = counts.sum(-1)
    chances = counts / np.maximum(total, 1)[..., None] if chances is None else chances
    chances = np.where((total > 0)[..., None], chances, [1.0, 0.0, 0.0])
    rng = np.random.Generator(np.random.Philox(seed))
    return rng.multinomial(total.astype(np.int64), chances, size=(replicates, *total.shape)).astype(float)


def quantiles(samples: Array, level: float) -> tuple[Array, Array]:
    """The middle share ``level`` of samples ``[R, ...]``."""
    if not 0 < level < 1:
        raise SpecError(f"level must be between 0 and 1, such as 0.95, got {level!r}")
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def interval(
    results: Results,
    statistic: Callable[[Array], Array],
    *,
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
) -> tuple[Array, Array]:
    """Where a statistic of the table of payoffs lies: alpha-rank, Nash averages, or one's own.

    One that luck moves to one side, as it does what is cyclic, is moved twice here; see :func:`cyclic_share` for that.

    Args:
        results: games of every pair.
        statistic: takes payoffs ``[n, n]`` as :meth:`Results.payoffs` gives them, returns numbers of any shape.
        level: the share of replicates between the bounds.
        replicates: how often the games are drawn anew.
        seed: of the draws.

    >>> games = [("rock", "scissors", 1), ("scissors", "paper", 1), ("paper", "rock", 1)] * 9 + [("rock", "paper", 0.5)]
    >>> low, high = interval(Results.of(games), lambda payoffs: payoffs.mean(), replicates=50)
    >>> bool(low <= 0 <= high)
    True
    """
    payoffs = payoffs_of(replayed(results.counts, replicates, seed), results.names)
    return quantiles(np.stack([np.asarray(statistic(table), dtype=float) for table in payoffs]), level)


class Replicates:
    """Ratings fitted to games that were drawn anew, and the intervals that follow.

    The distance of a replicate from what it was drawn from, in standard errors of its own, stands for that of the
    ratings from the truth (studentised). Players without a bound keep the one-sided intervals of :meth:`Ratings.wald`.

    Args:
        ratings: what to find intervals for.
        replicates: how often the games are drawn anew.
        seed: of the draws.
        kind: ``"model"`` draws games from the fitted model, ``"games"`` from those that were seen.

    >>> from marlenv.tournament.ratings import rate
    >>> ratings = rate(Results.of([("ada", "bob", 1)] * 30 + [("bob", "ada", 1)] * 20), seat=False)
    >>> low, high = Replicates(ratings, 200).interval(0.95)
    >>> bool(low[0] < ratings.elo[0] < high[0])
    True
    """

    def __init__(self, ratings: Ratings, replicates: int = 1000, *, seed: int = 0, kind: Kind = "model") -> None:
        if kind not in ("model", "games"):
            raise SpecError(f"Replicates: kind must be 'model' or 'games', got {kind!r}")
        self.ratings = ratings
        model, x, groups = ratings.model, ratings.parameters, ratings.groups
        drawn_from = model.probabilities(x) if kind == "model" and ratings.draws == "davidson" else None
        again = within(replayed(ratings.results.counts, replicates, seed, drawn_from), groups)
        again = halved(again) if ratings.draws == "half" else again
        start = np.broadcast_to(x, (replicates, len(x)))
        self.parameters = maximum(model, again, anchors(groups, len(ratings.names), model), start)
        who = ratings.reference
        one_sided = ~tied(took(again)[:, who][:, :, who])
        self.lost: Flags = one_sided | (np.abs(self.parameters) > FAR / 2).any(-1)
        """Replicates without a likeliest strength."""
        self.covariance = spread(model, self.parameters, again + 1e-9, groups)

    def _distances(self) -> Array:
        """From the ratings to the strengths of the reference, in standard errors; ``[R, g]``, infinite without any."""
        who = self.ratings.reference
        off = np.abs(self.parameters[:, who] - self.ratings.parameters[who]) * ELO
        errors = np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2)[:, who])
        return np.where(self.lost[:, None], np.inf, off / errors)

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Intervals of the strengths, in points; ``[n]`` each.

        Args:
            level: the chance that an interval holds the true strength.
            simultaneous: whether that is the chance that all of them do (by the largest distance of each replicate).
        """
        low, high = self.ratings.wald(level, simultaneous=simultaneous)
        who, distance = self.ratings.reference, self._distances()
        if simultaneous:
            distance = np.broadcast_to(distance.max(-1, keepdims=True), distance.shape)
        errors = np.sqrt(np.diag(self.ratings.covariance))[who]
        half = np.quantile(distance, level, axis=0, method="higher") * errors
        low[who], high[who] = self.ratings.elo[who] - half, self.ratings.elo[who] + half
        return Interval(low, high)

    def ranks(self, level: float = 0.95) -> tuple[Array, Array]:
        """The best and the worst rank of each player, as :meth:`Ratings.ranks`, by the largest distance of all.

        Players without a bound are compared as there.
        """
        who = self.ratings.reference
        theta = self.parameters[:, who] * ELO
        true = self.ratings.elo[who]
        off = np.abs(theta[:, :, None] - theta[:, None] - (true[:, None] - true[None]))
        cov = self.covariance[:, who][:, :, who]
        var = np.diagonal(cov, axis1=1, axis2=2)
        errors = np.sqrt(np.maximum(var[:, :, None] + var[:, None] - 2 * cov, 1e-12))
        largest = np.where(self.lost, np.inf, (off / errors).max((1, 2)))
        n, g = len(self.ratings.names), len(who)
        each = level ** (2 / max(n * (n - 1), 2))  # the pairs of the reference have their share, as in Ratings.ranks
        z = float(np.quantile(largest, each ** max(g * (g - 1) / 2, 1), method="higher"))
        return self.ratings._ranks(z, each)
