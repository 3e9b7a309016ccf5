"""Envs of one version of gym beside the same envs played by hand, with that version's own interface.

Run by ``test_gym_generations.py`` in an environment that has this version: ``python gym_generation.py``. Prints a JSON
dict: check -> how it failed, or nothing.
"""

from __future__ import annotations

import functools
import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

import gym
import numpy as np
import pytest
import torch

from marlenv import EnvCreator, ParallelEnv, SerialEnv, check_env_specs
from marlenv.errors import NeedsReset
from marlenv.specs import Unbounded
from marlenv.testing import run_contract
from marlenv.wrappers import (
    GymEnv,
    GymWrapper,
    default_info_dict_reader,
    gym_backend,
    implement_for,
    set_gym_backend,
)
from marlenv.wrappers.gym.vectors import keeping_finals

VERSION = tuple(int(n) for n in gym.__version__.split(".")[:2])
FIVE, LATER = VERSION >= (0, 26), VERSION >= (0, 22)
NAMES = ["CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1", "FrozenLake-v1", "Taxi-v3", "Blackjack-v1"]
CHECKS: dict[str, Callable[[], None]] = {}


def check(function: Callable[[], None]) -> Callable[[], None]:
    CHECKS[function.__name__] = function
    return function


class ByHand:
    """An env of gym, reset and stepped as its version wants it."""

    def __init__(self, name: str, **options: Any) -> None:
        self.env = gym.make(name, **options)

    def reset(self, seed: int | None = None) -> Any:
        if FIVE:
            return self.env.reset(seed=seed)[0]
        if seed is not None:
            self.env.seed(seed)
        return self.env.reset()

    def step(self, action: Any) -> tuple[Any, float, bool, bool]:
        if FIVE:
            return self.env.step(action)[:4]
        observed, reward, done, info = self.env.step(action)
        late = bool(info.get("TimeLimit.truncated", False))
        return observed, reward, done and not late, done and late


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, tuple):
        return all(int(ours[str(i)]) == int(value) for i, value in enumerate(theirs))
    return np.array_equal(ours["observation"].numpy(), theirs)


def number(action: torch.Tensor) -> Any:
    return int(action) if action.ndim == 0 else action.numpy()


def lockstep(env: Any, raw: ByHand, steps: int) -> set[str]:
    """Compares step by step; the ways in which episodes ended."""
    env.set_seed(7)
    td, ends = env.reset(), set()
    assert same(td, raw.reset(seed=7))
    for _ in range(steps):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        observed, reward, terminated, truncated = raw.step(number(data["action"]))
        after = data["next"]
        assert same(after, observed)
        assert float(after["reward"]) == np.float32(reward)
        flags = [bool(after[key]) for key in ("terminated", "truncated", "done")]
        assert flags == [bool(terminated), bool(truncated), bool(terminated or truncated)], flags
        if flags[2]:
            ends.add("terminated" if terminated else "truncated")
            assert same(td, raw.reset())
    return ends


def every_number(name: str) -> None:
    with set_gym_backend("gym"):
        env = GymEnv(name, categorical_action_encoding=True)
    check_env_specs(env)
    ends = lockstep(env, ByHand(name), 450)
    late = ("Pendulum-v1", "MountainCar-v0", "Taxi-v3")
    assert "truncated" in ends if name in late else name == "Acrobot-v1" or "terminated" in ends, ends
    env.close()


for one in NAMES:
    CHECKS[f"every_number_of_{one}"] = functools.partial(every_number, one)


@check
def the_library_of_an_env_is_seen_whatever_the_backend() -> None:
    assert gym_backend().__name__ == "gymnasium"
    env = GymWrapper(gym.make("MountainCar-v0"), categorical_action_encoding=True)
    assert lockstep(env, ByHand("MountainCar-v0"), 210) == {"truncated"}


def rows_of_a_vector(mode: str) -> None:
    with set_gym_backend("gym"):
        env = GymEnv("CartPole-v1", num_envs=3, vectorization_mode=mode, categorical_action_encoding=True)
    rows = [ByHand("CartPole-v1") for _ in range(3)]
    env.set_seed(5)
    td, ends = env.reset(), 0
    assert all(np.array_equal(td["observation"][i], row.reset(seed=5 + i)) for i, row in enumerate(rows))
    for _ in range(60):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        for i, row in enumerate(rows):
            observed, reward, terminated, truncated = row.step(int(data["action"][i]))
            after = data["next"][i]
            assert np.array_equal(after["observation"], observed), "the final observation is lost"
            assert float(after["reward"]) == reward
            assert (bool(after["terminated"]), bool(after["truncated"])) == (terminated, truncated)
            if terminated or truncated:
                observed, ends = row.reset(), ends + 1
            assert np.array_equal(td["observation"][i], observed)
    assert ends > 3
    env.close()


