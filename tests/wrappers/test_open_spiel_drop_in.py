"""TorchRL's OpenSpielEnv and ours: chance that is chosen, and resets from a state."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from marlenv import OpenSpielEnv

pytestmark = [pytest.mark.sim, pytest.mark.reference]

KEYS = [("agents", "observation"), ("agents", "information_state"), "current_player", "done", "terminated", "state"]


@pytest.fixture(scope="module")
def peer() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("torchrl.envs", reason="the oracle of this file").OpenSpielEnv


def played(make: Any, game: str, steps: int) -> tuple[list[Any], list[Any]]:
    """What a sampler is asked, and the data of a game in which it chooses, with a reset from every state on the way."""
    asked: list[Any] = []
    options = {"return_state": True, "categorical_actions": True}

    def sampler(outcomes: Any, chances: Any) -> Any:
        asked.append((list(outcomes), [round(float(p), 6) for p in chances]))
        return list(outcomes)[len(asked) % len(outcomes)]

    env = make(game, chance_sampler=sampler, **options)
    asked.clear()  # each looks at a game first, in a way of its own
    other, kept = make(game, **options), []
    td = env.reset()
    for _ in range(steps):
        td["agents", "action"] = torch.ones(len(td["agents", "observation"]), dtype=torch.int64)
        out = env.step(td)["next"]
        kept.append(out)
        if bool(out["done"]):
            break
        again = other.reset(TensorDict({"state": out["state"]}, []))
        assert all(_same(again[key], out[key]) for key in KEYS)
        kept.append(again)
        td = env.step_mdp(td)
    return asked, kept


def _same(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


@pytest.mark.parametrize("game", ["kuhn_poker", "leduc_poker"])
def test_chosen_chance_and_given_states_are_torchrls(peer: Any, game: str) -> None:
    (mine_asked, mine), (their_asked, theirs) = (played(make, game, 4) for make in (OpenSpielEnv, peer))
    count = min(len(mine_asked), len(their_asked))
    assert count >= 2
    assert mine_asked[:count] == their_asked[:count]
    assert len(mine) == len(theirs) >= 3
    for one, other in zip(mine, theirs, strict=True):
        assert all(_same(one[key], other[key]) for key in KEYS)


@pytest.mark.parametrize("game", ["tic_tac_toe", "matrix_pd"])
def test_methods_of_the_state_are_asked_of_the_env_as_in_torchrl(peer: Any, game: str) -> None:
    told = []
    for make in (OpenSpielEnv, peer):
        env = make(game)
        td = env.reset()
        before = (env.current_player(), env.is_terminal(), env.legal_actions(0))
        env.step(td.set(("agents", "action"), torch.eye(2, env.num_distinct_actions()).long()))
        told.append((before, env.current_player(), env.returns(), env.history_str(), env.num_players()))
    assert told[0] == told[1]
