"""Schedules from a config: each is the one that its fields describe, and mistakes name the nearest."""

from __future__ import annotations

import html
import re
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from marlenv.errors import BadNotation, PoolError, SpecError, UnknownName
from marlenv.tournament import random_player
from marlenv.tournament.config import Config
from marlenv.tournament.drive import open_ledger, run
from marlenv.tournament.export import board_of, positions
from marlenv.tournament.games import Game
from marlenv.tournament.plan import following, sprt_counts, verdict
from marlenv.tournament.play import blank
from marlenv.tournament.report import write_report

TAG = {"env": "simple_tag", "options": {"max_steps": 2, "compile": "none"}, "rows": 4}


def planned(names: str = "abc", **fields: Any) -> list[Game]:
    config = Config.of({"env": "tic_tac_toe", "players": dict.fromkeys(names.split() or names, "random"), **fields})
    arena = config.arena()
    return following(config, arena, blank([], len(arena.seats)))


def seatings(games: list[Game]) -> Counter[tuple[str, ...]]:
    return Counter(game.players for game in games)


@pytest.mark.parametrize("schedule", ["round_robin", "gauntlet"])
@pytest.mark.parametrize("double", [True, False])
def test_cycles_openings_and_both_seats_multiply(schedule: str, double: bool) -> None:
    openings = [["1"], ["5", "1"], ["8"]]
    more = {"challengers": ["a"]} if schedule == "gauntlet" else {}
    games = planned("a b c", schedule=schedule, double=double, cycles=2, openings=openings, **more)
    pairs = [("a", "b"), ("a", "c")] + ([("b", "c")] if schedule == "round_robin" else [])
    assert len(games) == len(pairs) * 2 * 3 * (1 + double)
    met = Counter((frozenset(game.players), game.opening) for game in games)
    assert set(met) == {(frozenset(pair), k) for pair, k in product(pairs, range(3))}
    assert set(met.values()) == {2 * (1 + double)}
    if double:  # each pair of games: both seats, one opening, the same dice and cards
        for one, other in zip(games[::2], games[1::2], strict=True):
            assert (one.players[::-1], one.opening, one.chance) == (other.players, other.opening, other.chance)
        assert set(Counter(game.chance for game in games).values()) == {2}
    assert [game.id for game in games] == list(range(len(games)))


def test_what_has_the_same_dice_is_as_the_config_says() -> None:
    own = planned("a b c", cycles=3, chance="games")
    assert {game.chance for game in own} == {None}
    dealt = planned("a b c", cycles=3, chance="cycles")
    assert Counter(game.chance for game in dealt) == {0: 6, 1: 6, 2: 6}


def test_all_pairings_of_a_cycle_get_the_same_cards() -> None:
    """Duplicate: players who play alike earn alike, game by game, whoever they are."""
    players = dict.fromkeys("ab", "test_plan:first_legal")
    config = Config.of({"env": "kuhn_poker", "players": players, "cycles": 20, "chance": "cycles"})
    arena = config.arena()
    games = following(config, arena, blank([], 2))
    played = arena.play(games)
    by_deal: dict[int, set[tuple[float, ...]]] = {}
    for game, returns in zip(games, played.returns.tolist(), strict=True):
        by_deal.setdefault(game.chance, set()).add(tuple(returns))
    assert all(len(found) == 1 for found in by_deal.values())
    assert len(set().union(*by_deal.values())) > 1


def first_legal(turn: Any) -> torch.Tensor:
    return turn.legal.int().argmax(-1)


def test_rounds_go_on_with_new_openings_dice_and_numbers(tmp_path: Path) -> None:
    for schedule, rounds in (("swiss", 3), ("knockout", 2)):
        fields = {"schedule": schedule, "openings": [["1"], ["5"]], "env": "tic_tac_toe"}
        more = {"rounds": rounds} if schedule == "swiss" else {}
        config = Config.of({**fields, **more, "players": dict.fromkeys("abcd", "random")})
        ledger = open_ledger(config, tmp_path / f"{schedule}.sqlite")
        run(ledger)
        games = ledger.games()
        assert [game.id for game in games] == list(range(len(games)))
        assert {game.round for game in games} == set(range(rounds))
        pairs = Counter((game.round, frozenset(game.players), game.opening) for game in games)
        assert set(pairs.values()) == {2 if schedule == "knockout" else 1}
        assert len({game.chance for game in games}) == len(pairs)


