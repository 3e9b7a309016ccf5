"""Transforms for learned world models."""

from __future__ import annotations

from tensordict import TensorDictBase

from marlenv.envs.model_based import DreamerEnv
from marlenv.errors import SpecError
from marlenv.specs import Composite
from marlenv.transforms.base import Transform


class DreamerDecoder(Transform):
    """Adds decoded observations to the data of a :class:`~marlenv.DreamerEnv`, to look at what it imagines."""

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        env = self.container.base_env
        if not isinstance(env, DreamerEnv) or env.obs_decoder is None:
            raise SpecError(f"DreamerDecoder: needs a DreamerEnv made with an obs_decoder, got {type(env).__name__}")
        return env.obs_decoder(next_tensordict)  # type: ignore[no-any-return]

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """The specs as they are: decoded observations are for looking at."""
        return observation_spec
