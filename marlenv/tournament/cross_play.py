"""Do policies cooperate with partners that they were not trained with? Tables of teams, and the gap between the two."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marlenv.errors import PoolError, ShapeError, SpecError
from marlenv.tournament.arrays import level_of, numbers
from marlenv.tournament.likelihood import Array
from marlenv.tournament.play import Played


class CrossPlay(NamedTuple):
    """What :func:`cross_play` finds."""

    table: Array
    """The mean return of each pair; ``[n, n]``, rows are who sits first."""
    self_play: float
    """The mean of policies with themselves."""
    cross_play: float
    """The mean of policies with others."""
    gap: float
    """The first less the second: what training together was worth."""
    interval: tuple[float, float]
    """Where the gap lies; infinite on both sides with two policies, which say nothing about others."""


def cross_play(returns: object, *, level: float = 0.95) -> CrossPlay:
    """How much better policies do with themselves than with each other.

    The interval is for policies that are trained anew, since training runs are what one wants to generalise over: it
    follows from what the gap would be without each of them in turn (jackknife), times Student's t. It may be trusted
    from three policies on, and is narrow from five.

    Args:
        returns: ``[n, n, episodes]``: entry ``[i, j]`` holds the episodes in which ``i`` and ``j`` played together.
        level: the chance that the interval holds the gap of all policies that might have been trained.

    Raises:
        ShapeError: they are not of two policies or more, each with each.
        SpecError: some are infinite or no numbers, or the level is out of range.

    Source: Arvesen 1969, https://doi.org/10.1214/aoms/1177697287

    >>> result = cross_play([[[9.0], [1.0]], [[3.0], [7.0]]])
    >>> result.self_play, result.cross_play, result.gap, result.interval
    (8.0, 2.0, 6.0, (-inf, inf))
    """
    expected = "returns [n, n, episodes] of n >= 2 policies"
    table = numbers(returns, "cross_play", expected)
    if table.ndim != 3 or table.shape[0] != table.shape[1] or table.shape[0] < 2 or not table.shape[2]:
        raise ShapeError(f"cross_play: expected {expected}, got {list(table.shape)}")
    if not np.isfinite(table).all():
        raise SpecError(f"cross_play: returns must be finite, got {table[~np.isfinite(table)][0]}")
    level_of(level)
    n, mean = len(table), table.mean(-1)
    own, others = _means(mean)
    if n == 2:
        return CrossPlay(mean, own, others, own - others, (-np.inf, np.inf))
    left = [np.delete(np.arange(n), k) for k in range(n)]
    gaps = np.array([np.subtract(*_means(mean[np.ix_(who, who)])) for who in left])
    half = t_quantile(level, n - 1) * float(np.sqrt((n - 1) * gaps.var()))
    return CrossPlay(mean, own, others, own - others, (own - others - half, own - others + half))


def team_returns(played: Played) -> tuple[list[str], Array]:
    """The policies of games between two teams, and what :func:`cross_play` takes: the returns of each pair of them.

    A game counts as the mean over its seats, so this is for tasks that teams share; the two teams are told apart by
    the first two policies of a game that differ.

    Args:
        played: every pair of policies, each with itself too, equally often.

    Raises:
        PoolError: some pair has not played, or not as often as others.

    >>> from marlenv.games import MatrixGame
    >>> from marlenv.tournament import Arena, TabularPlayer, cross_play_teams
    >>> def always(action):
    ...     return lambda turn: torch.full_like(turn.seat, action)
    >>> arena = Arena(MatrixGame("stag_hunt"), {"stag": always(0), "hare": always(1)})
    >>> names, returns = team_returns(arena.play(cross_play_teams(["stag", "hare"], {s: [s] for s in arena.seats})))
    >>> names, returns[..., 0].tolist()
    (['stag', 'hare'], [[2.0, 0.5], [0.5, 1.0]])
    """
    names = list(dict.fromkeys(name for game in played.games for name in game.players))
    cells: dict[tuple[str, str], list[float]] = {(a, b): [] for a in names for b in names}
    for game, mean in zip(played.games, played.returns.mean(1).tolist(), strict=True):
        team = list(dict.fromkeys(game.players))
        if len(team) > 2:
            raise PoolError(f"team_returns: expected games of two policies at most, got {team} in game {game.id}")
        cells[team[0], team[-1]].append(mean)
    counts = {len(cell) for cell in cells.values()}
    if len(counts) != 1 or 0 in counts:
        rare = min(cells, key=lambda pair: len(cells[pair]))
        raise PoolError(
            f"team_returns: every pair of policies must have played equally often, and {rare[0]!r} with {rare[1]!r} "
            f"did {len(cells[rare])} times; use cross_play_teams"
        )
    return names, np.array([[cells[a, b] for b in names] for a in names])


def _means(mean: Array) -> tuple[float, float]:
    """The mean over policies with themselves, and over pairs of two."""
    own = np.eye(len(mean), dtype=bool)
    return float(mean[own].mean()), float(mean[~own].mean())


def t_quantile(level: float, freedom: int) -> float:
    """How many standard errors on either side hold a share ``level`` of Student's t.

    >>> round(t_quantile(0.95, 2), 3), round(t_quantile(0.95, 9), 3)
    (4.303, 2.262)
    """
    low, high = 0.0, np.pi / 2  # of the angle whose tangent is t over the root of the degrees of freedom
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _t_share(angle, freedom) < level else (low, angle)
    return float(np.sqrt(freedom) * np.tan(low))


def _t_share(angle: float, freedom: int) -> float:
    """The share of Student's t within an angle (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
    odd = freedom % 2
    term, total = float(np.cos(angle)) if odd else 1.0, 0.0
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= float(np.cos(angle)) ** 2 * k / (k + 1)
    total *= float(np.sin(angle))
    return 2 / np.pi * (angle + total) if odd else total
