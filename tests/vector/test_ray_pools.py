"""Pools of Ray's actors give what serial ones give; on several nodes too, and when one of them is lost."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from pools import Fragile, assert_equal, interrupted, pool
from programs import left, makers

from marlenv import AsyncEnvPool, ParallelEnv, SerialEnv
from marlenv.errors import WorkerFailed
from marlenv.testing import CountingEnv

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings
ray = pytest.importorskip("ray", reason="Ray is an extra")


PATHS = [os.path.dirname(__file__), *filter(None, [os.environ.get("PYTHONPATH")])]
OPTIONS = {
    "include_dashboard": False,
    "log_to_driver": False,
    "runtime_env": {"env_vars": {"PYTHONPATH": os.pathsep.join(PATHS)}},
}


@pytest.fixture(scope="module")
def machine():
    """Ray on this machine."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray.init("local", num_cpus=2, **OPTIONS)
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


@pytest.mark.parametrize(
    "kind",
    [
        *("counting", "groups", "pettingzoo"),
        *(pytest.param(kind, marks=pytest.mark.full) for kind in ("transformed", "scenario", "gymnasium")),
    ],
)
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


POOLS = {
    "parallel": lambda makers, **options: ParallelEnv(len(makers), makers, num_processes=2, backend="ray", **options),
    "asynchronous": partial(AsyncEnvPool, backend="ray", envs_per_worker=2),
}
SAYS = {
    "raise": "ValueError: broken at step 2\n\nIn its worker:\n",
    "kill": "its actor was lost",
    "hang": "no answer to 'step' within 5 s",
    "lie": r"SpecError: Fragile: entry 'observation' must be torch.float32 \[1\] as its spec says, got .* \[2\]",
}


@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize(
    "how", ["raise", "kill", *(pytest.param(how, marks=pytest.mark.full) for how in ("hang", "lie"))]
)
def test_actors_that_fail(machine, kind, how):
    env = POOLS[kind]([Fragile, Fragile, partial(Fragile, fails_at=2, how=how), Fragile])
    td = env.step_mdp(env.rand_step(env.reset()))
    env.timeout = 5 if how == "hang" else None
    with pytest.raises(WorkerFailed, match=f"{type(env).__name__}: env 2 failed in 'step': {SAYS[how]}"):
        env.rand_step(td)
    assert env.is_closed


@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize(
    "how", ["raise", "kill", *(pytest.param(how, marks=pytest.mark.full) for how in ("hang", "lie"))]
)
def test_actors_that_fail_are_replaced(machine, kind, how, tmp_path):
    once = tmp_path / "once"
    once.touch()
    makers = [Fragile, Fragile, partial(Fragile, fails_at=2, how=how, once=str(once)), Fragile]
    env, same = POOLS[kind](makers, on_failure="restart"), SerialEnv(4, [Fragile] * 4)
    data = []
    for one in (env, same):
        one.set_seed(3)
        one.timeout = 30 if how == "hang" else None  # a new actor takes its time to start
        data.append(one.rollout(4, break_when_any_done=False))
    lost = [2] if how in ("raise", "lie") else [2, 3]  # what shares its actor goes with it
    assert data[0]["next", "truncated"].squeeze(-1).tolist() == [[False, i in lost, False, False] for i in range(4)]
    assert env.failures.tolist() == [int(i in lost) for i in range(4)]
    for key in ("noise", "observation"):
        assert torch.equal(data[0]["next", key][:2], data[1]["next", key][:2])
    env.close()


