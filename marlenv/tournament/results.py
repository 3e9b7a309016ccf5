"""What was played: how often each player won, drew and lost against each other, by who sat first.

``n`` are players, ``G`` games. Everything that judges players is computed from these counts, never from other
judgements.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from marlenv.errors import PoolError, SpecTypeError, UnknownName, nearest

Array = NDArray[np.float64]
WIN, DRAW, LOSS = range(3)  # of the player who sits first


@dataclass(frozen=True, eq=False)
class Results:
    """The counts of wins, draws and losses of a pool of players.

    Args:
        names: the players, each once.
        counts: ``[n, n, 3]``: entry ``[i, j]`` holds the games in which ``i`` sat first and ``j`` second: won, drawn
            and lost by ``i``. Nobody plays against itself. Without it nothing has been played yet.

    >>> results = Results.of([("ada", "bob", 1.0), ("bob", "ada", 0.5)])
    >>> results.names, results.points.tolist(), results.played.tolist()
    (('ada', 'bob'), [1.5, 0.5], [2.0, 2.0])
    """

    names: tuple[str, ...]
    counts: Array = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        names, n = tuple(self.names), len(self.names)
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise PoolError(f"Results: two players of one name: {twice}; give each player a name of its own")
        counts = np.zeros((n, n, 3)) if np.size(self.counts) == 0 else np.array(self.counts, dtype=np.float64)
        if counts.shape != (n, n, 3):
            raise PoolError(f"Results: counts of {n} players must be [{n}, {n}, 3], got {list(counts.shape)}")
        if not (np.isfinite(counts).all() and (counts >= 0).all()):
            raise PoolError("Results: counts must be finite and not negative; got others")
        if own := [names[i] for i in range(n) if counts[i, i].any()]:
            raise PoolError(f"Results: games of a player against itself say nothing about it, got some of {own}")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "counts", counts)

    @classmethod
    def of(cls, games: Iterable[tuple[str, str, float]], names: Sequence[str] | None = None) -> Results:
        """The counts of a list of games.

        Args:
            games: the name that sat first, the other, and the first one's score: 1, 0.5 or 0.
            names: the players in order; without it as they come.

        Raises:
            UnknownName: a game of somebody who is not in ``names``.
            PoolError: a score that is none, a game of a player against itself, or two of one name in ``names``.
        """
        games = list(triples(games, "Results.of"))
        known = list(names) if names is not None else list(dict.fromkeys(p for a, b, _ in games for p in (a, b)))
        place = {name: i for i, name in enumerate(known)}
        counts = np.zeros((len(known), len(known), 3))
        for first, second, score in checked(games, known, "Results.of"):
            counts[place[first], place[second], int(2 - 2 * score)] += 1
        return cls(tuple(known), counts)

    @classmethod
    def tally(
        cls,
        pairs: Sequence[tuple[str, str]],
        which: NDArray[np.int64],
        scores: Array,
        names: Sequence[str] | None = None,
    ) -> Results:
        """The counts of many games of few pairs, as :meth:`of` gives them; those of a player against itself are left
        out.

        Args:
            pairs: the names that sat first and second, as they come.
            which: the pair of each game, int64 ``[G]``.
            scores: the first one's: 1, 0.5 or 0; ``[G]``.
            names: the players in order; without it as they come.

        Raises:
            UnknownName: a game of somebody who is not in ``names``.
            PoolError: a score that is none.
        """
        results = cls.of([(a, b, 0.5) for a, b in pairs if a != b], names)  # refuses names that it does not know
        odd = scores[~np.isin(scores, (0, 0.5, 1))]
        if len(odd):
            raise PoolError(f"Results.tally: the first player's score must be 1, 0.5 or 0, got {odd[0]!r}")
        table = np.bincount(3 * which + (2 - 2 * scores).astype(np.int64), minlength=3 * len(pairs))
        place = {name: i for i, name in enumerate(results.names)}
        counts = np.zeros_like(results.counts)
        for (a, b), row in zip(pairs, table.reshape(-1, 3), strict=True):
            if a != b:
                counts[place[a], place[b]] += row
        return cls(results.names, counts)

    def __add__(self, other: Results) -> Results:
        """The games of both; of the same players."""
        if self.names != other.names:
            raise PoolError(f"Results: only those of the same players add up, got {self.names} and {other.names}")
        return Results(self.names, self.counts + other.counts)

    @property
    def games(self) -> float:
        """How many games were played."""
        return float(self.counts.sum())

    @property
    def played(self) -> Array:
        """How many games each player played; ``[n]``."""
        both = self.counts.sum(-1)
        return both.sum(0) + both.sum(1)

    @property
    def points(self) -> Array:
        """The sum of each player's scores, a draw half a point; ``[n]``."""
        won = self.counts @ (1, 0.5, 0)
        lost = self.counts @ (0, 0.5, 1)
        return won.sum(1) + lost.sum(0)

    def crosstable(self) -> Array:
        """The mean score of each player against each other, both seats together; ``[n, n]``, nan where none played."""
        both = self.counts + self.counts.transpose(1, 0, 2)[..., ::-1]
        with np.errstate(invalid="ignore"):
            return both @ (1, 0.5, 0) / both.sum(-1)

    def payoffs(self) -> Array:
        """What each player wins from each other on average, both seats weighed alike; antisymmetric ``[n, n]`` in -1 to
        1.

        Raises:
            PoolError: some pair has not played; names one.
        """
        return payoffs_of(self.counts, self.names)

    def check_connected(self) -> None:
        """Raises unless every player can be compared with every other through games.

        Raises:
            PoolError: there are separate groups of players; names them.
        """
        groups = components(self.counts.sum(-1) + self.counts.sum(-1).T, "weak")
        if len(groups) > 1:
            named = "; ".join(str([self.names[i] for i in group]) for group in groups)
            raise PoolError(
                f"no game links these groups of players, so nothing compares them: {named}; "
                f"play games between the groups, or rate each alone"
            )


