"""How strong players are: joint maximum likelihood of all their games, with intervals that say what the games tell.

``n`` are players. Strengths are on the scale of Elo, in which 400 points are a factor of 10 in the odds of a win
against a loss; with draws in the model they are not the points of a model without, so look at :meth:`Ratings.expected`
too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Literal, NamedTuple

import networkx as nx
import numpy as np

from marlenv.errors import PoolError, SpecError
from marlenv.text_table import table
from marlenv.tournament.arrays import level_of
from marlenv.tournament.likelihood import FAR, Array, Flags, Model, maximum
from marlenv.tournament.maxima import draws_are_free, seat_is_free
from marlenv.tournament.results import DRAW, LOSS, WIN, Results, components, results_of_games

ELO = 400 / np.log(10)  # points per unit of the logistic scale
Draws = Literal["davidson", "half"]


class Interval(NamedTuple):
    """Where values lie: from ``low`` to ``high``, infinite where the games set no bound; ``[n]`` each, in points."""

    low: Array
    high: Array


def elo_points(elo: float) -> str:
    """A number of Elo as standings have it.

    >>> elo_points(-0.3), elo_points(12.6), elo_points(float("-inf"))
    ('+0', '+13', '-inf')
    """
    return f"{np.round(elo) + 0.0:+.0f}"


def normal_quantile(level: float) -> float:
    """How many standard errors on either side hold a share ``level`` of a normal distribution.

    >>> round(normal_quantile(0.95), 3)
    1.96
    """
    level_of(level)
    return NormalDist().inv_cdf(0.5 + level / 2)


def normal_cdf(x: Array) -> Array:
    """The share of a normal distribution below ``x`` standard deviations."""
    return np.vectorize(NormalDist().cdf, otypes=[float])(x)


@dataclass(frozen=True, eq=False)
class Ratings:
    """The strengths of a pool of players, as :func:`rate` finds them.

    Players who won or lost all that links them to the rest have no finite strength: theirs is infinite, and their
    intervals are open on that side. The mean strength of the others, the ``reference``, is 0.

    Args:
        results: the games.
        model: the parameters that were fitted.
        draws: ``"davidson"`` or ``"half"``.
        parameters: ``[m]``, those of the model.
        groups: the players whom wins in both directions tie together; the first group is the reference.
    """

    results: Results
    model: Model
    draws: Draws
    parameters: Array
    groups: list[list[int]]

    scale = "Elo: 400 points are a factor of 10 in the odds of a win against a loss; the mean is 0"
    """What a point means."""

    @property
    def names(self) -> tuple[str, ...]:
        """The players."""
        return self.results.names

    @property
    def reference(self) -> list[int]:
        """The players whose mean is 0."""
        return self.groups[0]

    @cached_property
    def side(self) -> Array:
        """0 for the reference, 1 for players stronger than any bound, -1 for weaker, nan for unknown; ``[n]``."""
        graph = nx.from_numpy_array(took(self.counts) > 0, create_using=nx.DiGraph)
        one = self.reference[0]
        over, under = nx.ancestors(graph, one), nx.descendants(graph, one)
        side = np.full(len(self.names), np.nan)
        side[list(over)], side[list(under)] = 1, -1
        side[self.reference] = 0
        return side

    @property
    def counts(self) -> Array:
        """The counts as the model takes them; ``[n, n, 3]``."""
        return halved(self.results.counts) if self.draws == "half" else self.results.counts

    @property
    def elo(self) -> Array:
        """The strengths in points; ``[n]``, infinite where the games set no bound."""
        theta = self.parameters[: len(self.names)] * ELO
        with np.errstate(invalid="ignore"):
            return np.where(self.side == 0, theta, np.where(np.isnan(self.side), np.nan, self.side * np.inf))

    @property
    def seat(self) -> float:
        """How many points sitting first is worth; 0 where it was not fitted."""
        return float(self.model.parts(self.parameters)[1] * ELO)

    @property
    def nu(self) -> float:
        """The weight of draws: between equals they are ``nu / (2 + nu)`` of all games."""
        return float(self.model.parts(self.parameters)[2])

    @property
    def log_likelihood(self) -> float:
        """The log of the likelihood at its maximum."""
        inside = within(self.counts, self.groups)
        return float(self.model.value(self.parameters, inside))

    @cached_property
    def covariance(self) -> Array:
        """The covariance of the strengths of the reference, in points squared; ``[n, n]``, nan for the others."""
        return spread(self.model, self.parameters, within(self.counts, self.groups), self.groups)

    def wald(self, level: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Intervals from the curvature of the likelihood; open on one side for players without a bound.

        Args:
            level: the chance that an interval holds the true strength.
            simultaneous: whether that is the chance that all of them do (Sidak 1967, right whatever the correlation).
        """
        each = level ** (1 / len(self.names)) if simultaneous else level
        half = normal_quantile(each) * np.sqrt(np.diag(self.covariance))
        low, high = self.elo - half, self.elo + half
        for k, limit in self._limits(each).items():
            low[k], high[k] = (limit, np.inf) if self.side[k] == 1 else (-np.inf, limit)
        unknown = np.isnan(self.side)
        low[unknown], high[unknown] = -np.inf, np.inf
        return Interval(low, high)

    def _limits(self, level: float) -> dict[int, float]:
        """The bound of each player whose strength has only one, in points.

        It is where a record as lopsided as that of the player has a chance of ``1 - level``, others at their likeliest.
        """
        who = [k for k in range(len(self.names)) if abs(self.side[k]) == 1]
        if not who:
            return {}
        n, m = len(self.names), len(self.parameters)
        rows = np.zeros((len(who), 2, m))
        rows[:, 0, self.reference] = 1
        rows[np.arange(len(who)), 1, who] = 1
        counts = np.broadcast_to(self.counts, (len(who), n, n, 3))
        floor, side = self.log_likelihood + np.log(1 - level), self.side[who]
        least, most = self.parameters[self.reference].min() - FAR, self.parameters[self.reference].max() + FAR
        good, bad = np.where(side > 0, most, least), np.where(side > 0, least, most)  # no surprise there, and here one
        x = np.zeros((len(who), m))
        x[:, n:], x[:, self.reference] = self.parameters[n:], self.parameters[self.reference]
        for _ in range(40):
            middle = (good + bad) / 2
            x[np.arange(len(who)), who] = middle
            x = maximum(self.model, counts, rows, x)
            fine = self.model.value(x, counts) >= floor
            good, bad = np.where(fine, middle, good), np.where(fine, bad, middle)
        return {k: float(limit * ELO) for k, limit in zip(who, bad, strict=True)}

    def expected(self) -> Array:
        """The score to expect of each player against each other, seats in turn; ``[n, n]``, nan on the diagonal."""
        theta = self.elo
        far = np.abs(self.parameters).max() + 1e3  # where chances are 0 and 1 to the last digit
        x = np.concatenate([np.nan_to_num(theta / ELO, posinf=far, neginf=-far), self.parameters[len(theta) :]])
        first = self.model.probabilities(x) @ (1, 0.5, 0)
        score = (first + 1 - first.T) / 2
        infinite = np.isinf(theta[:, None]) & (theta[:, None] == theta[None])
        unknown = np.isnan(theta[:, None]) | np.isnan(theta[None]) | infinite | np.eye(len(theta), dtype=bool)
        return np.where(unknown, np.nan, score)

    def difference_errors(self) -> Array:
        """The standard error of each difference of two strengths, in points; ``[n, n]``, nan outside the reference."""
        var = np.diag(self.covariance)
        return np.sqrt(np.maximum(var[:, None] + var[None] - 2 * self.covariance, 0))

    def superiority(self) -> Array:
        """The likelihood of superiority: how sure it is that one player is stronger than another; ``[n, n]``.

        0.5 says that the games do not tell. Where one has no bound it follows from how much less likely the games are
        if both are equally strong (the signed root of the likelihood ratio, Wilks 1938); it is nan where no chain of
        results leads from one to the other.

        >>> rate(Results.of([("ada", "bob", 1)]), seat=False).superiority()[0, 1].round(2).tolist()
        0.88
        """
        out, roots = superiority(self.elo, self.difference_errors()), self._roots
        return np.where(np.isnan(roots), out, normal_cdf(np.nan_to_num(roots)))

    @cached_property
    def _roots(self) -> Array:
        """The signed root of the likelihood ratio of each two whose difference has no bound, positive where the row is
        the stronger; ``[n, n]``, nan for others.
        """
        n, m, who = len(self.names), len(self.parameters), self.reference
        reached = reaches(took(self.counts))
        out = np.full((n, n), np.nan)
        for k in range(n):
            others = np.flatnonzero(reached[k] & ~reached[:, k])  # whom the games put below, and by no chain above
            if not len(others):
                continue
            rows, start = np.zeros((len(others), 2, m)), np.zeros((len(others), m))
            rows[:, 0, who] = 1
            rows[:, 1, k] = 1
            rows[np.arange(len(others)), 1, others] = -1
            start[:, who] = self.parameters[who]
            bounded = self.parameters[k] if k in who else np.where(np.isin(others, who), self.parameters[others], 0.0)
            start[:, k] = start[np.arange(len(others)), others] = bounded
            counts = np.broadcast_to(self.counts, (len(others), n, n, 3))
            equal = self.model.value(maximum(self.model, counts, rows, start), counts)
            out[k, others] = np.sqrt(2 * np.maximum(self.log_likelihood - equal, 0))
            out[others, k] = -out[k, others]
        return out

    def ranks(self, level: float = 0.95) -> tuple[Array, Array]:
        """The best and the worst rank of each player that the games allow, all at once with a chance of ``level``;
        ``[n]``.

        A player is sure to be above another where the interval of their difference, made simultaneous over all pairs,
        does not hold 0; where one of them has no bound, where such a record between equals would be as rare as that;
        and above all those whom players below it are sure to be above.
        """
        each = level ** (2 / max(len(self.names) * (len(self.names) - 1), 2))
        return self._ranks(normal_quantile(each), each)

    def _ranks(self, z: float, each: float) -> tuple[Array, Array]:
        """:meth:`ranks` with differences of more than ``z`` errors for sure, and those without a bound at level
        ``each``.
        """
        rare = np.sqrt(-2 * np.log((1 - each) / 2))  # the root of a record of that chance, as in _limits
        with np.errstate(invalid="ignore"):
            gap = self.elo[:, None] - self.elo[None]
            above = (gap > z * self.difference_errors()) | (self._roots > rare)
        above = reaches(above) & ~np.eye(len(self.names), dtype=bool)
        return 1.0 + above.sum(0), len(self.names) - above.sum(1).astype(float)

    def table(self, level: float = 0.95) -> str:
        """The standings as text, the strongest first: points, interval, rank interval, games, score.

        >>> games = [("ada", "bob", 1), ("bob", "ada", 1), ("ada", "bob", 0.5)]
        >>> print(rate(Results.of(games), seat=False).table())
        player  Elo       95 %  rank  games  score
        ada      +0  -241 +241   1-2      3  50.0%
        bob      +0  -241 +241   1-2      3  50.0%
        """
        low, high = self.wald(level)
        best, worst = self.ranks(level)
        played, points = self.results.played, self.results.points
        lines = [("player", "Elo", f"{100 * level:g} %", "rank", "games", "score")]
        order = np.argsort(-np.nan_to_num(self.elo, nan=-np.inf), kind="stable")
        for k in order:
            share = points[k] / played[k] if played[k] else np.nan
            lines.append(
                (
                    self.names[k],
                    elo_points(self.elo[k]),
                    f"{elo_points(low[k])} {elo_points(high[k])}",
                    f"{best[k]:.0f}-{worst[k]:.0f}",
                    f"{played[k]:g}",
                    f"{100 * share:.1f}%",
                )
            )
        return table(lines, right=range(1, len(lines[0])))


