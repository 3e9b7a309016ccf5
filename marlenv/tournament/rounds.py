"""Tournaments of rounds: the pairs of the next one, from the games of those before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

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


class Final(NamedTuple):
    """How a knockout ended: who won it, against whom, and the points of both in that match."""

    winner: str
    loser: str
    won: float
    lost: float


def knockout_match(names: Sequence[str], played: Played) -> list[tuple[str, str]]:
    """The pairs of the next round of a knockout; none when it is decided.

    A match that is level is won by who stands higher in the list of names.
    """
    places = bracket(names)
    for _, _, following in _knockout(names, played):
        places = following
    return _pairs(places)


def knockout_final(names: Sequence[str], played: Played, games: int) -> Final | None:
    """How a knockout ended; None while it goes on.

    Args:
        names: the players, as they were seeded.
        played: the games that are finished.
        games: how many a match has.
    """
    last = max((game.round for game in played.games), default=0)
    if sum(game.round == last for game in played.games) != games:  # the last round is of one match
        return None
    with suppress(PoolError):  # a match of the last round has not begun
        for pairs, points, places in _knockout(names, played):
            if len(places) == 1:
                winner, loser = sorted(pairs[0], key=lambda name: name not in places)
                return Final(winner, loser, points[winner], points[loser])
    return None


Round = tuple[list[tuple[str, str]], dict[str, float], list[str | None]]


def _knockout(names: Sequence[str], played: Played) -> Iterator[Round]:
    """The rounds of a knockout that were played: who met, everybody's points, and the places of the next one."""
    places = bracket(names)
    scores = played.scores().tolist() if played.games else []
    for number in sorted({game.round for game in played.games}):
        points: dict[str, float] = {}
        for game, score in zip(played.games, scores, strict=True):
            if game.round == number:
                for name, mine in zip(game.players, (score, 1 - score), strict=True):
                    points[name] = points.get(name, 0) + mine
        pairs = _pairs(places)
        places = advance(places, [_winner(pair, points, names) for pair in pairs])
        yield pairs, points, places


def _pairs(places: Sequence[str | None]) -> list[tuple[str, str]]:
    """Who meet at some places of a knockout."""
    return [(a, b) for a, b in zip(places[::2], places[1::2], strict=False) if a is not None and b is not None]


def match_counts(names: Sequence[str], played: Played, *, pairs: bool) -> list[int]:
    """What a sequential test of a match of two takes: how often the first of the names won, drew and lost.

    Args:
        names: the two.
        played: the games.
        pairs: whether they come in pairs that sit both ways, games ``2 k`` and ``2 k + 1``; then five counts, by the
            points of a pair, of those of which both games are there.
    """
    scores = played.scores().tolist() if played.games else []
    step = 2 if pairs else 1
    matches: dict[int, list[float]] = {}
    for game, x in zip(played.games, scores, strict=True):
        matches.setdefault(game.id // step, []).append(x if game.players[0] == names[0] else 1 - x)
    counts = [0] * (2 * step + 1)
    for points in matches.values():
        if len(points) == step:
            counts[round(2 * (step - sum(points)))] += 1
    return counts


def _winner(pair: tuple[str, str], points: dict[str, float], names: Sequence[str]) -> str:
    a, b = pair
    if a not in points or b not in points:
        raise PoolError(f"knockout: {a!r} and {b!r} have not played their match")
    return max((a, b), key=lambda name: (points[name], -names.index(name)))
