"""A child that fails is named; nothing hangs, nothing is left behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import pytest
from pools import Fragile, interrupted, left_behind, nothing_left_behind

from marlenv import AsyncEnvPool, ParallelEnv, SerialEnv
from marlenv.errors import SpecError, WorkerFailed
from marlenv.testing import CountingEnv, GroupedEnv

pytestmark = pytest.mark.slow  # processes that hang and die take seconds


@pytest.fixture(autouse=True)
def _nothing_is_left_behind():
    with nothing_left_behind():
        yield


def pool(how, at=2, **options):
    """Four children in two processes, of which number 2 fails."""
    makers = [Fragile, Fragile, partial(Fragile, fails_at=at, how=how), Fragile]
    return ParallelEnv(4, makers, num_processes=2, **options)


def test_a_series_restarts_children_too(tmp_path):
    once = tmp_path / "once"
    once.touch()
    makers = [Fragile, partial(Fragile, fails_at=2, once=str(once))]
    env = SerialEnv(2, makers, on_failure="restart")
    rollout = env.rollout(4, break_when_any_done=False)
    assert rollout["next", "truncated"].flatten().tolist() == [False] * 4 + [False, True, False, False]
    assert env.failures.tolist() == [0, 1]
    with pytest.raises(ValueError, match="broken at step 2") as caught:
        SerialEnv(2, [Fragile, partial(Fragile, fails_at=2)]).rollout(4)
    assert caught.value.__notes__ == ["in env 1 of the pool"]


def test_an_agent_that_had_died_is_not_truncated():
    env = SerialEnv(1, GroupedEnv, create_env_kwargs={"terminate": {"agent_0": 1}, "rule": "all"}, on_failure="restart")
    td = env.step_mdp(env.rand_step(env.reset()))
    env.children_envs[0]._step = lambda td: 1 / 0
    following = env.rand_step(td)["next"]
    assert following["agents", "terminated"].flatten().tolist() == [True, False, False]
    assert following["agents", "truncated"].flatten().tolist() == [False, True, True]
    assert following["truncated"].all()
    assert following["done"].all()


def test_a_process_that_was_killed_between_steps_is_replaced():
    env = ParallelEnv(2, CountingEnv, on_failure="restart")
    td = env.rand_step(env.reset())
    os.kill(env._workers[1].process.pid, signal.SIGKILL)
    td = env.rand_step(env.step_mdp(td))
    assert td["next", "truncated"].flatten().tolist() == [False, True]
    assert td["next", "observation"].flatten().tolist() == [2, 1]
    assert env.failures.tolist() == [0, 1]
    env.close()


def test_a_child_that_cannot_be_made_is_named():
    with pytest.raises(WorkerFailed, match=r"env 1 failed in 'start': TypeError: (.|\n)*no_such_option"):
        ParallelEnv(2, CountingEnv, create_env_kwargs=[{}, {"no_such_option": 1}], num_processes=1)


def test_pools_end_with_their_last_reference():
    env = ParallelEnv(2, CountingEnv)
    env.reset()
    assert len(left_behind()[0]) == 2
    del env
    gc.collect()
    assert left_behind()[0] == []


@pytest.mark.parametrize("end", ["close", "error", "interrupt", "kill", "forgotten"])
def test_asynchronous_pools_leave_nothing_behind(end):
    makers = [Fragile, partial(Fragile, fails_at=1, how={"error": "raise", "kill": "kill"}.get(end, "hang"))]
    env = AsyncEnvPool(makers, backend="multiprocessing")
    td = env.rand_action(env.reset())
    assert len(multiprocessing.active_children()) >= 2
    pids = [channel.process.pid for channel in env._channels]
    if end == "close":
        env.close()
    elif end == "forgotten":
        del env
        gc.collect()
    elif end == "interrupt":
        with pytest.raises(KeyboardInterrupt), interrupted(0.3):
            env.step(td)
    else:
        with pytest.raises(WorkerFailed, match=r"env 1 failed in 'step'"):
            env.step(td)
    until = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < until, "a process is left, if only as a zombie"
        time.sleep(0.02)


def test_an_interrupt_ends_the_processes():
    env = pool("hang", at=1)
    td = env.rand_action(env.reset())
    with pytest.raises(KeyboardInterrupt), interrupted(0.3):
        env.step(td)
    assert env.is_closed
    assert left_behind()[0] == []


SCRIPT = """
import os, sys
from marlenv import ParallelEnv
from marlenv.testing import CountingEnv
if __name__ == "__main__":
    env = ParallelEnv(2, CountingEnv)
    env.reset()
    print(*[worker.process.pid for worker in env._workers], flush=True)
    if sys.argv[1] == "kill":
        os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["kill", "exit"])
def test_processes_end_with_the_one_that_made_them(end, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script, end], check=False, capture_output=True, text=True, timeout=100)
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2, done.stderr
    until = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < until
        time.sleep(0.05)


def unread(_):
    """An env that has no need of what it is given."""
    return CountingEnv()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: ParallelEnv(2, partial(unread, threading.Lock())),
            r"ParallelEnv: create_env_fn of env 0 cannot be sent to another process, functools.partial",
        ),
        (
            lambda: ParallelEnv(
                2, lambda max_steps, x: CountingEnv(), create_env_kwargs={"max_steps": 1, "x": (i for i in [])}
            ),
            r"create_env_kwargs\['x'\] of env 0 cannot be sent to another process, <generator",
        ),
        (
            lambda: ParallelEnv(2, CountingEnv, mp_start_method="fly"),
            r"ParallelEnv: mp_start_method must be one of \['fork', 'spawn', 'forkserver'\], got 'fly'",
        ),
        (
            lambda: ParallelEnv(2, CountingEnv, num_processes=3),
            r"ParallelEnv: num_processes must be an integer from 1 to 2, got 3",
        ),
        (
            lambda: ParallelEnv(2, [CountingEnv, GroupedEnv]),
            r"ParallelEnv: all children must have the same entries, but child 1 lacks the action entries \['action'\]",
        ),
        (
            lambda: ParallelEnv(2, CountingEnv, on_failure="ignore"),
            r"ParallelEnv: on_failure must be 'raise' or 'restart', got 'ignore'",
        ),
    ],
)
def test_what_is_refused(make, text):
    with pytest.raises(SpecError, match=text):
        make().start()
