"""The ledger: no game lost, none counted twice, the same games after any crash; and what is no ledger is refused."""

from __future__ import annotations

import gc
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from contents import content
from hypothesis import given, settings
from hypothesis import strategies as st

from marlenv.errors import PoolError, SpecError, UnknownName, Unsupported
from marlenv.tournament.config import Config
from marlenv.tournament.drive import open_ledger, run
from marlenv.tournament.export import board_of
from marlenv.tournament.games import Game
from marlenv.tournament.play import Arena, blank
from marlenv.tournament.report import write_report
from marlenv.tournament.spans import Span, holds, joined, marked, runs
from marlenv.tournament.store import Ledger, me
from marlenv.tournament.verify import verify

CONFIG = {"env": "tic_tac_toe", "players": {"a": "random", "b": "random", "c": "random"}, "cycles": 7, "rows": 8}


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


def test_a_ledger_that_nobody_closes_is_closed_once_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    ledger = finished(path)
    file, before = ledger._connection, content(ledger)
    del ledger
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        file.execute("SELECT 1")
    assert content(Ledger(path)) == before


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


@given(
    st.lists(st.tuples(st.sets(st.integers(0, 40)), st.integers(0, 2), st.sampled_from([None, "a", "b"])), max_size=6),
    st.sets(st.integers(0, 40)),
)
def test_spans_say_what_a_row_per_game_says(marks: list[tuple[set[int], int, str | None]], known: set[int]) -> None:
    plain: dict[int, tuple[int, str | None]] = dict.fromkeys(known, (0, None))
    spans = [Span(start, stop, 0) for start, stop in runs(np.array(sorted(known), dtype=np.int64))]
    for ids, state, owner in marks:
        some = sorted(ids & known)
        plain |= dict.fromkeys(some, (state, owner))
        spans = marked(spans, np.array(some, dtype=np.int64), state, owner)
        assert spans == joined(spans) == sorted(spans)
        assert {k: (s.state, s.owner) for s in spans for k in range(s.start, s.stop)} == plain
        assert sum(s.size for s in spans) == len(plain)
    assert holds(spans, np.arange(41)).tolist() == [k in known for k in range(41)]


def test_games_of_any_numbers_are_leased_in_order_and_finished_once(tmp_path: Path) -> None:
    """With gaps between numbers, given in any order, some of a lease before others, and twice."""
    games = [Game(number, ("a", "b")) for number in (70, 3, 4, 9, 71, 5)]
    ledger = Ledger.create(tmp_path / "a.sqlite", Config.of(CONFIG).table(), games[:4])
    ledger.add(games)
    assert [g.id for g in ledger.games()] == [3, 4, 5, 9, 70, 71]
    assert [g.id for g in ledger.lease("x:1", 4)] == [3, 4, 5, 9]
    arena = Config.of(CONFIG).arena()
    assert ledger.finish("x:1", arena.play([games[3], games[1], games[1], games[0]])) == 2  # 9 and 3, and not 70
    assert ledger.counts() == {"open": 2, "leased": 2, "finished": 2}
    assert [g.id for g in ledger.lease("y:1", 9)] == [70, 71]
    ledger.release("x:1")
    assert [g.id for g in ledger.lease("y:1", 9)] == [4, 5]
    assert ledger.finish("y:1", arena.play([*games[4:], games[2], games[0]])) == 4
    assert ledger.finish("y:1", blank([], 2)) == 0
    assert ledger.lease("y:1", 9) == []
    assert [g.id for g in ledger.played().games] == [3, 4, 5, 9, 70, 71]


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


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="only /proc says it")
def test_games_of_a_killed_process_that_nobody_waited_for_are_free(tmp_path: Path) -> None:
    ledger = open_ledger(Config.of(CONFIG), tmp_path / "a.sqlite")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        owner = me().rpartition(":")[0] + f":{child.pid}"
        assert len(ledger.lease(owner, 42)) == 42
        assert len(ledger.lease("other:1", 50)) == 0  # it lives
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and its number stays taken
        os.kill(child.pid, 0)
        assert len(ledger.lease("other:1", 50)) == 42


@pytest.mark.slow
def test_a_full_disk_is_an_error_and_costs_nothing(tmp_path: Path) -> None:
    config = {"cycles": 2000, "rows": 128}
    ledger = open_ledger(Config.of({**CONFIG, **config}), tmp_path / "a.sqlite")
    pages = ledger._db.execute("PRAGMA page_count").fetchone()[0]
    ledger._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(OSError, match=r"full; what was written before is kept, run again to go on"):
        run(ledger)
    ledger._db.execute("PRAGMA max_page_count = 100000")
    run(ledger)
    assert content(ledger) == content(finished(tmp_path / "b.sqlite", **config))


