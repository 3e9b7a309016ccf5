"""``TurnSimEnv``: the base of wrappers of simulators that say who acts next, as turn-based games do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Set
from typing import Any, Literal

from tensordict import TensorDict, TensorDictBase

from marlenv.errors import GroupError, SpecError
from marlenv.wrappers._agent import AgentStep, frozen
from marlenv.wrappers._agent_data import at
from marlenv.wrappers._agents import ActionsOf, AgentsEnv
from marlenv.wrappers._answers import unlike

Observe = Literal["acting", "all"]
Result = tuple[float, bool, bool]
"""What the last moves brought one agent: its reward, and whether it terminated, and was truncated."""
NOTHING: Result = (0.0, False, False)
RESULT = "(reward, terminated, truncated)"


class Turn:
    """Between two steps of a ``TurnSimEnv``: what everybody saw last, and who acts next."""

    __slots__ = ("acting", "looks")

    def __init__(self, looks: dict[str, AgentStep], acting: set[str]) -> None:
        self.looks, self.acting = looks, acting


class TurnSimEnv(AgentsEnv):
    """An env around a simulator that says who acts next. Abstract.

    Every agent gets its reward in every step, whoever moved; so the loser of a game gets its -1. Agents are looked at
    when they appear and when they are about to act; the others keep what they saw last, and at the end everybody is
    looked at once more.

    Args:
        observe: ``"acting"`` as above, or ``"all"``: everybody is looked at in every step.
        **options: see :class:`~marlenv.wrappers._agents.AgentsEnv`.
    """

    default_rule = False
    looks_are_own: bool = False
    """Whether :meth:`sim_look` returns memory of its own, which nothing writes to later; it is copied otherwise."""

    def __init__(self, *, observe: Observe = "acting", **options: Any) -> None:
        if observe not in ("acting", "all"):
            raise SpecError(f"{type(self).__name__}: observe must be 'acting' or 'all', got {observe!r}")
        self.observe_rule: Observe = observe
        super().__init__(**options)

    # --- hooks -----------------------------------------------------------------------------------

    @abstractmethod
    def sim_reset(self, seed: int | None) -> None:
        """Starts an episode."""

    def reset_options(self, tensordict: TensorDictBase | None) -> dict[str, Any]:
        """What :meth:`sim_reset` is told beside the seed, from the data that the env's ``reset`` was given."""
        return {}

    @abstractmethod
    def sim_play(self, actions: dict[str, Any]) -> Mapping[str, Result]:
        """Plays the actions of those who act; returns what every agent of the game got. One that is left out is
        gone.
        """

    @abstractmethod
    def sim_acting(self) -> set[str]:
        """Whose actions are wanted next; nobody's when the game is over: whoever is left has terminated then."""

    @abstractmethod
    def sim_look(self, agent: str) -> AgentStep:
        """What an agent sees, without rewards and flags; of whoever is not looked at again, it is shown again."""

    def sim_agents(self) -> list[str]:
        """The agents that are in the game after a reset."""
        return self.agent_names

    # --- an episode ------------------------------------------------------------------------------

    def _begin(self, tensordict: TensorDictBase | None) -> TensorDict:
        self.sim_reset(self._take_seed(), **self.reset_options(tensordict))
        return self._opened()

    def _opened(self, steps: int = 0) -> TensorDict:
        """The first data of the position that the simulator is in, after so many steps."""
        self._flags.open(steps)
        acting, named = self.sim_acting(), self.tree.place  # of others nothing is asked; _emit complains about them
        looks = {}
        for agent in self.sim_agents():
            look = self.sim_look(agent) if agent in named else AgentStep({})
            looks[agent] = look if self.looks_are_own else frozen(look)
        if not looks:
            raise GroupError(
                f"{type(self).__name__}.reset: {type(self._env).__name__} has no agents after its reset, so that "
                f"nobody would ever move; those who move first must be there from the reset on"
            )
        if type(acting) is not set or not all(type(look) is AgentStep for look in looks.values()):
            self._check(acting, looks)
        self._turn = Turn(looks, acting)
        got = looks if acting else {agent: look._replace(terminated=True) for agent, look in looks.items()}
        return self._emit(got, acting, first=True)

    def _play(self, actions_of: ActionsOf, source: Any) -> tuple[dict[str, AgentStep], set[str]]:
        flags, turn, named = self._flags, self._turn, self.tree.place
        acting, looks = turn.acting & flags.living, turn.looks
        if acting:
            actions = actions_of(source, acting)
            flags.steps += 1
            try:
                results = self.sim_play(actions)
            except BaseException:  # a move that the simulator refuses is no step
                flags.steps -= 1
                raise
            self._check_results(results)
            turn.acting = self.sim_acting()
            if type(turn.acting) is not set:
                self._check(turn.acting, {})
        elif turn.acting and not flags.over:
            raise self._waits_for_nobody(turn.acting)
        else:  # the game is over: nothing happens any more
            results = dict.fromkeys(flags.living, NOTHING)
        following, ended = turn.acting, flags.ended
        everybody = self.observe_rule == "all" or not following
        got = {}
        for agent, result in results.items():
            if agent in ended:
                continue
            reward, terminated, truncated = result
            if not following and not truncated:  # the game is over, whether the simulator says so of this agent or not
                terminated = True
            look = looks.get(agent)
            if look is None or everybody or terminated or truncated or agent in following:
                look = self.sim_look(agent) if agent in named else AgentStep({})
                looks[agent] = look = look if self.looks_are_own else frozen(look)
                if type(look) is not AgentStep:
                    self._check(following, {agent: look})
            got[agent] = AgentStep(look.observations, reward, terminated, truncated, look.action_mask, look.info)
        return got, following

    def _check_results(self, results: Any) -> None:
        """Raises if not every agent got a reward and two flags."""
        who = type(self).__name__
        if not isinstance(results, Mapping):
            raise unlike(f"{who}.sim_play", f"{RESULT} for every agent, by its name", results)
        for agent, result in results.items():
            try:
                _, terminated, truncated = result
            except (TypeError, ValueError):
                raise unlike(f"{who}.sim_play", f"{RESULT} for agent {agent!r}", result) from None
            if type(terminated) is not bool or type(truncated) is not bool:
                self._answers.check_flags(agent, terminated, truncated, step=self._flags.steps)

    def _check(self, acting: Any, looks: Mapping[str, Any]) -> None:
        """Raises if an answer of a hook is not what it must be, or something like it."""
        who = type(self).__name__
        if not isinstance(acting, Set):
            raise unlike(f"{who}.sim_acting", "a set of agents", acting)
        for look in looks.values():
            if not isinstance(look, AgentStep):
                raise unlike(f"{who}.sim_look", "an AgentStep", look)

    def _waits_for_nobody(self, named: set[str]) -> GroupError:
        sim = type(self._env).__name__
        return GroupError(
            f"{type(self).__name__}{at(self._flags.steps + 1)}: {sim} waits for an action of agent {min(named)!r}, "
            f"which is done or not there, so that nobody would ever move again; sim_acting must name agents that go "
            f"on, and nobody when the game is over"
        )
