"""An env of TorchRL as one of ours: groups, masks, checks, tournaments and transforms of ours work on it."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.envs.access import SIDE
from marlenv.interop.torchrl.specs import spec_from_torchrl
from marlenv.keys import beside
from marlenv.optional import need
from marlenv.tensordicts import shallow


class FromTorchRLEnv(EnvBase):
    """An env of TorchRL behind our interface; its data are those of the other env, not copies of them.

    Args:
        env: TorchRL's env.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(
            device=env.device, batch_size=env.batch_size, allow_done_after_reset=bool(env._allow_done_after_reset)
        )
        self.batch_locked = env.batch_locked
        envs = need("torchrl.envs", "from_torchrl")
        base = env.base_env if isinstance(env, envs.TransformedEnv) else env
        self.handles_partial_steps = isinstance(base, (envs.SerialEnv, envs.ParallelEnv))
        self.supports_set_state = env._supports_set_state
        self.inner = env
        if (group_map := _group_map(env)) is not None:
            self.group_map = group_map
        self._write_specs()

    def _write_specs(self) -> None:
        for kind in SIDE:
            spec = spec_from_torchrl(getattr(self.inner, f"full_{kind}_spec"))
            if kind == "action":
                self._unmask(spec)
            setattr(self, f"full_{kind}_spec", spec)

    def _unmask(self, spec: Any) -> None:
        """Drops the masks that TorchRL's env keeps in its specs where they stand in the data too."""
        for key, leaf in spec.items(True, True):
            if beside(key, "action_mask") in self.inner.full_observation_spec.keys(True, True):
                leaf.update_mask(None)

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        inner = self.inner
        if tensordict is not None:  # TorchRL's envs may take any state that they find for the one to start from
            state = inner.state_spec.keys(True, True) if kwargs.get("set_state") else ()
            tensordict = tensordict.select(*inner.reset_keys, *state, strict=False)
            tensordict = None if tensordict.is_empty() else tensordict
        return shallow(inner._reset(tensordict, **kwargs))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        following: TensorDictBase = self.inner.step(shallow(tensordict).exclude("next")).get("next")
        return following

    def _set_seed(self, seed: int | None) -> None:
        self.inner.set_seed(seed)

    def to(self, device: torch.device | str | int) -> FromTorchRLEnv:  # type: ignore[override]
        """Moves the env."""
        self.inner = self.inner.to(device)
        return super().to(device)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Closes TorchRL's env too."""
        if not self.inner.is_closed:
            self.inner.close(raise_if_closed=raise_if_closed)
        super().close(raise_if_closed=raise_if_closed)

    def __repr__(self) -> str:
        return f"from_torchrl({type(self.inner).__name__}, batch_size={list(self.batch_size)}, device={self.device})"


def _group_map(env: Any) -> Any:
    """The group map of an env, or of the env under its transforms, ours among them."""
    while env is not None and "group_map" not in env.__dict__:
        inside: dict[str, Any] = env.__dict__.get("_modules", {})
        ours = inside.get("inner")
        if isinstance(ours, EnvBase):
            return getattr(ours, "group_map", None)
        env = inside.get("base_env")
    return None if env is None else env.group_map
