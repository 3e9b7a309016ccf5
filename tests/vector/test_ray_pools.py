"""Pools of Ray's actors give what serial ones give; on several nodes too, and when one of them is lost."""

from __future__ import annotations

import os
from functools import partial

import pytest
from pools import Fragile, assert_equal, pool

from marlenv import AsyncEnvPool, ParallelEnv, SerialEnv
from marlenv.errors import WorkerFailed
from marlenv.testing import CountingEnv

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings
ray = pytest.importorskip("ray", reason="Ray is an extra")


OPTIONS = {
    "include_dashboard": False,
    "log_to_driver": False,
    "runtime_env": {"env_vars": {"PYTHONPATH": os.path.dirname(__file__)}},
}


@pytest.fixture(scope="module")
def machine():
    """Ray on this machine."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray.init(num_cpus=2, **OPTIONS)
    yield
    ray.shutdown()


@pytest.fixture
def nodes():
    """Two nodes of Ray on this machine, each with a resource of its own: the cluster, and the second node."""
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, **{name: value for name, value in OPTIONS.items() if name != "include_dashboard"})
    cluster.wait_for_nodes()
    yield cluster, second
    ray.shutdown()
    cluster.shutdown()


class Placed(CountingEnv):
    """Says which node it is on."""

    @property
    def node(self):
        return ray.get_runtime_context().get_node_id()


def test_a_node_that_is_lost_is_a_worker_that_is_lost(nodes):
    cluster, second = nodes
    env = ParallelEnv(2, Placed, backend="ray", backend_options={"num_cpus": 1}, on_failure="restart", timeout=60)
    serial = SerialEnv(2, CountingEnv, on_failure="restart")
    for one in (env, serial):
        one.set_seed(3)
    assert_equal(serial.rollout(3), env.rollout(3))
    places = env.node
    assert len(set(places)) == 2
    cluster.add_node(num_cpus=1)  # where the lost env goes
    td = env.rand_step(env.reset())
    lost = places.index(second.node_id)
    cluster.remove_node(second)
    td = env.rand_step(env.step_mdp(td))
    assert td["next", "truncated"].flatten().tolist() == [i == lost for i in range(2)]
    assert td["next", "observation"].flatten().tolist() == [1 if i == lost else 2 for i in range(2)]
    assert env.failures.tolist() == [int(i == lost) for i in range(2)]
    assert second.node_id not in env.node
    env.close()


@pytest.mark.parametrize("kind", ["counting", "groups", "transformed", "gymnasium", "pettingzoo"])
def test_actors_are_serial_entry_by_entry(machine, kind):
    serial, parallel = pool(SerialEnv, kind), pool(ParallelEnv, kind, num_processes=2, backend="ray")
    for how in ({}, {"break_when_any_done": False}, {"break_when_all_done": True}):
        assert serial.set_seed(5) == parallel.set_seed(5)
        assert_equal(serial.rollout(6, **how), parallel.rollout(6, **how))
    parallel.close()


def test_asynchronous_actors(machine):
    makers, kwargs = [Fragile] * 3, [{}] * 3
    serial = SerialEnv(3, makers, create_env_kwargs=kwargs)
    env = AsyncEnvPool(makers, backend="ray", envs_per_worker=2)
    assert env.backend == "ray"
    assert serial.set_seed(5) == env.set_seed(5)
    assert_equal(serial.rollout(4), env.rollout(4).exclude("env_index"))
    td = env.rand_action(env.reset())
    env.async_step_send(td[[0, 2]])
    assert sorted(env.async_step_recv(min_get=2)["env_index"]) == [0, 2]
    assert env.fails_at == [10**9] * 3
    env.close()


@pytest.mark.parametrize("how", ["raise", "kill", "hang"])
def test_actors_that_fail(machine, how):
    makers = [Fragile, partial(Fragile, fails_at=2, how=how)]
    env = ParallelEnv(2, makers, backend="ray", timeout=20 if how == "hang" else None)
    text = {"raise": "ValueError: broken at step 2", "kill": "its actor was lost", "hang": "no answer to 'step'"}[how]
    td = env.rand_step(env.reset())
    with pytest.raises(WorkerFailed, match=f"ParallelEnv: env 1 failed in 'step': {text}"):
        env.rand_step(env.step_mdp(td))
    assert env.is_closed


def test_an_actor_that_is_lost_is_replaced(machine, tmp_path):
    once = tmp_path / "once"
    once.touch()
    env = ParallelEnv(
        2, [Fragile, partial(Fragile, fails_at=2, how="kill", once=str(once))], backend="ray", on_failure="restart"
    )
    rollout = env.rollout(4, break_when_any_done=False)
    assert rollout["next", "truncated"].squeeze(-1).tolist() == [[False] * 4, [False, True, False, False]]
    assert env.failures.tolist() == [0, 1]
    env.close()
