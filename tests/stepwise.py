"""Rollouts step by step, whatever short way an env has: what those of short ways are compared with."""

from __future__ import annotations

from typing import Any

from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.envs.rollout import RolloutOptions, rollout


def stepwise(env: EnvBase, max_steps: int, policy: Any = None, **options: Any) -> TensorDictBase:
    """``env.rollout`` without the env's own short way."""
    return rollout(env, max_steps, policy, RolloutOptions(**options))
