"""Pools of Gymnasium's envs give what Gymnasium's own vectors give, and what each env gives alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from marlenv import AsyncEnvPool, EnvBase, GymEnv, ParallelEnv, SerialEnv

LIMITS = (5, 9, 30, 200)
TASKS = ["CartPole-v1", "Pendulum-v1"]
POOLS: dict[str, Callable[..., EnvBase]] = {
    "serial": lambda makers: SerialEnv(len(makers), makers),
    "parallel": lambda makers: ParallelEnv(len(makers), makers, num_processes=2),
    "threads": AsyncEnvPool,
    "processes": partial(AsyncEnvPool, backend="multiprocessing", envs_per_worker=2),
}


@pytest.fixture(params=[(kind, task) for kind in POOLS for task in TASKS], ids="-".join)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[EnvBase, SyncVectorEnv]]:
    """A pool, and a vector of the same envs that resets what is done in the step itself."""
    kind, task = request.param
    ours = POOLS[kind]([partial(GymEnv, task, max_episode_steps=n, categorical_action_encoding=True) for n in LIMITS])
    makers = [partial(gymnasium.make, task, max_episode_steps=n) for n in LIMITS]
    theirs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    yield ours, theirs
    ours.close()
    theirs.close()


def same(ours: torch.Tensor, theirs: np.ndarray) -> bool:
    return np.array_equal(ours.numpy(), theirs.reshape(ours.shape).astype(ours.numpy().dtype))


@pytest.mark.slow
def test_steps_resets_and_final_observations_are_those_of_a_vector(pair: tuple[EnvBase, SyncVectorEnv]) -> None:
    pool, vector = pair
    seeds = [5]
    for _ in LIMITS[1:]:
        seeds.append(GymEnv("CartPole-v1").set_seed(seeds[-1]))
    pool.set_seed(5)
    td, (seen, _) = pool.reset(), vector.reset(seed=[seed % 2**31 for seed in seeds])
    vector.action_space.seed(0)
    ends = 0
    for _ in range(60):
        assert same(td["observation"], seen)
        action = vector.action_space.sample()
        step, td = pool.step_and_maybe_reset(td.set("action", torch.from_numpy(action.copy())))
        seen, reward, terminated, truncated, info = vector.step(action)
        following = step["next"]
        final = seen.copy()
        for i in np.flatnonzero(terminated | truncated):
            final[i] = info["final_obs"][i]
            ends += 1
        assert same(following["observation"], final)
        assert same(following["reward"], reward)
        assert same(following["terminated"], terminated)
        assert same(following["truncated"], truncated)
        assert same(following["done"], terminated | truncated)
    assert ends > 15
