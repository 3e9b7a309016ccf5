"""``GymWrapper``: an env of gym or gymnasium that was made already, or a vector of them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.errors import SpecTypeError
from marlenv.specs import Binary, Bounded, Composite, TensorSpec, Unbounded
from marlenv.tensordicts import get, new
from marlenv.wrappers._attributes import ClassValue
from marlenv.wrappers._backend import gym_backend
from marlenv.wrappers._gymlike import GymLikeEnv
from marlenv.wrappers.gym.beside import side_by_side
from marlenv.wrappers.gym.outputs import frame, opened, outcome, paid
from marlenv.wrappers.gym.spaces import Spaces, is_modern
from marlenv.wrappers.gym.vectors import Rows

FLAGS = ("terminated", "truncated", "done")


class GymWrapper(GymLikeEnv):
    """An env of gym or gymnasium, or a vector of them.

    | key | shape | meaning |
    |---|---|---|
    | `observation` | `[*B, ...]` | of a dict its entries, whose `state` has this name if none has it |
    | `pixels` | uint8 `[*B, H, W, 3]` | `observation`, if it is a picture in colours; `render`'s, with `from_pixels` |
    | `action` | `[*B, ...]` | choices are one-hot, unless `categorical_action_encoding` |
    | `reward` | float32 `[*B, 1]` | |
    | `done`, `terminated`, `truncated` | bool `[*B, 1]` | a time limit truncates |

    Rows of a vector that are done are reset as those of any env, however the vector does it; no step is spent on it and
    no final observation is lost.

    Args:
        env: the env, or the vector.
        categorical_action_encoding: choices as numbers, rather than one-hot.
        from_pixels: draw the env after every step, unless it observes pixels; it must have been made with
            ``render_mode="rgb_array"``.
        pixels_only: leave out what is observed besides pixels.
        **options: ``device``, ``frame_skip``, ``allow_done_after_reset``, ``run_type_checks``.

    Raises:
        SpecTypeError: ``env`` is none of gym's.

    >>> import gymnasium
    >>> env = GymWrapper(gymnasium.make("CartPole-v1"), categorical_action_encoding=True)
    >>> env.rollout(5)["observation"].shape
    torch.Size([5, 4])

    Source: gymnasium 1.2.2.
    """

    libname: ClassVar[str] = "gymnasium"
    git_url: ClassVar[str] = "https://github.com/Farama-Foundation/Gymnasium"
    _side_by_side = classmethod(side_by_side)
    reads_all = True
    _otherwise: ClassVar[str] = (
        "rewards of several agents can be summed in a gymnasium.Wrapper, or be given by a ParallelSimEnv of yours; "
        "those with a number for each aim, of envs with a reward_space, are taken by MOGymWrapper and MOGymEnv"
    )

    def __init__(
        self,
        env: Any = None,
        categorical_action_encoding: bool = False,
        *,
        from_pixels: bool = False,
        pixels_only: bool = True,
        **options: Any,
    ) -> None:
        self.categorical_action_encoding = categorical_action_encoding
        self.from_pixels, self.pixels_only = from_pixels, from_pixels and pixels_only
        self._next_seed: int | None = None
        super().__init__(**options, **({} if env is None else {"env": env}))

    @ClassValue
    def lib(cls) -> Any:  # noqa: N805
        """The library that envs are made with now, see :func:`marlenv.gym_backend`."""
        return gym_backend()

    @classmethod
    def _task_names(cls) -> list[str]:
        registry = gym_backend("envs").registration.registry
        return sorted(registry if isinstance(registry, dict) else registry.env_specs)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        env = kwargs.get("env")
        if not all(hasattr(env, name) for name in ("reset", "step", "action_space", "observation_space")):
            got = f"got {type(env).__name__}; GymEnv takes a name"
            raise SpecTypeError(f"{type(self).__name__}: env must be an env of gym or gymnasium, {got}")

    def _build_env(self, env: Any = None) -> Any:
        return env

    # --- specs -----------------------------------------------------------------------------------

    def _make_specs(self, env: Any) -> None:
        who = type(self).__name__
        self._rows = Rows(who, env) if hasattr(env, "num_envs") else None
        self.batch_size = lead = self.batch_size if self._rows is None else Size((self._rows.count,))
        self._modern = is_modern(env)
        self._spaces = Spaces(who, env, lead, categorical=self.categorical_action_encoding)
        seen = self._spaces.observations
        self._draws = self.from_pixels and "pixels" not in seen
        if self._rows is not None:
            self._rows.check(frame_skip=self.wrapper_frame_skip, from_pixels=self._draws)
        if self._draws:
            self._env.reset()
            pixels = Composite(pixels=Bounded(0, 255, self._pixels().shape, dtype=torch.uint8), shape=lead)
            seen = pixels if self.pixels_only else seen.update(pixels)
        self.observation_spec, self.action_spec = seen, self._spaces.acts
        one = self._reward_of_one(env)
        self.reward_spec = one.expand(*lead, *one.shape)
        self._reward_shape = self.reward_spec.shape
        self.full_done_spec = Composite({n: Binary(shape=(*lead, 1), dtype=torch.bool) for n in FLAGS}, shape=lead)

    def _reward_of_one(self, env: Any) -> TensorSpec:
        return Unbounded((1,))

    # --- reading ---------------------------------------------------------------------------------

    def _action(self, tensordict: TensorDictBase) -> Any:
        return self._spaces.acted(tensordict, self.action_keys)

    def read_action(self, action: Any) -> Any:
        """The action as the simulator takes it."""
        return self._spaces.told(action)

    def read_obs(self, observations: Any) -> dict[str, Any]:
        """Observations, and pixels where asked for, as a dict of tensors."""
        data: dict[str, Any] = {} if self._draws and self.pixels_only else self._spaces.read(observations)
        return {**data, "pixels": self._pixels()} if self._draws else data

    def read_reward(self, reward: Any) -> Tensor:
        """The reward as a tensor."""
        return paid(type(self).__name__, reward, self._reward_shape, self._otherwise)

    def _pixels(self) -> Tensor:
        return frame(type(self).__name__, self._env, modern=self._modern)

    # --- stepping --------------------------------------------------------------------------------

    def _output_transform(self, step_outputs_tuple: tuple[Any, ...]) -> tuple[Any, Any, Any, Any, Any, Any]:
        return outcome(step_outputs_tuple, alone=self._rows is None, who=type(self).__name__)

    def _reset_output_transform(self, reset_outputs_tuple: Any) -> tuple[Any, Any]:
        return opened(reset_outputs_tuple)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self._rows is None:
            return super()._step(tensordict)
        self._check_began("step")
        mask = get(tensordict, "_step")
        waiting = self._rows.before_step(None if mask is None else mask.reshape(-1).cpu().numpy())
        action = self.read_action(self._action(tensordict))
        obs, reward, terminated, truncated, _, info = self._output_transform(self._env.step(action))
        flags = [np.array(flag, dtype=bool) for flag in (terminated, truncated, np.logical_or(terminated, truncated))]
        obs, info = self._rows.after_step(obs, flags[2], info, waiting)
        data = self.read_obs(obs)
        data |= {name: torch.from_numpy(flag).unsqueeze(-1) for name, flag in zip(FLAGS, flags, strict=True)}
        data["reward"] = self.read_reward(reward)
        return self._with_info(new(data, self.batch_size), info)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        if self._next_seed is not None and self._modern:
            kwargs = {"seed": self._next_seed, **kwargs}
        elif self._next_seed is not None:
            self._env.seed(self._next_seed)
        mask = None if tensordict is None else get(tensordict, "_reset")
        if self._rows is None:
            out = super()._reset(None if mask is None else tensordict, **kwargs)
            self._next_seed = None  # not before: a reset that the simulator refuses uses up no seed
            return out
        first = None if mask is None or not self._began else mask.reshape(-1).cpu().numpy()
        obs, info = self._rows.reset(first, kwargs)
        self._began, self._next_seed = True, None
        return self._with_info(new(self.read_obs(obs), self.batch_size), info)

    def _set_seed(self, seed: int | None) -> None:
        self._next_seed = None if seed is None else seed % 2**31
