"""Envs of a pool are closed, all of them, however it ends or fails to begin; and errors say of which env they are."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import subprocess
import sys
from functools import partial

import pytest
from pools import nothing_left_behind
from programs import Program, left, makers, started

from marlenv import AsyncEnvPool, EnvCreator, ParallelEnv, SerialEnv
from marlenv.errors import SpecError, WorkerFailed
from marlenv.testing import CountingEnv, GroupedEnv
from marlenv.vector.process import unguarded

POOLS = {
    "series": lambda makers: SerialEnv(len(makers), makers),
    "processes": lambda makers: ParallelEnv(len(makers), makers),
    "one process": lambda makers: ParallelEnv(len(makers), makers, num_processes=1),
    "threads": AsyncEnvPool,
    "asynchronous processes": lambda makers: AsyncEnvPool(makers, backend="multiprocessing", envs_per_worker=4),
}
WORKERS = [kind for kind in POOLS if kind != "series"]


def forget(held):
    """Lets go of the last references to what a list holds."""
    held.clear()
    gc.collect()


@pytest.fixture
def folder(tmp_path):
    """Where programs are noted; none is left running."""
    yield tmp_path
    for pid in started(tmp_path):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "end", ["close", *(pytest.param(end, marks=pytest.mark.slow) for end in ("forgotten", "error"))]
)
@pytest.mark.parametrize("kind", WORKERS)
def test_however_the_pool_ends(kind, end, folder):
    with nothing_left_behind():
        env = POOLS[kind](makers(folder, e2="step" if end == "error" else ""))
        if end == "error":
            with pytest.raises(WorkerFailed, match="env 2 failed in 'step(_and_maybe_reset)?': OSError: no answer"):
                env.rollout(2)
        else:
            env.rollout(2)
        if end == "close":
            env.close()
        del env
        gc.collect()
    assert len(started(folder)) >= 4
    assert left(folder) == 0


SCRIPT = """
import sys
from programs import makers
from test_envs_are_closed import POOLS
if __name__ == "__main__":
    env = POOLS[sys.argv[1]](makers(sys.argv[2]))
    env.rollout(2)
    print("runs")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["processes", "asynchronous processes"])
def test_at_the_end_of_the_program_too(kind, folder, tmp_path_factory):
    script = tmp_path_factory.mktemp("script") / "script.py"
    script.write_text(SCRIPT)
    paths = [os.path.dirname(__file__), *filter(None, [os.environ.get("PYTHONPATH")])]
    program = subprocess.run(
        [sys.executable, script, kind, folder],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert program.stdout == "runs\n", program.stderr
    assert left(folder) == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", POOLS)
def test_all_are_closed_where_some_fail_to(kind, folder):
    env = POOLS[kind](makers(folder, e1="close", e3="close"))
    env.rollout(2)
    with pytest.raises(OSError if kind == "series" else WorkerFailed) as caught:
        env.close()
    assert left(folder) == 0
    if kind == "series":
        assert str(caught.value) == "disk full"
        assert caught.value.__notes__ == ["in env 1 of the pool", "env 3 failed, too: OSError('disk full')"]
    else:
        assert f"{type(env).__name__}: env 1 failed in 'close': OSError: disk full" in str(caught.value)
        said = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
        assert "env 3 failed, too: OSError" in said
    assert env.is_closed
    assert env.rollout(3)["next", "observation"].flatten().tolist() == [1, 2, 3] * 4
    with pytest.raises((OSError, WorkerFailed)):
        env.close()
    env.close(raise_if_closed=False)
    assert left(folder) == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", WORKERS)
def test_a_forgotten_pool_warns(kind, folder):
    held = [POOLS[kind](makers(folder, e1="close"))]
    held[0].rollout(2)
    name = type(held[0]).__name__
    with pytest.warns(UserWarning, match=f"{name}: env 1 failed in 'close': OSError: disk full"):
        forget(held)
    assert left(folder) == 0


@pytest.mark.parametrize("kind", POOLS)
def test_those_of_a_pool_that_cannot_be_made(kind, folder):
    with pytest.raises(OSError if kind == "series" else WorkerFailed) as caught:
        POOLS[kind](makers(folder, e2="make")).start()
    if kind == "series":
        assert caught.value.__notes__ == ["in env 2 of the pool"]
    else:
        assert "env 2 failed in " in str(caught.value)
    del caught
    assert left(folder) == 0


@pytest.mark.parametrize("kind", POOLS)
def test_those_that_do_not_go_together(kind, folder):
    unlike = [*makers(folder)[:2], partial(Program, folder, batch_size=[2]), *makers(folder)[3:]]
    with pytest.raises(SpecError, match=r"all children must have the batch size \[\], got \[2\]") as caught:
        POOLS[kind](unlike).start()
    assert "SerialBlock" not in str(caught.value)
    del caught
    assert len(started(folder)) >= 4
    assert left(folder) == 0


def test_children_of_other_entries_in_one_process():
    with pytest.raises(
        SpecError, match=r"^ParallelEnv: all children must have the same entries, but child 1 lacks the"
    ):
        ParallelEnv(2, [CountingEnv, GroupedEnv], num_processes=1)


def test_the_env_of_a_creator_that_fails(folder, monkeypatch):
    monkeypatch.setattr(Program, "state_dict", lambda self: self.nowhere)
    with pytest.raises(AttributeError, match="nowhere"):
        EnvCreator(Program, folder=folder)
    assert len(started(folder)) == 1
    assert left(folder) == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", POOLS)
def test_a_question_that_is_refused_says_by_which_env(kind, folder):
    env = POOLS[kind](makers(folder, e2="ask"))
    env.reset()
    asked = [env, env[1:], env[[3, 2]]] if kind in ("series", "processes", "one process") else [env]
    for pool in asked:
        for ask in (lambda pool=pool: pool.ask(), lambda pool=pool: pool.level, pool.get_state):
            with pytest.raises(LookupError, match="no such level") as caught:
                ask()
            assert [note for note in caught.value.__notes__ if note.startswith("in env")] == ["in env 2 of the pool"]
    env.close()


def test_a_step_of_a_view_that_fails_says_of_which_env(folder):
    env = ParallelEnv(4, makers(folder, e3="step"), num_processes=1)
    env.reset()
    part = env[2:]
    with pytest.raises(WorkerFailed, match="env 3 failed in 'step'"):
        part.rand_step(part.reset())
    del env, part
    gc.collect()
    assert left(folder) == 0


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("<stdin>", r"'<stdin>' is no file.*put it into a file, or use mp_start_method='fork'"),
        (__file__, "needs `if __name__ == '__main__':` around"),
        (None, "needs `if __name__ == '__main__':` around"),
    ],
)
def test_why_a_process_has_not_begun(script, says, monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "__file__", script, raising=False)
    assert re.search(says, unguarded(1, begun=False))
    assert unguarded(1, begun=True) == ""


@pytest.mark.slow
def test_a_script_from_standard_input():
    script = "from marlenv import *\nfrom marlenv.testing import CountingEnv\nParallelEnv(2, CountingEnv).reset()"
    program = subprocess.run(
        [sys.executable, "-"], input=script, check=False, capture_output=True, text=True, timeout=120
    )
    assert "WorkerFailed: ParallelEnv: env 0 failed in 'start'" in program.stderr
    assert "put it into a file, or use mp_start_method='fork'" in program.stderr
    assert "__name__" not in program.stderr.split("WorkerFailed: ")[1]
