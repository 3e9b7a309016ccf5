"""Agents of one group that act or observe unlike: each gets its own actions, legal ones only, alone and in pools."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete
from pettingzoo import ParallelEnv as Parallel

from marlenv import Categorical, Composite, PettingZooWrapper, SerialEnv, Unbounded, check_env_specs
from marlenv.errors import GroupError
from marlenv.testing import run_contract
from marlenv.wrappers import AgentSpecs, AgentStep, BatchedAgentsEnv, ParallelSimEnv

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


SEEN = Composite(observation=Unbounded((1,)))


class Cars(ParallelSimEnv):
    """Of ``car_0`` nothing but its spec says what it may do; of the others the simulator says it, too."""

    specs: dict[str, AgentSpecs] = {  # noqa: RUF012
        "car_0": AgentSpecs(SEEN, Categorical(4, mask=torch.tensor([True, False, False, False]))),
        "car_1": AgentSpecs(SEEN, Categorical(4), actions=4),
        "car_2": AgentSpecs(SEEN, Categorical(4, mask=torch.tensor([False, True, True, False])), actions=4),
        "car_3": AgentSpecs(SEEN, Categorical(4, mask=torch.tensor([False, False, False, True])), actions=4),
    }
    told = {"car_1": [1, 1, 0, 0], "car_2": [1, 1, 0, 1]}  # noqa: RUF012
    paid: dict[str, list[float]] = {}  # noqa: RUF012

    def _build_env(self) -> list[Any]:
        return []

    def agent_specs(self) -> dict[str, AgentSpecs]:
        return self.specs

    def look(self) -> dict[str, AgentStep]:
        return {
            a: AgentStep({"observation": [0.0]}, self.paid.get(a, 0.0), action_mask=self.told.get(a))
            for a in self.specs
        }

    def sim_reset(self, seed: int | None) -> dict[str, AgentStep]:
        return self.look()

    def sim_step(self, actions: dict[str, Any]) -> dict[str, AgentStep]:
        self._env.append({a: int(action) for a, action in actions.items()})
        return self.look()


@pytest.mark.parametrize("unequal", ["stack", "pad"])
def test_what_an_agents_own_spec_forbids_is_legal_under_no_mask(unequal: Any) -> None:
    """A fellow's ``action_mask`` gave ``car_0`` one of all True, and what it may not do was drawn."""
    env = Cars(unequal=unequal)
    env.set_seed(0)
    data = env.rollout(60)
    chosen = {agent: {step[agent] for step in env._env} for agent in env.specs}
    assert chosen == {"car_0": {0}, "car_1": {0, 1}, "car_2": {1}, "car_3": {3}}
    masks = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]
    for told in (data, data["next"]):
        assert told["car", "action_mask"].int().tolist() == [masks] * 60
    check_env_specs(env)


class Paid(Cars):
    """Whose agents are paid in one number and in two."""

    specs = {  # noqa: RUF012
        "a": AgentSpecs(SEEN, Categorical(2), reward=Unbounded((1,))),
        "b": AgentSpecs(SEEN, Categorical(2), reward=Unbounded((2,))),
    }
    told = {}  # noqa: RUF012
    paid = {"a": [1.0], "b": [2.0, 3.0]}  # noqa: RUF012


def test_rewards_of_unlike_lengths_in_one_group_are_padded_or_refused_when_specs_are_made() -> None:
    """The first step ended in a bare AttributeError."""
    words = (
        r"^Paid: rewards of the agents of group 'agents' must have one shape, got \[1\] of 'a' and \[2\] of 'b'; pass"
    )
    with pytest.raises(GroupError, match=words):
        Paid(group_map="all_in_one_group")
    padded = Paid(group_map="all_in_one_group", unequal="pad").rollout(1)["next", "agents", "reward"]
    assert padded[0].tolist() == [[1.0, 0.0], [2.0, 3.0]]
    apart = Paid(group_map="one_group_per_agent").rollout(1)["next"]
    assert [apart[name, "reward"].flatten().tolist() for name in "ab"] == [[1.0], [2.0, 3.0]]


class PaidBatch(BatchedAgentsEnv):
    """The same in a batch."""

    rows_are_chosen = True

    def _build_env(self) -> Any:
        return object()

    def agent_specs(self) -> dict[str, AgentSpecs]:
        return Paid.specs

    def sim_reset(self, where: Any) -> Any:
        raise AssertionError

    sim_step = _set_seed = sim_reset


def test_so_they_are_in_a_batch() -> None:
    with pytest.raises(GroupError, match=r"^PaidBatch: rewards of the agents of group 'agents' must have one shape"):
        PaidBatch(batch_size=[2], group_map="all_in_one_group")
