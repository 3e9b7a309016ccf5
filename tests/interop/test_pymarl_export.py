"""Our envs behind PyMARL's and EPyMARL's interfaces, stepped as their runners do, beside our env.

Neither is on a package registry; the runner is written after ``src/runners/episode_runner.py`` of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from marlenv.groups import group_specs

import marlenv
from marlenv import to_pymarl
from marlenv.errors import (
    DtypeError,
    EnvClosed,
    IllegalAction,
    NeedsReset,
    ShapeError,
    SpecError,
    SpecTypeError,
    Unsupported,
)
from marlenv.interop.agents import Agents
from marlenv.testing.mocks import GroupedEnv

pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")
METHODS = [
    "step", "get_obs", "get_obs_agent", "get_obs_size", "get_state", "get_state_size", "get_avail_actions",
    "get_avail_agent_actions", "get_total_actions", "reset", "render", "close", "seed", "save_replay", "get_env_info",
    "get_stats",
]  # fmt: skip


def scenario(name: str = "simple_spread", **options: Any) -> Any:
    return marlenv.make(name, compile="none", **{"continuous_actions": False, "max_steps": 9, **options})


def episode(env: Any, style: str, rng: np.random.Generator) -> dict[str, Any]:
    """An episode as the runners collect it: a batch by name, and what it paid."""
    env.reset()
    batch: dict[str, list[Any]] = {"state": [], "avail_actions": [], "obs": [], "actions": [], "terminated": []}
    total, over = 0.0, False
    while not over:
        batch["state"].append(env.get_state())
        batch["avail_actions"].append(env.get_avail_actions())
        batch["obs"].append(env.get_obs())
        actions = [int(rng.choice(np.flatnonzero(row))) for row in batch["avail_actions"][-1]]
        if style == "pymarl":
            reward, over, info = env.step(actions)
        else:
            _, reward, terminated, truncated, info = env.step(actions)
            over = terminated or truncated
        batch["actions"].append(actions)
        batch["terminated"].append(over and not info.get("episode_limit", False))
        total += reward
    return {**{name: np.array(values) for name, values in batch.items()}, "return": total}


@pytest.mark.parametrize("style", ["pymarl", "epymarl"])
def test_an_episode_is_that_of_our_env(style: str) -> None:
    theirs, env = to_pymarl(scenario(), style=style), scenario()
    theirs.seed(4)
    env.set_seed(4)
    batch = episode(theirs, style, np.random.default_rng(0))
    info = theirs.get_env_info()
    assert batch["state"].shape == (9, info["state_shape"])
    assert batch["obs"].shape == (9, info["n_agents"], info["obs_shape"])
    assert batch["avail_actions"].shape == (9, info["n_agents"], info["n_actions"])
    assert not batch["terminated"].any()  # the limit cuts it off
    td, paid = env.reset(), 0.0
    for step in range(9):
        seen = td["agents", "observation"][0].numpy()
        assert np.array_equal(batch["obs"][step], seen)
        assert np.array_equal(batch["state"][step], seen.reshape(-1))
        data = env.step(td.set(("agents", "action"), torch.from_numpy(batch["actions"][step]).unsqueeze(0)))
        paid += float(data["next", "agents", "reward"].double().sum())
        td = env.step_mdp(data)
    assert batch["return"] == pytest.approx(paid, abs=1e-5)


def test_it_has_every_method_of_multi_agent_env() -> None:
    assert [name for name in METHODS if not callable(getattr(to_pymarl(scenario()), name, None))] == []


def test_players_in_turn_have_one_action_each_while_they_wait() -> None:
    env = to_pymarl(marlenv.make("tic_tac_toe"), episode_limit=9)
    env.reset()
    assert env.get_avail_actions() == [[1] * 9, [1] + [0] * 8]
    env.step([4, 0])
    assert env.get_avail_actions() == [[1] + [0] * 8, [1, 1, 1, 1, 0, 1, 1, 1, 1]]
    for x, o in ((0, 0), (3, 0), (0, 1), (5, 0)):
        reward, over, info = env.step([x, o])
    assert (reward, over, info) == (0.0, True, {})  # x won: +1 and -1; it terminated, nothing cut it off
    assert to_pymarl(marlenv.make("tic_tac_toe"), episode_limit=9, common_reward=False).get_total_actions() == 9


def test_an_opponents_seat_is_no_agent() -> None:
    env = to_pymarl(marlenv.make("tic_tac_toe", opponent="random", seed=0), episode_limit=9)
    env.reset()
    assert (env.agents, env.get_avail_actions()) == (["x"], [[1] * 9])
    env.step([4])
    assert sum(env.get_avail_actions()[0]) == 7


def test_groups_of_unlike_agents_are_padded() -> None:
    env = to_pymarl(scenario("simple_tag"))
    env.reset()
    seen = env.get_obs()
    assert env.get_env_info() == {
        "state_shape": 64, "obs_shape": 16, "n_actions": 9, "n_agents": 4, "episode_limit": 9
    }  # fmt: skip
    assert [int(np.count_nonzero(one[14:])) for one in seen][-1] == 0
    assert np.array_equal(env.get_state(), np.concatenate(seen))
    assert np.array_equal(env.get_obs_agent(2), seen[2])


def test_a_limit_of_ones_own_cuts_off() -> None:
    env = to_pymarl(scenario(), episode_limit=3, style="epymarl", common_reward=False)
    env.reset(seed=1)
    steps = [env.step([0, 1, 2])[1:] for _ in range(3)]
    assert [(t, c, info) for _, t, c, info in steps] == [(False, False, {})] * 2 + [
        (False, True, {"episode_limit": True})
    ]
    assert [len(reward) for reward, *_ in steps] == [3, 3, 3]


class Choosing(GroupedEnv):
    """Agents that die when we say so, and have four actions."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        own = {agent: marlenv.Composite(action=marlenv.Categorical(4)) for agent in self.tree.agents}
        self.action_spec = group_specs(self.tree, own)

    def _step(self, tensordict: Any) -> Any:
        numbers = tensordict.clone()
        numbers["sheep", "action"] = torch.zeros(2, 2)
        return super()._step(numbers)