def rate(results: Results, *, draws: Draws = "davidson", seat: bool | None = None) -> Ratings:
    """The strengths at which the games that were played are likeliest, all players together.

    Args:
        results: the games.
        draws: ``"davidson"`` gives draws a parameter of their own; ``"half"`` counts a draw as half a win and half a
            loss, which is the scale of programs without draws, and makes intervals too wide.
        seat: whether sitting first is worth something; None for where the games can tell.

    Raises:
        PoolError: nothing links some of the players, or the games have no likeliest strengths at all; says which and
            why.

    >>> ratings = rate(Results.of([("ada", "bob", 1)] * 3 + [("bob", "ada", 1)]), seat=False)
    >>> ratings.elo.round().tolist(), ratings.reference
    ([95.0, -95.0], [0, 1])
    """
    if draws not in ("davidson", "half"):
        raise SpecError(f"rate: draws must be 'davidson' or 'half', got {draws!r}")
    results_of_games(results, "rate")
    if len(results.names) < 2:
        raise PoolError(f"rate: a rating needs two players or more, got {list(results.names)}")
    results.check_connected()
    counts = halved(results.counts) if draws == "half" else results.counts
    groups = components(took(counts), "strong")
    inside = within(counts, groups)
    told = bool(inside.any()) and not seat_is_free(inside[None])[0]
    if seat and not told:
        raise PoolError(
            "rate: these games do not tell what a seat is worth; play each pairing from both seats, or say seat=False"
        )
    model = Model(seat=told if seat is None else seat, draws=bool(inside[..., DRAW].any()))
    if model.draws and not (inside[..., WIN] + inside[..., LOSS]).any():
        raise PoolError("rate: all games that count were drawn, so draws have no finite weight; say draws='half'")
    if model.draws and draws_are_free(inside[None], seat=model.seat)[0]:
        raise PoolError(
            "rate: there are no likeliest strengths, as draws (or a seat) seem to be worth more without bound; "
            "play more games, or say draws='half' or seat=False"
        )
    x = maximum(model, inside[None], anchors(groups, len(counts), model))[0]
    return Ratings(results, model, draws, x, groups)


