"""The ledger of a tournament: a file that knows every game, its result and its moves, and survives anything.

The schedule is written first. A game is leased before it is played and finished on condition that it is leased still, a
block of games in one transaction; whoever lost the lease in between writes nothing. Rows are written once, each of many
games (:mod:`~marlenv.tournament.blocks` says what is in them): those of ``game`` with the schedule, those of ``result``
when their games are over. Rows of ``span`` say which games are open (0), leased (1) and finished (2). Nothing that can
be computed from games is kept. SQLite in WAL mode: several processes may play from one ledger, and others read it
meanwhile.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marlenv.errors import PoolError
from marlenv.tournament.blocks import AGAIN, GAME, RESULT, game_rows, read_games, read_results, result_rows
from marlenv.tournament.files import placed
from marlenv.tournament.games import Game, Games, Ids
from marlenv.tournament.play import Played
from marlenv.tournament.spans import Span, holds, joined, marked, runs

VERSION = 6
LOST = {"5": ", which lost the order of players and seats"}  # what is wrong with ledgers of a version
OPEN, LEASED, FINISHED = range(3)
SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE game ( -- of the numbers from start up to stop, in BLOBs as marlenv.tournament.blocks says
  start INTEGER PRIMARY KEY, stop INTEGER NOT NULL, round BLOB NOT NULL, lineups TEXT NOT NULL, lineup BLOB NOT NULL,
  opening BLOB, chance BLOB
);
CREATE TABLE span (
  start INTEGER PRIMARY KEY, stop INTEGER NOT NULL, state INTEGER NOT NULL, owner TEXT, lease_until REAL
);
CREATE TABLE result ( -- as in game
  start INTEGER PRIMARY KEY, stop INTEGER NOT NULL, returns BLOB NOT NULL, plies BLOB NOT NULL, ending BLOB NOT NULL,
  culprit BLOB NOT NULL, digest BLOB NOT NULL, moves BLOB, seconds BLOB NOT NULL
)
"""
PAGE = 16384  # bytes; a row holds the moves of games, and few pages cost less than many
FREE = "UPDATE span SET state = ?, owner = NULL, lease_until = NULL WHERE state = ?"
OVERLAPPING = f"""
SELECT {", ".join(GAME)} FROM game
WHERE start >= (SELECT MAX(start) FROM game WHERE start <= ?) AND start < ? ORDER BY start
"""


def me() -> str:
    """Who leases games here: the host and the process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def gone(owner: str) -> bool:
    """Whether a process of this host that leased games runs no more; False for those of other hosts."""
    host, _, process = owner.rpartition(":")
    if host != socket.gethostname() or not process.isdigit():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return has_ended(int(process))


def has_ended(process: int) -> bool:
    """Whether a process has ended, and its parent has not asked how, so that its number is taken; only Linux says."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in "ZX"  # behind its name, which may hold anything


