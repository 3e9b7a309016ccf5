"""PettingZoo's parallel envs through the wrapper, compared entry by entry with the raw simulator stepped by hand."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from beside_simulator import Parallel, follow
from hypothesis import given, settings
from hypothesis import strategies as st
from zoo_parallel_game import ParallelGame

import marlenv
from marlenv import PettingZooEnv, PettingZooWrapper
from marlenv.errors import GroupError, SpecError, UnknownName
from marlenv.testing import run_contract
from marlenv.wrappers.pettingzoo.tasks import make_task

pytestmark = pytest.mark.sim

TASKS: dict[str, dict[str, Any]] = {
    "mpe/simple_spread_v3": {"max_cycles": 6},
    "mpe/simple_speaker_listener_v4": {"max_cycles": 6},
    "mpe/simple_world_comm_v3": {"max_cycles": 6, "continuous_actions": True},
    "mpe/simple_tag_v3": {"max_cycles": 6},
    "butterfly/pistonball_v6": {"n_pistons": 3, "max_cycles": 6},
    "butterfly/knights_archers_zombies_v11": {"max_cycles": 40},
    "butterfly/cooperative_pong_v6": {"max_cycles": 6},
}


@pytest.mark.parametrize("done_on_any", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_every_number_is_the_simulators(task: str, done_on_any: bool) -> None:
    options = TASKS[task]
    env = PettingZooEnv(task, done_on_any=done_on_any, **options)
    assert follow(env, Parallel(make_task(task, True, options)), seed=5, episodes=4) > 5


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.dictionaries(st.sampled_from(["wolf_0", "wolf_1", "sheep_0"]), st.integers(1, 6)),
    st.dictionaries(st.sampled_from(["wolf_0", "wolf_1", "sheep_0"]), st.integers(1, 6)),
    st.sampled_from(
        [
            "by_name_prefix",
            "one_group_per_agent",
            {"all": ["sheep_0", "wolf_1", "wolf_0"]},
            {"x": {"y": ["wolf_1"], "z": ["wolf_0"]}, "s": ["sheep_0"]},
        ]
    ),
    st.booleans(),
)
def test_any_end_in_any_groups(terminate: dict, truncate: dict, group_map: Any, done_on_any: bool) -> None:
    for agent in ("wolf_0", "wolf_1", "sheep_0"):
        truncate.setdefault(agent, 7)
    make = lambda: ParallelGame(terminate, truncate)  # noqa: E731
    env = PettingZooWrapper(make(), group_map=group_map, done_on_any=done_on_any)
    assert follow(env, Parallel(make()), seed=3, episodes=2, max_steps=15) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", ["mpe/simple_spread_v3", "mpe/simple_speaker_listener_v4", "butterfly/knights_archers_zombies_v11"]
)
def test_the_contract_holds(task: str) -> None:
    exempt = {}
    if task.startswith("butterfly"):
        exempt["global_generators_stay_where_they_are"] = "the simulator draws from numpy's global generator"
        exempt["resets_start_afresh"] = "the simulator counts on to its next zombie through a reset"
    found = list(run_contract(lambda: PettingZooEnv(task, **TASKS[task]), exempt))
    broken = [f"{r.name}: {r.says}" for r in found if r.verdict == "broken"]
    assert not broken, "\n".join(broken)


def test_one_agent_terminates_and_another_is_cut_off_in_the_same_step() -> None:
    env = PettingZooWrapper(ParallelGame({"wolf_0": 2}, {"wolf_1": 2, "sheep_0": 2}), done_on_any=False)
    data = env.rollout(5)["next"]
    assert len(data) == 2
    assert [bool(data[-1][k]) for k in ("done", "terminated", "truncated")] == [True, False, True]


def test_a_terminated_agent_never_becomes_truncated() -> None:
    env = PettingZooWrapper(ParallelGame({"wolf_0": 1}, {"wolf_1": 4, "sheep_0": 4}), done_on_any=False)
    data = env.rollout(6)["next", "wolf"]
    assert data["terminated"][:, 0].flatten().tolist() == [True] * 4
    assert not data["truncated"][:, 0].any()
    assert data["truncated"][:, 1].flatten().tolist() == [False] * 3 + [True]


def test_an_agent_that_spawns_late_is_absent_before() -> None:
    env = PettingZooWrapper(
        ParallelGame(spawn={"wolf_1": 3}, truncate={"wolf_0": 5, "wolf_1": 5, "sheep_0": 5}), done_on_any=False
    )
    data = env.rollout(9)
    assert data["wolf", "alive"][:, 1].tolist() == [False, False, False, True, True]
    assert not data["wolf", "observation"][:3, 1].any()
    assert not data["next", "wolf", "done"][:4, 1].any()


def test_an_agent_that_leaves_without_a_word_has_terminated() -> None:
    env = PettingZooWrapper(ParallelGame(vanish={"wolf_1": 2}, truncate={"wolf_0": 4, "sheep_0": 4}), done_on_any=False)
    data = env.rollout(9)["next", "wolf"]
    assert data["terminated"][:, 1].flatten().tolist() == [False, True, True, True]


def test_a_time_limit_of_the_wrapper_truncates() -> None:
    data = PettingZooWrapper(ParallelGame({"wolf_0": 2}), max_steps=3, done_on_any=False).rollout(9)["next"]
    assert len(data) == 3
    assert [bool(data[-1][k]) for k in ("done", "terminated", "truncated")] == [True, False, True]
    assert data["wolf", "truncated"][-1].flatten().tolist() == [False, True]


def test_masks_from_infos_are_emitted_and_obeyed() -> None:
    env = PettingZooWrapper(ParallelGame(masked=True, truncate={"wolf_0": 9}))
    env.set_seed(0)
    data = env.rollout(9)
    assert data["sheep", "action_mask"][:4, 0].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
    ]
    legal = data["sheep", "action_mask"].gather(-1, data["sheep", "action"].unsqueeze(-1))
    assert bool(legal.all())


def test_an_agent_that_comes_later_has_its_mask_from_infos() -> None:
    env = PettingZooWrapper(ParallelGame(masked=True, spawn={"sheep_0": 2}, truncate={"wolf_0": 5}))
    env.set_seed(0)
    data = env.rollout(9)
    everything, masks = [1, 1, 1, 1, 1], data["sheep", "action_mask"][:, 0]
    assert masks.int().tolist() == [everything, everything, [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], everything]
    assert bool(masks.gather(-1, data["sheep", "action"]).all())


def test_infos_and_state_are_emitted() -> None:
    env = PettingZooWrapper(ParallelGame(truncate={"wolf_0": 3}), return_state=True)
    data = env.rollout(5)
    assert data["next", "wolf", "info", "energy"].tolist() == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    assert data["state"].tolist() == [[0.0, 3.0], [1.0, 3.0], [2.0, 3.0]]


def test_nothing_is_copied_deeply(monkeypatch: pytest.MonkeyPatch) -> None:
    env = PettingZooWrapper(ParallelGame(truncate={"wolf_0": 3}), return_state=True)
    td = env.rand_action(env.reset())

    def refuse(*_: Any) -> None:
        raise AssertionError("a deep copy")

    monkeypatch.setattr(copy, "deepcopy", refuse)
    assert env.step(td)["next", "state"].tolist() == [1.0, 3.0]


def test_unequal_agents_in_one_group_are_stacked_lazily_or_padded() -> None:
    lazy = PettingZooWrapper(ParallelGame(truncate={"wolf_0": 3}), group_map="all_in_one_group")
    assert lazy.rollout(3, return_contiguous=False)[..., 0]["agents"][2]["observation"].shape == (3,)
    padded = PettingZooWrapper(ParallelGame(truncate={"wolf_0": 3}), group_map="all_in_one_group", unequal="pad")
    data = padded.rollout(3)
    assert data["agents", "observation"].shape == (3, 3, 4)
    assert data["agents", "pad_mask", "observation"][0].sum(-1).tolist() == [4, 4, 3]
    assert int(data["agents", "action"][:, :2].max()) <= 2


def test_one_hot_actions_reach_the_simulator_as_numbers() -> None:
    env = PettingZooWrapper(ParallelGame(truncate={"wolf_0": 3}), categorical_actions=False)
    assert env.full_action_spec["wolf", "action"].shape == (2, 3)
    data = env.rollout(3)
    chosen = data["wolf", "action"].int().argmax(-1)
    assert torch.equal(data["next", "wolf", "reward"].squeeze(-1), chosen + 0.5)


def test_one_seed_decides_about_all_episodes_which_differ() -> None:
    first, second = (PettingZooEnv("simple_spread_v3", max_cycles=4, seed=s) for s in (1, 1))
    a, b = (env.rollout(12, break_when_any_done=False) for env in (first, second))
    assert bool((a == b).all())
    starts = a["agent", "observation"][[0, 4, 8]]
    assert not torch.equal(starts[0], starts[1])


@pytest.mark.reference
def test_keys_and_groups_are_torchrls() -> None:
    from torchrl.envs.libs.pettingzoo import PettingZooWrapper as Peer

    warnings.simplefilter("ignore")  # the peer warns about the version of PettingZoo
    make = lambda: ParallelGame(truncate={"wolf_0": 3})  # noqa: E731
    peer, ours = Peer(make(), use_mask=True), PettingZooWrapper(make())
    assert {g: list(m) for g, m in peer.group_map.items()} == ours.group_map
    theirs, mine = (set(map(str, env.rollout(2).keys(True, True))) for env in (peer, ours))
    assert mine - theirs == {str(k) for g in ("wolf", "sheep") for k in ((g, "alive"), ("next", g, "alive"))}
    assert not theirs - mine


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (
            lambda: PettingZooEnv("simple_sprd_v3"),
            UnknownName,
            "no task is called 'simple_sprd_v3'; did you mean 'simple_spread_v3'",
        ),
        (lambda: PettingZooEnv("tictactoe_v3", parallel=True), UnknownName, "has no parallel interface"),
        (
            lambda: PettingZooEnv("simple_spread", NN=3),
            TypeError,
            "^PettingZooEnv has no option 'NN', and neither has the",
        ),
        (lambda: PettingZooEnv("tictactoe_v3", max_step=3), TypeError, "has no option 'max_step', .* mean 'max_steps'"),
        (
            lambda: PettingZooEnv("simple_spread", N=-1),
            SpecError,
            "^PettingZooEnv: 'mpe/simple_.*cannot be made with N=-1",
        ),
        (lambda: PettingZooEnv("simple_spread", N="x"), SpecError, "cannot be made with N='x': 'str' object cannot be"),
        (lambda: PettingZooEnv("pursuit_v5", n_pursuers=0), SpecError, "'sisl/pursuit_v5' cannot be made with n_purs"),
        (lambda: PettingZooEnv("pong_v3", obs_type="x"), SpecError, "cannot be made with obs_type='x': "),
        (lambda: PettingZooWrapper(3), SpecError, "expected a pettingzoo.ParallelEnv or AECEnv, got int"),
        (
            lambda: PettingZooWrapper(ParallelGame(), group_map={"w": ["wolf_0"]}),
            GroupError,
            r"agents in no group: \['wolf_1', 'sheep_0'\]",
        ),
        (
            lambda: PettingZooWrapper(ParallelGame(), group_map="all_in_one_group", unequal="raise"),
            GroupError,
            "'wolf_0' and 'sheep_0' have different specs",
        ),
        (
            lambda: PettingZooWrapper(ParallelGame(), max_steps=0),
            SpecError,
            "max_steps must be an integer from 1 on, got 0",
        ),
    ],
)
def test_bad_input_is_named(make: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()


def test_make_steps_several_in_series() -> None:
    env = marlenv.make("pettingzoo/simple_spread_v3", num_envs=3, seed=0, max_cycles=4)
    data = env.rollout(8, break_when_any_done=False)
    assert data.shape == (3, 8)
    assert data["next", "truncated"].squeeze(-1).tolist() == [[False, False, False, True] * 2] * 3
