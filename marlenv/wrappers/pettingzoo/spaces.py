"""What PettingZoo's agents see and do: specs of their spaces, masks and infos, for ``PettingZooWrapper``."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marlenv.errors import SpecError
from marlenv.specs import Composite, TensorSpec, Unbounded
from marlenv.specs.composite import RESERVED
from marlenv.wrappers._agent import AgentSpecs, AgentStep
from marlenv.wrappers._answers import unlike
from marlenv.wrappers._info_dicts import info_numbers
from marlenv.wrappers._space_values import can_be_masked, decoder_of, encoder_of, mask_length
from marlenv.wrappers._spaces import spec_called

OBS, MASK = "observation", "action_mask"


class AgentSpaces:
    """The spaces of a PettingZoo env's agents.

    Args:
        who: the wrapper, for messages.
        sim: an env of either interface.
        infos: of a reset, agent by agent: they say who masks actions and what infos there are.
        categorical: discrete actions as numbers; else one-hot.
        info_specs: entries of infos that a reset does not give, an ``action_mask`` among them.
    """

    def __init__(
        self,
        who: str,
        sim: Any,
        infos: Mapping[str, Any],
        categorical: bool,
        info_specs: Mapping[str, TensorSpec] | None,
    ) -> None:
        self.who = who
        given: dict[str, dict[str, Any]] = {}
        for agent, info in infos.items():
            if not isinstance(info, Mapping | None):
                raise unlike(f"{who}: the info of agent {agent!r}", "a dict", info, "be")
            given[agent] = dict(info or {})
        more = dict(info_specs or {})
        told = more.pop(MASK, None) is not None or any(info.get(MASK) is not None for info in given.values())
        self.specs: dict[str, AgentSpecs] = {}
        self._encoders: dict[str, Any] = {}
        self._decoders: dict[str, Any] = {}
        for agent in sim.possible_agents:
            observed, acted = sim.observation_space(agent), sim.action_space(agent)
            info = given.get(agent, {})
            observation = spec_called(who, f"observation of agent {agent!r}", observed, categorical=categorical)
            action = spec_called(who, f"action of agent {agent!r}", acted, categorical=categorical)
            # agents that come later are told so, too
            masked = info.pop(MASK, None) is not None or (told and can_be_masked(acted))
            if isinstance(observation, Composite) and MASK in observation:
                masked = True
                del observation[MASK]
            entries = info_spec(info).update(Composite(more))
            legal = mask_length(acted) if masked else None
            paid = aims(sim, agent)
            self.specs[agent] = AgentSpecs(Composite({OBS: observation}), action, legal, entries, paid)
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

    def _has_parts(self, agent: str) -> bool:
        return isinstance(self.specs[agent].observations[OBS], Composite)

    def read(self, agent: str, observation: Any, info: Mapping[str, Any] | None, *result: Any) -> AgentStep:
        """What an agent got; ``result`` is its reward and its flags."""
        reward, terminated, truncated = result or (0.0, False, False)
        mask = mask_of(observation, info)
        encode = self._encoders.get(agent)
        if encode is not None and observation is not None:
            observation = encode(observation)
        elif mask is not None and isinstance(observation, Mapping) and not self._has_parts(agent):
            parts = sorted(map(str, observation))
            raise SpecError(
                f"{self.who}: the observation of agent {agent!r} is a dict of {parts}, and its observation_space is "
                f"none; make that gymnasium.spaces.Dict(observation=..., action_mask=MultiBinary({np.size(mask)}))"
            )
        return AgentStep({OBS: observation}, reward, terminated, truncated, mask, info)


def aims(sim: Any, agent: str) -> TensorSpec | None:
    """What an agent is paid that has a ``reward_space``, as MOMAland's have: a number for each aim."""
    space = getattr(sim, "reward_space", None)
    return Unbounded(space(agent).shape, dtype=torch.float32) if callable(space) else None


def mask_of(observation: Any, info: Mapping[str, Any] | None) -> Any:
    """The legal actions, from the observation or the info; None where the env does not say."""
    mask = None if info is None else info.get(MASK)
    if isinstance(observation, Mapping) and MASK in observation:
        mask = observation[MASK]
    return np.concatenate(mask) if isinstance(mask, tuple) else mask


def info_spec(info: Mapping[str, Any]) -> Composite:
    """The specs of the numbers and arrays in an info dict; everything else is left out.

    >>> info_spec({"speed": 1.5, "name": "x"})["speed"]
    Unbounded([], float64)
    """
    out = Composite()
    for key, value in info.items():
        named = isinstance(key, str) and key not in RESERVED
        if named and isinstance(value, (Real, Decimal, np.ndarray, np.generic, Tensor)):
            array = info_numbers(value.detach().cpu() if isinstance(value, Tensor) else value)
            if array is not None:
                out[key] = Unbounded(array.shape, dtype=torch.as_tensor(array).dtype)
    return out
