"""What the env layer adds per step: the same cheap env written against marlenv and against TorchRL.

Three agents in one group, batch of 32, observations of 8 numbers, actions of 2. The env returns constant tensors, so
all the time goes to the layers around it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size

from marlenv.cli.benches.timing import Figure, interleaved
from marlenv.optional import need

BATCH, AGENTS, WIDTH, ACTS, MOVES = 32, 3, 8, 2, 5
STEPS = 100


def make_env(base: Any, specs: Any, *, masked: bool = False) -> Any:
    """The env over one of the libraries.

    Args:
        base: its ``EnvBase``.
        specs: the module with its specs.
        masked: actions are one of five, with a mask, in place of two numbers.
    """

    class Cheap(base):
        """Constant answers."""

        def __init__(self) -> None:
            super().__init__(batch_size=(BATCH,), device="cpu")
            shape = (BATCH, AGENTS)

            def grouped(**leaves: Any) -> Any:
                return specs.Composite(agents=specs.Composite(leaves, shape=shape), shape=(BATCH,))

            shown = {"observation": specs.Unbounded((*shape, WIDTH))}
            self.first = {"observation": torch.zeros(*shape, WIDTH)}
            if masked:
                shown["action_mask"] = specs.Binary(MOVES, (*shape, MOVES), dtype=torch.bool)
                self.first["action_mask"] = torch.ones(*shape, MOVES, dtype=torch.bool)
            self.following = {**self.first, "reward": torch.zeros(*shape, 1)}
            self.observation_spec = grouped(**shown)
            self.action_spec = grouped(
                action=specs.Categorical(MOVES, shape) if masked else specs.Bounded(-1, 1, (*shape, ACTS))
            )
            self.reward_spec = grouped(reward=specs.Unbounded((*shape, 1)))
            self.done_spec = specs.Categorical(2, (BATCH, 1), dtype=torch.bool)
            self.ended = torch.zeros(BATCH, 1, dtype=torch.bool)
            self.rows, self.group = Size([BATCH]), Size(shape)

        def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDict:
            agents = TensorDict(self.first, batch_size=self.group)
            return TensorDict({"agents": agents, "done": self.ended, "terminated": self.ended}, batch_size=self.rows)

        def _step(self, tensordict: TensorDictBase) -> TensorDict:
            agents = TensorDict(self.following, batch_size=self.group)
            return TensorDict({"agents": agents, "done": self.ended, "terminated": self.ended}, batch_size=self.rows)

        def _set_seed(self, seed: int | None) -> None:
            pass

    return Cheap()


def both(bench: str, *, masked: bool = False) -> dict[str, Any]:
    """The env over marlenv and over TorchRL, for a benchmark of that name."""
    import marlenv.specs
    from marlenv.envs import EnvBase

    peer, data = (need(f"torchrl.{name}", f"marlenv bench {bench}") for name in ("envs", "data"))
    pairs = {"marlenv": (EnvBase, marlenv.specs), "torchrl": (peer.EnvBase, data)}
    return {name: make_env(*pair, masked=masked) for name, pair in pairs.items()}


def stepping(env: Any) -> int:
    """``rand_action`` and ``step_and_maybe_reset``, over and over."""
    td = env.reset()
    for _ in range(STEPS):
        _, td = env.step_and_maybe_reset(env.rand_action(td))
    return STEPS


def rolling(env: Any, policy: Any) -> int:
    """``rollout`` with a policy (or random actions)."""
    env.rollout(STEPS, policy, break_when_any_done=False)
    return STEPS


ACTION = torch.zeros(BATCH, AGENTS, ACTS)


def constant(tensordict: TensorDictBase) -> TensorDictBase:
    """A policy that costs nothing."""
    return tensordict.set(("agents", "action"), ACTION)


def measure(rounds: int) -> list[Figure]:
    """Times both sides."""
    suites = {
        "rand_action + step_and_maybe_reset": stepping,
        "rollout, constant policy": lambda env: rolling(env, constant),
        "rollout, random actions": lambda env: rolling(env, None),
    }
    return compared(both("overhead"), suites, rounds)


def compared(envs: dict[str, Any], suites: dict[str, Callable[[Any], int]], rounds: int) -> list[Figure]:
    """How fast each suite is in marlenv and in TorchRL."""
    figures = []
    for what, play in suites.items():
        got = interleaved({name: partial(play, env) for name, env in envs.items()}, rounds)
        figures.append(Figure(what, got["marlenv"], got["torchrl"], "torchrl"))
    return figures
