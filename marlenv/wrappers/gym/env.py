"""``GymEnv``: envs of gym and gymnasium by their names.

https://gymnasium.farama.org, tested with gymnasium 1.2.2 and gym 0.26.2.
"""

from __future__ import annotations

from typing import Any

from marlenv.errors import UnknownName, nearest
from marlenv.wrappers._backend import gym_backend
from marlenv.wrappers.gym.spaces import version
from marlenv.wrappers.gym.wrapper import GymWrapper


class GymEnv(GymWrapper):
    """An env of gym or gymnasium by its name, or a vector of such envs.

    Args:
        env_name: as the library has it, such as ``"CartPole-v1"`` or ``"ALE/Pong-v5"``.
        num_envs: that many in one vector; a single one when left out.
        **options: those of :class:`GymWrapper`; all others go to the library's ``make``, or ``make_vec``.

    Raises:
        UnknownName: there is no env of that name; names the nearest.

    >>> env = GymEnv("Pendulum-v1", g=9.0, device="cpu")
    >>> env.rollout(3)["next", "reward"].shape
    torch.Size([3, 1])

    Source: gymnasium 1.2.2.
    """

    def __init__(self, env_name: str, *, num_envs: int | None = None, **options: Any) -> None:
        self.env_name, self._count = env_name, num_envs
        super().__init__(**options)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        known = self._task_names()
        if self.env_name not in known and ":" not in self.env_name:
            raise UnknownName(
                f"{type(self).__name__}: {gym_backend().__name__} has no env {self.env_name!r}; "
                f"{nearest(self.env_name, known)}"
            )

    def _build_env(self, **task: Any) -> Any:  # type: ignore[override]
        library = self.lib
        if self.from_pixels and self._renders_when_made(library):
            task.setdefault("render_mode", "rgb_array")
        if self._count is None:
            return library.make(self.env_name, **task)
        if hasattr(library, "make_vec"):
            mode = task.pop("vectorization_mode", "sync")  # vectors with one generator for all rows are no choice
            return library.make_vec(self.env_name, num_envs=self._count, vectorization_mode=mode, **task)
        return library.vector.make(self.env_name, num_envs=self._count, **task)

    def _renders_when_made(self, library: Any) -> bool:
        return library.__name__ == "gymnasium" or version() >= (0, 26)
