"""Spaces of specs: what a simulator of Gymnasium's has goes through our wrapper and comes back as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import marlenv
from marlenv import Binary, Categorical, GymWrapper, MultiCategorical, MultiOneHot, OneHot, to_gymnasium
from marlenv.errors import SpecError
from marlenv.interop.spaces import space_of
from marlenv.testing.mocks import CountingEnv

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")
from gymnasium import spaces  # noqa: E402


class Echo(gymnasium.Env):
    """Observes what its space draws, and keeps what it was told."""

    def __init__(self, seen: Any, acts: Any) -> None:
        self.observation_space, self.action_space = seen, acts
        self.observation_space.seed(1)
        self.shown = self.told = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.shown = self.observation_space.sample()
        return self.shown, {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.told, self.shown = action, self.observation_space.sample()
        return self.shown, 0.0, False, False, {}


SPACES = {
    "one bit": spaces.MultiBinary(1),
    "two bits": spaces.MultiBinary(2),
    "three bits": spaces.MultiBinary(3),
    "rows of bits": spaces.MultiBinary((2, 3)),
    "choices": spaces.MultiDiscrete([2, 5]),
    "rows of choices": spaces.MultiDiscrete([[2, 5], [3, 4]]),
    "a cube of choices": spaces.MultiDiscrete([[[2, 5], [3, 4]]] * 3),
    "a choice": spaces.Discrete(4),
}


@pytest.mark.parametrize("categorical", [True, False], ids=["numbers", "one-hot"])
@pytest.mark.parametrize("name", SPACES)
def test_a_simulators_spaces_come_back(name: str, categorical: bool) -> None:
    space = SPACES[name]
    acts = SPACES["three bits"] if name == "one bit" else space
    if not categorical and name in ("rows of choices", "a cube of choices"):
        pytest.skip("there are no one-hot specs of them")
    sim = Echo(space, acts)
    back = to_gymnasium(GymWrapper(sim, categorical_action_encoding=categorical))
    assert (back.observation_space, back.action_space) == (space, acts)
    seen, _ = back.reset(seed=0)
    back.action_space.seed(0)
    for _ in range(20):
        assert space.contains(seen)
        assert np.array_equal(seen, sim.shown)
        action = back.action_space.sample()
        seen, *_ = back.step(action)
        assert np.array_equal(sim.told, action)


@pytest.mark.parametrize(
    ("spec", "seen", "acts"),
    [
        (Binary(shape=(3,)), "MultiBinary(3)", "MultiBinary(3)"),
        (Binary(shape=(5,), dtype=torch.float32), "MultiBinary(5)", "MultiBinary(5)"),
        (Binary(shape=(2, 3)), "MultiBinary((2, 3))", "MultiBinary((2, 3))"),
        (Binary(shape=()), "Discrete(2)", "Discrete(2)"),
        (Binary(shape=(9,), dtype=torch.bool), "Box(0, 1, (9,), int8)", "MultiBinary(9)"),
        (Binary(shape=(8, 8, 2), dtype=torch.bool), "Box(0, 1, (8, 8, 2), int8)", "MultiBinary((8, 8, 2))"),
        (Categorical(2, dtype=torch.bool), "Box(0, 1, (), int8)", "Discrete(2)"),
        (Categorical(3, (2,)), "MultiDiscrete([3 3])", "MultiDiscrete([3 3])"),
        (Categorical(3, (2, 2)), "Box(0, 2, (2, 2), int64)", "Box(0, 2, (2, 2), int64)"),
        (MultiCategorical([2, 3]), "MultiDiscrete([2 3])", "MultiDiscrete([2 3])"),
        (MultiOneHot([2, 3]), "MultiDiscrete([2 3])", "MultiDiscrete([2 3])"),
        (MultiOneHot([2, 3], (2, 5)), "MultiDiscrete([[2 3]\n [2 3]])", "MultiDiscrete([[2 3]\n [2 3]])"),
        (OneHot(3, (2, 1, 3)), "MultiDiscrete([[3]\n [3]])", "MultiDiscrete([[3]\n [3]])"),
    ],
    ids=repr,
)
def test_spaces_of_what_is_observed_and_of_what_is_chosen(spec: Any, seen: str, acts: str) -> None:
    """Bools that are observed are a box, as libraries have masks and planes."""
    assert (repr(space_of("here", "x", spec)), repr(space_of("here", "x", spec, acts=True))) == (seen, acts)
    for space in (space_of("here", "x", spec), space_of("here", "x", spec, acts=True)):
        assert space.shape == np.shape(spec.to_numpy(spec.rand()))


class Switches(CountingEnv):
    """One agent that sets switches; keeps what they were set to."""

    def __init__(self, spec: Any) -> None:
        super().__init__(batch_size=[2])
        self.action_spec = spec.expand(2, *spec.shape)
        self.told: list[Any] = []

    def _step(self, tensordict: Any) -> Any:
        self.told.append(tensordict["action"].clone())
        return super()._step(tensordict.exclude("action").set("action", torch.zeros(2, 1)))


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.float32], ids=str)
def test_stable_baselines_and_pufferlib_set_switches(dtype: torch.dtype) -> None:
    pytest.importorskip("stable_baselines3", reason="needs Stable-Baselines3: pip install -e '.[sb3]'")
    env = Switches(Binary(shape=(3,), dtype=dtype))
    made = marlenv.to_sb3_vec_env(env)
    assert made.action_space == spaces.MultiBinary(3)
    wide = Switches(Binary(shape=(2, 3), dtype=dtype))
    with pytest.raises(SpecError, match=r"several dimensions MultiBinary\(\(2, 3\)\), and Stable-Baselines3 takes one"):
        marlenv.to_sb3_vec_env(wide)
    made.reset()
    made.step(np.array([[0, 1, 1], [1, 0, 0]]))
    assert env.told[-1].tolist() == [[0, 1, 1], [1, 0, 0]]
    pytest.importorskip("pufferlib", reason="needs PufferLib: VENV=.venv tests/simulators.sh pufferlib")
    env = Switches(Binary(shape=(3,), dtype=dtype))
    puffer = marlenv.to_pufferlib(env)
    assert puffer.single_action_space == spaces.MultiDiscrete([2, 2, 2])
    puffer.reset()
    puffer.step(np.array([[0, 1, 1], [1, 0, 0]]))
    assert env.told[-1].tolist() == [[0, 1, 1], [1, 0, 0]]
    with pytest.raises(SpecError, match="MultiDiscrete of one dimension"):
        marlenv.to_pufferlib(wide)
