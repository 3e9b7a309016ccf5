"""What the outside gives under other names and in other shapes than the env takes, and specs that fit neither."""

from __future__ import annotations

import pytest
import torch
import torchrl_oracle as rl
from tensordict import TensorDict

import marlenv
from marlenv import (
    ActionDiscretizer,
    Bounded,
    Composite,
    EnvBase,
    ObservationNorm,
    PendulumEnv,
    RewardSum,
    SqueezeTransform,
    Stack,
    TransformedEnv,
    Unbounded,
    check_env_specs,
)
from marlenv.errors import KeyMissing, ShapeError
from marlenv.testing.mocks import CountingEnv

ROWS = [(), (3,)]


class TwoHands(EnvBase):
    """Takes two actions of two numbers; the reward is ``left + 10 right``, summed."""

    def __init__(self, rows: tuple[int, ...] = ()) -> None:
        super().__init__(batch_size=rows)
        self.observation_spec = Composite(observation=Unbounded((*rows, 1)), shape=rows)
        hand = Bounded(-9.0, 9.0, (*rows, 2))
        self.action_spec = Composite(left=hand, right=hand.clone(), shape=rows)
        self.reward_spec = Unbounded((*rows, 1))

    def _reset(self, tensordict, **_):
        return TensorDict({"observation": torch.zeros(*self.batch_size, 1)}, self.batch_size)

    def _step(self, tensordict):
        reward = (tensordict["left"] + 10 * tensordict["right"]).sum(-1, keepdim=True)
        done = torch.zeros_like(reward, dtype=torch.bool)
        found = {"observation": reward.clone(), "reward": reward, "done": done, "terminated": done.clone()}
        return TensorDict(found, self.batch_size)

    def _set_seed(self, seed):
        pass


@pytest.mark.parametrize("rows", ROWS)
def test_a_stack_is_taken_apart_for_the_env(rows) -> None:
    chain = Stack([], "unused", in_key_inv="both", out_keys_inv=["left", "right"], dim=-2)
    env = TransformedEnv(TwoHands(rows), chain)
    assert env.action_keys == ["both"]
    assert env.action_spec == Bounded(-9.0, 9.0, (*rows, 2, 2))
    both = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).expand(*rows, 2, 2).clone()
    assert (env.step(env.reset().set("both", both))["next", "reward"] == 1 + 2 + 10 * (3 + 4)).all()
    check_env_specs(env)


def test_a_discretised_action_may_have_another_name() -> None:
    """The torque of each interval's middle, and the step that TorchRL's own Pendulum makes of the same choice."""
    options = {"num_intervals": 5, "out_action_key": "choice"}
    env = TransformedEnv(PendulumEnv(), ActionDiscretizer(**options))
    theirs = rl.envs.TransformedEnv(rl.envs.PendulumEnv(), rl.envs.ActionDiscretizer(**options))
    check_env_specs(env)
    assert env.action_keys == ["choice"]
    assert env.action_spec.shape == theirs.full_action_spec["choice"].shape
    start = env.reset()
    for choice, torque in enumerate([-1.6, -0.8, 0.0, 0.8, 1.6]):
        told = env.transform.inv(TensorDict({"choice": torch.tensor([choice])}))["action"]
        torch.testing.assert_close(told, torch.tensor([torque]))
        ours = env.step(start.clone().set("choice", torch.tensor([choice])))["next"]
        given = start.select("th", "thdot", "params").set("choice", torch.tensor([choice]))
        want = theirs.step(given)["next"]
        for key in ("th", "thdot", "reward"):
            torch.testing.assert_close(ours[key], want[key])


def test_an_action_that_is_not_there_is_missed_under_its_own_name() -> None:
    with pytest.raises(KeyMissing, match=r"ActionDiscretizer: no entry 'torque'; the actions are \['action'\]"):
        PendulumEnv().append_transform(ActionDiscretizer(5, "torque", "action"))


@pytest.mark.parametrize("rows", ROWS)
def test_a_reward_may_be_a_number(rows) -> None:
    env = TransformedEnv(CountingEnv(9, batch_size=rows), SqueezeTransform(-1, in_keys=["reward"]))
    assert env.reward_spec.shape == rows
    check_env_specs(env)
    assert torch.equal(env.rollout(3)["next", "reward"], torch.ones(*rows, 3))
    sums = env.append_transform(RewardSum()).rollout(3)["next", "episode_reward"]
    assert torch.equal(sums, torch.arange(1.0, 4.0).expand(*rows, 3))


@pytest.mark.parametrize("make", [CountingEnv, PendulumEnv, lambda: marlenv.make("simple_spread", num_envs=2)])
def test_statistics_of_another_shape_are_refused(make) -> None:
    env = make()
    key = env.observation_keys[0]
    norm = ObservationNorm(torch.zeros(5), torch.ones(5), in_keys=[key])
    with pytest.raises(ShapeError, match=r"ObservationNorm: loc and scale must be numbers, or fit .* got shapes \[5\]"):
        TransformedEnv(env, norm)


def test_statistics_of_every_agent_fit() -> None:
    scale = torch.arange(1.0, 4.0).reshape(3, 1)
    env = marlenv.make("simple_spread", num_envs=2, seed=0)
    made = TransformedEnv(env, ObservationNorm(torch.zeros(3, 1), scale))
    seen = made.reset()["agents", "observation"]
    bare = marlenv.make("simple_spread", num_envs=2, seed=0).reset()["agents", "observation"]
    assert torch.equal(seen, bare * scale)