@pytest.mark.parametrize("kind", POOLS)
def test_envs_of_modules_that_only_this_process_looks_for(machine, kind, tmp_path, monkeypatch):
    name = f"envs_found_here_{kind}"
    (tmp_path / f"{name}.py").write_text("from marlenv.testing import CountingEnv\nclass Mine(CountingEnv): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    make = importlib.import_module(name).Mine
    env = POOLS[kind]([make] * 2)
    assert env.rand_step(env.reset())["next", "observation"].flatten().tolist() == [1, 1]
    env.close()


class Unreadable:
    """Cannot be made anew from what was sent."""

    def __reduce__(self):
        return int, ("no number",)


@pytest.mark.parametrize("kind", POOLS)
def test_errors_around_the_envs_are_told_with_their_cause(machine, kind):
    env = POOLS[kind]([Fragile] * 2, on_failure="restart")
    env.reset()
    with pytest.raises(ValueError, match="invalid literal for int.*no number"):
        env.fails(Unreadable(), 1)
    env.close()


@pytest.mark.parametrize("kind", POOLS)
def test_an_actor_that_asks_for_more_than_any_node_has(machine, kind):
    with pytest.raises(WorkerFailed, match=r"within 3 s.*; an actor asks for {'CPU': 64}, and no node of Ray has that"):
        POOLS[kind]([CountingEnv] * 2, timeout=3, backend_options={"num_cpus": 64}).reset()


@pytest.mark.parametrize("kind", POOLS)
def test_ray_does_not_start_again_by_itself(machine, kind, monkeypatch):
    env = POOLS[kind]([CountingEnv] * 2, on_failure="restart")
    td = env.rand_action(env.reset())
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", None)
    with pytest.raises(WorkerFailed, match="Ray was shut down while its actors held envs; start Ray again, and reset"):
        env.step(td)
    assert env.is_closed


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        ("parallel", "interrupt"),
        ("asynchronous", "forgotten"),
        *(pytest.param("parallel", end, marks=pytest.mark.full) for end in ("close", "error", "forgotten")),
        *(pytest.param("asynchronous", end, marks=pytest.mark.full) for end in ("close", "error", "interrupt")),
    ],
)
def test_actors_leave_nothing_behind(machine, kind, end):
    how = "raise" if end == "error" else "hang"
    before = alive()
    env = POOLS[kind]([Fragile, Fragile, partial(Fragile, fails_at=1, how=how), Fragile])
    td = env.rand_action(env.reset())
    assert len(alive() - before) == 2
    if end == "close":
        env.close()
    elif end == "forgotten":
        del env
        gc.collect()
    elif end == "interrupt":
        with pytest.raises(KeyboardInterrupt), interrupted(0.5):
            env.step(td)
    else:
        with pytest.raises(WorkerFailed):
            env.step(td)
    until = time.monotonic() + 30
    while alive() - before:
        assert time.monotonic() < until, "an actor is left"
        time.sleep(0.1)


def alive():
    """The processes of actors that this one started; other tests have actors of their own at the same time."""
    parents, actors = {}, set()
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit():
                parents[folder.name] = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                if b"ray::Actor" in (folder / "cmdline").read_bytes():
                    actors.add(folder.name)
    return {one for one in actors if str(os.getpid()) in ancestors(one, parents)}


def ancestors(process, parents):
    while process in parents:
        process = parents[process]
        yield process


def played(env):
    env.rollout(2)
    env.close()


@pytest.mark.parametrize("kind", POOLS)
def test_envs_are_closed(machine, kind, tmp_path):
    with pytest.raises(WorkerFailed, match="env 1 failed in 'close': OSError: disk full"):
        played(POOLS[kind](makers(tmp_path, e1="close")))
    assert left(tmp_path) == 0
    with pytest.raises(WorkerFailed, match="env 2 failed in 'step"):
        played(POOLS[kind](makers(tmp_path, e2="step")))
    assert left(tmp_path) == 0
    with pytest.raises(WorkerFailed, match="env 3 failed in '(start|describe)': OSError: no licence"):
        POOLS[kind](makers(tmp_path, e3="make")).start()
    assert left(tmp_path) == 0
    env = POOLS[kind](makers(tmp_path))
    env.rollout(2)
    assert left(tmp_path, 0) == 4
    del env
    gc.collect()
    assert left(tmp_path) == 0
