"""PettingZoo's turn-based envs through the wrapper, compared entry by entry with the raw simulator stepped by hand."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from beside_simulator import Turns, follow
from hypothesis import given, settings
from hypothesis import strategies as st
from zoo_turn_game import TurnGame

from marlenv import PettingZooEnv, PettingZooWrapper, Unbounded
from marlenv.testing import run_contract
from marlenv.wrappers.pettingzoo.tasks import make_task

pytestmark = pytest.mark.sim

AGENTS = ("wolf_0", "wolf_1", "sheep_0")
TIMES = st.dictionaries(st.sampled_from(AGENTS), st.integers(1, 8))
MAPS = st.sampled_from(
    ["by_name_prefix", "torchrl", {"all": list(AGENTS)}, {"x": {"y": ["wolf_1"], "z": ["wolf_0"]}, "s": ["sheep_0"]}]
)
FAST = ["classic/tictactoe_v3", "classic/leduc_holdem_v4", "classic/rps_v2", "mpe/simple_tag_v3"]


@pytest.mark.parametrize("task", [*FAST, "butterfly/knights_archers_zombies_v11"])
def test_every_number_is_the_simulators(task: str) -> None:
    options = {"max_cycles": 12} if task.startswith(("mpe", "butterfly")) else {}
    env = PettingZooEnv(task, parallel=False, **options)
    assert follow(env, Turns(make_task(task, False, options)), seed=5, episodes=3, max_steps=60) >= 3


@settings(max_examples=60)
@given(
    TIMES,
    TIMES,
    st.dictionaries(st.sampled_from(AGENTS[1:]), st.integers(1, 4)),
    st.dictionaries(st.sampled_from(AGENTS), st.integers(5, 9)),
    MAPS,
    st.booleans(),
)
def test_any_end_in_any_groups(
    terminate: Any, truncate: Any, spawn: Any, vanish: Any, group_map: Any, done_on_any: bool
) -> None:
    for agent in AGENTS:
        truncate.setdefault(agent, 12)
    make = lambda: TurnGame(terminate, truncate, spawn, vanish)  # noqa: E731
    env = PettingZooWrapper(make(), group_map=group_map, done_on_any=done_on_any)
    # observations hold how often an agent was looked at: by hand and in the wrapper as often
    assert follow(env, Turns(make()), seed=3, episodes=2, max_steps=20) > 0


def test_observe_is_called_once_per_step_and_for_everybody_at_the_end() -> None:
    sim = TurnGame(terminate=dict.fromkeys(AGENTS, 5))
    env = PettingZooWrapper(sim)
    td = env.reset()
    counts = []
    for _ in range(5):
        sim.looked.clear()
        td = env.step_mdp(env.step(env.rand_action(td)))
        counts.append(sorted(sim.looked))
    assert counts == [["wolf_1"], ["sheep_0"], ["wolf_0"], ["wolf_1"], sorted(AGENTS)]


def test_observe_all_looks_at_everybody_in_every_step() -> None:
    sim = TurnGame(terminate=dict.fromkeys(AGENTS, 5))
    env = PettingZooWrapper(sim, observe="all")
    td = env.reset()
    sim.looked.clear()
    seen = env.step(env.rand_action(td))["next"]
    assert sorted(sim.looked) == sorted(AGENTS)
    assert seen["wolf", "observation"][:, 0].tolist() == [1.0, 1.0]


def test_those_who_wait_keep_what_they_saw_last_though_the_simulator_writes_over_it() -> None:
    env = PettingZooWrapper(TurnGame(terminate=dict.fromkeys(AGENTS, 9)))
    data = env.rollout(4)
    assert data["next", "wolf", "observation"][:, :, 0].tolist() == [[0.0, 1.0], [0.0, 1.0], [3.0, 1.0], [3.0, 4.0]]


def test_the_loser_of_a_game_gets_its_minus_one() -> None:
    env = PettingZooEnv("tictactoe_v3")
    assert env.group_map == {"player": ["player_1", "player_2"]}
    td = env.reset()
    for action in (0, 1, 3, 2, 6):  # player_1 fills the first column
        td["player", "action"] = torch.full((2,), action)
        td = env.step_mdp(last := env.step(td))
    assert last["next", "player", "reward"].flatten().tolist() == [1.0, -1.0]
    assert bool(last["next", "terminated"])
    assert bool(last["next", "player", "terminated"].all())


def test_masks_mark_who_acts_and_never_close() -> None:
    for _ in range(5):
        data = PettingZooEnv("leduc_holdem", seed=1).rollout(20)
        assert data["player", "mask"].sum(-1).tolist() == [1] * len(data)
        assert bool(data["next", "player", "action_mask"].any(-1).all())


def test_an_agent_that_dies_early_is_not_asked_again() -> None:
    data = PettingZooWrapper(TurnGame(terminate={"wolf_1": 3}, truncate={"wolf_0": 9, "sheep_0": 9})).rollout(20)
    dead = data["next", "wolf", "done"][:, 1].flatten()
    assert dead.tolist() == [False, False] + [True] * 7
    assert not data["wolf", "mask"][3:, 1].any()
    assert not data["next", "wolf", "observation"][3:, 1].any()
    assert not data["next", "wolf", "truncated"][:, 1].any()


def test_a_late_spawn_is_absent_before_and_a_silent_leaver_terminates() -> None:
    data = PettingZooWrapper(
        TurnGame(spawn={"wolf_1": 2}, vanish={"wolf_1": 6}, truncate={"wolf_0": 9, "sheep_0": 9})
    ).rollout(20)
    assert data["next", "wolf", "alive"][:, 1].tolist() == [False, True, True, True, True, False, False, False, False]
    assert data["next", "wolf", "terminated"][:, 1].flatten().tolist() == [False] * 5 + [True] * 4


@pytest.mark.parametrize("done_on_any", [True, False])
def test_a_time_limit_of_the_wrapper_truncates(done_on_any: bool) -> None:
    data = PettingZooEnv("tictactoe_v3", max_steps=2, done_on_any=done_on_any).rollout(9)["next"]
    assert [bool(data[-1][k]) for k in ("done", "terminated", "truncated")] == [True, False, True]
    assert len(data) == 2


def test_infos_that_appear_later_are_zeros_before() -> None:
    data = PettingZooWrapper(
        TurnGame(late_info=3, terminate=dict.fromkeys(AGENTS, 5)), info_specs={"late": Unbounded(())}
    ).rollout(9)
    assert set(data["wolf", "info"].keys()) == {"late", "turn"}
    assert data["next", "wolf", "info", "late"].tolist() == [
        [0.0, 0.0],
        [0.0, 0.0],
        [6.0, 0.0],
        [6.0, 8.0],
        [10.0, 10.0],
    ]
    assert (
        "late"
        not in PettingZooWrapper(TurnGame(late_info=3, terminate=dict.fromkeys(AGENTS, 5)))
        .rollout(9)["wolf", "info"]
        .keys()
    )


def test_the_global_state_is_emitted() -> None:
    data = PettingZooWrapper(TurnGame(terminate=dict.fromkeys(AGENTS, 3)), return_state=True).rollout(5)
    assert data["state"][:, 0].tolist() == [0.0, 1.0, 2.0]


def test_both_interfaces_have_the_same_groups_unless_torchrls_are_asked_for() -> None:
    parallel, turns = (PettingZooEnv("simple_tag_v3", parallel=p) for p in (True, False))
    assert parallel.group_map == turns.group_map
    asked = PettingZooEnv("simple_tag_v3", parallel=False, group_map="torchrl")
    assert asked.group_map == {a: [a] for a in turns.agent_names}


@pytest.mark.slow
@pytest.mark.parametrize("task", FAST)
def test_the_contract_holds(task: str) -> None:
    broken = [
        f"{r.name}: {r.says}"
        for r in run_contract(lambda: PettingZooEnv(task, parallel=False), {})
        if r.verdict == "broken"
    ]
    assert not broken, "\n".join(broken)


@pytest.mark.reference
def test_rewards_masks_and_flags_are_torchrls() -> None:
    from torchrl.envs.libs.pettingzoo import PettingZooWrapper as Peer

    warnings.simplefilter("ignore")  # the peer warns about the version of PettingZoo
    ours = PettingZooWrapper(make_task("tictactoe_v3", False, {}), group_map="torchrl", observe="all")
    peer = Peer(make_task("tictactoe_v3", False, {}), use_mask=True)
    assert {g: list(m) for g, m in peer.group_map.items()} == ours.group_map
    a, b = ours.reset(), peer.reset()
    for move in (4, 0, 8, 2, 1, 7, 6, 3, 5):
        for td in (a, b):
            for player in ("player_1", "player_2"):
                td[player, "action"] = torch.tensor([move])
        a, b = ours.step(a), peer.step(b)
        for key in b["next"].keys(True, True):
            if not isinstance(key, str) and ("truncated" in key or ("mask" in key and bool(b["next", "done"]))):
                continue  # TorchRL has no truncated flags of agents here, and says that somebody acts when all is over
            x, y = (
                a["next", *((key,) if isinstance(key, str) else key)],
                b["next", *((key,) if isinstance(key, str) else key)],
            )
            if "action_mask" in key and not bool(a["next", key[0], "mask"].any()):
                continue  # nobody chooses: ours is all True, TorchRL's is what is left of the board
            assert np.array_equal(x.float().numpy(), y.float().numpy()), key
        a, b = ours.step_mdp(a), peer.step_mdp(b)
        if bool(b["done"].any()):
            break
