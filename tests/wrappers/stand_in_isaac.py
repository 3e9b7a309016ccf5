"""Stand-ins for Isaac Gym's and Isaac Lab's envs, which need a GPU and NVIDIA's installer: their interface, buffers and
ways of starting rows anew, around a count that moves by the first action.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

LENGTH, GOAL = 6, 3.0


class Ant:
    """A ``VecTask`` of IsaacGymEnvs: rows whose ``reset_buf`` is set start anew in the next step."""

    clip_obs, num_states = 5.0, 0

    def __init__(self, num_envs: int = 4, device: str = "cpu") -> None:
        self.num_envs, self.device, self.resets = num_envs, device, 0
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.obs_buf = torch.zeros(num_envs, 2)
        self.at, self.progress_buf = torch.zeros(num_envs), torch.zeros(num_envs, dtype=torch.long)
        self.reset_buf = torch.ones(num_envs, dtype=torch.long)

    def reset_idx(self, env_ids: Tensor) -> None:
        self.resets += len(env_ids)
        self.at[env_ids] = 0.1 * self.resets
        self.progress_buf[env_ids] = self.reset_buf[env_ids] = 0

    def compute_observations(self) -> None:
        self.obs_buf[:] = torch.stack([self.at, self.progress_buf.float()], 1)

    def step(self, actions: Tensor) -> Any:
        self.at += actions[:, 0]
        self.progress_buf += 1
        if len(ids := self.reset_buf.nonzero().flatten()):
            self.reset_idx(ids)
        self.compute_observations()
        late = self.progress_buf >= LENGTH
        self.reset_buf = (late | (self.at.abs() > GOAL)).long()
        infos = {"time_outs": late & (self.at.abs() <= GOAL)}
        return {"obs": self.obs_buf.clamp(-5, 5)}, self.at * 2, self.reset_buf, infos


class Scene:
    """An ``InteractiveScene`` of one body, the simulation that draws it, and a ``TiledCamera`` where one is given.

    Pictures are those of the last ``render``, in memory that is used again: the red of a row is where its body is, its
    green is the time, and its depth half of how far the body is.
    """

    def __init__(self, env: Any, camera: Any = None) -> None:
        self.env, self.written, self.drawn = env, 0, 0
        self.env_origins = 10.0 * torch.arange(env.num_envs).unsqueeze(-1)
        n, high, wide = env.num_envs, 2, 3
        self.rgba = torch.zeros(n, high, wide, 4, dtype=torch.uint8)
        self.depth = torch.zeros(n, high, wide, 1)
        output = {"rgb": self.rgba[..., :3], "rgba": self.rgba, "depth": self.depth}
        self.sensors = {camera: SimpleNamespace(data=SimpleNamespace(output=output))} if camera else {}

    def render(self) -> None:
        self.drawn += 1
        self.rgba[..., 0] = (self.env.at * 20 + 100).to(torch.uint8).reshape(-1, 1, 1)
        self.rgba[..., 1] = self.env.time.to(torch.uint8).reshape(-1, 1, 1)
        self.depth[:] = (self.env.at.abs() / 2).reshape(-1, 1, 1, 1)

    def write_data_to_sim(self) -> None:
        self.written += 1

    def forward(self) -> None:
        self.written += 1

    def get_state(self, is_relative: bool = False) -> Any:
        place = self.env.at.unsqueeze(-1) + (0 if is_relative else self.env_origins)
        return {"articulation": {}, "rigid_object": {"ball": {"root_pose": place.clone()}}, "gripper": {}}

    def reset_to(self, state: Any, env_ids: Tensor, is_relative: bool = False) -> None:
        place = state["rigid_object"]["ball"]["root_pose"].clone()
        state["articulation"], state["gripper"]  # which are looked up
        self.env.at[env_ids] = (place - (0 if is_relative else self.env_origins[env_ids])).squeeze(-1)


class ManagerBased:
    """A ``ManagerBasedRLEnv`` of Isaac Lab: rows start anew inside of their last step.

    As in 2.3.2, observations are computed by ``observation_manager``, after rows that are done were started anew by
    ``_reset_idx``, and what was observed before is given to nobody.
    """

    def __init__(self, num_envs: int = 4, camera: Any = None) -> None:
        self.num_envs, self.device, self.unwrapped = num_envs, "cpu", self
        self.scene: Any = Scene(self, camera)
        self.sim, self.cfg = self.scene, SimpleNamespace(num_rerenders_on_reset=0)
        self.resets = torch.zeros(num_envs)
        box = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.single_observation_space = spaces.Dict({"policy": box})
        self.single_action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.at, self.time = torch.zeros(num_envs), torch.zeros(num_envs)
        self.flags = torch.zeros(2, num_envs, dtype=torch.bool)
        self.base = 0.0
        self.observation_manager = self

    def compute(self, update_history: bool = False) -> Any:
        return self._computed()

    def reset(self, seed: int | None = None, env_ids: Tensor | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.base, self.resets = seed % 7 / 10, torch.zeros(self.num_envs)
        self._reset_idx(torch.arange(self.num_envs) if env_ids is None else env_ids)
        self._drawn_after_reset()
        return self._computed(), {}

    def reset_to(self, state: Any, env_ids: Tensor, seed: int | None = None, is_relative: bool = False) -> Any:
        if seed is not None:
            self.base, self.resets = seed % 7 / 10, torch.zeros(self.num_envs)
        self._reset_idx(env_ids)
        self.scene.reset_to(state, env_ids, is_relative=is_relative)
        self._drawn_after_reset()
        return self._computed(), {}

    def _drawn_after_reset(self) -> None:
        for _ in range(self.cfg.num_rerenders_on_reset):
            self.sim.render()

    def _reset_idx(self, env_ids: Tensor) -> None:
        self.resets[env_ids] += 1
        self.at[env_ids], self.time[env_ids] = self.base + 0.1 * self.resets[env_ids], 0

    def _computed(self) -> Any:
        return {"policy": torch.stack([self.at, self.time], 1)}

    def step(self, action: Tensor) -> Any:
        self.at += action[:, 0]
        self.time += 1
        self.sim.render()
        self.flags[0], self.flags[1] = self.at.abs() > GOAL, self.time >= LENGTH
        reward, over = self.at * 2, self.flags.any(0)
        self.final = self._computed()["policy"]  # for the tests only
        if over.any():
            self._reset_idx(over.nonzero().flatten())
            self._drawn_after_reset()
        return self._computed(), reward, self.flags[0], self.flags[1], {}


class Ring:
    """Isaac Lab's ``CircularBuffer``: all rows share the place of the newest entry."""

    def __init__(self, length: int, rows: int) -> None:
        self._buffer: Any = None
        self._pointer, self._num_pushes, self.length = -1, torch.zeros(rows, dtype=torch.long), length

    def reset(self, ids: Tensor) -> None:
        self._num_pushes[ids] = 0
        if self._buffer is not None:
            self._buffer[:, ids] = 0.0

    def append(self, data: Tensor) -> None:
        if self._buffer is None:
            self._buffer = torch.empty(self.length, *data.shape)
        self._pointer = (self._pointer + 1) % self.length
        self._buffer[self._pointer] = data
        first = self._num_pushes == 0
        self._buffer[:, first] = data[first]
        self._num_pushes += 1

    def oldest_first(self) -> Tensor:
        return self._buffer.roll(self.length - self._pointer - 1, 0).T


