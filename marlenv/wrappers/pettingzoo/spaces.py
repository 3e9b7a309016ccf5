"""What PettingZoo's agents see and do: specs of their spaces, masks and infos, for ``PettingZooWrapper``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marlenv.specs import Composite, TensorSpec, Unbounded
from marlenv.wrappers._agent import AgentSpecs, AgentStep
from marlenv.wrappers._space_values import can_be_masked, decoder_of, encoder_of, mask_length
from marlenv.wrappers._spaces import spec_of

OBS, MASK = "observation", "action_mask"


class AgentSpaces:
    """The spaces of a PettingZoo env's agents.

    Args:
        sim: an env of either interface; it is reset once, to see who masks actions and what infos there are.
        categorical: discrete actions as numbers; else one-hot.
        info_specs: entries of infos that a reset does not give.
    """

    def __init__(self, sim: Any, categorical: bool, info_specs: Mapping[str, TensorSpec] | None) -> None:
        found = sim.reset()
        infos = sim.infos if found is None else found[1]  # the parallel interface returns them
        told = any(info.get(MASK) is not None for info in infos.values())  # agents that come later are told so, too
        self.specs: dict[str, AgentSpecs] = {}
        self._encoders: dict[str, Any] = {}
        self._decoders: dict[str, Any] = {}
        for agent in sim.possible_agents:
            observed, acted = sim.observation_space(agent), sim.action_space(agent)
            info = dict(infos.get(agent, {}))
            observation = spec_of(observed, categorical=categorical)
            masked = info.pop(MASK, None) is not None or (told and can_be_masked(acted))
            if isinstance(observation, Composite) and MASK in observation:
                masked = True
                del observation[MASK]
            entries = info_spec(info).update(Composite(dict(info_specs or {})))
            action = spec_of(acted, categorical=categorical)
            self.specs[agent] = AgentSpecs(
                Composite({OBS: observation}), action, mask_length(acted) if masked else None, entries
            )
            self._encoders[agent], self._decoders[agent] = encoder_of(observed), decoder_of(acted)

        self.as_they_are = not any(self._decoders.values())
        """Whether simulators take actions as they are in the data."""
        self.seen_as_they_are = not any(self._encoders.values())
        """Whether observations are what simulators give."""

    def strangers(self, *told: Mapping[str, Any]) -> set[str]:
        """The agents in rewards or flags that the env never named, which :class:`AgentData` complains about."""
        known = self.specs.keys()
        return set().union(*(one.keys() - known for one in told if not one.keys() <= known))

    def to_sim(self, agent: str, action: Any) -> Any:
        """An action as the simulator takes it: counted from its own start, in tuples where the space is one."""
        decode = self._decoders[agent]
        return action if decode is None else decode(action)

    def read(self, agent: str, observation: Any, info: Mapping[str, Any] | None, *result: Any) -> AgentStep:
        """What an agent got; ``result`` is its reward and its flags."""
        reward, terminated, truncated = result or (0.0, False, False)
        mask = mask_of(observation, info)
        encode = self._encoders.get(agent)
        if encode is not None and observation is not None:
            observation = encode(observation)
        return AgentStep({OBS: observation}, reward, terminated, truncated, mask, info)


def mask_of(observation: Any, info: Mapping[str, Any] | None) -> Any:
    """The legal actions, from the observation or the info; None where the env does not say."""
    mask = None if info is None else info.get(MASK)
    if isinstance(observation, Mapping) and MASK in observation:
        mask = observation[MASK]
    return np.concatenate(mask) if isinstance(mask, tuple) else mask


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
