"""A child that ends the program, an error without words, a question that fails: a pool goes on, or says what it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
from pools import Fragile, nothing_left_behind

from marlenv import AsyncEnvPool, ParallelEnv, SerialEnv
from marlenv.errors import WorkerFailed
from marlenv.testing import CountingEnv


@pytest.fixture(autouse=True)
def _nothing_is_left_behind():
    with nothing_left_behind():
        yield


POOLS = {
    "processes": lambda makers, **options: ParallelEnv(2, makers, num_processes=1, **options),
    "pieces": lambda makers, **options: ParallelEnv(2, makers, num_processes=1, use_buffers=False, **options),
    "threads": AsyncEnvPool,
    "asynchronous processes": partial(AsyncEnvPool, backend="multiprocessing", envs_per_worker=2),
}
SAYS = {"exit": "SystemExit: license expired", "interrupt": "KeyboardInterrupt: not from the keyboard"}
EVERY = [
    pytest.param(kind, how, marks=[pytest.mark.slow] * (kind == "pieces" or how == "interrupt"))
    for kind in POOLS
    for how in SAYS
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "how"), EVERY)
def test_a_child_that_leaves_is_started_again(tmp_path, kind, how):
    once = tmp_path / "once"
    once.touch()
    leaves = partial(Fragile, fails_at=2, how=how, once=str(once))
    env = POOLS[kind]([Fragile, leaves], on_failure="restart")
    data = env.rollout(4, break_when_any_done=False)
    assert env.failures.tolist() == [0, 1]
    assert data["next", "truncated"].squeeze(-1).tolist() == [[False] * 4, [False, True, False, False]]
    assert data["next", "observation"].squeeze(-1).tolist() == [[1, 2, 3, 4], [1, 1, 1, 2]]
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "how"), EVERY)
def test_or_named(kind, how):
    env = POOLS[kind]([Fragile, partial(Fragile, fails_at=2, how=how)])
    with pytest.raises(WorkerFailed, match=f"env 1 failed in 'step(_and_maybe_reset)?': {SAYS[how]}"):
        env.rollout(4, break_when_any_done=False)
    env.close(raise_if_closed=False)


def test_a_child_in_series_ends_the_program():
    env = SerialEnv(2, [Fragile, partial(Fragile, fails_at=2, how="exit")], on_failure="restart")
    with pytest.raises(SystemExit, match="license expired"):
        env.rollout(4, break_when_any_done=False)


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind == "pieces")) for kind in POOLS])
def test_an_error_without_words_is_named(kind):
    env = POOLS[kind]([Fragile, partial(Fragile, fails_at=2, how="mumble")])
    with pytest.raises(WorkerFailed, match=r"env 1 failed in 'step(_and_maybe_reset)?': Mumbled\n\nIn its worker:"):
        env.rollout(4, break_when_any_done=False)
    env.close(raise_if_closed=False)


class Broken(CountingEnv):
    """Has a property that fails."""

    @property
    def gravity(self):
        """Fails."""
        return {}["earth"]


@pytest.mark.slow
@pytest.mark.parametrize("make", [SerialEnv, lambda n, make: AsyncEnvPool([make] * n)])
def test_an_attribute_that_is_missing_or_fails_is_told_as_the_child_tells_it(make):
    env = make(2, Broken)
    with pytest.raises(AttributeError, match="'Broken' object has no attribute 'height'"):
        env.height  # noqa: B018
    assert not hasattr(env, "height")
    with pytest.raises(KeyError, match="earth"):
        env.gravity  # noqa: B018
    env.close(raise_if_closed=False)


SCRIPT = """
import time
from marlenv import AsyncEnvPool, ParallelEnv
from marlenv.testing import CountingEnv

class Slow(CountingEnv):
    def _step(self, td):
        print("steps", flush=True)
        time.sleep(1)
        return super()._step(td)

if __name__ == "__main__":
    env = AsyncEnvPool([Slow], backend="multiprocessing")
    env.step(env.rand_action(env.reset()))
"""


@pytest.mark.slow
def test_workers_go_quietly_where_the_program_was_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    program = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert program.stdout.readline() == "steps\n"
    time.sleep(0.2)
    os.kill(program.pid, signal.SIGKILL)
    assert program.communicate(timeout=60)[1] == ""  # until the last of its processes is gone
