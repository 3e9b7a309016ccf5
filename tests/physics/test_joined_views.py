"""Vectors of agents: what is joined where there are no other agents."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from marlenv.physics import Agent, Scenario, World, join, offset, others
from marlenv.physics.env import ScenarioEnv
from marlenv.physics.jit.tiers import Compiled


class Alone(Scenario):
    """One agent that sees the others, of which there are none, and two that do."""

    def build(self) -> World:
        world = World()
        self.one, self.two = world.add("one", [Agent()]), world.add("two", [Agent()] * 2)
        return world

    def spawn(self) -> None:
        """At the origin."""
        self.two.pos = self.uniform(-1, 1, 2, 2)

    def observe(self) -> Mapping[str, Tensor]:
        """Where the others of the group are."""
        return {name: join(others(offset(group, group))) for name, group in (("one", self.one), ("two", self.two))}

    def rewards(self) -> Mapping[str, Tensor]:
        """The place from left to right."""
        return {"one": self.one.pos[..., 0], "two": self.two.pos[..., 0]}


def test_one_agent_joins_nothing_of_others():
    flags, pos = torch.ones(4, 1, 1, dtype=torch.bool), torch.rand(4, 1, 2)
    for lonely in (others(flags), others(torch.ones(4, 1, 1, 2)), others(flags.unsqueeze(-1))):
        assert join(lonely).shape == join(lonely, lonely).shape == (4, 1, 0)
        assert join(lonely).dtype == torch.float32
        assert torch.equal(join(lonely, pos), pos)


@pytest.mark.slow  # seconds of compiling
def test_an_agent_that_sees_nobody_is_machine_code_too():
    slow, fast = (ScenarioEnv(Alone(), 4, seed=0, compile=tier) for tier in ("none", "aot"))
    one, many = (env.rollout(4)["next"] for env in (slow, fast))
    assert isinstance(fast.engine, Compiled)
    for data in (one, many):
        assert data["one", "observation"].shape == (4, 4, 1, 0)
        seen = data["two", "observation"]
        assert torch.equal(seen[..., 0, :], -seen[..., 1, :])
    assert slow.observation_spec["one", "observation"].shape == (4, 1, 0)
