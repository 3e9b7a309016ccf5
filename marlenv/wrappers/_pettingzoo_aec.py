"""The turns of PettingZoo's AEC interface: who acts, the steps of the dead, and what everybody saw last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marlenv.wrappers._agent import AgentStep
from marlenv.wrappers._pettingzoo import OBS, PettingZooBase, frozen, mask_of
from marlenv.wrappers._turns import Result, TurnSimEnv


class AECTurns(PettingZooBase, TurnSimEnv):
    """An env around a PettingZoo ``AECEnv``. Abstract.

    The steps of dead agents (``step(None)``) are done inside: whoever is asked for an action is alive.
    """

    def sim_agents(self) -> list[str]:
        return list(self._env.agents)

    def sim_reset(self, seed: int | None) -> None:
        self._final: dict[str, AgentStep] = {}
        self._env.reset(seed=seed)

    def sim_acting(self) -> set[str]:
        sim = self._env
        agent = sim.agent_selection if sim.agents else None
        return set() if agent is None or sim.terminations[agent] or sim.truncations[agent] else {agent}

    def sim_play(self, actions: dict[str, Any]) -> Mapping[str, Result]:
        sim = self._env
        ((agent, action),) = actions.items()
        sim.step(self.to_sim(agent, action))
        there, rewards, terminated, truncated = sim.agents, sim.rewards, sim.terminations, sim.truncations
        ended = [a for a in self._board.living.union(there) if terminated.get(a) or truncated.get(a)]
        got = {a: (rewards.get(a, 0.0), terminated.get(a, False), truncated.get(a, False)) for a in {*there, *ended}}
        self._final.clear()
        self._final.update({a: self.sim_look(a) for a in ended})
        while ended and sim.agents and sim.agent_selection in ended:
            sim.step(None)
        return got

    def sim_look(self, agent: str) -> AgentStep:
        if agent in self._final:  # it has left the simulator; this is what it saw last
            return self._final[agent]
        seen, info = self._env.observe(agent), self._env.infos.get(agent)
        if self.observe_rule == "acting":  # it is shown again later, when the simulator may have written over it
            seen, info = frozen(seen), frozen(info)
        return AgentStep({OBS: seen}, action_mask=mask_of(seen, info), info=info)
