"""What agents saw last stays as it was, whatever a simulator writes into memory that it uses again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from pettingzoo import AECEnv
from tensordict import TensorDictBase

from marlenv import Categorical, Composite, PettingZooWrapper, Unbounded
from marlenv.wrappers import AgentSpecs, AgentStep, TurnSimEnv

KEPT = [[[0, 0], [1, 0]], [[0, 0], [1, 1]], [[0, 2], [1, 1]], [[0, 2], [1, 3]], [[0, 4], [1, 4]]]
"""Seat and time of the last look of either seat; they move in turn, and both look when the game is over."""
ANEW = [[[0, t], [1, t]] for t in range(5)]
EXPECTED = {"acting": KEPT, "all": ANEW}


def pass_on(td: TensorDictBase) -> TensorDictBase:
    return td.set(("p", "action"), torch.zeros(2, dtype=torch.int64))


def seen(env: Any, *key: str) -> list[Any]:
    data = env.rollout(9, policy=pass_on)
    first, then = data[:1].get(("p", *key)), data.get(("next", "p", *key))
    return torch.cat([first, then]).tolist()


class Buffer(TurnSimEnv):
    """Two seats in turn, four moves; everything that they see stands in the same arrays."""

    def _build_env(self) -> Any:
        return spaces.Discrete(2)  # anything will do as the simulator

    def agent_specs(self) -> dict[str, AgentSpecs]:
        one = AgentSpecs(
            Composite(observation=Unbounded((2,))),
            Categorical(3),
            3,
            info=Composite(turn=Unbounded((), dtype=torch.int64)),
        )
        return {"p_0": one, "p_1": one}

    def sim_reset(self, seed: int | None) -> None:
        self.t, self.at, self.legal, self.turn = 0, np.zeros(2, np.float32), np.zeros(3, bool), np.zeros((), np.int64)

    def sim_play(self, actions: dict[str, Any]) -> dict[str, Any]:
        self.t += 1
        return dict.fromkeys(("p_0", "p_1"), (0.0, False, False))

    def sim_acting(self) -> set[str]:
        return {f"p_{self.t % 2}"} if self.t < 4 else set()

    def sim_look(self, agent: str) -> AgentStep:
        seat = int(agent[-1])
        self.at[:], self.legal[:], self.turn[...] = (seat, self.t), (True, seat, not seat), self.t
        return AgentStep({"observation": self.at}, action_mask=self.legal, info={"turn": self.turn})


@pytest.mark.parametrize("observe", EXPECTED)
def test_what_an_agent_saw_last_stays_as_it_was(observe: Any) -> None:
    env, times = Buffer(observe=observe), [[t for _, t in row] for row in EXPECTED[observe]]
    assert seen(env, "observation") == EXPECTED[observe]
    assert seen(env, "info", "turn") == times
    legal = [[[True, False, True], [True, True, False]][t % 2] for t in range(4)]  # of whoever acts
    assert [row[t % 2] for t, row in enumerate(seen(env, "action_mask")[:4])] == legal


class Zoo(AECEnv):
    """The same game, whose observations are of one kind and stand in the same memory."""

    metadata = {"name": "zoo"}  # noqa: RUF012

    def __init__(self, kind: str) -> None:
        self.kind, self.possible_agents = kind, ["p_0", "p_1"]
        self.listed, self.array, self.tensor = [0.0, 0.0], np.zeros(2, np.float32), torch.zeros(2)

    def observation_space(self, agent: str) -> Any:
        box = spaces.Box(-9, 9, (2,), np.float32)
        return {"tuple": spaces.Tuple([box]), "dict": spaces.Dict(at=box)}.get(self.kind, box)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents, self.t, self.agent_selection = ["p_0", "p_1"], 0, "p_0"
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict(self.rewards)
        self.terminations, self.truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)
        self.infos = {agent: {"at": self.array} for agent in self.agents}

    def observe(self, agent: str) -> Any:
        self.listed[:] = int(agent[-1]), self.t
        self.array[:], self.tensor[:] = self.listed, torch.tensor(self.listed)
        forms = {"array": self.array, "list": self.listed, "tensor": self.tensor}
        return {"tuple": [self.listed], "dict": {"at": self.tensor}}.get(self.kind, forms.get(self.kind))

    def step(self, action: Any) -> None:
        if self.terminations[self.agent_selection]:
            self._was_dead_step(action)
            return
        self.t += 1
        self.agent_selection = f"p_{self.t % 2}"
        if self.t == 4:
            self.terminations = dict.fromkeys(self.agents, True)


@pytest.mark.parametrize("observe", EXPECTED)
@pytest.mark.parametrize("kind", ["array", "list", "tensor", "tuple", "dict"])
def test_observations_of_a_turn_based_env_are_copied_whatever_they_are(kind: str, observe: Any) -> None:
    env = PettingZooWrapper(Zoo(kind), observe=observe)
    part = {"tuple": ("0",), "dict": ("at",)}.get(kind, ())
    assert seen(env, "observation", *part) == EXPECTED[observe]
    assert seen(env, "info", "at") == EXPECTED[observe]
