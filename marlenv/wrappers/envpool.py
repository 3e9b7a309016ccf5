"""EnvPool's envs, which are stepped by threads in C++.

https://github.com/sail-sg/envpool, tested with 1.2.5.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.errors import SpecTypeError, UnknownName, Unsupported, nearest, whole
from marlenv.optional import need
from marlenv.specs import Binary, Composite, TensorSpec, Unbounded
from marlenv.wrappers._base import EnvWrapper
from marlenv.wrappers._spaces import spec_of


class MultiThreadedEnvWrapper(EnvWrapper):
    """A pool of EnvPool's, all of whose envs step at once.

    | key | shape | meaning |
    |---|---|---|
    | `observation` | `[B, ...]` | as the pool gives it; entries of its own where that is a dict |
    | `action` | `[B]` or `[B, n]` | one-hot too, unless ``categorical_action_encoding`` |
    | `reward` | float32 `[B, 1]` | |
    | `done`, `terminated`, `truncated` | bool `[B, 1]` | |

    EnvPool starts anew by itself at the step after the last one; here rows that are done are reset as those of any env,
    so that no step is spent on it. Its seeds are given when a pool is made: ``set_seed`` cannot change them.

    Args:
        env: what ``envpool.make(..., env_type="gymnasium")`` made, with ``batch_size`` equal to ``num_envs``.
        categorical_action_encoding: actions as numbers of choices, rather than one-hot.
        **options: ``device``, ``allow_done_after_reset``, ``run_type_checks``.

    >>> MultiThreadedEnvWrapper.libname
    'envpool'

    Source: EnvPool 1.2.5.
    """

    libname: ClassVar[str] = "envpool"
    git_url: ClassVar[str] = "https://github.com/sail-sg/envpool"
    can_be_seeded: ClassVar[bool] = False
    skips_frames = False
    handles_partial_steps = True

    def __init__(self, env: Any = None, *, categorical_action_encoding: bool = False, **options: Any) -> None:
        self.categorical_action_encoding = categorical_action_encoding
        super().__init__(**options, **({} if env is None else {"env": env}))

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        if not hasattr(kwargs.get("env"), "spec") or not hasattr(kwargs["env"], "config"):
            got = type(kwargs.get("env")).__name__
            raise SpecTypeError(f"{type(self).__name__}: env must be what envpool.make gives, got {got}")

    def _build_env(self, env: Any = None) -> Any:
        return env

    def _make_specs(self, env: Any) -> None:
        who, config = type(self).__name__, env.config
        self.num_workers = config["num_envs"]
        if config["batch_size"] != self.num_workers:
            want, got = self.num_workers, config["batch_size"]
            raise Unsupported(f"{who}: batch_size must be num_envs={want}, got {got}; all envs step at once")
        self.batch_size = (self.num_workers,)
        seen = self._expanded(spec_of(env.spec.observation_space))
        self.observation_spec = (
            seen if isinstance(seen, Composite) else Composite(observation=seen, shape=self.batch_size)
        )
        self.action_spec = self._expanded(spec_of(env.spec.action_space, categorical=self.categorical_action_encoding))
        self.reward_spec = Unbounded((self.num_workers, 1))
        flag = Binary(shape=(self.num_workers, 1), dtype=torch.bool)
        self.full_done_spec = Composite(
            done=flag, terminated=flag.clone(), truncated=flag.clone(), shape=self.batch_size
        )
        self._one_hot = hasattr(env.spec.action_space, "n") and not self.categorical_action_encoding

    def _expanded(self, spec: TensorSpec) -> TensorSpec:
        return spec.expand(self.num_workers, *spec.shape)

    def _reset(self, tensordict: TensorDictBase | None, **_: Any) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if mask is None or bool(mask.all()) or not self._began:
            self._seen, self._began = self._read(self._env.reset()[0]), True
        elif bool(mask.any()):
            rows = mask.reshape(self.num_workers).nonzero().flatten()
            self._write(rows, self._read(self._env.reset(rows.numpy().astype(np.int32))[0]))
        return TensorDict({name: value.clone() for name, value in self._seen.items()}, self.batch_size)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self._check_began("step")
        action, mask = tensordict.get(self.action_key), tensordict.get("_step", None)
        if self._one_hot:
            action = action.to(torch.uint8).argmax(-1)
        actions = action.cpu().numpy().astype(self._env.spec.action_space.dtype)
        rows = torch.arange(self.num_workers) if mask is None else mask.reshape(-1).nonzero().flatten()
        seen, reward, terminated, truncated, _ = self._env.step(actions[rows.numpy()], rows.numpy().astype(np.int32))
        self._write(rows, self._read(seen))
        data = {name: value.clone() for name, value in self._seen.items()}
        given = {"reward": reward.astype(np.float32), "terminated": terminated, "truncated": truncated}
        for name, values in given.items():
            column = torch.from_numpy(np.asarray(values)).unsqueeze(-1)
            data[name] = torch.zeros(self.num_workers, 1, dtype=column.dtype).index_copy(0, rows, column)
        data["done"] = data["terminated"] | data["truncated"]
        return TensorDict(data, self.batch_size)

    def _read(self, seen: Any) -> dict[str, Tensor]:
        named = seen if isinstance(seen, dict) else {"observation": seen}
        return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in named.items()}

    def _write(self, rows: Tensor, seen: dict[str, Tensor]) -> None:
        self._seen = {name: old.index_copy(0, rows, seen[name]) for name, old in self._seen.items()}

    def _set_seed(self, seed: int | None) -> None:
        pass


class MultiThreadedEnv(MultiThreadedEnvWrapper):
    """Envs of EnvPool's by their name, stepped by threads in C++: Atari, classic control, MuJoCo, ViZDoom and others.

    Args:
        num_workers: how many.
        env_name: as ``envpool.list_all_envs()`` has it.
        create_env_kwargs: options of the task, such as ``seed`` and ``max_episode_steps``.
        categorical_action_encoding: actions as numbers of choices, rather than one-hot.
        **options: those of :class:`MultiThreadedEnvWrapper`.

    ``set_seed`` makes the pool anew.

    >>> MultiThreadedEnv.libname  # MultiThreadedEnv(8, "CartPole-v1")
    'envpool'

    Source: EnvPool 1.2.5.
    """

    can_be_seeded: ClassVar[bool] = True

    def __init__(
        self,
        num_workers: int,
        env_name: str,
        *,
        create_env_kwargs: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        whole(type(self).__name__, "num_workers", num_workers, 1)
        self.env_name, self._count, self._task = env_name, num_workers, dict(create_env_kwargs or {})
        super().__init__(**options)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        name, known = self.env_name, need("envpool", type(self).__name__).list_all_envs()
        if name not in known:
            raise UnknownName(f"{type(self).__name__}: EnvPool has no env {name!r}; {nearest(name, known)}")

    def _build_env(self, env: Any = None) -> Any:
        return need("envpool", type(self).__name__).make(
            self.env_name, env_type="gymnasium", num_envs=self._count, **{"seed": 0, **self._task}
        )

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            self._task["seed"] = seed % 2**31
            self._env, self._began = self._build_env(), False
