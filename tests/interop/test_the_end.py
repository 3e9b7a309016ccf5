"""Where an episode is over before all its agents are done, everybody is told: the env is not stepped on."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import marlenv
from marlenv import RewardSum, TimeLimit
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
        everybody = [*env.possible_agents, "__all__"]
        if "terminate" in how:
            assert terminated == dict.fromkeys(everybody, step == 2)
        else:  # RLlib takes an episode for terminated where every agent has a flag of its own
            assert truncated == (dict.fromkeys(everybody, False) if step == 1 else {"__all__": True})
            assert not any(terminated.values())
        assert set(seen) <= set(env.agents)  # RLlib's check of envs asks for that


def test_a_group_of_which_some_died_and_others_are_cut_off_is_cut_off() -> None:
    """A time limit truncates, and who is done has a flag: in RLlib's terms as at our root."""
    pytest.importorskip("ray", reason="needs Ray: pip install -e '.[ray]'")
    groups = {"wolves": ["w0", "w1"], "sheep": ["s0"], "birds": ["b0", "b1"]}
    ends = {"terminate": {"w0": 1, "b0": 1, "b1": 2}, "truncate": {"w1": 3, "s0": 3}}
    env = marlenv.to_rllib(GroupedEnv(groups, rule="all", **ends), "groups")
    env.reset()
    told = []
    for _ in range(3):
        told.append(env.step({name: env.action_spaces[name].sample() for name in env.agents})[2:4])
    off = dict.fromkeys([*groups, "__all__"], False)
    assert told[0] == (off, off)
    assert told[1] == ({**off, "birds": True}, off)
    assert told[2] == (
        {**dict.fromkeys(["wolves", "sheep"], False), "__all__": False},
        {"__all__": True},
    )
    assert (bool(env._td["terminated"].all()), bool(env._td["truncated"].all())) == (False, True)


def test_the_dead_among_prey_that_are_cut_off() -> None:
    pytest.importorskip("ray", reason="needs Ray: pip install -e '.[ray]'")
    env = marlenv.to_rllib(marlenv.make("predator_prey", birth=0, hunger=0.04, max_steps=27, compile="none"), "groups")
    mixed = 0
    for seed in range(4):
        observed, over = env.reset(seed=seed)[0], False
        for group, space in env.action_spaces.items():
            space.seed(seed + len(group))
        while not over:
            actions = {group: env.action_spaces[group].sample() for group in observed}
            observed, _, terminated, truncated, _ = env.step(actions)
            over = terminated["__all__"] or truncated["__all__"]
        assert truncated["__all__"] or all(terminated.values())
        own = [env._td[group, "terminated"] for group in terminated if group != "__all__"]
        assert truncated["__all__"] == bool(env._td["truncated"].all())
        mixed += any(bool(flags.any()) and not bool(flags.all()) for flags in own)
    assert mixed


@pytest.mark.parametrize("limit", [5, 6])
def test_a_game_that_is_won_in_the_step_of_the_limit_is_won(limit: int) -> None:
    """Five plies of tic-tac-toe; a limit of six changes nothing of them."""

    def game() -> TransformedEnv:
        return TransformedEnv(marlenv.make("tic_tac_toe"), TimeLimit(limit))

    plies = (0, 3, 1, 4, 2)
    for style, wanted in (("pymarl", (True, {})), ("epymarl", (True, False, {}))):
        env = marlenv.to_pymarl(game(), episode_limit=9, style=style)
        env.reset()
        for i, ply in enumerate(plies):
            told = env.step([ply, 0] if i % 2 == 0 else [0, ply])
        assert tuple(told[-len(wanted) :]) == wanted
    pytest.importorskip("ray", reason="needs Ray: pip install -e '.[ray]'")
    for kind in ("agents", "groups"):
        env = marlenv.to_rllib(game(), kind)
        env.reset()
        for i, ply in enumerate(plies):
            terminated, truncated = env.step({"xo"[i % 2]: ply})[2:4]
        assert terminated == {"x": True, "o": True, "__all__": True}
        assert truncated["__all__"] is False


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
