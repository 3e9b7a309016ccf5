"""Stand-ins with the public surface of Habitat's and RoboHive's envs, neither of which can be had here.

What is taken from Habitat: it registers tasks in gym when ``habitat.gym`` is imported, and they take
``override_options``. From RoboHive 0.7.0 (``robohive/envs/env_base.py``): ``robohive_env_suite``,
``robohive.utils.gym``, ``obs_dict`` and ``obs_keys``, ``visual_keys`` and ``get_exteroception``, ``seed``, and what
``step`` and ``reset`` return.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest


def habitat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts a stand-in where Habitat would be imported from."""
    gym = pytest.importorskip("gym")

    class Pick(gym.Env):
        metadata = {"render_modes": ["rgb_array"], "render_fps": 4}
        observation_space = gym.spaces.Dict({"joint": gym.spaces.Box(-9, 9, (3,), np.float32)})
        action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

        def __init__(self, override_options: list[str], render_mode: str | None = None) -> None:
            self.override_options, self.render_mode = override_options, render_mode

        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.at = self.np_random.normal(size=3).astype(np.float32)
            return {"joint": self.at.copy()}, {}

        def step(self, action: Any) -> Any:
            self.at[:2] += action
            return {"joint": self.at.copy()}, float(self.at.sum()), bool(self.at[0] > 1), False, {}

        def render(self) -> Any:
            return np.full((6, 5, 3), int(self.at[0] > 0), np.uint8)

    name = "HabitatRenderPick-v0"
    if name not in gym.envs.registration.registry:
        gym.register(name, entry_point=Pick, max_episode_steps=7, disable_env_checker=True)
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
