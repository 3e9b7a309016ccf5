"""Transforms of where data live, and how long steps take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import SpecError, Unsupported
from marlenv.keys import NestedKey, level
from marlenv.specs import Composite, TensorSpec, Unbounded
from marlenv.specs.dtypes import usable_device
from marlenv.tensordicts import fetch, shallow
from marlenv.transforms.base import Kind, Transform
from marlenv.transforms.checks import is_text

if TYPE_CHECKING:
    from marlenv.envs import EnvBase

Keys = Sequence[NestedKey] | None


class DeviceCastTransform(Transform):
    """Gives data on another device than the env's, and moves what the env is told back.

    Args:
        device: of the outside.
        orig_device: of the env; the one that it says when left out.
        in_keys: what is moved; everything when no keys are given, and then the env says that it lives there.
        out_keys: where the results go.
        in_keys_inv: what is moved back.
        out_keys_inv: the same as the outside names them.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(device="cpu"), DeviceCastTransform("meta"))
    >>> env.device, env.reset()["observation"].device
    (device(type='meta'), device(type='meta'))
    """

    invertible: ClassVar[bool] = True
    takes_texts: ClassVar[bool] = True

    def __init__(
        self,
        device: torch.device | str | int,
        orig_device: torch.device | str | int | None = None,
        *,
        in_keys: Keys = None,
        out_keys: Keys = None,
        in_keys_inv: Keys = None,
        out_keys_inv: Keys = None,
    ) -> None:
        super().__init__(in_keys or (), out_keys, in_keys_inv, out_keys_inv)
        self.device = usable_device("DeviceCastTransform", device)
        self.orig_device = None if orig_device is None else torch.device(orig_device)
        self.whole = not in_keys and not in_keys_inv
        self.has_texts = False

    def join(self, env: EnvBase) -> None:
        """Learns where the env lives."""
        super().join(env)
        self.has_texts = any(is_text(spec) for spec in env.full_observation_spec.values(True, True))
        self.orig_device = env.device if env.device is not None else self.orig_device

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return obs.to(self.device, non_blocking=self.device.type == "cuda")

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        return state if self.orig_device is None else state.to(self.orig_device)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        if self.whole:
            claimed = self.has_texts and next_tensordict.device == self.device  # texts in it may claim none, or another
            return (_anywhere(next_tensordict) if claimed else next_tensordict).to(self.device)
        return super()._call(_anywhere(next_tensordict))

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict_reset)

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        return None if tensordict is None else self._inv_call(tensordict)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self.whole:
            return tensordict if self.orig_device is None else tensordict.to(self.orig_device)
        return super()._inv_call(_anywhere(tensordict))

    def known_before(self, tensordict: TensorDictBase, resetting: bool = False) -> TensorDictBase:
        """The data where the env lives."""
        return self._inv_call(shallow(tensordict))

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Moves stored data."""
        return tensordict.to(self.device) if self.whole else super().forward(_anywhere(tensordict))

    def transform_env_device(self, device: torch.device | None) -> torch.device | None:
        """The new device; none where only some entries are moved to it."""
        return self.device if self.whole else None

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """The spec on the other device."""
        return spec.to(self.device)

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Moves all specs, where all data are moved."""
        for kind, spec in specs.items():
            specs[kind] = spec.to(self.device) if self.whole else spec

    def __repr__(self) -> str:
        return f"DeviceCastTransform({str(self.device)!r})"


def _anywhere(td: TensorDictBase) -> TensorDictBase:
    """Data whose entries may live on different devices."""
    return td.copy().clear_device_() if td.device is not None else td


class PinMemoryTransform(Transform):
    """Puts data of the CPU into pinned memory, from where they are copied faster to a GPU; nothing without one."""

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        if not torch.cuda.is_available():
            return next_tensordict
        return next_tensordict.apply(lambda x: x.pin_memory() if x.is_cpu else x, filter_empty=False)

    forward = _call


class Timer(Transform):
    """Writes how long things took, in seconds: steps of the env, the policy, and resets.

    Args:
        out_keys: three names, for the step, the policy and the reset; ``time_step``, ``time_policy`` and ``time_reset``
            when left out.
        time_key: what they begin with.

    >>> out = TransformedEnv(marlenv.testing.CountingEnv(), Timer()).rollout(2)
    >>> bool((out["next", "time_step"] > 0).all()), out["next", "time_reset"]
    (True, tensor([0., 0.]))
    """

    def __init__(self, out_keys: Keys = None, time_key: str = "time") -> None:
        names: list[NestedKey] = (
            [f"{time_key}_{what}" for what in ("step", "policy", "reset")] if out_keys is None else list(out_keys)
        )
        if len(names) != 3:
            raise SpecError(f"Timer: out_keys must be three, for step, policy and reset, got {names}")
        super().__init__()
        self.out_keys = names
        self.told_at = self.answered_at = self.reset_at = 0.0

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the times, one per row (or agent, where the key is nested)."""
        for key in self.out_keys or ():
            node: Any = specs["observation"][level(key)] if level(key) else specs["observation"]
            node[key if isinstance(key, str) else key[-1]] = Unbounded(node.shape, device=node.device)

    def _write(self, td: TensorDictBase, **seconds: float) -> TensorDictBase:
        for name, key in zip(("step", "policy", "reset"), self.out_keys or (), strict=True):
            if name in seconds:
                node = fetch(td, level(key)) if level(key) else td
                value = torch.full(tuple(node.batch_size), seconds[name], device=td.device)
                td.set(key, value)
        return td

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        self.reset_at = self.told_at = time.perf_counter()
        return tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        self.answered_at = time.perf_counter()
        return self._write(tensordict_reset, step=0.0, policy=0.0, reset=self.answered_at - self.reset_at)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.told_at = time.perf_counter()
        return tensordict

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        now, policy = time.perf_counter(), max(0.0, self.told_at - self.answered_at)
        self.answered_at = now
        return self._write(next_tensordict, step=now - self.told_at, policy=policy, reset=0.0)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Not meaningful: it measures an env."""
        raise Unsupported("Timer: works in an env only; stored data keep their times")
