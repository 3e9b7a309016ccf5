"""Simulators of JAX: unsigned numbers are observed as they are, states go there and back bit for bit, a reward that is
not a number is an error.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

jax = pytest.importorskip("jax", reason="needs jax: tests/simulators.sh brax")
brax = pytest.importorskip("brax.envs", reason="needs brax: tests/simulators.sh brax")

from marlenv.errors import SpecError  # noqa: E402
from marlenv.wrappers._jax_arrays import spec_of_tree, td_to_tree, to_wider, tree_to_td  # noqa: E402
from marlenv.wrappers.brax import BraxWrapper  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.sim]
jnp = jax.numpy
LARGE = {"uint8": 255, "uint16": 65535, "uint32": 2**32 - 1}


class Numbers(brax.Env):
    """Observes two large numbers of a dtype; the reward of the second step is 0 / 0 if it is told so."""

    def __init__(self, dtype: str, *, divides: bool = False) -> None:
        self.dtype, self.divides = dtype, divides

    def reset(self, rng: Any) -> Any:
        seen = jnp.array([LARGE[self.dtype], 1], self.dtype)
        return brax.State(None, seen, jnp.float32(0), jnp.float32(0), {"time": jnp.float32(0)}, {})

    def step(self, state: Any, action: Any) -> Any:
        time = state.metrics["time"] + 1
        reward = jnp.where(self.divides & (time == 2), jnp.nan, time)
        return state.replace(reward=reward, metrics={"time": time})

    @property
    def observation_size(self) -> int:
        return 2

    @property
    def action_size(self) -> int:
        return 1

    @property
    def backend(self) -> str:
        return "none"


@pytest.mark.parametrize("dtype", LARGE)
def test_unsigned_numbers_are_observed_as_they_are(dtype: str) -> None:
    env = BraxWrapper(Numbers(dtype), batch_size=[2])
    data = env.rollout(2)
    for seen in (data["observation"], data["next", "observation"]):
        assert seen.tolist() == [[[LARGE[dtype], 1]] * 2] * 2
    assert env.observation_spec.is_in(data[:, 0].select(*env.observation_spec.keys()))


@pytest.mark.parametrize("dtype", LARGE)
def test_states_go_there_and_back_bit_for_bit(dtype: str) -> None:
    state = {"bits": jnp.array([[LARGE[dtype], 0], [1, LARGE[dtype] // 2 + 1]], dtype)}
    there = tree_to_td(state, 2, held=True)
    assert spec_of_tree({"bits": state["bits"][0]}, held=True)["bits"].dtype == there["bits"].dtype
    back = td_to_tree(there, state, "the test", one_row=False)["bits"]
    assert back.dtype == state["bits"].dtype
    assert back.tolist() == state["bits"].tolist()


def test_arrays_that_are_looked_at_are_the_numbers_that_they_were() -> None:
    for dtype, large in LARGE.items():
        assert to_wider(jnp.array([large, 1], dtype)).tolist() == [large, 1]


def test_a_reward_that_is_not_a_number_is_an_error() -> None:
    env = BraxWrapper(Numbers("uint8", divides=True), batch_size=[3])
    data = env.step(env.rand_action(env.reset()))["next"]
    assert data["reward"].tolist() == [[1.0]] * 3
    with pytest.raises(SpecError, match=r"^BraxWrapper\.step: the reward in row 0 is not a number, got \[nan\]"):
        env.step(data.set("action", torch.zeros(3, 1)))
