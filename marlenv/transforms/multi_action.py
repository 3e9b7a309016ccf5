"""Several actions in one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import whole
from marlenv.keys import NestedKey, level
from marlenv.specs import Composite, TensorSpec
from marlenv.tensordicts import fetch, write
from marlenv.transforms.base import Kind, Transform
from marlenv.transforms.frames import ended_before, governing, spread, standing_still, step_on
from marlenv.transforms.names import is_public

if TYPE_CHECKING:
    from marlenv.envs import EnvBase


class MultiAction(Transform):
    """Plays several actions, one after the other, in one step.

    The outside gives them along one more dimension, and gets the rewards along it (zeros once a row, or an agent, is
    done). It comes behind the batch, and in a group behind the agents: ``[*B, A, n, ...]``.

    Args:
        dim: where the actions stand: how many dimensions behind those of the batch or of the group, from 1 on.
        stack_rewards: give the rewards of all; else the last one.
        stack_observations: give the observations of all; else the last ones.
        action_key: an action of the env; all of them when left out.
        chunk_key: the entry that holds the actions; the action itself when left out.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(9), MultiAction())
    >>> out = env.step(env.reset().set("action", torch.zeros(3, 1)))["next"]
    >>> out["observation"], out["reward"].squeeze(-1)
    (tensor([3.]), tensor([1., 1., 1.]))
    """

    only_in_env = "it steps the env"
    asks_what_was_told: ClassVar[bool] = True
    one_size: ClassVar[bool] = True

    def __init__(
        self,
        *,
        dim: int = 1,
        stack_rewards: bool = True,
        stack_observations: bool = False,
        action_key: NestedKey | None = None,
        chunk_key: NestedKey | None = None,
    ) -> None:
        inner = ("action" if chunk_key is not None else None) if action_key is None else action_key
        super().__init__(
            in_keys_inv=[] if inner is None else [inner], out_keys_inv=[chunk_key or inner] if inner else None
        )
        self.dim = whole("MultiAction", "dim", dim, 1)
        self.stack_rewards, self.stack_observations = stack_rewards, stack_observations
        self.finds_actions = inner is None

    def join(self, env: EnvBase) -> None:
        """Finds the actions, and what is stacked."""
        if self.finds_actions:
            self.in_keys_inv = list(env.action_keys)
            self.out_keys_inv = list(env.action_keys)
        super().join(env)
        self.stacked = [*(env.reward_keys if self.stack_rewards else ())]
        self.stacked += filter(is_public, env.observation_keys if self.stack_observations else ())
        sides = (env.full_action_spec, env.full_reward_spec, env.full_observation_spec)
        self.at = {key: self._place(key, sides) for key in (*self.in_keys_inv, *self.out_keys_inv, *self.stacked)}

    def _place(self, key: NestedKey, sides: Sequence[Composite]) -> int:
        """Where the new dimension of an entry stands: behind those that all entries beside it have."""
        node = level(key)
        beside = next((side[node] for side in sides if node and node in side.keys(True)), sides[0])
        return beside.ndim + self.dim - 1

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Gives actions, rewards and observations the new dimension, whose size is not known."""
        for outer in self.out_keys_inv:
            specs["action"][outer] = self._many(specs["action"][outer], self.at[outer])
        for kind in ("reward", "observation"):
            for key in self.stacked:
                if key in specs[kind]:
                    specs[kind][key] = self._many(specs[kind][key], self.at[key])

    @staticmethod
    def _many(leaf: TensorSpec, at: int) -> TensorSpec:
        wide = leaf.unsqueeze(at)
        wide.shape = torch.Size((*wide.shape[:at], -1, *wide.shape[at + 1 :]))
        return wide

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for key in self.stacked:
            value = fetch(tensordict_reset, key)
            if value is not None:  # one observation, as often as there were others
                kept, at = fetch(tensordict, key), self.at[key]
                size = kept.shape[at] if kept is not None and kept.ndim == value.ndim + 1 else 1
                write(tensordict_reset, key, torch.stack([value] * size, at))
        return tensordict_reset

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        for inner, outer in zip(self.in_keys_inv, self.out_keys_inv, strict=True):
            actions = fetch(tensordict, outer)
            if actions is None:
                raise self.no_entry(outer, tensordict.keys(True, True))
            write(tensordict, inner, actions.select(self.at[outer], 0))
        return tensordict

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        env: Any = self.parent
        told = self.told(tensordict)
        before = ended_before(env.plan.done, told, next_tensordict)
        columns = [fetch(told, outer).unbind(self.at[outer]) for outer in self.out_keys_inv]
        told = self._inv_call(told)
        found: dict[NestedKey, list[Tensor]] = {key: [fetch(next_tensordict, key)] for key in self.stacked}
        for actions in zip(*(column[1:] for column in columns), strict=True):
            still = standing_still(env.plan.done, told, next_tensordict, before)
            played = dict(zip(self.in_keys_inv, actions, strict=True))
            next_tensordict = step_on(env, told, next_tensordict, played, still, add=False)
            for key, values in found.items():
                value = fetch(next_tensordict, key)
                if key in env.reward_keys:
                    value = torch.where(spread(governing(still, level(key)), value, told.ndim), 0, value)
                values.append(value)
        for key, values in found.items():
            write(next_tensordict, key, torch.stack(values, self.at[key]))
        return next_tensordict

    def __repr__(self) -> str:
        return f"MultiAction(dim={self.dim})"