class Smooth:
    """A modifier that remembers, as Isaac Lab's ``DigitalFilter`` does; in it stands every value that was observed."""

    def __init__(self, rows: int) -> None:
        self.past = torch.zeros(rows)

    def reset(self, ids: Tensor) -> None:
        self.past[ids] = 0.0

    def __call__(self, data: Tensor) -> Tensor:
        self.past = self.past / 2 + data
        return self.past.clone()


class Remembering(ManagerBased):
    """Observes where a row was in the last three steps, and a smoothed place."""

    def __init__(self, num_envs: int = 3) -> None:
        super().__init__(num_envs)
        self.ring, self.smooth = Ring(3, num_envs), Smooth(num_envs)
        self._group_obs_term_history_buffer = {"policy": {"at": self.ring}}
        self._group_obs_class_instances = [self.smooth]
        self.single_observation_space = spaces.Dict({"policy": spaces.Box(-np.inf, np.inf, (4,), np.float32)})

    def compute(self, update_history: bool = False) -> Any:
        smooth = self.smooth(self.at)
        if update_history:
            self.ring.append(self.at)
        return {"policy": torch.cat([self.ring.oldest_first(), smooth.unsqueeze(-1)], 1)}

    def _computed(self) -> Any:
        return self.compute(update_history=True)

    def _reset_idx(self, env_ids: Tensor) -> None:
        super()._reset_idx(env_ids)
        self.ring.reset(env_ids)
        self.smooth.reset(env_ids)

    def step(self, action: Tensor) -> Any:
        self.at += action[:, 0]
        self.time += 1
        self.flags[0], self.flags[1] = self.at.abs() > GOAL, self.time >= LENGTH
        reward, over = self.at * 2, self.flags.any(0)
        if over.any():
            self._reset_idx(over.nonzero().flatten())
        return self._computed(), reward, self.flags[0], self.flags[1], {}


