"""A turn-based game written for tests, on PettingZoo's real base class: early deaths, late spawns, silent leavers,
counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv


class TurnGame(AECEnv):
    """Two wolves and one sheep move in turn; strict about dead steps; writes every observation into one buffer.

    Args:
        terminate: agent -> turn (counted over all agents) after which it is terminated.
        truncate: agent -> turn after which it is truncated.
        spawn: agent -> turn after which it appears (0: at the reset).
        vanish: agent -> turn after which it is gone without a flag.
        late_info: turn from which infos hold another number.
    """

    metadata = {"name": "turn_game", "is_parallelizable": False}  # noqa: RUF012

    def __init__(
        self,
        terminate: Any = None,
        truncate: Any = None,
        spawn: Any = None,
        vanish: Any = None,
        late_info: int | None = None,
    ) -> None:
        super().__init__()
        self.possible_agents = ["wolf_0", "wolf_1", "sheep_0"]
        self.plans = {
            "terminate": terminate or {},
            "truncate": truncate or {},
            "spawn": spawn or {},
            "vanish": vanish or {},
        }
        self.late_info = late_info
        self.looked: list[str] = []
        self.buffer = {a: np.zeros(3, np.float32) for a in self.possible_agents}

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-1e6, 1e6, (3,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3, start=1)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.t = 0
        self.looks = dict.fromkeys(self.possible_agents, 0)
        self.agents = [a for a in self.possible_agents if self.plans["spawn"].get(a, 0) == 0]
        self._start(self.agents)
        self.agent_selection = self.agents[0]

    def _start(self, agents: list[str], clear: bool = True) -> None:
        if clear:
            self.rewards, self._cumulative_rewards, self.terminations, self.truncations, self.infos = {}, {}, {}, {}, {}
        for a in agents:
            self.rewards[a] = self._cumulative_rewards[a] = 0.0
            self.terminations[a] = self.truncations[a] = False
            self.infos[a] = {"turn": np.float32(self.t), "name": a}

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if action is None or not 1 <= int(action) <= 3:
            raise ValueError(f"{agent} played {action}")
        self.t += 1
        at = self.agents.index(agent)
        order = self.agents[at + 1 :] + self.agents[: at + 1]
        for a in self.agents:
            self.rewards[a] = float(action) if a == agent else -0.5
            self.infos[a]["turn"] = np.float32(self.t)
            if self.late_info is not None and self.t >= self.late_info:
                self.infos[a]["late"] = 2.0 * self.t
        for a in [a for a in self.agents if self.plans["vanish"].get(a, 10**6) <= self.t]:
            self.agents.remove(a)
            for table in (self.rewards, self.terminations, self.truncations, self.infos, self._cumulative_rewards):
                del table[a]
        for a in self.agents:
            self.terminations[a] = self.t >= self.plans["terminate"].get(a, 10**6)
            self.truncations[a] = not self.terminations[a] and self.t >= self.plans["truncate"].get(a, 10**6)
        born = [a for a in self.possible_agents if self.plans["spawn"].get(a, 0) == self.t]
        self._start(born, clear=False)
        self.agents += born
        following = [
            a for a in (*order, *born) if a in self.agents and not (self.terminations[a] or self.truncations[a])
        ]
        following += [a for a in self.agents if a not in following]
        if following:
            self.agent_selection = following[0]
            self._deads_step_first()

    def observe(self, agent: str) -> Any:
        self.looked.append(agent)
        self.looks[agent] += 1
        self.buffer[agent][:] = (self.t, self.possible_agents.index(agent), self.looks[agent])
        return self.buffer[agent]

    def state(self) -> Any:
        return np.array([self.t, len(self.agents)], dtype=np.float32)
