"""Parallel games written for tests, on PettingZoo's real base class: early deaths, late spawns, silent leavers,
infos."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class ParallelGame(ParallelEnv):
    """Two wolves and one sheep on a line; strict about whose actions it takes.

    Args:
        terminate: agent -> step at which it terminates.
        truncate: agent -> step at which it is truncated.
        spawn: agent -> step at which it appears (0: at the reset).
        vanish: agent -> step from which it is gone without a flag.
        masked: whether infos say which actions are legal.
    """

    metadata = {"name": "parallel_game"}  # noqa: RUF012

    def __init__(
        self,
        terminate: dict[str, int] | None = None,
        truncate: dict[str, int] | None = None,
        spawn: dict[str, int] | None = None,
        vanish: dict[str, int] | None = None,
        masked: bool = False,
    ) -> None:
        self.possible_agents = ["wolf_0", "wolf_1", "sheep_0"]
        self.ends = ({}, {}) if terminate is None and truncate is None else (terminate or {}, truncate or {})
        self.spawn, self.vanish, self.masked = spawn or {}, vanish or {}, masked
        self._obs = {
            a: spaces.Box(-1, 1, (4 if a.startswith("wolf") else 3,), np.float32) for a in self.possible_agents
        }
        self._act = {a: spaces.Discrete(3 if a.startswith("wolf") else 5) for a in self.possible_agents}
        self._rng = np.random.default_rng(0)

    def observation_space(self, agent: str) -> Any:
        return self._obs[agent]

    def action_space(self, agent: str) -> Any:
        return self._act[agent]

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.t = 0
        self.agents = [a for a in self.possible_agents if self.spawn.get(a, 0) == 0]
        return self._look(self.agents), self._infos(self.agents)

    def step(self, actions: dict[str, Any]) -> Any:
        if set(actions) != set(self.agents):
            raise ValueError(f"actions for {sorted(actions)}, but {sorted(self.agents)} are here")
        self.t += 1
        live = [a for a in self.agents if self.t < self.vanish.get(a, 10**6)]
        live += [a for a in self.possible_agents if self.spawn.get(a, 0) == self.t]
        terminate, truncate = self.ends
        ended = {a: self.t >= terminate.get(a, 10**6) for a in live}
        cut = {a: self.t >= truncate.get(a, 10**6) for a in live}
        rewards = {a: float(actions.get(a, 0)) + 0.5 for a in live}
        answer = self._look(live), rewards, ended, cut, self._infos(live)
        self.agents = [a for a in live if not (ended[a] or cut[a])]
        return answer

    def state(self) -> np.ndarray:
        return np.array([self.t, len(self.agents)], dtype=np.float32)

    def _look(self, agents: list[str]) -> dict[str, np.ndarray]:
        return {a: self._rng.uniform(-1, 1, self._obs[a].shape).astype(np.float32) for a in agents}

    def _infos(self, agents: list[str]) -> dict[str, dict[str, Any]]:
        infos: dict[str, dict[str, Any]] = {a: {"energy": np.float32(self.t)} for a in agents}
        if self.masked:
            for a in agents:
                infos[a]["action_mask"] = (np.arange(self._act[a].n) <= self.t).astype(np.int8)
        return infos
