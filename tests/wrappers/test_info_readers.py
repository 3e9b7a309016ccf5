"""Readers of gym's info dicts, on gymnasium's own Pendulum with an info that says something."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from marlenv import check_env_specs
from marlenv.specs import Bounded, Composite, Unbounded
from marlenv.wrappers import GymLikeEnv, default_info_dict_reader

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")


class Told(gymnasium.Wrapper):
    """Counts its steps in the info."""

    def reset(self, **options: Any) -> Any:
        self.steps = 0
        return self.env.reset(**options)[0], {"steps": 0.0, "_private": 1.0}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return (*self.env.step(action)[:4], {"steps": float(self.steps), "_private": 1.0})


class PendulumEnv(GymLikeEnv):
    def _build_env(self) -> Any:
        return Told(gymnasium.make("Pendulum-v1"))

    def _make_specs(self, env: Any) -> None:
        self.observation_spec = Composite(observation=Unbounded((3,)))
        self.action_spec = Bounded(-2, 2, (1,))
        self.reward_spec = Unbounded((1,))

    def _output_transform(self, out: Any) -> Any:
        observation, reward, terminated, truncated, info = out
        return observation, reward, terminated, truncated, terminated or truncated, info

    def _reset_output_transform(self, out: Any) -> Any:
        return out

    def _set_seed(self, seed: int | None) -> None:
        pass


READERS = {
    "by name": lambda: default_info_dict_reader(["steps"]),
    "learnt": lambda: None,
    "a function": lambda: lambda info, td: td.set("steps", torch.tensor(info["steps"])),
}


@pytest.mark.parametrize("reader", READERS)
def test_infos_are_in_the_data_from_the_first_reset_on(reader: str) -> None:
    env = PendulumEnv()
    assert env.set_info_dict_reader(READERS[reader]()) is env
    assert float(env.reset()["steps"]) == 0
    assert env.rollout(3)["next", "steps"].flatten().tolist() == [1, 2, 3]
    if reader != "a function":  # which says no spec
        assert "steps" in env.observation_spec
        assert "_private" not in env.observation_spec
        check_env_specs(env)


class Moves:
    """Shows one array, and writes into it again."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def reset(self) -> Any:
        self.value[:] = 0
        return self.value, {"at": self.value}

    def step(self, action: Any) -> Any:
        self.value += 1
        return self.value, 1.0, False, False, {"at": self.value}


class MovesEnv(PendulumEnv):
    def _build_env(self, env: Any) -> Any:
        return env


@pytest.mark.parametrize("reader", [None, default_info_dict_reader(["at"], spec=[Unbounded((3,))])])
@pytest.mark.parametrize("make", [lambda: np.zeros(3, np.float32), lambda: torch.zeros(3)])
def test_what_a_simulator_writes_into_again_is_copied(make: Any, reader: Any) -> None:
    env = MovesEnv(env=Moves(make())).set_info_dict_reader(reader)
    data = env.rollout(3, return_contiguous=False)
    for key in ("at", "observation"):
        assert [td[key].tolist() for td in data.unbind(0)] == [[n] * 3 for n in range(3)]
        assert [td["next", key].tolist() for td in data.unbind(0)] == [[n] * 3 for n in (1, 2, 3)]
