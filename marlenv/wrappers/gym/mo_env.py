"""Envs of MO-Gymnasium, whose rewards are vectors (https://mo-gymnasium.farama.org, tested with 1.3.2)."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from marlenv.errors import SpecTypeError
from marlenv.optional import need
from marlenv.specs import TensorSpec
from marlenv.wrappers._attributes import ClassValue
from marlenv.wrappers._spaces import spec_of
from marlenv.wrappers.gym.env import GymEnv
from marlenv.wrappers.gym.wrapper import GymWrapper


class MOGymWrapper(GymWrapper):
    """An env of MO-Gymnasium: a :class:`GymWrapper` whose reward has an entry for each aim, float32 ``[*B, k]``.

    Args:
        env: the env, or the vector.
        categorical_action_encoding: choices as numbers, rather than one-hot.
        **options: those of :class:`GymWrapper`.

    >>> MOGymWrapper.libname
    'mo-gymnasium'

    Source: MO-Gymnasium 1.3.2.
    """

    libname: ClassVar[str] = "mo-gymnasium"
    git_url: ClassVar[str] = "https://github.com/Farama-Foundation/MO-Gymnasium"
    _otherwise: ClassVar[str] = "GymWrapper takes rewards of one number"

    @ClassValue
    def lib(cls) -> Any:  # noqa: N805
        """MO-Gymnasium."""
        return need("mo_gymnasium", cls.__name__)

    @classmethod
    def _task_names(cls) -> list[str]:
        need("mo_gymnasium", cls.__name__)
        registry = need("gymnasium", cls.__name__).envs.registration.registry
        return sorted(name for name, spec in registry.items() if "mo_gymnasium" in str(spec.entry_point))

    def _reward_of_one(self, env: Any) -> TensorSpec:
        space = getattr(env, "reward_space", None)
        space = getattr(env.unwrapped, "reward_space", None) if space is None else space
        if space is None:
            raise SpecTypeError(
                f"{type(self).__name__}: env must be one of MO-Gymnasium, got {type(env.unwrapped).__name__}, which "
                f"has no reward_space; GymWrapper takes envs with one reward"
            )
        return spec_of(space)


class MOGymEnv(GymEnv, MOGymWrapper):
    """An env of MO-Gymnasium by its name.

    Args:
        env_name: such as ``"minecart-v0"``.
        **options: those of :class:`GymEnv`.

    >>> MOGymEnv.libname
    'mo-gymnasium'

    Source: MO-Gymnasium 1.3.2.
    """

    _modes: ClassVar[tuple[str, ...]] = ("sync", "async")

    def _build_vector(self, library: Any, count: int, mode: str, task: dict[str, Any]) -> Any:
        vectors = library.wrappers.vector  # gymnasium's have room for a reward of one number
        kind = vectors.MOAsyncVectorEnv if mode == "async" else vectors.MOSyncVectorEnv
        return kind([partial(library.make, self.env_name, **task) for _ in range(count)])
