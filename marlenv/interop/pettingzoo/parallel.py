"""Our env with PettingZoo's parallel interface. Imported when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.errors import NeedsReset, SpecTypeError
from marlenv.interop.agents import Agents, check_nobody_returns
from marlenv.interop.pettingzoo.render import Renderer
from marlenv.interop.pettingzoo.state import GlobalState
from marlenv.optional import need

WHO = "to_pettingzoo_parallel"
zoo: Any = need("pettingzoo", f"marlenv.{WHO}")


class ParallelZoo(zoo.ParallelEnv):
    """An env of ours behind PettingZoo's parallel interface.

    Args:
        env: our env, with one row.
        render_mode: of scenarios ``"rgb_array"``, of games ``"ansi"``; ``"human"``, or None.
    """

    def __init__(self, env: EnvBase, render_mode: str | None = None) -> None:
        self.inner, self.render_mode = env, render_mode
        self._all = Agents(WHO, env)
        self._renderer, self._state = Renderer(WHO, env, render_mode), GlobalState(WHO, self._all)
        name = str(getattr(env, "name", None) or type(env).__name__)
        self.metadata = {"name": name, "render_modes": self._renderer.modes, "is_parallelizable": True}
        self.possible_agents = list(self._all.names)
        self.observation_spaces, self.action_spaces = self._all.observation_spaces, self._all.action_spaces
        self.agents: list[str] = []
        self._left: set[str] = set()
        self.np_random = np.random.default_rng()
        """Of wrappers that draw, such as SuperSuit's frame_skip_v0; our env has its own streams."""
        self._td: TensorDictBase | None = None

    def observation_space(self, agent: str) -> Any:
        """What an agent may observe."""
        return self._all.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """What an agent may do."""
        return self._all.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Starts an episode; observations and infos by agent. PettingZoo's checks want any options to be taken."""
        self._td = self._all.reset(seed)
        if seed is not None:
            self.np_random = np.random.default_rng(abs(int(seed)))
        # where an opponent has ended the game already, its one step says what it was worth
        self.agents, self._left = self._living(self._td) or list(self.possible_agents), set()
        return self._all.observations(self._td, self.agents), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Plays an action of every agent that is to act; observations, rewards, terminations, truncations and infos."""
        td, playing = self._data("step"), self.agents
        if not isinstance(actions, Mapping):
            raise SpecTypeError(
                f"{WHO}.step: expected a dict of actions by agent, got {type(actions).__name__}; agents are {playing}"
            )
        if not playing:
            return {}, {}, {}, {}, {}
        self._td = self._all.step(td, {agent: actions.get(agent) for agent in playing})
        found = [self._all.column(self._td, name, False) for name in ("terminated", "truncated")]
        rewards = self._all.column(self._td, "reward", 0.0)
        over = {agent for agent in playing if found[0][agent] or found[1][agent]}
        self.agents = [agent for agent in self._living(self._td) if agent not in over]
        check_nobody_returns(WHO, self._left, self.agents)
        self._left |= set(playing) - set(self.agents)
        those = playing + [agent for agent in self.agents if agent not in playing]  # some are born
        terminated, truncated = ({agent: bool(column[agent]) for agent in those} for column in found)
        of_agents = {agent: float(rewards[agent]) for agent in those}
        return self._all.observations(self._td, those), of_agents, terminated, truncated, {agent: {} for agent in those}

    def check(self, agent: str, action: Any) -> None:
        """Raises where :meth:`step` could not take the action of an agent."""
        self._all.pack(self._data("step"), {agent: action})

    def _living(self, td: TensorDictBase) -> list[str]:
        alive = self._all.living(td)
        return [agent for agent in self.possible_agents if alive[agent]]

    @property
    def state_space(self) -> Any:
        """What :meth:`state` gives: the env's own state, or the observations of all agents side by side."""
        return self._state.space

    def state(self) -> Any:
        """What is known of the whole env."""
        return self._state.read(self._data("state"))

    def _data(self, verb: str) -> TensorDictBase:
        if self._td is None:
            raise NeedsReset.before(WHO, verb)
        return self._td

    def render(self) -> Any:
        """A picture, uint8 ``[H, W, 3]``, or a board as text; with ``"human"`` it is shown."""
        return self._renderer.render(self._data("render"))

    def close(self) -> None:
        """Closes the env."""
        self._renderer.close()
        self.inner.close(raise_if_closed=False)
