"""SMACv2 through the wrapper, on stand-ins with smacv2's public surface (see ``stand_in_smacv2.py``)."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from raw import Ends, Moment, follow
from stand_in_smacv2 import StarCraft2Env, StarCraftCapabilityEnvWrapper

from marlenv.errors import IllegalAction, MissingExtra, ResetError, SpecError, Unsupported
from marlenv.testing import run_contract
from marlenv.wrappers.smacv2 import SMACv2Env, SMACv2Wrapper


class Battle:
    """The stand-in, by hand."""

    def __init__(self, sim: Any) -> None:
        self.sim = sim

    def reset(self, seed: int | None) -> Moment:
        self.sim.reset()
        self.ends: Ends = {}
        return self._say(0.0, False, {})

    def step(self, actions: dict[str, Any]) -> Moment:
        return self._say(*self.sim.step([int(actions.get(str(i), 0)) for i in range(self.sim.n_agents)]))

    def _say(self, reward: float, over: bool, info: dict[str, Any]) -> Moment:
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
        return Moment(seen, dict(self.ends), alive, alive, {}, legal, root)


MAPS = st.sampled_from(
    [None, {"a": ["0", "2"], "b": ["1"]}, "one_group_per_agent", {"x": {"y": ["2"], "z": ["0"]}, "w": ["1"]}]
)


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


def test_the_seed_is_the_constructors() -> None:
    with pytest.raises(Unsupported, match=r"pass SMACv2Env\(seed=...\)"):
        SMACv2Wrapper(StarCraft2Env()).set_seed(0)


def test_maps_are_made_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingExtra, match="on no package index, and StarCraft II; pip install git"):
        SMACv2Env("10gen_terran")
    package, envs = ModuleType("smacv2"), ModuleType("smacv2.env")
    package.env, envs.StarCraft2Env, envs.StarCraftCapabilityEnvWrapper = (
        envs,
        StarCraft2Env,
        StarCraftCapabilityEnvWrapper,
    )
    monkeypatch.setitem(sys.modules, "smacv2", package)
    monkeypatch.setitem(sys.modules, "smacv2.env", envs)
    plain = SMACv2Env("3s5z", seed=4, categorical_actions=False, episode_limit=7, group_map="one_group_per_agent")
    assert (plain.map_name, plain._env.seed(), plain._env.episode_limit, list(plain.group_map)) == (
        "3s5z",
        4,
        7,
        ["0", "1", "2"],
    )
    drawn = SMACv2Env("10gen_terran", {"n_units": 5, "n_enemies": 2})
    assert len(drawn.group_map["agents"]) == 5
    assert drawn.check_env_specs() is None


def test_other_things_are_refused() -> None:
    with pytest.raises(SpecError, match="expected a StarCraft2Env of smacv2, got int"):
        SMACv2Wrapper(3)
