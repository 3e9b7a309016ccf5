"""Our envs behind PettingZoo's interfaces: the same numbers as our env gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import marlenv
from marlenv import PettingZooWrapper, to_pettingzoo_aec, to_pettingzoo_parallel
from marlenv.errors import DtypeError, IllegalAction, NeedsReset, ShapeError, SpecError, SpecTypeError, Unsupported
from marlenv.testing.mocks import GroupedEnv

pettingzoo = pytest.importorskip("pettingzoo", reason="needs PettingZoo: pip install -e '.[pettingzoo]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # PettingZoo recommends names, and boxes alone


def scenario(name: str = "simple_tag", **options: Any) -> Any:
    return marlenv.make(name, max_steps=20, compile="none", **options)


def begun(zoo: Any) -> Any:
    zoo.reset()
    return zoo


def test_agents_get_what_our_env_gives() -> None:
    zoo, env = to_pettingzoo_parallel(scenario(continuous_actions=False)), scenario(continuous_actions=False)
    env.set_seed(4)
    td, (seen, _) = env.reset(), zoo.reset(seed=4)
    for step in range(20):
        moves = {agent: (step + i) % 5 for i, agent in enumerate(zoo.agents)}
        seen, rewards, terminated, truncated, _ = zoo.step(moves)
        td["adversary", "action"] = torch.tensor([[moves[f"adversary_{i}"] for i in range(3)]])
        td["agent", "action"] = torch.tensor([[moves["agent_0"]]])
        data = env.step(td)
        after = data["next"]
        for i in range(3):
            assert np.array_equal(seen[f"adversary_{i}"], after["adversary", "observation"][0, i].numpy())
            assert rewards[f"adversary_{i}"] == float(after["adversary", "reward"][0, i])
        assert rewards["agent_0"] == float(after["agent", "reward"])
        assert not any(terminated.values())
        assert all(truncated.values()) is (step == 19)
        td = env.step_mdp(data)
    assert zoo.agents == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: to_pettingzoo_parallel(scenario()),
        lambda: to_pettingzoo_aec(scenario()),
        lambda: to_pettingzoo_aec(marlenv.make("tic_tac_toe")),
    ],
    ids=["parallel", "in series", "turns"],
)
def test_spaces_stand_where_pettingzoo_declares_them(make: Any) -> None:
    """PettingZoo's own ``observation_space(agent)`` reads them; skrl's wrapper does, too."""
    zoo = make().unwrapped
    base = pettingzoo.ParallelEnv if isinstance(zoo, pettingzoo.ParallelEnv) else pettingzoo.AECEnv
    for agent in zoo.possible_agents:
        assert base.observation_space(zoo, agent) == zoo.observation_space(agent)
        assert base.action_space(zoo, agent) == zoo.action_space(agent)
    assert list(zoo.action_spaces) == list(zoo.observation_spaces) == zoo.possible_agents


def test_there_and_back_again_is_the_same_trajectory() -> None:
    env, back = (
        scenario(continuous_actions=False),
        PettingZooWrapper(to_pettingzoo_parallel(scenario(continuous_actions=False)), group_map=scenario().group_map),
    )
    for one in (env, back):
        one.set_seed(11)
    td, other = env.reset(), back.reset()
    for step in range(20):
        for group, count in (("adversary", 3), ("agent", 1)):
            action = (torch.arange(count) + step) % 5
            td[group, "action"], other[group, "action"] = action.unsqueeze(0), action
        a, b = env.step(td)["next"][0], back.step(other)["next"]
        for group in ("adversary", "agent"):
            for name in ("observation", "reward", "terminated", "truncated", "done"):
                assert torch.equal(a[group, name], b[group, name]), (step, group, name)
        td, other = env.step_mdp(td), back.step_mdp(other)


def test_a_game_that_is_won_pays_both_players() -> None:
    zoo = to_pettingzoo_aec(marlenv.make("tic_tac_toe"))
    zoo.reset(seed=0)
    for move in (0, 3, 1, 4, 2):
        seen, _, over, _, _ = zoo.last()
        assert not over
        assert seen["action_mask"][move] == 1
        zoo.step(move)
    assert zoo.last()[1:4] == (-1.0, True, False)  # o, who is to hear that it lost
    zoo.step(None)
    assert zoo.last()[1:4] == (1.0, True, False)
    zoo.step(None)
    assert zoo.agents == []


def test_none_of_a_live_agent_is_refused_and_the_game_goes_on() -> None:
    zoo = to_pettingzoo_aec(marlenv.make("tic_tac_toe"))
    zoo.reset(seed=0)
    with pytest.raises(DtypeError, match=r"^to_pettingzoo_aec: 'x' is to act, .*\(None\); give one of Discrete\(9\)"):
        zoo.step(None)
    assert zoo.agent_selection == "x"
    zoo.step(4)
    assert zoo.last()[0]["action_mask"].tolist() == [1, 1, 1, 1, 0, 1, 1, 1, 1]


def test_where_all_act_at_once_none_is_refused_at_once() -> None:
    parallel, zoo = (adapt(marlenv.make("prisoners_dilemma")) for adapt in (to_pettingzoo_parallel, to_pettingzoo_aec))
    parallel.reset()
    zoo.reset()
    for actions in ({"player_0": 0, "player_1": None}, {"player_0": 0}):
        with pytest.raises(DtypeError, match="'player_1' is to act"):
            parallel.step(actions)
    with pytest.raises(DtypeError, match="'player_0' is to act"):
        zoo.step(None)
    for action in (1, 0):
        zoo.step(action)
    assert zoo.rewards == parallel.step({"player_0": 1, "player_1": 0})[1]


def test_those_who_wait_may_give_none() -> None:
    zoo = to_pettingzoo_parallel(marlenv.make("tic_tac_toe"))
    zoo.reset()
    seen = zoo.step({"x": 4, "o": None})[0]
    assert seen["o"]["action_mask"].tolist() == [1, 1, 1, 1, 0, 1, 1, 1, 1]


def test_an_illegal_move_leaves_the_reward_that_is_due() -> None:
    zoo = to_pettingzoo_aec(marlenv.make("hanabi"))
    zoo.reset(seed=0)
    draw = np.random.default_rng(0)
    while not zoo.last()[1]:
        zoo.step(draw.choice(np.flatnonzero(zoo.last()[0]["action_mask"])))
    due, illegal = zoo.last()[1], np.flatnonzero(zoo.last()[0]["action_mask"] == 0)[0]
    with pytest.raises(IllegalAction):
        zoo.step(illegal)
    assert zoo.last()[1] == due


def test_a_number_may_come_as_an_array_of_one() -> None:
    zoo = to_pettingzoo_aec(marlenv.make("tic_tac_toe"))
    zoo.reset()
    for action in (np.array([4]), [0], np.int64(8)):
        zoo.step(action)
    assert zoo.last()[0]["action_mask"].tolist() == [0, 1, 1, 1, 0, 1, 1, 1, 0]
    with pytest.raises(ShapeError, match=r"'action' of agent 'o' must have shape \[\], got \[2\]"):
        zoo.step(np.array([1, 2]))


def test_an_opponents_seat_is_no_agent() -> None:
    env = marlenv.make("tic_tac_toe", opponent="random", seat=1, seed=3)
    zoo, other = to_pettingzoo_aec(env), marlenv.make("tic_tac_toe", opponent="random", seat=1, seed=3)
    other.reset()  # the adapter looks at a first game
    zoo.reset()
    td = other.reset()
    assert zoo.possible_agents == ["o"]
    while zoo.agents and not zoo.terminations["o"]:
        mask = zoo.last()[0]["action_mask"]
        assert np.array_equal(mask, td["o", "action_mask"][0].numpy())
        zoo.step(mask.argmax())
        td = other.step_mdp(other.step(td.set(("o", "action"), torch.tensor([int(mask.argmax())]))))
    assert bool(td["done"])
    assert to_pettingzoo_parallel(env).possible_agents == ["o"]


def test_a_state_is_the_observations_side_by_side() -> None:
    zoo = to_pettingzoo_parallel(scenario())
    with pytest.raises(NeedsReset):
        zoo.state()
    seen, _ = zoo.reset(seed=1)
    assert np.array_equal(zoo.state(), np.concatenate([seen[agent] for agent in zoo.possible_agents]))
    assert zoo.state_space.contains(zoo.state())


@pytest.mark.parametrize("adapt", [to_pettingzoo_aec, to_pettingzoo_parallel])
def test_the_state_of_a_game_is_its_position(adapt: Any) -> None:
    env = marlenv.make("chess", mask="bool")
    zoo, td = adapt(env), env.reset()
    zoo.reset()
    state = zoo.state()
    want = [td["state", name] for name in ("board", "history", "moves")]
    assert state.dtype == np.int64
    assert np.array_equal(state, torch.cat(want).numpy())


def test_agents_that_die_leave() -> None:
    inner = GroupedEnv(
        {"wolves": ["w0", "w1"], "sheep": ["s0"]}, terminate={"s0": 2, "w0": 4}, truncate={"w1": 6}, rule="all"
    )
    zoo = to_pettingzoo_parallel(inner)
    zoo.reset(seed=0)
    left: list[str] = []
    for _ in range(30):
        _, _, terminated, truncated, _ = zoo.step({agent: zoo.action_space(agent).sample() for agent in zoo.agents})
        over = [agent for agent in terminated if terminated[agent] or truncated[agent]]
        assert not set(over) & set(zoo.agents)
        assert not set(left) & set(terminated)
        left += over
        if not zoo.agents:
            break
    assert sorted(left) == sorted(zoo.possible_agents)


def test_a_game_that_the_opponent_ended_at_once_says_what_it_was_worth() -> None:
    """On two by two fields white wins with its first move; nobody lived after the reset, and nobody was paid."""
    zoo = to_pettingzoo_parallel(marlenv.make("breakthrough", rows=2, columns=2, opponent="random", seat=1, seed=0))
    for _ in range(2):
        zoo.reset()
        _, rewards, terminated, truncated, _ = zoo.step({"black": 0})
        assert (rewards, terminated, truncated) == ({"black": -1.0}, {"black": True}, {"black": False})
        assert not zoo.agents


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: to_pettingzoo_parallel("simple_tag"), SpecTypeError, "with groups of agents, got str"),
        (lambda: to_pettingzoo_parallel(scenario(num_envs=3)), Unsupported, r"one row, got batch size \[3\]"),
        (lambda: to_pettingzoo_aec(marlenv.make("chess")), SpecError, "'white' must be bool .4672., got"),
        (lambda: to_pettingzoo_parallel(scenario(), "ansi"), Unsupported, "render_mode must be one of"),
        (lambda: to_pettingzoo_parallel(scenario()).step({}), NeedsReset, "reset"),
        (lambda: begun(to_pettingzoo_parallel(scenario())).step([0, 1]), SpecTypeError,
         r"step: expected a dict of actions by agent, got list; agents are \['adversary_0'"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()
