"""What TorchRL closes: its evaluations go on with the env, and adapters that are thrown away leave it alone."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import pytest
import torch
from torchrl.envs import StepCounter, TransformedEnv
from unlike_world import SEEN, World

import marlenv
from marlenv import Categorical, to_torchrl
from marlenv.errors import EnvClosed
from marlenv.testing.mocks import CountingEnv
from marlenv.wrappers import AgentSpecs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchrl.trainers import LogValidationReward

pytestmark = pytest.mark.filterwarnings("ignore:::torchrl")


def make() -> Any:
    return marlenv.make("navigation", n_agents=1, num_envs=2, seed=0, compile="none")


class Holds(marlenv.StepCounter):
    """Has something to close."""

    def close(self) -> None:
        self.let_go = True


def test_torchrls_evaluation_goes_on_after_its_first_time() -> None:
    """Its hook closes the env each time; the rewards are those of an env of which nobody closed anything."""
    env = TransformedEnv(to_torchrl(make()), StepCounter(20))
    key = ("next", "agents", "reward")
    hook = LogValidationReward(
        record_interval=1, record_frames=20, policy_exploration=None, environment=env, log_keys=[key]
    )
    found = [hook(None)[key] for _ in range(3)]
    untouched = TransformedEnv(to_torchrl(make()), StepCounter(20))
    for rewards in found:
        torch.testing.assert_close(rewards, untouched.rollout(20, break_when_any_done=False)[key])


@pytest.mark.parametrize(
    "maker",
    [
        make,
        lambda: marlenv.make("tic_tac_toe", seed=0),
        lambda: make().append_transform(marlenv.StepCounter()),
        lambda: marlenv.TransformedEnv(make().append_transform(marlenv.StepCounter()), auto_unwrap=False),
        lambda: marlenv.SerialEnv(2, CountingEnv),
    ],
    ids=["scenario", "game", "transformed", "twice transformed", "pool"],
)
def test_an_env_that_holds_nothing_begins_again_after_torchrl_closed_it(maker: Any) -> None:
    env = to_torchrl(maker())
    before = env.rollout(4)
    env.close()
    env.close(raise_if_closed=False)
    assert env.inner.is_closed
    assert env.rollout(4).shape == before.shape
    assert not env.inner.is_closed


@pytest.mark.parametrize(
    "maker",
    [
        lambda: World({"a": AgentSpecs(SEEN, Categorical(2))}),
        lambda: CountingEnv().append_transform(Holds()),
    ],
    ids=["simulator", "transform"],
)
def test_an_env_that_lets_something_go_stays_closed(maker: Any) -> None:
    env = to_torchrl(maker())
    env.reset()
    env.close()
    with pytest.raises(EnvClosed, match="the env is closed"):
        env.reset()


def test_an_env_that_its_owner_closed_stays_closed() -> None:
    inner = make()
    env = to_torchrl(inner)
    inner.close()
    env.close(raise_if_closed=False)
    with pytest.raises(EnvClosed, match="ScenarioEnv: the env is closed"):
        env.reset()


def test_an_adapter_that_is_thrown_away_leaves_the_env_alone() -> None:
    env, same = make(), make()
    to_torchrl(env)
    TransformedEnv(to_torchrl(env), StepCounter())
    marlenv.group_keys(to_torchrl(env), "agents")
    gc.collect()
    assert not env.is_closed
    assert torch.equal(env.rollout(3)["next", "agents", "reward"], same.rollout(3)["next", "agents", "reward"])


def test_a_pool_outlives_its_adapter_and_closes() -> None:
    pool = marlenv.ParallelEnv(2, CountingEnv, mp_start_method="fork")
    to_torchrl(pool).rollout(2)
    gc.collect()
    assert not pool.is_closed
    assert pool.rollout(2).shape == (2, 2)
    pool.close()
    assert pool.is_closed
