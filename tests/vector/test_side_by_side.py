"""Envs of gym that a series steps at once: the same as stepping each by itself, in data and in errors."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete
from pools import assert_equal

from marlenv import GymEnv, GymWrapper, SerialEnv
from marlenv.errors import NeedsReset, ShapeError

ENVS = {
    "one-hot actions": partial(GymEnv, "CartPole-v1"),
    "numbers of choices": partial(GymEnv, "CartPole-v1", categorical_action_encoding=True),
    "continuous actions": partial(GymEnv, "Pendulum-v1"),
    "discrete observations": partial(GymEnv, "FrozenLake-v1"),
    "several rewards of frames": partial(GymEnv, "CartPole-v1", frame_skip=2),
    "float32 rewards": lambda: GymWrapper(Odd(reward=np.float32(0.1))),
    "arrays of rewards": lambda: GymWrapper(Odd(reward=np.array([0.1]))),
    "integers": lambda: GymWrapper(Odd(reward=3)),
    "lists of numbers": lambda: GymWrapper(Odd(seen=[1, 2])),
    "choices from 3 on": lambda: GymWrapper(Odd(start=3)),
    "names": lambda: GymWrapper(Odd(space=Dict({"a": Box(-9, 9, (2,))}), seen={"a": np.zeros(2, np.float32)})),
    "one number": lambda: GymWrapper(Odd(space=Box(-9, 9, ()), seen=np.float32(2))),
    "buffers that are used again": lambda: GymWrapper(Odd(again=True)),
}
AT_ONCE = [name for name in ENVS if name not in ("discrete observations", "several rewards of frames", "names")]


class Odd(gymnasium.Env):  # type: ignore[type-arg]
    """Ends after four steps; fails when told."""

    def __init__(
        self, seen: Any = None, reward: Any = 1.0, space: Any = None, start: int = 0, *, again: bool = False
    ) -> None:
        self.observation_space = Box(-9, 9, (2,)) if space is None else space
        self.action_space = Discrete(3, start=start)
        self.seen, self.reward, self.again, self.fails = seen, reward, again, False
        self.buffer, self.t = np.zeros(2, np.float32), 0

    def observed(self) -> Any:
        self.buffer[:] = self.t
        return (self.buffer if self.again else self.buffer.copy()) if self.seen is None else self.seen

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        return self.observed(), {}

    def step(self, action: Any) -> Any:
        if self.fails:
            self.fails = False
            raise ValueError("broken")
        assert self.action_space.contains(action)
        self.t += 1
        return self.observed(), self.reward, self.t == 4, np.bool_(self.t == 3), {"t": self.t}


def one_by_one(make: Any, **options: Any) -> SerialEnv:
    """A series whose envs are stepped by themselves."""
    env = SerialEnv(3, make, **options)
    env._beside = lambda: None
    return env


@pytest.mark.parametrize("name", ENVS)
def test_at_once_is_one_by_one(name: str) -> None:
    pair = SerialEnv(3, ENVS[name]), one_by_one(ENVS[name])
    pair[0].reset()
    assert (pair[0]._beside() is not None) == (name in AT_ONCE)
    for how in ({}, {"break_when_any_done": False}):
        data = []
        for env in pair:
            env.set_seed(4)
            data.append(env.rollout(9, **how))
        assert_equal(*data, name)
        assert [*data[0]["next"].keys()] == [*data[1]["next"].keys()]
        assert data[0]["next"].batch_size == data[1]["next"].batch_size
    steps = [env.rand_step(env.reset())["next"] for env in pair]
    spaces = [[value.untyped_storage().nbytes() for value in one.values(True, True)] for one in steps]
    assert spaces[0] == spaces[1], "every entry has memory of its own, and no more than it needs"


def test_what_was_handed_out_is_not_written_again() -> None:
    env = SerialEnv(3, ENVS["buffers that are used again"])
    first = env.rand_step(env.reset())["next"]
    kept = first.clone()
    env.rand_step(env.reset())
    assert_equal(first, kept)
    pointers = [value.untyped_storage().data_ptr() for value in first.values(True, True)]
    assert len({*pointers}) == len(pointers)


@pytest.mark.parametrize("how", ["raise", "restart"])
def test_one_that_fails_among_them(how: str) -> None:
    found: list[Any] = []
    for make in (SerialEnv, None):
        options = {"on_failure": how}
        env = (
            one_by_one(lambda: GymWrapper(Odd()), **options)
            if make is None
            else make(3, lambda: GymWrapper(Odd()), **options)
        )
        env.set_seed(1)
        td = env.step_mdp(env.rand_step(env.reset()))
        env.children_envs[1]._env.fails = True
        if how == "raise":
            with pytest.raises(ValueError, match="broken") as caught:
                env.rand_step(td)
            found.append(caught.value.__notes__)
        else:
            found.append(env.rand_step(td))
            assert env.failures.tolist() == [0, 1, 0]
            assert found[-1]["next", "truncated"].flatten().tolist() == [False, True, False]
    if how == "raise":
        assert found == [["in env 1 of the pool"]] * 2
    else:
        assert_equal(*found)


def test_errors_are_those_of_one_by_one() -> None:
    for make in (partial(SerialEnv, 3), one_by_one):
        env = make(lambda: GymWrapper(Odd()))
        td = env.rand_action(env.reset())
        env.children_envs[2]._env.seen = np.zeros(3, np.float32)
        with pytest.raises(ShapeError, match=r"GymWrapper: the simulator gave a value of shape \[3\], its space has"):
            env.step(td)
        env = make(lambda: GymWrapper(Odd()))
        with pytest.raises(NeedsReset):
            env.step(env.rand_action(env.full_observation_spec.zero()))


def test_what_is_changed_of_an_env_later_is_heeded() -> None:
    env = SerialEnv(2, lambda: GymWrapper(Odd()))
    td = env.rand_action(env.reset())
    assert env._beside() is not None
    calls = []
    real = env.children_envs[1]._step
    env.children_envs[1]._step = lambda td: calls.append(1) or real(td)
    env.step(td)
    assert calls == [1]
    del env.children_envs[1]._step
    env.children_envs[0].set_info_dict_reader(lambda info, td: td.set("t", torch.tensor(info.get("t", 0))))
    assert env._beside() is None
