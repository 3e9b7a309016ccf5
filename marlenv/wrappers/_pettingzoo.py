"""What PettingZoo's two interfaces have in common: spaces, masks, infos and the global state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from marlenv.specs import Composite, Unbounded
from marlenv.wrappers._agents import AgentsEnv, AgentSpecs
from marlenv.wrappers._spaces import spec_of, start_of

MASK = "action_mask"


class PettingZooBase(AgentsEnv):
    """An env around a PettingZoo env of either interface. Abstract."""

    libname: ClassVar[str] = "pettingzoo"
    git_url: ClassVar[str] = "https://github.com/Farama-Foundation/PettingZoo"

    return_state: bool
    categorical_actions: bool

    def agent_specs(self) -> dict[str, AgentSpecs]:
        sim = self._env
        found = sim.reset()
        infos = found[1] if found is not None else sim.infos  # the parallel interface returns them
        self._starts: dict[str, int] = {}
        specs = {}
        for agent in sim.possible_agents:
            observed, acted = sim.observation_space(agent), sim.action_space(agent)
            seen = spec_of(observed, categorical=self.categorical_actions)
            info = dict(infos.get(agent, {}))
            masked = MASK in info
            if isinstance(seen, Composite) and MASK in seen:
                masked = True
                del seen[MASK]
            info.pop(MASK, None)
            self._starts[agent] = int(start_of(acted))
            action = spec_of(acted, categorical=self.categorical_actions)
            specs[agent] = AgentSpecs(
                Composite(observation=seen), action, int(acted.n) if masked else None, info_spec(info)
            )
        return specs

    def root_specs(self) -> Composite:
        if not self.return_state:
            return Composite()
        state = torch.as_tensor(np.asarray(self._env.state()))
        return Composite(state=Unbounded(state.shape, dtype=state.dtype))

    def root_data(self) -> Mapping[str, Any]:
        return {"state": self._env.state()} if self.return_state else {}

    def to_sim(self, agent: str, action: Any) -> Any:
        """An action as the simulator counts it: discrete spaces may start at another number than 0."""
        start = self._starts[agent]
        return action + start if start else action

    @staticmethod
    def mask_of(observation: Any, info: Mapping[str, Any] | None) -> Any:
        """The legal actions, from the observation or the info; None where the env does not say."""
        if isinstance(observation, Mapping) and MASK in observation:
            return observation[MASK]
        return None if info is None else info.get(MASK)


def info_spec(info: Mapping[str, Any]) -> Composite:
    """The specs of the numbers and arrays in an info dict; everything else is left out.

    >>> info_spec({"speed": 1.5, "name": "x"})["speed"]
    Unbounded([], float64)
    """
    out = Composite()
    for key, value in info.items():
        if isinstance(value, (bool, int, float, np.ndarray, np.generic, Tensor)):
            array = torch.as_tensor(np.asarray(value))
            out[key] = Unbounded(array.shape, dtype=array.dtype)
    return out