CHECKS["rows_of_a_vector"] = functools.partial(rows_of_a_vector, "sync")
CHECKS["rows_of_a_vector_of_processes"] = functools.partial(rows_of_a_vector, "async")


@check
def time_limits_of_rows_truncate() -> None:
    with set_gym_backend("gym"):
        env = GymEnv("MountainCar-v0", num_envs=2)
    data = env.rollout(200, break_when_any_done=False)["next"]
    assert data["truncated"][:, -1].all()
    assert not data["terminated"].any()
    raw = ByHand("MountainCar-v0")  # its first observations are near the middle, its last ones are not told apart
    first = data["observation"][:, -1]
    assert np.abs(first[:, 1]).max() > 0, "a first observation stands where a final one belongs"
    assert np.asarray(raw.reset())[1] == 0


class Told(gym.Env):
    """Its reward is what it was told: tens for the first part of its action, ones for the second."""

    observation_space, action_space = gym.spaces.Box(0, 9, (1,), np.float32), gym.spaces.Discrete(2)

    def __init__(self, names: Any) -> None:
        parts, self.names = {name: gym.spaces.Discrete(9) for name in names}, names
        self.action_space = gym.spaces.Tuple([*parts.values()]) if 0 in parts else gym.spaces.Dict(parts)

    def reset(self, **_: Any) -> Any:
        return (np.zeros(1, np.float32), {}) if FIVE else np.zeros(1, np.float32)

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        tens, ones = (float(action[name]) for name in self.names)
        return (np.zeros(1, np.float32), 10 * tens + ones, *((False, False) if FIVE else (False,)), {})


@check
def every_row_is_told_its_own_action() -> None:
    for names in ((0, 1), ("x", "y")):
        for cls in (gym.vector.SyncVectorEnv, gym.vector.AsyncVectorEnv):
            wrap = (lambda env: env) if LATER else keeping_finals(gym)
            vector = cls([lambda names=names, wrap=wrap: wrap(Told(names))] * 3)
            env = GymWrapper(vector, categorical_action_encoding=True)
            td = env.reset()
            for name, values in zip(names, ([1, 2, 3], [4, 5, 6]), strict=True):
                td[str(name)] = torch.tensor(values)
            assert env.step(td)["next", "reward"].flatten().tolist() == [14, 25, 36]
            env.close()


@check
def the_contract_holds() -> None:
    with set_gym_backend("gym"):
        results = run_contract(lambda: GymEnv("CartPole-v1"), steps=16)
    broken = [f"{r.name}: {r.says}" for r in results if r.verdict == "broken"]
    assert not broken, broken


class Drawn(gym.Env):
    """Draws how often it was stepped, as its version draws."""

    metadata = {"render_modes": ["rgb_array"], "render.modes": ["rgb_array"], "render_fps": 10}
    observation_space, action_space = gym.spaces.Box(-9, 9, (1,), np.float32), gym.spaces.Discrete(2)
    steps, render_mode = 0, "rgb_array"

    def reset(self, **_: Any) -> Any:
        self.steps = 0
        return (np.zeros(1, np.float32), {}) if FIVE else np.zeros(1, np.float32)

    def step(self, action: int) -> Any:
        self.steps += 1
        flags = (False, False) if FIVE else (False,)
        return (np.full(1, self.steps, np.float32), 1.0, *flags, {})

    def render(self, *args: Any, **kwargs: Any) -> Any:
        assert FIVE or {*args, *kwargs.values()} == {"rgb_array"}
        return np.full((4, 5, 3), self.steps, np.uint8)