class Ledger:
    """The games of a tournament in a file.

    Args:
        path: of a ledger that exists; :meth:`create` makes one.

    Raises:
        PoolError: it is no ledger, or one of another version, or it cannot be read.

    >>> import tempfile
    >>> ledger = Ledger.create(Path(tempfile.mkdtemp()) / "games.sqlite", {"env": "tic_tac_toe"})
    >>> ledger.add([Game(0, ("ada", "bob")), Game(1, ("bob", "ada"))])
    >>> [game.players for game in ledger.lease("me", 5)], ledger.counts()
    ([('ada', 'bob'), ('bob', 'ada')], {'open': 0, 'leased': 2, 'finished': 0})
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise PoolError(f"ledger {self.path}: that is a folder; name a file in it")
        if not self.path.is_file():
            raise PoolError(f"ledger {self.path}: there is no such file; `marlenv tournament run` makes one")
        with self.path.open("rb") as file:
            if file.read(15) != b"SQLite format 3":
                raise PoolError(f"ledger {self.path}: the file is no ledger of a tournament")
        with _reading(self.path):
            self._connection = _connect(self.path)
        self._writer = ThreadPoolExecutor(1)  # commits while others go on
        self._end = weakref.finalize(self, _closed, self._writer, self._connection)  # who forgets to close closes, too
        self._end.atexit = False
        self._writing: Future[Any] | None = None
        tables = {name for (name,) in self._asked("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"about", "game"} <= tables:
            self.close()
            raise PoolError(f"ledger {self.path}: the file holds {sorted(tables)}, and not the games of a tournament")
        about = dict(self._asked("SELECT name, value FROM about"))
        if about.get("version") != str(VERSION):
            self.close()
            version = about.get("version")
            raise PoolError(
                f"ledger {self.path}: it has version {version}{LOST.get(version or '', '')}, and this marlenv reads "
                f"{VERSION}; use the marlenv that wrote it, or play again into another --ledger: "
                f"a seed gives the same games"
            )
        self.config: dict[str, Any] = self._configured(about)
        """What is played, as it was given to :meth:`create`, in that order."""

    def _configured(self, about: dict[str, str]) -> dict[str, Any]:
        """What is played."""
        try:
            config = json.loads(about["config"])
            if not isinstance(config, dict):
                raise TypeError(f"expected a table, got {config!r}")
        except (KeyError, TypeError, ValueError) as error:
            self.close()
            raise PoolError(
                f"ledger {self.path}: the config in the table about: {type(error).__name__}: {error}; {AGAIN}"
            ) from error
        return config

    @classmethod
    def create(cls, path: Path | str, config: dict[str, Any], games: Iterable[Game] = ()) -> Ledger:
        """Makes a ledger, schedule and all, or nothing.

        Raises:
            PoolError: the file exists, or its folder does not.
            OSError: it cannot be written.
        """
        path = placed("ledger", Path(path))
        if path.exists():
            raise PoolError(f"ledger {path}: the file exists; resume it, or choose another name")
        draft = path.with_name(f".{path.name}.{os.getpid()}")  # becomes the ledger when all is written
        draft.unlink(missing_ok=True)
        try:
            db = _connect(draft)
        except sqlite3.Error as error:
            raise OSError(f"ledger {path}: {error}; nothing was written") from error
        try:
            with _transaction(db, draft):  # one for all: each waits for the disk
                for statement in SCHEMA.split(";"):
                    db.execute(statement)
                rows = [("version", str(VERSION)), ("config", json.dumps(config))]  # whose order tells
                db.executemany("INSERT INTO about VALUES (?, ?)", rows)
                _insert(db, games)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            db.close()
            os.link(draft, path)  # fails where another process was faster
        except FileExistsError:
            raise PoolError(f"ledger {path}: the file exists; resume it, or choose another name") from None
        except sqlite3.Error as error:
            raise OSError(f"ledger {path}: {error}; nothing was written") from error
        finally:
            db.close()
            for leftover in (draft, Path(f"{draft}-wal"), Path(f"{draft}-shm")):
                leftover.unlink(missing_ok=True)
        return cls(path)

    @property
    def _db(self) -> sqlite3.Connection:
        """The file, once all is written that was done together."""
        if self._writing is not None:
            error, self._writing = self._writing.exception(), None
            if error is not None:
                raise _undone(self._connection, self.path, error) from error
        return self._connection

    def _asked(self, question: str) -> list[tuple[Any, ...]]:
        """What the file answers."""
        with _reading(self.path):
            return self._db.execute(question).fetchall()

    def close(self) -> None:
        """Closes the file."""
        _ = self._db  # raises where something is not written
        self._end()

    def add(self, games: Iterable[Game]) -> None:
        """Adds games to play; those whose number is there already are left as they are."""
        with _transaction(self._db, self.path):
            _insert(self._db, games)

    def extend(self, following: Callable[[Played], Iterable[Game]]) -> bool:
        """Adds the games that follow from those played, if all are finished; whether there is anything to play.

        Two processes that do so at once add the same games once.
        """
        with _transaction(self._db, self.path):
            counts = self.counts()
            if not counts["open"] and not counts["leased"]:
                _insert(self._db, following(self.played(moves=False)))
                counts = self.counts()
        return bool(counts["open"] + counts["leased"])

    def lease(self, owner: str, count: int, seconds: float = 600.0) -> Games:
        """The next games to play, which nobody else gets for some time.

        Games that others leased are among them if their lease has run out or their process is gone; the owner's own
        are not, until they are released.
        """
        now = time.time()
        with _transaction(self._db, self.path):
            owners = {o for (o,) in self._db.execute("SELECT DISTINCT owner FROM span WHERE state = ?", (LEASED,))}
            for dead in (o for o in owners if o != owner and gone(o)):
                self._db.execute(f"{FREE} AND owner = ?", (OPEN, LEASED, dead))
            self._db.execute(f"{FREE} AND lease_until < ? AND owner != ?", (OPEN, LEASED, now, owner))
            spans, chosen, left = _spans(self._db), list[Span](), count
            for span in spans:
                if span.state == OPEN and left > 0:
                    chosen.append(span._replace(stop=min(span.stop, span.start + left)))
                    left -= chosen[-1].size
            rows = {row[0]: row for span in chosen for row in self._db.execute(OVERLAPPING, span[:2])}
            games = read_games(rows.values(), f"ledger {self.path}")
            mine = holds(chosen, games.ids)
            games = games if mine.all() else games.take(mine)
            if len(games) < count - left:
                raise PoolError(f"ledger {self.path}: the table game does not have all games; {AGAIN}")
            if games:
                _write_spans(self._db, marked(spans, games.ids, LEASED, owner, now + seconds))
        return games

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is done inside is written at once or not at all, while the caller goes on.

        Whatever is asked of the ledger next waits for it, and raises OSError where it could not be written.
        """
        with _transaction(self._db, self.path, self._write):
            yield

    def _write(self) -> None:
        self._writing = self._writer.submit(self._connection.execute, "COMMIT")

    def release(self, owner: str) -> None:
        """Gives up the games that an owner has leased."""
        with _transaction(self._db, self.path):
            self._db.execute(f"{FREE} AND owner = ?", (OPEN, LEASED, owner))

    def renew(self, owner: str, seconds: float = 600.0) -> None:
        """Keeps the games that an owner has leased, some time longer."""
        _renew(self._db, self.path, owner, seconds)

    @contextmanager
    def renewing(self, owner: str, seconds: float = 600.0) -> Iterator[None]:
        """Keeps the games that an owner has leased or leases meanwhile, however long they take.

        A thread with a connection of its own renews them, four times while a lease lasts.
        """
        over = threading.Event()

        def renew() -> None:
            while not over.wait(seconds / 4):
                with suppress(OSError, sqlite3.Error), closing(_connect(self.path)) as db:  # the next one may do
                    _renew(db, self.path, owner, seconds)

        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def finish(self, owner: str, played: Played) -> int:
        """Writes what came out, all in one transaction; how many games were still the owner's to finish."""
        which = _once(played.games.ids)
        played = played if which is None else played.take(which)
        with _transaction(self._db, self.path):
            spans = _spans(self._db)
            mine = holds([span for span in spans if (span.state, span.owner) == (LEASED, owner)], played.games.ids)
            played = played if mine.all() else played.take(np.flatnonzero(mine))
            places = ", ".join("?" * len(RESULT))
            self._db.executemany(f"INSERT INTO result VALUES ({places})", result_rows(played))
            _write_spans(self._db, marked(spans, played.games.ids, FINISHED))
        return len(played.games)

    def games(self) -> Games:
        """The schedule as far as it is known."""
        rows = self._asked(f"SELECT {', '.join(GAME)} FROM game ORDER BY start")
        return read_games(rows, f"ledger {self.path}")

    def played(self, *, moves: bool = True) -> Played:
        """All finished games, in the order of their numbers; without their moves if those are not needed."""
        columns = ", ".join(name if moves or name != "moves" else "NULL" for name in RESULT)
        rows = self._asked(f"SELECT {columns} FROM result ORDER BY start")
        return read_results(rows, self.games(), f"ledger {self.path}", moves=moves)

    def counts(self) -> dict[str, int]:
        """How many games are open, leased and finished."""
        found = dict(self._asked("SELECT state, SUM(stop - start) FROM span GROUP BY state"))
        return {name: found.get(state, 0) for state, name in enumerate(("open", "leased", "finished"))}


