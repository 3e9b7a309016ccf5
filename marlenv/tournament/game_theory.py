"""What a table of payoffs says about players when strength is not a number: some beat those who beat others.

``n`` are strategies (players), ``K`` populations (seats). A table of payoffs ``[n, n]`` holds what the row wins from
the column; :meth:`Results.payoffs` makes one of games.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from marlenv.errors import ShapeError, SpecError, whole
from marlenv.tournament.arrays import numbers
from marlenv.tournament.likelihood import Array, Flags


def antisymmetric(payoffs: object, who: str) -> Array:
    """A table in which what one wins the other loses; ``[n, n]``.

    Raises:
        ShapeError: it is not square.
        SpecError: it is not antisymmetric, or not finite.
    """
    table = numbers(payoffs, who, "a square table of payoffs [n, n]")
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not table.size:
        raise ShapeError(f"{who}: expected a square table of payoffs [n, n], got {list(table.shape)}")
    if not np.isfinite(table).all():
        raise SpecError(f"{who}: payoffs must be finite; let every pair play")
    if np.abs(table + table.T).max() > 1e-9 * max(1.0, np.abs(table).max()):
        raise SpecError(f"{who}: what one wins the other must lose, payoffs == -payoffs.T; Results.payoffs() is so")
    return (table - table.T) / 2


# --- alpha-rank ----------------------------------------------------------------------------------


def log_fixation(advantage: Array, population: int) -> Array:
    """The log of the chance that one mutant takes over a population, when it is fitter by ``advantage``.

    The chance is ``(1 - exp(-u)) / (1 - exp(-m u))``, ``1 / m`` at ``u = 0``, written so that nothing overflows.

    >>> log_fixation(np.array([0.0, 1e6, -1e6]), 50).round(3).tolist()
    [-3.912, 0.0, -49000000.0]
    """
    u, m = np.abs(advantage), population
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(-np.expm1(-u)) - np.log(-np.expm1(-m * u))
    ratio = np.where(u < 1e-14, -np.log(m), ratio)
    return np.where(advantage >= 0, ratio, ratio - (m - 1) * u)


def log_stationary(log_chances: Array, slopes: Array | float = 0.0, alpha: float = 1.0) -> Array:
    """The log of the long-run shares of a Markov chain; ``[n]``.

    States are eliminated one by one (Grassmann, Taksar and Heyman 1985) by sums, products and quotients of positive
    numbers alone, here of their logs: no digit is lost, however small the chances are. What grows with ``alpha`` is
    kept apart, so that none is lost where that is large either.

    Args:
        log_chances: ``[n, n]``, the logs of the chances to go from row to column; the diagonal is not read.
        slopes: ``[n, n]``, what is added to them ``alpha`` times.
        alpha: any number that is not below 0.
    """
    log, slope = np.array(log_chances, dtype=float), np.array(np.broadcast_to(slopes, np.shape(log_chances)))
    n, same = len(log), 8 * np.finfo(float).eps * len(log) * float(np.abs(slope).max(initial=0))
    np.fill_diagonal(log, -np.inf)
    for k in range(n - 1, 0, -1):
        out, steep = _log_sum(log[k, :k], slope[k, :k], alpha, same)
        log[:k, k] -= out
        slope[:k, k] -= steep
        by_way = log[:k, k, None] + log[None, k, :k], slope[:k, k, None] + slope[None, k, :k]
        logs, steeps = (np.stack(pair) for pair in zip((log[:k, :k], slope[:k, :k]), by_way, strict=True))
        log[:k, :k], slope[:k, :k] = _log_sum(logs, steeps, alpha, same)
        np.fill_diagonal(log[:k, :k], -np.inf)
    share, steep = np.zeros(n), np.zeros(n)
    for k in range(1, n):
        share[k], steep[k] = _log_sum(share[:k] + log[:k, k], steep[:k] + slope[:k, k], alpha, same)
    total, top = _log_sum(share, steep, alpha, same)
    return _over(share, steep, alpha, same, top) - total


def _log_sum(log: Array, slope: Array, alpha: float, same: float) -> tuple[Array, Array]:
    """The log of the sum of ``exp(log + alpha slope)`` over the first dimension: what does not grow with alpha, and
    what is to be taken alpha times.
    """
    top = np.where(log > -np.inf, slope, -np.inf).max(0)
    top = np.where(np.isfinite(top), top, 0.0)
    return np.logaddexp.reduce(_over(log, slope, alpha, same, top), 0), top


def _over(log: Array, slope: Array, alpha: float, same: float, top: Array) -> Array:
    """Logs less ``alpha top``, where slopes that differ by rounding alone are the same."""
    off = slope - top
    with np.errstate(over="ignore"):
        return np.asarray(log + alpha * np.where(off > -same, 0.0, off))


TABLES = "a table of payoffs [n, n], or one [n_1, ..., n_K] for each of K seats"


def alpha_rank(payoffs: Any, alpha: float = 100.0, population: int = 50) -> Array:
    """How often each strategy, or each choice of strategies by all, is played in the long run of evolution.

    Args:
        payoffs: ``[n, n]``, what the row wins from the column where all play the same game; or a list of ``K`` tables
            ``[n_1, ..., n_K]``, what each seat wins.
        alpha: how strongly evolution selects; any positive number, however large. Sums of payoffs that differ by no
            more than their rounding count as equal.
        population: how many individuals a population has.

    Returns:
        Shares that add up to 1; ``[n]`` for one table, ``[n_1, ..., n_K]`` for ``K``.

    Source: Omidshafiei and others 2019, https://doi.org/10.1038/s41598-019-45619-9

    >>> alpha_rank([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], alpha=1e6).round(6).tolist()
    [0.333333, 0.333333, 0.333333]
    """
    who = "alpha_rank"
    if not (isinstance(alpha, Real) and alpha > 0 and np.isfinite(alpha)):
        raise SpecError(f"alpha_rank: alpha must be a positive number, got {alpha!r}")
    whole("alpha_rank", "population", population, 2)
    several = isinstance(payoffs, Sequence) and len(payoffs) > 0 and numbers(payoffs[0], who, TABLES).ndim > 1
    tables = [numbers(t, who, TABLES) for t in (payoffs if several else [payoffs])]
    shape = tables[0].shape
    if not several and (len(shape) != 2 or shape[0] != shape[1]):
        seats = "; give K tables, one for each seat, as a list" if len(shape) > 2 else ""
        raise ShapeError(f"alpha_rank: expected a square table of payoffs [n, n], got {list(shape)}{seats}")
    if several and (len(shape) != len(tables) or any(t.shape != shape for t in tables)):
        raise ShapeError(
            f"alpha_rank: expected {len(tables)} tables with {len(tables)} dimensions, got {[t.shape for t in tables]}"
        )
    if not all(np.isfinite(t).all() for t in tables):
        raise SpecError("alpha_rank: payoffs must be finite; let every pair play")
    gaps = tables[0].T - tables[0] if not several else _neighbours(tables)  # from the row to a mutant of the column
    near, gain = ~np.isnan(gaps), np.nan_to_num(gaps)
    with np.errstate(over="ignore"):
        chances = np.where(near, log_fixation(alpha * np.abs(gain), population), -np.inf)
    slopes = (population - 1) * np.minimum(gain, 0)
    return np.exp(log_stationary(chances, slopes, alpha)).reshape(shape if several else len(gaps))


def _neighbours(tables: list[Array]) -> Array:
    """What is gained from one choice to another that differs in one seat, nan to others; ``[N, N]`` for ``N`` choices
    of strategies.
    """
    shape = tables[0].shape
    flat = np.arange(np.prod(shape)).reshape(shape)
    gain = np.full((flat.size, flat.size), np.nan)
    for seat, table in enumerate(tables):
        index, value = np.moveaxis(flat, seat, -1), np.moveaxis(table, seat, -1)
        here, there = index[..., :, None], index[..., None, :]
        gain[here, there] = value[..., None, :] - value[..., :, None]
    return gain


# --- Nash averaging ------------------------------------------------------------------------------


class NashAverage(NamedTuple):
    """What :func:`nash_average` finds: the players' ``weights``, and their ``skill`` against them; ``[n]`` each."""

    weights: Array
    skill: Array


