"""Workers of a tournament on Ray, on this machine or on many: they play blocks of games, and only the driver writes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import Any

import cloudpickle as pickle
import torch

from marlenv.errors import WorkerFailed
from marlenv.tournament.config import Config
from marlenv.tournament.games import Games
from marlenv.tournament.play import Arena, Played
from marlenv.vector.protocol import Failure
from marlenv.vector.ray import SPREAD, started

WHO = "tournament"


class Worker:
    """What runs in Ray: an arena of its own, with its own players.

    Args:
        table: the config of the tournament.
        path: where the driver looks for modules, so that the players are found here too.
    """

    def __init__(self, table: dict[str, Any], path: list[str]) -> None:
        torch.set_num_threads(1)
        sys.path += [folder for folder in path if folder not in sys.path]
        self._table = table
        self._arena: Arena | None = None

    def play(self, games: Games) -> Played:
        """Plays some games.

        Raises:
            WorkerFailed: an error that does not come through pickle, with its traceback as text.
        """
        try:
            if self._arena is None:
                self._arena = Config.of(self._table).arena()
            return self._arena.play(games)
        except Exception as error:
            if comes_through(error):
                raise
            failure = Failure.of(error, 0)
            raise WorkerFailed(f"{WHO}: {failure.summary}\n\nIn its worker:\n{failure.text}") from None


def comes_through(error: Exception) -> bool:
    """Whether another process can read an error.

    >>> comes_through(KeyError("net"))
    True
    """
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever a class of somebody else raises when it is made anew
        return False
    return True


class RayCrew:
    """Some workers, each with a block of games at a time; a block whose worker is lost is played by another.

    Args:
        table: the config of the tournament.
        count: how many workers.
        options: of their actors, such as ``resources``.
        patience: how often in a row workers may be lost before it is an error.
    """

    def __init__(
        self, table: dict[str, Any], count: int, options: Mapping[str, Any] | None = None, patience: int = 5
    ) -> None:
        self.ray = started(WHO)
        self.table, self.patience, self.lost = table, patience, 0
        self.options = {**SPREAD, **(options or {})}
        self.idle = [self._worker() for _ in range(count)]
        self.size = count
        self._busy: dict[Any, tuple[Any, Games]] = {}

    def _worker(self) -> Any:
        return self.ray.remote(Worker).options(**self.options).remote(self.table, sys.path)

    @property
    def free(self) -> bool:
        """Whether a worker has nothing to do."""
        return bool(self.idle)

    @property
    def busy(self) -> bool:
        """Whether games are being played."""
        return bool(self._busy)

    def start(self, games: Games) -> None:
        """Gives a block of games to a worker that is free."""
        worker = self.idle.pop()
        self._busy[worker.play.remote(games)] = worker, games

    def finished(self, seconds: float) -> list[Played]:
        """The blocks that have ended, waiting some time for one.

        Raises:
            WorkerFailed: worker after worker is lost, or the error of a player cannot be read here.
        """
        ready, _ = self.ray.wait(list(self._busy), num_returns=1, timeout=seconds)
        out = []
        for reference in ready:
            worker, games = self._busy.pop(reference)
            try:
                out.append(self.ray.get(reference))
                self.lost = 0
            except self.ray.exceptions.RayTaskError as error:  # the error of a player, as if it played here
                raise error.cause from error
            except self.ray.exceptions.UnserializableException as error:  # as where a module is on its host alone
                raise WorkerFailed(f"{WHO}: a worker's error cannot be read here: {error}") from error
            except self.ray.exceptions.RayError as error:
                self.lost += 1
                if self.lost > self.patience:
                    says = str(error).splitlines()[0]
                    raise WorkerFailed(
                        f"tournament: {self.lost} workers were lost one after another: {says}"
                    ) from error
                worker = self._worker()
                self._busy[worker.play.remote(games)] = worker, games
                continue
            self.idle.append(worker)
        return out

    def close(self) -> None:
        """Ends the workers."""
        for worker in [*self.idle, *(worker for worker, _ in self._busy.values())]:
            with contextlib.suppress(Exception):
                self.ray.kill(worker)
