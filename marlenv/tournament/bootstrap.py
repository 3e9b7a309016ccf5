"""Intervals by drawing chance anew: what would have come out if it had gone otherwise.

``R`` are replicates. Every function takes a seed; no global generator is read or moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from marlenv.errors import SpecError, SpecTypeError, whole
from marlenv.tournament.arrays import level_of
from marlenv.tournament.likelihood import Array, Flags, maximum
from marlenv.tournament.luck import drawn, noise
from marlenv.tournament.maxima import draws_are_free, seat_is_free
from marlenv.tournament.ratings import ELO, Interval, Ratings, anchors, halved, spread, tied, took, within
from marlenv.tournament.results import Results, results_of_games

Kind = Literal["model", "games"]


def whole_games(counts: Array) -> Array:
    """Counts of games, as chance is drawn for them; ``[n, n, 3]``.

    Raises:
        SpecError: some are no whole numbers.
    """
    if (odd := counts[counts != np.round(counts)]).size:
        raise SpecError(
            f"bootstrap: games are drawn anew, so counts must be whole numbers, got {odd[0]:g}; give the counts of the "
            f"games, or use Ratings.wald, which takes any"
        )
    return counts


def played_again(counts: Array, chances: Array, replicates: int, seed: int) -> Array:
    """Counts of as many games of each pairing as were played, drawn anew; ``[R, n, n, 3]``.

    Args:
        counts: ``[n, n, 3]``, whole games.
        chances: of win, draw and loss, ``[n, n, 3]``.
        replicates: how often.
        seed: of the draws.

    >>> counts, chances = np.array([[[0, 0, 0], [5, 2, 3]], [[0, 0, 0], [0, 0, 0]]]), np.full((2, 2, 3), 1 / 3)
    >>> again = played_again(counts, chances, 4, seed=0)
    >>> again.shape, again.sum(-1)[:, 0, 1].tolist()
    ((4, 2, 2, 3), [10.0, 10.0, 10.0, 10.0])
    """
    total = counts.sum(-1)
    rng = np.random.Generator(np.random.Philox(seed))
    return rng.multinomial(total.astype(np.int64), chances, size=(replicates, *total.shape)).astype(float)


def chosen_again(counts: Array, replicates: int, seed: int) -> Array:
    """Counts of as many games as were played, each of them one of those that were, drawn anew; ``[R, n, n, 3]``.

    How often a pairing comes is left to chance too: of one that played once, its games alone would be the same always.

    Args:
        counts: ``[n, n, 3]``, whole games.
        replicates: how often.
        seed: of the draws.
    """
    total = counts.sum()
    rng = np.random.Generator(np.random.Philox(seed))
    again = rng.multinomial(int(total), counts.ravel() / total, size=replicates)
    return again.reshape(replicates, *counts.shape).astype(float)


def quantiles(samples: Array, level: float) -> tuple[Array, Array]:
    """The middle share ``level`` of samples ``[R, ...]``."""
    level_of(level)
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

    To each pair's mean payoff luck is added as large as the spread of its games says, and as if one more had been won
    and one more lost: of a single game, or of ten that were won, nothing is sure. A statistic that luck moves to one
    side, as it does what is cyclic, is moved twice here; see :func:`cyclic_share` for that.

    Args:
        results: games of every pair.
        statistic: takes payoffs ``[n, n]`` as :meth:`Results.payoffs` gives them, which luck may carry beyond -1 and 1
            (what were kept within would be too small on average), returns numbers of any shape.
        level: the share of replicates between the bounds.
        replicates: how often luck is drawn.
        seed: of the draws.

    Raises:
        PoolError: some pair has not played; names one.
        SpecError: counts are no whole numbers, or an option is out of range.

    >>> games = [("rock", "scissors", 1), ("scissors", "paper", 1), ("paper", "rock", 1)] * 9 + [("rock", "paper", 0.5)]
    >>> low, high = interval(Results.of(games), lambda payoffs: payoffs.mean(1)[0], replicates=50)
    >>> bool(low < 0 < high)
    True
    """
    whole("interval", "replicates", replicates, 1)
    counts = whole_games(results_of_games(results, "interval").counts)
    payoffs, (i, j) = results.payoffs(), np.triu_indices(len(counts), 1)
    luck = np.zeros((replicates, *payoffs.shape))
    luck[:, i, j] = drawn(noise(counts, floor=True), replicates, seed)
    tables = payoffs + luck - np.swapaxes(luck, -1, -2)
    return quantiles(np.stack([np.asarray(statistic(table), dtype=float) for table in tables]), level)


class Replicates:
    """Ratings fitted to games that were drawn anew, and the intervals that follow.

    The distance of a replicate from what it was drawn from, in standard errors of its own, stands for that of the
    ratings from the truth (studentised). Players without a bound keep the one-sided intervals of :meth:`Ratings.wald`.

    Args:
        ratings: what to find intervals for.
        replicates: how often the games are drawn anew.
        seed: of the draws.
        kind: ``"model"`` draws as many games of each pairing from the fitted model, ``"games"`` as many games in all
            from those that were seen, as are all with ``draws="half"``.

    >>> from marlenv.tournament.ratings import rate
    >>> ratings = rate(Results.of([("ada", "bob", 1)] * 30 + [("bob", "ada", 1)] * 20), seat=False)
    >>> low, high = Replicates(ratings, 200).interval(0.95)
    >>> bool(low[0] < ratings.elo[0] < high[0])
    True
    """

    def __init__(self, ratings: Ratings, replicates: int = 1000, *, seed: int = 0, kind: Kind = "model") -> None:
        if kind not in ("model", "games"):
            raise SpecError(f"Replicates: kind must be 'model' or 'games', got {kind!r}")
        if not isinstance(ratings, Ratings):
            raise SpecTypeError(f"Replicates: expected Ratings, got {type(ratings).__name__}; give rate(results)")
        whole("Replicates", "replicates", replicates, 1)
        self.ratings = ratings
        model, x, groups, who = ratings.model, ratings.parameters, ratings.groups, ratings.reference
        again = within(_again(ratings, replicates, seed, kind), groups)
        again = halved(again) if ratings.draws == "half" else again
        self.lost: Flags = ~tied(took(again)[:, who][:, :, who])
        """Replicates without a likeliest strength."""
        if model.seat:
            self.lost |= seat_is_free(again)
        if model.draws:
            self.lost |= draws_are_free(again, seat=model.seat)
        again[self.lost] = within(ratings.counts, groups)
        start = np.broadcast_to(x, (replicates, len(x)))
        self.parameters = maximum(model, again, anchors(groups, len(ratings.names), model), start)
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


def _again(ratings: Ratings, replicates: int, seed: int, kind: Kind) -> Array:
    """The games of replicates; ``[R, n, n, 3]``."""
    counts = whole_games(ratings.results.counts)
    if kind == "games" or ratings.draws == "half":  # whose model has no draws to draw
        return chosen_again(counts, replicates, seed)
    return played_again(counts, ratings.model.probabilities(ratings.parameters), replicates, seed)
