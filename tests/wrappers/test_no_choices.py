"""Actions that are no choices are refused, whoever steps the simulator; of those who do not act, nothing is read."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from test_pettingzoo_side_by_side import Quiet

from marlenv import GymWrapper, OpenSpielEnv, PettingZooEnv, PettingZooWrapper, SerialEnv, VmasEnv
from marlenv.errors import IllegalAction

pytestmark = pytest.mark.sim


def refused(env: Any, key: Any, number: Any, words: str, *, at: int = 0) -> None:
    """A step with such an action is refused, in a first step or a later one, and the one before it is played."""
    env.set_seed(0)
    td = env.rand_action(env.reset())
    for _ in range(at):
        td = env.rand_action(env.step_and_maybe_reset(td)[1])
    bad = td.clone()
    bad[key] = torch.full_like(bad[key], number)
    with pytest.raises(IllegalAction, match=words):
        env.step(bad)
    env.step(td)


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("rows", [None, 2])
@pytest.mark.parametrize("parallel", [True, False])
def test_agents_of_pettingzoo(parallel: bool, rows: int | None, at: int) -> None:
    """The first step of a parallel env is looked at whole, later ones are packed at once, and those of rows together:
    all of them refuse with the same words.
    """

    def env(categorical: bool) -> Any:
        one = partial(PettingZooEnv, "simple_spread_v3", parallel, categorical_actions=categorical)
        return one() if rows is None else SerialEnv(rows, one)

    who = rf"^PettingZooEnv.step: actions of agent 'agent_{0 if parallel else at}'"
    refused(env(False), ("agent", "action"), 0, rf"{who} must be one-hot, got \[0, 0, 0, 0, 0\]", at=at)
    refused(env(False), ("agent", "action"), 1, rf"{who} must be one-hot, got \[1, 1, 1, 1, 1\]", at=at)
    refused(env(True), ("agent", "action"), -1, rf"{who} are numbers from 0 to below 5, got -1", at=at)
    refused(env(True), ("agent", "action"), 5, rf"{who} are numbers from 0 to below 5, got 5", at=at)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("categorical", [True, False])
def test_whoever_has_left_may_send_anything(categorical: bool, rows: int) -> None:
    def one() -> PettingZooWrapper:
        sim = Quiet(terminate={"wolf_0": 1})
        return PettingZooWrapper(sim, categorical_actions=categorical, done_on_any=False)

    env = one() if rows == 1 else SerialEnv(rows, one)
    td = env.rand_action(env.reset())
    for _ in range(3):
        td = env.rand_action(env.step_and_maybe_reset(td)[1])
        td["wolf", "action"][..., 0, *[slice(None)] * (not categorical)] = 9 if categorical else 0
        left = env.step(td)["next", "wolf"]
        assert not left["alive"][..., 0].any()
        assert left["alive"][..., 1].all()
    td["wolf", "action"][..., 1, *[slice(None)] * (not categorical)] = 9 if categorical else 0
    with pytest.raises(IllegalAction, match="actions of agent 'wolf_1' "):
        env.step(td)


def test_what_is_padding_is_no_choice() -> None:
    env = PettingZooWrapper(Quiet(), categorical_actions=False, group_map="ALL_IN_ONE_GROUP", unequal="pad")
    td = env.rand_action(env.reset())
    td["agents", "action"] = torch.eye(5, dtype=torch.int64)[[2, 3, 4]]  # wolves have three choices, the sheep has five
    with pytest.raises(IllegalAction, match=r"actions of agent 'wolf_1' must be one-hot, got \[0, 0, 0\]$"):
        env.step(td)
    td["agents", "action"] = torch.eye(5, dtype=torch.int64)[[2, 2, 4]]
    assert env.step(td)["next", "agents", "reward"].flatten().tolist() == [2.5, 2.5, 4.5]


def test_near_ones_are_ones() -> None:
    """Samples that gradients go straight through are one-hot up to the last bits."""
    env = PettingZooEnv("simple_spread_v3", categorical_actions=False)
    for move in range(5):
        rewards = []
        for off in (0.0, 1e-6):
            env.set_seed(3)
            td = env.reset()
            td["agent", "action"] = (torch.eye(5)[[move] * 3] + off).requires_grad_()
            rewards.append(env.step(td)["next", "agent", "reward"])
        assert torch.equal(*rewards)


@pytest.mark.parametrize("name", ["tic_tac_toe", "matrix_rps"])
def test_players_of_open_spiel(name: str) -> None:
    refused(OpenSpielEnv(name), ("agents", "action"), 0, "^OpenSpielEnv.step: actions of agent 'player_0' must be one-")


@pytest.mark.parametrize("groups", [None, "ONE_GROUP_PER_AGENT"])
@pytest.mark.parametrize("name", ["balance", "simple_reference"])
def test_agents_of_vmas(name: str, groups: str | None) -> None:
    options = {"num_envs": 2, "continuous_actions": False, "categorical_actions": False, "group_map": groups}
    env = VmasEnv(name, **options)
    key = env.action_keys[0]
    td = env.rand_action(env.reset())
    agent = env.agent_names[0]
    td[key][1, 0] = 0
    with pytest.raises(IllegalAction, match=rf"^VmasEnv.step: the action of agent '{agent}' in row 1 must be one-hot"):
        env.step(td)
    env.step(env.rand_action(td))


class Parts(gymnasium.Env):
    """Acts in parts."""

    observation_space = Box(-1, 1, (2,))
    action_space = Dict(one=Discrete(3), more=Dict(several=MultiDiscrete([2, 3])))

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        assert action in self.action_space
        return np.zeros(2, np.float32), 0.0, False, False, {}


@pytest.mark.parametrize("rows", [None, 2])
@pytest.mark.parametrize("key", ["one", ("more", "several")])
def test_parts_of_actions_of_gym(key: Any, rows: int | None) -> None:
    def env(categorical: bool) -> GymWrapper:
        sim = Parts() if rows is None else gymnasium.vector.SyncVectorEnv([Parts] * rows)
        return GymWrapper(sim, categorical_action_encoding=categorical)

    refused(env(False), key, 0, r"^GymWrapper.step: actions must be one-hot, got \[0, 0")
    refused(env(True), key, 7, "^GymWrapper.step: actions are numbers from 0 to below [^t]*, got ")
