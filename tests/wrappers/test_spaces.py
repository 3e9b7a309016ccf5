"""Spaces that count from somewhere else, have several choices, or are tuples: both interfaces, beside the raw
simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.agent_selector import AgentSelector
from tensordict import NonTensorStack

from marlenv import PettingZooWrapper
from marlenv.errors import SpecError
from marlenv.testing import run_contract

pytestmark = pytest.mark.sim

BOX = spaces.Box(-1, 1, (2,), np.float32)
SPACES: dict[str, Any] = {
    "Discrete": spaces.Discrete(3),
    "Discrete from 2": spaces.Discrete(3, start=2),
    "Discrete from -1": spaces.Discrete(3, start=-1),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
    "MultiDiscrete with starts": spaces.MultiDiscrete([2, 3], start=[5, -1]),
    "MultiDiscrete of two dimensions": spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [2, 3]]),
    "MultiBinary": spaces.MultiBinary(3),
    "Box": BOX,
    "Tuple": spaces.Tuple([spaces.Discrete(3, start=2), BOX]),
    "Tuple in a Dict": spaces.Dict(pair=spaces.Tuple([BOX, spaces.MultiDiscrete([2, 2], start=[1, 1])]), alone=BOX),
    "Dict": spaces.Dict(n=spaces.Discrete(4, start=1), x=BOX),
    "Box of uint16": spaces.Box(0, 9, (2,), np.uint16),
    "dtypes of its own": spaces.Dict(
        n=spaces.MultiDiscrete([2, 3], start=[1, 2], dtype=np.int32), x=spaces.Box(0, 9, (2,), np.uint32)
    ),
}
AGENTS = ["echo_0", "echo_1"]


class Echo:
    """What both interfaces share: it notes down actions, and shows values of its observation space."""

    metadata = {"name": "echo", "is_parallelizable": True}

    def __init__(self, observed: Any, acted: Any, mask: Any = None) -> None:
        self.possible_agents, self._observed, self._acted, self._mask = list(AGENTS), observed, acted, mask
        self.heard: list[Any] = []
        self.shown: list[Any] = []

    def observation_space(self, agent: str) -> Any:
        return self._observed

    def action_space(self, agent: str) -> Any:
        return self._acted

    def hear(self, action: Any) -> None:
        assert self._acted.contains(action), (self._acted, action)
        self.heard.append(action)

    def info(self) -> Any:
        return {} if self._mask is None else {"action_mask": self._mask}


class ParallelEcho(Echo, ParallelEnv):
    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.t, self.agents = 0, list(AGENTS)
        return self._show()

    def step(self, actions: Any) -> Any:
        self.t += 1
        for agent in self.agents:
            self.hear(actions[agent])
        over, agents = self.t == 4, list(self.agents)
        self.agents = [] if over else self.agents
        seen, infos = self._show(agents)
        return seen, dict.fromkeys(agents, 1.0), dict.fromkeys(agents, over), dict.fromkeys(agents, False), infos

    def _show(self, agents: Any = None) -> Any:
        seen = {a: self._observed.sample() for a in agents or self.agents}
        self.shown.append(seen)
        return seen, {a: self.info() for a in seen}


class TurnsEcho(Echo, AECEnv):
    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.t, self.agents = 0, list(AGENTS)
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        self._cumulative_rewards = dict(self.rewards)
        self.terminations, self.truncations = dict.fromkeys(AGENTS, False), dict.fromkeys(AGENTS, False)
        self.infos = {a: self.info() for a in AGENTS}
        self._order = AgentSelector(self.agents)
        self.agent_selection = self._order.next()

    def observe(self, agent: str) -> Any:
        seen = self._observed.sample()
        self.shown.append({agent: seen})
        return seen

    def step(self, action: Any) -> None:
        if self.terminations[self.agent_selection]:
            self._was_dead_step(action)
            return
        self.hear(action)
        self.t += 1
        if self.t == 4:
            self.terminations = dict.fromkeys(AGENTS, True)
        self.agent_selection = self._order.next()


def as_entry(space: Any, value: Any) -> Any:
    """A value of a space as its entry, written down kind by kind."""
    if isinstance(space, spaces.Tuple):
        return {str(i): as_entry(s, v) for i, (s, v) in enumerate(zip(space.spaces, value, strict=True))}
    if isinstance(space, spaces.Dict):
        return {name: as_entry(s, value[name]) for name, s in space.spaces.items()}
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        return np.asarray(value) - np.asarray(space.start)
    return np.asarray(value)


def same(entry: Any, want: Any) -> bool:
    if isinstance(want, dict):
        return all(same(entry[name], one) for name, one in want.items())
    return np.array_equal(np.asarray(entry).reshape(np.shape(want)), want)


@pytest.mark.parametrize("acted", SPACES)
@pytest.mark.parametrize(
    "observed", ["Box", "Discrete from 2", "MultiDiscrete with starts", "Tuple", "Tuple in a Dict"]
)
@pytest.mark.parametrize("kind", [ParallelEcho, TurnsEcho])
def test_what_is_seen_and_done_is_the_simulators(kind: Any, observed: str, acted: str) -> None:
    sim = kind(SPACES[observed], SPACES[acted])
    env = PettingZooWrapper(sim, done_on_any=False)
    env.check_env_specs()
    env.set_seed(0)
    td, checked = env.reset(), 0
    while not bool(td["done"]):
        env.full_observation_spec.assert_is_in(td.select("echo"))
        shown = {agent: seen for told in sim.shown for agent, seen in told.items()}
        for i, agent in enumerate(AGENTS):
            if bool(td["echo", "mask"][i]):
                assert same(td["echo", "observation"][i], as_entry(SPACES[observed], shown[agent]))
        sim.heard.clear()
        td = env.rand_action(td)
        acting, played = td["echo", "mask"].tolist(), td["echo", "action"]
        td = env.step_mdp(env.step(td))
        for i, heard in zip([i for i in range(2) if acting[i]], sim.heard, strict=True):
            assert same(played[i], as_entry(SPACES[acted], heard))
            checked += 1
    assert checked >= 4


@pytest.mark.parametrize("name", ["Discrete from 2", "MultiDiscrete", "MultiDiscrete with starts"])
@pytest.mark.parametrize("kind", [ParallelEcho, TurnsEcho])
def test_one_hot_choices_reach_the_simulator_as_its_numbers(kind: Any, name: str) -> None:
    sim = kind(SPACES[name], SPACES[name])
    env = PettingZooWrapper(sim, categorical_actions=False)
    env.check_env_specs()
    sim.heard.clear()
    td = env.rand_action(env.reset())
    env.step(td)
    want = as_entry(SPACES[name], sim.heard[0])
    sizes = [3] if "Multi" not in name else [2, 3]
    vector = torch.cat(
        [torch.nn.functional.one_hot(torch.tensor(int(n)), s) for n, s in zip(np.ravel(want), sizes, strict=True)]
    )
    assert td["echo", "action"][0].int().tolist() == vector.tolist()


@pytest.mark.parametrize("kind", [ParallelEcho, TurnsEcho])
def test_texts_reach_the_simulator(kind: Any) -> None:
    sim = kind(BOX, spaces.Text(3))
    env = PettingZooWrapper(sim)
    td = env.reset()
    acting = int(td["echo", "mask"].sum())
    td["echo", "action"] = NonTensorStack("a", "bc")
    env.step(td)
    assert sim.heard == ["a", "bc"][:acting]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.booleans(), min_size=5, max_size=5).filter(lambda m: any(m[:2]) and any(m[2:])), st.booleans())
def test_several_choices_are_masked_together(legal: list[bool], parts: bool) -> None:
    mask = np.array(legal, np.int8)
    given_mask = (mask[:2], mask[2:]) if parts else mask
    env = PettingZooWrapper(ParallelEcho(BOX, SPACES["MultiDiscrete with starts"], given_mask))
    td = env.reset()
    assert td["echo", "action_mask"][0].tolist() == legal
    for _ in range(5):
        first, second = env.rand_action(td.clone())["echo", "action"][0].tolist()
        assert legal[first]
        assert legal[2 + second]


@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize(
    ("later", "times"), [([1, 1, 1, 1, 1], 3), ([0, 1, 0, 0, 1], 3), ([1, 0, 1, 1, 1], 1), ([1, 1, 1, 1, 0], 1)]
)
def test_several_choices_are_repeated_while_all_are_legal(later: list[int], times: int, categorical: bool) -> None:
    sim = ParallelEcho(BOX, SPACES["MultiDiscrete with starts"], np.ones(5, np.int8))
    env = PettingZooWrapper(sim, frame_skip=3, categorical_actions=categorical)
    td = env.reset()
    td["echo", "action"] = torch.tensor([[1, 2] if categorical else [0, 1, 0, 0, 1]]).expand(2, -1)
    sim._mask = np.array(later, np.int8)
    env.step(td)
    assert [heard.tolist() for heard in sim.heard] == [[6, 1]] * 2 * times


def test_a_mask_of_an_action_that_is_no_choice_is_an_error() -> None:
    with pytest.raises(SpecError, match="actions of a Box space cannot be masked"):
        PettingZooWrapper(ParallelEcho(BOX, BOX, np.ones(2, np.int8)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ParallelEcho, TurnsEcho])
@pytest.mark.parametrize("name", ["MultiDiscrete with starts", "Tuple"])
def test_the_contract_holds(kind: Any, name: str) -> None:
    def make() -> PettingZooWrapper:
        sim = kind(spaces.Discrete(1, start=3), SPACES[name])  # what it shows is always the same
        return PettingZooWrapper(sim)

    broken = [f"{r.name}: {r.says}" for r in run_contract(make) if r.verdict == "broken"]
    assert not broken, "\n".join(broken)
