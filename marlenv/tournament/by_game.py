"""What games say of the players: of more than two seats, the results of one game hang together and count once.

``n`` are players, ``m`` parameters of the model, ``G`` games, ``P`` seats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from marlenv.tournament.likelihood import Array
from marlenv.tournament.play import Played, pair_scores
from marlenv.tournament.ratings import ELO, Draws, Ratings, anchors, rate, within
from marlenv.tournament.results import Results

MOST = 0.99  # the share that one game may have in what is known; where it has more, its model says how sure it is


def results_of(played: Played, names: Sequence[str]) -> Results:
    """The counts of the games, of every two seats where there are more than two."""
    return played.results(names) if played.returns.shape[1] == 2 else played.pairs(names)


def met(played: Played, names: Sequence[str]) -> Results:
    """One result for every two players of a game: who did better in it, by the scores of all their seats.

    Unlike those of seats, such results of a pair do not hang together.
    """
    if played.returns.shape[1] == 2:
        return played.results(names)
    place, counts = {name: k for k, name in enumerate(names)}, np.zeros((len(names), len(names), 3))
    for lineup, which in _lineups(played):
        some = played.take(which)
        for p, q in combinations(dict.fromkeys(lineup), 2):
            own, other = ([seat for seat, name in enumerate(lineup) if name == who] for who in (p, q))
            each = (pair_scores(some.returns, some.culprit, a, b).numpy() - 0.5 for a in own for b in other)
            above = np.sign(sum(each, np.zeros(len(which))))
            counts[place[p], place[q]] += np.bincount(1 - above.astype(np.int64), minlength=3)
    return Results(tuple(names), counts)


@dataclass(frozen=True, eq=False)
class GameRatings(Ratings):
    """Ratings whose errors follow from how games differ from each other.

    Args:
        errors: the covariance of the strengths, in points squared; ``[n, n]``, nan for those without a bound.
    """

    errors: Array

    @cached_property
    def covariance(self) -> Array:
        """The covariance of the strengths of the reference, in points squared; ``[n, n]``, nan for the others."""
        return self.errors


def rate_games(played: Played, names: Sequence[str], *, draws: Draws = "davidson", seat: bool | None = None) -> Ratings:
    """The ratings of games with any number of seats, with intervals that take a game for one observation.

    Args:
        played: the games.
        names: the players.
        draws: as of :func:`rate`.
        seat: as of :func:`rate`.

    Raises:
        PoolError: as of :func:`rate`.
    """
    results = results_of(played, names)
    if played.returns.shape[1] == 2:
        return rate(results, draws=draws, seat=seat)
    most = max((_comparisons(lineup) for lineup in played.games.first()), default=1)
    found = rate(Results(results.names, results.counts / most), draws=draws, seat=seat)  # bounds as of whole games
    own = {f.name: getattr(found, f.name) for f in fields(Ratings)}
    return GameRatings(**own, errors=_covariance(found, played, most))


def _comparisons(lineup: tuple[str, ...]) -> int:
    """With how many seats of others a player is compared in a game, all its seats together; the most of any."""
    return max((size * (len(lineup) - size) for size in Counter(lineup).values()), default=0) or 1


def _lineups(played: Played) -> Iterator[tuple[tuple[str, ...], NDArray[np.int64]]]:
    """Who sits where, in each of the ways that there are, and the places of the games in which it is so."""
    numbers = {lineup: k for k, lineup in enumerate(played.games.lineups)}
    for lineup in played.games.first():
        yield lineup, np.flatnonzero(played.games.lineup == numbers[lineup])


def _covariance(found: Ratings, played: Played, most: int) -> Array:
    """The spread of what the strengths become when one game is left out, by a step of Newton's method (jackknife).

    Source: Efron and Stein 1981, https://doi.org/10.1214/aos/1176345462.
    """
    model, x, n, m = found.model, found.parameters, len(found.names), len(found.parameters)
    place, chances = {name: k for k, name in enumerate(found.names)}, model.probabilities(x)
    rows = anchors(found.groups, n, model)
    values, vectors = np.linalg.eigh(model.information(x, within(found.counts, found.groups)) + rows.T @ rows)
    root = vectors / np.sqrt(values) @ vectors.T  # its square is the covariance if each game were one comparison
    total = np.zeros((m, m))
    for lineup, which in _lineups(played):
        some, who = played.take(which), [place[name] for name in lineup]
        slopes, compared = np.zeros((len(which), m)), np.zeros((n, n, 3))
        for (a, i), (b, j) in combinations(enumerate(who), 2):
            one = np.zeros((n, n, 3))
            one[i, j, 0] = i != j
            if not within(one, found.groups).any():
                continue
            compared += one
            score, p = pair_scores(some.returns, some.culprit, a, b).numpy(), chances[i, j]
            margin = score - 0.5 - (p[0] - p[2]) / 2
            slopes[:, i] += margin
            slopes[:, j] -= margin
            if model.seat:
                slopes[:, n] += margin
            if model.draws:
                slopes[:, m - 1] += (score == 0.5) - p[1]
        share, vectors = np.linalg.eigh(root @ model.information(x, compared) @ root / most)
        told, axes = share < MOST, root @ vectors
        away = slopes / most @ (axes[:, told] / (1 - share[told])) @ axes[:, told].T
        total += away.T @ away + axes[:, ~told] @ axes[:, ~told].T
    out, at = np.full((n, n), np.nan), np.ix_(found.reference, found.reference)
    out[at] = total[at] * ELO**2
    return out