def _closed(writer: ThreadPoolExecutor, connection: sqlite3.Connection) -> None:
    """Closes a file once all is written."""
    writer.shutdown()
    connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)  # a thread may commit
    try:
        db.execute(f"PRAGMA page_size = {PAGE}")  # of a new file; one that exists keeps its own
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error:
        db.close()
        raise
    return db


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Errors of the file as ours."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter from a message of SQLite about names in the file
        raise PoolError(
            f"ledger {path}: {error}; the file is damaged, or another process holds it, or the disk is full, or its "
            f"folder cannot be written to; where it is damaged, take a copy of it that was made before, or play again: "
            f"a seed gives the same games"
        ) from error


@contextmanager
def _transaction(db: sqlite3.Connection, path: Path, commit: Callable[[], object] | None = None) -> Iterator[None]:
    """All or nothing, together with what it is part of; nobody else writes meanwhile."""
    if db.in_transaction:
        yield
        return
    try:
        db.execute("BEGIN IMMEDIATE")
        yield
        (commit or partial(db.execute, "COMMIT"))()
    except BaseException as error:
        undone = _undone(db, path, error)
        if isinstance(error, sqlite3.Error):
            raise undone from error
        raise


def _undone(db: sqlite3.Connection, path: Path, error: BaseException) -> OSError:
    """Takes back what was not committed; what to tell of it."""
    if db.in_transaction:
        db.execute("ROLLBACK")
    return OSError(f"ledger {path}: {error}; what was written before is kept, run again to go on")


