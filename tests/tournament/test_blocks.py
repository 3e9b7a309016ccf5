"""Rows of many games: whatever they are cut into, and whoever loses a lease, they give back what was written."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from contents import content
from full_disks import full_disk
from hypothesis import given, settings
from hypothesis import strategies as st

from marlenv.errors import PoolError
from marlenv.tournament import blocks
from marlenv.tournament.blocks import RESULT, pack, unpack
from marlenv.tournament.games import Game, Games
from marlenv.tournament.moves import MoveLists
from marlenv.tournament.play import Played
from marlenv.tournament.store import Ledger

IDS = st.integers(-3, 40)
FLOATS = st.sampled_from([0.0, -0.0, 1.0, -1.0, 127.0, 128.0, 0.5, float("nan"), float("inf"), 1e30])


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9), st.integers(0, 63))
def test_numbers_come_back(numbers: list[int], shift: int) -> None:
    column = np.array(numbers, dtype=np.int64) >> shift
    assert unpack(pack(column), len(column)).tolist() == column.tolist()
    ramp = int(column[0]) // 9 + np.arange(len(column)) * (int(column[-1]) // 99)
    assert unpack(pack(ramp), len(ramp)).tolist() == ramp.tolist()
    assert len(pack(ramp)) <= 17 or len(ramp) < 3


@given(st.lists(st.lists(FLOATS, min_size=2, max_size=2), min_size=1), st.sampled_from([np.float32, np.float64]))
@pytest.mark.filterwarnings("ignore:overflow")
def test_earnings_come_back_to_the_bit(rows: list[list[float]], dtype: type) -> None:
    column = np.array(rows, dtype)
    again = unpack(pack(column), len(column), 2).astype(dtype)
    assert again.tobytes() == column.tobytes()


def results(games: list[Game], salt: int, *, kept: bool) -> Played:
    """What a player of that salt makes of games; no two make the same."""
    rng = [np.random.default_rng([game.id + 9, salt]) for game in games]
    plies = np.array([g.integers(0, 4) for g in rng], np.int64)
    whole = np.array([g.integers(-1, 2, 2) for g in rng], np.float32).reshape(-1, 2)
    codes = [g.integers(-200, 200, (n, 1)) for g, n in zip(rng, plies, strict=True)]
    return Played(
        Games.of(games),
        torch.from_numpy(whole if salt % 2 else whole / 3),
        torch.from_numpy(plies),
        torch.tensor([int(g.integers(0, 7)) for g in rng], dtype=torch.int8),
        torch.tensor([int(g.integers(-1, 2)) for g in rng], dtype=torch.int64),
        torch.tensor([int(g.integers(-(2**63), 2**63 - 1)) for g in rng], dtype=torch.int64),
        MoveLists(np.concatenate([np.zeros((0, 1), np.int64), *codes]), plies) if kept else [],
        torch.tensor([g.random(2, np.float32).tolist() for g in rng], dtype=torch.float64).reshape(-1, 2),
    )


def by_game(played: Played) -> dict[int, tuple[object, ...]]:
    """The results, to the bit."""
    columns = (played.returns, played.plies, played.ending, played.culprit, played.digest, played.seconds)
    moves = played.moves if len(played.moves) else [[]] * len(played.games)
    rows = zip(played.games, *(column.numpy() for column in columns), moves, strict=True)
    return {game.id: (game, *(x.tobytes() for x in row), made) for game, *row, made in rows}


@pytest.mark.slow
@settings(deadline=None)
@given(
    adds=st.lists(st.lists(st.tuples(IDS, st.sampled_from(["ab", "ba", "ac"]), st.none() | st.integers(0, 3))),
                  max_size=4),
    acts=st.lists(st.tuples(st.sampled_from("xy"), st.integers(1, 9), st.booleans(), st.lists(IDS, max_size=12),
                            st.booleans()), max_size=12),
    most=st.integers(1, 9),
)  # fmt: skip
def test_a_ledger_gives_back_what_was_written(tmp_path_factory, adds, acts, most: int) -> None:
    """In any parts and order, numbers twice, games of others among them, and leases that run out in between."""
    first, *rest = [[Game(k, tuple(names), k % 3, chance, chance) for k, names, chance in add] for add in adds] or [[]]
    with patch.object(blocks, "MOST", most):
        ledger = Ledger.create(tmp_path_factory.mktemp("ledger") / "a.sqlite", {}, first)
        for add in rest:
            ledger.add(add)
        games: dict[int, Game] = {}
        for game in [game for add in (first, *rest) for game in add]:
            games.setdefault(game.id, game)
        owner, want = dict.fromkeys(sorted(games), ""), dict[int, tuple[object, ...]]()
        for salt, (who, count, lasting, some, kept) in enumerate(acts):
            late = {"x": "y late", "y": "x late"}[who]  # one's own stay one's own
            owner = {k: "" if name == late else name for k, name in owner.items()}
            leased = ledger.lease(who, count, 60 if lasting else -1)
            free = [k for k in owner if not owner[k] and k not in want][:count]
            assert leased == [games[k] for k in free]
            owner |= dict.fromkeys(free, who if lasting else f"{who} late")
            mine = [k for k in dict.fromkeys(some) if owner.get(k, "").startswith(who) and k not in want]
            played = results([games.get(k, Game(k, ("a", "b"))) for k in some], salt, kept=kept)
            assert ledger.finish(who, played) == len(mine)
            want |= {k: by_game(played)[k] for k in mine}
        ledger.close()
    again = Ledger(ledger.path)
    assert again.games() == [games[k] for k in sorted(games)]
    assert by_game(again.played()) == {k: want[k] for k in sorted(want)}
    assert list(again.played().games.ids) == sorted(want)
    assert again.played(moves=False).moves == []
    assert len(content(again)) == len(games)
    copy = Ledger.create(ledger.path.with_name("b.sqlite"), {}, again.played().games)  # moves of some, perhaps
    assert copy.finish("x", again.played()) == 0
    copy.lease("x", 99)
    assert copy.finish("x", again.played()) == len(want)
    assert by_game(copy.played()) == by_game(again.played())


def test_rows_are_few_and_small(tmp_path: Path) -> None:
    """A schedule of any size is some rows; a game alone takes no more than its numbers."""
    pairs = Games([("ada", "bob"), ("bob", "ada")], np.arange(100_000) % 2)
    ledger = Ledger.create(tmp_path / "a.sqlite", {}, pairs)
    rows = ledger._db.execute("SELECT start, stop, LENGTH(lineup) FROM game").fetchall()
    assert [(b - a, size) for a, b, size in rows] == [(n, n + 1) for n in (32768, 32768, 32768, 1696)]
    assert [game.id for game in ledger.lease("x", 3)] == [0, 1, 2]
    ledger.finish("x", results(list(pairs[1:2]), 1, kept=True))
    (row,) = ledger._db.execute(f"SELECT {', '.join(RESULT)} FROM result")
    assert row[:2] == (1, 2)
    assert sum(len(blob) for blob in row[2:]) < 60


@pytest.mark.parametrize(
    ("table", "column", "change"),
    [
        *[("result", name, "SUBSTR({0}, 1, LENGTH({0}) - 1)") for name in ("returns", "digest", "seconds", "moves")],
        *[("result", name, "{0} || {0}") for name in RESULT[2:]],
        *[("result", name, "x''") for name in RESULT[2:]],
        *[("result", name, "'text'") for name in RESULT[2:]],
        *[("result", name, "stop + 1") for name in ("stop",)],
        *[("game", name, "{0} || {0}") for name in ("round", "lineup", "lineups")],
        ("game", "lineup", "x'6209'"),
        ("game", "lineups", "'[5]'"),
        ("game", "stop", "start"),
        ("game", "stop", "1 << 60"),
        ("result", "ending", "x'6207'"),  # of endings there are seven
        ("result", "ending", "x'62ff'"),
        ("result", "culprit", "x'6202'"),  # in a game of two
        ("result", "culprit", "x'62fe'"),
        ("result", "plies", "x'62ff'"),
    ],
)
def test_a_damaged_row_is_named(tmp_path: Path, table: str, column: str, change: str) -> None:
    games = [Game(k, ("a", "b") if k % 3 else ("b", "a")) for k in range(9)]
    ledger = Ledger.create(tmp_path / "a.sqlite", {}, games)
    ledger.finish("x", results(list(ledger.lease("x", 9)), 1, kept=True))
    assert len(ledger.played().games) == 9
    value = f"CAST({change.format(column)} AS BLOB)" if change.startswith("SUBSTR") or "||" in change else change
    ledger._db.execute(f"UPDATE {table} SET {column} = {value}")
    with pytest.raises(PoolError, match=rf"a.sqlite: the row of games 0 to \d+ in the table {table}: .*is damaged"):
        ledger.played()


def test_games_that_are_lost_are_missed(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "a.sqlite", {}, [Game(k, ("a", "b")) for k in (0, 1, 5)])
    ledger.finish("x", results(list(ledger.lease("x", 2)), 1, kept=True))
    ledger._db.execute("DELETE FROM game WHERE start = 5")
    with pytest.raises(PoolError, match=r"a.sqlite: the table game does not have all games; the file is damaged"):
        ledger.lease("x", 1)


@pytest.mark.parametrize("shift", [1, 3, 9], ids=["two of one game", "of a gap", "behind all"])
def test_results_of_no_game_and_twice_are_refused(tmp_path: Path, shift: int) -> None:
    ledger = Ledger.create(tmp_path / "a.sqlite", {}, [Game(k, ("a", "b")) for k in (0, 1, 2, 7)])
    ledger.finish("x", results(list(ledger.lease("x", 2)), 1, kept=True))
    columns = ", ".join(RESULT[2:])
    ledger._db.execute(f"INSERT INTO result SELECT start + {shift}, stop + {shift}, {columns} FROM result")
    with pytest.raises(PoolError, match=r"results of games that it does not have, or two of one game"):
        ledger.played()


def test_who_waits_for_the_disk_is_told_that_it_is_full(tmp_path: Path) -> None:
    """What is done together is written while others go on, and an error is raised when the ledger is asked again."""
    ledger = Ledger.create(tmp_path / "a.sqlite", {}, [Game(k, ("a", "b")) for k in range(9)])
    before = content(ledger)
    with ledger.together():
        ledger.finish("x", results(list(ledger.lease("x", 5)), 1, kept=True))
        assert ledger.counts()["finished"] == 5
    assert Ledger(ledger.path).counts()["finished"] in (0, 5)
    assert ledger.counts() == {"open": 4, "leased": 0, "finished": 5}
    after = content(ledger)
    assert before != after

    with full_disk(Path(f"{ledger.path}-wal").stat().st_size):
        with ledger.together():
            ledger.finish("x", results(list(ledger.lease("x", 4)), 1, kept=True))
        with pytest.raises(OSError, match=r"a.sqlite: (disk I/O|database or disk).*; what was written before is kept"):
            ledger.counts()
    assert content(ledger) == after
    assert [game.id for game in ledger.lease("y", 9)] == [5, 6, 7, 8]
    ledger.close()
