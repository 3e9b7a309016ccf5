"""An env that raises, dies, hangs or lies, in pools of every kind: it is named, or started again; nothing hangs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from pools import Fragile, nothing_left_behind
from tensordict import TensorDictBase

from marlenv import AsyncEnvPool, EnvBase, ParallelEnv, SerialEnv
from marlenv.errors import SpecError, WorkerFailed
from marlenv.testing import CountingEnv

pytestmark = pytest.mark.slow  # processes that hang and die take seconds

Makers = list[Callable[..., EnvBase]]

POOLS: dict[str, Callable[..., Any]] = {
    "processes": lambda makers, **options: ParallelEnv(len(makers), makers, num_processes=2, **options),
    "pieces": lambda makers, **options: ParallelEnv(len(makers), makers, num_processes=2, use_buffers=False, **options),
    "threads": AsyncEnvPool,
    "asynchronous processes": partial(AsyncEnvPool, backend="multiprocessing", envs_per_worker=2),
}
FAULTS = [
    (pool, how) for pool in POOLS for how in ("raise", "kill", "hang", "lie") if (pool, how) != ("threads", "kill")
]
QUICK = {("processes", "lie"), ("threads", "hang"), ("asynchronous processes", "kill")}
"""What is tried in every run of the tests; the rest is slow."""


def some(cases: list[Any], quick: set[Any]) -> list[Any]:
    """The cases: the quick ones always, one of three of the others with the slow tests, and all with --full."""
    later = [pytest.mark.slow, pytest.mark.full, pytest.mark.full]
    return [pytest.param(*case, marks=[] if case in quick else later[i % 3]) for i, case in enumerate(cases)]


SAYS = {
    "raise": r"ValueError: broken at step 2\n\nIn its worker:\n(.|\n)*in fail\n",
    "kill": r"(the|its) worker process .*ended with (signal 9|exit code -9)",
    "hang": r"no answer to 'step' within 0.5 s",
    "lie": r"SpecError: Fragile: entry 'observation' must be torch.float32 \[1\] as its spec says, got .* \[2\]",
}
TIMEOUT = 0.5


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    with nothing_left_behind():
        yield


def made(kind: str, **broken: Any) -> Any:
    """Four envs in two workers, of which number 2 fails."""
    options = {name: broken.pop(name) for name in ("on_failure",) if name in broken}
    return POOLS[kind]([Fragile, Fragile, partial(Fragile, **broken), Fragile], **options)


@pytest.mark.parametrize(("kind", "how"), some(FAULTS, QUICK))
def test_the_env_that_fails_is_named_with_what_it_was_at(kind: str, how: str) -> None:
    env = made(kind, fails_at=2, how=how)
    td = env.step_mdp(env.rand_step(env.reset()))
    env.timeout = TIMEOUT if how == "hang" else None  # workers may take longer to start
    with pytest.raises(WorkerFailed, match=rf"{type(env).__name__}: env 2 failed in 'step': {SAYS[how]}"):
        env.rand_step(td)
    assert env.is_closed


@pytest.mark.parametrize(
    ("kind", "how", "fused"),
    some(
        [(*fault, fused) for fault in FAULTS for fused in (False, True)],
        {("processes", "kill", True), ("processes", "lie", False), ("asynchronous processes", "kill", True)},
    ),
)
def test_the_env_that_fails_is_started_again(kind: str, how: str, fused: bool, tmp_path: Any) -> None:
    once = tmp_path / "once"
    once.touch()
    env = made(kind, fails_at=3, how=how, once=str(once), on_failure="restart")
    same = SerialEnv(4, [Fragile] * 4)
    mine, others = (played(one, how, fused=fused) for one in (env, same))
    lost = [2] if how in ("raise", "lie") or kind == "threads" else [2, 3]  # what shares its process goes with it
    assert env.failures.tolist() == [int(i in lost) for i in range(4)]
    cut = torch.zeros(4, 5, dtype=torch.bool)
    cut[lost, 2] = True
    assert torch.equal(mine["next", "truncated"].squeeze(-1), cut)
    assert torch.equal(mine["next", "done"].squeeze(-1), cut)
    assert mine["next", "reward"][lost, :].flatten(1).tolist() == [[1, 1, 0, 1, 1]] * len(lost)
    assert mine["next", "observation"][lost].flatten(1).tolist() == [[1, 2, 2, 1, 2]] * len(lost)
    rest = [i for i in range(4) if i not in lost]
    for key in ("noise", "observation", "reward"):
        assert torch.equal(mine["next", key][rest], others["next", key][rest]), key
    assert not torch.equal(mine["next", "noise"][lost, 3:], others["next", "noise"][lost, 3:])
    env.close()


def played(env: Any, how: str, *, fused: bool) -> TensorDictBase:
    """Five steps."""
    env.set_seed(4)
    td, steps = env.reset(), []
    for i in range(5):
        env.timeout = 2.0 if how == "hang" and i == 2 else None
        td = td.set("action", torch.zeros(4, 1))
        if fused:
            step, td = env.step_and_maybe_reset(td)
        else:
            step = env.step(td)
            td = env.maybe_reset(env.step_mdp(step))
        steps.append(step.exclude("env_index"))
    return torch.stack(steps, 1)


@pytest.mark.parametrize(
    ("kind", "how"),
    some(
        [(kind, how) for kind in POOLS for how in ("raise", "hang", "lie")], {("processes", "lie"), ("threads", "lie")}
    ),
)
def test_a_reset_that_fails_is_named(kind: str, how: str) -> None:
    env = made(kind, fails_at=2, how=how, where="reset")
    env.reset()
    env.timeout = TIMEOUT if how == "hang" else None
    says = {"raise": "ValueError: broken", "hang": r"no answer to 'reset' within 0.5 s", "lie": SAYS["lie"]}[how]
    with pytest.raises(WorkerFailed, match=rf"env 2 failed in 'reset': {says}"):
        env.reset()


@pytest.mark.parametrize(
    ("backend", "kind", "on_failure"),
    some(
        list(
            product(["threading", "multiprocessing"], ["step", "step_and_maybe_reset", "reset"], ["raise", "restart"])
        ),
        {("threading", "step", "raise"), ("threading", "reset", "restart")},
    ),
)
def test_what_is_received_of_an_env_that_hangs(backend: str, kind: str, on_failure: str, tmp_path: Any) -> None:
    once = tmp_path / "once"
    once.touch()
    where, at = ("reset", 2) if kind == "reset" else ("step", 1)
    broken = partial(Fragile, fails_at=at, how="hang", where=where, once=str(once))
    env = AsyncEnvPool([Fragile, broken], backend=backend, on_failure=on_failure)
    td = env.rand_action(env.reset())
    env.timeout = TIMEOUT if on_failure == "raise" else 2.0
    getattr(env, f"async_{kind}_send")(td)
    receive = getattr(env, f"async_{kind}_recv")
    if on_failure == "raise":
        with pytest.raises(WorkerFailed, match=rf"env 1 failed in '{kind}': no answer to '{kind}' within 0.5 s"):
            receive(min_get=2)
        assert env.is_closed
        return
    found = receive(min_get=2)
    assert env.failures.tolist() == [0, 1]
    if kind == "reset":
        assert found["observation"].flatten().tolist() == [0, 0]
    else:
        data = found if kind == "step" else found[0]
        assert data["next", "truncated"].flatten().tolist() == [False, True]
        assert data["env_index"] == [0, 1]
    if kind == "step_and_maybe_reset":
        assert found[1]["observation"].flatten().tolist() == [1, 0]
        assert not found[1]["done"].any()
    env.close()


def test_envs_that_were_lost_between_two_steps_are_cut_off_in_the_next(tmp_path: Any) -> None:
    once = tmp_path / "once"
    once.touch()
    broken = partial(Fragile, fails_at=1, how="kill", once=str(once))
    env = AsyncEnvPool([broken, Fragile, Fragile], backend="multiprocessing", envs_per_worker=2, on_failure="restart")
    td = env.rand_action(env.reset())
    env.async_step_send(td[:1])
    assert env.async_step_recv()["next", "truncated"].item()
    env.async_step_send(td[1:])
    assert env.async_step_recv(min_get=2)["next", "truncated"].flatten().tolist() == [True, False]
    assert env.failures.tolist() == [1, 1, 0]
    env.async_step_send(td)
    after = env.async_step_recv(min_get=3)["next"]
    assert not after["done"].any()
    assert after["observation"].flatten().tolist() == [1, 1, 2]
    env.close()


@pytest.mark.parametrize("kind", ["processes", "asynchronous processes"])
def test_an_env_that_hangs_in_its_end_is_ended(kind: str) -> None:
    env = made(kind, how="hang", where="close")
    env.reset()
    env.shutdown_timeout = 0.3
    workers = env._channels if kind.startswith("async") else env._workers
    pids = [worker.process.pid for worker in workers]
    env.close()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_large_questions_and_large_answers_do_not_wait_for_each_other() -> None:
    """Neither fits into a pipe, and the worker has several envs."""
    size = 300_000
    env = AsyncEnvPool([partial(Fragile, size=size)] * 3, backend="multiprocessing", envs_per_worker=3, timeout=20)
    td = env.rand_action(env.reset())
    sender = threading.Thread(target=env.async_step_send, args=(td,), daemon=True)
    sender.start()
    sender.join(60)
    assert not sender.is_alive()
    assert env.async_step_recv(min_get=3)["next", "observation"].sum() == 3 * size
    env.close()


def test_an_env_that_was_made_before_cannot_be_made_again() -> None:
    with pytest.raises(SpecError, match=r"ThreadingAsyncEnvPool: env 1 is an env; give a function that makes it"):
        AsyncEnvPool([CountingEnv, CountingEnv()], on_failure="restart")


def test_nobody_waits_busily(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool sleeps once for every worker that answers, and a worker with nothing to do is never woken."""
    env = ParallelEnv(2, [CountingEnv, Slow], timeout=30)
    td = env.rand_action(env.reset())
    waits: list[float] = []
    poll = env._watch._poll

    class Counted:
        def poll(self, timeout: float) -> Any:
            waits.append(timeout)
            return poll.poll(timeout)

    monkeypatch.setattr(env._watch, "_poll", Counted())
    idle = env._workers[0].process.pid
    env.step(td)
    assert len(waits) <= 2
    before = switches(idle)
    time.sleep(0.3)
    assert switches(idle) == before
    monkeypatch.undo()
    env.close()


class Slow(CountingEnv):
    """Takes its time."""

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        time.sleep(0.3)
        return super()._step(tensordict)


def switches(pid: int) -> list[str]:
    """How often a process has gone to sleep, and was put to sleep."""
    with open(f"/proc/{pid}/status") as status:
        return [line for line in status if "ctxt_switches" in line]
