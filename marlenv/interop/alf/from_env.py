"""Batched environments of ALF as envs of ours. Imported when it is first needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from marlenv.interop.alf.time_step import StepType
from marlenv.optional import need

spaces: Any = need("gymnasium.spaces", "marlenv.from_alf")
vectors: Any = need("gymnasium.vector", "marlenv.from_alf")


class VectorOfAlf(vectors.VectorEnv):
    """A batched environment of ALF as a vector of Gymnasium's, whose rows start anew when they are told to.

    Args:
        env: of ALF, or one like it, with one row, or with ``reset_rows``.
    """

    def __init__(self, env: Any) -> None:
        self.inner, self.num_envs, self.render_mode = env, int(env.batch_size), None
        self.metadata = {"autoreset_mode": vectors.AutoresetMode.DISABLED, "render_modes": []}
        self.single_observation_space, self.single_action_space = (
            _space(spec) for spec in (env.observation_spec(), env.action_spec())
        )
        self.observation_space, self.action_space = (
            vectors.utils.batch_space(space, self.num_envs)
            for space in (self.single_observation_space, self.single_action_space)
        )

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Starts episodes in all rows, or in those of ``options["reset_mask"]``."""
        if seed is not None and hasattr(self.inner, "seed"):
            self.inner.seed(int(np.ravel(seed)[0]))
        mask = None if options is None else options.get("reset_mask")
        some = mask is not None and self.num_envs > 1
        now = self.inner.reset_rows(torch.as_tensor(np.asarray(mask, dtype=bool))) if some else self.inner.reset()
        return _arrays(now.observation), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Plays an action in every row."""
        now = self.inner.step(torch.as_tensor(np.asarray(actions)))
        last, on = _arrays(now.step_type) == int(StepType.LAST), _arrays(now.discount) != 0
        reward = _arrays(now.reward).astype(np.float64)
        return _arrays(now.observation), reward, last & ~on, last & on, {}

    def close_extras(self, **_: Any) -> None:
        """Closes the env."""
        if hasattr(getattr(self, "inner", None), "close"):
            self.inner.close()


def _space(spec: Any) -> Any:
    """A nest of ALF's specs as a space."""
    if isinstance(spec, dict):
        return spaces.Dict({name: _space(one) for name, one in spec.items()})
    dtype = torch.empty(0, dtype=spec.dtype).numpy().dtype
    shape, bounds = tuple(spec.shape), [getattr(spec, name, None) for name in ("minimum", "maximum")]
    if any(bound is None for bound in bounds):
        if dtype.kind == "b":
            return spaces.Box(0, 1, shape, np.int8)
        ends = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return spaces.Box(*ends, shape, dtype)
    low, high = (np.broadcast_to(np.asarray(bound), shape).astype(dtype) for bound in bounds)
    if dtype.kind == "i" and not shape and low == 0:
        return spaces.Discrete(int(high) + 1)
    return spaces.Box(low, high, shape, dtype)


def _arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _arrays(one) for name, one in value.items()}
    return torch.as_tensor(value).detach().cpu().numpy()