def halved(counts: Array) -> Array:
    """Counts with half a win and half a loss in place of each draw; ``[*B, n, n, 3]``."""
    half = counts[..., DRAW] / 2
    return np.stack([counts[..., WIN] + half, np.zeros_like(half), counts[..., LOSS] + half], -1)


def took(counts: Array) -> Array:
    """How many points' worth of games a player took from another: ``[*B, n, n]``."""
    first, second = counts[..., WIN] + counts[..., DRAW], counts[..., LOSS] + counts[..., DRAW]
    return first + np.swapaxes(second, -1, -2)


def tied(edges: Array) -> Flags:
    """Whether every player is reached from every other along positive edges ``[*B, n, n]``; bool ``[*B]``.

    >>> tied(np.array([[[0, 1], [1, 0]], [[0, 3], [0, 0]]])).tolist()
    [True, False]
    """
    return np.asarray(reaches(edges > 0).all((-1, -2)))


def reaches(edges: Flags | Array) -> Flags:
    """Which players paths of edges lead to from which, from each to itself too; bool ``[*B, n, n]``."""
    n = edges.shape[-1]
    reached = (edges > 0) | np.eye(n, dtype=bool)
    for _ in range(n.bit_length()):  # paths of 1, 2, 4, ... edges
        reached = reached.astype(np.float32) @ reached.astype(np.float32) > 0
    return np.asarray(reached)


