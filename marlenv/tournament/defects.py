"""What is odd about a pool of players: warnings that a table of ratings does not show."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import ceil, exp, expm1, floor, lgamma, log
from statistics import NormalDist

import numpy as np

from marlenv.tournament.asking import ENDINGS, ILLEGAL
from marlenv.tournament.by_game import met
from marlenv.tournament.likelihood import Array
from marlenv.tournament.play import Played
from marlenv.tournament.results import Results, components

SURE = 3.5  # standard errors


def defects(played: Played, results: Results) -> list[str]:
    """Warnings, each a sentence that names the players concerned.

    Separate pools, a seat that is worth much, players who win in a circle, players who play alike, forfeits.

    Args:
        played: the games.
        results: of each game one result for every two players in it, as :func:`met` gives them.

    >>> circle = [("rock", "scissors", 1), ("scissors", "paper", 1), ("paper", "rock", 1)] * 30
    >>> from marlenv.tournament.play import blank
    >>> defects(blank([], 2), Results.of(circle))
    ["they win in a circle, so one number per player says little: 'rock' over 'scissors' over 'paper' over 'rock'"]
    """
    fair = _without_forfeits(played, results)
    return [*_separate(results), *_seat(fair), *_circles(results), *_alike(played), *_forfeits(played)]


def _separate(results: Results) -> list[str]:
    both = results.counts.sum(-1) + results.counts.sum(-1).T
    groups = components(both, "weak")
    if len(groups) < 2:
        return []
    named = "; ".join(", ".join(repr(results.names[i]) for i in group) for group in groups)
    return [f"no game links these groups, so nothing compares them: {named}"]


def _seat(results: Results) -> list[str]:
    """Whether a seat is worth much: pairs that sat both ways, each way weighed alike, so that strength cancels."""
    n, total, share = len(results.names), 0.0, 0.0
    variance = 0.0
    for i, j in combinations(range(n), 2):
        there, back = results.counts[i, j], results.counts[j, i]
        if there.sum() and back.sum():
            weight = min(there.sum(), back.sum())
            for counts in (there, back):
                mean = float(counts @ (1, 0.5, 0)) / counts.sum()
                spread = max(float(counts @ (1, 0.25, 0)) / counts.sum() - mean**2, 0.25 / counts.sum())
                share += weight * mean / 2
                variance += weight**2 * spread / counts.sum() / 4
            total += weight
    if not total:
        return []
    mean, error = share / total, variance**0.5 / total
    if abs(mean - 0.5) <= SURE * error or abs(mean - 0.5) < 0.02:
        return []
    return [f"who sits first scores {mean:.0%} against equals; compare players who sat in both seats equally often"]


def _without_forfeits(played: Played, results: Results) -> Results:
    """The results of those games that nobody forfeited: who failed would have failed in any seat."""
    forfeited = np.flatnonzero((played.culprit >= 0).numpy())
    if not len(forfeited):
        return results
    lost = met(played.take(forfeited), results.names)
    return Results(results.names, np.maximum(results.counts - lost.counts, 0))


def wins(results: Results) -> Array:
    """Who is surely better than whom when they meet, both seats together; float 0 or 1, ``[n, n]``.

    By the exact sign test of the games that were not drawn, at the level of :data:`SURE` standard errors for all pairs
    together (Sidak 1967): of equal players hardly any is surely better than another, however many there are.
    """
    both = results.counts + results.counts.transpose(1, 0, 2)[..., ::-1]
    n, out = len(results.names), np.zeros(both.shape[:2])
    pairs = [(i, j) for i, j in combinations(range(n), 2) if both[i, j].any()]
    doubt = _level(len(pairs))
    for i, j in pairs:
        won, _, lost = both[i, j].tolist()
        a, b, won, lost = (i, j, won, lost) if won > lost else (j, i, lost, won)
        out[a, b] = 2 * _chance(floor(won), ceil(lost)) < doubt
    return out


def _level(tests: int) -> float:
    """The chance of error of each of some tests at which that of all is what lies outside :data:`SURE` errors."""
    all_fine = 2 * NormalDist().cdf(SURE) - 1
    return -expm1(log(all_fine) / max(tests, 1))


def _chance(won: int, lost: int) -> float:
    """How likely one of two equals wins so many games, or more, of those that were won."""
    games = won + lost
    if won <= lost:
        return 1.0
    term = total = 1.0
    for k in range(won, games):
        term *= (games - k) / (k + 1)
        total += term
        if term < 1e-12 * total:
            break
    return total * exp(lgamma(games + 1) - lgamma(won + 1) - lgamma(lost + 1) - games * log(2))


def _circles(results: Results) -> list[str]:
    over, names = wins(results) > 0, results.names
    for i, j, k in combinations(range(len(names)), 3):
        for a, b, c in ((i, j, k), (i, k, j)):
            if over[a, b] and over[b, c] and over[c, a]:
                circle = " over ".join(repr(names[x]) for x in (a, b, c, a))
                return [f"they win in a circle, so one number per player says little: {circle}"]
    return []


def _alike(played: Played) -> list[str]:
    """Players who made the same moves, as often, in all the games that they could have in common."""
    seen: dict[str, dict[tuple[object, ...], Counter[int]]] = {}
    for game, digest, plies in zip(played.games, played.digest.tolist(), played.plies.tolist(), strict=True):
        if not plies:  # nobody moved, which is alike for all
            continue
        for seat, name in enumerate(game.players):
            others = (*game.players[:seat], None, *game.players[seat + 1 :])
            seen.setdefault(name, {}).setdefault((others, game.opening), Counter())[digest] += 1
    out = []
    for a, b in combinations(seen, 2):
        shared = [key for key in seen[a].keys() & seen[b].keys() if a not in key[0] and b not in key[0]]  # type: ignore[operator]
        if shared and all(_as_often(seen[a][key], seen[b][key]) for key in shared):
            alike = f"{a!r} and {b!r} play alike, move by move, against all whom both met"
            out.append(f"{alike}, as one player that is entered twice")
    return out


def _as_often(mine: Counter[int], theirs: Counter[int]) -> bool:
    """Whether both made each game in the same share of theirs; of a small game, all may come up with anybody."""
    if mine.keys() != theirs.keys():
        return False
    own, other = mine.total(), theirs.total()
    return all(count * other == theirs[digest] * own for digest, count in mine.items())


def _forfeits(played: Played) -> list[str]:
    out: dict[tuple[str, str], int] = {}
    for game, ending, culprit in zip(played.games, played.ending.tolist(), played.culprit.tolist(), strict=True):
        if culprit >= 0 and ending >= ILLEGAL:
            key = (game.players[culprit], ENDINGS[ending])
            out[key] = out.get(key, 0) + 1
    return [f"{name!r} forfeited {count} games: {why}" for (name, why), count in sorted(out.items())]
