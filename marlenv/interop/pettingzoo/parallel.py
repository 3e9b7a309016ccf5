"""Our env with PettingZoo's parallel interface. Imported when it is first needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from marlenv.envs import EnvBase
from marlenv.errors import NeedsReset, Unsupported
from marlenv.interop.agents import Agents
from marlenv.interop.pettingzoo.window import Window
from marlenv.interop.spaces import space_of, value_of
from marlenv.optional import need

zoo: Any = need("pettingzoo", "marlenv.to_pettingzoo_parallel")
spaces: Any = need("gymnasium.spaces", "marlenv.to_pettingzoo_parallel")


class ParallelZoo(zoo.ParallelEnv):
    """An env of ours behind PettingZoo's parallel interface.

    Args:
        env: our env, with one row.
        render_mode: ``"rgb_array"``, ``"human"``, or None.
    """

    def __init__(self, env: EnvBase, render_mode: str | None = None) -> None:
        self.inner, self.render_mode = env, render_mode
        self._all = Agents("to_pettingzoo_parallel", env)
        name = str(getattr(env, "name", None) or type(env).__name__)
        modes = ["human", "rgb_array"] if hasattr(env, "render") else []
        self.metadata = {"name": name, "render_modes": modes, "is_parallelizable": True}
        if render_mode is not None and render_mode not in modes:
            raise Unsupported(
                f"to_pettingzoo_parallel: render_mode must be one of {[None, *modes]}, got {render_mode!r}"
            )
        self.possible_agents = list(self._all.names)
        self.agents: list[str] = []
        self._whole = "state" in env.full_observation_spec_unbatched.keys()
        self._td: Any = None
        self._window = Window()

    def observation_space(self, agent: str) -> Any:
        """What an agent may observe."""
        return self._all.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """What an agent may do."""
        return self._all.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Starts an episode; observations and infos by agent."""
        self._td = self._all.reset(seed)
        self.agents = self._living()
        return self._all.observations(self._td, self.agents), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Plays an action of every agent; observations, rewards, terminations, truncations and infos by agent."""
        if self._td is None:
            raise NeedsReset.before(type(self).__name__, "step")
        playing = self.agents
        if not playing:
            return {}, {}, {}, {}, {}
        self._td = self._all.step(self._td, {agent: actions[agent] for agent in playing})
        found = [self._all.column(self._td, name, False) for name in ("terminated", "truncated")]
        rewards = self._all.column(self._td, "reward", 0.0)
        terminated, truncated = ({agent: bool(column[agent]) for agent in playing} for column in found)
        seen = self._all.observations(self._td, playing)
        self.agents = [agent for agent in self._living() if not terminated.get(agent) and not truncated.get(agent)]
        paid = {agent: float(rewards[agent]) for agent in playing}
        return seen, paid, terminated, truncated, {agent: {} for agent in playing}

    def _living(self) -> list[str]:
        alive = self._all.column(self._td, "alive", True)
        return [agent for agent in self.possible_agents if alive[agent]]

    @property
    def state_space(self) -> Any:
        """What :meth:`state` gives: the env's own state, or the observations of all agents side by side."""
        if self._whole:
            spec = self.inner.full_observation_spec_unbatched["state"]
            return space_of("to_pettingzoo_parallel", "state", spec)
        size = sum(spaces.flatdim(space) for space in self._all.observation_spaces.values())
        return spaces.Box(-np.inf, np.inf, (size,), np.float32)

    def state(self) -> Any:
        """What is known of the whole env."""
        if self._td is None:
            raise NeedsReset.before(type(self).__name__, "state")
        if self._whole:
            held = self._td.get("state")
            spec = self.inner.full_observation_spec_unbatched["state"]
            return value_of(self.state_space, spec.to_numpy(held))
        seen = self._all.observations(self._td)
        flat = [spaces.flatten(self._all.observation_spaces[agent], seen[agent]) for agent in self.possible_agents]
        return np.concatenate(flat).astype(np.float32)

    def render(self) -> Any:
        """A picture, uint8 ``[H, W, 3]``; with ``"human"`` it is shown in a window."""
        if self.render_mode is None:
            return None
        picture = np.asarray(self._drawn())
        if self.render_mode == "rgb_array":
            return picture
        self._window.show(picture)
        return None

    def _drawn(self) -> Any:
        env: Any = self.inner
        return env.render()

    def close(self) -> None:
        """Closes the env."""
        self._window.close()
        if not self.inner.is_closed:
            self.inner.close()
