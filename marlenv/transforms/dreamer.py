"""Transforms for learned world models."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import nn

from marlenv.envs import make_composite_from_td
from marlenv.envs.model_based import DreamerEnv
from marlenv.errors import SpecError
from marlenv.specs import Composite
from marlenv.transforms.base import Transform


class DreamerDecoder(Transform):
    """Adds decoded observations to the data of a :class:`~marlenv.DreamerEnv`, to look at what it imagines."""

    @property
    def decoder(self) -> nn.Module:
        """The decoder of the env."""
        env = self.container.base_env
        if not isinstance(env, DreamerEnv) or env.obs_decoder is None:
            raise SpecError(f"DreamerDecoder: needs a DreamerEnv made with an obs_decoder, got {type(env).__name__}")
        return env.obs_decoder

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return self.decoder(next_tensordict)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Adds what the decoder gives for zeros."""
        with torch.no_grad():
            decoded = make_composite_from_td(self.decoder(observation_spec.zero()), unsqueeze_null_shapes=False)
        for key, leaf in decoded.items(True, True):
            if key not in observation_spec:
                observation_spec[key] = leaf
        return observation_spec
