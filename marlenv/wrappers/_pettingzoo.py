"""What PettingZoo's two interfaces have in common: spaces, masks, infos and the global state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from marlenv.envs.seeding import next_seed
from marlenv.specs import Composite, TensorSpec, Unbounded
from marlenv.wrappers._agent import AgentSpecs
from marlenv.wrappers._agents import AgentsEnv
from marlenv.wrappers._spaces import spec_of, start_of

SEEDS = 1 << 31  # some envs take no larger ones
OBS, MASK = "observation", "action_mask"


class PettingZooBase(AgentsEnv):
    """An env around a PettingZoo env of either interface. Abstract.

    Args:
        return_state: emit the env's global state.
        categorical_actions: discrete actions as numbers; else one-hot.
        info_specs: entries of the agents' infos that come later than in a reset; those of a reset are found out.
        **options: see :class:`~marlenv.wrappers._agents.AgentsEnv`.
    """

    libname: ClassVar[str] = "pettingzoo"
    git_url: ClassVar[str] = "https://github.com/Farama-Foundation/PettingZoo"

    def __init__(
        self,
        *,
        return_state: bool = False,
        categorical_actions: bool = True,
        info_specs: Mapping[str, TensorSpec] | None = None,
        **options: Any,
    ) -> None:
        self.return_state, self.categorical_actions, self.info_specs = return_state, categorical_actions, info_specs
        super().__init__(**options)

    def _build_env(self, env: Any = None) -> Any:
        return env

    def agent_specs(self) -> dict[str, AgentSpecs]:
        sim = self._env
        found = sim.reset()
        infos = sim.infos if found is None else found[1]  # the parallel interface returns them
        self._starts: dict[str, int] = {}
        specs = {}
        for agent in sim.possible_agents:
            acted, info = sim.action_space(agent), dict(infos.get(agent, {}))
            seen = spec_of(sim.observation_space(agent), categorical=self.categorical_actions)
            masked = info.pop(MASK, None) is not None
            if isinstance(seen, Composite) and MASK in seen:
                masked = True
                del seen[MASK]
            self._starts[agent] = int(start_of(acted))
            told = info_spec(info).update(Composite(dict(self.info_specs or {})))
            action = spec_of(acted, categorical=self.categorical_actions)
            specs[agent] = AgentSpecs(Composite({OBS: seen}), action, int(acted.n) if masked else None, told)
        return specs

    def _take_seed(self) -> int | None:
        """A seed for every reset: some envs draw the later ones from the operating system when they get none."""
        seed = self._sim_seed
        if seed is None:
            return None
        self._sim_seed = next_seed(seed)
        return seed % SEEDS

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


def mask_of(observation: Any, info: Mapping[str, Any] | None) -> Any:
    """The legal actions, from the observation or the info; None where the env does not say."""
    if isinstance(observation, Mapping) and MASK in observation:
        return observation[MASK]
    return None if info is None else info.get(MASK)


def frozen(observation: Any) -> Any:
    """A copy of an observation that the simulator may go on writing to.

    >>> frozen({"board": np.zeros(2), "turn": 1})
    {'board': array([0., 0.]), 'turn': 1}
    """
    if isinstance(observation, Mapping):
        return {name: frozen(value) for name, value in observation.items()}
    if isinstance(observation, tuple):
        return tuple(frozen(value) for value in observation)
    return observation.copy() if isinstance(observation, np.ndarray) else observation


def info_spec(info: Mapping[str, Any]) -> Composite:
    """The specs of the numbers and arrays in an info dict; everything else is left out.

    >>> info_spec({"speed": 1.5, "name": "x"})["speed"]
    Unbounded([], float64)
    """
    out = Composite()
    for key, value in info.items():
        if isinstance(value, (bool, int, float, np.ndarray, np.generic, Tensor)):
            array = np.asarray(value)
            if array.dtype.kind in "biuf":
                tensor = torch.as_tensor(array)
                out[key] = Unbounded(tensor.shape, dtype=tensor.dtype)
    return out
