"""Where an episode is over before all its agents are done, everybody is told: the env is not stepped on."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import marlenv
from marlenv import RewardSum
from marlenv.testing.mocks import GroupedEnv
from marlenv.transforms import TransformedEnv

pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")
pytest.importorskip("pettingzoo", reason="needs PettingZoo: pip install -e '.[pettingzoo]'")


def until_one_ends(**how: Any) -> GroupedEnv:
    """Over in the second step, as one of its agents is."""
    groups = {"wolves": ["w0", "w1"], "sheep": ["s0"]}
    return GroupedEnv(groups, rule="any", **(how or {"terminate": {"s0": 2}}))


def test_the_env_ends_with_its_first_agent() -> None:
    assert until_one_ends().rollout(9).shape == (2,)


@pytest.mark.parametrize("how", [{"terminate": {"s0": 2}}, {"truncate": {"s0": 2}}], ids=["ends", "cut off"])
@pytest.mark.parametrize("agents", ["agents", "groups"])
def test_rllib_hears_the_end(agents: str, how: dict[str, Any]) -> None:
    pytest.importorskip("ray", reason="needs Ray: pip install -e '.[ray]'")
    env = marlenv.to_rllib(until_one_ends(**how), agents)
    env.reset()
    for step in (1, 2):
        actions = {name: env.action_spaces[name].sample() for name in env.agents}
        seen, _, terminated, truncated, _ = env.step(actions)
        over = [terminated, truncated][next(iter(how)) == "truncate"]
        assert over == dict.fromkeys([*env.possible_agents, "__all__"], step == 2)
        assert set(seen) <= set(env.agents)  # RLlib's check of envs asks for that


def test_pettingzoo_hears_the_end() -> None:
    env = marlenv.to_pettingzoo_parallel(until_one_ends())
    env.reset()
    for step in (1, 2):
        _, _, terminated, truncated, _ = env.step({name: env.action_space(name).sample() for name in env.agents})
        assert terminated == dict.fromkeys(env.possible_agents, step == 2)
        assert not any(truncated.values())
    assert env.agents == []


def test_turns_of_pettingzoo_hear_the_end() -> None:
    env = marlenv.to_pettingzoo_aec(until_one_ends())
    env.reset()
    turns: list[str] = []
    for name in env.agent_iter(20):
        _, _, terminated, truncated, _ = env.last()
        env.step(None if terminated or truncated else env.action_space(name).sample())
        turns.append(name)
    assert turns[:6] == 2 * env.possible_agents
    assert sorted(turns[6:]) == sorted(env.possible_agents)  # who hear of the end, one after the other


MADE: dict[str, Callable[[], Any]] = {
    "parallel": lambda: marlenv.to_pettingzoo_parallel(marlenv.make("simple_spread", compile="none")),
    "aec": lambda: marlenv.to_pettingzoo_aec(marlenv.make("simple_spread", compile="none")),
    "pymarl": lambda: marlenv.to_pymarl(
        marlenv.make("simple_spread", compile="none", continuous_actions=False, max_steps=5)
    ),
}


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("copied", [deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copied", "pickled"])
def test_what_other_libraries_are_handed_can_be_copied(kind: str, copied: Callable[[Any], Any]) -> None:
    env = MADE[kind]()
    twin = copied(env)
    first, second = (one.reset() if kind == "pymarl" else one.reset(seed=3) for one in (env, twin))
    if kind == "parallel":
        for name, seen in first[0].items():
            np.testing.assert_array_equal(seen, second[0][name])
    assert twin.state is not None if kind != "pymarl" else len(second) == 2


def test_sums_of_given_rewards_have_the_names_of_torchrl() -> None:
    env = marlenv.make("simple_spread", compile="none", max_steps=3)
    data = TransformedEnv(env, RewardSum(in_keys=env.reward_keys)).rollout(3)
    total, rewards = data["next", "agents", "episode_reward"], data["next", "agents", "reward"]
    np.testing.assert_allclose(total[..., -1, :, :], rewards.sum(-3), rtol=1e-5)