class Choosing(ManagerBased):
    """Moves by one of three numbers."""

    def __init__(self, num_envs: int = 2) -> None:
        super().__init__(num_envs)
        self.single_action_space = spaces.Discrete(3)

    def step(self, action: Tensor) -> Any:
        return super().step(0.1 * action.unsqueeze(-1))


class Direct(ManagerBased):
    """A ``DirectRLEnv``, whose ``reset`` takes no ids."""

    reset_to = property()  # there is none

    def __init__(self, num_envs: int = 4, camera: Any = None) -> None:
        super().__init__(num_envs, camera)
        del self.observation_manager

    def _get_observations(self) -> Any:
        return self._computed()

    def reset(self, seed: int | None = None, options: Any = None) -> Any:  # type: ignore[override]
        return super().reset(seed)


@dataclass
class PinholeCameraCfg:
    """A lens, with Isaac Lab's own defaults."""

    focal_length: float = 24.0
    focus_distance: float = 400.0
    horizontal_aperture: float = 20.955
    clipping_range: tuple[float, float] = (0.01, 1e6)


@dataclass
class TiledCameraCfg:
    """The fields of 2.3.2 that have to do with a camera of one's own."""

    @dataclass
    class OffsetCfg:
        pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
        rot: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
        convention: str = "ros"

    prim_path: str
    spawn: PinholeCameraCfg
    width: int
    height: int
    offset: OffsetCfg = field(default_factory=OffsetCfg)
    data_types: list[str] = field(default_factory=lambda: ["rgb"])


def installed(monkeypatch: Any) -> list[dict[str, Any]]:
    """Puts IsaacGymEnvs' modules where they are imported from; returns what ``make`` was called with."""
    calls: list[dict[str, Any]] = []

    def make(**options: Any) -> Ant:
        calls.append(options)
        return Ant(options["num_envs"])

    gym, envs, tasks = (ModuleType(name) for name in ("isaacgym", "isaacgymenvs", "isaacgymenvs.tasks"))
    envs.make, tasks.isaacgym_task_map = make, {"Ant": Ant, "Cartpole": Ant}  # type: ignore[attr-defined]
    for module in (gym, envs, tasks):
        module.__spec__ = ModuleSpec(module.__name__, None)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return calls


def lab_installed(monkeypatch: Any) -> None:
    """Isaac Lab's modules, and a task of the name ``"Isaac-Ant-v0"`` in gymnasium."""
    names = ("isaaclab", "isaaclab_tasks", "isaaclab_tasks.utils", "isaaclab.sim", "isaaclab.sensors")
    modules = {name: ModuleType(name) for name in names}
    modules["isaaclab.sim"].PinholeCameraCfg = PinholeCameraCfg  # type: ignore[attr-defined]
    modules["isaaclab.sensors"].TiledCameraCfg = TiledCameraCfg  # type: ignore[attr-defined]
    modules[names[2]].parse_env_cfg = lambda task, num_envs: {"Isaac-Ant-v0": num_envs}[task]  # type: ignore[attr-defined]
    for name, module in modules.items():
        module.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(gymnasium, "make", lambda task, cfg: ManagerBased(cfg))
