"""Scenarios on a GPU: their kernels and their separate operations beside what CPUs compute, and nothing that waits."""

from __future__ import annotations

import pytest
import torch
from marlenv.scenarios.index import SCENARIOS
from sizes import compiled
from test_cuda import SMALLER
from test_fused import same

from marlenv import check_env_specs
from marlenv.cli.benches.cuda import without_waiting
from marlenv.physics.jit import cuda_kernel
from marlenv.physics.jit.tiers import OnGpu
from marlenv.registration import make

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(not cuda_kernel.installed(), reason="needs cuda-core"),
]
NAMES = compiled(sorted(entry.name for entry in SCENARIOS), 1)


def made(name, device="cuda", **options):
    return make(name, device=device, **{"compile": "aot", "seed": 3, **SMALLER.get(name, {}), **options})


@pytest.mark.parametrize("name", NAMES)
def test_rollouts_are_those_of_machine_code_of_the_cpu_bit_for_bit(name):
    env, reference = (made(name, device, num_envs=130, max_steps=4) for device in ("cuda", "cpu"))
    assert isinstance(env.engine, OnGpu)  # and so it computes what separate operations compute on the GPU
    for more in ({"break_when_any_done": False}, {}, {"compact": True}):  # with new episodes, and up to the first end
        same(env.rollout(10, **more).cpu(), reference.rollout(10, **more).clear_device_())


@pytest.mark.parametrize("name", NAMES)
def test_nothing_waits_for_steps_rollouts_and_resets(name):
    for tier in ("aot", "none"):
        env = made(name, num_envs=64, max_steps=3, compile=tier)
        td = env.reset()
        env.rollout(2, break_when_any_done=False)
        for _ in range(2):
            _, td = env.step_and_maybe_reset(env.rand_action(td))
        torch.cuda.synchronize()
        with without_waiting():
            for _ in range(4):
                _, td = env.step_and_maybe_reset(env.rand_action(td))
            env.rollout(5, break_when_any_done=False)


@pytest.mark.parametrize("name", NAMES)
def test_specs_hold(name):
    check_env_specs(made(name, num_envs=3, max_steps=4))
