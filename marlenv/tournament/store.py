"""The ledger of a tournament: a file that knows every game, its result and its moves, and survives anything.

The schedule is written first. A game is leased before it is played and finished on condition that it is leased still, a
block of games in one transaction; whoever lost the lease in between writes nothing. Rows are written once: a game with
the schedule, its result when it is over. Nothing that can be computed from games is kept. SQLite in WAL mode: two
processes may play from one ledger.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marlenv.errors import PoolError
from marlenv.tournament.moves import MoveLists
from marlenv.tournament.play import Played
from marlenv.tournament.schedule import Game
from marlenv.tournament.spans import Span, holds, joined, marked, runs

VERSION = 4
OPEN, LEASED, FINISHED = range(3)
NO_MOVES = b"1"  # of a game whose moves were not kept, or that had none
SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE game (
  id INTEGER PRIMARY KEY, round INTEGER NOT NULL, players TEXT NOT NULL, opening INTEGER, chance INTEGER
);
CREATE TABLE span (
  start INTEGER PRIMARY KEY, stop INTEGER NOT NULL, state INTEGER NOT NULL, owner TEXT, lease_until REAL
);
CREATE TABLE result (
  id INTEGER PRIMARY KEY, returns BLOB NOT NULL, plies INTEGER NOT NULL, ending INTEGER NOT NULL,
  culprit INTEGER NOT NULL, digest INTEGER NOT NULL, moves BLOB NOT NULL, seconds BLOB NOT NULL
)
"""
PAGE = 16384  # bytes; a row holds the moves of a game, and few pages cost less than many
GAME = "id, round, players, opening, chance"
RESULT = "returns, plies, ending, culprit, digest, moves, seconds"
FREE = "UPDATE span SET state = ?, owner = NULL, lease_until = NULL WHERE state = ?"
FOLLOWING = f"""
SELECT {GAME} FROM span CROSS JOIN game ON id >= start AND id < stop WHERE state = ? ORDER BY start, id LIMIT ?
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
    return False


class Ledger:
    """The games of a tournament in a file.

    Args:
        path: of a ledger that exists; :meth:`create` makes one.

    Raises:
        PoolError: it is no ledger, or one of another version.

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
        self._db = _connect(self.path)
        tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"about", "game"} <= tables:
            self._db.close()
            raise PoolError(f"ledger {self.path}: the file holds {sorted(tables)}, and not the games of a tournament")
        about = dict(self._db.execute("SELECT name, value FROM about"))
        if about.get("version") != str(VERSION):
            self._db.close()
            raise PoolError(
                f"ledger {self.path}: it has version {about.get('version')}, and this marlenv reads {VERSION}; "
                f"use the marlenv that wrote it, or play again into another --ledger: a seed gives the same games"
            )
        self.config: dict[str, Any] = json.loads(about["config"])
        """What is played, as it was given to :meth:`create`."""

    @classmethod
    def create(cls, path: Path | str, config: dict[str, Any], games: Iterable[Game] = ()) -> Ledger:
        """Makes a ledger, schedule and all, or nothing.

        Raises:
            PoolError: the file exists, or its folder does not.
            OSError: it cannot be written.
        """
        path = Path(path)
        if not path.parent.is_dir():
            raise PoolError(f"ledger {path}: there is no folder {path.parent}; make it, or choose another place")
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
                rows = [("version", str(VERSION)), ("config", json.dumps(config, sort_keys=True))]
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

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

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

    def lease(self, owner: str, count: int, seconds: float = 600.0) -> list[Game]:
        """The next games to play, which nobody else gets for some time.

        Games whose lease has run out, or whose process is gone, are among them.
        """
        now = time.time()
        with _transaction(self._db, self.path):
            owners = {o for (o,) in self._db.execute("SELECT DISTINCT owner FROM span WHERE state = ?", (LEASED,))}
            for dead in (o for o in owners if o != owner and gone(o)):
                self._db.execute(f"{FREE} AND owner = ?", (OPEN, LEASED, dead))
            self._db.execute(f"{FREE} AND lease_until < ?", (OPEN, LEASED, now))
            games = _made(self._db.execute(FOLLOWING, (OPEN, count)))
            if games:
                ids = np.array([game.id for game in games])
                _write_spans(self._db, marked(_spans(self._db), ids, LEASED, owner, now + seconds))
        return games

    def release(self, owner: str) -> None:
        """Gives up the games that an owner has leased."""
        with _transaction(self._db, self.path):
            self._db.execute(f"{FREE} AND owner = ?", (OPEN, LEASED, owner))

    def renew(self, owner: str, seconds: float = 600.0) -> None:
        """Keeps the games that an owner has leased, some time longer."""
        with _transaction(self._db, self.path):
            self._db.execute(
                "UPDATE span SET lease_until = ? WHERE state = ? AND owner = ?", (time.time() + seconds, LEASED, owner)
            )

    def finish(self, owner: str, played: Played) -> int:
        """Writes what came out, all in one transaction; how many games were still the owner's to finish."""
        kept = played.moves.packed() if isinstance(played.moves, MoveLists) else [NO_MOVES] * len(played.games)
        ids = np.fromiter((game.id for game in played.games), np.int64, len(played.games))
        rows = zip(
            ids.tolist(),
            _packed(played.returns),
            played.plies.tolist(),
            played.ending.tolist(),
            played.culprit.tolist(),
            played.digest.tolist(),
            kept,
            _packed(played.seconds),
            strict=True,
        )
        with _transaction(self._db, self.path):
            spans = _spans(self._db)
            mine = holds([span for span in spans if (span.state, span.owner) == (LEASED, owner)], ids)
            before = self._db.total_changes
            self._db.executemany(f"INSERT OR IGNORE INTO result VALUES ({', '.join('?' * 8)})", compress(rows, mine))
            written = self._db.total_changes - before
            _write_spans(self._db, marked(spans, np.unique(ids[mine]), FINISHED))
        return written

    def games(self) -> list[Game]:
        """The schedule as far as it is known."""
        return _made(self._db.execute(f"SELECT {GAME} FROM game ORDER BY id"))

    def played(self, *, moves: bool = True) -> Played:
        """All finished games, in the order of their numbers; without their moves if those are not needed."""
        query = f"SELECT {GAME}, {RESULT} FROM game JOIN result USING (id) ORDER BY id"
        rows = self._db.execute(query).fetchall()
        columns: list[Any] = list(zip(*rows, strict=True)) if rows else [[] for _ in range(12)]
        return Played(
            _made(row[:5] for row in rows),
            _unpacked(columns[5], np.float32),
            torch.tensor(columns[6], dtype=torch.int64),
            torch.tensor(columns[7], dtype=torch.int8),
            torch.tensor(columns[8], dtype=torch.int64),
            torch.tensor(columns[9], dtype=torch.int64),
            MoveLists.of(columns[10], columns[6]) if moves else [],
            _unpacked(columns[11], np.float64),
        )

    def counts(self) -> dict[str, int]:
        """How many games are open, leased and finished."""
        found = dict(self._db.execute("SELECT state, SUM(stop - start) FROM span GROUP BY state").fetchall())
        return {name: found.get(state, 0) for state, name in enumerate(("open", "leased", "finished"))}


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    db.execute(f"PRAGMA page_size = {PAGE}")  # of a new file; one that exists keeps its own
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    return db