def nash_average(payoffs: object) -> NashAverage:
    """The equilibrium of the game in which both choose a player, the most even one where there are several.

    A player that is entered twice shares its weight with its copy, and changes nobody's skill.

    Args:
        payoffs: ``[n, n]``, antisymmetric.

    Source: Balduzzi and others 2018, https://arxiv.org/abs/1806.02643

    >>> beats = [[0, -1, 1, -1], [1, 0, -1, 0], [-1, 1, 0, 1], [1, 0, -1, 0]]  # rock, paper, scissors, paper again
    >>> nash_average(beats).weights.round(6).tolist()
    [0.333333, 0.166667, 0.333333, 0.166667]
    """
    table = antisymmetric(payoffs, "nash_average")
    scale = np.abs(table).max()
    if scale == 0:
        n = len(table)
        return NashAverage(np.full(n, 1 / n), np.zeros(n))
    x, slack = central_path(table / scale)
    played = x > slack
    weights = np.zeros(len(table))
    weights[played] = most_even(table / scale, x, played)
    return NashAverage(weights, table @ weights)


def central_path(table: Array) -> tuple[Array, Array]:
    """Weights ``x`` and slacks ``s = -table @ x``, not normalised, of which exactly one is not 0 for each player;
    ``[n]`` each.

    ``x s = mu`` is followed down from 1; since ``x`` and ``s`` are orthogonal for every antisymmetric table, the path
    ends in the middle of the set of equilibria, where every player that some equilibrium plays is played.
    """
    x = s = np.ones(len(table))
    offset, mu = 1 + table @ np.ones(len(table)), 1.0
    while mu > 1e-14:
        mu *= 0.3
        for _ in range(3):
            dx = np.linalg.solve(np.diag(s) - x[:, None] * table, mu - x * s - x * (mu * offset - table @ x - s))
            ds = mu * offset - table @ (x + dx) - s
            shrink = max(1.0, (-dx / x).max() / 0.9, (-ds / s).max() / 0.9)
            x, s = x + dx / shrink, s + ds / shrink
    return x, s


