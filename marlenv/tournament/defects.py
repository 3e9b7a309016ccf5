"""What is odd about a pool of players: warnings that a table of ratings does not show."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from marlenv.tournament.asking import ENDINGS, ILLEGAL
from marlenv.tournament.likelihood import Array
from marlenv.tournament.play import Played
from marlenv.tournament.results import Results, components

SURE = 3.5  # standard errors


def defects(played: Played, results: Results) -> list[str]:
    """Warnings, each a sentence that names the players concerned.

    Separate pools, a seat that is worth much, players who win in a circle, players who play alike, forfeits.

    >>> circle = [("rock", "scissors", 1), ("scissors", "paper", 1), ("paper", "rock", 1)] * 30
    >>> from marlenv.tournament.play import blank
    >>> defects(blank([], 2), Results.of(circle))
    ["they win in a circle, so one number per player says little: 'rock' over 'scissors' over 'paper' over 'rock'"]
    """
    return [*_separate(results), *_seat(results), *_circles(results), *_alike(played), *_forfeits(played)]


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


def wins(results: Results) -> Array:
    """Who is surely better than whom when they meet, both seats together; bool ``[n, n]``."""
    both = results.counts + results.counts.transpose(1, 0, 2)[..., ::-1]
    total = both.sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = both @ (1, 0.5, 0) / total
        error = np.sqrt(np.maximum(both @ (1, 0.25, 0) / total - mean**2, 0.25 / total) / total)
        return np.asarray((mean - 0.5) > SURE * error, dtype=float)


def _circles(results: Results) -> list[str]:
    over, names = wins(results) > 0, results.names
    for i, j, k in combinations(range(len(names)), 3):
        for a, b, c in ((i, j, k), (i, k, j)):
            if over[a, b] and over[b, c] and over[c, a]:
                circle = " over ".join(repr(names[x]) for x in (a, b, c, a))
                return [f"they win in a circle, so one number per player says little: {circle}"]
    return []


def _alike(played: Played) -> list[str]:
    """Players who made the same moves in all the games that they could have in common."""
    seen: dict[str, dict[tuple[object, ...], set[int]]] = {}
    for game, digest in zip(played.games, played.digest.tolist(), strict=True):
        for seat, name in enumerate(game.players):
            others = (*game.players[:seat], None, *game.players[seat + 1 :])
            seen.setdefault(name, {}).setdefault((others, game.opening), set()).add(digest)
    out = []
    for a, b in combinations(seen, 2):
        shared = [key for key in seen[a].keys() & seen[b].keys() if a not in key[0] and b not in key[0]]  # type: ignore[operator]
        if shared and all(seen[a][key] == seen[b][key] for key in shared):
            out.append(
                f"{a!r} and {b!r} play alike, move by move, against all whom both met; one player entered twice?"
            )
    return out


def _forfeits(played: Played) -> list[str]:
    out: dict[tuple[str, str], int] = {}
    for game, ending, culprit in zip(played.games, played.ending.tolist(), played.culprit.tolist(), strict=True):
        if culprit >= 0 and ending >= ILLEGAL:
            key = (game.players[culprit], ENDINGS[ending])
            out[key] = out.get(key, 0) + 1
    return [f"{name!r} forfeited {count} games: {why}" for (name, why), count in sorted(out.items())]
