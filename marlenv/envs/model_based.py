"""Envs whose dynamics are a learned model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import torch
from tensordict import TensorDictBase
from torch import nn

from marlenv.envs import access
from marlenv.envs.env import EnvBase
from marlenv.errors import SpecError
from marlenv.specs import Composite
from marlenv.tensordicts import separate


class ModelBasedEnvBase(EnvBase):
    """An env that steps a world model: a tensordict module from observations and actions to observations and rewards.

    Abstract: a subclass assigns specs and writes ``_reset``. Any batch size is taken. Done flags that the model does
    not give are False.

    Args:
        world_model: reads and writes the entries of the specs.
        params: handed to the model as ``params=``, when given.
        buffers: handed to the model as ``buffers=``.
        device: where the model and the data live.
        batch_size: empty when left out.
        run_type_checks: check every answer against its spec.
        allow_done_after_reset: allow flags that are True right after a reset.

    Source: Hafner et al. 2019, arXiv:1912.01603, for the use; the interface is TorchRL's.
    """

    batch_locked = False

    def __init__(
        self,
        world_model: nn.Module,
        params: Any = None,
        buffers: Any = None,
        device: torch.device | str | int | None = "cpu",
        batch_size: Iterable[int] | None = None,
        run_type_checks: bool = False,
        allow_done_after_reset: bool = False,
    ) -> None:
        super().__init__(
            device=device,
            batch_size=batch_size,
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.world_model = world_model.to(self.device)
        self.world_model_params = params
        self.world_model_buffers = buffers

    def set_specs_from_env(self, env: EnvBase) -> Self:
        """Takes over the specs of another env."""
        for kind in access.SIDE:
            access.assign(self, kind, access.family(env, kind).clone())
        return self

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        data = tensordict.copy()
        if self.world_model_params is not None:
            data = self.world_model(data, params=self.world_model_params, buffers=self.world_model_buffers)
        else:
            data = self.world_model(data)
        plan = self.plan
        out = data.select(*plan.observation_keys, *plan.done_keys, *plan.reward_keys, strict=False)
        values = {key: x for key, x in out.items(True, True) if isinstance(x, torch.Tensor)}
        held = [x for x in tensordict.values(True, True) if isinstance(x, torch.Tensor)]
        for (key, value), own in zip(values.items(), separate(values.values(), held), strict=True):
            if own is not value:  # a part of its input, or of another entry
                out.set(key, own)
        return out

    def _set_seed(self, seed: int | None) -> None:
        """The model draws its own randomness; there is nothing to seed."""


class DreamerEnv(ModelBasedEnvBase):
    """Imagination in a Dreamer world model: rollouts in latent space that never end by themselves.

    A reset starts from the latents that it is given, or from random ones.

    Args:
        world_model: from ``state``, ``belief`` and ``action`` to the next ``state``, ``belief`` and ``reward``.
        prior_shape: of the latent state.
        belief_shape: of the deterministic belief.
        obs_decoder: from latent data to observations, for :meth:`decode_obs` and ``DreamerDecoder``.
        device: where the model and the data live.
        batch_size: empty when left out.

    Source: Hafner et al. 2019, arXiv:1912.01603.
    """

    def __init__(
        self,
        world_model: nn.Module,
        prior_shape: tuple[int, ...],
        belief_shape: tuple[int, ...],
        obs_decoder: nn.Module | None = None,
        device: torch.device | str | int | None = "cpu",
        batch_size: Iterable[int] | None = None,
    ) -> None:
        super().__init__(world_model, device=device, batch_size=batch_size, allow_done_after_reset=True)
        self.obs_decoder = obs_decoder
        self.prior_shape = prior_shape
        self.belief_shape = belief_shape

    def set_specs_from_env(self, env: EnvBase) -> Self:
        """Takes over the specs of another env; ``state`` and ``belief`` of its observations become the state."""
        super().set_specs_from_env(env)
        observation = self.full_observation_spec
        if missing := [name for name in ("state", "belief") if name not in observation]:
            raise SpecError(
                f"DreamerEnv: the env must observe 'state' and 'belief', missing {missing}; it observes "
                f"{list(observation)}"
            )
        self.state_spec = Composite(
            state=observation["state"].clone(), belief=observation["belief"].clone(), shape=self.batch_size
        )
        return self

    def any_done(self, tensordict: TensorDictBase) -> bool:
        """False: imagination never ends."""
        return False

    def maybe_reset(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The data as it is: imagination never ends."""
        return tensordict

    def _reset(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        if tensordict is not None and all(key in tensordict.keys(True, True) for key in self.state_keys):
            return tensordict.exclude("next", *self.reset_keys)
        batch = self.batch_size if tensordict is None else tensordict.batch_size
        lead, rng = batch[: len(batch) - len(self.batch_size)], self.action_stream
        out = self.full_state_spec.rand(lead, rng=rng.rng(batch))
        rng.skip(1 << 20)
        observation = self.full_observation_spec.rand(lead, rng=rng.rng(batch))
        rng.skip(1 << 20)
        return self.rand_action(out.update(observation))

    def decode_obs(self, tensordict: TensorDictBase, compute_latents: bool = False) -> TensorDictBase:
        """The observations that latent data stand for."""
        if self.obs_decoder is None:
            raise SpecError("DreamerEnv.decode_obs: the env was made without an obs_decoder")
        if compute_latents:
            tensordict = self.world_model(tensordict)
        return self.obs_decoder(tensordict)