@contextmanager
def _transaction(db: sqlite3.Connection, path: Path) -> Iterator[None]:
    """All or nothing; nobody else writes meanwhile."""
    try:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("COMMIT")
    except BaseException as error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error):
            raise OSError(f"ledger {path}: {error}; what was written before is kept, run again to go on") from error
        raise


def _packed(numbers: Tensor) -> list[bytes]:
    """The bytes of each row, little-endian."""
    rows = numbers.numpy()
    data, step = rows.astype(rows.dtype.newbyteorder("<")).tobytes(), rows.itemsize * rows.shape[1]
    return [data[at : at + step] for at in range(0, len(data), step)]


def _unpacked(rows: Sequence[bytes], dtype: type[np.floating[Any]]) -> Tensor:
    flat = np.frombuffer(b"".join(rows), np.dtype(dtype).newbyteorder("<")).astype(dtype)
    return torch.from_numpy(flat.reshape(len(rows), -1) if rows else flat)


def _insert(db: sqlite3.Connection, games: Iterable[Game]) -> None:
    """Adds those games whose number is not there yet."""
    games, spans, text = list(games), _spans(db), cache(json.dumps)
    ids = np.fromiter((game.id for game in games), np.int64, len(games))
    fresh = ~holds(spans, ids)
    rows = ((g.id, g.round, text(g.players), g.opening, g.chance) for g in compress(games, fresh))
    db.executemany(f"INSERT OR IGNORE INTO game ({GAME}) VALUES (?, ?, ?, ?, ?)", rows)
    more = [Span(start, stop, OPEN) for start, stop in runs(np.unique(ids[fresh]))]
    _write_spans(db, joined(sorted([*spans, *more])))


def _spans(db: sqlite3.Connection) -> list[Span]:
    """What is true of which games, in their order."""
    return [Span(*row) for row in db.execute("SELECT start, stop, state, owner, lease_until FROM span ORDER BY start")]


def _write_spans(db: sqlite3.Connection, spans: Iterable[Span]) -> None:
    db.execute("DELETE FROM span")
    db.executemany("INSERT INTO span VALUES (?, ?, ?, ?, ?)", spans)


def _made(rows: Iterable[Any]) -> list[Game]:
    """The games of rows; those of the same players share them."""
    known: dict[str, tuple[str, ...]] = {}
    out = []
    for number, turn, text, opening, chance in rows:
        if text not in known:
            known[text] = tuple(json.loads(text))
        out.append(Game(number, known[text], turn, opening, chance))
    return out
