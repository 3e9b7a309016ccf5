"""Workers on Ray play the games of one process, whatever becomes of them; one process writes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from contents import content

from marlenv.cli.__main__ import main
from marlenv.errors import IllegalAction, SpecError, WorkerFailed
from marlenv.tournament import random_player
from marlenv.tournament.config import Config
from marlenv.tournament.drive import open_ledger, run
from marlenv.tournament.store import Ledger, me

PATHS = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
OPTIONS = {
    "log_to_driver": False,
    "runtime_env": {"env_vars": {"PYTHONPATH": os.pathsep.join(PATHS)}},
}

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings
ray = pytest.importorskip("ray", reason="Ray is an extra")

CONFIG = {"env": "tic_tac_toe", "players": {"a": "random", "b": "random"}, "cycles": 60, "rows": 8, "block": 16}


@pytest.fixture(scope="module")
def machine() -> Iterator[None]:
    """Ray on this machine."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray.init("local", num_cpus=2, include_dashboard=False, **OPTIONS)
    yield
    ray.shutdown()


@pytest.fixture
def nodes() -> Iterator[tuple[Any, Any]]:
    """Two nodes of Ray on this machine: the cluster, and the second node."""
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, **OPTIONS)
    cluster.wait_for_nodes()
    yield cluster, second
    ray.shutdown()
    cluster.shutdown()


def opened(path: Path, **fields: Any) -> Ledger:
    return open_ledger(Config.of({**CONFIG, **fields}), path)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    """The games as one process plays them."""
    ledger = opened(tmp_path_factory.mktemp("alone") / "a.sqlite")
    run(ledger)
    return content(ledger)


def placed(folder: str) -> Any:
    """Makes a random player that leaves the name of its node in a folder, and takes its time."""

    def player(turn: Any) -> torch.Tensor:
        (Path(folder) / ray.get_runtime_context().get_node_id()).touch()
        time.sleep(0.05)
        return random_player(turn)

    return player


@pytest.mark.parametrize("lost", [True, pytest.param(False, marks=pytest.mark.full)], ids=["one is lost", "two nodes"])
def test_workers_on_two_nodes_play_the_same_games(
    nodes: tuple[Any, Any], tmp_path: Path, alone: list[Any], lost: bool
) -> None:
    """Workers are spread over nodes; those of a node that is lost are begun again on another one."""
    (cluster, second), told, places = nodes, list[int](), tmp_path / "nodes"
    places.mkdir()
    ledger = opened(tmp_path / "a.sqlite")
    ledger.config["players"] = {"a": {"kind": "test_ray:placed", "folder": str(places)}, "b": "random"}

    def progress(count: int) -> None:
        told.append(count)
        if lost and second.node_id in os.listdir(places) and second in cluster.worker_nodes:
            cluster.remove_node(second)

    run(ledger, progress, workers=2)
    assert content(ledger) == alone
    assert sum(told) == 120
    assert len(os.listdir(places)) == 2
    assert (second in cluster.worker_nodes) is not lost
    assert len([node for node in ray.nodes() if node["Alive"]]) == 2 - lost


@pytest.mark.usefixtures("machine")
def test_workers_play_the_same_games(tmp_path: Path, alone: list[Any]) -> None:
    ledger, told, owners = opened(tmp_path / "a.sqlite"), list[int](), set[str]()

    def progress(count: int) -> None:
        told.append(count)
        rows = ledger._db.execute("SELECT DISTINCT owner FROM span WHERE owner IS NOT NULL")
        owners.update(owner for (owner,) in rows)

    run(ledger, progress, workers=2)
    assert content(ledger) == alone
    assert sum(told) == 120
    assert owners == {me()}  # workers lease nothing and write nothing


@pytest.mark.usefixtures("machine")
def test_rounds_are_played_to_their_end(tmp_path: Path) -> None:
    fields = {"schedule": "swiss", "players": dict.fromkeys("abcde", "random"), "cycles": 3, "rounds": 3}
    ledgers = [opened(tmp_path / f"{workers}.sqlite", **fields) for workers in (0, 2)]
    for workers, ledger in zip((0, 2), ledgers, strict=True):
        run(ledger, workers=workers)
    assert content(ledgers[0]) == content(ledgers[1])


def dies_once(flag: str) -> Any:
    """Makes a random player that kills its process, once in all."""

    def player(turn: Any) -> torch.Tensor:
        with_flag = Path(flag)
        if 37 in turn.games.tolist() and not with_flag.exists():
            with_flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return random_player(turn)

    return player


def dies_always(turn: Any) -> torch.Tensor:
    os.kill(os.getpid(), signal.SIGKILL)
    return turn.seat


def cheats(turn: Any) -> torch.Tensor:
    return torch.full_like(turn.seat, 99)


@pytest.mark.usefixtures("machine")
def test_a_worker_that_is_killed_costs_no_game(tmp_path: Path, alone: list[Any]) -> None:
    flag = tmp_path / "died"
    config = Config.of({**CONFIG, "players": {"a": "random", "b": "random"}})
    ledger = open_ledger(config, tmp_path / "a.sqlite")
    # who plays is written down, so that only the workers get the player that kills
    table = {**ledger.config, "players": {"a": {"kind": "test_ray:dies_once", "flag": str(flag)}, "b": "random"}}
    ledger.config["players"] = table["players"]
    run(ledger, workers=2)
    assert flag.exists()
    assert content(ledger) == alone


@pytest.mark.usefixtures("machine")
def test_errors_of_players_and_lost_workers_are_told(tmp_path: Path) -> None:
    players = {"a": "test_ray:cheats", "b": "random"}
    ledger = opened(tmp_path / "a.sqlite", players=players, forfeits=False)
    with pytest.raises(IllegalAction, match="player 'a' chose 99"):
        run(ledger, workers=2)
    ledger = opened(tmp_path / "b.sqlite", players={"a": "test_ray:dies_always", "b": "random"})
    with pytest.raises(WorkerFailed, match="workers were lost one after another"):
        run(ledger, workers=1)
    assert ledger.counts()["finished"] == 0
    with pytest.raises(SpecError, match="workers must be an integer from 0 on, got -1"):
        run(ledger, workers=-1)


@pytest.mark.usefixtures("machine")
def test_the_command_takes_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.toml").write_text('env = "tic_tac_toe"\n[players]\na = "random"\nb = "random"\n')
    assert main(["tournament", "run", str(tmp_path / "t.toml"), "--workers", "2"]) == 0
    assert "2 games" in capsys.readouterr().out


@pytest.mark.usefixtures("machine")
def test_who_is_alive_keeps_its_games(tmp_path: Path) -> None:
    """A block that takes longer than a lease is not played twice, as long as its driver gives signs of life."""
    ledger = opened(tmp_path / "a.sqlite", cycles=1, players={"a": "test_ray:sleeps", "b": "random"})
    other, seen = Ledger(tmp_path / "a.sqlite"), set[int]()

    def progress(count: int) -> None:
        seen.add(len(other.lease("elsewhere:1", 5)))

    run(ledger, progress, workers=1, lease_seconds=1.0)
    assert seen <= {0}
    assert ledger.counts()["finished"] == 2


def sleeps(turn: Any) -> torch.Tensor:
    time.sleep(0.5)
    return random_player(turn)
