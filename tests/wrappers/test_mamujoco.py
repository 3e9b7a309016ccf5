"""MaMuJoCo of gymnasium-robotics, robots whose joints are shared out, through PettingZoo's wrapper, beside itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marlenv import PettingZooWrapper, check_env_specs
from marlenv.envs.seeding import next_seed
from marlenv.testing import run_contract
from marlenv.wrappers.pettingzoo.env import SEEDS

pytestmark = [pytest.mark.slow, pytest.mark.sim, pytest.mark.filterwarnings("ignore")]  # MuJoCo's, about its own models
robotics = pytest.importorskip("gymnasium_robotics", reason="needs MaMuJoCo: tests/simulators.sh mamujoco")


def made(scenario: str, parts: str | None, **options: Any) -> Any:
    return robotics.mamujoco_v1.parallel_env(scenario, parts, **options)


@pytest.mark.parametrize(("scenario", "parts"), [("HalfCheetah", "2x3"), ("Ant", "4x2"), ("Humanoid", "9|8")])
def test_every_number_is_the_simulators(scenario: str, parts: str) -> None:
    env, raw = PettingZooWrapper(made(scenario, parts)), made(scenario, parts)
    (group, names), ends, seed = next(iter(env.group_map.items())), 0, 3
    env.set_seed(seed)
    td, (seen, _) = env.reset(), raw.reset(seed=seed)
    for _ in range(60):
        agents = [td[group][..., i] for i in range(len(names))]
        for name, mine in zip(names, agents, strict=True):
            assert np.array_equal(mine["observation"].numpy(), seen[name])
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        actions = {name: data[group][..., i]["action"].numpy() for i, name in enumerate(names)}
        seen, rewards, terminated, truncated, _ = raw.step(actions)
        for i, name in enumerate(names):
            after = data["next", group][..., i]
            assert float(after["reward"]) == np.float32(rewards[name])
            assert bool(after["terminated"]) is bool(terminated[name])
            assert bool(after["truncated"]) is bool(truncated[name])
        if any(terminated.values()) or any(truncated.values()):
            ends += 1
            seed = next_seed(seed)  # every reset gets one, as PettingZooWrapper says
            seen, _ = raw.reset(seed=seed % SEEDS)
    assert ends > 0 or scenario != "Humanoid"  # it falls soon; cheetahs go on


def test_agents_whose_parts_differ_are_stacked_lazily() -> None:
    env = PettingZooWrapper(made("Humanoid", "9|8"))
    assert env.group_map == {"agent": ["agent_0", "agent_1"]}
    check_env_specs(env)
    sizes = [env.full_action_spec["agent"][i]["action"].shape for i in range(2)]
    assert sizes == [(9,), (8,)]


def test_the_contract_holds() -> None:
    results = run_contract(lambda: PettingZooWrapper(made("HalfCheetah", "2x3")), steps=8)
    assert not [f"{r.name}: {r.says}" for r in results if r.verdict == "broken"]
