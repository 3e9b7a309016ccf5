"""DeepMind Control's tasks (https://github.com/google-deepmind/dm_control, tested with 1.0.50 and mujoco 3.17.0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import NeedsReset, SpecError, SpecTypeError, UnknownName, nearest
from marlenv.optional import need
from marlenv.specs import Binary, Bounded, Composite
from marlenv.wrappers._gymlike import GymLikeEnv
from marlenv.wrappers._spaces import spec_of_array
from marlenv.wrappers.dm_control import time_steps

DRAWN = ("lqr",)
"""Domains whose model is drawn, with the task's random numbers, when a task is made."""


class DMControlWrapper(GymLikeEnv):
    """An env of DeepMind Control, or another of dm_env's kind, with one agent.

    | key | shape | meaning |
    |---|---|---|
    | as the task calls them | float64 | numbers have one dimension |
    | `pixels` | uint8 `[H, W, 3]` | what a camera sees, with `from_pixels` |
    | `action` | float64 `[n]` | choices are one-hot, unless `categorical_action_encoding` |
    | `reward` | float64 `[1]` | |
    | `done`, `terminated`, `truncated` | bool `[1]` | a last step terminates if its discount is 0, else truncates |

    A step after the last one of an episode raises; envs of dm_env start another episode in it.

    Args:
        env: the env.
        categorical_action_encoding: choices as numbers, rather than one-hot.
        from_pixels: draw the env after every step.
        pixels_only: leave out what is observed besides pixels.
        camera_id: whose view is drawn.
        render_kwargs: more arguments of ``physics.render``, such as ``height`` and ``width``.
        **options: ``device``, ``frame_skip``, ``allow_done_after_reset``, ``run_type_checks``.

    Raises:
        SpecTypeError: ``env`` is none of dm_env's, or has several agents.
        NeedsReset: a step after the last one.

    >>> DMControlWrapper.libname
    'dm_control'

    Source: dm_control 1.0.50.
    """

    libname: ClassVar[str] = "dm_control"
    git_url: ClassVar[str] = "https://github.com/google-deepmind/dm_control"
    _over = False
    """Whether the last step of the episode was played."""

    def __init__(
        self,
        env: Any = None,
        *,
        categorical_action_encoding: bool = False,
        from_pixels: bool = False,
        pixels_only: bool = True,
        camera_id: int | str = 0,
        render_kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.categorical_action_encoding = categorical_action_encoding
        self.from_pixels, self.pixels_only = from_pixels, from_pixels and pixels_only
        if not isinstance(render_kwargs, (Mapping, type(None))):
            raise SpecTypeError(f"{type(self).__name__}: render_kwargs must be a dict, got {render_kwargs!r}")
        self.render_kwargs = {"camera_id": camera_id, **(render_kwargs or {})}
        super().__init__(**options, **({} if env is None else {"env": env}))

    @classmethod
    def _task_names(cls) -> list[str]:
        return ["/".join(pair) for pair in need("dm_control.suite", cls.__name__).ALL_TASKS]

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        env: Any = kwargs.get("env")
        who = type(self).__name__
        if not all(hasattr(env, name) for name in ("reset", "step", "action_spec", "observation_spec")):
            raise SpecTypeError(
                f"{who}: env must be an env of dm_env, got {type(env).__name__}; DMControlEnv takes names"
            )
        if isinstance(env.action_spec(), (list, tuple)):
            raise SpecTypeError(f"{who}: {type(env).__name__} has several agents; DMTeamsWrapper takes those")

    def _build_env(self, env: Any = None) -> Any:
        return env

    def _make_specs(self, env: Any) -> None:
        who, self._acts = type(self).__name__, env.action_spec()
        self._seen = time_steps.entries(who, env.observation_spec())
        seen = Composite() if self.pixels_only else self._seen.clone()
        if self.from_pixels:
            env.reset()
            try:
                shape = self._pixels().shape
            except Exception as error:  # of many kinds: MuJoCo's, GL's, Python's
                raise SpecError(f"{who}: nothing is drawn with render_kwargs={self.render_kwargs}: {error}") from error
            seen["pixels"] = Bounded(0, 255, shape, dtype=torch.uint8)
        self.observation_spec = seen
        self.action_spec = time_steps.action_spec(who, self._acts, categorical=self.categorical_action_encoding)
        self.reward_spec = spec_of_array(env.reward_spec(), f"{who}: the reward")
        flag = Binary(shape=(1,), dtype=torch.bool)
        self.full_done_spec = Composite(done=flag, terminated=flag.clone(), truncated=flag.clone())

    def read_action(self, action: Any) -> Any:
        """The action as the simulator takes it."""
        return time_steps.told(self._acts, super().read_action(action))

    def read_obs(self, observations: Any) -> dict[str, Any]:
        """What is observed, and pixels where asked for, as a dict of tensors."""
        data: dict[str, Any] = (
            {} if self.pixels_only else time_steps.read(type(self).__name__, self._seen, observations)
        )
        if self.from_pixels:
            data["pixels"] = self._pixels()
        return data

    def _pixels(self) -> Tensor:
        return torch.from_numpy(np.array(self._env.physics.render(**self.render_kwargs)))

    def _output_transform(self, step_outputs_tuple: Any) -> tuple[Any, Any, Any, Any, Any, Any]:
        step = step_outputs_tuple
        terminated, truncated = time_steps.ends(step)
        self._over = terminated or truncated
        return step.observation, step.reward, terminated, truncated, None, {}

    def _reset_output_transform(self, reset_outputs_tuple: Any) -> tuple[Any, Any]:
        self._over = False
        return reset_outputs_tuple.observation, {}

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self._over:
            raise NeedsReset(f"{type(self).__name__}.step: the episode is over; call reset() first")
        return super()._step(tensordict)

    def _reset(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:  # type: ignore[override]  # no options
        return super()._reset(tensordict)

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            time_steps.seed(type(self).__name__, self._env, seed)


class DMControlEnv(DMControlWrapper):
    """A task of DeepMind Control's suite by its names.

    The suite draws the models of ``lqr`` when a task is made, so ``set_seed`` makes those tasks anew.

    Args:
        env_name: the domain, such as ``"cheetah"``; or both names, ``"cheetah/run"``.
        task_name: the task, such as ``"run"``.
        **options: those of :class:`DMControlWrapper`; all others go to the task, such as ``time_limit``.

    Raises:
        UnknownName: there is no such task; names the nearest.

    >>> DMControlEnv.libname  # DMControlEnv("cheetah", "run")
    'dm_control'

    Source: dm_control 1.0.50.
    """

    def __init__(self, env_name: str, task_name: str | None = None, **options: Any) -> None:
        domain, _, task = str(env_name).partition("/")
        self.env_name, self.task_name = domain, task if task_name is None else task_name
        super().__init__(**options)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        name, known = f"{self.env_name}/{self.task_name}", self._task_names()
        if name not in known:
            raise UnknownName(f"{type(self).__name__}: the suite has no task {name!r}; {nearest(name, known)}")

    def _build_env(self, **task: Any) -> Any:  # type: ignore[override]
        self._task = task
        suite = need("dm_control.suite", type(self).__name__)
        return suite.load(self.env_name, self.task_name, task_kwargs=task or None)

    def _set_seed(self, seed: int | None) -> None:
        if seed is None or self.env_name not in DRAWN:
            super()._set_seed(seed)
            return
        old, self._env = self._env, self._build_env(**{**self._task, "random": seed % 2**32})
        old.close()
        self._began = False