def test_the_dead_do_nothing() -> None:
    sheep = Choosing(group_map={"sheep": ["s0", "s1"]}, terminate={"s0": 2, "s1": 4}, rule="all")
    env = to_pymarl(sheep, episode_limit=9)
    env.reset()
    told = []
    for _ in range(4):
        legal = env.get_avail_actions()
        told.append([sum(row) for row in legal])
        _, over, info = env.step([int(np.flatnonzero(row)[0]) for row in legal])
    n = env.get_total_actions()
    assert told == [[n, n], [n, n], [1, n], [1, n]]
    assert over
    assert info == {}


def test_a_position_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runners ask for observations, the state and legal actions, and a step looks at these again."""
    read: list[str] = []
    for name in ("observations", "acting", "living"):
        whole = getattr(Agents, name)
        monkeypatch.setattr(Agents, name, lambda self, *a, n=name, f=whole: (read.append(n), f(self, *a))[1])
    env = to_pymarl(marlenv.make("tic_tac_toe", seed=0), episode_limit=9)
    env.reset()
    env.get_state()
    legal = env.get_avail_actions()
    legal[0][0] = 0  # a runner's own
    assert sum(env.get_avail_agent_actions(0)) == 9
    env.step([0, 0])
    assert [read.count(name) for name in ("observations", "living")] == [1, 1]
    with pytest.raises(IllegalAction, match="'o' cannot play action 0"):
        env.step([0, 0])
    assert env.get_avail_actions()[1] == [0] + [1] * 8


def closed() -> Any:
    env = to_pymarl(scenario())
    env.close()
    return env.reset()


def stepped(actions: list[int]) -> Any:
    env = to_pymarl(scenario())
    env.reset()
    return env.step(actions)


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: to_pymarl("simple_spread"), SpecTypeError, "with groups of agents, got str"),
        (lambda: to_pymarl(scenario(num_envs=2)), Unsupported, r"one row, got batch size \[2\]"),
        (lambda: to_pymarl(scenario(continuous_actions=True)), SpecError, "'agent_0/action' is Box.*continuous_a"),
        (lambda: to_pymarl(marlenv.make("tic_tac_toe")), SpecError, "give episode_limit=25"),
        (lambda: to_pymarl(scenario(), style="pymar"), Unsupported, "did you mean 'pymarl'"),
        (lambda: to_pymarl(scenario()).get_obs(), NeedsReset, "reset"),
        (lambda: stepped([0, 1]), ShapeError, "expected 3 actions, one for each agent, got 2"),
        (lambda: stepped([0, 1, None]), DtypeError, "the action of 'agent_2' must be a whole number, got None"),
        (lambda: stepped([0, 1, 9]), IllegalAction, "'agent_2' cannot play action 9"),
        (lambda: to_pymarl(scenario()).save_replay(), Unsupported, "VideoRecorder films"),
        (closed, EnvClosed, "closed"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()
