"""Simulators in which some agents act and the others wait: turn-based games, and games in which all act at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from tensordict import TensorDictBase

from marlenv.errors import SpecError
from marlenv.wrappers._agents import AgentsEnv, AgentStep

Observe = Literal["acting", "all"]


class Look(NamedTuple):
    """What one agent sees now."""

    seen: Mapping[str, Any]
    action_mask: Any = None
    info: Mapping[str, Any] | None = None


class Result(NamedTuple):
    """What the last moves brought one agent."""

    reward: float
    terminated: bool = False
    truncated: bool = False


class TurnSimEnv(AgentsEnv):
    """An env around a simulator that says who acts next. Abstract.

    Every agent gets its reward in every step, whoever moved; so the loser of a game gets its -1. Agents are looked at
    when they are about to act; the others keep what they saw last, and at the end everybody is looked at once more.

    Args:
        observe: ``"acting"`` as above, or ``"all"``: everybody is looked at in every step.
        **options: see :class:`~marlenv.wrappers._agents.AgentsEnv`.
    """

    def __init__(self, *, observe: Observe = "acting", **options: Any) -> None:
        if observe not in ("acting", "all"):
            raise SpecError(f"{type(self).__name__}: observe must be 'acting' or 'all', got {observe!r}")
        self.observe_rule: Observe = observe
        super().__init__(**options)

    def _default_rule(self) -> bool:
        return False

    # --- hooks -----------------------------------------------------------------------------------

    @abstractmethod
    def sim_reset(self, seed: int | None) -> None:
        """Starts an episode."""

    @abstractmethod
    def sim_play(self, actions: dict[str, Any]) -> Mapping[str, Result]:
        """Plays the actions of those who act; returns what every agent of the game got. One that is left out is gone."""

    @abstractmethod
    def sim_acting(self) -> set[str]:
        """Whose actions are wanted next; nobody's when the game is over."""

    @abstractmethod
    def sim_look(self, agent: str) -> Look:
        """What an agent sees."""

    def sim_agents(self) -> list[str]:
        """The agents that are in the game after a reset."""
        return self.agents_names

    # --- an episode ------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        self._begin()
        self.sim_reset(self._take_seed(), **kwargs)
        return self._opened()

    def _opened(self) -> TensorDictBase:
        """The first data of the position that the simulator is in."""
        self._looks: dict[str, Look] = {agent: self.sim_look(agent) for agent in self.sim_agents()}
        acting = self.sim_acting()
        return self._emit(
            {a: AgentStep(look.seen, action_mask=look.action_mask, info=look.info) for a, look in self._looks.items()},
            acting,
            first=True,
        )

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        acting = {a for a in self.sim_acting() if a not in self._ended}
        if not acting:  # the game is over: nothing happens any more
            results: Mapping[str, Result] = {a: Result(0.0) for a in self._existed if a not in self._ended}
        else:
            actions = {a: data["action"] for a, data in self._unpacker.unpack(tensordict, acting).items()}
            self._steps += 1
            results = self.sim_play(actions)
        following = self.sim_acting()
        for agent, result in results.items():
            wanted = agent in following or self.observe_rule == "all" or not following
            ends = (result.terminated or result.truncated) and agent not in self._ended
            if agent not in self._looks or (wanted and agent not in self._ended) or ends:
                self._looks[agent] = self.sim_look(agent)
        got = {}
        for agent, result in results.items():
            look = self._looks[agent]
            got[agent] = AgentStep(
                look.seen, result.reward, result.terminated, result.truncated, look.action_mask, look.info
            )
        return self._emit(got, following, first=False)
