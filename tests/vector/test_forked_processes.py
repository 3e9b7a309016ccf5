"""A pool in a process that was forked, and in one that may have no child processes: its episode is not another's."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading

import pytest
import torch
from pools import nothing_left_behind

from marlenv import AsyncEnvPool, ParallelEnv
from marlenv.errors import Unsupported
from marlenv.testing import CountingEnv

LONG = {"create_env_kwargs": {"max_steps": 50}, "mp_start_method": "fork"}  # other ways to start take seconds
POOLS = {
    "buffers": lambda: ParallelEnv(2, CountingEnv, **LONG),
    "pieces": lambda: ParallelEnv(2, CountingEnv, **LONG, use_buffers=False),
    "view": lambda: ParallelEnv(3, CountingEnv, **LONG)[1:],
    "processes": lambda: AsyncEnvPool([CountingEnv] * 2, **LONG, backend="multiprocessing"),
    "threads": lambda: AsyncEnvPool([CountingEnv] * 2),
}
KINDS = pytest.mark.parametrize("kind", POOLS)


@pytest.fixture(autouse=True)
def _nothing_is_left_behind():
    with nothing_left_behind():
        yield


def counted(env, td, steps):
    """What an env that counts its steps shows after some, and the data to go on from."""
    for _ in range(steps):
        td = env.step_mdp(env.rand_step(td))
    return td["observation"].flatten().tolist(), td


def elsewhere(run, *args, daemon=False):
    """What a function answers in a forked process, or its error."""
    context = multiprocessing.get_context("fork")
    near, far = context.Pipe()

    def answer():
        try:
            far.send(run(*args))
        except Exception as error:
            far.send((type(error), str(error)))

    process = context.Process(target=answer, daemon=daemon)
    process.start()
    assert near.poll(100), "the process does not answer"
    said = near.recv()
    process.join(10)
    assert process.exitcode == 0
    for end in (near, far):
        end.close()
    return said


@KINDS
def test_a_fork_does_not_step_the_envs_of_the_process_before(kind):
    env = POOLS[kind]()
    shown, td = counted(env, env.reset(), 3)
    assert shown == [3, 3]
    tries = [env.reset, lambda: env.rand_step(td), env.get_state, lambda: env.max_steps, lambda: env.set_seed(1)]
    if kind in ("processes", "threads"):
        tries += [lambda: env.async_step_send(env.rand_action(td)), env.async_reset_send]
    for one in tries:
        error, text = elsewhere(one)
        assert error is Unsupported
        assert "its workers belong to process" in text
        assert "close() it here and reset it" in text
    shown, _ = counted(env, td, 1)
    assert shown == [4, 4]
    getattr(env, "_pool", env).close()


@KINDS
def test_a_fork_that_closes_a_pool_gets_workers_of_its_own(kind):
    def count_anew(env, steps):
        whole = getattr(env, "_pool", env)
        whole.close()
        shown, _ = counted(env, env.reset(), steps)
        whole.close()
        return shown

    env = POOLS[kind]()
    _, td = counted(env, env.reset(), 1)
    assert elsewhere(count_anew, env, 4) == [4, 4]
    shown, _ = counted(env, td, 1)
    assert shown == [2, 2]
    getattr(env, "_pool", env).close()


def test_threads_of_a_fork_may_all_begin_to_compute_at_once():
    """PyTorch's own are lost by a fork; two of ours that found out together ended in its "Invalid thread pool!"."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)  # what there is to lose
    together = threading.Barrier(16, timeout=50)

    def make():
        if threading.current_thread() is not threading.main_thread():
            together.wait()
            torch.arange(1)
        return CountingEnv()

    def count():
        env = AsyncEnvPool([make] * 16)
        shown, _ = counted(env, env.reset(), 2)
        env.close()
        return shown

    try:
        said = [elsewhere(count) for _ in range(5)]
    finally:
        torch.set_num_threads(before)
    assert said == [[2] * 16] * 5


FORK = """
import os
from marlenv import ParallelEnv
from marlenv.errors import Unsupported
from marlenv.testing import CountingEnv

env = ParallelEnv(1, CountingEnv)
env.step(env.rand_action(env.reset()))
if not (child := os.fork()):
    own = ParallelEnv(1, CountingEnv)
    print(own.step(own.rand_action(own.reset()))["next", "observation"].tolist())
    own.close()
    try:
        ParallelEnv(1, CountingEnv, mp_start_method="forkserver").reset()
    except Unsupported as error:
        print(error, flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
def test_a_fork_has_no_server_of_processes():
    """In a process of its own, as libraries that were imported for other tests may have threads."""
    ran = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=200, check=False)
    assert ran.returncode == 0, ran.stderr
    shown, refused, code = ran.stdout.splitlines()
    assert (shown, code) == ("[[1.0]]", "0")  # which was "No child processes"
    assert "mp_start_method='forkserver' cannot be in a fork of a process" in refused


@pytest.mark.parametrize("who", ["ParallelEnv", "AsyncEnvPool"])
def test_a_daemonic_process_is_told_what_it_can_have(who):
    def begin():
        env = ParallelEnv(2, CountingEnv) if who == "ParallelEnv" else POOLS["processes"]()
        env.reset()

    error, text = elsewhere(begin, daemon=True)
    assert error is Unsupported
    assert text == (
        f"{who}: this process is daemonic, as the workers of a DataLoader are, and may not have child processes; use "
        f"SerialEnv, or AsyncEnvPool(backend='threading')"
    )

    def count_in_threads():
        env = POOLS["threads"]()
        shown, _ = counted(env, env.reset(), 2)
        env.close()
        return shown

    assert elsewhere(count_in_threads, daemon=True) == [2, 2]
