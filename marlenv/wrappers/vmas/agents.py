"""VMAS's agents, for ``VmasWrapper``: their groups, specs, observations and infos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from torch import Tensor

from marlenv.copied_functions import own_functions
from marlenv.errors import GroupError, IllegalAction
from marlenv.specs import Composite, TensorSpec, Unbounded
from marlenv.wrappers._agent import AgentSpecs, unknown_agent
from marlenv.wrappers._spaces import spec_of


def specs_of(sim: Any, categorical: bool) -> dict[str, AgentSpecs]:
    """What the agents of a VMAS ``Environment`` see and do."""
    names = [agent.name for agent in sim.agents]
    observations, infos = (listed(x, names) for x in sim.get_from_scenario(True, False, True, False))
    specs = {}
    for agent, look, info in zip(sim.agents, observations, infos, strict=True):
        action = spec_of(sim.get_agent_action_space(agent), categorical=categorical)
        info_spec = Composite({name: spec_of_example(value) for name, value in info.items()})
        specs[agent.name] = AgentSpecs(Composite(observation=spec_of_example(look)), action, info=info_spec)
    return specs


def illegal(who: str, sim: Any, actions: Sequence[Tensor], error: AssertionError) -> Exception:
    """What is wrong with actions ``[B, width]`` of the agents that VMAS refused; VMAS's error where they are not it."""
    for agent, action in zip(sim.agents, actions, strict=True):
        spec = spec_of(sim.get_agent_action_space(agent), categorical=True)
        for row, values in enumerate(action.detach().cpu()):
            if not spec.is_in(values.reshape(spec.shape).to(spec.dtype)):
                says = f" ({error})" if str(error) else ""
                return IllegalAction(
                    f"{who}.step: the action of agent {agent.name!r} in row {row} must be in {spec!r}, got "
                    f"{values.tolist()}{says}"
                )
    return error


def listed(values: Any, names: Sequence[str]) -> list[Any]:
    """One value per agent, from a list or a dict.

    Raises:
        GroupError: there are values of agents that VMAS did not name.
    """
    if isinstance(values, Mapping):
        if not values.keys() <= set(names):
            raise unknown_agent("VmasWrapper", values, names)
        return [values[name] for name in names]
    if len(values) != len(names):
        raise GroupError(f"VmasWrapper: the scenario gave values of {len(values)} agents, and has {len(names)}")
    return values


def spec_of_example(example: Any) -> TensorSpec:
    """The spec of an agent's observations or infos ``[B, ...]``, which may be nested dicts; numbers get one
    dimension.
    """
    if isinstance(example, Mapping):
        return Composite({name: spec_of_example(value) for name, value in example.items()})
    return Unbounded(example.shape[1:] or (1,), dtype=example.dtype)


def shaped(value: Any) -> Any:
    """Numbers ``[B]`` as ``[B, 1]``, in nested dicts too."""
    if isinstance(value, Mapping):
        return {name: shaped(one) for name, one in value.items()}
    return value if value.ndim > 1 else value.unsqueeze(-1)


class Held:
    """A VMAS ``Environment`` on its way to a copy, whose functions hold the copy's own scenario, world and entities."""

    def __init__(self, sim: Any) -> None:
        self.sim = sim

    def __deepcopy__(self, memo: dict[int, Any]) -> Held:
        scripts = [agent.action_script for agent in self.sim.world.scripted_agents]
        modules = {getattr(one, "__module__", "") for one in (*type(self.sim.scenario).__mro__, *scripts)}
        made = Held(deepcopy(self.sim, memo))
        own_functions(modules, memo)
        return made
