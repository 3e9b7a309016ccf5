"""PyTorch's default dtype is nobody's business here: data are float32 whatever it is, in every tier."""

from __future__ import annotations

import pytest
import torch
from marlenv.scenarios.index import SCENARIOS
from sizes import first

from marlenv import make
from marlenv.physics.jit import cache

compiled = pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")
CHOICES = {"continuous_actions": False}


@pytest.fixture
def another_default():
    yield torch.float64
    torch.set_default_dtype(torch.float32)


def played(name, tier, options):
    env = make(name, num_envs=3, seed=0, max_steps=3, compile=tier, **options)
    td = env.step(env.rand_action(env.reset()))
    return [env.rollout(5, break_when_any_done=False), td, env.set_state(env.get_state()), env.get_state()]


def check(name, tier, options, default):
    before = played(name, tier, options)
    torch.set_default_dtype(default)
    for one, other in zip(before, played(name, tier, options), strict=True):
        keys = set(one.keys(True, True))
        assert keys == set(other.keys(True, True))
        for key in keys:
            assert other[key].dtype == one[key].dtype, key
            torch.testing.assert_close(other[key], one[key], rtol=1e-5, atol=1e-5,
                                       msg=lambda text, key=key: f"{key}: {text}")  # fmt: skip


@pytest.mark.parametrize("options", [{}, CHOICES], ids=["numbers", "choices"])
@pytest.mark.parametrize("name", first([entry.name for entry in SCENARIOS], 3))
def test_separate_operations(name, options, another_default):
    check(name, "none", options, another_default)


@pytest.mark.slow
@compiled
@pytest.mark.parametrize("options", [{}, CHOICES], ids=["numbers", "choices"])
@pytest.mark.parametrize("name", ["simple_tag", "balance", "give_way"])
def test_machine_code(name, options, another_default):
    check(name, "aot", options, another_default)
