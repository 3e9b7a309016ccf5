"""PyTorch's default device is nobody's business here: an env on the CPU makes its data there, in every tier."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from marlenv.scenarios.index import SCENARIOS
from sizes import first
from torch import Tensor

from marlenv import make
from marlenv.buffer_pool import BufferPool
from marlenv.errors import DeviceError
from marlenv.physics.jit import cache

compiled = pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")


def played(name, tier, made, run):
    """What an env gives that is made, and that plays, within a context each."""
    with made:
        env = make(name, num_envs=3, seed=0, max_steps=3, compile=tier)
    with run:
        by_hand = env.step(env.rand_action(env.reset()))
        step, after = env.step_and_maybe_reset(env.rand_action(env.reset()))
        asked = env.rollout(4, env.rand_action, break_when_any_done=False)
        return [by_hand, step, after, asked, env.rollout(5, break_when_any_done=False), env.get_state()]


def check(name, tier, made, run):
    for one, other in zip(played(name, tier, nullcontext(), nullcontext()), played(name, tier, made, run), strict=True):
        for key, x in one.items(True, True):
            assert not isinstance(x, Tensor) or (other[key].is_cpu and torch.equal(x, other[key])), key


@pytest.mark.slow
@pytest.mark.parametrize("name", first([entry.name for entry in SCENARIOS], 6))
def test_separate_operations(name):
    check(name, "none", torch.device("meta"), torch.device("meta"))


@pytest.mark.slow
@compiled
@pytest.mark.parametrize("name", ["navigation", "football"])
@pytest.mark.parametrize("made", [nullcontext(), torch.device("meta")], ids=["made before", "made there"])
def test_machine_code(name, made):
    """It had been given memory of the default device to write to, which ended the process."""
    check(name, "aot", made, torch.device("meta"))


@pytest.mark.slow
@compiled
def test_machine_code_is_never_told_to_write_elsewhere(monkeypatch):
    lend = BufferPool.lend
    env = make("navigation", num_envs=3, seed=0, compile="aot")
    monkeypatch.setattr(BufferPool, "lend", lambda *args: [x.to("meta") for x in lend(*args)])
    with pytest.raises(DeviceError, match="expected tensors on the CPU, got one on meta"):
        env.rollout(3)


@pytest.mark.parametrize("name", ["navigation", "discovery"])
def test_rays_point_where_they_do_whatever_the_default_dtype_is(name):
    """Equal to the last bit; their angles had been numbers of the default dtype."""
    known = make(name, num_envs=3, seed=0, compile="none").rollout(4)
    try:
        torch.set_default_dtype(torch.float64)
        found = make(name, num_envs=3, seed=0, compile="none").rollout(4)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(found["next", "agents", "observation"], known["next", "agents", "observation"])
