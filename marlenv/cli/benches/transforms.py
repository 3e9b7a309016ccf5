"""What a usual chain of transforms adds per step: the same chain over the same cheap env in marlenv and in TorchRL.

Three agents in one group, batch of 32, five actions with a mask; sums of rewards, counters, marks of first steps,
normalised observations, and action masks.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from marlenv.cli.benches.overhead import AGENTS, BATCH, both, compared, rolling
from marlenv.cli.benches.timing import Figure
from marlenv.optional import need

OBSERVATION, ACTION, MASK = ("agents", "observation"), ("agents", "action"), ("agents", "action_mask")


def chained(lib: Any, env: Any) -> Any:
    """The env under the chain of one of the libraries."""
    norm = lib.ObservationNorm(0.0, 2.0, [OBSERVATION])
    chain = lib.Compose(lib.RewardSum(), lib.StepCounter(), lib.InitTracker(), norm, lib.ActionMask(ACTION, MASK))
    return lib.TransformedEnv(env, chain)


ACTED = torch.zeros(BATCH, AGENTS, dtype=torch.int64)


def constant(tensordict: TensorDictBase) -> TensorDictBase:
    """A policy that costs nothing."""
    return tensordict.set(ACTION, ACTED)


def measure(rounds: int) -> list[Figure]:
    """Times both sides."""
    import marlenv.transforms

    envs = both("transforms", masked=True)
    libs = {"marlenv": marlenv.transforms, "torchrl": need("torchrl.envs", "marlenv bench transforms")}
    suites = {
        "rollout, constant policy": lambda env: rolling(env, constant),
        "rollout, random actions": lambda env: rolling(env, None),
    }
    return compared({name: chained(libs[name], env) for name, env in envs.items()}, suites, rounds)