@pytest.mark.slow
@pytest.mark.parametrize(("players", "rounds"), [("ab", 1), ("abc", 2), ("abcd", 2), ("abcdef", 3), ("abcdefghi", 5)])
def test_a_swiss_tournament_has_rounds_for_its_players(players: str, rounds: int, tmp_path: Path) -> None:
    for seed in range(8):
        config = Config("tic_tac_toe", dict.fromkeys(players, "random"), schedule="swiss", seed=seed)
        ledger = open_ledger(config, tmp_path / f"{seed}.sqlite")
        run(ledger)
        assert {game.round for game in ledger.games()} == set(range(rounds))
        assert config.rounds == rounds == config.table()["rounds"]


def takes_the_centre(turn: Any) -> torch.Tensor:
    return torch.where(turn.legal[:, 4], 4, random_player(turn))


def test_a_match_ends_when_it_is_clear_who_is_stronger(tmp_path: Path) -> None:
    text = (
        'env = "tic_tac_toe"\nschedule = "match"\nrounds = 200\ncycles = 5\nsprt = {elo0 = 0, elo1 = 60}\n'
        '[players]\na = "%s"\nb = "random"\n'
    )
    for first, says in (("test_plan:takes_the_centre", "'a' is stronger by the test of 0 against 60 points: +"),
                        ("random", "'a' is not stronger by")):  # fmt: skip
        (tmp_path / "t.toml").write_text(text % first)
        ledger = open_ledger(Config.read(tmp_path / "t.toml"), tmp_path / f"{len(first)}.sqlite")
        run(ledger)
        config, played = Config.of(ledger.config), ledger.played()
        assert len(played.games) % 10 == 0
        assert 20 < len(played.games) < 2000
        for pair in zip(played.games[::2], played.games[1::2], strict=True):
            assert pair[0].players[::-1] == pair[1].players == ("b", "a")
        counts, scores = sprt_counts(config, played), played.scores()
        points = scores[::2] + 1 - scores[1::2]
        assert counts == [int((points == p).sum()) for p in (2, 1.5, 1, 0.5, 0)]
        assert says in verdict(config, played)
        before = [played.games[k].round for k in range(len(played.games))]
        cut = sum(number < max(before) for number in before) // 2
        assert config.test().decide([int((points[:cut] == p).sum()) for p in (2, 1.5, 1, 0.5, 0)]) == "go on"


def test_half_a_round_of_a_match_counts_by_pairs_that_sat_both_ways() -> None:
    """Of two blocks the second is ready first, and one game of it is still played: by hand, from who won which game."""
    sprt = {"elo0": 0, "elo1": 50}
    config = Config("tic_tac_toe", {"a": "random", "b": "random"}, schedule="match", cycles=8, sprt=sprt)
    games = following(config, config.arena(), blank([], 2))
    assert [game.players for game in games.take(np.array([7, 8]))] == [("b", "a"), ("a", "b")]
    done = games.take(np.array([7, 8, 9, 10, 11, 12, 14, 13]))  # pairs (8, 9), (10, 11), (12, 13); not 7 and 14
    first = {7: 0, 8: 1, 9: 0, 10: 0.5, 11: 1, 12: 0, 14: 1, 13: 0.5}  # the score of who sits first
    returns = torch.tensor([[2 * x - 1, 1 - 2 * x] for x in first.values()])
    played = blank(done, 2)._replace(returns=returns)
    # of a: 1 + 1, 0.5 + 0, 0 + 0.5
    assert sprt_counts(config, played) == [1, 0, 0, 2, 0]
    assert verdict(config, played).endswith("over 'b', in points of the score with draws as halves")
    for k in (0, 6):  # a game whose other one is missing
        assert sprt_counts(config, played.take(np.array([k]))) == [0] * 5
        assert verdict(config, played.take(np.array([k]))) == ""


