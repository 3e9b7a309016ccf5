"""Our env with RLlib's interface. Imported when it is first needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from marlenv.envs import EnvBase
from marlenv.errors import MissingExtra, NeedsReset, Unsupported, nearest
from marlenv.interop.agents import Agents, check_nobody_returns, cut_off
from marlenv.interop.teams import Teams
from marlenv.optional import need

WHO = "to_rllib"
try:
    multi: Any = need("ray.rllib.env.multi_agent_env", f"marlenv.{WHO}")
except MissingExtra:
    raise
except ImportError as error:  # Ray is there without what RLlib needs besides
    raise MissingExtra(f'marlenv.{WHO} needs all of RLlib: {error}; pip install "ray[rllib]"') from error
KINDS: dict[str, Any] = {"agents": Agents, "groups": Teams}


class AgentsOfRLlib(multi.MultiAgentEnv):
    """An env of ours behind RLlib's interface of many agents.

    Args:
        env: our env, with one row.
        agents: ``"agents"`` or ``"groups"``.
    """

    def __init__(self, env: EnvBase, agents: str = "agents") -> None:
        if agents not in KINDS:
            raise Unsupported(f"{WHO}: agents must be one of {list(KINDS)}, got {agents!r}; {nearest(agents, KINDS)}")
        self.inner, self._all = env, KINDS[agents](WHO, env)
        self.possible_agents = list(self._all.names)
        self.agents: list[str] = list(self.possible_agents)  # RLlib looks for all who have data of a step among them
        self._living = self.agents
        self.observation_spaces, self.action_spaces = self._all.observation_spaces, self._all.action_spaces
        self._left: set[str] = set()
        self._td: Any = None
        super().__init__()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Starts an episode, with options of the env's reset; what those who are to act observe, and infos."""
        self._td = self._all.reset(seed, options)
        alive = self._all.column(self._td, "alive", True)
        self.agents = self._living = [agent for agent in self.possible_agents if alive[agent]]
        acting, self._left = self._acting(), set()
        return self._all.observations(self._td, acting), {agent: {} for agent in acting}

    def _acting(self) -> list[str]:
        mask, alive = (self._all.column(self._td, name, True) for name in ("mask", "alive"))
        return [agent for agent in self._living if mask[agent] and alive[agent]]

    def step(self, action_dict: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Plays the actions of those who are to act; what the next ones observe, rewards, flags and infos."""
        if self._td is None:
            raise NeedsReset.before(WHO, "step")
        playing = self._living
        self._td = self._all.step(self._td, action_dict)
        rewards, alive = (self._all.column(self._td, *one) for one in (("reward", 0.0), ("alive", True)))
        ends, cuts, over = (self._all.column(self._td, name, False) for name in ("terminated", "truncated", "done"))
        living = self._living = [agent for agent in self.possible_agents if not over[agent] and alive[agent]]
        self.agents = [agent for agent in self.possible_agents if agent in playing or agent in living]
        check_nobody_returns(WHO, self._left, living)
        self._left |= set(playing) - set(living)
        observing = [agent for agent in playing if agent not in living] + self._acting()
        flags: list[dict[str, Any]] = [
            {agent: bool(column[agent]) for agent in playing} | {"__all__": False} for column in (ends, cuts)
        ]
        if not living:
            cut = cut_off(ends, cuts)
            flags[0]["__all__"], flags[1]["__all__"] = not cut, cut
            if cut:  # with every agent's own flag beside it RLlib takes the episode for terminated
                flags[1] = {"__all__": True}
        of_agents = {agent: float(rewards[agent]) for agent in {*playing, *observing}}
        return self._all.observations(self._td, observing), of_agents, *flags, {agent: {} for agent in observing}

    def render(self) -> Any:
        """A picture of a scenario, uint8 ``[H, W, 3]``; None where the env draws nothing."""
        env: Any = self.inner
        return np.asarray(env.render()) if hasattr(env, "render") else None

    def close(self) -> None:
        """Closes the env."""
        self.inner.close(raise_if_closed=False)