def results_of_games(results: object, who: str) -> Results:
    """Results, where somebody might give games.

    Raises:
        SpecTypeError: they are none; says how to make them.
    """
    if isinstance(results, Results):
        return results
    how = "give its results()" if callable(getattr(results, "results", None)) else "give Results.of(games)"
    raise SpecTypeError(f"{who}: expected Results, got {type(results).__name__}; {how}")


def triples(games: Iterable[tuple[str, str, float]], who: str) -> Iterator[tuple[str, str, float]]:
    """Games, each of which is of three things.

    Raises:
        PoolError: one is not; says what it is.
    """
    for game in games:
        try:
            first, second, score = game
        except (TypeError, ValueError):
            raise PoolError(
                f"{who}: expected games (first seat, second seat, score of the first), got {reprlib.repr(game)}"
            ) from None
        yield first, second, score


def checked(
    games: Iterable[tuple[str, str, float]], known: Sequence[str], who: str
) -> Iterator[tuple[str, str, float]]:
    """Games, each of which is one of two players with a score.

    Raises:
        UnknownName: a game of somebody who is not in ``known``.
        PoolError: a score that is none, or a game of a player against itself.
    """
    names = set(known)
    for first, second, score in triples(games, who):
        for name in (first, second):
            if name not in names:
                raise UnknownName(f"{who}: no player is called {name!r}; {nearest(name, known)}")
        if first == second:
            raise PoolError(f"{who}: a game of a player against itself says nothing about it, got one of {first!r}")
        if score not in (0, 0.5, 1):
            raise PoolError(f"{who}: the first player's score must be 1, 0.5 or 0, got {score!r}")
        yield first, second, float(score)


def payoffs_of(counts: Array, names: Sequence[str]) -> Array:
    """:meth:`Results.payoffs` of any counts ``[*B, n, n, 3]``, bootstrapped ones among them; ``[*B, n, n]``."""
    total = counts.sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        won = (counts[..., WIN] - counts[..., LOSS]) / total  # of the player who sits first
    seats = np.stack([won, -np.swapaxes(won, -1, -2)])
    known = ~np.isnan(seats)
    alone = np.eye(counts.shape[-2], dtype=bool)
    missing = ~known.any(0) & ~alone
    if missing.any():
        i, j = np.argwhere(missing)[0][-2:]
        raise PoolError(
            f"payoffs need games of every pair, and {names[i]!r} and {names[j]!r} have not played; play a round robin"
        )
    mean = np.where(known, seats, 0).sum(0) / np.maximum(known.sum(0), 1)
    return np.where(alone, 0.0, mean)


def components(edges: Array, kind: str) -> list[list[int]]:
    """The groups of players that a graph ties together, the largest first, then by their first player.

    Args:
        edges: ``[n, n]``, not zero where an edge goes from row to column.
        kind: ``"weak"`` in any direction, or ``"strong"`` in both.

    >>> components(np.array([[0, 1, 0], [1, 0, 1], [0, 0, 0]]), "strong")
    [[0, 1], [2]]
    """
    graph = nx.from_numpy_array(edges != 0, create_using=nx.DiGraph)
    found = nx.strongly_connected_components(graph) if kind == "strong" else nx.weakly_connected_components(graph)
    return sorted((sorted(group) for group in found), key=lambda group: (-len(group), group[0]))
