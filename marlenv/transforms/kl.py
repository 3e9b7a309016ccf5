"""A reward that keeps a policy near another one."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import ShapeError, SpecTypeError
from marlenv.keys import NestedKey
from marlenv.specs import Composite, Unbounded
from marlenv.tensordicts import fetch
from marlenv.transforms.base import Kind, Transform

LOG_PROBS = ("sample_log_prob", "action_log_prob")


class KLRewardTransform(Transform):
    """Takes from the reward how much likelier the action was for the policy that played it than for another one.

    ``reward - coef * (log p(a) - log p0(a))``, where ``p0`` is a copy of ``actor`` as it is now.

    Args:
        actor: a probabilistic tensordict module.
        coef: the weight.
        in_keys: one reward; the env's when left out.
        out_keys: where the result goes.
        requires_grad: whether the copy's parameters have gradients.
        log_prob_key: where the policy writes log p(a); ``"sample_log_prob"`` or ``"action_log_prob"`` when left out.
        action_key: the action; the env's when left out.
    """

    on: ClassVar[Kind] = "reward"

    def __init__(
        self,
        actor: Any,
        coef: float | Tensor = 1.0,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        requires_grad: bool = False,
        log_prob_key: NestedKey | None = None,
        action_key: NestedKey | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys)
        if not hasattr(actor, "get_dist"):
            raise SpecTypeError(
                f"KLRewardTransform: actor must be a probabilistic tensordict module, got {type(actor).__name__}"
            )
        self.actor = deepcopy(actor).requires_grad_(requires_grad)
        self.register_buffer("coef", torch.as_tensor(coef))
        self.log_prob_keys = LOG_PROBS if log_prob_key is None else (log_prob_key,)
        self.action_key = action_key

    def join(self, env: Any) -> None:
        """Finds the action."""
        super().join(env)
        self.action_key = env.action_key if self.action_key is None else self.action_key

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Gives the result no bounds."""
        for key, new in zip(self.in_keys or (), self.out_keys or (), strict=True):
            leaf = specs["reward"][key]
            specs["reward"][new] = Unbounded(leaf.shape, device=leaf.device, dtype=leaf.dtype)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        key, new = (keys[0] for keys in self._keys())
        action = fetch(tensordict, self.action_key or "action")
        mine = next((v for k in self.log_prob_keys if (v := fetch(tensordict, k)) is not None), None)
        for name, value in ((self.action_key or "action", action), (self.log_prob_keys[0], mine)):
            if value is None:
                raise self.no_entry(name, tensordict.keys(True, True))
        theirs = self.actor.get_dist(tensordict.copy()).log_prob(action)
        reward = fetch(next_tensordict, key)
        if mine.shape != theirs.shape or mine.numel() != reward.numel():  # type: ignore[union-attr]
            raise ShapeError(
                f"KLRewardTransform: expected one log-probability per reward {list(reward.shape)}, got "
                f"{list(mine.shape)} of the "  # type: ignore[union-attr]
                f"policy and {list(theirs.shape)} of the actor"
            )
        next_tensordict.set(new, reward - self.coef * (mine - theirs).reshape(reward.shape))
        return next_tensordict

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Changes the reward of stored data, under ``"next"``."""
        self._step(tensordict, tensordict.get("next", None) if "next" in tensordict.keys() else tensordict)
        return tensordict