def test_after_an_error_the_same_process_goes_on(tmp_path: Path) -> None:
    """Its leases are its own, and it does not wait for them to run out."""
    ledger = open_ledger(Config.of(CONFIG), tmp_path / "a.sqlite")

    def interrupted(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(ledger, interrupted)
    assert ledger.counts()["leased"] == 42
    run(ledger)
    assert content(ledger) == content(finished(tmp_path / "b.sqlite"))


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
    more = {"gauntlet": {"challengers": ["d"]}, "swiss": {"rounds": 2}}.get(schedule, {})
    players = dict.fromkeys("abcd", "random")
    ledger = finished(tmp_path / "a.sqlite", schedule=schedule, players=players, cycles=1, **more)
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
        (
            {"players": {"a": "random", "b": {"kind": "random", "sed": 3, "x": 1}}},
            SpecError,
            "player 'b': random takes no options, got sed, x",
        ),
        (
            {"players": {"a": "random", "b": {"kind": "marlenv.tournament:random_player", "net": "a.pt"}}},
            SpecError,
            "player 'b': marlenv.tournament:random_player is a player itself and takes no options, got net; name a",
        ),
        ({"env": "cartpool"}, UnknownName, "cartpool"),
        ({"env": "pendulum"}, (SpecError, UnknownName), "pendulum"),
        ({"challengers": ["z"]}, UnknownName, "no player is called 'z'"),
        ({"seed": "x"}, SpecError, "seed must be a whole number, got 'x'"),
        ({"double": "no"}, SpecError, "double must be true or false, got 'no'"),
        ({"options": 3}, SpecError, "options must be a table, got 3"),
        ({"adjudicate": 3}, SpecError, "adjudicate must be a table, got 3"),
        ({"adjudicate": {"repetition": "3"}}, SpecError, "adjudicate: repetition must be a number, got '3'"),
        ({"adjudicate": {"repetition": 1}}, SpecError, "repetition must be an integer from 2 on, got 1"),
        ({"move_seconds": "9"}, SpecError, "move_seconds must be a number, got '9'"),
        ({"move_seconds": 0}, SpecError, "move_seconds must be above 0, got 0"),
        ({"max_plies": "9"}, SpecError, "max_plies must be an integer from 1 on, got '9'"),
        ({"schedule": 3}, SpecError, "schedule must be a text, got 3"),
        ({"schedule": "swiss", "rounds": 4}, SpecError, "3 players have rounds for 3, got rounds = 4"),
        ({"challengers": ["a"]}, SpecError, "challengers are for schedule 'gauntlet', got 'round_robin'"),
        ({"roles": [["x"]]}, SpecError, "roles are for schedule 'focal', got 'round_robin'"),
        ({"adjudicate": {"win": 5}}, Unsupported, "material: it is counted in chess, got TicTacToe"),
        ({"populations": {"x": "a"}}, SpecError, r"populations must be given as lists .*, got \['a'\]"),
        ({"block": 0}, SpecError, "block must be an integer from 1 on, got 0"),
        (
            {"populations": {"x": ["a"]}},
            SpecError,
            "populations are for the schedules 'teams' and 'focal', got 'round_robin'",
        ),
        ({"rounds": 3}, SpecError, "rounds are for the schedules 'swiss' and 'match', got 'round_robin'"),
        ({"schedule": "knockout", "rounds": 3}, SpecError, "rounds are for the schedules .*, got 'knockout'"),
        ({"increment": 2.0}, SpecError, "increment is for clocks with game_seconds, got increment = 2.0"),
        ({"opening_plies": 3}, SpecError, "opening_plies are for openings, got opening_plies = 3"),
    ],
)
def test_bad_configs_are_refused_and_nothing_is_written(tmp_path: Path, change, error, says: str) -> None:
    with pytest.raises(error, match=says):
        open_ledger(Config.of({**CONFIG, **change}), tmp_path / "a.sqlite")
    assert not list(tmp_path.iterdir())


def test_ledgers_with_fields_that_nothing_reads_are_gone_on_with(tmp_path: Path) -> None:
    """As they were written when nobody minded."""
    config = Config.of({**CONFIG, "rounds": 3, "increment": 2.0})
    ledger = Ledger.create(tmp_path / "a.sqlite", config.table(), [Game(0, ("a", "b"))])
    run(open_ledger(config, tmp_path / "a.sqlite"))
    assert ledger.counts()["finished"] == 1


