"""Workers that are lost while their envs are not stepped: no two episodes become one, and questions are answered."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from pools import Fragile, nothing_left_behind
from tensordict import TensorDict, TensorDictBase

from marlenv import AsyncEnvPool, ParallelEnv
from marlenv.errors import SpecError, WorkerFailed
from marlenv.testing import CountingEnv

POOLS: dict[str, Callable[..., Any]] = {
    "buffers": lambda makers, **options: ParallelEnv(len(makers), makers, **options),
    "pieces": lambda makers, **options: ParallelEnv(len(makers), makers, use_buffers=False, **options),
    "asynchronous": partial(AsyncEnvPool, backend="multiprocessing"),
}
KINDS = pytest.mark.parametrize(
    "kind", ["buffers", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("pieces", "asynchronous"))]
)


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    with nothing_left_behind():
        yield


class Counter(CountingEnv):
    """Counts on from where a reset is told to begin, and says what it is told."""

    def _reset(self, tensordict: TensorDictBase | None, *, level: int = 0, **_: Any) -> TensorDictBase:
        fresh = super()._reset(tensordict)
        fresh["observation"] += level
        return fresh

    def echo(self, word: Any) -> Any:
        """What it is told."""
        return word


def after(env: Any, steps: int) -> TensorDictBase:
    td = env.reset()
    for _ in range(steps):
        td = env.step_mdp(env.rand_step(td))
    return td


def kill(env: Any, number: int) -> None:
    """Kills a worker, and waits until that has happened."""
    process = (env._channels if hasattr(env, "_channels") else env._workers)[number].process
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def seen(td: TensorDictBase) -> list[list[float]]:
    """What is observed, and what is truncated."""
    return [td["observation"].flatten().tolist(), td["truncated"].flatten().tolist()]


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("how", ["reset", "step"])
def test_an_env_that_was_lost_while_it_waited_is_cut_off_in_its_next_step(kind: str, how: str) -> None:
    env = POOLS[kind]([partial(Counter, max_steps=50)] * 2, on_failure="restart")
    td = after(env, 3)
    kill(env, 1)
    if how == "reset":
        td = env.reset(td.set("_reset", torch.tensor([[True], [False]])))
        assert td["observation"].flatten().tolist() == [0, 3]
    else:
        td = env.step(env.rand_action(td).set("_step", torch.tensor([True, False])))
        assert seen(td["next"]) == [[4, 3], [False, False]]
        td = env.step_mdp(td)
    first = td["observation"][0].item() + 1
    td = env.rand_step(td)
    assert seen(td["next"]) == [[first, 3], [False, True]]
    assert td["next", "reward"].flatten().tolist() == [1, 0]
    td = env.rand_step(env.maybe_reset(env.step_mdp(td)))
    assert seen(td["next"]) == [[first + 1, 1], [False, False]]
    assert env.failures.tolist() == [0, 1]
    env.close()


@pytest.mark.parametrize("kind", ["buffers", pytest.param("pieces", marks=pytest.mark.slow)])
def test_what_shares_a_process_with_an_env_that_dies_in_its_reset(kind: str, tmp_path: Any) -> None:
    once = tmp_path / "once"
    once.touch()
    dies = partial(Fragile, fails_at=2, how="kill", where="reset", once=str(once))
    env = POOLS[kind]([Fragile, Fragile, dies, Fragile], num_processes=2, on_failure="restart")
    td = after(env, 3)
    td = env.reset(td.set("_reset", torch.tensor([[False], [False], [True], [False]])))
    assert td["observation"].flatten().tolist() == [3, 3, 0, 3]
    td, root = env.step_and_maybe_reset(env.rand_action(td))
    assert seen(td["next"]) == [[4, 4, 1, 3], [False, False, False, True]]
    assert root["observation"].flatten().tolist() == [4, 4, 1, 0]
    td, _ = env.step_and_maybe_reset(env.rand_action(root))
    assert seen(td["next"]) == [[5, 5, 2, 1], [False] * 4]
    env.close()


@pytest.mark.slow
@KINDS
def test_a_worker_that_was_lost_before_the_first_step(kind: str) -> None:
    env = POOLS[kind]([partial(Counter, max_steps=50)] * 2, on_failure="restart")
    td = env.reset()
    kill(env, 1)
    assert seen(env.rand_step(td)["next"]) == [[1, 0], [False, True]]
    env.close()


@pytest.mark.slow
@KINDS
def test_a_worker_that_was_lost_is_asked_again(kind: str) -> None:
    env = POOLS[kind]([partial(Counter, max_steps=n) for n in (7, 9)], on_failure="restart")
    td = after(env, 2)
    kill(env, 1)
    assert env.max_steps == [7, 9]
    assert seen(env.rand_step(td)["next"]) == [[3, 2], [False, True]]
    kill(env, 1)
    assert env.reset(list_of_kwargs=[{"level": 4}, {"level": 5}])["observation"].flatten().tolist() == [4, 5]
    td, state = after(env, 2), env.get_state(td)
    kill(env, 0)
    td = env.set_state(state)  # which says what all envs go on from
    assert not env.rand_step(td)["next", "truncated"].any()
    assert env.failures.tolist() == [1, 2]
    env.close()


@KINDS
def test_an_env_that_dies_of_a_question_is_named(kind: str) -> None:
    env = POOLS[kind]([partial(Fragile, how="none"), partial(Fragile, how="kill")], on_failure="restart")
    env.reset()
    with pytest.raises(WorkerFailed, match=r"env 1 failed in 'call': (the|its) worker process"):
        env.fail()
    assert env.is_closed


@pytest.mark.slow
@KINDS
def test_what_cannot_be_sent_is_named_and_the_pool_goes_on(kind: str) -> None:
    env = POOLS[kind]([Counter] * 2, timeout=20)
    td = after(env, 1)
    who = type(env).__name__
    with pytest.raises(SpecError, match=rf"{who}.echo: an argument for env 0 cannot be sent .*, <generator object"):
        env.echo(word for word in "ab")
    with pytest.raises(SpecError, match=rf"{who}.reset: an argument for env 1 cannot .*, level = <generator object"):
        env.reset(list_of_kwargs=[{"level": 1}, {"level": (i for i in [])}])
    assert env.echo("a") == ["a", "a"]
    assert env.echo("b") == ["b", "b"]  # and no answer to what was asked before
    assert env.rand_step(td)["next", "observation"].flatten().tolist() == [2, 2]
    env.close()


@pytest.mark.slow
def test_nothing_is_at_work_where_data_of_one_env_cannot_be_sent() -> None:
    env = AsyncEnvPool([Counter] * 2, backend="multiprocessing", stack="lazy", timeout=20)
    td = env.rand_action(env.reset())
    odd = TensorDict.lazy_stack([td[0].copy().set("word", "a"), td[1].copy().set("word", (i for i in []))])
    with pytest.raises(SpecError, match=r"AsyncEnvPool.step: an argument for env 1 cannot be sent .*, word = "):
        env.async_step_send(odd)
    env.async_step_send(td)
    assert env.async_step_recv(min_get=2)["next", "observation"].flatten().tolist() == [1, 1]
    for channel in env._channels:
        assert not channel.open  # no clock runs
    env.close()
