"""``pool[1:3]`` is a pool of some of the children: what is done there is done to the children of the whole."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torchrl_oracle
from pools import Fragile
from tensordict import TensorDict
from twin_envs import load

import marlenv
from marlenv import EnvBase, ParallelEnv, SerialEnv
from marlenv.errors import BadIndex, Unsupported
from marlenv.testing import CountingEnv


@pytest.fixture(params=["serial", "parallel"])
def pool(request):
    if request.param == "serial":
        env = SerialEnv(4, CountingEnv, create_env_kwargs=[{"max_steps": 5 + i} for i in range(4)])
    else:
        options = [{"max_steps": 5 + i} for i in range(4)]
        env = ParallelEnv(4, CountingEnv, create_env_kwargs=options, num_processes=2)
    yield env
    env.close(raise_if_closed=False)


def test_children_are_those_of_the_whole(pool):
    td = pool.reset()
    some = pool[[3, 0, 2]]
    assert isinstance(some, type(pool))
    assert some.batch_size == (3,)
    assert some.max_steps == [8, 5, 7]
    td = some.rand_step(td[[3, 0, 2]])
    td = some.rand_step(some.step_mdp(td))
    assert td["next", "observation"].flatten().tolist() == [2, 2, 2]
    assert pool[1:].rollout(3)["next", "observation"][..., 0].tolist() == [[1, 2, 3]] * 3
    partial = TensorDict({"_reset": torch.tensor([[True], [False], [False]])}, [3])
    some.reset(td["next"].exclude("reward").update(partial))
    state = pool.get_state()
    assert {tuple(value.flatten().tolist()) for value in state.values(True, True)} >= {(2, 3, 3, 0)}
    assert torch.equal(some.get_state()["count"], state[[3, 0, 2]]["count"])
    assert pool[0].rollout(9)["next", "observation"].shape == (1, 5, 1)


def test_seeds_go_along_the_chosen_children(pool):
    alone = SerialEnv(2, CountingEnv)
    assert pool[[2, 1]].set_seed(7) == alone.set_seed(7)
    assert pool[[1, 2]].set_seed(7, static_seed=True) == alone.set_seed(7, static_seed=True)


def test_closing_a_view_leaves_the_pool_alone(pool):
    pool.start()
    some = pool[-2:]
    some.close()
    assert not pool.is_closed
    assert pool.rollout(2).shape == (4, 2)
    pool.close()
    assert some.rollout(2).shape == (2, 2)  # both start again


@pytest.mark.parametrize(
    ("index", "says"),
    [(9, "there are 4 envs; expected a number from -4 to 3"), (slice(2, 2), r"got \[\]"), ("x", "expected a number")],
)
def test_what_is_no_index_is_refused(index, says):
    with pytest.raises(BadIndex, match=says):
        SerialEnv(4, CountingEnv)[index]
    with pytest.raises(BadIndex, match=r"each once, got \[0, 0\]"):
        SerialEnv(4, CountingEnv)[[0, 0]]


@pytest.mark.reference
@pytest.mark.parametrize("index", [0, -1, (1,), slice(1, 3), [2, 0], torch.tensor([1, 2]), range(2)])
def test_indices_name_the_same_children_as_torchrls(index):
    kinds = []
    for library, lib in (("torchrl", torchrl_oracle.envs), ("marlenv", marlenv)):
        env = lib.SerialEnv(3, lambda library=library: load("conventions", library).Counter())
        env.reset()
        some = env[index]
        td = some.rand_step(some.reset())
        kinds.append((some.batch_size, some.num_workers, td["next", "reward"].shape))
    assert kinds[0] == kinds[1]


@pytest.mark.reference
def test_pools_are_made_and_configured_as_torchrls():
    for lib in (torchrl_oracle.envs, marlenv):
        env = lib.EnvBase.make_parallel(lib.PendulumEnv, num_envs=1, serial_for_single=True)
        assert isinstance(env, lib.SerialEnv)
        assert env.configure_parallel(num_threads=2) is env
        for other in (lib.PendulumEnv(), lib.TransformedEnv(env)):
            with pytest.raises(NotImplementedError):
                other.configure_parallel(num_threads=2)
    many = EnvBase.make_parallel(CountingEnv, num_envs=2, daemon=True)
    assert (type(many), many.batch_size, many.daemon) == (ParallelEnv, torch.Size([2]), True)
    with pytest.raises(Unsupported, match=r"CountingEnv.configure_parallel: only pools have children"):
        CountingEnv().configure_parallel(daemon=True)


@pytest.mark.parametrize("pool", [SerialEnv, partial(ParallelEnv, num_processes=1)])
def test_a_child_that_fails_within_a_view_is_cut_off_and_counted(pool):
    env = pool(3, Fragile, create_env_kwargs=[{}, {"fails_at": 2}, {}], on_failure="restart")
    td = env.reset()
    view = env[[1, 2]]
    out = view.rand_step(view.step_mdp(view.rand_step(td[1:].clone())))
    assert out["next", "truncated"].flatten().tolist() == [True, False]
    assert (view.failures.tolist(), env.failures.tolist()) == ([1, 0], [0, 1, 0])
    env.close()
