"""Arenas on the envs of games: what these were made with holds, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import marlenv
from marlenv.errors import SpecError
from marlenv.tournament import ENDINGS, Arena, Game, Turn, random_player
from marlenv.tournament.config import Config

MAKES: dict[str, Callable[[], Any]] = {
    "moves": lambda: marlenv.make("tic_tac_toe", max_steps=3),
    "TorchRL's keys": lambda: marlenv.TicTacToeEnv(max_plies=3),
    "without end": lambda: marlenv.make("matrix_game", payoffs="chicken", rounds=None, max_steps=5),
    "transformed": lambda: marlenv.TransformedEnv(marlenv.make("tic_tac_toe"), marlenv.transforms.StepCounter(3)),
}


@pytest.mark.parametrize("made_once", [True, False])
@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_games_are_as_long_as_the_env_lets_them_be(make: Callable[[], Any], made_once: bool) -> None:
    """The env itself says how long."""
    longest = len(make().rollout(100))
    assert longest < 6
    arena = Arena(make() if made_once else make, {"a": random_player}, rows=1)
    played = arena.play([Game(k, ("a", "a")) for k in range(3)])
    assert played.plies.tolist() == [longest] * 3
    assert {ENDINGS[k] for k in played.ending.tolist()} == {"move limit"}


@pytest.mark.parametrize(("limit", "want"), [(2, 2), (7, 3), (None, 3)])
def test_the_lower_limit_holds(limit: int | None, want: int) -> None:
    env = marlenv.make("tic_tac_toe", max_steps=3)
    assert Arena(env, {"a": random_player}, max_plies=limit).play([Game(0, ("a", "a"))]).plies.tolist() == [want]


@pytest.mark.parametrize(
    "make",
    [
        lambda: marlenv.make("tic_tac_toe", opponent="random", seat=1),
        lambda: marlenv.make("connect_four", opponent=lambda td: td),
        lambda: marlenv.TicTacToeEnv(single_player=True),
    ],
)
def test_an_env_with_an_opponent_of_its_own_is_refused(make: Callable[[], Any]) -> None:
    for game in (make, make()):
        with pytest.raises(SpecError, match="players sit in all seats, and .*Env has an opponent of its own"):
            Arena(game, {"a": random_player})


def first_cell(turn: Turn) -> torch.Tensor:
    return torch.zeros_like(turn.seat)


def test_who_moves_illegally_loses_as_in_the_env_or_the_arena_says_why_not() -> None:
    env = marlenv.make("tic_tac_toe", illegal="lose")
    td = env.reset()
    for _ in range(2):
        td = env.step_mdp(env.step(td.set(("x", "action"), torch.tensor([0])).set(("o", "action"), torch.tensor([0]))))
    played = Arena(env, {"a": first_cell}, forfeits=True).play([Game(0, ("a", "a"))])
    assert played.returns.tolist() == [[1.0, -1.0]]
    assert bool(td["done"])
    assert ENDINGS[int(played.ending[0])] == "illegal move"
    with pytest.raises(SpecError, match="made with illegal='lose', .* say forfeits=True"):
        Arena(env, {"a": first_cell})


def test_a_config_is_held_to_the_same() -> None:
    def config(options: dict[str, Any], **more: Any) -> Config:
        return Config.of({"env": "tic_tac_toe", "options": options, "players": {"a": "random", "b": "random"}, **more})

    games = [Game(0, ("a", "b"))]
    assert config({"max_steps": 3}).arena().play(games).plies.tolist() == [3]
    assert config({"max_steps": 3}, max_plies=2).arena().play(games).plies.tolist() == [2]
    assert config({"illegal": "lose"}).arena().play(games).plies.tolist() >= [5]  # forfeits are what configs say
    for options, more in (({"opponent": "random", "seat": 1}, {}), ({"illegal": "lose"}, {"forfeits": False})):
        with pytest.raises(SpecError, match="Arena: "):
            config(options, **more).arena()
