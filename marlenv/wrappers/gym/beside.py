"""Envs of gym that stand side by side in a series: their answers are packed together, and not one by one first."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Size

from marlenv.specs import Bounded, Categorical, OneHot, Unbounded
from marlenv.tensordicts import get, new
from marlenv.wrappers._base import EnvWrapper
from marlenv.wrappers._gymlike import GymLikeEnv

if TYPE_CHECKING:
    from marlenv.wrappers.gym.wrapper import GymWrapper

Answer = tuple[Any, float, bool, bool]
"""Observation, reward, terminated, truncated."""

FLAGS = {"terminated", "truncated", "done"}


class Beside:
    """Steps single envs of one kind and packs what they answer, as a stack of their data would have it.

    Args:
        envs: which :func:`fit`.
    """

    def __init__(self, envs: Sequence[GymWrapper]) -> None:
        self.name = str(envs[0]._spaces.name)
        spec = envs[0].observation_spec[self.name]
        self.dtype, self.shape = torch.empty(0, dtype=spec.dtype).numpy().dtype, tuple(spec.shape)
        self.batch = Size([len(envs)])

    def actions(self, envs: Sequence[GymWrapper], td: TensorDictBase) -> list[Any]:
        """The actions of all rows, as their simulators take them."""
        values = envs[0]._spaces.numbers(get(td, "action"))
        return [env._spaces.decoded(value) for env, value in zip(envs, values, strict=True)]

    def play(self, env: GymWrapper, action: Any) -> Answer:
        """One step of one env."""
        env._check_began("step")
        obs, reward, terminated, truncated, *_ = env._output_transform(env._env.step(action))
        if type(obs) is not np.ndarray or obs.shape != self.shape or obs.dtype != self.dtype:
            obs = env.read_obs(obs)[self.name].numpy()
        if type(reward) is not float or isnan(reward):
            reward = float(env.read_reward(0 if reward is None else reward))
        return obs, reward, terminated, truncated

    def packed(self, answers: Sequence[Answer]) -> TensorDictBase:
        """What all envs answered, as the "next" data of their stack."""
        seen, rewards, terminated, truncated = zip(*answers, strict=True)
        flags = np.array([terminated, truncated], dtype=bool)[..., None]
        data = {
            self.name: np.array(seen, dtype=self.dtype),
            "terminated": flags[0].copy(),
            "truncated": flags[1].copy(),
            "done": flags[0] | flags[1],
            "reward": np.array(rewards, dtype=np.float32)[:, None],
        }
        return new({name: torch.from_numpy(value) for name, value in data.items()}, self.batch)

    @staticmethod
    def is_plain(env: GymWrapper) -> bool:
        """Whether nothing was changed of an env since it was looked at, and it is open."""
        own = env.__dict__
        plain = not own["_info_dict_reader"] and "_step" not in own and "step" not in own and own["_device"] is None
        return plain and not env.is_closed and not env.run_type_checks and env._auto_reset is None


def side_by_side(cls: type[Any], envs: Sequence[GymWrapper]) -> Beside | None:
    """What steps envs at once, where they read their simulators as the class does that has this method."""
    plain = next(one for one in cls.__mro__ if "_side_by_side" in one.__dict__)
    return Beside(envs) if fit(envs, plain) else None


def fit(envs: Sequence[GymWrapper], plain: type[GymWrapper]) -> bool:
    """Whether envs are single, and read their simulators as ``plain`` does."""
    cls, first = type(envs[0]), envs[0]
    own = (
        "_step",
        "read_action",
        "read_obs",
        "read_reward",
        "_output_transform",
        "_tensordict",
        "_with_info",
        "_action",
    )
    if (
        any(getattr(cls, name) is not getattr(plain, name) for name in own)
        or cls._check_began is not EnvWrapper._check_began
    ):
        return False
    if cls.read_done is not GymLikeEnv.read_done or not all(type(env) is cls for env in envs):
        return False
    seen, acts, name = first.full_observation_spec, first.full_action_spec, first._spaces.name
    if not all(env._rows is None and not env._draws and env.wrapper_frame_skip == 1 for env in envs):
        return False
    if (
        any(env._spaces.name != name for env in envs)
        or {*seen.keys(True, True)} != {name}
        or {*acts.keys(True, True)} != {"action"}
    ):
        return False
    if type(seen[name]) not in (Bounded, Unbounded) or type(acts["action"]) not in (OneHot, Categorical, Bounded):
        return False
    if {*first.full_done_spec.keys(True, True)} != FLAGS or {*first.full_reward_spec.keys(True, True)} != {"reward"}:
        return False
    kinds = {(e.observation_spec[name].shape, e._reward_shape, e.full_action_spec["action"].shape) for e in envs}
    return len(kinds) == 1 and first._reward_shape == (1,)