def most_even(table: Array, x: Array, played: Flags) -> Array:
    """The weights of largest entropy among equilibria of the players in ``played``; ``[n played]``.

    A barrier keeps away from the bounds of the others. Where it ends tells which of them hold exactly, and with these
    as equations the answer is exact too, also where a bound holds by chance and costs nothing.

    Args:
        table: ``[n, n]``.
        x: ``[n]``, an equilibrium that plays all of them and whose slacks elsewhere are not 0; any scale.
        played: bool ``[n]``.
    """
    p = x[played] / x[played].sum()
    equal = np.vstack([table[np.ix_(played, played)], np.ones(len(p))])  # all equilibria tie against those played
    bound = table[np.ix_(~played, played)]  # and win nothing from the others at best
    if not len(bound):
        return _climb(p, equal, bound, 0.0)
    mu = 1e-2
    while mu > 1e-12:
        p = _climb(p, equal, bound, mu)
        mu *= 0.1
    room, found = -bound @ p, []
    for tied in {tuple(room < near) for near in 10.0 ** -np.arange(2, 9)}:
        exact = _climb(p, np.vstack([bound[list(tied)], equal]), bound[:0], 0.0)
        wrong = max((bound @ exact).max(), np.abs(equal[:-1] @ exact).max())
        if wrong < 1e-13 and np.abs(exact - p).max() < 1e-5:
            found.append(exact)
    return max(found or [p], key=lambda weights: -(weights @ np.log(weights)))


def _climb(p: Array, equal: Array, bound: Array, mu: float) -> Array:
    """The weights of largest entropy with ``equal @ p`` 0 but for the last, which is 1, and a barrier at ``bound``.

    Newton's steps, shortened where they would leave what is allowed; ``[n]``.
    """
    for _ in range(50):
        room = -bound @ p
        slope = np.log(p) + 1 + mu * (bound.T @ (1 / room))
        curve = np.diag(1 / p) + mu * (bound.T / room**2) @ bound
        inverse = np.linalg.inv(curve)
        off = equal @ p - np.eye(len(equal))[-1]
        prices = np.linalg.lstsq(equal @ inverse @ equal.T, off - equal @ inverse @ slope, rcond=1e-10)[0]
        step = -inverse @ (slope + equal.T @ prices)
        p = p + step / max(1.0, (-step / p).max() / 0.9, ((bound @ step) / room).max(initial=0) / 0.9)
        if np.abs(step).max() < 1e-12:
            break
    return p / p.sum()


# --- what is cyclic ------------------------------------------------------------------------------


class Decomposition(NamedTuple):
    """What :func:`decompose` finds: ``transitive`` and ``cyclic`` add up to the payoffs; ``[n, n]`` each.

    ``transitive`` holds the differences of ``skill``, ``[n]``; ``share`` says how much is cyclic, from 0 to 1.
    """

    skill: Array
    transitive: Array
    cyclic: Array
    share: float


def decompose(payoffs: object) -> Decomposition:
    """Splits payoffs into a part that a number per player explains, and a part that goes in circles.

    ``payoffs == transitive + cyclic``, and the two are orthogonal: the squares of their entries add up. The table is
    taken for the truth; of one that comes of games, :func:`cyclic_share` says how much more than luck is cyclic.

    Args:
        payoffs: ``[n, n]``, antisymmetric.

    Source: Jiang and others 2011, https://doi.org/10.1007/s10107-010-0419-x; Balduzzi and others 2018.

    >>> decompose([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]).share, decompose([[0, 1, 2], [-1, 0, 1], [-2, -1, 0]]).share
    (1.0, 0.0)
    """
    table = antisymmetric(payoffs, "decompose")
    skill = table.mean(1)
    transitive = skill[:, None] - skill[None]
    cyclic = table - transitive
    total = (table**2).sum()
    return Decomposition(skill, transitive, cyclic, float((cyclic**2).sum() / total) if total else 0.0)


def cyclic_triads(payoffs: object) -> list[tuple[int, int, int]]:
    """Every three players of whom the first beats the second, the second the third, and the third the first.

    >>> cyclic_triads([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    [(0, 2, 1)]
    """
    beats = antisymmetric(payoffs, "cyclic_triads") > 0
    circle = beats[:, :, None] & beats[None] & beats.T[:, None, :]
    return [(i, j, k) for i, j, k in np.argwhere(circle).tolist() if i == min(i, j, k)]
