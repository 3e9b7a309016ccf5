"""Options of ``reset``: those that an env has do something, and all others are refused before anything happens."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import marlenv
from marlenv.games import TicTacToe
from marlenv.testing import CountingEnv
from marlenv.transforms import RewardSum, TransformedEnv
from marlenv.vector import ParallelEnv, SerialEnv

ROOM = Path(marlenv.__file__).parent


def navigation() -> Any:
    return marlenv.make("navigation", num_envs=2, seed=0, compile="none")


ENVS: dict[str, Callable[[], Any]] = {
    "scenario": navigation,
    "game": lambda: marlenv.GameEnv(TicTacToe(), batch_size=[2], seed=0),
    "chess": lambda: marlenv.make("chess", num_envs=2, seed=0),
    "transformed": lambda: TransformedEnv(navigation(), RewardSum()),
    "serial": lambda: SerialEnv(2, partial(CountingEnv, max_steps=3)),
    "mock": CountingEnv,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENVS)
def test_an_option_that_nobody_has_is_refused(name: str) -> None:
    env = ENVS[name]()
    for given in ({"seed": 3}, {"options": {}}, {"auto_rest": False}):
        with pytest.raises(TypeError, match=f"has no option '{next(iter(given))}'"):
            env.reset(**given)
    with pytest.raises(TypeError, match="has no option 'break_when_any_don'"):
        env.rollout(2, break_when_any_don=False)
    env.rollout(2)


@pytest.mark.parametrize("name", ENVS)
def test_an_option_is_refused_where_nothing_is_reset(name: str) -> None:
    env = ENVS[name]()
    td = env.reset()
    with pytest.raises(TypeError, match="break_when_any_don'"):
        env.rollout(2, tensordict=td, auto_reset=False, break_when_any_don=False)
    env.rollout(2, tensordict=td, auto_reset=False)


def test_the_error_says_what_to_do() -> None:
    env = navigation()
    with pytest.raises(
        TypeError, match=r"Env\.reset has no option 'seed'; there are none; set_seed\(\.\.\.\) seeds an env"
    ):
        env.reset(seed=3)
    with pytest.raises(TypeError, match=r"Env\.rollout has no option 'set_trunc'; did you mean 'set_truncated'"):
        env.rollout(2, set_trunc=True)
    game = ENVS["game"]()
    with pytest.raises(TypeError, match=r"GameEnv\.reset has no option 'st_state'; did you mean 'set_state'"):
        game.reset(st_state=True)


def test_a_refused_option_changes_nothing() -> None:
    env, other = navigation(), navigation()
    with pytest.raises(TypeError):
        env.reset(seed=3)
    with pytest.raises(TypeError):
        env.rollout(2, auto_rest=True)
    assert (env.reset() == other.reset()).all()
    assert (env.rollout(3) == other.rollout(3)).all()


@pytest.mark.parametrize("name", ENVS)
def test_a_misspelt_option_of_a_rollout_is_one_of_the_rollout(name: str) -> None:
    env = ENVS[name]()
    who = type(env).__name__
    with pytest.raises(TypeError, match=rf"^{who}\.rollout has no option 'set_trunc'; did you mean 'set_truncated'\?"):
        env.rollout(2, set_trunc=True)


def test_an_option_for_one_child_is_refused_before_any_is_reset() -> None:
    env = SerialEnv(2, partial(CountingEnv, max_steps=3))
    env.rand_step(env.reset())
    with pytest.raises(TypeError, match=r"CountingEnv\.reset has no option 'level'"):
        env.reset(list_of_kwargs=[{}, {"level": 1}])
    assert [child.count.item() for child in env.children_envs] == [1, 1]


def test_workers_name_the_option() -> None:
    env = ParallelEnv(2, partial(CountingEnv, max_steps=3))
    with pytest.raises(Exception, match="CountingEnv.reset has no option 'seed'"):
        env.reset(seed=3)
    env.close()


@pytest.mark.slow
def test_no_env_swallows_options() -> None:
    """An env whose ``_reset`` takes any options hands them on."""
    swallows = []
    for path in ROOM.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name in ("_reset", "_begin") and node.args.kwarg:
                used = [one for one in ast.walk(node) if isinstance(one, ast.Name) and one.id == node.args.kwarg.arg]
                if not used and "benches" not in path.parts:  # theirs are TorchRL's
                    swallows.append(f"{path.relative_to(ROOM)}:{node.lineno}")
    assert not swallows