def _once(ids: Ids) -> NDArray[np.int64] | None:
    """The places of numbers in their order, of those that come twice the first one's; None if they are so already."""
    return None if (np.diff(ids) > 0).all() else np.unique(ids, return_index=True)[1]


def _renew(db: sqlite3.Connection, path: Path, owner: str, seconds: float) -> None:
    with _transaction(db, path):
        until = time.time() + seconds
        db.execute("UPDATE span SET lease_until = ? WHERE state = ? AND owner = ?", (until, LEASED, owner))


def _insert(db: sqlite3.Connection, given: Iterable[Game]) -> None:
    """Adds those games whose number is not there yet."""
    games, spans = Games.of(given), _spans(db)
    which = _once(games.ids)
    games = games if which is None else games.take(which)
    fresh = ~holds(spans, games.ids)
    games = games if fresh.all() else games.take(fresh)
    db.executemany(f"INSERT INTO game VALUES ({', '.join('?' * len(GAME))})", game_rows(games))
    more = [Span(start, stop, OPEN) for start, stop in runs(games.ids)]
    _write_spans(db, joined(sorted([*spans, *more])))


def _spans(db: sqlite3.Connection) -> list[Span]:
    """What is true of which games, in their order."""
    return [Span(*row) for row in db.execute("SELECT start, stop, state, owner, lease_until FROM span ORDER BY start")]


def _write_spans(db: sqlite3.Connection, spans: Iterable[Span]) -> None:
    db.execute("DELETE FROM span")
    db.executemany("INSERT INTO span VALUES (?, ?, ?, ?, ?)", spans)
