"""Plays a tournament from its ledger: games are leased, played, written down, until there are none."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from marlenv.errors import PoolError
from marlenv.tournament.config import Config
from marlenv.tournament.plan import following
from marlenv.tournament.play import blank
from marlenv.tournament.store import Ledger, me


def open_ledger(config: Config, path: Path | str) -> Ledger:
    """The ledger of a tournament: that of ``path``, or a new one with the schedule in it.

    Env and players are loaded before anything is written.

    Raises:
        PoolError: the file is the ledger of another tournament; names what differs.
    """
    path = Path(path)
    if not path.exists():
        arena = config.arena()
        return Ledger.create(path, config.table(), following(config, arena, blank([], len(arena.seats))))
    ledger, table = Ledger(path), config.table()
    if other := sorted(name for name in table if ledger.config.get(name) != table[name]):
        raise PoolError(f"ledger {path}: it is of a tournament with other {', '.join(other)}; choose another --ledger")
    return ledger


def run(ledger: Ledger, progress: Callable[[int], None] | None = None, *, lease_seconds: float = 600.0) -> None:
    """Plays all that is left of a tournament; after a crash, call it again.

    Args:
        ledger: what is played; several processes may play from one.
        progress: called with the number of games that ended, whenever some did.
        lease_seconds: after how long games that were leased on another host, and not finished, are played here.
    """
    config = Config.of(ledger.config)
    arena, owner = config.arena(), me()
    block = config.block or 4 * config.rows
    while True:
        games = ledger.lease(owner, block, lease_seconds)
        if games:
            ledger.finish(owner, arena.play(games, progress))
        elif not ledger.extend(partial(following, config, arena)):
            return
        elif ledger.counts()["leased"]:  # somebody else is about to finish them
            time.sleep(0.05)
