"""The games of a schedule in columns, of which a :class:`Game` is made only for who looks at one.

``G`` are games.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from marlenv.errors import SpecError

Ids = NDArray[np.int64]
NONE = int(np.iinfo(np.int64).min)
"""What stands in a column for None."""


@dataclass(frozen=True, slots=True)
class Game:
    """One game to play.

    Args:
        id: its number in the schedule, which is also what its chance is drawn from unless ``chance`` says otherwise.
        players: who sits where, by seat; a policy may sit in several seats.
        round: games of one round may be played at the same time, each player at most once where seats allow it.
        opening: which of a suite of openings it starts from; None for the start of the game.
        chance: games with the same number have the same dice and cards; None for those of its own.
    """

    id: int
    players: tuple[str, ...]
    round: int = 0
    opening: int | None = None
    chance: int | None = None


class Games(Sequence[Game]):
    """The games of a schedule.

    Args:
        lineups: who sits where, by seat, in each of the ways that there are; each once.
        lineup: which of them is that of each game; int64 ``[G]``.
        ids: the numbers of the games; int64 ``[G]``, as they come when left out.
        rounds: int64 ``[G]``; 0 when left out.
        openings: int64 ``[G]``, :data:`NONE` where there is none.
        chances: int64 ``[G]``, :data:`NONE` where there is none.

    >>> games = Games([("ada", "bob"), ("bob", "ada")], np.array([0, 1, 0]))
    >>> games[1]
    Game(id=1, players=('bob', 'ada'), round=0, opening=None, chance=None)
    >>> games == Games.of([Game(0, ("ada", "bob")), Game(1, ("bob", "ada")), Game(2, ("ada", "bob"))])
    True
    """

    def __init__(
        self,
        lineups: Iterable[tuple[str, ...]],
        lineup: Ids,
        ids: Ids | None = None,
        rounds: Ids | None = None,
        openings: Ids | None = None,
        chances: Ids | None = None,
    ) -> None:
        self.lineups, self.lineup = tuple(lineups), lineup
        self.ids = np.arange(len(lineup)) if ids is None else ids
        self.rounds = np.zeros(len(lineup), np.int64) if rounds is None else rounds
        self.openings = np.full(len(lineup), NONE) if openings is None else openings
        self.chances = np.full(len(lineup), NONE) if chances is None else chances

    @classmethod
    def of(cls, games: Iterable[Game]) -> Games:
        """Those games; as they are if they are in columns already.

        Raises:
            SpecError: what is given is no :class:`Game`.
        """
        if isinstance(games, Games):
            return games
        rows, known = list(games), dict[tuple[str, ...], int]()
        if other := [game for game in rows if not isinstance(game, Game)][:1]:
            raise SpecError(f"games: expected some like Game(0, ('ada', 'bob')), got {other[0]!r}")
        return cls(
            known,
            _column(known.setdefault(game.players, len(known)) for game in rows),
            _column(game.id for game in rows),
            _column(game.round for game in rows),
            _column(NONE if game.opening is None else game.opening for game in rows),
            _column(NONE if game.chance is None else game.chance for game in rows),
        )

    @classmethod
    def joined(cls, parts: Iterable[Games]) -> Games:
        """The games of all parts, one after another."""
        parts = list(parts)
        if len(parts) == 1:
            return parts[0]
        known: dict[tuple[str, ...], int] = {}
        columns: list[tuple[Ids, ...]] = [(np.zeros(0, np.int64),) * 5]
        for part in parts:
            place = np.array([known.setdefault(players, len(known)) for players in part.lineups], np.int64)
            columns.append((place[part.lineup], part.ids, part.rounds, part.openings, part.chances))
        return cls(known, *map(np.concatenate, zip(*columns, strict=True)))

    def take(self, which: slice | NDArray[Any]) -> Games:
        """Some of the games, by their places or a mask."""
        columns = (self.lineup, self.ids, self.rounds, self.openings, self.chances)
        return Games(self.lineups, *(np.ascontiguousarray(column[which]) for column in columns))

    def first(self) -> dict[tuple[str, ...], int]:
        """Who sits where, in the order in which the games have it, and the place of the first game of each."""
        places = np.full(len(self.lineups), len(self))
        places[self.lineup[::-1]] = np.arange(len(self))[::-1]
        return {self.lineups[k]: int(places[k]) for k in np.argsort(places, kind="stable") if places[k] < len(self)}

    def tidy(self) -> Games:
        """The same, with none but the lineups that some game has."""
        used = np.flatnonzero(np.bincount(self.lineup, minlength=len(self.lineups)))
        place = np.zeros(len(self.lineups), np.int64)
        place[used] = np.arange(len(used))
        lineups = (self.lineups[k] for k in used.tolist())
        return Games(lineups, place[self.lineup], self.ids, self.rounds, self.openings, self.chances)

    @property
    def drawn(self) -> Ids:
        """The numbers that dice and cards are drawn from; int64 ``[G]``."""
        return np.where(self.chances == NONE, self.ids, self.chances)

    def __len__(self) -> int:
        return len(self.lineup)

    @overload
    def __getitem__(self, index: int) -> Game: ...
    @overload
    def __getitem__(self, index: slice) -> Games: ...
    def __getitem__(self, index: int | slice) -> Game | Games:
        if isinstance(index, slice):
            return self.take(index)
        at = range(len(self))[index]
        return next(iter(self.take(slice(at, at + 1))))

    def __iter__(self) -> Iterator[Game]:
        columns = (self.ids, self.lineup, self.rounds, self.openings, self.chances)
        for number, lineup, turn, opening, chance in zip(*(column.tolist() for column in columns), strict=True):
            yield Game(
                number,
                self.lineups[lineup],
                turn,
                None if opening == NONE else opening,
                None if chance == NONE else chance,
            )

    def __add__(self, other: Iterable[Game]) -> Games:
        return Games.joined([self, Games.of(other)])

    def __radd__(self, other: Iterable[Game]) -> Games:
        return Games.joined([Games.of(other), self])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Games.of({list(self)!r})"


def _column(numbers: Iterable[int]) -> Ids:
    return np.fromiter(numbers, np.int64)
