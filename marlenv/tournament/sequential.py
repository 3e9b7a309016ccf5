"""Stopping as soon as it is clear: sequential tests of two players, and intervals that hold at every look."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Literal, NamedTuple

import numpy as np

from marlenv.errors import ShapeError, SpecError, whole
from marlenv.tournament.arrays import level_of, numbers
from marlenv.tournament.brownian import Walk
from marlenv.tournament.likelihood import Array

MOST = 2400  # points, at which a score is one in a million
UNSEEN = 1e-3  # games, of an outcome that has not happened yet: it is not impossible
RARE = 0.5  # games, of the worst and of the best outcome, where a strength is estimated and chances are small
Verdict = Literal["stronger", "not stronger", "go on"]


def expected_score(elo: float) -> float:
    """The score to expect of a player who is ``elo`` points stronger.

    >>> expected_score(0.0), round(expected_score(400.0), 4)
    (0.5, 0.9091)
    """
    odds = 10 ** (-abs(elo) / 400)  # of who is weaker, which are never large
    return float((1 if elo >= 0 else odds) / (1 + odds))


def elo_of(score: float) -> float:
    """How many points stronger a player is whose score to expect is ``score``: :func:`expected_score` turned round."""
    with np.errstate(divide="ignore"):
        return float(400 * (np.log10(score) - np.log10(1 - score)))


class Estimate(NamedTuple):
    """How many points stronger a player is, judged from a sequential test; infinite where the games set no bound."""

    elo: float
    """As likely too high as too low."""
    low: float
    high: float


def likeliest_with_mean(shares: Array, values: Array, mean: float) -> Array:
    """The chances nearest to ``shares`` in likelihood under which ``values`` average ``mean``; ``[k]``.

    They are ``shares / (1 + t (values - mean))`` with the one ``t`` that makes the mean right (Owen 1988), which lies
    between the two that would make a chance infinite.
    """
    off = values - mean
    low, high = -1 / off.max(), -1 / off.min()
    t = (low + high) / 2
    for _ in range(200):  # Newton's steps, or halves where those lead out
        each = off / (1 + t * off)
        value = float((shares * each).sum())
        low, high = (t, high) if value > 0 else (low, t)
        following = t + value / float((shares * each**2).sum())
        following = following if low < following < high else (low + high) / 2
        if abs(following - t) <= 1e-15 * max(1.0, abs(t)):
            break
        t = following
    return shares / (1 + t * off)


@dataclass(frozen=True)
class SPRT:
    """A sequential test whether a player is stronger than another by ``elo1`` points, or only by ``elo0``.

    Look after any number of games: once :meth:`decide` says ``"stronger"`` or ``"not stronger"``, stop. The generalised
    test of Van den Bergh, for wins, draws and losses (trinomial), and for pairs of games in which an opening is played
    from both seats (pentanomial), which needs fewer games.

    Args:
        elo0: the difference that is too small to be interesting.
        elo1: the difference that is to be found.
        alpha: the chance to call a difference of ``elo0`` stronger.
        beta: the chance to miss a difference of ``elo1``.

    >>> test = SPRT(elo0=0, elo1=10)
    >>> test.decide([60, 40, 50]), test.decide([1800, 2000, 1500])
    ('go on', 'stronger')
    """

    elo0: float
    elo1: float
    alpha: float = 0.05
    beta: float = 0.05

    def __post_init__(self) -> None:
        for name in ("elo0", "elo1", "alpha", "beta"):
            if not isinstance(value := getattr(self, name), Real):
                raise SpecError(f"SPRT: {name} must be a number, got {value!r}")
        if not self.elo0 < self.elo1:
            raise SpecError(f"SPRT: elo0 must be below elo1, got {self.elo0} and {self.elo1}")
        if max(abs(self.elo0), abs(self.elo1)) > MOST:
            raise SpecError(
                f"SPRT: elo0 and elo1 must lie from -{MOST} to {MOST}, at which a player still scores one in a "
                f"million, got {self.elo0} and {self.elo1}"
            )
        if not (0 < self.alpha < 1 and 0 < self.beta < 1 and self.alpha + self.beta < 1):
            raise SpecError(
                f"SPRT: alpha and beta must be chances that add up to less than 1, got {self.alpha}, {self.beta}"
            )

    @property
    def bounds(self) -> tuple[float, float]:
        """The log likelihood ratios at which the test ends: not stronger, stronger."""
        return float(np.log(self.beta / (1 - self.alpha))), float(np.log((1 - self.beta) / self.alpha))

    def ratio(self, counts: object) -> float:
        """The log of how much likelier the games are with a difference of ``elo1``.

        Args:
            counts: three numbers, won, drawn and lost games; or five, pairs of games by their points 2, 1.5, 1, 0.5, 0.
        """
        seen = self._counts(counts)
        if not seen.any():
            return 0.0
        shares, values = seen / seen.sum(), np.linspace(1, 0, len(seen))
        return float(seen @ self._rates(shares, values))

    def _counts(self, counts: object) -> Array:
        expected = "3 counts (won, drawn, lost) or 5 (pairs of games by points)"
        seen = numbers(counts, "SPRT", expected)
        if seen.shape not in ((3,), (5,)):
            raise ShapeError(f"SPRT: expected {expected}, got {list(seen.shape)}")
        if not ((seen >= 0).all() and np.isfinite(seen).all()):
            raise SpecError(f"SPRT: counts must be finite and not negative, got {seen.tolist()}")
        return np.where(seen == 0, UNSEEN, seen) if seen.any() else seen

    def _rates(self, shares: Array, values: Array) -> Array:
        """What each outcome adds to the log likelihood ratio, where outcomes have these shares."""
        under = [likeliest_with_mean(shares, values, expected_score(elo)) for elo in (self.elo0, self.elo1)]
        return np.asarray(np.log(under[1]) - np.log(under[0]))

    def decide(self, counts: object) -> Verdict:
        """Whether to stop, and with what; see :meth:`ratio` for the counts."""
        low, high = self.bounds
        ratio = self.ratio(counts)
        return "stronger" if ratio >= high else "not stronger" if ratio <= low else "go on"

    def estimate(self, counts: object, level: float = 0.95, *, every: int = 1) -> Estimate:
        """How strong a player is after the test has stopped, or has been given up; plain numbers would be too extreme.

        A test stops when a player happens to look good or bad. So outcomes are ordered by what they say: failed early,
        failed late, not decided (by the ratio), passed late, passed early. The bounds are the differences at which an
        outcome as good, or as bad, as this one would be rare; at ``elo`` it would be as likely better as worse.

        Args:
            counts: when it stopped; see :meth:`ratio`.
            level: the chance that the bounds hold the true difference.
            every: how many games (or pairs) were played between looks.

        >>> found = SPRT(elo0=0, elo1=40).estimate([120, 90, 80], every=20)
        >>> [round(points) for points in found]
        [40, 2, 75]
        """
        seen = self._counts(counts)
        whole("SPRT.estimate", "every", every, 1)
        level_of(level)
        if not seen.any():
            raise SpecError("SPRT.estimate: no game has been played")
        counted, tail = numbers(counts, "SPRT", "counts"), (1 - level) / 2
        games = round(float(counted.sum()))
        if games < 1:
            raise SpecError(f"SPRT.estimate: no whole game has been played, the counts add up to {seen.sum():g}")
        if counted[0] == counted.sum():  # no outcome is better, so the chance of this one is what matters
            return Estimate(elo_of(0.5 ** (1 / games)), elo_of(tail ** (1 / games)), np.inf)
        if counted[-1] == counted.sum():
            best = self.estimate(counted[::-1], level)
            return Estimate(-best.elo, -best.high, -best.low)
        seen[[0, -1]] = np.maximum(seen[[0, -1]], RARE)
        shares, values = seen / seen.sum(), np.linspace(1, 0, len(seen))
        ratio = float(seen @ self._rates(shares, values))
        found = [self._mean_where(share, shares, values, games, ratio, every) for share in (0.5, 1 - tail, tail)]
        return Estimate(*(elo_of(mean) for mean in found))

    def _mean_where(self, share: float, shares: Array, values: Array, games: int, ratio: float, every: int) -> float:
        """The mean score at which a share of outcomes is worse than the one that was seen; 0 or 1 without any."""
        low, high = first, last = 1 - expected_score(MOST), expected_score(MOST)
        for _ in range(32):
            mean = (low + high) / 2
            true = likeliest_with_mean(shares, values, mean)
            rates = self._rates(true, values)
            drift = float(true @ rates)
            walk = Walk(drift, float(true @ (rates - drift) ** 2), *self.bounds, every)
            if walk.below(games, ratio) > share:
                low = mean
            else:
                high = mean
        return 0.0 if low == first else 1.0 if high == last else low


def confidence_sequence(scores: object, level: float = 0.95) -> tuple[Array, Array]:
    """Bounds of the mean score after each game, all of which hold at once: look whenever you like, stop when you like.

    The bounds after game ``t`` depend on games up to ``t`` alone. An interval after a sequential test is the last of
    them. Empirical Bernstein, with predictable plug-in.

    Args:
        scores: numbers from 0 to 1 in the order of the games, ``[..., G]``; means of pairs where openings are played
            twice.
        level: the chance that the mean is within the bounds after every game, however many follow.

    Returns:
        The lower and the upper bounds, ``[..., G]`` each.

    Raises:
        ShapeError: scores are not numbers ``[..., G]``.
        SpecError: some lie outside 0 to 1, or the level is out of range.

    Source: Waudby-Smith and Ramdas 2024, Theorem 2, https://doi.org/10.1093/jrsssb/qkad009

    >>> low, high = confidence_sequence([1, 0.5, 1, 1, 0, 1, 1, 0.5] * 50)
    >>> round(float(low[-1]), 2), round(float(high[-1]), 2)
    (0.69, 0.81)
    """
    x = numbers(scores, "confidence_sequence", "scores in the order of the games, [..., G]")
    if not x.ndim:
        raise ShapeError(f"confidence_sequence: expected scores in the order of the games, [..., G], got {scores!r}")
    if x.size and not ((x >= 0).all() and (x <= 1).all()):
        raise SpecError("confidence_sequence: scores must lie from 0 to 1; divide by what a game is worth")
    level_of(level)
    t = np.arange(1, x.shape[-1] + 1)
    mean = (0.5 + x.cumsum(-1)) / (t + 1)
    variance = (0.25 + ((x - mean) ** 2).cumsum(-1)) / (t + 1)
    known = np.concatenate([np.full((*x.shape[:-1], 1), v) for v in (0.5, 0.25)]).reshape(2, *x.shape[:-1], 1)
    mean_before = np.concatenate([known[0], mean[..., :-1]], -1)
    variance_before = np.concatenate([known[1], variance[..., :-1]], -1)
    evidence = np.log(2 / (1 - level))
    bet = np.minimum(np.sqrt(2 * evidence / (variance_before * t * np.log1p(t))), 0.5)
    price = (-np.log1p(-bet) - bet) * (x - mean_before) ** 2
    total = bet.cumsum(-1)
    centre, width = (bet * x).cumsum(-1) / total, (evidence + price.cumsum(-1)) / total
    low, high = np.maximum(centre - width, 0), np.minimum(centre + width, 1)
    return np.maximum.accumulate(low, -1), np.minimum.accumulate(high, -1)
