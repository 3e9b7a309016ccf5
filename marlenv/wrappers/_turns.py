"""Simulators in which some agents act and the others wait: turn-based games, and games in which all act at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

from tensordict import TensorDictBase

from marlenv.errors import SpecError
from marlenv.wrappers._agent import AgentStep
from marlenv.wrappers._agents import AgentsEnv

Observe = Literal["acting", "all"]
Result = tuple[float, bool, bool]
"""What the last moves brought one agent: its reward, and whether it terminated, and was truncated."""
NOTHING: Result = (0.0, False, False)


class Turn:
    """Between two steps: what everybody saw last, and who acts next."""

    __slots__ = ("acting", "looks")

    def __init__(self, looks: dict[str, AgentStep], acting: set[str]) -> None:
        self.looks, self.acting = looks, acting


class TurnSimEnv(AgentsEnv):
    """An env around a simulator that says who acts next. Abstract.

    Every agent gets its reward in every step, whoever moved; so the loser of a game gets its -1. Agents are looked at
    when they appear and when they are about to act; the others keep what they saw last, and at the end everybody is looked
    at once more.

    Args:
        observe: ``"acting"`` as above, or ``"all"``: everybody is looked at in every step.
        **options: see :class:`~marlenv.wrappers._agents.AgentsEnv`.
    """

    default_rule = False

    def __init__(self, *, observe: Observe = "acting", **options: Any) -> None:
        if observe not in ("acting", "all"):
            raise SpecError(f"{type(self).__name__}: observe must be 'acting' or 'all', got {observe!r}")
        self.observe_rule: Observe = observe
        super().__init__(**options)

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
    def sim_look(self, agent: str) -> AgentStep:
        """What an agent sees, without rewards and flags."""

    def sim_agents(self) -> list[str]:
        """The agents that are in the game after a reset."""
        return self.agents_names

    # --- an episode ------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        self.sim_reset(self._take_seed(), **kwargs)
        return self._opened()

    def _opened(self, steps: int = 0) -> TensorDictBase:
        """The first data of the position that the simulator is in, after so many steps."""
        self._board.open(steps)
        self._turn = turn = Turn({agent: self.sim_look(agent) for agent in self.sim_agents()}, self.sim_acting())
        looks = turn.looks
        got = looks if turn.acting else {agent: look._replace(terminated=True) for agent, look in looks.items()}
        return self._emit(got, turn.acting, first=True)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        board, turn = self._board, self._turn
        acting = turn.acting & board.living
        if acting:
            actions = self._played(tensordict, acting)
            board.steps += 1
            results = self.sim_play(actions)
            turn.acting = self.sim_acting()
        else:  # the game is over: nothing happens any more
            results = dict.fromkeys(board.living, NOTHING)
        looks, following, ended, look_at = turn.looks, turn.acting, board.ended, self.sim_look
        everybody = self.observe_rule == "all" or not following
        got = {}
        for agent, result in results.items():
            if agent in ended:
                continue
            reward, terminated, truncated = result
            if everybody or terminated or truncated or agent in following or agent not in looks:
                looks[agent] = look_at(agent)
            look = looks[agent]
            if result != NOTHING:
                look = look._replace(reward=reward, terminated=terminated, truncated=truncated)
            got[agent] = look
        return self._emit(got, following, first=False)
