"""Targets over several steps, by TorchRL's estimators on the keys of a group, beside the same sum by hand."""

from __future__ import annotations

import warnings

import pytest
import torch
from tensordict.nn import TensorDictModule

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchrl.envs import MultiStepTransform
    from torchrl.objectives.value import TD0Estimator

import marlenv
from marlenv import group_keys, to_torchrl

pytestmark = pytest.mark.filterwarnings("ignore:::torchrl", "ignore:::torch", "ignore:::tensordict")
GAMMA, N, STEPS = 0.9, 3, 20


@pytest.mark.parametrize("agents", [1, 3])
def test_targets_over_three_steps(agents: int) -> None:
    env = to_torchrl(marlenv.make("navigation", n_agents=agents, num_envs=1, max_steps=50, seed=0, compile="none"))
    rollout = env.rollout(STEPS)
    move = MultiStepTransform(n_steps=N, gamma=GAMMA, reward_keys=[("agents", "reward")], done_key="done")
    data = move._inv_call(rollout.clone()).reshape(-1)
    value = TensorDictModule(
        lambda seen: seen.sum(-1, keepdim=True), [("agents", "observation")], [("agents", "state_value")]
    )
    estimator = TD0Estimator(gamma=GAMMA, value_network=value)
    keys = group_keys(env, "agents", estimator)
    assert keys["steps_to_next_obs"] == "steps_to_next_obs"  # where TorchRL writes it
    if agents > 1:  # TorchRL wants it in the shape of the reward
        reward = data["next", "agents", "reward"]
        data["agents", "steps"] = data["steps_to_next_obs"][:, None, None].expand(reward.shape)
        keys["steps_to_next_obs"] = ("agents", "steps")
    estimator.set_keys(**keys)
    targets = estimator.value_estimate(data)
    rewards, seen = rollout["next", "agents", "reward"][0], rollout["next", "agents", "observation"][0]
    for t in range(len(data)):
        last = min(t + N, STEPS)
        paid = sum(GAMMA ** (k - t) * rewards[k] for k in range(t, last))
        wanted = paid + GAMMA ** (last - t) * seen[last - 1].sum(-1, keepdim=True)
        torch.testing.assert_close(targets[t], wanted, rtol=1e-4, atol=1e-4)
