"""A simulator whose agents are as unlike as a test wants them."""

from __future__ import annotations

from typing import Any

import torch

from marlenv import Composite, Unbounded
from marlenv.wrappers import AgentSpecs, AgentStep, ParallelSimEnv

SEEN = Composite(observation=Unbounded((1,)))
SIGHT = {"observation": [0.0], "radar": [1.0, 2.0]}
RADAR = Composite(observation=Unbounded((1,)), radar=Unbounded((2,)))


class World(ParallelSimEnv):
    """Agents as told; the simulator writes down what they do."""

    default_rule = False  # each agent ends by itself

    def __init__(
        self,
        agents: dict[str, AgentSpecs],
        masks: dict[str, list[int]] | None = None,
        ends: dict[str, int] | None = None,
        **options: Any,
    ) -> None:
        self._told, self._masks, self._ends, self._since = agents, masks or {}, ends or {}, 0
        self.done_by = list[dict[str, Any]]()
        super().__init__(**options)

    def _build_env(self) -> object:
        return object()

    def agent_specs(self) -> dict[str, AgentSpecs]:
        return self._told

    def look(self) -> dict[str, AgentStep]:
        def seen(name: str) -> AgentStep:
            has = {key: SIGHT[key] for key in self._told[name].observations.keys()}
            over = len(self.done_by) - self._since >= self._ends.get(name, 10**6)
            return AgentStep(has, 1.0, terminated=over, action_mask=self._masks.get(name))

        return {name: seen(name) for name in self._told}

    def sim_reset(self, seed: int | None) -> dict[str, AgentStep]:
        self._since = len(self.done_by)
        return self.look()

    def sim_step(self, actions: dict[str, Any]) -> dict[str, AgentStep]:
        self.done_by.append({name: torch.as_tensor(action).tolist() for name, action in actions.items()})
        return self.look()
