"""EnvPool's tasks by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from marlenv.envs.seeding import as_seed
from marlenv.errors import SpecError, SpecTypeError, UnknownName, nearest, whole
from marlenv.optional import need
from marlenv.options import naming_options
from marlenv.wrappers.envpool.options import check_options
from marlenv.wrappers.envpool.rows import PoolRows
from marlenv.wrappers.envpool.wrapper import MultiThreadedEnvWrapper


class MultiThreadedEnv(MultiThreadedEnvWrapper):
    """Envs of EnvPool's by their name, stepped by threads in C++: Atari, classic control, MuJoCo, ViZDoom and others.

    Args:
        num_workers: how many.
        env_name: as ``envpool.list_all_envs()`` has it; gymnasium's ``"ALE/"`` before it may stay.
        create_env_kwargs: options of the task, such as ``seed`` and ``max_episode_steps``.
        categorical_action_encoding: actions as numbers of choices, rather than one-hot.
        **options: those of :class:`MultiThreadedEnvWrapper`.

    >>> MultiThreadedEnv.libname  # MultiThreadedEnv(8, "CartPole-v1")
    'envpool'

    Source: EnvPool 1.2.5.
    """

    can_be_seeded: ClassVar[bool] = True

    def __init__(
        self,
        num_workers: int,
        env_name: str,
        *,
        create_env_kwargs: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._count = whole(type(self).__name__, "num_workers", num_workers, 1)
        if not isinstance(create_env_kwargs, (Mapping, type(None))):
            raise SpecTypeError(f"{type(self).__name__}: create_env_kwargs must be a dict, got {create_env_kwargs!r}")
        name = env_name.removeprefix("ALE/") if isinstance(env_name, str) else env_name
        self.env_name, self._task = name, dict(create_env_kwargs or {})
        super().__init__(**options)

    @classmethod
    def _task_names(cls) -> list[str]:
        return sorted(need("envpool", cls.__name__).list_all_envs())

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        name, known = self.env_name, self._task_names()
        if name not in known:
            raise UnknownName(f"{type(self).__name__}: EnvPool has no env {name!r}; {nearest(name, known)}")
        for ours, want in (("num_envs", self._count), ("batch_size", self._count), ("env_type", "gymnasium")):
            if self._task.pop(ours, want) != want:
                raise SpecError(
                    f"{type(self).__name__}: create_env_kwargs must not have another {ours!r} than {want!r}, which "
                    f"num_workers and the wrapper say; leave it out"
                )
        if "env_seed" in self._task:
            raise SpecError(
                f"{type(self).__name__}: create_env_kwargs must not have 'env_seed', with which set_seed would do "
                f"nothing; give 'seed', with which row i begins with seed + i"
            )
        if "seed" in self._task:
            self._task["seed"] = as_seed(type(self).__name__, self._task["seed"]) % 2**31

    def _build_env(self, env: Any = None) -> Any:
        pools = need("envpool", type(self).__name__)
        options, config = {"seed": 0, **self._task, "env_type": "gymnasium"}, pools.make_spec(self.env_name).config
        check_options(type(self).__name__, self.env_name, self._task, config._asdict())
        with naming_options(type(self).__name__, self._task, config._fields):
            if getattr(config, "max_num_players", 1) == 1 or self._count == 1:
                return pools.make(self.env_name, num_envs=self._count, **options)
            rows = range(self._count)  # with the seeds that the rows of one pool have
            return PoolRows(
                [pools.make(self.env_name, num_envs=1, **options | {"seed": options["seed"] + i}) for i in rows]
            )

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            self._task["seed"] = seed % 2**31
            self._env, self._began = self._build_env(), False