def within(counts: Array, groups: list[list[int]]) -> Array:
    """The games inside the groups; those between them go one way, and bound nothing; ``[*B, n, n, 3]``."""
    place = np.empty(counts.shape[-2], dtype=int)
    for g, group in enumerate(groups):
        place[group] = g
    return counts * (place[:, None] == place[None])[..., None]


def anchors(groups: list[list[int]], n: int, model: Model) -> Array:
    """The rows that hold the mean of each group; ``[g, m]``."""
    rows = np.zeros((len(groups), n + model.seat + model.draws))
    for g, group in enumerate(groups):
        rows[g, group] = 1
    return rows


def spread(model: Model, x: Array, inside: Array, groups: list[list[int]]) -> Array:
    """The covariance of the strengths of the first group, in points squared; ``[*B, n, n]``, nan for the others."""
    n, rows = inside.shape[-2], anchors(groups, inside.shape[-2], model)
    m, c = rows.shape[1], len(rows)
    system = np.zeros((*x.shape[:-1], m + c, m + c))
    system[..., :m, :m] = model.information(x, inside)
    system[..., m:, :m], system[..., :m, m:] = rows, rows.T
    cov = np.linalg.inv(system)[..., :n, :n] * ELO**2
    out = np.full(cov.shape, np.nan)
    at = np.ix_(groups[0], groups[0])
    out[..., at[0], at[1]] = cov[..., at[0], at[1]]
    return out


def superiority(elo: Array, errors: Array) -> Array:
    """:meth:`Ratings.superiority` of strengths ``[n]`` and the errors of their differences ``[n, n]``, nan without."""
    with np.errstate(invalid="ignore"):
        z = (elo[:, None] - elo[None]) / np.where(errors > 0, errors, np.nan)
    known = ~np.isnan(z)
    return np.where(known, normal_cdf(np.where(known, z, 0)), np.nan)
