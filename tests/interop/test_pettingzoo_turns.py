"""PettingZoo's interface of turns where now one agent is to act, and now several."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from tensordict import TensorDict, TensorDictBase

from marlenv import Categorical, Composite, EnvBase, PettingZooWrapper, Unbounded, to_pettingzoo_aec
from marlenv.errors import DtypeError, IllegalAction, ShapeError

pettingzoo = pytest.importorskip("pettingzoo", reason="needs PettingZoo: pip install -e '.[pettingzoo]'")
spaces = pytest.importorskip("gymnasium.spaces", reason="needs gymnasium: pip install -e '.[gymnasium]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # PettingZoo recommends names, and boxes alone


class Late(pettingzoo.ParallelEnv):
    """``a_0`` is there from the start, ``b_0`` comes in the second step; each is paid the number it plays."""

    metadata: ClassVar[dict[str, Any]] = {"name": "late"}
    possible_agents: ClassVar[list[str]] = ["a_0", "b_0"]

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-1, 1, (2,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(4)

    def _seen(self) -> Any:
        return {agent: np.zeros(2, np.float32) for agent in self.agents}, {agent: {} for agent in self.agents}

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.played = ["a_0"], list[dict[str, int]]()
        return self._seen()

    def step(self, actions: dict[str, Any]) -> Any:
        self.played.append({agent: int(action) for agent, action in actions.items()})
        self.agents, over = list(self.possible_agents), len(self.played) == 4
        those, (seen, infos) = self.agents, self._seen()
        self.agents = [] if over else those
        paid = {agent: float(actions.get(agent, 0)) for agent in those}
        return seen, paid, dict.fromkeys(those, over), dict.fromkeys(those, False), infos


class Mixed(EnvBase):
    """``a`` acts alone, then both at once, then ``b`` alone; each is paid what it plays."""

    acting = ((True, False), (True, True), (False, True), (False, False))

    def __init__(self) -> None:
        super().__init__(batch_size=())
        self.group_map = {"a": ["a"], "b": ["b"]}
        seen = {"observation": Unbounded((1, 2)), "mask": Categorical(2, (1,), dtype=torch.bool)}
        self.observation_spec = Composite({group: Composite(seen, shape=(1,)) for group in "ab"})
        self.action_spec = Composite({g: Composite(action=Categorical(4, (1,)), shape=(1,)) for g in "ab"})
        self.reward_spec = Composite({g: Composite(reward=Unbounded((1, 1)), shape=(1,)) for g in "ab"})
        self.played: list[tuple[int, int]] = []
        self.refused = -1

    def _seen(self, now: int) -> TensorDict:
        masks = dict(zip("ab", self.acting[now], strict=True))
        seen = {g: {"observation": torch.full((1, 2), float(now)), "mask": torch.tensor([masks[g]])} for g in "ab"}
        return TensorDict({group: TensorDict(one, (1,)) for group, one in seen.items()}, ())

    def _reset(self, tensordict: TensorDictBase | None, **_: Any) -> TensorDictBase:
        self.played = []
        return self._seen(0)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if int(tensordict["a", "action"]) == self.refused:
            raise IllegalAction("not this one")
        self.played.append((int(tensordict["a", "action"]), int(tensordict["b", "action"])))
        out = self._seen(len(self.played))
        for group, action in zip("ab", self.played[-1], strict=True):
            out[group, "reward"] = torch.tensor([[float(action)]])
        return out.set("terminated", torch.tensor([len(self.played) == 3]))

    def _set_seed(self, seed: int | None) -> None:
        pass


def play(zoo: Any, numbers: dict[str, int]) -> tuple[list[str], dict[str, float]]:
    """Every agent plays its number; who was asked, in order, and what ``last()`` told each that it got."""
    zoo.reset(seed=0)
    asked, paid = [], dict.fromkeys(numbers, 0.0)
    for agent in zoo.agent_iter(30):
        _, reward, terminated, truncated, _ = zoo.last()
        paid[agent] += reward
        asked += [] if terminated or truncated else [agent]
        zoo.step(None if terminated or truncated else numbers[agent])
    return asked, paid


def test_one_who_comes_late_is_asked() -> None:
    """PettingZoo's own adapter of turns hands the same actions to the same env."""
    inner, theirs, numbers = Late(), Late(), {"a_0": 3, "b_0": 2}
    asked, paid = play(to_pettingzoo_aec(PettingZooWrapper(inner)), numbers)
    assert inner.played == [{"a_0": 3}, *[{"a_0": 3, "b_0": 2}] * 3]
    assert asked == ["a_0", *["a_0", "b_0"] * 3]
    assert paid == {"a_0": 12.0, "b_0": 6.0}
    assert play(pettingzoo.utils.conversions.parallel_to_aec(theirs), numbers)[0] == asked
    assert inner.played == theirs.played


def test_all_who_act_in_a_position_are_asked_before_it_moves() -> None:
    inner = Mixed()
    zoo = to_pettingzoo_aec(inner)
    asked, paid = play(zoo, {"a": 3, "b": 2})
    assert asked == ["a", "a", "b", "b"]
    assert inner.played == [(3, 0), (3, 2), (0, 2)]  # 0: not asked, and not read
    assert paid == {"a": 6.0, "b": 4.0}
    assert zoo.agents == []


def test_pettingzoos_check_passes_where_turns_mix() -> None:
    from pettingzoo.test import api_test

    api_test(to_pettingzoo_aec(Mixed()), 50)
    api_test(to_pettingzoo_aec(PettingZooWrapper(Late())), 50)


def test_a_wrong_answer_is_refused_at_once_and_asked_for_again() -> None:
    inner = Mixed()
    zoo = to_pettingzoo_aec(inner)
    zoo.reset(seed=0)
    zoo.step(1)
    with pytest.raises(DtypeError, match="'a' is to act"):
        zoo.step(None)
    with pytest.raises(ShapeError, match="agent 'a' must have shape"):
        zoo.step(np.array([1, 2]))
    assert (zoo.agent_selection, zoo.rewards) == ("a", {"a": 1.0, "b": 0.0})
    zoo.step(2)
    assert (zoo.agent_selection, zoo.rewards) == ("b", {"a": 0.0, "b": 0.0})
    assert inner.played == [(1, 0)]
    with pytest.raises(DtypeError, match="'b' is to act"):
        zoo.step(None)
    zoo.step(3)
    assert inner.played == [(1, 0), (2, 3)]
    zoo.reset()
    zoo.step(1)
    zoo.step(1)
    zoo.reset()
    assert zoo.agent_selection == "a"
    zoo.step(3)
    assert inner.played == [(3, 0)]


def test_where_the_env_refuses_the_actions_all_are_asked_anew() -> None:
    inner = Mixed()
    zoo = to_pettingzoo_aec(inner)
    zoo.reset(seed=0)
    inner.refused = 2
    for action in (1, 2):
        zoo.step(action)
    with pytest.raises(IllegalAction):
        zoo.step(3)
    for agent, action in (("b", 3), ("a", 1)):
        assert zoo.agent_selection == agent
        zoo.step(action)
    assert inner.played == [(1, 0), (1, 3)]