def test_two_players_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('env = "tic_tac_toe"\n[players]\na = "random"\na = "mcts"\n')
    with pytest.raises(SpecError, match="two players of one name"):
        Config.read(tmp_path / "t.toml")


def test_a_file_that_is_no_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"t.toml: there is no such file; expected the TOML file"):
        Config.read(tmp_path / "t.toml")
    with pytest.raises(SpecError, match="there is no such file; expected the TOML file"):
        Config.read(tmp_path)
    ledger = open_ledger(Config.of(CONFIG), tmp_path / "a.sqlite")
    with pytest.raises(SpecError, match=r"a.sqlite: this is no TOML; a ledger is gone on with by `resume`"):
        Config.read(ledger.path)


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
    with pytest.raises(PoolError, match="has version 99, and this marlenv reads 6"):
        Ledger(tmp_path / "a.sqlite")
    ledger._db.execute("UPDATE about SET value = '5' WHERE name = 'version'")
    with pytest.raises(PoolError, match="has version 5, which lost the order of players and seats, and this"):
        Ledger(tmp_path / "a.sqlite")
    assert isinstance(Config.of(CONFIG).arena(), Arena)


def test_a_ledger_keeps_the_order_of_players_and_seats(tmp_path: Path) -> None:
    """Who is first named is first in a match, and stands higher in a knockout; games name players by seat."""
    seats = {"zeta": ["agent_0"], "beta": ["adversary_0", "adversary_1"], "alpha": ["adversary_2"]}
    given = {
        "env": "simple_tag",
        "options": {"max_steps": 2, "compile": "none"},
        "rows": 2,
        "schedule": "focal",
        "focal": ["zoe"],
        "seats": seats,
        "players": {"zoe": "random", "max": "random", "ada": "random"},
    }
    ledger = open_ledger(Config.of(given), tmp_path / "a.sqlite")
    assert list(ledger.config["players"]) == ["zoe", "max", "ada"]
    assert list(Config.of(ledger.config).arena().seats) == ["zeta", "beta", "alpha"]
    assert open_ledger(Config.of(given), tmp_path / "a.sqlite").config == ledger.config
    for name, order in (("players", "zoe, max, ada"), ("seats", "zeta, beta, alpha")):
        turned = {**given, name: dict(reversed(given[name].items()))}
        with pytest.raises(PoolError, match=f"of a tournament with {name} in another order: {order}; choose another"):
            open_ledger(Config.of(turned), tmp_path / "a.sqlite")


@pytest.mark.parametrize("left", [40, 5000, 20000, 40000])
def test_a_ledger_that_was_cut_off_says_so(tmp_path: Path, left: int) -> None:
    path = tmp_path / "a.sqlite"
    ledger = open_ledger(Config.of(CONFIG), path)
    run(ledger)
    ledger.close()
    whole = path.read_bytes()
    assert len(whole) > left
    path.write_bytes(whole[:left])
    with pytest.raises(PoolError, match=rf"ledger {path}: .*; the file is damaged, or another process holds it"):
        Ledger(path).played()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE about SET value = '{' WHERE name = 'config'", "JSONDecodeError: Expecting property name"),
        ("UPDATE about SET value = '[1]' WHERE name = 'config'", r"expected a table, got \[1\]"),
        ("DELETE FROM about WHERE name = 'config'", "KeyError: 'config'"),
    ],
)
def test_a_ledger_whose_config_is_damaged_says_so(tmp_path: Path, change: str, says: str) -> None:
    path = tmp_path / "a.sqlite"
    ledger = Ledger.create(path, {"env": "tic_tac_toe"})
    ledger._db.execute(change)
    ledger.close()
    with pytest.raises(PoolError, match=rf"ledger {path}: the config in the table about: .*{says}.*; the file is dam"):
        Ledger(path)


def test_a_config_that_is_none_is_told_with_its_ledger(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    ledger = Ledger.create(path, {"env": "tic_tac_toe", "playrs": {"ada": "random"}})
    for use in (run, verify, board_of, lambda ledger: write_report(ledger, tmp_path / "a.html")):
        with pytest.raises(SpecError, match="there is no field 'playrs'; did you mean 'players'") as caught:
            use(ledger)
        assert caught.value.__notes__ == [f"in {path}"]


def test_places_where_no_ledger_can_be_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place, says in (
        (tmp_path / "gone" / "a.sqlite", "there is no folder"),
        (tmp_path / "file" / "a.sqlite", "there is no folder"),
        (tmp_path, "that is a folder; name a file in it"),
    ):
        with pytest.raises(PoolError, match=says):
            Ledger.create(place, {"env": "tic_tac_toe"})
    with pytest.raises(PoolError, match="that is a folder; name a file in it"):
        Ledger(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