def test_the_first_player_of_a_match_is_who_is_named_first(tmp_path: Path) -> None:
    players = {"zoe": "test_plan:takes_the_centre", "ada": "random"}
    sprt = {"elo0": 0, "elo1": 60}
    config = Config("tic_tac_toe", players, schedule="match", rounds=200, cycles=5, sprt=sprt)
    ledger = open_ledger(config, tmp_path / "a.sqlite")
    run(ledger)
    played = ledger.played()
    points = dict(zip(("zoe", "ada"), played.results(["zoe", "ada"]).points.tolist(), strict=True))
    assert points["zoe"] > 1.2 * points["ada"]
    assert "'zoe' is stronger by the test of 0 against 60 points: +" in verdict(Config.of(ledger.config), played)


def test_a_knockout_is_seeded_by_the_order_of_its_players(tmp_path: Path) -> None:
    """All play alike, so who sits first wins, every match is level, and who is named first goes on."""
    players = dict.fromkeys(["zoe", "max", "kim", "bob", "ada"], "test_plan:first_legal")
    ledger = open_ledger(Config("tic_tac_toe", players, schedule="knockout"), tmp_path / "a.sqlite")
    run(ledger)
    met: dict[int, set[frozenset[str]]] = {}
    for game in ledger.played().games:
        met.setdefault(game.round, set()).add(frozenset(game.players))
    pairs = [[("bob", "ada")], [("zoe", "bob"), ("max", "kim")], [("zoe", "max")]]
    assert [met[number] for number in sorted(met)] == [{frozenset(pair) for pair in some} for some in pairs]
    won = "'zoe' won the knockout (level with 'max' in the last round, and listed higher)"
    config, played = Config.of(ledger.config), ledger.played()
    assert verdict(config, played) == won
    write_report(ledger, tmp_path / "a.html")
    assert html.unescape(re.search(r'<p id="verdict">(.*?)</p>', (tmp_path / "a.html").read_text())[1]) == f"{won}."
    for count in range(len(played.games)):  # and nothing is said before the last game
        assert verdict(config, played.take(np.arange(count))) == ""


def test_a_knockout_says_who_won_it_and_how(tmp_path: Path) -> None:
    """Of rock, paper and scissors who plays paper beats rock, and scissors, who rested, paper."""
    players = {
        name: {"kind": "test_report:always", "action": k} for name, k in (("scissors", 2), ("rock", 0), ("p", 1))
    }
    given = {"env": "matrix_game", "options": {"payoffs": "rock_paper_scissors"}, "schedule": "knockout", "cycles": 3}
    ledger = open_ledger(Config.of({**given, "players": players, "double": False}), tmp_path / "a.sqlite")
    run(ledger)
    says = "'scissors' won the knockout (3 to 0 against 'p' in the last round)"
    assert verdict(Config.of(ledger.config), ledger.played()) == says


ASKED: set[tuple[str, int]] = set()
"""Who was asked, and for how many agents."""


def notes(name: str) -> Any:
    def asked(turn: Any) -> torch.Tensor:
        ASKED.add((name, turn.data.batch_size[1]))
        return random_player(turn)

    return asked


def test_focal_players_sit_where_their_role_says(tmp_path: Path) -> None:
    ASKED.clear()
    players = {name: {"kind": "test_plan:notes", "name": name} for name in ("me", "x")}
    seats = {"wolves": ["adversary_0", "adversary_1", "adversary_2"], "prey": ["agent_0"]}
    more = {"schedule": "focal", "focal": ["me"], "roles": [["wolves"]], "seats": seats, "players": players}
    run(open_ledger(Config.of({**TAG, **more}), tmp_path / "a.sqlite"))
    assert sorted(ASKED) == [("me", 3), ("x", 1)]


# --- teams and roles -----------------------------------------------------------------------------


