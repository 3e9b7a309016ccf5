"""A pool that was closed: copied, pickled, started again with the seeds that it had."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from pools import Fragile, assert_equal

import marlenv
from marlenv import AsyncEnvPool, ParallelEnv, SerialEnv
from marlenv.errors import Unsupported
from marlenv.testing import CountingEnv

POOLS = {
    "serial": SerialEnv,
    "parallel": lambda n, make, **options: ParallelEnv(n, make, num_processes=2, **options),
    "threads": lambda n, make, **options: AsyncEnvPool([make] * n, **options),
    "processes": lambda n, make, **options: AsyncEnvPool([make] * n, backend="multiprocessing", **options),
}


@pytest.fixture(params=POOLS)
def new(request):
    return POOLS[request.param]


@pytest.mark.slow
@pytest.mark.parametrize("twin", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_it_can_be_copied_and_pickled(new, twin):
    env = new(2, CountingEnv, create_env_kwargs=[{"max_steps": 2}, {"max_steps": 3}])
    env.rollout(2)
    env.close()
    other = twin(env)
    ends = other.rollout(3, break_when_any_done=False)["next", "done"].squeeze(-1).tolist()
    assert ends == [[False, True, False], [False, False, True]]
    assert env.is_closed
    other.close()


@pytest.mark.parametrize("how", ["parallel", "threads", "processes"])
def test_one_that_runs_is_not_copied(how):
    env = POOLS[how](2, CountingEnv)
    env.reset()
    for twin in (copy.deepcopy, pickle.dumps):
        with pytest.raises(Unsupported, match="close it first"):
            twin(env)
    env.close()


def cart_pole():
    return marlenv.make("gym/CartPole-v1")


def alone(seeds):
    """The first observations of single envs with these seeds."""
    found = []
    for seed in seeds:
        env = cart_pole()
        env.set_seed(seed)
        found.append(env.reset()["observation"])
    return torch.stack(found)


def chain(seed, count):
    """The seeds of the children: each env returns that of the next."""
    seeds = [seed]
    while len(seeds) < count:
        seeds.append(cart_pole().set_seed(seeds[-1]))
    return seeds


@pytest.mark.slow
@pytest.mark.sim
def test_its_children_begin_as_they_were_seeded(new):
    env = new(3, cart_pole)
    env.set_seed(3)
    first = env.reset()["observation"]
    assert torch.equal(first, alone(chain(3, 3)))
    assert not torch.equal(env.reset()["observation"], first)
    env.close()
    assert torch.equal(env.reset()["observation"], first)
    env.set_seed(4, static_seed=True)
    env.close()
    assert torch.equal(env.reset()["observation"], alone([4, 4, 4]))
    env.close()


def test_after_an_error_too(new):
    env = new(2, Fragile, create_env_kwargs=[{}, {"fails_at": 2}])
    env.set_seed(3)
    first = env.reset()
    with pytest.raises((RuntimeError, ValueError)):
        env.rollout(4)
    env.close(raise_if_closed=False)
    assert_equal(env.reset(), first)
    env.close()


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize("how", ["serial", "parallel"])
def test_seeds_given_to_some_children_are_kept(how):
    env = POOLS[how](3, cart_pole)
    env.set_seed(3)
    env[1:].set_seed(9)
    env.close()
    assert torch.equal(env.reset()["observation"], alone([3, *chain(9, 2)]))
    env.close()
