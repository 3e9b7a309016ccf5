"""The ledger: no game lost, none counted twice, the same games after any crash; and what is no ledger is refused."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from marlenv.errors import PoolError, SpecError, UnknownName
from marlenv.tournament.config import Config
from marlenv.tournament.drive import open_ledger, run
from marlenv.tournament.play import Arena
from marlenv.tournament.store import Ledger, me

CONFIG = {"env": "tic_tac_toe", "players": {"a": "random", "b": "random", "c": "random"}, "cycles": 7, "rows": 8}


def content(ledger: Ledger) -> list[tuple[object, ...]]:
    query = (
        "SELECT id, round, players, opening, chance, state, returns, plies, ending, culprit, digest, moves FROM game"
    )
    return ledger._db.execute(f"{query} ORDER BY id").fetchall()


def finished(path: Path, **fields: object) -> Ledger:
    ledger = open_ledger(Config.of({**CONFIG, **fields}), path)
    run(ledger)
    return ledger


def test_a_finished_ledger_is_left_as_it_is(tmp_path: Path) -> None:
    ledger = finished(tmp_path / "a.sqlite")
    before = content(ledger)
    run(ledger)
    assert content(ledger) == before
    assert ledger.counts() == {"open": 0, "leased": 0, "finished": 42}
    other = finished(tmp_path / "b.sqlite")
    assert content(other) == before


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6), keep=st.lists(st.booleans(), min_size=6, max_size=6))
def test_however_it_is_interrupted_the_games_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], keep: list[bool]
) -> None:
    """Blocks of any size, some of which are leased and never finished, as by a process that was killed."""
    folder = tmp_path_factory.mktemp("ledgers")
    config = Config.of({**CONFIG, "cycles": 2})
    ledger = open_ledger(config, folder / "a.sqlite")
    for size, kept in zip(sizes, keep, strict=False):
        games = ledger.lease("somewhere else:1", size, seconds=60 if kept else -1)
        if kept:
            assert ledger.finish("somewhere else:1", config.arena().play(games)) == len(games)
    run(ledger)
    assert content(ledger) == content(finished(folder / "b.sqlite", cycles=2))


def test_who_lost_its_lease_writes_nothing(tmp_path: Path) -> None:
    config = Config.of(CONFIG)
    ledger = open_ledger(config, tmp_path / "a.sqlite")
    games = ledger.lease("slow:1", 5, seconds=-1)
    again = ledger.lease("other:1", 5)
    assert [g.id for g in games] == [g.id for g in again]
    played = config.arena().play(games)
    assert ledger.finish("slow:1", played) == 0
    assert ledger.finish("other:1", played) == 5
    assert ledger.finish("other:1", played) == 0


def test_games_of_a_process_that_is_gone_are_free_at_once(tmp_path: Path) -> None:
    ledger = open_ledger(Config.of(CONFIG), tmp_path / "a.sqlite")
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    dead = me().rpartition(":")[0] + f":{child.pid}"
    assert len(ledger.lease(dead, 42)) == 42
    assert len(ledger.lease("other:1", 50)) == 42


def test_a_full_disk_is_an_error_and_costs_nothing(tmp_path: Path) -> None:
    config = {"cycles": 60, "rows": 128}
    ledger = open_ledger(Config.of({**CONFIG, **config}), tmp_path / "a.sqlite")
    pages = ledger._db.execute("PRAGMA page_count").fetchone()[0]
    ledger._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(OSError, match=r"full; what was written before is kept, run again to go on"):
        run(ledger)
    ledger._db.execute("PRAGMA max_page_count = 100000")
    run(ledger)
    assert content(ledger) == content(finished(tmp_path / "b.sqlite", **config))


def test_what_is_in_the_ledger_is_what_the_arena_played(tmp_path: Path) -> None:
    ledger = finished(tmp_path / "a.sqlite", seed=0)
    played = ledger.played()
    again = Config.of(CONFIG).arena().play(ledger.games())
    for got, want in zip(played[:7], again[:7], strict=True):
        assert torch.equal(got, want) if isinstance(got, torch.Tensor) else got == want


@pytest.mark.parametrize(
    ("schedule", "games"), [("swiss", 2 * 2), ("knockout", 3 * 2), ("round_robin", 12), ("gauntlet", 6)]
)
def test_schedules_are_played_to_their_end(tmp_path: Path, schedule: str, games: int) -> None:
    more = {"challengers": ["d"]} if schedule == "gauntlet" else {}
    players = dict.fromkeys("abcd", "random")
    ledger = finished(tmp_path / "a.sqlite", schedule=schedule, players=players, cycles=1, rounds=2, **more)
    assert ledger.counts()["finished"] == games


def test_openings_are_played_and_replayed(tmp_path: Path) -> None:
    from marlenv.tournament.export import board_of, positions

    ledger = finished(tmp_path / "a.sqlite", openings=[["5"]], cycles=1, players={"a": "random", "b": "random"})
    played, board = ledger.played(), board_of(ledger)
    assert board is not None
    for game, moves, returns in zip(played.games, played.moves, played.returns, strict=True):
        states, made = positions(board, game, moves)
        assert len(states) == len(made) + 1
        assert torch.equal(board.rules.returns(states[-1]), returns)
        assert bool(board.rules.over(states[-1]))


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"cycle": 3}, SpecError, "there is no field 'cycle'; did you mean 'cycles'"),
        ({"schedule": "robin"}, SpecError, "schedule 'robin'"),
        ({"players": {"a": "random"}}, SpecError, "two players or more"),
        (
            {"players": {"a": "random", "b": "rando"}},
            SpecError,
            "player 'b': kind 'rando'; did you mean 'random'|player 'b': kind 'rando'",
        ),
        ({"players": {"a": "random", "b": "nowhere:thing"}}, SpecError, "player 'b': nowhere:thing does not load"),
        ({"players": {"a": "random", "b": {"kind": "mcts", "depth": 3}}}, SpecError, "player 'b': mcts does not load"),
        ({"env": "cartpool"}, UnknownName, "cartpool"),
        ({"env": "pendulum"}, (SpecError, UnknownName), "pendulum"),
        ({"challengers": ["z"]}, UnknownName, "no player is called 'z'"),
    ],
)
def test_bad_configs_are_refused_and_nothing_is_written(tmp_path: Path, change, error, says: str) -> None:
    with pytest.raises(error, match=says):
        open_ledger(Config.of({**CONFIG, **change}), tmp_path / "a.sqlite")
    assert not list(tmp_path.iterdir())


def test_two_players_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('env = "tic_tac_toe"\n[players]\na = "random"\na = "mcts"\n')
    with pytest.raises(SpecError, match="two players of one name"):
        Config.read(tmp_path / "t.toml")


def test_what_is_no_ledger_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database at all")
    with pytest.raises(PoolError, match="the file is no ledger"):
        Ledger(tmp_path / "text")
    with pytest.raises(PoolError, match="no such file"):
        Ledger(tmp_path / "nothing")
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE x (y)").connection.close()
    with pytest.raises(PoolError, match=r"holds \['x'\], and not the games"):
        Ledger(tmp_path / "other")
    ledger = open_ledger(Config.of(CONFIG), tmp_path / "a.sqlite")
    with pytest.raises(PoolError, match="with other cycles, seed; choose another --ledger"):
        open_ledger(Config.of({**CONFIG, "seed": 4, "cycles": 2}), tmp_path / "a.sqlite")
    ledger._db.execute("UPDATE about SET value = '99' WHERE name = 'version'")
    with pytest.raises(PoolError, match="has version 99, and this marlenv reads 2"):
        Ledger(tmp_path / "a.sqlite")
    assert isinstance(Config.of(CONFIG).arena(), Arena)