def test_every_group_gets_every_policy() -> None:
    games = planned("a b c", schedule="teams", cycles=2)
    assert seatings(games) == dict.fromkeys(product("abc", "abc"), 2)
    games = planned("a b", schedule="teams", **TAG)
    assert seatings(games) == dict.fromkeys(product("ab", "ab"), 1)
    games = planned("a b", schedule="teams", seats="agents", **TAG)  # three of one group, one of the other
    assert seatings(games) == {(x, x, x, y): 1 for x, y in product("ab", "ab")}
    who = {"prey": ["agent_0"], "two": ["adversary_0", "adversary_1"], "one": ["adversary_2"]}
    assert seatings(planned("a b", schedule="teams", seats=who, **TAG)) == {
        (y, x, x): 1 for x, y in product("ab", "ab")
    }


def test_checkpoints_play_the_groups_that_they_were_trained_for() -> None:
    populations = {"adversary": ["w1", "w2"], "agent": ["s1", "s2"]}
    games = planned("w1 w2 s1 s2", schedule="teams", populations=populations, **TAG)
    assert seatings(games) == dict.fromkeys(product(["w1", "w2"], ["s1", "s2"]), 1)


def test_focal_players_take_roles_among_the_background() -> None:
    games = planned("me x y", schedule="focal", focal=["me"])
    assert seatings(games) == {("me", "x"): 1, ("me", "y"): 1, ("x", "me"): 1, ("y", "me"): 1}
    populations = {"adversary": ["me", "w"], "agent": ["s1", "s2", "me"]}
    names = "me w s1 s2"
    games = planned(names, schedule="focal", focal=["me"], populations=populations, **TAG)
    assert seatings(games) == {("me", "s1"): 1, ("me", "s2"): 1, ("w", "me"): 1}
    games = planned(names, schedule="focal", focal=["me"], populations=populations, seats="agents",
                    roles=[["adversary_1"], ["adversary"], ["agent", "adversary_0"]], **TAG)  # fmt: skip
    assert seatings(games) == {
        ("w", "me", "w", "s1"): 1, ("w", "me", "w", "s2"): 1,
        ("me", "me", "me", "s1"): 1, ("me", "me", "me", "s2"): 1,
        ("me", "w", "w", "me"): 1,
    }  # fmt: skip


def test_a_tournament_of_teams_is_played_from_its_ledger(tmp_path: Path) -> None:
    config = Config.of({**TAG, "schedule": "teams", "players": {"a": "random", "b": "random"}, "cycles": 2})
    ledger = open_ledger(config, tmp_path / "a.sqlite")
    run(ledger)
    assert ledger.counts()["finished"] == 8
    assert ledger.played().returns.shape == (8, 2)


# --- openings ------------------------------------------------------------------------------------


ENDGAME = "6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1"
SUITES = {
    "suite.epd": f'{ENDGAME.rsplit(" ", 2)[0]} id "back rank";\n\n4k3/8/8/8/8/8/4P3/4K3 w - -\n',
    "suite.pgn": f'[White "x"]\n\n1. e4 e5 2. Nf3 *\n\n[SetUp "1"]\n[FEN "{ENDGAME}"]\n\n1. Kf2 Kf8 2. Ke3 *\n',
    "suite.txt": "# from a book\ne4 e5 Nf3  # the knight\n\nd4\n",
}


