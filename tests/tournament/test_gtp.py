"""Engines that speak GTP as players: what they play is what they said, after the whole game was shown to them."""

from __future__ import annotations

import pickle
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import marlenv
from marlenv.errors import DtypeError, SpecError, Unsupported
from marlenv.games import Backgammon, Breakthrough, Go, Hex, KuhnPoker
from marlenv.tournament import ENDINGS, Arena, Game, GTPPlayer, Opening, random_player, round_robin
from marlenv.tournament.config import load_player

FAKE = [sys.executable, str(Path(__file__).parent / "fake_gtp.py")]
GNUGO = shutil.which("gnugo") or shutil.which("/usr/games/gnugo")


@pytest.fixture
def fake() -> Iterator[Callable[..., GTPPlayer]]:
    made: list[GTPPlayer] = []

    def make(*words: str, **options: Any) -> GTPPlayer:
        made.append(GTPPlayer([*FAKE, *words], **options))
        return made[-1]

    yield make
    for player in made:
        player.close()


def first_by_name(turn: Any) -> torch.Tensor:
    """What the fake engine plays, from the position alone."""
    out = []
    for k in range(len(turn)):
        names = turn.rules.legal_names(type(turn.state)(*(leaf[k] for leaf in turn.state)))
        out.append(names[min(names)])
    return torch.tensor(out)


@pytest.mark.parametrize("processes", [1, 2])
def test_the_moves_are_those_of_the_engine(fake: Callable[..., GTPPlayer], processes: int) -> None:
    """The engine knows a cell as taken only if it was shown the game, so a wrong or missing move is noticed."""
    games = [Game(k, seats, opening=k % 2) for k, seats in enumerate([("a", "b"), ("b", "a"), ("a", "a")] * 3)]
    played = [
        Arena(Hex(4), {"a": player, "b": random_player}, rows=4, record=True, openings=[[], [0, 5]]).play(games)
        for player in (fake(processes=processes), first_by_name)
    ]
    assert torch.equal(played[0].digest, played[1].digest)
    assert len(played[0].digest.unique()) > 3


def test_a_player_that_sat_at_another_board_shows_this_one(fake: Callable[..., GTPPlayer]) -> None:
    """The same actions are other cells there."""
    player = fake()
    for rules in (Hex(4), Hex(5)):
        played = [
            Arena(rules, {"a": one}, openings=[[0, 5]], max_plies=1).play([Game(0, ("a", "a"), opening=0)]).digest
            for one in (player, first_by_name)
        ]
        assert torch.equal(*played)


@pytest.mark.parametrize(
    ("fails", "ending"),
    [
        ("dies", "crash"),
        ("refuses", "crash"),
        ("cheats", "illegal move"),
        pytest.param("hangs", "out of time", marks=pytest.mark.slow),
        ("gives up", "resigned"),
    ],
)
def test_an_engine_that_fails_loses_that_game_alone(fake: Callable[..., GTPPlayer], fails: str, ending: str) -> None:
    players = {"fails": fake(fails, patience=1.5 if fails == "hangs" else 30.0), "random": random_player}
    games = round_robin(list(players), double=True, cycles=2)
    played = Arena(Hex(4), players, forfeits=True).play(games)
    lost = [k for k, how in enumerate(played.ending.tolist()) if ENDINGS[how] == ending]
    assert lost
    assert {ENDINGS[how] for how in played.ending.tolist()} <= {ending, "over"}
    assert all(played.returns[k, played.games[k].players.index("fails")] < 0 for k in lost)


def test_an_engine_without_time_settings_plays_all_the_same(fake: Callable[..., GTPPlayer]) -> None:
    game = [Game(0, ("a", "a"))]
    played = [Arena(Hex(4), {"a": one}).play(game) for one in (fake(move_seconds=30.0), first_by_name)]
    assert torch.equal(played[0].digest, played[1].digest)


def test_a_game_that_began_elsewhere_is_not_shown_as_another(fake: Callable[..., GTPPlayer]) -> None:
    rules = Hex(4)
    start = rules.play(rules.start(torch.Size([1])), torch.tensor([5]))
    with pytest.raises(Unsupported, match="game 3 began elsewhere; use openings of moves alone"):
        Arena(rules, {"a": fake()}, openings=[Opening((), start)]).play([Game(3, ("a", "a"), opening=0)])


