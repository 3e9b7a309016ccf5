"""Procgen's games by their names."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from marlenv.envs.seeding import as_seed
from marlenv.errors import UnknownName, nearest, whole
from marlenv.optional import need
from marlenv.wrappers.procgen.wrapper import ProcgenWrapper


class ProcgenEnv(ProcgenWrapper):
    """A game of Procgen by its name.

    Args:
        env_name: such as ``"coinrun"``.
        num_envs: how many are played at once.
        seed: of levels and of what happens in them.
        **options: those of :class:`ProcgenWrapper`; all others go to Procgen: ``distribution_mode``, ``start_level``,
            ``num_levels``, ``use_backgrounds`` and the like.

    Raises:
        UnknownName: there is no such game; names the nearest.

    >>> ProcgenEnv.libname  # ProcgenEnv("coinrun", num_envs=8, distribution_mode="easy")
    'procgen'

    Source: procgen2 0.10.7; Cobbe et al. 2019, https://arxiv.org/abs/1912.01588.
    """

    can_be_seeded: ClassVar[bool] = True

    def __init__(self, env_name: str, *, num_envs: int = 1, seed: int = 0, **options: Any) -> None:
        whole(type(self).__name__, "num_envs", num_envs, 1)
        self.env_name, self._count, self._seed = env_name, num_envs, as_seed(type(self).__name__, seed)
        self._task: dict[str, Any] = {}
        super().__init__(**options)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        known = self._task_names()
        if self.env_name not in known:
            raise UnknownName(
                f"{type(self).__name__}: Procgen has no game {self.env_name!r}; {nearest(self.env_name, known)}"
            )
        modes = list(need("procgen.env", type(self).__name__).DISTRIBUTION_MODE_DICT)
        if (mode := kwargs.get("distribution_mode", modes[0])) not in modes:
            raise UnknownName(f"{type(self).__name__}: no distribution_mode is called {mode!r}; {nearest(mode, modes)}")

    def _build_env(self, **task: Any) -> Any:  # type: ignore[override]
        self._task = task
        make = need("procgen", type(self).__name__).ProcgenGym3Env
        return make(num=self._count, env_name=self.env_name, rand_seed=self._seed % 2**31, **task)

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            self._seed, old = seed, self._env
            self._env = self._build_env(**self._task)
            old.close()
            self._drawn, self._fresh = self._look()[1], np.ones(self._count, dtype=bool)
            self._began = False
