"""Tournaments of rounds: the pairs of the next one, from the games of those before."""

from __future__ import annotations

from collections.abc import Sequence

from marlenv.errors import PoolError
from marlenv.tournament.play import Played
from marlenv.tournament.schedule import advance, bracket, swiss_round


def swiss_pairs(names: Sequence[str], played: Played) -> list[tuple[str, str]]:
    """The pairs of the next round of a Swiss tournament.

    A match of several games counts as won by who scored more; who was in no game of a round rested.
    """
    matches: dict[tuple[int, frozenset[str]], list[tuple[str, float]]] = {}
    for game, score in zip(played.games, played.scores().tolist() if played.games else [], strict=True):
        matches.setdefault((game.round, frozenset(game.players)), []).append((game.players[0], score))
    results, byes = [], []
    for (_, pair), games in matches.items():
        first = games[0][0]
        (second,) = pair - {first}
        mean = sum(score if who == first else 1 - score for who, score in games) / len(games)
        results.append((first, second, 0.5 if mean == 0.5 else float(mean > 0.5)))
    for number in sorted({number for number, _ in matches}):
        there = {p for n, pair in matches if n == number for p in pair}
        byes += [name for name in names if name not in there]
    return swiss_round(names, results, byes).pairs


def knockout_match(names: Sequence[str], played: Played) -> list[tuple[str, str]]:
    """The pairs of the next round of a knockout; none when it is decided.

    A match that is level is won by who stands higher in the list of names.
    """
    places = bracket(names)
    scores = played.scores().tolist() if played.games else []
    for number in sorted({game.round for game in played.games}):
        points: dict[str, float] = {}
        for game, score in zip(played.games, scores, strict=True):
            if game.round == number:
                for name, mine in zip(game.players, (score, 1 - score), strict=True):
                    points[name] = points.get(name, 0) + mine
        pairs = [pair for pair in zip(places[::2], places[1::2], strict=True) if None not in pair]
        places = advance(places, [_winner(pair, points, names) for pair in pairs])
    return [(a, b) for a, b in zip(places[::2], places[1::2], strict=False) if a is not None and b is not None]


def match_counts(names: Sequence[str], played: Played, *, pairs: bool) -> list[int]:
    """What a sequential test of a match of two takes: how often the first of the names won, drew and lost.

    Args:
        names: the two.
        played: the games.
        pairs: whether they come in pairs that sit both ways; then five counts, by the points of a pair.
    """
    scores = played.scores().tolist() if played.games else []
    mine = [x if game.players[0] == names[0] else 1 - x for game, x in zip(played.games, scores, strict=True)]
    step = 2 if pairs else 1
    counts = [0] * (2 * step + 1)
    for k in range(0, len(mine), step):
        counts[round(2 * (step - sum(mine[k : k + step])))] += 1
    return counts


def _winner(pair: tuple[str | None, str | None], points: dict[str, float], names: Sequence[str]) -> str:
    a, b = pair
    if a is None or b is None or a not in points or b not in points:
        raise PoolError(f"knockout: {a!r} and {b!r} have not played their match")
    return max((a, b), key=lambda name: (points[name], -names.index(name)))
