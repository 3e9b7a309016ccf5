"""Agents of one group that act or observe unlike: each gets its own actions, legal ones only, alone and in pools."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete
from pettingzoo import ParallelEnv as Parallel

from marlenv import PettingZooWrapper, SerialEnv, check_env_specs
from marlenv.testing import run_contract

pytestmark = pytest.mark.sim


class Game(Parallel):
    """Keeps what it was told; with ``masked`` the last choice of each of those agents alone is legal."""

    metadata = {"name": "unlike"}  # noqa: RUF012
    possible_agents = ["a_0", "a_1"]  # noqa: RUF012

    def __init__(self, acts: dict[str, Any], width: tuple[int, ...] = (2, 2), masked: tuple[str, ...] = ()) -> None:
        self.acts, self.width, self.masked = acts, dict(zip(self.possible_agents, width, strict=True)), masked
        self.told: list[dict[str, Any]] = []

    def mask(self, agent: str) -> np.ndarray:
        """The last choice."""
        return np.arange(self.acts[agent].n) == self.acts[agent].n - 1

    def observation_space(self, agent: str) -> Any:
        """Numbers, and a mask where it has one."""
        seen = {"observation": Box(-1, 1, (self.width[agent],), np.float32)}
        if agent in self.masked:
            seen["action_mask"] = Box(0, 1, (self.acts[agent].n,), np.int8)
        return Dict(seen)

    def action_space(self, agent: str) -> Any:
        """As given."""
        return self.acts[agent]

    def _seen(self) -> dict[str, Any]:
        seen = {a: {"observation": np.zeros(self.width[a], np.float32)} for a in self.agents}
        for agent in self.masked:
            seen[agent]["action_mask"] = self.mask(agent).astype(np.int8)
        return seen

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        """From the beginning."""
        self.agents = self.possible_agents[:]
        return self._seen(), {a: {} for a in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        """Nothing happens."""
        self.told.append({a: np.asarray(x).tolist() for a, x in actions.items()})
        no = dict.fromkeys(self.agents, False)
        return self._seen(), dict.fromkeys(self.agents, 1.0), no, no, {a: {} for a in self.agents}


UNLIKE = {
    "choices": {"a_0": Discrete(3), "a_1": Discrete(50)},
    "numbers": {"a_0": Box(-1, 1, (3,)), "a_1": Box(-1, 1, (2,))},
}


@pytest.mark.parametrize(("acts", "unequal"), [("choices", "stack"), ("numbers", "stack"), ("numbers", "pad")])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_every_agent_of_a_series_is_told_its_own_action(rows: int, acts: str, unequal: Any) -> None:
    games = [Game(UNLIKE[acts]) for _ in range(rows)]
    env = SerialEnv(rows, [lambda game=game: PettingZooWrapper(game, unequal=unequal) for game in games])
    td = env.rand_action(env.reset())
    env.step(td)
    for row, game in zip(td.unbind(0), games, strict=True):
        agents = row["a"].unbind(0)
        for agent, one in zip(game.possible_agents, agents, strict=True):
            chosen = one["action"]
            own = chosen[: game.acts[agent].shape[0]] if acts == "numbers" else chosen
            assert own.tolist() == game.told[0][agent]


@pytest.mark.parametrize("unequal", ["stack", "pad"])
@pytest.mark.parametrize(
    ("choices", "width", "masked"),
    [((5, 5), (2, 2), ("a_0", "a_1")), ((3, 5), (2, 2), ("a_0", "a_1")), ((5, 5), (2, 3), ("a_0", "a_1"))]
    + [((3, 5), (2, 3), ("a_1",)), ((3, 5), (2, 2), ("a_0",))],
)
def test_random_actions_of_unlike_agents_are_legal(
    choices: tuple[int, int], width: tuple[int, int], masked: tuple[str, ...], unequal: Any
) -> None:
    acts = {agent: Discrete(n) for agent, n in zip(Game.possible_agents, choices, strict=True)}
    game = Game(acts, width, masked)
    env = PettingZooWrapper(game, unequal=unequal)
    env.set_seed(0)
    data = env.rollout(60)
    for agent in Game.possible_agents:
        played = {told[agent] for told in game.told}
        assert played == ({acts[agent].n - 1} if agent in masked else set(range(acts[agent].n)))
    for one, agent in zip(data["next", "a"].unbind(1), Game.possible_agents, strict=True):
        legal = one["action_mask"][0, : acts[agent].n].tolist()
        assert legal == (game.mask(agent).tolist() if agent in masked else [True] * acts[agent].n)
        assert not one["action_mask"][..., acts[agent].n :].any()


@pytest.mark.slow
def test_the_contract_sees_illegal_actions_of_unlike_agents() -> None:
    def make() -> PettingZooWrapper:
        return PettingZooWrapper(Game({"a_0": Discrete(3), "a_1": Discrete(5)}, masked=("a_0", "a_1")))

    assert [result.name for result in run_contract(make) if result.verdict == "broken"] == []
    env = make()
    td = env.rand_action(env.reset())
    assert torch.equal(torch.stack([one["action"] for one in td["a"].unbind(0)]), torch.tensor([2, 4]))


class Herds(Game):
    """Six groups of two who act unlike."""

    possible_agents = [f"{herd}_{i}" for herd in "abcdef" for i in range(2)]  # noqa: RUF012


def test_unlike_groups_draw_in_their_order() -> None:
    """The order in a set of names would be another in the next process, and with it the draws of a seed."""
    acts = {agent: Discrete(3 + int(agent[-1])) for agent in Herds.possible_agents}
    env = PettingZooWrapper(Herds(acts, (2,) * 12, tuple(acts)))
    assert list(env.plan.parts) == [(herd,) for herd in "abcdef"]


@pytest.mark.parametrize("width", [(2, 2), (2, 3)])
def test_what_padding_is_is_seen_and_no_action(width: tuple[int, int]) -> None:
    """The flags of padded actions were actions themselves: drawn at random, and asked of every policy."""
    acts = {"a_0": Box(-1, 1, (1,)), "a_1": Box(-1, 1, (3,))}
    env = PettingZooWrapper(Game(acts, width), unequal="pad", group_map="all_in_one_group", seed=0)
    own = torch.tensor([[True, False, False], [True, True, True]])
    assert (env.action_keys, env.reward_keys) == ([("agents", "action")], [("agents", "reward")])
    td = env.rollout(3, lambda td: td.set(("agents", "action"), torch.full((2, 3), 0.5) * own))
    for told in (td, td["next"]):
        assert torch.equal(told["agents", "pad_mask", "action"], own.expand(3, 2, 3))
        seen = told["agents", "pad_mask"].get(("observation", "observation"), None)
        assert (seen is None) if width == (2, 2) else (seen[0].sum(-1).tolist() == [2, 3])
    assert list(env._env.told[-1].values()) == [[0.5], [0.5, 0.5, 0.5]]
    check_env_specs(env)
