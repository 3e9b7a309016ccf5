"""PettingZoo's two interfaces, parallel and turn-based, as ``PettingZooWrapper`` plays them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from marlenv.wrappers._agent import AgentStep, frozen
from marlenv.wrappers._parallel import repeated
from marlenv.wrappers._turns import NOTHING, Result
from marlenv.wrappers.pettingzoo.answers import of_reset, of_step
from marlenv.wrappers.pettingzoo.bare import Bare
from marlenv.wrappers.pettingzoo.spaces import AgentSpaces


class Interface(Protocol):
    """What the wrapper asks of either."""

    spaces: AgentSpaces
    """Its agents'."""

    def reset(self, seed: int | None, told: Mapping[str, Any]) -> None:
        """Starts an episode.

        Args:
            seed: of the env.
            told: what else its ``reset`` is given; some envs take nothing else.
        """

    def agents(self) -> list[str]:
        """Who is there after a reset."""

    def acting(self) -> set[str]:
        """Who acts next."""

    def play(self, actions: dict[str, Any]) -> Mapping[str, Result]:
        """Plays actions; returns rewards and flags."""

    def look(self, agent: str) -> AgentStep:
        """What an agent sees."""


class ParallelInterface:
    """A ``pettingzoo.ParallelEnv``, whose agents act together.

    Args:
        sim: the env.
        spaces: what its agents see and do.
        times: how often actions are played.
    """

    def __init__(self, sim: Any, spaces: AgentSpaces, times: int) -> None:
        self._sim, self.spaces, self._times = sim, spaces, times
        self._steps: Mapping[str, AgentStep] = {}
        self.answered: tuple[Any, ...] | None = None
        """What the simulator has answered to the actions that are played next, where it was asked already."""

    def reset(self, seed: int | None, told: Mapping[str, Any]) -> None:
        self.answered = None
        observations, infos = of_reset(self.spaces.who, self._sim, self._sim.reset(seed=seed, **told))
        there = dict.fromkeys((*observations, *self._sim.agents))
        self._steps = {a: self.spaces.read(a, observations.get(a), infos.get(a)) for a in there}

    def agents(self) -> list[str]:
        return list(self._steps)

    def acting(self) -> set[str]:
        return {a for a, step in self._steps.items() if not (step.terminated or step.truncated)}

    def play(self, actions: dict[str, Any]) -> Mapping[str, Result]:
        times, once = self._times, self._step
        self._steps = (
            once(actions) if times == 1 else repeated(self.spaces.who, once, actions, times, self.spaces.specs)
        )
        return {a: (s.reward, s.terminated, s.truncated) for a, s in self._steps.items()}

    def look(self, agent: str) -> AgentStep:
        return self._steps[agent]

    def ask(self, actions: dict[str, Any]) -> tuple[Any, ...]:
        """What the simulator answers to actions: observations, rewards, two flags and infos, agent by agent."""
        spaces = self.spaces
        told = actions if spaces.as_they_are else {a: spaces.to_sim(a, x) for a, x in actions.items()}
        answer = self._sim.step(told)
        whole = type(answer) is tuple and len(answer) == 5  # what is in it is looked at where it is read
        return answer if whole else of_step(spaces.who, self._sim, answer)

    def all_there(self, agents: list[str]) -> bool:
        """Whether the simulator goes on with these agents, in their order."""
        return bool(self._sim.agents == agents)

    def _step(self, actions: dict[str, Any]) -> Mapping[str, AgentStep]:
        sim, spaces = self._sim, self.spaces
        answer, self.answered = self.answered or self.ask(actions), None
        observations, rewards, terminated, truncated, infos = of_step(spaces.who, sim, answer)
        steps = {}
        for a in dict.fromkeys((*observations, *sim.agents, *spaces.strangers(rewards, terminated, truncated))):
            flags = terminated.get(a, False), truncated.get(a, False)
            steps[a] = spaces.read(a, observations.get(a), infos.get(a), rewards.get(a, 0.0), *flags)
        return steps


class TurnsInterface:
    """A ``pettingzoo.AECEnv``, whose agents act in turn.

    The steps of dead agents (``step(None)``) are done inside: whoever is asked for an action is alive.

    Args:
        sim: the env.
        spaces: what its agents see and do.
    """

    def __init__(self, sim: Any, spaces: AgentSpaces) -> None:
        self._sim, self.spaces = sim, spaces
        self._bare = Bare(sim)
        self._final: dict[str, AgentStep] = {}
        self._living: set[str] = set()

    def reset(self, seed: int | None, told: Mapping[str, Any]) -> None:
        self._final = {}
        self._sim.reset(seed=seed, **told)
        self._living = set(self._bare().agents)

    def agents(self) -> list[str]:
        return list(self._bare().agents)

    def acting(self) -> set[str]:
        sim = self._bare()
        agent = sim.agent_selection if sim.agents else None
        return set() if agent is None or sim.terminations[agent] or sim.truncations[agent] else {agent}

    def play(self, actions: dict[str, Any]) -> Mapping[str, Result]:
        ((agent, action),) = actions.items()
        self._sim.step(self.spaces.to_sim(agent, action))
        sim = self._bare()
        there, rewards, terminated, truncated = sim.agents, sim.rewards, sim.terminations, sim.truncations
        ended = [a for a in self._living.union(there) if terminated.get(a) or truncated.get(a)]
        told = {*there, *ended, *self.spaces.strangers(rewards, terminated, truncated)}
        got = {a: (rewards.get(a, 0.0), terminated.get(a, False), truncated.get(a, False)) for a in told}
        self._living = set(there).difference(ended)
        self._final.clear()
        if ended:
            self._let_leave(sim, ended, got)
        return got

    def _let_leave(self, sim: Any, ended: list[str], got: dict[str, Result]) -> None:
        """Lets those who are done leave; adds what others are paid then, and who ends or comes with it."""
        for a in ended:
            self._final[a] = frozen(self.look(a))
        while sim.agents and sim.agent_selection in self._final:
            before = dict(getattr(sim, "_cumulative_rewards", {}))
            self._sim.step(None)
            paid = getattr(sim, "_cumulative_rewards", {})
            for a in sim.agents:
                if a in self._final:
                    continue
                reward, more = got.get(a, NOTHING)[0], paid.get(a, 0.0) - before.get(a, 0.0)
                flags = sim.terminations.get(a, False), sim.truncations.get(a, False)
                got[a] = (reward + more if np.any(more) else reward, *flags)
                if any(flags):
                    self._living.discard(a)
                    self._final[a] = frozen(self.look(a))
                else:
                    self._living.add(a)

    def look(self, agent: str) -> AgentStep:
        if agent in self._final:  # it has left the simulator; this is what it saw last
            return self._final[agent]
        return self.spaces.read(agent, self._sim.observe(agent), self._bare().infos.get(agent))