@pytest.mark.parametrize("name", SUITES)
def test_suites_are_played_from_and_replayed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(SUITES[name])
    text = (
        f'env = "chess"\nopenings = "{name}"\nopening_plies = 2\nmax_plies = 4\n[players]\na = "random"\nb = "random"\n'
    )
    (tmp_path / "t.toml").write_text(text)
    ledger = open_ledger(Config.read(tmp_path / "t.toml"), tmp_path / "a.sqlite")
    (tmp_path / name).unlink()  # what is played stands in the ledger
    run(ledger)
    board, played = board_of(ledger), ledger.played()
    assert board is not None
    rules: Any = board.rules
    firsts = {
        "suite.epd": [ENDGAME, "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"],
        "suite.pgn": ["rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", ENDGAME],
        "suite.txt": ["rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"] * 2,
    }[name]
    lengths = {"suite.epd": [0, 0], "suite.pgn": [2, 2], "suite.txt": [2, 1]}[name]
    assert sorted(game.opening for game in played.games) == [0, 0, 1, 1]
    for game, moves in zip(played.games, played.moves, strict=True):
        states, made = positions(board, game, moves)
        assert game.opening is not None
        assert rules.fens(type(states[0])(*(x.unsqueeze(0) for x in states[0]))) == [firsts[game.opening]]
        assert len(made) == lengths[game.opening] + len(moves)
        assert len(states) == len(made) + 1


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"schedule": "team"}, SpecError, "schedule 'team'.*did you mean 'teams'"),
        ({"schedule": "match"}, SpecError, "a match is between two players, got"),
        ({"sprt": {"elo0": 0, "elo1": 5}}, SpecError, "sprt is for schedule 'match', got 'round_robin'"),
        ({"sprt": {"elo0": 0, "elo": 5}}, SpecError, "sprt: there is no field 'elo'; did you mean 'elo"),
        ({"sprt": {"elo0": 0}}, SpecError, "sprt needs elo0 and elo1"),
        ({"chance": "pair"}, SpecError, "chance 'pair'.*'pairs'"),
        ({"focal": ["z"]}, UnknownName, "focal: no player is called 'z'"),
        ({"openings": 5}, SpecError, "openings must be given as lists of names in brackets, got 5"),
        ({"openings": [5]}, SpecError, r"openings must be given as lists of names in brackets, got \[5\]"),
        ({"focal": "a"}, SpecError, "focal must be given as a list of names in brackets, got 'a'"),
        ({"challengers": "a"}, SpecError, "challengers must be given as a list of names in brackets, got 'a'"),
        ({"double": False, "schedule": "swiss"}, SpecError, "double = false is for .* got 'swiss'; leave it out"),
        ({"double": False, "schedule": "teams"}, SpecError, "double = false is for .* got 'teams'; leave it out"),
        ({"openings": [["4"], ["4", "0"]], "opening_plies": 1}, SpecError, r"\['4', '0'\] is given as a list, of 2 m"),
        ({"populations": ["a"]}, SpecError, "populations must be a table of names by group"),
        ({"populations": {"x": ["q"]}}, UnknownName, "populations: x: no player is called 'q'"),
        ({"schedule": "teams", "populations": {"player_9": ["a"]}}, UnknownName, "there is no group 'player_9'"),
        ({"schedule": "focal"}, SpecError, "needs the field focal"),
        ({"schedule": "focal", "focal": ["a"], "roles": [["nobody"]]}, UnknownName, "no group or seat 'nobody'"),
        ({"schedule": "focal", "focal": ["a", "b", "c"]}, SpecError, "nobody is left to play"),
        ({"schedule": "gauntlet"}, PoolError, "expected challengers and a field"),
        ({"env": "kuhn_poker", "options": {"num_players": 3}}, SpecError, "is for games of two.*'teams' or 'focal'"),
        ({"openings": "nowhere.epd"}, SpecError, "openings: there is no file nowhere.epd"),
        ({"openings": [["z9"]]}, BadNotation, "no legal move is called 'z9'"),
        ({"openings": [["fen 8/8 w - - 0 1"]]}, SpecError, "positions of TicTacToe cannot be read; give moves"),
        ({"openings": [["1", "2", "4", "5", "7"]]}, BadNotation, "nothing is left to play after"),
        ({"openings": [["1", "2", "4", "5", "7", "8"]]}, BadNotation, "the game is over before '8'"),
    ],
)  # fmt: skip
def test_schedules_that_do_not_fit_are_refused_and_nothing_is_written(tmp_path: Path, fields, error, says) -> None:
    players = dict.fromkeys("abc", "random")
    with pytest.raises(error, match=says):
        open_ledger(Config.of({"env": "tic_tac_toe", "players": players, **fields}), tmp_path / "a.sqlite")
    assert not list(tmp_path.iterdir())
