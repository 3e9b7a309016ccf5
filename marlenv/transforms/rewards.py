"""Transforms of rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tensordict import TensorDictBase

from marlenv.keys import NestedKey, beside
from marlenv.specs import Composite, Unbounded
from marlenv.tensordicts import fetch, write
from marlenv.transforms.base import Kind, Transform


class RewardSum(Transform):
    """Adds up the rewards since the episode began, for every reward entry.

    Writes ``episode_reward`` beside ``reward`` (``("agents", "episode_reward")`` beside ``("agents", "reward")``), zero
    after a reset.

    Args:
        in_keys: reward entries; all of the env's when left out.
        out_keys: where the sums go.
        reset_keys: TorchRL's argument; the env knows which flags govern an entry.
        reward_spec: list the sums among the rewards, rather than among the observations.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(), RewardSum())
    >>> env.rollout(3)["next", "episode_reward"].squeeze(-1)
    tensor([1., 2., 3.])
    """

    on: ClassVar[Kind] = "reward"

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        reset_keys: Sequence[NestedKey] | None = None,
        *,
        reward_spec: bool = False,
    ) -> None:
        super().__init__(in_keys, out_keys)
        self.reward_spec = reward_spec

    def default_out_keys(self, in_keys: list[NestedKey]) -> list[NestedKey]:
        """``episode_reward`` beside ``reward``, ``episode_<name>`` beside other names."""
        return [beside(key, f"episode_{key if isinstance(key, str) else key[-1]}") for key in in_keys]

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the sums to the specs."""
        for key, total in zip(self.in_keys or (), self.out_keys or (), strict=True):
            leaf = specs["reward"][key]
            kinds: tuple[Kind, ...] = ("reward", "state") if self.reward_spec else ("observation",)
            for kind in kinds:  # a sum among the rewards is carried to the next step as state
                specs[kind][total] = Unbounded(leaf.shape, dtype=leaf.dtype, device=leaf.device)

    def _reset(self, tensordict: TensorDictBase | None, tensordict_reset: TensorDictBase) -> TensorDictBase:
        specs = self.container.full_reward_spec
        lead = tensordict_reset.batch_size[: tensordict_reset.ndim - specs.ndim]
        for key, total in zip(self.in_keys or (), self.out_keys or (), strict=True):
            write(tensordict_reset, total, specs[key].zero(lead))
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key, total in zip(self.in_keys or (), self.out_keys or (), strict=True):
            reward, before = fetch(next_tensordict, key), fetch(tensordict, total)
            write(next_tensordict, total, reward.clone() if before is None else before + reward)
        return next_tensordict
