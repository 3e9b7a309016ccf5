"""Processes of a pool draw from global generators of their own; warnings in them are shown on request."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from marlenv import AsyncEnvPool, ParallelEnv, SerialEnv
from marlenv.testing import CountingEnv


class Noisy(CountingEnv):
    """Draws its length when it is made, and its observations, from the global generators, as many simulators do."""

    def __init__(self):
        super().__init__(max_steps=int(np.random.randint(10, 10**9)))

    def _reset(self, tensordict, **options):
        out = super()._reset(tensordict, **options)
        out["observation"] = torch.tensor([random.random() + np.random.rand()]) + torch.rand(1)
        return out

    def draws(self):
        """One number of each generator."""
        return random.random(), np.random.rand(), torch.rand(()).item()


POOLS = {
    **{
        method: lambda method=method: ParallelEnv(3, Noisy, mp_start_method=method)
        for method in multiprocessing.get_all_start_methods()
    },
    "asynchronous": lambda: AsyncEnvPool([Noisy] * 3, backend="multiprocessing"),
}


@pytest.mark.parametrize("how", [pytest.param(how, marks=[pytest.mark.slow] * (how == "spawn")) for how in POOLS])
def test_no_two_processes_draw_the_same(how):
    lengths, drawn = [], []
    for _ in range(2):  # nor do those of a later pool
        env = POOLS[how]()
        lengths += env.max_steps
        drawn += env.draws()
        env.close()
    assert len(set(lengths)) == 6
    for column in zip(*drawn, strict=True):
        assert len(set(column)) == 6


@pytest.mark.slow
@pytest.mark.parametrize("how", ["forkserver", "asynchronous"])
def test_a_seed_seeds_the_processes_too(how):
    def observed(seed):
        env = POOLS[how]()
        env.set_seed(seed)
        first = env.reset()["observation"].flatten().tolist()
        env.close()
        again = env.reset()["observation"].flatten().tolist()  # of processes that were started again
        env.close()
        assert first == again
        return first

    one, same, other = observed(3), observed(3), observed(4)
    assert one == same
    assert len({*one, *other}) == 6


def test_this_process_is_left_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    for env in (AsyncEnvPool([CountingEnv] * 2), SerialEnv(2, CountingEnv)):
        env.set_seed(1)
        env.reset()
        env.close()
    assert torch.equal(torch.get_rng_state(), before)


def test_a_process_that_replaces_another_draws_anew():
    env = ParallelEnv(1, Noisy, on_failure="restart")
    env.reset()
    length = env.max_steps
    os.kill(env._workers[0].process.pid, signal.SIGKILL)
    env.reset()
    assert env.failures.tolist() == [1]
    assert env.max_steps != length
    env.close()


WARNS = """
import sys, warnings
import marlenv
from marlenv.testing import CountingEnv

class Loud(CountingEnv):
    def _reset(self, td, **options):
        warnings.warn("heard in a worker", UserWarning)
        return super()._reset(td, **options)

if __name__ == "__main__":
    if sys.argv[1] == "shown":
        marlenv.filter_warnings_subprocess = False
    for env in (marlenv.ParallelEnv(1, Loud), marlenv.AsyncEnvPool([Loud], backend="multiprocessing")):
        env.reset()
        env.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "times"), [("quiet", 0), ("shown", 2)])
def test_warnings_of_workers_are_shown_on_request(tmp_path, setting, times):
    script = tmp_path / "script.py"
    script.write_text(WARNS)
    done = subprocess.run([sys.executable, str(script), setting], capture_output=True, text=True, check=True)
    assert done.stderr.count("UserWarning: heard in a worker") == times


UNGUARDED = """
import marlenv
from marlenv.testing import CountingEnv
print("once", flush=True)
{pool}.reset()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "pool", ["marlenv.ParallelEnv(1, CountingEnv)", "marlenv.AsyncEnvPool([CountingEnv], backend='multiprocessing')"]
)
def test_a_script_without_a_guard_is_told_of_it(tmp_path, pool):
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED.format(pool=pool))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "ended with exit code 1; a script that makes a pool needs `if __name__ == '__main__':`" in last
    assert "mp_start_method='fork'" in last
