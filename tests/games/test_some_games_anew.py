"""Games that begin anew while others go on: short ways give what the long one gives, and leave old data as they are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import TensorDictBase
from torch import Tensor

import marlenv
from marlenv.games.env.turn_based import TurnBasedEnv
from marlenv.testing.comparison import differences

NAMES = ["chess", "connect_four", "tic_tac_toe"]


def to_reset(td: TensorDictBase) -> Tensor:
    """A tenth of the rows, and what is over: those who wait in a game that is over are left to the long way."""
    return torch.arange(len(td)).remainder(10).eq(3).unsqueeze(-1) | td["done"]


def midway(env: Any) -> TensorDictBase:
    """Data after five moves, as the env gives them at the start."""
    td = env.reset()
    keys = list(td.keys(True, True))
    for _ in range(5):
        td = marlenv.step_mdp(env.step(env.rand_action(td)))
    return td.select(*keys)


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 300])
@pytest.mark.parametrize("name", NAMES)
def test_short_and_long_way_give_the_same(name: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    env = marlenv.make(name, num_envs=n, seed=0)
    td = midway(env)
    before, mask = td.clone(), to_reset(td)
    short = env.reset(td.copy().set("_reset", mask))
    with monkeypatch.context() as patched:
        patched.setattr(type(env), "fast_reset", lambda *args: None)
        long = env.reset(td.copy().set("_reset", mask))
    assert not differences(short, long)
    assert not differences(td, before)  # what was given earlier does not change
    begun, rows = env.reset(), mask.squeeze(-1)
    assert not differences(short[rows], begun[rows])
    assert not differences(short[~rows], before[~rows])
    first = short.clone()
    for _ in range(15):  # nor what was given now, when more is given
        more = midway(env)
        env.reset(more.set("_reset", ~mask | more["done"]))
    assert not differences(short, first)


@pytest.mark.parametrize("name", ["chess", "connect_four"])
def test_new_games_are_made_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Games of chess that were not over were begun in all rows, and all data written anew: nine full resets."""
    env, made = marlenv.make(name, num_envs=300, seed=0), []
    td = midway(env)
    original = TurnBasedEnv._data

    def noted(self: Any, step: Any, held: Any = ()) -> Any:
        made.append(step.terminated.numel())
        return original(self, step, held)

    monkeypatch.setattr(TurnBasedEnv, "_data", noted)
    env.reset(td.set("_reset", to_reset(td)))
    assert max(made, default=0) <= 1


@pytest.mark.parametrize("n", [4, 300])
@pytest.mark.parametrize("name", ["chess", "connect_four"])
def test_positions_are_enough(name: str, n: int) -> None:
    """Data without what follows from positions ended in "NoneType has no attribute"."""
    env = marlenv.make(name, num_envs=n, seed=0)
    td = midway(env)
    mask = to_reset(td)
    whole = env.reset(td.copy().set("_reset", mask))
    assert not differences(env.reset(td.select("state", "done").set("_reset", mask)), whole)
