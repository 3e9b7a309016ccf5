"""What a usual chain of transforms adds per step: the same chain over the same cheap env in marlenv and in TorchRL.

Three agents in one group, batch of 32, five actions with a mask; sums of rewards, counters, marks of first steps,
normalised observations, and action masks.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size

from marlenv.cli.benches.timing import Figure, interleaved
from marlenv.optional import need

BATCH, AGENTS, SEEN, ACTS = 32, 3, 8, 5
STEPS = 100
OBSERVATION, ACTION, MASK = ("agents", "observation"), ("agents", "action"), ("agents", "action_mask")


def make_env(base: Any, specs: Any) -> Any:
    """The env over one of the libraries.

    Args:
        base: its ``EnvBase``.
        specs: the module with its specs.
    """

    class Cheap(base):
        """Constant answers."""

        def __init__(self) -> None:
            super().__init__(batch_size=(BATCH,), device="cpu")
            shape = (BATCH, AGENTS)

            def grouped(**leaves: Any) -> Any:
                return specs.Composite(agents=specs.Composite(leaves, shape=shape), shape=(BATCH,))

            self.observation_spec = grouped(
                observation=specs.Unbounded((*shape, SEEN)),
                action_mask=specs.Binary(ACTS, (*shape, ACTS), dtype=torch.bool),
            )
            self.action_spec = grouped(action=specs.Categorical(ACTS, shape))
            self.reward_spec = grouped(reward=specs.Unbounded((*shape, 1)))
            self.done_spec = specs.Categorical(2, (BATCH, 1), dtype=torch.bool)
            self.seen, self.earned = torch.zeros(*shape, SEEN), torch.zeros(*shape, 1)
            self.legal = torch.ones(*shape, ACTS, dtype=torch.bool)
            self.ended = torch.zeros(BATCH, 1, dtype=torch.bool)
            self.rows, self.group = Size([BATCH]), Size(shape)

        def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDict:
            agents = TensorDict({"observation": self.seen, "action_mask": self.legal}, batch_size=self.group)
            return TensorDict({"agents": agents, "done": self.ended, "terminated": self.ended}, batch_size=self.rows)

        def _step(self, tensordict: TensorDictBase) -> TensorDict:
            entries = {"observation": self.seen, "action_mask": self.legal, "reward": self.earned}
            agents = TensorDict(entries, batch_size=self.group)
            return TensorDict({"agents": agents, "done": self.ended, "terminated": self.ended}, batch_size=self.rows)

        def _set_seed(self, seed: int | None) -> None:
            pass

    return Cheap()


def chained(lib: Any, env: Any) -> Any:
    """The env under the chain of one of the libraries."""
    norm = lib.ObservationNorm(0.0, 2.0, [OBSERVATION])
    chain = lib.Compose(lib.RewardSum(), lib.StepCounter(), lib.InitTracker(), norm, lib.ActionMask(ACTION, MASK))
    return lib.TransformedEnv(env, chain)


def both() -> dict[str, Any]:
    """The env under the chain, over marlenv and over TorchRL."""
    import marlenv.specs
    import marlenv.transforms
    from marlenv.envs import EnvBase

    peer, data = need("torchrl.envs", "marlenv bench transforms"), need("torchrl.data", "marlenv bench transforms")
    return {
        "marlenv": chained(marlenv.transforms, make_env(EnvBase, marlenv.specs)),
        "torchrl": chained(peer, make_env(peer.EnvBase, data)),
    }


def rolling(env: Any, policy: Any) -> int:
    """``rollout`` with a policy (or random actions)."""
    env.rollout(STEPS, policy, break_when_any_done=False)
    return STEPS


ACTED = torch.zeros(BATCH, AGENTS, dtype=torch.int64)


def constant(tensordict: TensorDictBase) -> TensorDictBase:
    """A policy that costs nothing."""
    return tensordict.set(ACTION, ACTED)


def measure(rounds: int) -> list[Figure]:
    """Times both sides."""
    envs = both()
    suites = {"rollout, constant policy": constant, "rollout, random actions": None}
    figures = []
    for what, policy in suites.items():
        got = interleaved({name: partial(rolling, env, policy) for name, env in envs.items()}, rounds)
        figures.append(Figure(what, got["marlenv"], got["torchrl"], "torchrl"))
    return figures
