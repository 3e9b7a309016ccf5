"""Procgen's games by their names."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from marlenv.envs.seeding import as_seed
from marlenv.errors import SpecError, UnknownName, nearest, whole
from marlenv.optional import need
from marlenv.wrappers.procgen.wrapper import ProcgenWrapper

EXTREME = ("chaser", "dodgeball", "leaper", "starpilot")
MEMORY = ("caveflyer", "dodgeball", "heist", "jumper", "maze", "miner")
"""Which games have levels of these kinds: Procgen ends the whole program where one is asked for another."""
NUMBERS = ("num_levels", "start_level", "num_threads", "debug_mode")


class ProcgenEnv(ProcgenWrapper):
    """A game of Procgen by its name.

    Args:
        env_name: such as ``"coinrun"``.
        num_envs: how many are played at once.
        seed: of levels and of what happens in them.
        **options: those of :class:`ProcgenWrapper`; all others go to Procgen: ``distribution_mode``, ``start_level``,
            ``num_levels``, ``use_backgrounds`` and the like.

    Raises:
        UnknownName: there is no such game, or no such ``distribution_mode``; names the nearest.
        SpecError: the game has no levels of that ``distribution_mode``, or a number is out of range.

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
        who, game, known = type(self).__name__, self.env_name, self._task_names()
        if game not in known:
            raise UnknownName(f"{who}: Procgen has no game {game!r}; {nearest(game, known)}")
        table = need("procgen.env", who)
        modes = list(table.DISTRIBUTION_MODE_DICT)
        if (mode := kwargs.get("distribution_mode", "hard")) not in modes:
            raise UnknownName(f"{who}: no distribution_mode is called {mode!r}; {nearest(mode, modes)}")
        some = {"extreme": EXTREME, "memory": MEMORY, "exploration": table.EXPLORATION_LEVEL_SEEDS}
        if game not in some.get(mode, known):
            raise SpecError(f"{who}: {game!r} has no levels of distribution_mode {mode!r}; {sorted(some[mode])} have")
        for name in NUMBERS:
            whole(who, name, kwargs.get(name, 0), 0, 2**31 - 1)
        if mode == "exploration" and (odd := {"num_levels", "start_level"} & {*kwargs}):
            raise SpecError(f"{who}: distribution_mode 'exploration' has one level, leave out {sorted(odd)}")

    def _build_env(self, **task: Any) -> Any:  # type: ignore[override]
        self._task = {name: int(value) if name in NUMBERS else value for name, value in task.items()}
        make = need("procgen", type(self).__name__).ProcgenGym3Env
        return make(num=self._count, env_name=self.env_name, rand_seed=self._seed % 2**31, **self._task)

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            self._seed, old = seed, self._env
            self._env = self._build_env(**self._task)
            old.close()
            self._drawn, self._fresh = self._look()[1], np.ones(self._count, dtype=bool)
            self._began = False
