"""The ledger of a tournament: a file that knows every game, its result and its moves, and survives anything.

The schedule is written first. A game is leased before it is played and finished by one conditional update, a block of
games in one transaction; whoever lost the lease in between writes nothing. Nothing that can be computed from games is
kept. SQLite in WAL mode: two processes may play from one ledger.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch

from marlenv.errors import PoolError
from marlenv.tournament.play import Moves, Played
from marlenv.tournament.schedule import Game

VERSION = 2
OPEN, LEASED, FINISHED = range(3)
SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE game (
  id INTEGER PRIMARY KEY, round INTEGER NOT NULL, players TEXT NOT NULL, opening INTEGER, chance INTEGER,
  state INTEGER NOT NULL DEFAULT 0, owner TEXT, lease_until REAL,
  returns TEXT, plies INTEGER, ending INTEGER, culprit INTEGER, digest INTEGER, moves TEXT, seconds TEXT
);
CREATE INDEX game_state ON game (state, id);
"""
GAME = "id, round, players, opening, chance"
RESULT = "returns, plies, ending, culprit, digest, moves, seconds"


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
                f"use the marlenv that wrote it"
            )
        self.config: dict[str, Any] = json.loads(about["config"])
        """What is played, as it was given to :meth:`create`."""

    @classmethod
    def create(cls, path: Path | str, config: dict[str, Any], games: Iterable[Game] = ()) -> Ledger:
        """Makes a ledger, schedule and all, or nothing.

        Raises:
            PoolError: the file exists.
        """
        path = Path(path)
        if path.exists():
            raise PoolError(f"ledger {path}: the file exists; resume it, or choose another name")
        draft = path.with_name(f".{path.name}.{os.getpid()}")  # becomes the ledger when all is written
        draft.unlink(missing_ok=True)
        db = _connect(draft)
        try:
            db.executescript(SCHEMA)
            with _transaction(db, draft):
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
            owners = [o for (o,) in self._db.execute("SELECT DISTINCT owner FROM game WHERE state = ?", (LEASED,))]
            for dead in (o for o in owners if o != owner and gone(o)):
                self._db.execute("UPDATE game SET state = ? WHERE state = ? AND owner = ?", (OPEN, LEASED, dead))
            self._db.execute("UPDATE game SET state = ? WHERE state = ? AND lease_until < ?", (OPEN, LEASED, now))
            following = "SELECT id FROM game WHERE state = ? ORDER BY id LIMIT ?"
            games = self._games(f"WHERE id IN ({following})", (OPEN, count))
            self._db.execute(
                f"UPDATE game SET state = ?, owner = ?, lease_until = ? WHERE id IN ({following})",
                (LEASED, owner, now + seconds, OPEN, count),
            )
        return games

    def renew(self, owner: str, seconds: float = 600.0) -> None:
        """Keeps the games that an owner has leased, some time longer."""
        with _transaction(self._db, self.path):
            self._db.execute(
                "UPDATE game SET lease_until = ? WHERE state = ? AND owner = ?", (time.time() + seconds, LEASED, owner)
            )

    def finish(self, owner: str, played: Played) -> int:
        """Writes what came out, all in one transaction; how many games were still the owner's to finish."""
        rows = [
            (
                FINISHED,
                str(returns),
                plies,
                ending,
                culprit,
                digest,
                str(moves).replace(" ", ""),
                str(seconds),
                game.id,
                LEASED,
                owner,
            )
            for game, returns, plies, ending, culprit, digest, moves, seconds in zip(
                played.games,
                played.returns.numpy().tolist(),
                played.plies.tolist(),
                played.ending.tolist(),
                played.culprit.tolist(),
                played.digest.tolist(),
                played.moves or [[] for _ in played.games],
                ((1e6 * played.seconds).round() / 1e6).numpy().tolist(),
                strict=True,
            )
        ]
        with _transaction(self._db, self.path):
            before = self._db.total_changes
            self._db.executemany(
                "UPDATE game SET state = ?, returns = ?, plies = ?, ending = ?, culprit = ?, digest = ?, moves = ?, "
                "seconds = ?, owner = NULL, lease_until = NULL WHERE id = ? AND state = ? AND owner = ?",
                rows,
            )
            return self._db.total_changes - before

    def games(self) -> list[Game]:
        """The schedule as far as it is known."""
        return self._games()

    def _games(self, where: str = "", values: tuple[Any, ...] = ()) -> list[Game]:
        return _made(self._db.execute(f"SELECT {GAME} FROM game {where} ORDER BY id", values))

    def played(self, *, moves: bool = True) -> Played:
        """All finished games, in the order of their numbers; without their moves if those are not needed."""
        query = f"SELECT {GAME}, {RESULT} FROM game WHERE state = ? ORDER BY id"
        rows = self._db.execute(query, (FINISHED,)).fetchall()
        columns: list[Any] = list(zip(*rows, strict=True)) if rows else [[] for _ in range(12)]
        made: list[Moves] = [json.loads(text) for text in columns[10]] if moves else []
        return Played(
            _made(row[:5] for row in rows),
            torch.tensor([json.loads(text) for text in columns[5]]),
            torch.tensor(columns[6], dtype=torch.int64),
            torch.tensor(columns[7], dtype=torch.int8),
            torch.tensor(columns[8], dtype=torch.int64),
            torch.tensor(columns[9], dtype=torch.int64),
            made,
            torch.tensor([json.loads(text) for text in columns[11]], dtype=torch.float64),
        )

    def counts(self) -> dict[str, int]:
        """How many games are open, leased and finished."""
        found = dict(self._db.execute("SELECT state, COUNT(*) FROM game GROUP BY state").fetchall())
        return {name: found.get(state, 0) for state, name in enumerate(("open", "leased", "finished"))}


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
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


def _insert(db: sqlite3.Connection, games: Iterable[Game]) -> None:
    text = cache(json.dumps)
    rows = ((g.id, g.round, text(g.players), g.opening, g.chance) for g in games)
    db.executemany(f"INSERT OR IGNORE INTO game ({GAME}) VALUES (?, ?, ?, ?, ?)", rows)


def _made(rows: Iterable[Any]) -> list[Game]:
    """The games of rows; those of the same players share them."""
    known: dict[str, tuple[str, ...]] = {}
    out = []
    for number, turn, text, opening, chance in rows:
        if text not in known:
            known[text] = tuple(json.loads(text))
        out.append(Game(number, known[text], turn, opening, chance))
    return out
