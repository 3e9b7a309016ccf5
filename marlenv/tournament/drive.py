"""Plays a tournament from its ledger: games are leased, played, written down, until there are none."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from marlenv.errors import PoolError, whole
from marlenv.tournament.config import Config
from marlenv.tournament.games import Games
from marlenv.tournament.plan import OF_ROUNDS, following
from marlenv.tournament.play import Arena, Played, blank
from marlenv.tournament.store import Ledger, me

ORDERED = ("players", "seats")  # the tables of a config whose order says who comes first


def open_ledger(config: Config, path: Path | str) -> Ledger:
    """The ledger of a tournament: that of ``path``, or a new one with the schedule in it.

    Env and players are loaded before anything is written.

    Raises:
        PoolError: the file is the ledger of another tournament; names what differs.
        SpecError: a field of a new tournament is one that nothing reads.
    """
    path = Path(path)
    if not path.exists():
        config.check_used()
        arena = config.arena()
        games = following(config, arena, blank([], len(arena.seats)))
        try:
            return Ledger.create(path, config.table(), games)
        except PoolError:
            if not path.exists():
                raise  # else another process was faster, and we play from its ledger
    ledger = Ledger(path)
    if says := differing(ledger.config, config.table()):
        raise PoolError(f"ledger {path}: it is of a tournament with {says}; choose another --ledger")
    return ledger


def differing(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """What is other in a config than in the one that is wanted; "" if they are of one tournament.

    >>> differing({"seed": 0, "players": {"a": "random", "b": "random"}}, {"seed": 1, "players": {"a": "random"}})
    'other players, seed'
    >>> differing({"players": {"a": "random", "b": "random"}}, {"players": {"b": "random", "a": "random"}})
    'players in another order: a, b'
    """
    other = sorted(name for name in wanted if there.get(name) != wanted[name])
    says = [f"other {', '.join(other)}"] if other else []
    for name in ORDERED:
        order = there.get(name)
        if name in wanted and name not in other and isinstance(order, Mapping) and list(order) != list(wanted[name]):
            says.append(f"{name} in another order: {', '.join(order)}")
    return ", and ".join(says)


class Crew(Protocol):
    """Who plays blocks of games."""

    size: int
    """How many blocks at once."""

    @property
    def free(self) -> bool:
        """Whether it can play one more."""

    @property
    def busy(self) -> bool:
        """Whether it plays any."""

    def start(self, games: Games) -> None:
        """Takes a block."""

    def finished(self, seconds: float) -> list[Played]:
        """The blocks that have ended, waiting some time for one."""

    def close(self) -> None:
        """Lets go."""


class Here:
    """Plays blocks of games in this process, one after another.

    Args:
        arena: in which they are played.
        progress: called with the number of games that ended.
    """

    size = 1

    def __init__(self, arena: Arena, progress: Callable[[int], None]) -> None:
        self.arena, self.progress, self._games = arena, progress, Games.of(())

    @property
    def free(self) -> bool:
        """Whether it has nothing to play."""
        return not self._games

    @property
    def busy(self) -> bool:
        """Whether it has something to play."""
        return bool(self._games)

    def start(self, games: Games) -> None:
        """Takes a block."""
        self._games = games

    def finished(self, seconds: float) -> list[Played]:
        """Plays it."""
        played, self._games = self.arena.play(self._games, self.progress), Games.of(())
        return [played]

    def close(self) -> None:
        """Nothing is held."""


def run(
    ledger: Ledger,
    progress: Callable[[int], None] | None = None,
    *,
    workers: int = 0,
    lease_seconds: float = 600.0,
) -> None:
    """Plays all that is left of a tournament; after a crash or an error, call it again.

    Args:
        ledger: what is played; several processes may play from one.
        progress: called with the number of games that ended, whenever some did.
        workers: how many processes play, on Ray; this one leases games for them and writes what they played. With 0 it
            plays by itself.
        lease_seconds: after how long games are played here that another process leased and gave no sign of life since,
            as on a host that is lost. This one gives them all the time, however long a game takes.
    """
    whole("tournament", "workers", workers, 0)
    config = Config.kept(ledger)
    arena, owner, block = config.arena(), me(), config.block or 8 * config.rows
    tell = progress or (lambda count: None)
    crew: Crew = Here(arena, tell)
    if workers:
        from marlenv.tournament.ray import RayCrew

        crew = RayCrew(ledger.config, workers)
    with closing(crew), ledger.renewing(owner, lease_seconds):
        ledger.release(owner)  # what this process began before, and an error ended
        done: list[Played] = []
        while True:
            with ledger.together():  # one wait for the disk
                for played in done:
                    ledger.finish(owner, played)
                share = -(-ledger.counts()["open"] // crew.size)  # so that all have something to do
                while crew.free and (games := ledger.lease(owner, min(block, max(share, 1)), lease_seconds)):
                    crew.start(games)
            if workers and done:
                tell(sum(len(played.games) for played in done))
            done = []
            if crew.busy:
                done = crew.finished(lease_seconds / 4)
            elif config.schedule in OF_ROUNDS and not ledger.extend(partial(following, config, arena)):
                return
            elif ledger.counts()["leased"]:  # somebody else is about to finish them
                time.sleep(0.05)
            elif not ledger.counts()["open"]:
                return
