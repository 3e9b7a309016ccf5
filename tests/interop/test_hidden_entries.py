"""What transforms remember, under names with an underscore, is observed in no other library."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import marlenv
from marlenv import CatFrames, Compose, RewardSum, StepCounter, TimeLimit, TransformedEnv
from marlenv.interop.alf.suites import create_environment, suite
from marlenv.testing.mocks import CountingEnv, GroupedEnv

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")

HIDDEN_LIMIT = {"step_count_key": "_step_count"}


def test_the_limit_of_alfs_environments_is_not_observed() -> None:
    """ALF's documents: the agent does not know of the limit; the last step's discount is 1 there."""
    load = suite(lambda _, num_envs: CountingEnv(99, batch_size=[num_envs]), batched=True)
    env = create_environment("counting", load, num_parallel_environments=2, max_episode_steps=3)
    assert env.observation_spec().shape == (1,)
    steps = [env.reset(), *(env.step(torch.zeros(2, 1)) for _ in range(4))]
    assert [step.observation[0, 0].item() for step in steps] == [0, 1, 2, 3, 0]
    assert [step.step_type[0].item() for step in steps] == [0, 1, 1, 2, 0]
    assert all((step.discount == 1).all() for step in steps)


@pytest.mark.parametrize(
    ("transform", "shown"),
    [
        (lambda: TimeLimit(3, **HIDDEN_LIMIT), {"observation"}),
        (lambda: Compose(StepCounter(3), RewardSum()), {"observation", "step_count", "episode_reward"}),
    ],
)
def test_a_space_has_what_the_user_added_and_no_more(transform, shown) -> None:
    env = marlenv.to_gymnasium(TransformedEnv(CountingEnv(9), transform()))
    space = env.observation_space
    assert (set(space) if isinstance(space, gymnasium.spaces.Dict) else {"observation"}) == shown
    env.reset(seed=0)
    assert [env.step(np.zeros(1, np.float32))[2:4] for _ in range(3)][-1] == (False, True)


def test_frames_that_are_kept_aside_are_not_observed() -> None:
    """A transform after the frames changes them, so that they are kept beside what is observed."""
    last = marlenv.ObservationNorm(0.0, 2.0, ["observation"])
    env = TransformedEnv(CountingEnv(9), Compose(CatFrames(2, -1, ["observation"]), last))
    assert "_observation" in env.observation_keys
    made = marlenv.to_gymnasium(env)
    assert made.observation_space.shape == (2,)
    seen = [made.reset()[0], *(made.step(np.zeros(1, np.float32))[0] for _ in range(2))]
    assert [list(one) for one in seen] == [[0, 0], [0, 2], [2, 4]]


def test_agents_do_not_observe_them_either() -> None:
    pytest.importorskip("pettingzoo", reason="needs PettingZoo")
    env = TransformedEnv(GroupedEnv(), TimeLimit(3, **HIDDEN_LIMIT))
    with_limit, without = (marlenv.to_pettingzoo_parallel(one) for one in (env, GroupedEnv()))
    for agent in without.possible_agents:
        assert with_limit.observation_space(agent) == without.observation_space(agent)
    assert set(with_limit.reset(seed=0)[0]) == set(without.possible_agents)
