"""Brownian motion that ends at two bounds: what a sequential test looks like from afar.

The log likelihood ratio of a test starts at 0 and moves with ``drift`` and ``variance`` per game until a look finds it
outside ``low < 0 < high``. Chances are sums over images of the start behind the bounds, which converge fast wherever a
path may still go on; every term is a product of chances, so nothing cancels.

Source: Siegmund 1985, Sequential Analysis, chapters III and X, https://doi.org/10.1007/978-1-4757-1862-1
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

OVERSHOOT = (
    0.5826  # how far a random walk goes beyond a bound, in standard deviations of its steps: -zeta(1/2)/sqrt(2 pi)
)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(80)


def log_below(z: float) -> float:
    """The log of the share of a normal distribution below ``z``, however small.

    >>> round(log_below(0.0), 4), round(log_below(-40.0), 2)
    (-0.6931, -804.61)
    """
    if z > -30:
        return math.log(max(math.erfc(-z / math.sqrt(2)) / 2, 5e-324))
    return -z * z / 2 - math.log(-z) - math.log(2 * math.pi) / 2 + math.log1p(-1 / z**2 + 3 / z**4)


@dataclass(frozen=True)
class Walk:
    """A path that starts at 0 and ends where a look finds it outside two bounds.

    Args:
        drift: what it moves on average in a game.
        variance: of that.
        low: the lower bound, below 0.
        high: the upper bound, above 0.
        every: how many games are played between looks.
    """

    drift: float
    variance: float
    low: float
    high: float
    every: int = 1

    def below(self, games: int, value: float) -> float:
        """The chance to end low before, or to be below ``value`` at the look after some games.

        It is the share of outcomes that are worse: who ended low earlier did worse, who ended high earlier better.

        >>> round(Walk(0.0, 1.0, -3.0, 3.0).below(10_000, 0.0), 3)
        0.5
        """
        before = games - self.every
        if before <= 0:
            return NormalDist(self.drift * games, math.sqrt(self.variance * games)).cdf(value)
        wide = self._widened()
        return wide.ended_low(before) + wide.alive_below(before, games, value)

    def _widened(self) -> Walk:
        """A path watched all the time that ends about as this one, which is watched now and then."""
        beyond = OVERSHOOT * math.sqrt(self.variance * self.every)
        return Walk(self.drift, self.variance, self.low - beyond, self.high + beyond, self.every)

    def ended_low(self, games: float) -> float:
        """The chance to have ended at the lower bound after some games, watched all the time."""
        spread, total = math.sqrt(self.variance * games), 0.0
        push = self.drift / self.variance
        for shift in self._images(spread):
            at = self.low + shift  # where a path without an upper bound would have to go
            for sign in (1, -1):
                log = push * (self.low - sign * abs(at)) + log_below((sign * self.drift * games - abs(at)) / spread)
                total -= math.copysign(math.exp(min(log, 700.0)), at)
        return min(max(total, 0.0), 1.0)

    def alive_below(self, before: int, games: int, value: float) -> float:
        """The chance to be inside the bounds after ``before`` games, and below ``value`` after ``games``."""
        spread, mean, rest = math.sqrt(self.variance * before), self.drift * before, games - before
        first, last = max(self.low, mean - 9 * spread), min(self.high, mean + 9 * spread)
        if first >= last:
            return 0.0
        step = min(max(value - self.drift * rest, first), last)  # around here the second chance falls from 1 to 0
        return sum(self._share(a, b, before, rest, value) for a, b in ((first, step), (step, last)))

    def _share(self, first: float, last: float, before: int, rest: int, value: float) -> float:
        """That of paths which are between ``first`` and ``last`` after ``before`` games."""
        spread, mean = math.sqrt(self.variance * before), self.drift * before
        x = (first + last) / 2 + (last - first) / 2 * NODES
        density = np.zeros_like(x)
        for shift in self._images(spread):
            for start, sign in ((shift, 1), (2 * self.low - shift, -1)):
                log = self.drift / self.variance * start - ((x - start - mean) / spread) ** 2 / 2
                density += sign * np.exp(np.minimum(log, 700.0))
        density = np.maximum(density, 0) / (spread * math.sqrt(2 * math.pi))
        z = (value - x - self.drift * rest) / math.sqrt(self.variance * rest)
        share = np.array([math.erfc(-one / math.sqrt(2)) / 2 for one in z])
        return float((last - first) / 2 * (WEIGHTS * density * share).sum())

    def _images(self, spread: float) -> list[float]:
        """How far the images of the start lie apart that a path may come from."""
        width = self.high - self.low
        most = 2 + int(5 * spread / width)
        return [2 * k * width for k in range(-most, most + 1)]
