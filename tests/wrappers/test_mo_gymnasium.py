"""Rewards with a number for each aim: MO-Gymnasium's envs and vectors beside themselves, and envs like them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from marlenv import check_env_specs
from marlenv.errors import ShapeError, UnknownName
from marlenv.wrappers import GymEnv, GymWrapper, MOGymEnv, MOGymWrapper

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")
pytestmark = pytest.mark.filterwarnings("ignore")


class Aims(gymnasium.Env):
    """Gives a list as a reward, as breakable-bottles-v0 does."""

    observation_space, action_space = gymnasium.spaces.Box(0, 9, (1,)), gymnasium.spaces.Discrete(2)
    reward_space = gymnasium.spaces.Box(-9, 9, (2,))
    reward: Any = (1.0, -0.5)

    def reset(self, **_: Any) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), list(self.reward) if np.ndim(self.reward) else self.reward, False, False, {}


def test_rewards_may_be_lists() -> None:
    assert MOGymWrapper(Aims()).rollout(2)["next", "reward"].tolist() == [[1, -0.5]] * 2
    assert MOGymWrapper(Aims(), frame_skip=3).rollout(2)["next", "reward"].tolist() == [[3, -1.5]] * 2


def test_the_wrapper_for_a_reward_is_named() -> None:
    with pytest.raises(
        ShapeError, match=r"^GymWrapper: a reward must have the shape \[1\], got \[2\]; .* MOGymWrapper"
    ):
        GymWrapper(Aims()).rollout(2)
    one = Aims()
    one.reward = 2.0
    assert GymWrapper(one).rollout(2)["next", "reward"].tolist() == [[2], [2]]
    with pytest.raises(ShapeError, match=r"^MOGymWrapper: a reward must have the shape \[2\], got \[\]; GymWrapper"):
        MOGymWrapper(one).rollout(2)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize(("name", "steps"), [("deep-sea-treasure-v0", 30), ("mo-mountaincar-v0", 210)])
def test_every_number_of_a_vector_is_that_of_single_envs(name: str, steps: int, mode: str) -> None:
    mo_gym = pytest.importorskip("mo_gymnasium", reason="needs MO-Gymnasium: tests/simulators.sh mo_gymnasium")
    env = MOGymEnv(name, num_envs=3, vectorization_mode=mode, categorical_action_encoding=True)
    check_env_specs(env)
    env.set_seed(3)
    td, rows, ends = env.reset(), [mo_gym.make(name) for _ in range(3)], 0
    seen = [row.reset(seed=3 + i)[0] for i, row in enumerate(rows)]
    for _ in range(steps):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        for i, row in enumerate(rows):
            assert np.array_equal(data["observation"][i], seen[i])
            seen[i], reward, terminated, truncated, _ = row.step(int(data["action"][i]))
            after = data["next"][i]
            assert np.array_equal(after["observation"], seen[i])
            assert np.array_equal(after["reward"], np.float32(reward))
            assert (bool(after["terminated"]), bool(after["truncated"])) == (terminated, truncated)
            if terminated or truncated:
                seen[i], ends = row.reset()[0], ends + 1
            assert np.array_equal(td["observation"][i], seen[i])
    assert ends > 0
    env.close()


@pytest.mark.slow
def test_the_simulators_own_lists_are_read_and_wrong_wrappers_named() -> None:
    mo_gym = pytest.importorskip("mo_gymnasium", reason="needs MO-Gymnasium: tests/simulators.sh mo_gymnasium")
    name = "breakable-bottles-v0"
    env, raw = MOGymEnv(name, categorical_action_encoding=True), mo_gym.make(name)
    env.set_seed(1)
    raw.reset(seed=1)
    data = env.rollout(20)
    for row in data:
        assert row["next", "reward"].tolist() == raw.step(int(row["action"]))[1]
    with pytest.raises(
        ShapeError, match=r"^GymEnv: a reward must have the shape \[1\], got \[3\]; .* MOGymWrapper and MOGym"
    ):
        GymEnv("minecart-v0").rollout(2)
    weighted = mo_gym.wrappers.LinearReward(mo_gym.make("minecart-v0"), weight=np.array([0.5, 0.3, 0.2]))
    assert GymWrapper(weighted).rollout(2)["next", "reward"].shape == (2, 1)
    with pytest.raises(ShapeError, match=r"^MOGymWrapper: a reward must have the shape \[3\], got \[\]; GymWrapper"):
        MOGymWrapper(weighted).rollout(2)
    with pytest.raises(UnknownName, match=r"no vectorization_mode 'vector_entry_point'; known: \['async', 'sync'\]"):
        MOGymEnv(name, num_envs=2, vectorization_mode="vector_entry_point")
    assert MOGymEnv(name, num_envs=2, prob_drop=1.0).rollout(2)["next", "reward"].dtype is torch.float32
