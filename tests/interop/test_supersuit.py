"""SuperSuit's vectorisers take our envs from their PettingZoo export, and give the numbers of our env."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import marlenv
from marlenv import to_pettingzoo_parallel

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
suit = pytest.importorskip("supersuit", reason="needs SuperSuit: VENV=.venv tests/simulators.sh supersuit")


def scenario() -> Any:
    return marlenv.make("simple_spread", compile="none", max_steps=7)


def test_agents_as_a_vector() -> None:
    vector, env = suit.pettingzoo_env_to_vec_env_v1(to_pettingzoo_parallel(scenario())), scenario()
    env.set_seed(4)
    td, (seen, _) = env.reset(), vector.reset(seed=4)
    rng = np.random.default_rng(0)
    for step in range(7):
        assert np.array_equal(seen, td["agents", "observation"][0].numpy())
        actions = rng.uniform(-1, 1, (3, 2)).astype(np.float32)
        seen, rewards, terminated, truncated, _ = vector.step(actions)
        data = env.step(td.set(("agents", "action"), torch.from_numpy(actions)[None]))
        assert np.allclose(rewards, data["next", "agents", "reward"].reshape(3).numpy())
        assert not terminated.any()
        assert truncated.all() == (step == 6)
        td = env.step_mdp(data)


@pytest.mark.parametrize("base", ["gymnasium", "stable_baselines3"])
def test_several_envs_as_one_vector(base: str) -> None:
    if base == "stable_baselines3":
        pytest.importorskip(base, reason="needs Stable-Baselines3: VENV=.venv tests/simulators.sh sb3")
    one = suit.pettingzoo_env_to_vec_env_v1(to_pettingzoo_parallel(scenario()))
    vector = suit.concat_vec_envs_v1(one, 2, num_cpus=0, base_class=base)
    assert vector.num_envs == 6
    seen = vector.reset()
    seen = seen if base == "stable_baselines3" else seen[0]
    assert seen.shape == (6, 14)
    ends = [vector.step(np.zeros((6, 2), np.float32))[2 if base == "stable_baselines3" else 3] for _ in range(8)]
    assert [bool(np.all(one)) for one in ends] == [False] * 6 + [True, False]


def test_frames_are_stacked() -> None:
    zoo = suit.frame_stack_v1(to_pettingzoo_parallel(scenario()), 3)
    first, _ = zoo.reset(seed=1)
    after = zoo.step({agent: np.zeros(2, np.float32) for agent in zoo.agents})[0]
    assert first["agent_0"].shape == (42,)
    assert np.array_equal(after["agent_0"][14:28], first["agent_0"][28:])


def test_frames_are_skipped() -> None:
    """Two steps of our env in one, and their rewards added up; how many of 1 to 3, the seed says."""
    zoo, env = suit.frame_skip_v0(to_pettingzoo_parallel(scenario()), 2), scenario()
    env.set_seed(4)
    td, _ = env.reset(), zoo.reset(seed=4)
    action = torch.full((1, 3, 2), 0.5)
    for _ in range(3):
        seen, rewards, *_ = zoo.step({agent: action[0, 0].numpy() for agent in zoo.agents})
        total = torch.zeros(3)
        for _ in range(2):
            data = env.step(td.set(("agents", "action"), action))
            total += data["next", "agents", "reward"].reshape(3)
            td = env.step_mdp(data)
        assert np.allclose([rewards[f"agent_{i}"] for i in range(3)], total.numpy())
        assert np.array_equal(seen["agent_0"], td["agents", "observation"][0, 0].numpy())

    def lengths(seed: int) -> list[int]:
        zoo = suit.frame_skip_v0(to_pettingzoo_parallel(marlenv.make("simple_spread", compile="none")), (1, 3))
        steps, inner = [], zoo.unwrapped.inner
        step = inner.step
        object.__setattr__(inner, "step", lambda td: (steps.append(1), step(td))[1])
        zoo.reset(seed=seed)
        drawn = []
        for _ in range(20):
            before = len(steps)
            zoo.step({agent: action[0, 0].numpy() for agent in zoo.agents})
            drawn.append(len(steps) - before)
        return drawn

    assert lengths(3) == lengths(3) != lengths(4)
    assert set(lengths(3)) == {1, 2, 3}
