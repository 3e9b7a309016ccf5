"""``AgentsWrapper``: what can be asked about the agents of somebody else's simulator."""

from __future__ import annotations

from typing import Any

from marlenv.specs import Composite, Stacked, StackedComposite, TensorSpec
from marlenv.wrappers._base import EnvWrapper


class AgentsWrapper(EnvWrapper):
    """An env around a simulator with several agents: what can be asked about them. Abstract."""

    agent_names: list[str]
    """All agents, in the simulator's order."""
    group_map: dict[str, Any]

    @property
    def agent_names_to_indices_map(self) -> dict[str, int]:
        """Agent -> its place in :attr:`agent_names`."""
        return {name: i for i, name in enumerate(self.agent_names)}

    @property
    def het_specs_map(self) -> dict[str, bool]:
        """Group -> whether its agents' specs differ, so that they are stacked lazily."""
        families = (self.full_observation_spec, self.full_action_spec)
        return {name: any(_differ(spec.get(name, None)) for spec in families) for name in self.group_map}

    @property
    def het_specs(self) -> bool:
        """Whether any group has agents whose specs differ."""
        return any(self.het_specs_map.values())

    @property
    def has_action_mask(self) -> dict[str, bool]:
        """Group -> whether legal actions are observed."""
        observed = set(self.full_observation_spec.keys(True, True))
        return {name: (name, "action_mask") in observed for name in self.group_map}


def _differ(spec: TensorSpec | None) -> bool:
    if isinstance(spec, Composite) and not isinstance(spec, StackedComposite):
        return any(map(_differ, spec.values()))
    return isinstance(spec, StackedComposite | Stacked)
