"""Who plays keeps its games however long they take, and errors of workers are told; without Ray."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from marlenv.errors import IllegalAction, WorkerFailed
from marlenv.tournament import random_player, round_robin
from marlenv.tournament import ray as workers
from marlenv.tournament.config import Config
from marlenv.tournament.drive import open_ledger, run
from marlenv.tournament.games import Games
from marlenv.tournament.play import Played
from marlenv.tournament.store import Ledger

LEASE = 1.0  # seconds
CONFIG = {"env": "tic_tac_toe", "cycles": 4, "rows": 8, "block": 4}


def thinks_long(turn: Any) -> torch.Tensor:
    time.sleep(0.8 * LEASE)
    return random_player(turn)


@pytest.mark.slow
def test_a_game_that_outlasts_its_lease_stays_with_who_plays_it(tmp_path: Path) -> None:
    """No game ends within three leases; another process asks for games all the time."""
    players = {"a": "test_workers:thinks_long", "b": "random"}
    ledger = open_ledger(Config.of({**CONFIG, "players": players, "block": 8}), tmp_path / "a.sqlite")
    told, started = list[tuple[float, int]](), time.monotonic()

    def drive() -> None:
        run(ledger, lambda count: told.append((time.monotonic() - started, count)), lease_seconds=LEASE)

    thread, other = threading.Thread(target=drive), Ledger(tmp_path / "a.sqlite")
    thread.start()
    while other.counts()["open"]:
        time.sleep(0.01)
    taken = list[int]()
    while thread.is_alive() and not any(taken):
        taken.append(len(other.lease("another host:1", 99)))
        time.sleep(0.05)
    other.release("another host:1")
    thread.join()
    assert told[0][0] > 2 * LEASE
    assert max(taken) == 0
    assert sum(count for _, count in told) == 8
    assert ledger.counts() == {"open": 0, "leased": 0, "finished": 8}


class Threads:
    """A crew of two threads, the first block of which takes three leases."""

    size = 2

    def __init__(self, table: dict[str, Any], count: int) -> None:
        self.table, self.begun = table, Counter[int]()
        self.playing: dict[threading.Thread, list[Played]] = {}

    @property
    def free(self) -> bool:
        return len(self.playing) < self.size

    @property
    def busy(self) -> bool:
        return bool(self.playing)

    def start(self, games: Games) -> None:
        self.begun.update(game.id for game in games)
        out: list[Played] = []

        def play() -> None:
            if games[0].id == 0:
                time.sleep(3 * LEASE)
            out.append(Config.of(self.table).arena().play(games))

        thread = threading.Thread(target=play)
        self.playing[thread] = out
        thread.start()

    def finished(self, seconds: float) -> list[Played]:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for thread in [thread for thread in self.playing if not thread.is_alive()]:
                return self.playing.pop(thread)
            time.sleep(0.01)
        return []

    def close(self) -> None:
        for thread in self.playing:
            thread.join()


@pytest.mark.slow
def test_a_driver_gives_each_game_to_one_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crews = list[Threads]()

    def crew(table: dict[str, Any], count: int) -> Threads:
        crews.append(Threads(table, count))
        return crews[-1]

    monkeypatch.setattr(workers, "RayCrew", crew)
    config = Config.of({**CONFIG, "players": dict.fromkeys("ab", "random")})
    ledger = open_ledger(config, tmp_path / "a.sqlite")
    run(ledger, workers=2, lease_seconds=LEASE)
    assert crews[0].begun == dict.fromkeys(range(8), 1)
    assert ledger.counts()["finished"] == 8


def test_ones_own_games_are_not_leased_twice(tmp_path: Path) -> None:
    config = Config.of({**CONFIG, "players": dict.fromkeys("ab", "random")})
    ledger = open_ledger(config, tmp_path / "a.sqlite")
    assert [game.id for game in ledger.lease("me:1", 3, seconds=-1)] == [0, 1, 2]
    assert [game.id for game in ledger.lease("me:1", 99)] == [3, 4, 5, 6, 7]
    assert [game.id for game in ledger.lease("another:1", 99)] == [0, 1, 2]  # whose lease has run out


class NeedsTwo(Exception):
    """An error that pickle cannot make anew."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")


def no_net(turn: Any) -> torch.Tensor:
    raise NeedsTwo("net", "no checkpoint")


def cheats(turn: Any) -> torch.Tensor:
    return torch.full_like(turn.seat, 99)


def test_a_worker_tells_errors_that_do_not_come_through_as_text() -> None:
    def worker(player: str) -> workers.Worker:
        players = {"a": f"test_workers:{player}", "b": "random"}
        return workers.Worker(Config.of({**CONFIG, "players": players, "forfeits": False}).table(), [])

    games = Games.of(round_robin(["a", "b"]))
    with pytest.raises(WorkerFailed, match=r"(?s)tournament: NeedsTwo: net: no checkpoint.*in no_net.*player 'a' was"):
        worker("no_net").play(games)
    with pytest.raises(IllegalAction, match="player 'a' chose 99"):
        worker("cheats").play(games)


def test_an_error_that_cannot_be_read_here_is_no_lost_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ray answers it, for one block: nothing is played again."""

    class RayError(Exception):
        pass

    class RayTaskError(RayError):
        pass

    class UnserializableException(RayError):
        pass

    def get(reference: object) -> None:
        raise UnserializableException("NeedsTwo: net: no checkpoint")

    errors = SimpleNamespace(**{e.__name__: e for e in (RayError, RayTaskError, UnserializableException)})
    ray = SimpleNamespace(exceptions=errors, wait=lambda refs, **_: (refs[:1], refs[1:]), get=get)
    asked: Iterator[int] = iter(range(99))
    actor = SimpleNamespace(play=SimpleNamespace(remote=lambda games: next(asked)))
    monkeypatch.setattr(workers, "started", lambda who: ray)
    monkeypatch.setattr(workers.RayCrew, "_worker", lambda self: actor)
    crew = workers.RayCrew({}, 1)
    crew.start(Games.of(round_robin(["a", "b"])))
    with pytest.raises(WorkerFailed, match="a worker's error cannot be read here: NeedsTwo: net: no checkpoint"):
        crew.finished(1.0)
    assert next(asked) == 1
