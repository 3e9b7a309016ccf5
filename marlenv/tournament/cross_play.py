"""Do policies cooperate with partners that they were not trained with? Tables of teams, and the gap between the two."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marlenv.errors import PoolError, ShapeError, SpecError, whole
from marlenv.tournament.bootstrap import quantiles
from marlenv.tournament.likelihood import Array, Flags
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
    """Where the gap lies."""


def cross_play(returns: object, *, level: float = 0.95, replicates: int = 2000, seed: int = 0) -> CrossPlay:
    """How much better policies do with themselves than with each other.

    The interval comes from drawing policies anew, each with its whole row and column, and episodes within a pair:
    training runs are what one wants to generalise over.

    Args:
        returns: ``[n, n, episodes]``: entry ``[i, j]`` holds the episodes in which ``i`` and ``j`` played together.
        level: the share of replicates between the bounds.
        replicates: how often policies are drawn anew.
        seed: of the draws.

    Raises:
        ShapeError: they are not of two policies or more, each with each.
        SpecError: some are infinite or no numbers, or an option is out of range.

    >>> result = cross_play([[[9.0], [1.0]], [[3.0], [7.0]]], replicates=100)
    >>> result.self_play, result.cross_play, result.gap
    (8.0, 2.0, 6.0)
    """
    table = np.asarray(returns, dtype=float)
    if table.ndim != 3 or table.shape[0] != table.shape[1] or table.shape[0] < 2 or not table.shape[2]:
        raise ShapeError(f"cross_play: expected returns [n, n, episodes] of n >= 2 policies, got {list(table.shape)}")
    if not np.isfinite(table).all():
        raise SpecError(f"cross_play: returns must be finite, got {table[~np.isfinite(table)][0]}")
    whole("cross_play", "replicates", replicates, 1)
    n, episodes = len(table), table.shape[2]
    mean = table.mean(-1)
    own, others = _means(mean, np.eye(n, dtype=bool))
    rng = np.random.Generator(np.random.Philox(seed))
    gaps = []
    for _ in range(replicates):
        who = rng.integers(0, n, n)
        while len(set(who.tolist())) < 2:  # a single policy has nobody else to play with
            who = rng.integers(0, n, n)
        again = np.take_along_axis(table, rng.integers(0, episodes, table.shape), -1).mean(-1)[np.ix_(who, who)]
        own_again, others_again = _means(again, who[:, None] == who[None])
        gaps.append(own_again - others_again)
    low, high = quantiles(np.array(gaps), level)
    return CrossPlay(mean, own, others, own - others, (float(low), float(high)))


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


def _means(mean: Array, own: Flags) -> tuple[float, float]:
    """The mean over pairs of a policy with itself, and over the others."""
    return float(mean[own].mean()), float(mean[~own].mean())
