"""``step_mdp``: every flag gives what torchrl gives."""

from __future__ import annotations

import itertools

import pytest
import torch
from tensordict import LazyStackedTensorDict, TensorDict
from torchrl_oracle import utils
from twin_envs import assert_same_data

from marlenv import step_mdp
from marlenv.errors import KeyMissing
from marlenv.testing.mocks import UnevenEnv

GROUPS = {
    "reward_keys": ["reward", ("agents", "reward")],
    "done_keys": ["done", "terminated", "truncated", ("agents", "done")],
    "action_keys": ["action", ("agents", "action"), ("only_action", "action"), ("only_root", "action")],
}
ONE = {"reward_keys": ("agents", "reward"), "action_keys": ("agents", "action"), "done_keys": ("agents", "done")}


def data():
    zeros, yes = torch.zeros, torch.ones(4, 1, dtype=torch.bool)
    group = lambda entries: TensorDict(entries, [4, 3])  # noqa: E731
    root = {
        "obs": zeros(4, 1),
        "action": zeros(4, 2) + 1,
        "done": ~yes,
        "terminated": ~yes,
        "other": zeros(4) + 5,
        "reward": zeros(4, 1) + 9,
        "agents": group(
            {"obs": zeros(4, 3, 2), "action": zeros(4, 3, 2) + 3, "extra": zeros(4, 3), "reward": zeros(4, 3, 1)}
        ),
        "only_action": group({"action": zeros(4, 3, 1)}),
        "only_root": group({"x": zeros(4, 3, 1), "action": zeros(4, 3)}),
    }
    following = {
        "obs": zeros(4, 1) + 1,
        "done": yes,
        "terminated": ~yes,
        "truncated": yes,
        "reward": zeros(4, 1) + 2,
        "new": zeros(4),
        "agents": group(
            {"obs": zeros(4, 3, 2) + 1, "reward": zeros(4, 3, 1) + 1, "done": yes.unsqueeze(1).expand(4, 3, 1)}
        ),
        "only_reward": group({"reward": zeros(4, 3, 1)}),
    }
    return TensorDict({**root, "next": TensorDict(following, [4])}, [4])


@pytest.mark.reference
@pytest.mark.parametrize("keys", [{}, GROUPS, ONE], ids=["default keys", "all keys", "nested keys"])
@pytest.mark.parametrize("flags", list(itertools.product([True, False], repeat=4)), ids=str)
def test_every_flag_gives_what_torchrl_gives(keys, flags):
    names = ("keep_other", "exclude_reward", "exclude_done", "exclude_action")
    options = {**dict(zip(names, flags, strict=True)), **keys}
    assert_same_data(utils.step_mdp(data(), **options), step_mdp(data(), **options))


@pytest.mark.reference
def test_a_given_tensordict_is_written_into():
    target = TensorDict({"kept": torch.ones(4)}, [4])
    out = step_mdp(data(), next_tensordict=target)
    assert out is target
    assert_same_data(utils.step_mdp(data(), next_tensordict=TensorDict({"kept": torch.ones(4)}, [4])), out)


def test_containers_are_new_and_leaves_are_shared():
    td = data()
    out = step_mdp(td)
    assert out["obs"].data_ptr() == td["next", "obs"].data_ptr()
    out["agents"]["obs"] = torch.ones(4, 3, 2) * 7
    assert (td["next", "agents", "obs"] == 1).all()
    assert "next" not in out


def test_uneven_agents():
    env = UnevenEnv()
    step = env.rand_step(env.reset())
    for exclude in (True, False):
        out = step_mdp(step, exclude_action=exclude, action_keys=env.action_keys, reward_keys=env.reward_keys)
        assert isinstance(out["agents"], LazyStackedTensorDict)
        for i, agent in enumerate(out["agents"].unbind(0)):
            assert torch.equal(agent["observation"], step["next", "agents"][i]["observation"])
            assert ("action" in agent) is not exclude


def test_there_must_be_a_next():
    with pytest.raises(KeyMissing, match=r"step_mdp: no 'next' entry; the data has \['a'\]"):
        step_mdp(TensorDict({"a": torch.zeros(1)}, []))
