"""Groups of lazily stacked agents in TorchRL: draws are legal and of the env, and what some alone observe is shown."""

from __future__ import annotations

import warnings

import pytest
import torch
from unlike_world import RADAR, SEEN, World

from marlenv import Bounded, Categorical, to_torchrl
from marlenv.wrappers import AgentSpecs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchrl.collectors import Collector

pytestmark = pytest.mark.filterwarnings("ignore:::torchrl")


def choosers() -> World:
    agents = {
        "a": AgentSpecs(SEEN, Categorical(4), actions=4),
        "b": AgentSpecs(SEEN, Categorical(6), actions=6),
    }
    return World(agents, {"a": [1, 0, 0, 1], "b": [0, 0, 1, 0, 1, 0]}, group_map="all_in_one_group")


def test_random_actions_are_legal_and_follow_the_seed() -> None:
    ours = choosers()
    ours.set_seed(3)
    ours.rollout(12)
    theirs = choosers()
    env = to_torchrl(theirs)
    env.set_seed(3)
    env.rollout(12)
    assert theirs.done_by == ours.done_by
    assert {one["a"] for one in theirs.done_by} == {0, 3}
    assert {one["b"] for one in theirs.done_by} == {2, 4}


def test_a_collector_draws_legally() -> None:
    world = choosers()
    for _ in Collector(to_torchrl(world), None, frames_per_batch=12, total_frames=12):
        pass
    assert {one["a"] for one in world.done_by} == {0, 3}
    assert {one["b"] for one in world.done_by} == {2, 4}


def test_action_specs_of_agents_know_what_is_legal() -> None:
    env = to_torchrl(choosers())
    env.reset()
    a, b = env.full_action_spec["agents"]._specs
    assert a["action"].mask.tolist() == [True, False, False, True]
    assert [b["action"].is_in(torch.tensor(move)) for move in range(6)] == [False, False, True, False, True, False]


def test_actions_of_other_shapes_beside_a_dense_group_are_drawn() -> None:
    sizes = {"car_0": 1, "car_1": 3, "tree": 1}

    def make() -> World:
        return World({name: AgentSpecs(SEEN, Bounded(-1, 1, (size,))) for name, size in sizes.items()})

    ours, theirs = make(), make()
    assert ours.group_map == {"car": ["car_0", "car_1"], "tree": ["tree"]}
    env = to_torchrl(theirs)
    for one in (ours, env):
        one.set_seed(5)
        one.rollout(4)
    assert theirs.done_by == ours.done_by
    assert {name: len(action) for name, action in theirs.done_by[0].items()} == sizes
    assert env.rand_step(env.reset())["next", "tree", "reward"].item() == 1


def test_a_reset_shows_what_only_some_agents_observe() -> None:
    world = World(
        {"a": AgentSpecs(SEEN, Categorical(2)), "b": AgentSpecs(RADAR, Categorical(2))}, group_map="all_in_one_group"
    )
    env = to_torchrl(world)
    for td in (env.reset(), env.rollout(3)[1], env.rollout(3)[2]["next"]):
        first, second = td["agents"].unbind(-1)
        assert "radar" not in first.keys()
        assert second["radar"].tolist() == [1, 2]
    assert "reward" not in env.reset()["agents"].keys()
