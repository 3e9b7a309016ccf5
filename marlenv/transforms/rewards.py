"""Transforms of rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.errors import KeyMissing, ShapeError, SpecError, SpecTypeError, Unsupported
from marlenv.keys import NestedKey, beside, under
from marlenv.specs import Binary, Bounded, Composite, Stacked, TensorSpec, Unbounded
from marlenv.specs.shapes import concrete
from marlenv.tensordicts import fetch, write
from marlenv.transforms.base import Kind, Transform
from marlenv.transforms.values import between, limits_in, need_values


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
    one_for_each: ClassVar[bool] = True

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        reset_keys: Sequence[NestedKey] | None = None,
        *,
        reward_spec: bool = False,
    ) -> None:
        super().__init__(in_keys, out_keys)
        if self.in_keys is not None and out_keys is None:
            self.out_keys = self.default_out_keys(self.in_keys)
        self.reward_spec = reward_spec

    def default_out_keys(self, in_keys: list[NestedKey]) -> list[NestedKey]:
        """``episode_reward`` beside ``reward``, ``episode_<name>`` beside other names."""
        return [beside(key, f"episode_{key if isinstance(key, str) else key[-1]}") for key in in_keys]

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the sums to the specs."""
        self.zeros = specs["reward"].clone()
        for key, total in zip(self.in_keys or (), self.out_keys or (), strict=True):
            if key not in specs["reward"]:
                raise self.no_entry(key, specs["reward"].keys(True, True), "the rewards are")
            leaf = specs["reward"][key]
            kinds: tuple[Kind, ...] = ("reward", "state") if self.reward_spec else ("observation",)
            for kind in kinds:  # a sum among the rewards is carried to the next step as state
                specs[kind][total] = Unbounded(leaf.shape, dtype=leaf.dtype, device=leaf.device)
            if (kept := self.memory_of(total)) != total:
                specs["observation"][kept] = Unbounded(leaf.shape, dtype=leaf.dtype, device=leaf.device)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        specs = self.zeros
        lead = tensordict_reset.batch_size[: tensordict_reset.ndim - specs.ndim]
        for key, total in zip(self.in_keys or (), self.out_keys or (), strict=True):
            write(tensordict_reset, total, specs[key].zero(lead))
            if total in self._overwritten:
                write(tensordict_reset, self.memory_of(total), specs[key].zero(lead))
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key, total in zip(self.in_keys or (), self.out_keys or (), strict=True):
            kept = self.memory_of(total) if self._overwritten else total
            reward, before = fetch(next_tensordict, key), fetch(tensordict, kept)
            made = reward.clone() if before is None else before + reward
            write(next_tensordict, total, made)
            if kept != total:
                write(next_tensordict, kept, made.clone())
        return next_tensordict

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Adds up the rewards of stored data ``[*B, T]`` along time; they must be of one episode each."""
        for key, total in zip(*self._keys(), strict=True):
            reward = fetch(tensordict, key)
            where, at = (key, total) if reward is not None else (under("next", key), under("next", total))
            reward = fetch(tensordict, where)
            if reward is None:
                raise self.no_entry(key, tensordict.keys(True, True))
            tensordict.set(at, reward.cumsum(max(tensordict.ndim - 1, 0)))
        return tensordict


class RewardClipping(Transform):
    """Cuts rewards to ``[clamp_min, clamp_max]``; those of whole numbers become floating where a limit is.

    Args:
        clamp_min: the least reward; no such limit when left out.
        clamp_max: the greatest reward.
        in_keys: rewards; all of the env's when left out.
        out_keys: where the results go.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(), RewardClipping(-0.1, 0.1))
    >>> env.rollout(2)["next", "reward"].squeeze(-1)
    tensor([0.1000, 0.1000])
    """

    on: ClassVar[Kind] = "reward"
    pure: ClassVar[bool] = True

    def __init__(
        self,
        clamp_min: float | Tensor | None = None,
        clamp_max: float | Tensor | None = None,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys)
        if clamp_min is None and clamp_max is None:
            raise SpecTypeError("RewardClipping: give clamp_min, clamp_max or both")
        if clamp_min is not None and clamp_max is not None and bool((torch.as_tensor(clamp_min) > clamp_max).any()):
            raise SpecError(f"RewardClipping: clamp_min must not be above clamp_max, got {clamp_min} and {clamp_max}")
        self.clamp_min: Tensor | None
        self.clamp_max: Tensor | None
        self.register_buffer("clamp_min", None if clamp_min is None else torch.as_tensor(clamp_min))
        self.register_buffer("clamp_max", None if clamp_max is None else torch.as_tensor(clamp_max))

    def _dtype(self, given: torch.dtype) -> torch.dtype:
        """Of the results: that of the rewards, or where they are whole and a limit is not, that of the limit."""
        limits = [limit.dtype for limit in (self.clamp_min, self.clamp_max) if limit is not None]
        floating = [dtype for dtype in limits if dtype.is_floating_point]
        return given if given.is_floating_point or given == torch.bool or not floating else floating[0]

    def _apply_transform(self, obs: Tensor) -> Tensor:
        dtype = self._dtype(obs.dtype)
        return obs.to(dtype).clamp(*limits_in(self, dtype, self.clamp_min, self.clamp_max)).to(dtype)

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """The spec between the limits.

        Raises:
            SpecTypeError: the rewards are flags.
            SpecError: they are whole numbers, and none lies between the limits.
        """
        if isinstance(spec, Stacked):
            return super().derive(spec)
        need_values(self, self._dtype(spec.dtype), self.clamp_min, self.clamp_max)
        return between(spec, self._apply_transform)


class RewardScaling(Transform):
    """Multiplies rewards with ``scale`` and adds ``loc``; or with ``standard_normal`` takes ``loc`` away and divides.

    Args:
        loc: what is added.
        scale: the factor, at least 1e-6.
        in_keys: rewards; all of the env's when left out.
        out_keys: where the results go.
        standard_normal: ``(reward - loc) / scale`` instead of ``reward * scale + loc``.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(), RewardScaling(loc=1.0, scale=2.0))
    >>> env.rollout(2)["next", "reward"].squeeze(-1)
    tensor([3., 3.])
    """

    on: ClassVar[Kind] = "reward"
    pure: ClassVar[bool] = True
    monotone: ClassVar[bool] = True

    def __init__(
        self,
        loc: float | Tensor,
        scale: float | Tensor,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        standard_normal: bool = False,
    ) -> None:
        super().__init__(in_keys, out_keys)
        for name, value in (("loc", loc), ("scale", scale)):
            if not isinstance(value, (int, float, Tensor)):
                raise SpecTypeError(f"RewardScaling: {name} must be a number, got {value!r}")
        self.loc: Tensor
        self.scale: Tensor
        self.register_buffer("loc", torch.as_tensor(loc))
        self.register_buffer("scale", torch.as_tensor(scale).clamp_min(1e-6))
        self.standard_normal = bool(standard_normal)

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return (obs - self.loc) / self.scale if self.standard_normal else obs * self.scale + self.loc


class BinarizeReward(Transform):
    """1 for rewards above zero, else 0; int8.

    Args:
        in_keys: rewards; all of the env's when left out.
        out_keys: where the results go.

    >>> TransformedEnv(marlenv.testing.CountingEnv(), BinarizeReward()).rollout(1)["next", "reward"]
    tensor([[1]], dtype=torch.int8)
    """

    on: ClassVar[Kind] = "reward"
    pure: ClassVar[bool] = True

    def __init__(self, in_keys: Sequence[NestedKey] | None = None, out_keys: Sequence[NestedKey] | None = None) -> None:
        super().__init__(in_keys, out_keys)

    def _apply_transform(self, obs: Tensor) -> Tensor:
        if obs.shape[-1:] != (1,):
            raise ShapeError(f"BinarizeReward: rewards must end with a dimension of size 1, got {list(obs.shape)}")
        return (obs > 0).to(torch.int8)

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """0 or 1."""
        if isinstance(spec, Stacked):
            return super().derive(spec)
        self._apply_transform(spec.zero())
        return Binary(1, spec.shape, device=spec.device, dtype=torch.int8)


class LineariseRewards(Transform):
    """One reward of several: their weighted sum; ``[*B, n]`` becomes ``[*B, 1]``.

    Args:
        in_keys: rewards.
        out_keys: where the results go.
        weights: one per reward; all 1 when left out.

    >>> one = LineariseRewards(["reward"], weights=[1.0, 10.0])
    >>> one(TensorDict({"reward": torch.tensor([2.0, 3.0])}))["reward"]
    tensor([32.])
    """

    on: ClassVar[Kind] = "reward"
    pure: ClassVar[bool] = True

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None,
        out_keys: Sequence[NestedKey] | None = None,
        *,
        weights: Sequence[float] | Tensor | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys)
        made = None if weights is None else torch.as_tensor(weights)
        if made is not None and made.ndim > 1:
            raise ShapeError(f"LineariseRewards: weights must be one number per reward, got {list(made.shape)}")
        self.weights: Tensor | None
        self.register_buffer("weights", made)

    def _apply_transform(self, obs: Tensor) -> Tensor:
        if self.weights is None:
            return obs.sum(-1, keepdim=True)
        if obs.shape[-1] != self.weights.numel():
            raise ShapeError(f"LineariseRewards: {self.weights.numel()} weights, but {obs.shape[-1]} rewards")
        return (self.weights * obs).sum(-1, keepdim=True)

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """The sum of the bounds.

        Raises:
            ShapeError: there are not as many weights as rewards.
        """
        if not isinstance(spec, Bounded):
            return super().derive(spec)
        self._apply_transform(spec.zero())
        a, b = (end if self.weights is None else self.weights * end for end in spec.space)
        least, most = torch.minimum(a, b).sum(-1, True), torch.maximum(a, b).sum(-1, True)
        return Bounded(least, most, least.shape, device=spec.device, dtype=least.dtype)


class TargetReturn(Transform):
    """The return that an agent is asked for: a number after a reset, from which rewards are taken away.

    Writes ``target_return`` beside every reward.

    Args:
        target_return: what is asked for: one number, or a tensor that broadcasts to the shape of a reward.
        mode: ``"reduce"`` takes the rewards away, ``"constant"`` does not.
        in_keys: rewards; all of the env's when left out.
        out_keys: where the targets go.
        reset_key: TorchRL's argument; the env knows which flags govern an entry.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(), TargetReturn(10.0))
    >>> env.rollout(3)["target_return"].squeeze(-1)
    tensor([10.,  9.,  8.])
    """

    on: ClassVar[Kind] = "reward"
    one_for_each: ClassVar[bool] = True

    def __init__(
        self,
        target_return: float,
        mode: Literal["reduce", "constant"] = "reduce",
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        reset_key: NestedKey | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys)
        if mode not in ("reduce", "constant"):
            raise SpecError(f"TargetReturn: mode must be 'reduce' or 'constant', got {mode!r}")
        if not isinstance(target_return, (int, float, Tensor)):
            raise SpecTypeError(f"TargetReturn: target_return must be a number, got {target_return!r}")
        self.target_return, self.mode = target_return, mode

    def default_out_keys(self, in_keys: list[NestedKey]) -> list[NestedKey]:
        """``target_return`` beside every reward."""
        keys = [beside(key, "target_return") for key in in_keys]
        if len(set(keys)) < len(keys):
            raise SpecError(f"TargetReturn: {in_keys} stand side by side; name out_keys")
        return keys

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the targets."""
        self.targets = {}
        for key, target in zip(self.in_keys or (), self.out_keys or (), strict=True):
            found = next((specs[kind][key] for kind in ("reward", "observation", "done") if key in specs[kind]), None)
            if found is None:
                raise self.no_entry(key, specs["reward"].keys(True, True), "the rewards are")
            if not isinstance(found, Stacked):
                self._check_shape(key, concrete(found.shape))
            dtype = found.dtype if found.dtype.is_floating_point else torch.get_default_dtype()
            for where in {target, self.memory_of(target)}:
                specs["observation"][where] = Unbounded(found.shape, dtype=dtype, device=found.device)
            self.targets[target] = specs["observation"][target].clone()

    def _check_shape(self, key: NestedKey, shape: Size) -> None:
        """Raises unless what is asked for is one number, or broadcasts to the shape of a reward."""
        given = torch.as_tensor(self.target_return).shape
        try:
            fits = torch.broadcast_shapes(shape, given) == shape
        except RuntimeError:
            fits = False
        if not fits:
            raise ShapeError(
                f"TargetReturn: target_return must be one number, or broadcast to the shape of {key!r}, "
                f"{list(shape)}; got {list(given)}"
            )

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        lead = tensordict_reset.batch_size[: tensordict_reset.ndim - len(self.container.batch_size)]
        for target, spec in self.targets.items():
            for where in {target, self.memory_of(target)}:
                asked = torch.as_tensor(self.target_return, dtype=spec.dtype, device=spec.device)
                write(tensordict_reset, where, spec.zero(lead) + asked)
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key, target in zip(self.in_keys or (), self.out_keys or (), strict=True):
            reward, before = fetch(next_tensordict, key), fetch(tensordict, self.memory_of(target))
            if before is None:
                raise KeyMissing(
                    f"TargetReturn: no entry {target!r} in the data; start from env.reset(), and hand on what it gives"
                )
            for where in {target, self.memory_of(target)}:
                write(next_tensordict, where, before - reward if self.mode == "reduce" else before.clone())
        return next_tensordict

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Not meaningful: what is asked for stands in stored data."""
        raise Unsupported("TargetReturn: works in an env only; stored data keep the targets")