@check
def pixels_are_what_it_draws() -> None:
    env = GymWrapper(Drawn(), from_pixels=True, pixels_only=False)
    data = env.rollout(3)
    assert data["pixels"].shape == (3, 4, 5, 3)
    assert data["next", "pixels"][:, 0, 0, 0].tolist() == [1, 2, 3]
    assert data["next", "observation"].flatten().tolist() == [1, 2, 3]
    if FIVE:  # the older version's own envs need a screen
        with set_gym_backend("gym"):
            pole = GymEnv("CartPole-v1", from_pixels=True)
        raw = ByHand("CartPole-v1", render_mode="rgb_array")
        pole.set_seed(2)
        raw.reset(seed=2)
        assert np.array_equal(pole.reset()["pixels"], raw.env.render())


@check
def frames_are_skipped() -> None:
    with set_gym_backend("gym"):
        env = GymEnv("CartPole-v1", frame_skip=3, categorical_action_encoding=True)
    raw = ByHand("CartPole-v1")
    env.set_seed(0)
    raw.reset(seed=0)
    data = env.rollout(50, lambda td: td.set("action", torch.tensor(1)))
    steps, over = 0, False
    while not over:
        _, _, over, _ = raw.step(1)
        steps += 1
    assert float(data["next", "reward"].sum()) == steps


@check
def infos_are_read() -> None:
    with set_gym_backend("gym"):
        env = GymEnv("Taxi-v3") if FIVE else GymEnv("FrozenLake-v1")
    env.auto_register_info_dict()
    assert "prob" in env.observation_spec.keys()
    assert float(env.rollout(2)["next", "prob"][0]) > 0
    check_env_specs(env)


class Counted(gym.Wrapper):
    """Infos say which step of which episode it is."""

    episode = 0

    def reset(self, **options: Any) -> Any:
        self.at, self.episode = 0, self.episode + 1
        out = self.env.reset(**options)
        return (out[0], {"at": 0, "pair": np.array([self.episode, 0])}) if FIVE else out

    def step(self, action: Any) -> Any:
        self.at += 1
        *out, info = self.env.step(action)
        return *out, {**info, "at": self.at, "pair": np.array([self.episode, self.at])}


@check
def infos_of_rows_are_of_the_episode_of_the_step() -> None:
    wrap = (lambda env: env) if FIVE else keeping_finals(gym)
    limits = [3, 4, 4]
    rows = [lambda n=n: wrap(Counted(gym.wrappers.TimeLimit(gym.make("CartPole-v1").unwrapped, n))) for n in limits]
    env = GymWrapper(gym.vector.SyncVectorEnv(rows))
    env.set_info_dict_reader(default_info_dict_reader(spec={"at": Unbounded(()), "pair": Unbounded((2,))}))
    assert float(env.reset()["at"].abs().sum()) == 0
    data = env.rollout(9, break_when_any_done=False)
    for i, n in enumerate(limits):
        assert data["next", "at"][i].tolist() == [k % n + 1 for k in range(9)]
        first = data["next", "pair"][i, 0, 0]
        assert data["next", "pair"][i].tolist() == [[first + k // n, k % n + 1] for k in range(9)]
        assert data["at"][i].tolist() == [k % n for k in range(9)]


@check
def copies_are_sent_to_others() -> None:
    """The library is chosen where an env is made, and so in what makes it."""

    def make() -> GymEnv:
        with set_gym_backend("gym"):
            return GymEnv("CartPole-v1")

    assert type(make()._env.unwrapped).__module__.startswith("gym.")
    rollouts = []
    for pool in (SerialEnv, ParallelEnv):
        env = pool(2, EnvCreator(make))
        env.set_seed(0)
        rollouts.append(env.rollout(20, break_when_any_done=False))
        env.close()
    assert bool((rollouts[0] == rollouts[1]).all())


@check
def a_step_before_a_reset_is_refused() -> None:
    with set_gym_backend("gym"):
        env = GymEnv("CartPole-v1")
    with pytest.raises(NeedsReset, match=r"GymEnv\.step: the env was not reset"):
        env.step(env.rand_action())


@check
def code_for_versions_is_chosen() -> None:
    @implement_for("gym", None, "0.26")
    def flags() -> int:
        return 1

    @implement_for("gym", "0.26")
    def flags() -> int:  # noqa: F811
        return 2

    with set_gym_backend("gym"):
        assert flags() == (2 if FIVE else 1)


if __name__ == "__main__":
    said: dict[str, str] = {}
    for name, run in CHECKS.items():
        try:
            run()
            said[name] = ""
        except Exception:
            said[name] = traceback.format_exc()
    print("RESULT", json.dumps({"version": gym.__version__, "checks": said}))
    sys.stdout.flush()
