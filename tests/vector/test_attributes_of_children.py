"""Attributes of children are set where they are read: in every child, and in those that are made anew."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from pools import Fragile, native
from tensordict import TensorDictBase

import marlenv
from marlenv import AsyncEnvPool, EnvBase, ParallelEnv, RewardSum, SerialEnv, StepCounter, TransformedEnv
from marlenv.errors import NeedsReset
from marlenv.testing import CountingEnv


class Tuned(Fragile):
    """With something to set."""

    gravity = 1


Make = Callable[[], EnvBase]
POOLS: dict[str, Callable[[Make], Any]] = {
    "serial": lambda make: SerialEnv(2, make),
    "around": lambda make: TransformedEnv(SerialEnv(2, make), StepCounter()),
    "pools": lambda make: SerialEnv(1, lambda: SerialEnv(2, make)),
    "part": lambda make: SerialEnv(3, make)[1:],
    "threads": lambda make: AsyncEnvPool([make] * 2),
    "parallel": lambda make: ParallelEnv(2, make, num_processes=1),
    "part of processes": lambda make: ParallelEnv(3, make, num_processes=1)[[2, 0]],
    "asynchronous": lambda make: AsyncEnvPool([make] * 2, backend="multiprocessing", envs_per_worker=2),
}
SLOW = ("parallel", "part of processes", "asynchronous")
KINDS = [pytest.param(kind, marks=[pytest.mark.slow] if kind in SLOW else []) for kind in POOLS]


def plays(td: TensorDictBase, last: bool) -> TensorDictBase:
    legal = td["o", "action_mask"]
    return td.set(("o", "action"), 8 - legal.flip(-1).int().argmax(-1) if last else legal.int().argmax(-1))


def answers(env: Any) -> list[int]:
    """Where the opponents play after a stone in the middle."""
    td = env.reset()
    following = env.step(td.set(("x", "action"), torch.full(env.full_action_spec["x", "action"].shape, 4)))["next"]
    return following["x", "observation"][..., 1, :, :].flatten(-2).int().argmax(-1).flatten().tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transformed", [False, True])
def test_another_opponent_reaches_every_child(kind: str, transformed: bool) -> None:
    """``pool.opponent = policy`` was an attribute of the pool, and the first one played on."""

    def make() -> EnvBase:
        env = marlenv.make("tic_tac_toe", opponent=partial(plays, last=False))
        return TransformedEnv(env, RewardSum()) if transformed else env

    env = POOLS[kind](make)
    assert answers(env) == [0, 0]
    env.opponent = partial(plays, last=True)
    assert answers(env) == [8, 8]
    if not kind.startswith("part"):  # a part never closes the children
        env.close()
        assert answers(env) == [8, 8]
        env.close()
        env.opponent = partial(plays, last=False)  # before it starts again
        assert answers(env) == [0, 0]
    getattr(env, "_pool", env).close()


def test_an_env_knows_its_own_attributes_from_those_below() -> None:
    """As does a class with attributes of its own, and an env around an env that is not unwrapped."""

    class Named(TransformedEnv):
        def __init__(self, env: EnvBase) -> None:
            super().__init__(env, RewardSum(), auto_unwrap=False)
            self.max_steps = 3

    inner = TransformedEnv(CountingEnv(max_steps=9), StepCounter())
    env = Named(inner)
    assert (env.max_steps, inner.max_steps) == (3, 9)
    assert env.chain is not inner.chain
    assert env.cache_specs
    env.max_steps, env.note = 4, "mine"
    assert (env.max_steps, inner.max_steps) == (4, 9)
    assert not hasattr(inner, "note")
    inner.max_steps = 2
    assert inner.base_env.max_steps == 2
    assert "max_steps" not in vars(inner)


def test_a_child_that_is_made_anew_has_what_was_set(tmp_path: Any) -> None:
    once = tmp_path / "once"
    once.touch()
    env = SerialEnv(2, [Tuned, partial(Tuned, fails_at=2, once=str(once))], on_failure="restart")
    env.gravity = 4
    env[1:].gravity = 3
    env.rollout(4, break_when_any_done=False)
    assert env.failures.tolist() == [0, 1]
    assert env.gravity == [4, 3]
    env.num_workers_wanted = 7
    assert all("num_workers_wanted" not in vars(child) for child in env.children_envs)


def test_keyword_arguments_that_are_changed_later_win() -> None:
    env = SerialEnv(2, CountingEnv)
    env.max_steps = 7
    env.close()
    env.update_kwargs([{"max_steps": 2}, {}])
    assert env.max_steps == [2, 7]


@pytest.mark.slow
def test_a_process_that_is_started_anew_has_what_was_set(tmp_path: Any) -> None:
    once = tmp_path / "once"
    once.touch()
    makers = [Tuned, partial(Tuned, fails_at=2, how="kill", once=str(once))]
    for make in (ParallelEnv, lambda _, given, **options: AsyncEnvPool(given, backend="multiprocessing", **options)):
        once.touch()
        env = make(2, makers, on_failure="restart")
        env.gravity = 4
        env.rollout(4, break_when_any_done=False)
        assert env.failures.tolist() == [0, 1]
        assert env.gravity == [4, 4]
        env.close()


@pytest.mark.parametrize("kind", [one for one in KINDS if one.values[0] not in ("around", "pools")])
def test_children_that_were_never_reset_say_so_and_go_on(kind: str) -> None:
    """Pools of workers ended, with a WorkerFailed."""
    env = POOLS[kind](partial(native, "simple_spread"))
    td = env.rand_action()
    for step in (env.step, env.step_and_maybe_reset):
        with pytest.raises(NeedsReset, match="SimpleSpread.step: the env was not reset; call reset"):
            step(td)
        assert not env.is_closed
    assert env.rollout(2).shape[-1] == 2
    getattr(env, "_pool", env).close()
