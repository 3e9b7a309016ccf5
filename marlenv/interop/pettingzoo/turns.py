"""Our games with PettingZoo's interface of turns (AEC). Imported when it is first needed."""

from __future__ import annotations

from typing import Any

from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.errors import NeedsReset
from marlenv.interop.agents import Agents, check_nobody_returns
from marlenv.interop.pettingzoo.parallel import ParallelZoo, zoo
from marlenv.interop.pettingzoo.render import Renderer
from marlenv.interop.pettingzoo.state import GlobalState
from marlenv.optional import need

WHO = "to_pettingzoo_aec"
conversions: Any = need("pettingzoo.utils.conversions", f"marlenv.{WHO}")


def aec(env: EnvBase, render_mode: str | None) -> Any:
    """The env of turns of a game, or of an env in which all act at once."""
    agents = Agents(WHO, env)
    if sum(agents.acting(agents.reset(None)).values()) == 1:
        return TurnsZoo(env, render_mode)
    return zoo.utils.OrderEnforcingWrapper(TogetherZoo(ParallelZoo(env, render_mode)))


class TogetherZoo(conversions.parallel_to_aec_wrapper):
    """An env of ours in which all act at once, behind PettingZoo's interface of turns.

    Args:
        env: our env behind the parallel interface.
    """

    def step(self, action: Any) -> None:
        """Takes the action of the agent whose turn it is; after the last one's the world moves."""
        agent = self.agent_selection
        if not (self.terminations[agent] or self.truncations[agent]):
            self.env.check(agent, action)
        super().step(action)


class TurnsZoo(zoo.AECEnv):
    """A game of ours behind PettingZoo's interface of turns.

    Where several are to act in one position, each is asked before it moves on.

    Args:
        env: our env, with one row.
        render_mode: ``"ansi"``, ``"human"``, or None.
    """

    def __init__(self, env: EnvBase, render_mode: str | None = None) -> None:
        super().__init__()
        self.inner, self.render_mode = env, render_mode
        self._all = Agents(WHO, env)
        self._renderer, self._state = Renderer(WHO, env, render_mode), GlobalState(WHO, self._all)
        name = type(getattr(env, "rules", None) or env).__name__
        self.metadata = {"name": name, "render_modes": self._renderer.modes, "is_parallelizable": False}
        self.possible_agents = list(self._all.names)
        self.observation_spaces, self.action_spaces = self._all.observation_spaces, self._all.action_spaces
        self.agents: list[str] = []
        self._asked: dict[str, Any] = {}
        self._td: TensorDictBase | None = None

    def observation_space(self, agent: str) -> Any:
        """What an agent may observe."""
        return self._all.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """What an agent may do."""
        return self._all.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Starts a game. PettingZoo's checks want any options to be taken."""
        self._td = self._all.reset(seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, Any] = {agent: {} for agent in self.agents}
        self._asked = {}
        self.agent_selection = self._to_ask({}) or self.agents[0]

    def observe(self, agent: str) -> Any:
        """What an agent observes now."""
        return self._all.observations(self._data("observe"), [agent])[agent]

    def step(self, action: Any) -> None:
        """Plays the action of the agent whose turn it is; None where that agent is done."""
        td, agent = self._data("step"), self.agent_selection
        if self._over(agent):
            self._was_dead_step(action)
            return
        actions = {**self._asked, agent: action}
        waits = self._to_ask(actions)
        if len(actions) > 1 or waits is not None:
            self._all.pack(td, {agent: action})
        self._asked = {}  # where the env refuses the actions, all are asked anew
        if waits is not None:
            self._asked, self.agent_selection = actions, waits
            self._cumulative_rewards[agent] = 0.0
            self._clear_rewards()
            return
        self._td = self._all.step(td, actions)
        if left := set(self.possible_agents).difference(self.agents):
            acting = self._all.acting(self._td)
            check_nobody_returns(WHO, left, [one for one in self.possible_agents if acting[one]])
        self._cumulative_rewards[agent] = 0.0
        columns = [self._all.column(self._td, name, 0.0) for name in ("reward", "terminated", "truncated")]
        self.rewards = {one: float(columns[0][one]) for one in self.agents}
        self.terminations = {one: bool(columns[1][one]) for one in self.agents}
        self.truncations = {one: bool(columns[2][one]) for one in self.agents}
        self._accumulate_rewards()
        self.agent_selection = self._to_ask({}) or self._behind(agent)
        if not self._over(self.agent_selection):  # those who are done now leave before the game goes on
            self._deads_step_first()

    def _data(self, verb: str) -> TensorDictBase:
        if self._td is None:
            raise NeedsReset.before(WHO, verb)
        return self._td

    def _over(self, agent: str) -> bool:
        return bool(self.terminations[agent] or self.truncations[agent])

    def _to_ask(self, asked: dict[str, Any]) -> str | None:
        """Who is to act in this position and was not asked yet; None where nobody is."""
        acting = self._all.acting(self._data("step"))
        return next((one for one in self.agents if acting[one] and one not in asked and not self._over(one)), None)

    def _behind(self, agent: str) -> str:
        """The next one who goes on; where the game is over, the one who is to hear so first."""
        behind = self.agents.index(agent) + 1
        order = self.agents[behind:] + self.agents[:behind]
        return next((one for one in order if not self._over(one)), order[0])

    @property
    def state_space(self) -> Any:
        """What :meth:`state` gives: the position of the game as one vector."""
        return self._state.space

    def state(self) -> Any:
        """What is known of the whole game."""
        return self._state.read(self._data("state"))

    def render(self) -> Any:
        """The board as text; with ``"human"`` it is printed."""
        return self._renderer.render(self._data("render"))

    def close(self) -> None:
        """Closes the env."""
        self.inner.close(raise_if_closed=False)