def test_what_cannot_play_is_said(fake: Callable[..., GTPPlayer]) -> None:
    with pytest.raises(SpecError, match="GTPPlayer: no program 'no_such_engine' was found"):
        GTPPlayer("no_such_engine")
    with pytest.raises(SpecError, match="GTPPlayer: move_seconds must be a number of seconds above 0, got nan"):
        GTPPlayer(FAKE, move_seconds=float("nan"))
    for setup in ("set_random_seed 1", None, [5], [""], [" \t"], ["# book off"], ["  # komi 3"], ["a\nb"], ["\x01"]):
        with pytest.raises(SpecError, match="setup must be a list of commands, a line each and no comment, got "):
            GTPPlayer(FAKE, setup=setup)  # type: ignore[arg-type]
    with pytest.raises(DtypeError, match="GTPPlayer: restart must be True or False, got 'no'"):
        GTPPlayer(FAKE, restart="no")  # type: ignore[arg-type]
    player = fake()
    for rules in (KuhnPoker(num_players=3), KuhnPoker(), Backgammon()):
        with pytest.raises(Unsupported, match=f"play games of black and white, got {type(rules).__name__}"):
            Arena(rules, {"a": player})
    with pytest.raises(Unsupported, match="boards must be square, .* got Hex with 4 rows and 6 columns"):
        Arena(Hex(4, 6), {"a": player})
    with pytest.raises(Unsupported, match="got Breakthrough with 4 rows and 6 columns"):
        Arena(Breakthrough(4, 6), {"a": player})
    sized = (Go(size=5), Hex(4), Breakthrough(6, 6))
    assert [player._beginning(rules)[0] for rules in sized] == ["boardsize 5", "boardsize 4", "boardsize 6"]
    env = marlenv.make("simple_tag", num_envs=2, max_steps=2, compile="none")
    with pytest.raises(Unsupported, match="got an env"):
        Arena(env, {"a": player}).play([Game(0, ("a", "a"))])
    assert pickle.loads(pickle.dumps(player))._crew is None
    loaded = load_player("x", {"kind": "gtp", "command": FAKE})
    assert isinstance(loaded, GTPPlayer)


@pytest.mark.parametrize(
    ("komi", "said"),
    [
        (7.5, "7.5"),
        (0, "0"),
        (-3.0, "-3"),
        (-0.0, "0"),
        (123456.789, "123456.789"),
        (1e9 + 0.5, "1000000000.5"),
        (1e-7, "0.0000001"),
        (1e22, "1" + 22 * "0"),
    ],
)
def test_komi_is_said_with_all_its_digits(fake: Callable[..., GTPPlayer], komi: float, said: str) -> None:
    lines = fake(setup=["showboard # not a comment alone"])._beginning(Go(5, komi=komi))
    assert lines == ["boardsize 5", "clear_board", f"komi {said}", "showboard # not a comment alone"]
    assert float(lines[2].split()[1]) == komi


@pytest.mark.slow
@pytest.mark.skipif(GNUGO is None, reason="needs GNU Go: apt install gnugo")
def test_gnu_go_beats_chance_and_plays_the_same_games_again() -> None:
    games = [Game(k, seats) for k, seats in enumerate([("gnu", "random"), ("random", "gnu")])]
    played = []
    for processes, rows in ((1, 2), (2, 1)):
        command = [str(GNUGO), "--mode", "gtp", "--level", "0", "--seed", "1", "--chinese-rules", "--capture-all-dead"]
        player = GTPPlayer(command, setup=["set_random_seed 1"], restart=True, processes=processes)
        arena = Arena(Go(7), {"gnu": player, "random": random_player}, rows=rows, max_plies=120, forfeits=True)
        played.append(arena.play(games))
        player.close()
    assert torch.equal(played[0].digest, played[1].digest)
    assert played[0].ending.tolist() == [0, 0]
    assert played[0].scores().tolist() == [1.0, 0.0]
