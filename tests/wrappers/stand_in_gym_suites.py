"""Stand-ins with the public surface of Habitat's and RoboHive's envs, neither of which can be had here.

What is taken from habitat-lab 0.3 (``habitat/gym/gym_wrapper.py``, ``habitat/core/env.py`` and ``environments.py``): it
registers tasks in gym, without a limit of gym's, when ``habitat.gym`` is imported; they take ``override_options``, have
the interface of gym 0.22, and one flag for the ends of the task, of Habitat's limit and of a success. From RoboHive
0.7.0 (``robohive/envs/env_base.py``): ``robohive_env_suite``, ``robohive.utils.gym``, ``obs_dict`` and ``obs_keys``,
``visual_keys`` and ``get_exteroception``, ``seed``, and what ``step`` and ``reset`` return.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest


class Pick:
    """Habitat's ``core.env.Env`` and its task: a hand that is over once it is far out to the right."""

    def __init__(self, steps: int, seconds: int = 0) -> None:
        self._max_episode_steps, self._max_episode_seconds, self._elapsed_steps = steps, seconds, 0
        self.task = SimpleNamespace(is_episode_active=True)
        self.seed(0)

    def seed(self, seed: int | None) -> None:
        self.chance = np.random.RandomState(seed)

    def _past_limit(self) -> bool:
        return self._max_episode_steps != 0 and self._max_episode_steps <= self._elapsed_steps

    def _observed(self) -> dict[str, Any]:
        self.task.is_episode_active = bool(self.at[0] <= 1)
        self.episode_over = not self.task.is_episode_active or self._past_limit()
        return {"joint": self.at.copy()}

    def reset(self) -> dict[str, Any]:
        self.at, self._elapsed_steps = self.chance.uniform(-0.1, 0.1, 3).astype(np.float32), 0
        return self._observed()

    def step(self, action: Any) -> dict[str, Any]:
        assert not self.episode_over, "Episode over, call reset before calling step"
        self.at[:2] += action
        self._elapsed_steps += 1
        return self._observed()


def _habitat_env(gym: Any, options: dict[str, str]) -> Any:
    """What Habitat's entry point makes: ``HabGymWrapper`` around ``RLTaskEnv``."""

    class RLTaskEnv(gym.Env):
        observation_space = gym.spaces.Dict({"joint": gym.spaces.Box(-9, 9, (3,), np.float32)})
        action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

        def __init__(self) -> None:
            self._env = Pick(int(options.get("habitat.environment.max_episode_steps", 7)))
            self._end_on_success = options.get("habitat.task.end_on_success") == "True"

        def seed(self, seed: int | None = None) -> None:
            self._env.seed(seed)

        def reset(self, *, return_info: bool = False, **kwargs: Any) -> Any:
            return (self._env.reset(), {}) if return_info else self._env.reset()

        def _episode_success(self) -> bool:
            return bool(self._env.at[1] > 1)

        def step(self, action: Any) -> Any:
            seen = self._env.step(action)
            done = self._env.episode_over or (self._end_on_success and self._episode_success())
            return seen, float(self._env.at.sum()), bool(done), {"success": self._episode_success()}

    class HabGymWrapper(gym.Wrapper):
        def step(self, action: Any) -> Any:
            assert self.action_space.contains(action), f"Invalid action {action} for action space {self.action_space}"
            return self.env.step(action=action)

        def reset(self, *args: Any, return_info: bool = False, **kwargs: Any) -> Any:
            return self.env.reset(*args, return_info=return_info, **kwargs)

        def render(self, mode: str = "human", **kwargs: Any) -> Any:
            assert mode == "rgb_array", f"Render mode {mode} not currently supported."
            return np.full((6, 5, 3), int(self.unwrapped._env.at[0] > 0), np.uint8)

    return HabGymWrapper(RLTaskEnv())


def habitat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts a stand-in where Habitat would be imported from."""
    gym = pytest.importorskip("gym")
    monkeypatch.setattr(gym, "__version__", "0.22.0")  # which Habitat asks for, and whose interface it has

    def entry_point(override_options: list[str] | None = None, use_render_mode: bool = False) -> Any:
        options = dict(one.split("=") for one in override_options or [])
        env = _habitat_env(gym, options)
        env.unwrapped.override_options = override_options
        return env

    name = "HabitatRenderPick-v0"
    if name not in gym.envs.registration.registry:
        gym.register(name, entry_point=entry_point, kwargs={"use_render_mode": True}, disable_env_checker=True)
    package, inner = ModuleType("habitat"), ModuleType("habitat.gym")
    package.gym = inner
    _install(monkeypatch, package, inner)


class Reach(gymnasium.Env):
    """A robot with two joints that is seen by two cameras."""

    def __init__(self, visual_keys: list[str] | None = None, obs_keys: Any = ("qp", "time")) -> None:
        self.obs_keys, self.visual_keys = list(obs_keys), visual_keys or []
        self.observation_space = gymnasium.spaces.Box(-10, 10, (3,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        self.sim = SimpleNamespace(model=SimpleNamespace(ncam=2, id2name=lambda i, kind: ["top", "side"][i]))
        self.seed(None)

    def seed(self, seed: int | None = None) -> list[int | None]:
        self.chance = np.random.RandomState(seed)
        return [seed]

    def _observed(self) -> Any:
        self.obs_dict = {"qp": self.at, "time": np.array(self.steps * 0.1), "unused": np.zeros(4)}
        return np.concatenate([self.at, [self.steps * 0.1]])

    def reset(self, reset_qpos: Any = None, reset_qvel: Any = None, seed: int | None = None, **_: Any) -> Any:
        self.at, self.steps = self.chance.normal(size=2), 0
        return self._observed(), {}

    def step(self, a: Any) -> Any:
        self.steps += 1
        self.at += 0.1 * a
        solved = bool(np.abs(self.at).max() < 0.05)
        info = {"solved": solved, "rwd_dense": -np.abs(self.at).sum(), "obs_dict": self.obs_dict, "done": solved}
        return self._observed(), info["rwd_dense"], solved, False, info

    def get_exteroception(self) -> dict[str, Any]:
        drawn: dict[str, Any] = {"time": self.obs_dict["time"]}
        for key in self.visual_keys:
            kind, camera, size, _ = key.split(":")
            high, wide = map(int, size.split("x"))
            shade = self.steps + (100 if camera == "side" else 0)
            rgb = kind == "rgb"
            shape = (high, wide, 3) if rgb else (1, high, wide)
            drawn[key] = np.full(shape, shade, np.uint8 if rgb else np.float32)
        return drawn


def robohive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts a stand-in where RoboHive would be imported from."""
    name = "FrankaReachRandom-v0"
    if name not in gymnasium.registry:
        gymnasium.register(name, entry_point=Reach, max_episode_steps=5, disable_env_checker=True)
    package, utils = ModuleType("robohive"), ModuleType("robohive.utils")
    package.robohive_env_suite, package.utils, utils.gym = {name}, utils, gymnasium
    _install(monkeypatch, package, utils)


def _install(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
    for module in modules:
        module.__spec__ = ModuleSpec(module.__name__, None)  # by which it is known to be there
        monkeypatch.setitem(sys.modules, module.__name__, module)
