"""The rows of a ledger: games whose numbers follow one another, and what came out of them, in columns of bytes.

A row is of the games from number ``start`` up to ``stop``, which is not among them. A column is a letter of Python's
:mod:`struct`, which says what its numbers are, then the numbers, little-endian: one per game; a single one where all
are the same; of more than two games two where each is as much above the one before: the first, and by how much. In
``returns`` and ``seconds`` (to seven digits) there is one per game and seat, in ``moves`` those of the first game, then
those of the next, as many moves as the game has ``plies``. NULL is a column of which no game has anything: no opening,
no chance that it shares, no moves that were kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marlenv.errors import PoolError
from marlenv.tournament.asking import ENDINGS
from marlenv.tournament.games import NONE, Games, Ids
from marlenv.tournament.moves import MoveLists
from marlenv.tournament.play import Played, blank

GAME = ("start", "stop", "round", "lineups", "lineup", "opening", "chance")
"""``lineups`` is JSON: who sits where, by seat, in each of the ways that there are; ``lineup`` says which is whose."""
RESULT = ("start", "stop", "returns", "plies", "ending", "culprit", "digest", "moves", "seconds")
AGAIN = "the file is damaged; go on from a copy, or play again into another --ledger: a seed gives the same games"
MOST = 32768  # games of a row
WHOLE = {"b": 2**7, "h": 2**15, "i": 2**31, "q": 2**63}  # which numbers are below, and the same below zero

Row = tuple[Any, ...]


def pack(column: NDArray[Any]) -> bytes:
    r"""The bytes of a column, in the narrowest numbers that give it back.

    >>> pack(np.array([1, 2, 300])), pack(np.array([5, 6, 7])), pack(np.array([7, 7, 7]))
    (b'h\x01\x00\x02\x00,\x01', b'b\x05\x01', b'b\x07')
    >>> pack(np.array([[1.0, -1.0]], np.float32)), pack(np.array([[0.5, 0.0]], np.float32))
    (b'b\x01\xff', b'f\x00\x00\x00?\x00\x00\x00\x00')
    """
    column, letter = _short(column), str(column.dtype.char)
    if column.dtype.kind == "i":
        low, high = (int(column.min()), int(column.max())) if column.size else (0, 0)
        letter = next(name for name, limit in WHOLE.items() if -limit <= low and high < limit)
    elif column.size and float(column.flat[0]).is_integer():  # perhaps all are
        with np.errstate(invalid="ignore"):
            small = column.astype(np.int8)
        letter = "b" if small.astype(column.dtype).tobytes() == column.tobytes() else letter
    narrow = np.ascontiguousarray(column, f"<{letter}")
    return b"".join((letter.encode(), narrow.reshape(-1).data))


def _short(column: NDArray[Any]) -> NDArray[Any]:
    """A column in one number or two, where that can be."""
    if column.ndim > 1 or len(column) < 3:
        return column[:1] if column.ndim == 1 and len(set(column.tolist())) == 1 else column
    (first, second), last, size = column[:2].tolist(), int(column[-1]), len(column)
    step = second - first
    if last - first != step * (size - 1) or (column != first + step * np.arange(size)).any():
        return column
    return np.array([first, step] if step else [first])


def unpack(blob: bytes, count: int, each: int | None = 1) -> NDArray[Any]:
    """The numbers of a column of so many games, with so many of each; None for as many as there are.

    >>> unpack(pack(np.array([7, 7, 7])), 3).tolist(), unpack(pack(np.array([[1, 2], [1, 2]])), 2, None).tolist()
    ([7, 7, 7], [[1, 2], [1, 2]])
    """
    letter = chr(blob[0])
    if letter not in "bhiqfd":
        raise ValueError(f"expected a letter of bhiqfd, got {letter!r}")
    flat = np.frombuffer(blob, f"<{letter}", offset=1)
    if each == 1 and len(flat) == 1:
        return np.repeat(flat, count)
    if each == 1 and len(flat) == 2 < count:
        return int(flat[0]) + int(flat[1]) * np.arange(count)
    every = len(flat) // max(count, 1) if each is None else each
    if not every or len(flat) != count * every:
        raise ValueError(f"expected {each or 'some'} numbers for each of {count} games, got {len(flat)}")
    return flat if each == 1 else flat.reshape(count, every)


def stretches(ids: Ids, alike: NDArray[np.bool_] | None = None) -> list[tuple[int, int]]:
    """From which to which place the games of a row stand.

    Args:
        ids: each once, in order; int64 ``[G]``.
        alike: what has to be the same of all of them; bool ``[G]``.

    >>> stretches(np.array([3, 4, 5, 9]))
    [(0, 3), (3, 4)]
    """
    ends = np.diff(ids) != 1
    if alike is not None:
        ends |= np.diff(alike)
    cuts = [0, *(np.flatnonzero(ends) + 1).tolist(), len(ids)]
    return [(at, min(at + MOST, stop)) for start, stop in pairwise(cuts) for at in range(start, stop, MOST)]


def game_rows(games: Games) -> Iterator[Row]:
    """The rows of games, which are in the order of their numbers."""
    for a, b in stretches(games.ids):
        part = games[a:b].tidy()
        start = int(part.ids[0])
        absent = [None if (column == NONE).all() else pack(column) for column in (part.openings, part.chances)]
        yield start, start + b - a, pack(part.rounds), json.dumps(part.lineups), pack(part.lineup), *absent


def result_rows(played: Played) -> Iterator[Row]:
    """The rows of results, which are in the order of the numbers of their games."""
    ids, plies, moves = played.games.ids, played.plies.numpy(), played.moves
    kept = moves.lengths == plies if isinstance(moves, MoveLists) else np.zeros(len(ids), np.bool_)
    columns = [x.numpy() for x in (played.returns, played.plies, played.ending, played.culprit, played.digest)]
    seconds = played.seconds.numpy().astype(np.float32)
    for a, b in stretches(ids, kept):
        start = int(ids[a])
        made = pack(moves.part(a, b).reshape(-1, 1)) if isinstance(moves, MoveLists) and kept[a] else None
        yield start, start + b - a, *(pack(column[a:b]) for column in columns), made, pack(seconds[a:b])


def read_games(rows: Iterable[Row], who: str) -> Games:
    """The games of rows.

    Args:
        rows: in the order of :data:`GAME`.
        who: whose they are.

    Raises:
        PoolError: a row is damaged; says which.
    """
    return Games.joined(_read(_games, row, who, "game") for row in rows)


def read_results(rows: Iterable[Row], games: Games, who: str, *, moves: bool) -> Played:
    """What came out of the games of rows.

    Args:
        rows: in the order of :data:`RESULT` and of their numbers.
        games: the schedule.
        who: whose they are.
        moves: whether moves are read.

    Raises:
        PoolError: a row is damaged; says which.
    """
    parts = [_read(partial(_results, games=games), row, who, "result") for row in rows]
    if not parts:
        return blank((), 0)
    ids, returns, plies, ending, culprit, digest, codes, lengths, seconds = map(list, zip(*parts, strict=True))
    numbers = np.concatenate(ids)
    place = np.searchsorted(games.ids, numbers)
    if not (np.diff(numbers) > 0).all() or place[-1] == len(games) or (games.ids[place] != numbers).any():
        raise PoolError(f"{who}: it has results of games that it does not have, or two of one game; {AGAIN}")
    filled = [part for part in codes if part.size] or codes[:1]
    return Played(
        games if len(numbers) == len(games) else games.take(place),
        _joined(returns),
        _joined(plies),
        _joined(ending),
        _joined(culprit),
        _joined(digest),
        MoveLists(np.concatenate(filled), np.concatenate(lengths)) if moves else [],
        _joined(seconds),
    )


def _joined(parts: list[NDArray[Any]]) -> Tensor:
    return torch.from_numpy(np.concatenate(parts))


def _read(read: Callable[[Row], Any], row: Row, who: str, table: str) -> Any:
    try:
        return read(row)
    except (ValueError, TypeError, IndexError) as error:
        start, stop = row[:2]
        raise PoolError(f"{who}: the row of games {start} to {stop} in the table {table}: {error}; {AGAIN}") from error


def _games(row: Row) -> Games:
    start, stop, rounds, text, lineup, *absent = row
    count, lineups = _count(start, stop), [tuple(players) for players in json.loads(text)]
    which = unpack(lineup, count)
    if which.min() < 0 or which.max() >= len(lineups):
        raise ValueError(f"expected numbers of {len(lineups)} lineups, got {which.min()} to {which.max()}")
    columns = (None if blob is None else _whole(blob, count) for blob in absent)
    return Games(lineups, which.astype(np.int64), np.arange(start, stop), _whole(rounds, count), *columns)


def _results(row: Row, games: Games) -> Row:
    start, stop, returns, plies, ending, culprit, digest, moves, seconds = row
    count = _count(start, stop)
    made = _whole(plies, count)
    seats = len(games[min(int(np.searchsorted(games.ids, start)), len(games) - 1)].players)
    lengths = np.zeros_like(made) if moves is None else made
    return (
        np.arange(start, stop),
        unpack(returns, count, seats).reshape(count, seats).astype(np.float32),
        _within("plies", made, 0, int(np.iinfo(np.int64).max)),
        _within("endings", _whole(ending, count), 0, len(ENDINGS) - 1).astype(np.int8),
        _within("seats that forfeited", _whole(culprit, count), -1, seats - 1),
        _whole(digest, count),
        unpack(moves, int(lengths.sum()), None) if lengths.any() else np.zeros((0, 1), np.int8),
        lengths,
        unpack(seconds, count, seats).reshape(count, seats).astype(np.float64),
    )


def _count(start: int, stop: int) -> int:
    """How many games a row is of."""
    if not 0 < stop - start <= MOST:
        raise ValueError(f"expected 1 to {MOST} games in a row, got {stop - start}")
    return stop - start


def _within(what: str, numbers: Ids, low: int, high: int) -> Ids:
    """Raises ValueError where numbers lie outside."""
    if len(numbers) and not low <= numbers.min() <= numbers.max() <= high:
        raise ValueError(f"expected {what} from {low} to {high}, got {numbers.min()} to {numbers.max()}")
    return numbers


def _whole(blob: bytes, count: int) -> Ids:
    return unpack(blob, count).astype(np.int64)
