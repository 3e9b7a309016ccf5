"""PettingZoo's interface of turns where players are out before the game is over, beside PettingZoo's own loop."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from tensordict import TensorDict, TensorDictBase

from marlenv import Categorical, Composite, EnvBase, PettingZooWrapper, Unbounded, to_pettingzoo_aec
from marlenv.errors import Unsupported
from marlenv.specs import Binary

pettingzoo = pytest.importorskip("pettingzoo", reason="needs PettingZoo: pip install -e '.[pettingzoo]'")
spaces = pytest.importorskip("gymnasium.spaces", reason="needs gymnasium: pip install -e '.[gymnasium]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # PettingZoo recommends names, and boxes alone
NAMES = ["a_0", "b_0", "c_0", "d_0"]


class LastOneWins(pettingzoo.AECEnv):
    """Players move in turn; each is out after so many moves of all, and sees that number last."""

    metadata: ClassVar[dict[str, Any]] = {"name": "last_one_wins", "is_parallelizable": False}
    render_mode = None

    def __init__(self, out: dict[str, int]) -> None:
        super().__init__()
        self.possible_agents, self.out = list(out), out

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0, 99, (2,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.moves, self.agents, self._skip_agent_selection = 0, list(self.possible_agents), None
        self.rewards, self._cumulative_rewards = (dict.fromkeys(self.agents, 0.0) for _ in range(2))
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.infos: dict[str, Any] = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[0]

    def observe(self, agent: str) -> Any:
        return np.array([self.moves, self.possible_agents.index(agent)], np.float32)

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent]:
            return self._was_dead_step(action)
        self.moves += 1
        self._cumulative_rewards[agent] = 0.0
        for one in self.agents:
            self.terminations[one] = self.moves >= self.out[one]
            self.rewards[one] = -1.0 if self.terminations[one] else 0.5
        self._accumulate_rewards()
        at = self.agents.index(agent)
        order = self.agents[at + 1 :] + self.agents[: at + 1]
        self.agent_selection = next((one for one in order if not self.terminations[one]), order[0])
        self._deads_step_first()
        return None


def heard(zoo: Any) -> list[tuple[str, list[float], float, bool, list[str]]]:
    """Of every turn: whose it is, what ``last()`` tells, and who is there."""
    zoo.reset(seed=0)
    turns = []
    for agent in zoo.agent_iter(60):
        seen, paid, terminated, truncated, _ = zoo.last()
        turns.append((agent, seen.tolist(), float(paid), bool(terminated), list(zoo.agents)))
        zoo.step(None if terminated or truncated else 1)
    return turns


@pytest.mark.parametrize("groups", ["one_group_per_agent", "all_in_one_group"])
@pytest.mark.parametrize("out", [(2, 9, 9, 9), (4, 1, 9, 6), (3, 3, 3, 7), (5, 5, 5, 5), (1, 1, 1, 8)])
def test_who_is_out_leaves_with_what_it_saw_last(out: tuple[int, ...], groups: str) -> None:
    """All that PettingZoo's own env says, turn by turn; at the end all leave, in whatever order."""
    theirs = LastOneWins(dict(zip(NAMES, out, strict=True)))
    ours = to_pettingzoo_aec(PettingZooWrapper(LastOneWins(theirs.out), group_map=groups))
    expected, got = heard(theirs), heard(ours)
    last = sum(n == max(out) for n in out)
    assert got[:-last] == expected[:-last]
    assert sorted(turn[:4] for turn in got[-last:]) == sorted(turn[:4] for turn in expected[-last:])
    assert heard(ours) == got  # another episode


def test_a_reset_among_those_who_leave_starts_anew() -> None:
    zoo = to_pettingzoo_aec(PettingZooWrapper(LastOneWins(dict(zip(NAMES, (2, 2, 9, 9), strict=True)))))
    whole = heard(zoo)
    zoo.reset(seed=0)
    zoo.step(1)
    zoo.step(1)
    assert (zoo.agent_selection, zoo.terminations["a_0"]) == ("a_0", True)
    assert heard(zoo) == whole


def test_pettingzoos_check_passes_where_players_are_out_early() -> None:
    from pettingzoo.test import api_test

    api_test(to_pettingzoo_aec(PettingZooWrapper(LastOneWins(dict(zip(NAMES, (2, 7, 4, 9), strict=True))))), 60)


class Phoenix(EnvBase):
    """``a`` and ``b`` act in turn; ``a`` is done in the first step, and comes back in the third."""

    def __init__(self) -> None:
        super().__init__(batch_size=())
        self.group_map = {"a": ["a"], "b": ["b"]}
        flag = Binary(shape=(1,), dtype=torch.bool)
        seen = {"observation": Unbounded((1, 2)), "mask": flag, "alive": flag}
        self.observation_spec = Composite({group: Composite(seen, shape=(1,)) for group in "ab"})
        self.action_spec = Composite({g: Composite(action=Categorical(4, (1,)), shape=(1,)) for g in "ab"})
        self.reward_spec = Composite({g: Composite(reward=Unbounded((1, 1)), shape=(1,)) for g in "ab"})
        done = Composite(terminated=Binary(shape=(1, 1), dtype=torch.bool), shape=(1,))
        self.full_done_spec = Composite(
            {"a": done, "b": done.clone(), "terminated": Binary(shape=(1,), dtype=torch.bool)}
        )

    def _seen(self) -> TensorDict:
        dead = self.steps in (1, 2)
        flags = {"a": (not dead, self.steps in (0, 3)), "b": (True, self.steps in (1, 2))}
        seen = {
            group: {"observation": torch.zeros(1, 2), "alive": torch.tensor([on]), "mask": torch.tensor([acts])}
            for group, (on, acts) in flags.items()
        }
        return TensorDict({group: TensorDict(one, (1,)) for group, one in seen.items()}, ())

    def _reset(self, tensordict: TensorDictBase | None, **_: Any) -> TensorDictBase:
        self.steps = 0
        return self._seen()

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.steps += 1
        out = self._seen()
        for group in "ab":
            out[group, "reward"] = torch.ones(1, 1)
            out[group, "terminated"] = ~out[group, "alive"].unsqueeze(-1)
        return out.set("terminated", torch.tensor([False]))

    def _set_seed(self, seed: int | None) -> None:
        pass


def test_who_left_may_not_come_back() -> None:
    zoo = to_pettingzoo_aec(Phoenix())
    zoo.reset(seed=0)
    zoo.step(1)
    assert (zoo.agent_selection, zoo.agents, zoo.last()[1:3]) == ("a", ["a", "b"], (1.0, True))
    zoo.step(None)
    assert (zoo.agent_selection, zoo.agents) == ("b", ["b"])
    zoo.step(1)
    with pytest.raises(Unsupported, match=r"\['a'\] were done and are born again"):
        zoo.step(1)
