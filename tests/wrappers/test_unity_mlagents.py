"""Unity's ML-Agents through the wrapper, beside a copy that is stepped by hand. The build is a stand-in; classes, steps
and the checks of actions are mlagents-envs' own.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from rows import without

from marlenv import EnvCreator, UnityMLAgentsEnv, UnityMLAgentsWrapper, check_env_specs
from marlenv.errors import (
    EnvClosed,
    GroupError,
    IllegalAction,
    MissingExtra,
    NeedsReset,
    ResetError,
    SpecError,
    SpecTypeError,
    Unsupported,
)
from marlenv.optional import has
from marlenv.testing import run_contract
from marlenv.wrappers.unity_mlagents.places import Places

pytestmark = [
    pytest.mark.sim,
    pytest.mark.slow,
    pytest.mark.skipif(not has("mlagents_envs"), reason="needs ML-Agents: VENV=.venv tests/simulators.sh mlagents"),
]
if has("mlagents_envs"):
    from stand_in_unity import RUNNER, SPECS, TEAM, Arena, Late, Renumbered, Replaced

AGENTS = {0: "Runner_0", 1: "Runner_1", 2: "Runner_2", 10: "Team_team_1_group_1_0", 11: "Team_team_1_group_1_1",
          12: "Team_team_1_group_2_0", 13: "Team_team_1_group_2_1"}  # fmt: skip


def entry(env: Any, td: Any, agent: str, name: str) -> Any:
    path, i = env.tree.place[agent]
    return td[(*path, *name.split("/"))][i]


def numbers(env: Any, td: Any, agent: str, name: str) -> np.ndarray:
    """An action as Unity takes it."""
    action = entry(env, td, agent, name)
    if name == "discrete_action" and not env.categorical_actions:
        sizes = SPECS[RUNNER if agent.startswith("Runner") else TEAM].action_spec.discrete_branches
        action = torch.stack([part.int().argmax(-1) for part in action.split(list(sizes))])
    return action.numpy()


def test_behaviours_and_multi_agent_groups_are_groups() -> None:
    env = UnityMLAgentsWrapper(Arena())
    assert env.group_map == {
        "Runner": ["Runner_0", "Runner_1", "Runner_2"],
        "Team_team_1_group_1": ["Team_team_1_group_1_0", "Team_team_1_group_1_1"],
        "Team_team_1_group_2": ["Team_team_1_group_2_0", "Team_team_1_group_2_1"],
    }
    assert env.full_action_spec["Runner", "continuous_action"].shape == (3, 2)
    assert env.full_action_spec["Runner", "discrete_action"].shape == (3, 5)
    assert UnityMLAgentsWrapper(Arena(), group_map="one_group_per_agent").rollout(3).batch_size == (3,)


@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize("extra", [None, 3])
def test_every_number_is_unitys(categorical: bool, extra: int | None) -> None:
    env = UnityMLAgentsWrapper(Arena(), categorical_actions=categorical, done_on_any=False, max_agents=extra)
    names = dict(AGENTS) if extra is None else {**AGENTS, 20: "Team_team_1_group_1_2"}
    raw, td = Arena(), env.reset()
    raw.reset()
    first = raw.get_steps(RUNNER)[0]
    last = {names[int(one)]: [values[row] for values in first.obs] for row, one in enumerate(first.agent_id)}
    for step in range(6):
        td = env.rand_action(td)
        for behaviour in SPECS:
            asking = raw.get_steps(behaviour)[0]
            told = SPECS[behaviour].action_spec.empty_action(len(asking))
            for row, one in enumerate(asking.agent_id):
                if int(one) in names and bool(entry(env, td, names[int(one)], "mask")):
                    for kind in ("continuous", "discrete"):
                        if getattr(told, kind).shape[1]:
                            getattr(told, kind)[row] = numbers(env, td, names[int(one)], f"{kind}_action")
            if len(asking):
                raw.set_actions(behaviour, told)
        raw.step()
        td = env.step(td)["next"]
        for one, action in raw.got[-1].items():
            assert all(np.array_equal(a, b) for a, b in zip(action, env._env.got[-1][one], strict=True)), one
        shown: set[str] = set()
        for behaviour, spec in SPECS.items():
            decisions, ends = raw.get_steps(behaviour)
            for steps, over in ((ends, True), (decisions, False)):
                for row, one in enumerate(steps.agent_id):
                    agent = names.get(int(one))
                    if agent is None:
                        assert int(one) in env.left_out
                        continue
                    shown.add(agent)
                    last[agent] = [values[row] for values in steps.obs]
                    for i, kind in enumerate(spec.observation_specs):
                        got = entry(env, td, agent, kind.name or f"observation_{i}")
                        assert np.array_equal(got.numpy(), steps.obs[i][row]), (agent, step)
                    assert float(entry(env, td, agent, "reward")) == steps.reward[row]
                    assert float(entry(env, td, agent, "info/group_reward")) == steps.group_reward[row]
                    cut = bool(over and ends.interrupted[row])
                    assert bool(entry(env, td, agent, "truncated")) is cut
                    assert bool(entry(env, td, agent, "terminated")) is (over and not cut)
                    assert bool(entry(env, td, agent, "mask")) is not over
                    if not over:
                        legal = ~np.concatenate([mask[row] for mask in decisions.action_mask])
                        assert np.array_equal(entry(env, td, agent, "action_mask").numpy(), legal)
        if "Runner_1" not in shown:  # asks for nothing: its last observation, no reward, and nobody reads its action
            assert np.array_equal(entry(env, td, "Runner_1", "place").numpy(), last["Runner_1"][0])
            assert float(entry(env, td, "Runner_1", "reward")) == 0
            assert bool(entry(env, td, "Runner_1", "alive"))
            assert not bool(entry(env, td, "Runner_1", "mask"))
    assert bool(td["done"])
    assert not bool(td["terminated"])
    assert bool(td["truncated"])
    assert bool(entry(env, td, AGENTS[10], "terminated"))
    assert not bool(entry(env, td, AGENTS[10], "truncated"))
    assert env.left_out == (set() if extra else {20})


def test_the_first_agent_that_is_done_ends_the_episode_unless_asked_otherwise() -> None:
    data = UnityMLAgentsWrapper(Arena(leaves_at=2)).rollout(9)
    assert data.batch_size == (2,)
    assert bool(data["next", "terminated"][-1])
    assert UnityMLAgentsWrapper(Arena(leaves_at=2), done_on_any=False).rollout(9).batch_size == (6,)


def second_choices(td: Any) -> Any:
    """Actions that are the same whatever was drawn before."""
    for group, (continuous, choices) in {"Runner": ((3, 2), 2), "Team_team_1_group": (None, 1)}.items():
        for name in [name for name in td.keys() if name.startswith(group)]:
            agents = td[name].batch_size
            td[name, "discrete_action"] = torch.ones(*agents, choices, dtype=torch.int32)
            if continuous:
                td[name, "continuous_action"] = torch.linspace(-1, 1, 6).reshape(continuous)
    return td


def test_groups_that_are_numbered_anew_keep_their_places() -> None:
    options = {"categorical_actions": True, "done_on_any": False}
    env, same = UnityMLAgentsWrapper(Renumbered(), **options), UnityMLAgentsWrapper(Arena(), **options)
    assert list(env.group_map) == ["Runner", "Team_team_1_group_3", "Team_team_1_group_4"]
    for episode in range(2, 4):
        data, told = env.rollout(9, second_choices), same.rollout(9, second_choices)
        for group, other in zip(env.group_map, same.group_map, strict=True):
            mine, theirs = data["next", group].exclude("info"), told["next", other].exclude("info")
            assert bool((mine == theirs).all()), (group, episode)
            assert bool(mine["alive"][0].all())
        assert data.batch_size == (6,)
        assert env.left_out == same.left_out == {20}
        paid = data["next", "Team_team_1_group_4", "info", "group_reward"][1]  # its id times the time
        assert paid.tolist() == [2 * (2 + 2 * episode)] * 2


def test_agents_that_first_ask_after_the_reset_get_places_that_were_asked_for() -> None:
    assert list(UnityMLAgentsWrapper(Late()).group_map) == ["Runner"]
    env = UnityMLAgentsWrapper(Late(), categorical_actions=True, done_on_any=False, max_agents=3)
    assert env.group_map["Team_team_1"] == ["Team_team_1_0", "Team_team_1_1", "Team_team_1_2"]
    data = env.rollout(9)["next", "Team_team_1"]
    alive = [[False] * 3, [True, True, False], [True, True, False]]
    assert data["alive"][:3].tolist() == [alive[0], alive[1], [False, True, True]]  # 10 leaves, and 20 comes
    assert data["reward"][1, :2].flatten().tolist() == [20.0, 22.0]  # two steps of 10 and of 11
    assert data["observation_0"][1, :2, 0].tolist() == pytest.approx([10.2, 11.2])
    assert env.left_out == set()


def test_behaviours_of_one_word_are_told_apart() -> None:
    places = Places({"A?b": {0: 1}, "A_b": {0: 2}, "A b": {0: 1}}, None)
    words = ["A_b_0"], ["A_b_again_2_0", "A_b_again_2_1"], ["A_b_again_3_0"]
    assert tuple(places.names(one) for one in ("A?b", "A_b", "A b")) == words
    assert (places.of(7, ("A_b", 0)), places.of(8, ("A?b", 0))) == ("A_b_again_2_0", "A_b_0")


def test_groups_keep_apart_from_agents_without_one_and_come_back_to_their_own_places() -> None:
    places = Places({"A": {0: 1, 4: 1, 5: 1}}, None)
    places.meet("A", {5, 9})
    assert (places.of(1, ("A", 9)), places.of(2, ("A", 5)), places.of(3, ("A", 11))) == (
        "A_group_4_0",
        "A_group_5_0",
        None,
    )
    assert places.of(4, ("A", 0)) == "A_group_0_0"
    assert places.left_out == {3}
    places.open()
    assert places.of(3, ("A", 11)) == "A_group_4_0"


def _acted(number: int) -> Any:
    env = UnityMLAgentsWrapper(Arena(), categorical_actions=True)
    td = second_choices(env.reset())
    td["Runner", "discrete_action"][1, 1] = number
    return env.step(td)


def test_the_contract_holds() -> None:
    for options in ({}, {"done_on_any": False, "categorical_actions": True, "max_agents": 4}):
        results = run_contract(lambda options=options: UnityMLAgentsWrapper(Arena(), **options), steps=10)
        assert not [f"{r.name}: {r.says}" for r in results if r.verdict == "broken"]


def test_envs_can_be_made_elsewhere_moved_and_closed() -> None:
    env = pickle.loads(pickle.dumps(EnvCreator(UnityMLAgentsWrapper, create_env_kwargs={"env": Arena()})))()
    check_env_specs(env)
    env.close()
    assert env._env.closed
    with pytest.raises(EnvClosed):
        env.reset()
    assert UnityMLAgentsWrapper(Arena(), device="cpu").reset()["Runner", "place"].device == torch.device("cpu")


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: UnityMLAgentsWrapper("game"), SpecTypeError, r"must be an env of ML-Agents, got str; UnityMLA"),
        (lambda: UnityMLAgentsWrapper(Arena()).set_seed(3), Unsupported, r"Unity takes its seed when it is started"),
        (lambda: UnityMLAgentsEnv("a", "b"), SpecError, r"file_name and registered_name are two builds"),
        (lambda: UnityMLAgentsWrapper(Arena()).step(UnityMLAgentsWrapper(Arena()).rand_action()), NeedsReset, r"reset"),
        (lambda: UnityMLAgentsWrapper(Arena(), max_agents=0), ValueError, r"max_agents"),
        (lambda: _acted(2), IllegalAction, r"agent 'Runner_1' are numbers from 0 to below \[3 2\], got \[1 2\]"),
        (lambda: _acted(-1), IllegalAction, r"^UnityMLAgentsWrapper.step: .* \[3 2\], got \[ 1 -1\]"),
        (lambda: UnityMLAgentsWrapper(Replaced()).reset(), ResetError, r"none of the 4 agents .*max_agents="),
        (lambda: UnityMLAgentsWrapper(Arena(), group_map="all_in_one_group"), GroupError,
         r"entries of the same names, got .*'Runner_0' and \['discrete_action'\] of 'Team_.*group_map='by_spec'"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()


def test_a_missing_library_is_an_error_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "mlagents_envs")
    says = r"needs 'mlagents_envs'.*pip install --no-deps --ignore-requires-python mlagents-envs==1.1.0, and protobuf"
    for call in (lambda: UnityMLAgentsWrapper(3), lambda: UnityMLAgentsEnv("build.x86_64")):
        with pytest.raises(MissingExtra, match=says):
            call()
    assert UnityMLAgentsEnv.available_envs == []


def test_the_protocol_needs_an_old_protobuf_and_says_so() -> None:
    """In this environment, whose protobuf is of another age; ``test_mlagents_protocol.py`` has one of its own."""
    with pytest.raises(MissingExtra, match=r"UnityMLAgentsEnv needs protobuf 3\.20 beside mlagents_envs, .*later one"):
        UnityMLAgentsEnv("build.x86_64")
    assert UnityMLAgentsEnv.available_envs == []
