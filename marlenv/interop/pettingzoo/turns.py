"""Our games with PettingZoo's interface of turns (AEC). Imported when it is first needed."""

from __future__ import annotations

from typing import Any

from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.errors import NeedsReset, Unsupported
from marlenv.interop.agents import Agents
from marlenv.interop.pettingzoo.parallel import ParallelZoo, zoo
from marlenv.optional import need


def aec(env: EnvBase, render_mode: str | None) -> Any:
    """The env of turns of a game, or of an env in which all act at once."""
    agents = Agents("to_pettingzoo_aec", env)
    masks = agents.column(agents.reset(None), "mask", True)
    if sum(map(bool, masks.values())) == 1:
        return TurnsZoo(env, render_mode)
    conversions = need("pettingzoo.utils.conversions", "marlenv.to_pettingzoo_aec")
    return conversions.parallel_to_aec(ParallelZoo(env, render_mode))


class TurnsZoo(zoo.AECEnv):
    """A game of ours behind PettingZoo's interface of turns.

    Args:
        env: our env, with one row, in which one agent acts at a time.
        render_mode: ``"ansi"``, ``"human"``, or None.
    """

    def __init__(self, env: EnvBase, render_mode: str | None = None) -> None:
        super().__init__()
        self.inner, self.render_mode = env, render_mode
        self._all = Agents("to_pettingzoo_aec", env)
        rules = getattr(env, "rules", None)
        modes = ["human", "ansi"] if hasattr(rules, "show") else []
        if render_mode is not None and render_mode not in modes:
            raise Unsupported(f"to_pettingzoo_aec: render_mode must be one of {[None, *modes]}, got {render_mode!r}")
        self.metadata = {"name": type(rules or env).__name__, "render_modes": modes, "is_parallelizable": False}
        self.possible_agents = list(self._all.names)
        self.agents: list[str] = []
        self._td: TensorDictBase | None = None

    def observation_space(self, agent: str) -> Any:
        """What an agent may observe."""
        return self._all.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """What an agent may do."""
        return self._all.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Starts a game."""
        self._td = self._all.reset(seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, Any] = {agent: {} for agent in self.agents}
        self.agent_selection = self._to_move(self.agents[0])

    def observe(self, agent: str) -> Any:
        """What an agent observes now."""
        return self._all.observations(self._held("observe"), [agent])[agent]

    def step(self, action: Any) -> None:
        """Plays the action of the agent whose turn it is; None where that agent is done."""
        td, agent = self._held("step"), self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self._td = self._all.step(td, {agent: action})
        columns = [self._all.column(self._td, name, 0.0) for name in ("reward", "terminated", "truncated")]
        self.rewards = {one: float(columns[0][one]) for one in self.agents}
        self.terminations = {one: bool(columns[1][one]) for one in self.agents}
        self.truncations = {one: bool(columns[2][one]) for one in self.agents}
        self._accumulate_rewards()
        behind = self.agents.index(agent) + 1
        self.agent_selection = self._to_move(self.agents[behind % len(self.agents)])

    def _held(self, verb: str) -> TensorDictBase:
        if self._td is None:
            raise NeedsReset.before(type(self).__name__, verb)
        return self._td

    def _to_move(self, otherwise: str) -> str:
        """Whose turn it is; where it is nobody's, since the game is over, the one who is to hear so first."""
        acting = self._all.column(self._held("step"), "mask", False)
        return next((agent for agent in self.agents if acting[agent]), otherwise)

    def render(self) -> Any:
        """The board as text; with ``"human"`` it is printed."""
        if self.render_mode is None:
            return None
        env: Any = self.inner
        board: str = env.rules.show(env.read(self._held("render")))
        if self.render_mode == "ansi":
            return board
        print(board)
        return None

    def close(self) -> None:
        """Closes the env."""
        if not self.inner.is_closed:
            self.inner.close()
