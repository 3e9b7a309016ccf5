"""Simulators that step all their agents at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from tensordict import TensorDictBase

from marlenv.wrappers._agent import AgentStep
from marlenv.wrappers._agents import AgentsEnv


class ParallelSimEnv(AgentsEnv):
    """An env around a simulator that steps all its agents at once. Abstract.

    A wrapper writes ``_build_env``, ``agent_specs``, :meth:`sim_reset` and :meth:`sim_step`. Actions reach the simulator
    only for agents that are alive.
    """

    @abstractmethod
    def sim_reset(self, seed: int | None) -> Mapping[str, AgentStep]:
        """Starts an episode; returns what every agent that is there sees."""

    @abstractmethod
    def sim_step(self, actions: dict[str, Any]) -> Mapping[str, AgentStep]:
        """Plays one action per living agent; an agent that is left out of the answer is gone."""

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        self._board.open()
        return self._emit(self.sim_reset(self._take_seed()), None, first=True)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        actions = self._played(tensordict, self._board.living)
        self._board.steps += 1
        return self._emit(self.sim_step(actions) if actions else {}, None, first=False)
