"""``GymEnv``: envs of gym and gymnasium by their names.

https://gymnasium.farama.org, tested with gymnasium 1.2.2, gym 0.26.2, 0.25.2 and 0.21.0.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType
from typing import Any, ClassVar

from marlenv.errors import SpecError, UnknownName, nearest, whole
from marlenv.optional import need
from marlenv.wrappers._backend import set_gym_backend
from marlenv.wrappers.gym.spaces import version
from marlenv.wrappers.gym.vectors import keeping_finals
from marlenv.wrappers.gym.wrapper import GymWrapper


class GymEnv(GymWrapper):
    """An env of gym or gymnasium by its name, or a vector of such envs.

    Args:
        env_name: as the library has it, such as ``"CartPole-v1"`` or ``"ALE/Pong-v5"``.
        backend: the library to make it with, as :func:`set_gym_backend` takes it.
        num_envs: that many in one vector; a single one when left out, or 0.
        **options: those of :class:`GymWrapper`; all others go to the library's ``make``, or ``make_vec``.

    Raises:
        UnknownName: there is no env of that name; names the nearest.
        MissingExtra: the module before the colon of ``"module:name"``, or Atari's ``ale_py``, is not installed.

    >>> env = GymEnv("Pendulum-v1", g=9.0, device="cpu")
    >>> env.rollout(3)["next", "reward"].shape
    torch.Size([3, 1])

    Source: gymnasium 1.2.2.
    """

    _modes: ClassVar[tuple[str, ...]] = ("sync", "async", "vector_entry_point")
    """How rows of a vector can be stepped."""

    def __init__(
        self,
        env_name: str,
        *,
        num_envs: int | None = None,
        backend: str | ModuleType | Callable[[], ModuleType] | None = None,
        **options: Any,
    ) -> None:
        self.env_name, self._count = env_name, None
        if num_envs not in (None, 0):
            self._count = whole(type(self).__name__, "num_envs", num_envs, 0)
        with nullcontext() if backend is None else set_gym_backend(backend):
            super().__init__(**options)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        who, name = type(self).__name__, self.env_name
        if isinstance(name, str) and ":" in name:
            module, _, name = name.partition(":")  # which registers the env
            need(module, who)
        known = self._task_names()
        if name not in known and isinstance(name, str) and (name.startswith("ALE/") or "NoFrameskip" in name):
            need("ale_py", who)  # which registers Atari's games
            known = self._task_names()
        if name not in known:
            raise UnknownName(f"{who}: {self.lib.__name__} has no env {name!r}; {nearest(name, known)}")
        if (mode := kwargs.get("vectorization_mode", "sync")) not in self._modes:
            raise UnknownName(f"{who}: there is no vectorization_mode {mode!r}; {nearest(mode, self._modes)}")
        if self.from_pixels and (mode := kwargs.get("render_mode", "rgb_array")) != "rgb_array":
            raise SpecError(f"{who}: from_pixels=True needs render_mode='rgb_array', got {mode!r}; leave it out")

    def _build_env(self, **task: Any) -> Any:  # type: ignore[override]
        library = self.lib
        if self.from_pixels and self._is_from(library, (0, 26)):
            task.setdefault("render_mode", "rgb_array")
        if self._is_from(library, (0, 24)) and task.get("vectorization_mode") != "vector_entry_point":
            task.setdefault("disable_env_checker", True)  # gym's fails with NumPy 2
        if self._count is None:
            return library.make(self.env_name, **task)
        mode = task.pop("vectorization_mode", "sync")  # vectors with one generator for all rows are no choice
        return self._build_vector(library, self._count, mode, task)

    def _build_vector(self, library: Any, count: int, mode: str, task: dict[str, Any]) -> Any:
        if hasattr(library, "make_vec"):
            return library.make_vec(self.env_name, num_envs=count, vectorization_mode=mode, **task)
        task.setdefault("asynchronous", mode == "async")
        if version() < (0, 22):  # whose vectors start rows anew and forget what they observed last
            task["wrappers"] = [*listed(task.get("wrappers")), keeping_finals(library)]
        return library.vector.make(self.env_name, num_envs=count, **task)

    def _is_from(self, library: Any, first: tuple[int, ...]) -> bool:
        return library.__name__ == "gymnasium" or version() >= first


def listed(value: Any) -> list[Any]:
    """The wrappers of single envs that were asked for: one, several or None."""
    return [] if value is None else [value] if callable(value) else list(value)
