"""Habitat's tasks, which are envs of gym (https://aihabitat.org).

Not run against the simulator, which has no build for the Python that marlenv is tested with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from marlenv.errors import SpecTypeError
from marlenv.optional import need
from marlenv.specs.dtypes import usable_device
from marlenv.wrappers._attributes import ClassValue
from marlenv.wrappers._backend import set_gym_backend
from marlenv.wrappers.gym.env import GymEnv, listed
from marlenv.wrappers.gym.outputs import LATE


class HabitatEnv(GymEnv):
    """A task of Habitat by its name: a :class:`GymEnv` whose pictures are drawn on the GPU of its data.

    Habitat's own limits of steps and seconds truncate. Not run against the real simulator: the tests play envs of gym
    that take what Habitat's take.

    Args:
        env_name: such as ``"HabitatRenderPick-v0"``.
        device: where the data live; Habitat draws on the same GPU, on the first one where this is none.
        override_options: more of Habitat's settings, such as ``"habitat.environment.max_episode_steps=100"``.
        **options: those of :class:`GymEnv`; all others go to the task.

    >>> HabitatEnv.libname  # HabitatEnv("HabitatRenderPick-v0", from_pixels=True)
    'habitat'

    Source: habitat-lab 0.3; torchrl 0.14.1 ``HabitatEnv``.
    """

    libname: ClassVar[str] = "habitat"
    git_url: ClassVar[str] = "https://github.com/facebookresearch/habitat-lab"

    @ClassValue
    def lib(cls) -> Any:  # noqa: N805
        """Gym, in which Habitat has registered its tasks."""
        need("habitat.gym", cls.__name__)
        return need("gym", cls.__name__)

    def __init__(
        self,
        env_name: str,
        *,
        device: torch.device | str | int | None = None,
        override_options: list[str] | None = None,
        **options: Any,
    ) -> None:
        who = type(self).__name__
        where = None if device is None else usable_device(who, device)
        if isinstance(override_options, str) or not isinstance(override_options, (Sequence, type(None))):
            raise SpecTypeError(f"{who}: override_options must be a list of settings, got {override_options!r}")
        gpu = 0 if where is None else where.index or 0
        asked = [
            f"habitat.simulator.habitat_sim_v0.gpu_device_id={gpu}",
            "habitat.simulator.concur_render=False",
            *(override_options or []),
        ]
        with set_gym_backend(lambda: type(self).lib):
            super().__init__(env_name, device=device, override_options=asked, **options)

    @classmethod
    def _task_names(cls) -> list[str]:
        with set_gym_backend(lambda: cls.lib):
            return [name for name in super()._task_names() if name.startswith("Habitat")]

    def _build_env(self, **task: Any) -> Any:  # type: ignore[override]
        tell = _telling_limits(self.lib)
        if self._count is None:
            return tell(super()._build_env(**task))
        return super()._build_env(wrappers=[tell, *listed(task.pop("wrappers", None))], **task)


def _telling_limits(library: Any) -> Any:
    """A wrapper of single envs of Habitat, whose infos tell that it was Habitat's limit that ended an episode, as those
    of gym's limits do.

    Args:
        library: gym, which is there only where it is used.
    """

    class TellingLimits(library.Wrapper):
        def step(self, action: Any) -> Any:
            obs, reward, done, info = self.env.step(action)
            return obs, reward, done, {**info, LATE: True} if done and _is_late(self.unwrapped) else info

    return TellingLimits


def _is_late(env: Any) -> bool:
    """Whether nothing but the limit has ended an episode: neither the task, nor a success, where that ends it."""
    game: Any = getattr(env, "_env", None)
    if not hasattr(game, "_past_limit") or not game._past_limit() or not game.task.is_episode_active:
        return False
    return not (getattr(env, "_end_on_success", False) and env._episode_success())
