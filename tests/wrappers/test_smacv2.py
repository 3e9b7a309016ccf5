"""SMACv2 through the wrapper, on stand-ins with smacv2's public surface (see ``stand_in_smacv2.py``)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from beside_simulator import Ends, SimStep, follow
from hypothesis import given, settings
from hypothesis import strategies as st
from stand_in_smacv2 import MAPS as NAMES
from stand_in_smacv2 import StarCraft2Env, StarCraftCapabilityEnvWrapper, installed

from marlenv.errors import IllegalAction, MissingExtra, ResetError, SpecError, UnknownName
from marlenv.testing import run_contract
from marlenv.wrappers.smacv2 import SMACv2Env, SMACv2Wrapper
from marlenv.wrappers.smacv2.maps import default_capabilities


class Battle:
    """The stand-in, by hand."""

    def __init__(self, sim: Any) -> None:
        self.sim = sim

    def reset(self, seed: int | None) -> SimStep:
        self.sim.reset()
        self.ends: Ends = {}
        return self._say(0.0, False, {})

    def step(self, actions: dict[str, Any]) -> SimStep:
        return self._say(*self.sim.step([int(actions.get(str(i), 0)) for i in range(self.sim.n_agents)]))

    def _say(self, reward: float, over: bool, info: dict[str, Any]) -> SimStep:
        sim = self.sim
        names = [str(i) for i in range(sim.n_agents)]
        decided = info.get("battle_won") or info.get("dead_allies") == sim.n_agents
        for i, name in enumerate(names):
            if sim.agents[i].health <= 0:
                self.ends.setdefault(name, (True, False))
            elif over:
                self.ends.setdefault(name, (True, False) if decided else (False, True))
        alive = {n for n in names if n not in self.ends}
        dead = [n for n in names if n in self.ends and not over]
        seen = {
            n: {"observation": np.zeros_like(o) if n in dead else o} for n, o in zip(names, sim.get_obs(), strict=True)
        }
        legal = {n: m for n, m in zip(names, sim.get_avail_actions(), strict=True) if n in alive}
        root = {"state": sim.get_state()}
        if info:
            root |= {
                "reward": reward,
                ("info", "battle_won"): info["battle_won"],
                ("info", "dead_allies"): info["dead_allies"],
            }
            root |= {("info", "dead_enemies"): info["dead_enemies"], ("info", "episode_limit"): over and not decided}
        return SimStep(seen, dict(self.ends), alive, alive, {}, legal, root)


MAPS = st.sampled_from(
    [None, {"a": ["0", "2"], "b": ["1"]}, "one_group_per_agent", {"x": {"y": ["2"], "z": ["0"]}, "w": ["1"]}]
)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(0, 1 << 30), MAPS, st.booleans(), st.booleans(), st.booleans())
def test_every_number_is_the_games(
    seed: int, group_map: Any, harmless: bool, continuing: bool, categorical: bool
) -> None:
    options = {"seed": seed, "harmless": harmless, "continuing_episode": continuing, "episode_limit": 12}
    env = SMACv2Wrapper(StarCraft2Env(**options), group_map=group_map, categorical_actions=categorical)
    assert follow(env, Battle(StarCraft2Env(**options)), None, episodes=8) > 20


@pytest.mark.parametrize("wrap", [False, True])
def test_the_contract_holds(wrap: bool) -> None:
    def make() -> SMACv2Wrapper:
        sim = StarCraftCapabilityEnvWrapper(capability_config={"n_units": 4}, seed=1) if wrap else StarCraft2Env(seed=1)
        return SMACv2Wrapper(sim)

    broken = [f"{r.name}: {r.says}" for r in run_contract(make) if r.verdict == "broken"]
    assert not broken, "\n".join(broken)


def test_a_time_limit_truncates_the_living_only() -> None:
    for continuing in (False, True):
        data = SMACv2Wrapper(
            StarCraft2Env(harmless=True, episode_limit=4, n_enemies=9, continuing_episode=continuing)
        ).rollout(9)
        last = data["next"][-1]
        assert len(data) == 4
        assert [bool(last[k]) for k in ("done", "terminated", "truncated")] == [True, False, True]
        assert bool(last["info", "episode_limit"])
        assert bool(last["agents", "truncated"].all())


@pytest.mark.parametrize(("frame_skip", "steps"), [(1, 6), (2, 3), (4, 2)])
def test_the_time_limit_counts_the_games_steps(frame_skip: int, steps: int) -> None:
    env = SMACv2Wrapper(StarCraft2Env(harmless=True, episode_limit=6, n_enemies=9), frame_skip=frame_skip)
    for _ in range(2):
        data = env.rollout(30, lambda td: td.set(("agents", "action"), torch.ones(3, dtype=torch.int64)))  # they wait
        assert env._env.t == 6
        assert data["next", "truncated"].flatten().tolist() == [False] * (steps - 1) + [True]
        assert not data["next", "terminated"].any()
        assert bool(data["next", "info", "episode_limit"][-1])


def test_a_battle_that_is_won_terminates_and_says_so() -> None:
    env = SMACv2Wrapper(StarCraft2Env(harmless=True, n_enemies=1))
    td = env.reset()
    td["agents", "action"] = torch.tensor([6, 6, 6])
    last = env.step(td)["next"]
    assert bool(last["terminated"])
    assert bool(last["info", "battle_won"])
    assert last["reward"].tolist() == [3.0]


def test_the_dead_stay_dead_and_play_no_more() -> None:
    data = SMACv2Wrapper(StarCraft2Env(seed=3, n_enemies=9)).rollout(20)
    alive = data["next", "agents", "alive"].int()
    assert bool((alive.diff(dim=0) <= 0).all())
    assert bool((data["next", "agents", "terminated"].squeeze(-1) == ~data["next", "agents", "alive"]).all())


@pytest.mark.parametrize("units", [3, 12])
def test_an_illegal_action_names_the_agent(units: int) -> None:
    env = SMACv2Wrapper(StarCraft2Env(n_units=units))
    td = env.rand_action(env.reset())
    td["agents", "action"][-1] = 0
    with pytest.raises(
        IllegalAction, match=rf"SMACv2Wrapper: action 0 of agent '{units - 1}' is illegal; legal are \[1, 2"
    ):
        env.step(td)


def test_a_crash_of_the_game_cuts_the_episode_off_and_the_next_one_is_played() -> None:
    env = SMACv2Wrapper(StarCraft2Env(crash_at=2, harmless=True))
    data = env.rollout(9)
    assert len(data) == 2
    assert [bool(data["next"][-1][k]) for k in ("terminated", "truncated")] == [False, True]
    assert env.rollout(3).shape == (3,)
    assert env.get_stats()["restarts"] == 1


def test_a_reset_that_fails_is_tried_again() -> None:
    assert SMACv2Wrapper(StarCraft2Env(cannot_reset=2)).rollout(2).shape == (2,)
    with pytest.raises(ResetError, match="could not place its units in 5 resets"):
        SMACv2Wrapper(StarCraft2Env(cannot_reset=9)).reset()


def test_what_torchrl_offers_is_there() -> None:
    env = SMACv2Wrapper(StarCraft2Env())
    assert env.group_map == {"agents": ["0", "1", "2"]}
    td = env.rollout(2)
    keys = {
        "state",
        "reward",
        "done",
        "terminated",
        ("info", "battle_won"),
        ("info", "episode_limit"),
        ("info", "dead_allies"),
        ("info", "dead_enemies"),
    }
    assert keys | {("agents", "observation"), ("agents", "action_mask")} <= set(td["next"].keys(True, True))
    assert [env.get_agent_type(i) for i in range(2)] == ["medivac", "marine"]
    assert env.render("rgb_array").shape == (4, 4, 3)


def kinds(env: SMACv2Wrapper, episodes: int) -> list[list[str]]:
    """The teams of some episodes, and where the units stand."""
    found = []
    for _ in range(episodes):
        td = env.reset()
        units = range(len(env.agent_names))
        found.append([env.get_agent_type(i) for i in units] + td["agents", "observation"][:, 0].tolist())
    return found


def test_a_seed_fixes_teams_positions_and_the_game(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    first, second, other = (kinds(SMACv2Env("10gen_terran", seed=s), 12) for s in (4, 4, 5))
    assert first == second != other
    assert len({tuple(episode) for episode in first}) > 6  # episodes differ
    assert {kind for episode in first for kind in episode[:5]} == {"marine", "marauder", "medivac"}
    nobody = [kinds(SMACv2Env("10gen_terran"), 6) for _ in range(2)]
    assert nobody[0] != nobody[1]


def test_set_seed_before_the_first_reset_is_the_constructors_seed_and_later_starts_the_game_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(monkeypatch)
    built, told = SMACv2Env("10gen_zerg", seed=7), SMACv2Env("10gen_zerg")
    told.set_seed(7)
    assert kinds(built, 5) == kinds(told, 5)
    assert told.get_stats()["restarts"] == 0
    rolls = []
    for _ in range(2):
        told.set_seed(3)
        rolls.append(told.rollout(8))
    assert bool((rolls[0] == rolls[1]).all())
    assert told.get_stats()["restarts"] == 2


def test_maps_are_made_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingExtra, match="on no package index, and StarCraft II; pip install git"):
        SMACv2Env("10gen_terran")
    installed(monkeypatch)
    plain = SMACv2Env("3s5z", seed=4, categorical_actions=False, episode_limit=7, group_map="one_group_per_agent")
    assert (plain.map_name, plain._env.seed(), plain._env.episode_limit, list(plain.group_map)) == (
        "3s5z",
        4,
        7,
        ["0", "1", "2"],
    )
    asked = {"n_units": 6, "n_enemies": 2, "team_gen": {**default_capabilities("10gen_terran")["team_gen"]}}
    before = deepcopy(asked)
    drawn = SMACv2Env("10gen_terran", asked)
    assert len(drawn.group_map["agents"]) == 6
    assert asked == before  # smacv2 writes into what it is given
    assert drawn.check_env_specs() is None
    assert SMACv2Env.available_envs == sorted(NAMES)
    with pytest.raises(UnknownName, match="SMACv2Env: no map is called '10gen_teran'; did you mean '10gen_terran'"):
        SMACv2Env("10gen_teran")


@pytest.mark.parametrize("name", ["10gen_terran", "10gen_protoss", "10gen_zerg"])
def test_the_maps_that_draw_their_teams_need_no_config(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    env = SMACv2Env(name, seed=0)
    assert len(env.group_map["agents"]) == 5
    config = env._env.distribution_config
    assert sum(config["team_gen"]["weights"]) == pytest.approx(1.0)
    assert env.rollout(4).shape == (4,)


@pytest.mark.parametrize("wrap", [False, True])
def test_actions_are_repeated_while_they_are_legal_and_everybody_lives(wrap: bool) -> None:
    make = lambda **o: SMACv2Wrapper(StarCraft2Env(harmless=True, n_enemies=9, episode_limit=30), **o)  # noqa: E731
    env = make(frame_skip=4)
    td = env.reset()
    td["agents", "action"] = torch.tensor([6, 6, 1] if wrap else [1, 1, 1])
    after = env.step(td)["next"]
    # an enemy takes three hits, two a step: the second step fells it, and shooting at it is illegal then
    assert env._env.t == (2 if wrap else 4)
    assert after["reward"].item() == (4.0 if wrap else 0.0)


def test_other_things_are_refused() -> None:
    with pytest.raises(SpecError, match="expected a StarCraft2Env of smacv2, got int"):
        SMACv2Wrapper(3)
