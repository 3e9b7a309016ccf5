"""A child that fails is named; nothing hangs, nothing is left behind."""

from __future__ import annotations

import contextlib
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
import torch
from pools import Fragile

from marlenv import AsyncEnvPool, ParallelEnv, SerialEnv
from marlenv.errors import SpecError, WorkerFailed
from marlenv.testing import CountingEnv, GroupedEnv


def left_behind():
    """The worker processes; and what this process still holds of shared memory and bells."""
    held = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            held.append(os.readlink(f"/proc/self/fd/{fd}"))
    with open("/proc/self/maps") as maps:
        mapped = [line for line in maps if "memfd:marlenv" in line]
    memory = [*mapped, *(name for name in held if "memfd:marlenv" in name or "[eventfd]" in name)]
    names = [name for name in os.listdir("/dev/shm") if "marlenv" in name]
    ours = [p for p in multiprocessing.active_children() if p.name.startswith("marlenv") and p.pid not in OTHERS]
    return ours, memory + names


OTHERS: set[int | None] = set()
"""Worker processes of envs that tests of other files keep."""


@pytest.fixture(autouse=True)
def _nothing_is_left_behind():
    gc.collect()
    OTHERS.update(p.pid for p in left_behind()[0])
    before = left_behind()[1]
    yield
    gc.collect()
    processes, names = left_behind()
    assert processes == []
    assert names == before


def pool(how, at=2, **options):
    """Four children in two processes, of which number 2 fails."""
    makers = [Fragile, Fragile, partial(Fragile, fails_at=at, how=how), Fragile]
    return ParallelEnv(4, makers, num_processes=2, **options)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("raise", r"ParallelEnv: env 2 failed in 'step': ValueError: broken at step 2\n(.|\n)*in fail\n"),
        (
            "kill",
            r"ParallelEnv: env 2 failed in 'step': the worker process of envs 2 to 3 \(pid \d+\) ended with signal 9",
        ),
        ("hang", r"ParallelEnv: env 2 failed in 'step': no answer to 'step' within 0.5 s"),
        (
            "lie",
            r"entry 'observation' must be torch.float32 \[1\] as its spec says, got torch.float32 \[2\]|stack expects",
        ),
    ],
)
def test_a_child_that_fails_is_named(how, text):
    env = pool(how)
    env.timeout = 0.5 if how == "hang" else None  # processes may take longer to start
    env.rand_step(env.reset())
    td = env.rand_step(env.reset(torch_masks(env)))
    with pytest.raises(WorkerFailed, match=text) as caught:
        env.rand_step(env.step_mdp(td))
    if how == "raise":
        assert isinstance(caught.value.__cause__, ValueError)
    assert env.is_closed
    assert left_behind()[0] == []


def torch_masks(env):
    """Data that ask for a reset of the children that are not to fail."""
    td = env.step_mdp(env.rand_step(env.reset()))
    return td.set("_reset", torch.ones(4, 1, dtype=torch.bool))


@pytest.mark.parametrize("how", ["raise", "kill", pytest.param("hang", marks=pytest.mark.slow)])
@pytest.mark.parametrize("fused", [False, True])
def test_a_child_that_fails_is_started_again(how, fused, tmp_path):
    once = tmp_path / "once"
    once.touch()
    makers = [Fragile, Fragile, Fragile, partial(Fragile, fails_at=3, how=how, once=str(once))]
    env = ParallelEnv(4, makers, num_processes=4, on_failure="restart", timeout=2.0 if how == "hang" else None)
    same = SerialEnv(4, [Fragile] * 4, on_failure="restart")
    data = []
    for one in (env, same):
        one.set_seed(4)
        td, steps = one.reset(), []
        for _ in range(5):
            td = td.set("action", torch.zeros(4, 1))
            if fused:
                step, td = one.step_and_maybe_reset(td)
            else:
                step = one.step(td)
                td = one.maybe_reset(one.step_mdp(step))
            steps.append(step)
        data.append(torch.stack(steps, 1))
    mine, others = data
    assert env.failures.tolist() == [0, 0, 0, 1]
    assert same.failures.tolist() == [0] * 4
    assert mine["next", "truncated"].squeeze(-1).tolist() == [[False] * 5] * 3 + [[False, False, True, False, False]]
    assert mine["next", "observation"][3].flatten().tolist() == [1, 2, 2, 1, 2]
    assert not mine["next", "terminated"].any()
    for key in ("noise", "observation", "reward"):
        assert torch.equal(mine["next", key][:3], others["next", key][:3]), key
    assert not torch.equal(mine["next", "noise"][3, 3:], others["next", "noise"][3, 3:])
    env.close()


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
    with pytest.raises(WorkerFailed, match=r"env 0 failed in 'start': TypeError: (.|\n)*no_such_option"):
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
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
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
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
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
