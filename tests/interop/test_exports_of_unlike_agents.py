"""Agents that differ, by their names: unequal actions in one group, unequal ends without masks, and nothing to see."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from unlike_world import SEEN, World

from marlenv import Bounded, Categorical, Composite, to_pettingzoo_aec, to_pettingzoo_parallel, to_pymarl, to_rllib
from marlenv.wrappers import AgentSpecs

pytest.importorskip("pettingzoo", reason="needs PettingZoo: pip install -e '.[pettingzoo]'")

DOES = {"a": np.array([0.5], np.float32), "b": np.array([0.1, 0.2, 0.3], np.float32)}


def by_name(env: Any, actions: dict[str, Any]) -> list[dict[str, bool]]:
    """Plays an episode of PettingZoo's parallel interface or of RLlib's; who ended in each step."""
    env.reset(seed=0)
    ended = []
    while env.agents and len(ended) < 9:
        terminated = env.step({agent: actions[agent] for agent in env.agents if agent in actions})[2]
        ended.append({agent: flag for agent, flag in terminated.items() if agent in actions})
        if terminated.get("__all__"):
            break
    return ended


def in_turns(env: Any, actions: dict[str, Any]) -> list[str]:
    """Plays an episode of PettingZoo's interface of turns; who acted."""
    env.reset(seed=0)
    acted = []
    for agent in env.agent_iter(50):
        *_, terminated, truncated, _ = env.last()
        over = terminated or truncated
        acted += [] if over else [agent]
        env.step(None if over else actions[agent])
    return acted


def unequal(**options: Any) -> World:
    agents = {"a": AgentSpecs(SEEN, Bounded(-1, 1, (1,))), "b": AgentSpecs(SEEN, Bounded(-1, 1, (3,)))}
    return World(agents, ends={"a": 1, "b": 3}, group_map="all_in_one_group", **options)


ENDED = [{"a": True, "b": False}, {"b": False}, {"b": True}]
BY_NAME = {to_pettingzoo_parallel: "pettingzoo", to_rllib: "ray"}


def choosing() -> World:
    agents = {"a": AgentSpecs(SEEN, Categorical(2)), "b": AgentSpecs(SEEN, Categorical(4))}
    return World(agents, ends={"a": 1, "b": 3}, group_map="all_in_one_group")


@pytest.mark.parametrize("adapter", [to_pettingzoo_parallel, pytest.param(to_rllib, marks=pytest.mark.slow)])
def test_choices_of_unlike_agents_reach_the_simulator(adapter: Any) -> None:
    """Single numbers, where there is neither a batch nor a shape."""
    pytest.importorskip(BY_NAME[adapter], reason="needs ray[rllib]: VENV=.venv tests/simulators.sh rllib")
    world = choosing()
    assert by_name(adapter(world), {"a": 1, "b": 3}) == ENDED
    assert [{name: int(action) for name, action in done.items()} for done in world.done_by] == [
        {"a": 1, "b": 3}, {"b": 3}, {"b": 3}
    ]  # fmt: skip


def test_choices_of_unlike_agents_reach_the_simulator_in_turns_and_in_pymarl() -> None:
    world = choosing()
    assert in_turns(to_pettingzoo_aec(world), {"a": 1, "b": 3}) == ["a", "b", "b", "b"]
    env = to_pymarl(choosing(), episode_limit=5)
    env.reset()
    assert [env.step([1, 3])[1], env.step([0, 2])[1], env.step([0, 1])[1]] == [False, False, True]
    assert int(env.inner.done_by[2]["b"]) == 1


@pytest.mark.parametrize("use_mask", [True, False])
@pytest.mark.parametrize("adapter", [to_pettingzoo_parallel, pytest.param(to_rllib, marks=pytest.mark.slow)])
def test_unequal_actions_of_one_group_reach_the_simulator(adapter: Any, use_mask: bool) -> None:
    pytest.importorskip(BY_NAME[adapter], reason="needs ray[rllib]: VENV=.venv tests/simulators.sh rllib")
    world = unequal(use_mask=use_mask)
    assert by_name(adapter(world), DOES) == ENDED
    first = {name: np.asarray(action, np.float32) for name, action in world.done_by[0].items()}
    assert {name: action.tolist() for name, action in first.items()} == {n: a.tolist() for n, a in DOES.items()}
    assert [sorted(one) for one in world.done_by] == [["a", "b"], ["b"], ["b"]]


@pytest.mark.parametrize("use_mask", [True, False])
def test_unequal_actions_of_one_group_in_turns(use_mask: bool) -> None:
    world = unequal(use_mask=use_mask)
    assert in_turns(to_pettingzoo_aec(world), DOES) == ["a", "b", "b", "b"]
    assert [len(one["b"]) for one in world.done_by] == [3, 3, 3]


def blind() -> World:
    agents = {"a": AgentSpecs(SEEN, Bounded(-1, 1, (1,))), "b": AgentSpecs(Composite(), Bounded(-1, 1, (1,)))}
    return World(agents, ends={"a": 1, "b": 3}, group_map="all_in_one_group")


def test_an_agent_that_observes_nothing_plays() -> None:
    same = {"a": DOES["a"], "b": DOES["a"]}
    zoo = to_pettingzoo_parallel(blind())
    observations, _ = zoo.reset(seed=0)
    assert (observations["a"].tolist(), observations["b"]) == ([0.0], {})
    assert zoo.observation_space("b").contains(observations["b"])
    assert zoo.state().tolist() == [0.0]
    assert zoo.state_space.shape == (1,)
    assert by_name(zoo, same) == ENDED
    assert in_turns(to_pettingzoo_aec(blind()), same) == ["a", "b", "b", "b"]


@pytest.mark.parametrize("make", [unequal, lambda: unequal(use_mask=False)], ids=["masked", "not masked"])
def test_pettingzoos_own_checks_pass(make: Any) -> None:
    with warnings.catch_warnings(action="ignore"):  # it imports games of its own under deprecated names
        import pettingzoo.test as checks

        checks.parallel_api_test(to_pettingzoo_parallel(make()), 20)
        checks.api_test(to_pettingzoo_aec(make()), 20)
