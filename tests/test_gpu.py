"""Envs on a GPU: their contract, transforms, pools and policies, beside the same on the CPU."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from marlenv import SerialEnv, StepCounter, TransformedEnv, check_env_specs
from marlenv.cli.benches import rollout
from marlenv.errors import DeviceError
from marlenv.registration import make
from marlenv.testing import run_contract
from marlenv.testing.catalogue import envs, transforms

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
CUDA = torch.device("cuda", 0)


def on_gpu(td):
    return {x.device for x in td.values(True, True) if isinstance(x, torch.Tensor)} == {CUDA}


@pytest.mark.parametrize("device", ["cuda", 0, "cuda:0", torch.device("cuda")], ids=str)
def test_a_gpu_has_one_name(device):
    env = make("simple_spread", num_envs=3, device=device, compile="none", seed=0)
    assert env.device == CUDA == env.to("cpu").to(device).device
    assert on_gpu(env.rollout(3))
    env.step(env.rand_action(env.reset().to("cuda")))
    with pytest.raises(DeviceError, match="there are"):
        make("simple_spread", device=f"cuda:{torch.cuda.device_count()}")


CONTRACT = {
    "scenario": partial(make, "simple_tag", max_steps=6, compile="none"),
    "machine code": partial(make, "simple_tag", max_steps=6),
    "chess": partial(make, "chess"),
    "tic-tac-toe": partial(make, "tic_tac_toe"),
    "hanabi": partial(make, "hanabi"),
}


@pytest.mark.parametrize("name", CONTRACT)
def test_the_contract_holds(name):
    def env(num_envs=4):
        return CONTRACT[name](num_envs=num_envs, device="cuda", seed=1)

    broken = [result for result in run_contract(env) if result.verdict == "broken"]
    assert not broken


@pytest.mark.parametrize("example", transforms.TRANSFORMS, ids=lambda one: one.name)
def test_transforms_move_with_their_env(example):
    tried = 0
    for one in envs.ENVS:
        if one.name in ("threads", "asynchronous", "processes") or not example.suits(one.make()):
            continue
        check_env_specs(TransformedEnv(one.make(), example.make()).to("cuda"))
        env, reference = (TransformedEnv(one.make(), example.make()) for _ in range(2))
        env = env.to("cuda")
        assert env.device == (torch.device("cpu") if example.name == "another device" else CUDA)
        env.set_seed(0)
        reference.set_seed(0)
        ours, theirs = env.rollout(4, break_when_any_done=False), reference.rollout(4, break_when_any_done=False)
        for key in theirs.keys(True, True):
            if isinstance(x := theirs.get(key), torch.Tensor) and example.name != "times":
                # a variance is a difference of nearly equal squares, which GPUs add up without rounding in between
                how = {"rtol": 1e-3, "atol": 1e-3} if example.name.startswith("moving averages") else {}
                torch.testing.assert_close(ours.get(key).cpu(), x.cpu(), equal_nan=True, **how)
        tried += 1
        if tried == 3:
            break
    assert tried


@pytest.mark.parametrize("compile", ["none", "aot"])
def test_rollouts_with_a_policy_are_their_steps(compile):
    torch.manual_seed(0)
    net = nn.Sequential(nn.LazyLinear(32), nn.Tanh(), nn.Linear(32, 2), nn.Tanh()).to(CUDA)
    policy = TensorDictModule(net, in_keys=[("agents", "observation")], out_keys=[("agents", "action")])
    env, hand = (make("navigation", num_envs=40, seed=2, max_steps=6, device="cuda", compile=compile) for _ in "12")
    with torch.no_grad():
        policy(env.reset())
        env.set_seed(2)
        ours = env.rollout(15, policy, break_when_any_done=False)
        steps, td = [], hand.reset()
        for _ in range(15):
            step, td = hand.step_and_maybe_reset(policy(td))
            steps.append(step)
    theirs = TensorDict.stack(steps, 1)
    assert on_gpu(ours)
    for key in theirs.keys(True, True):
        assert torch.equal(ours.get(key), theirs.get(key)), key


def test_gradients_flow_through_steps():
    env = make("navigation", num_envs=8, seed=2, device="cuda", grad_enabled=True)
    td = env.reset()
    action = torch.zeros(8, 4, 2, device=CUDA, requires_grad=True)
    total = 0
    for _ in range(3):
        out = env.step(td.set(("agents", "action"), action))
        total = total + out["next", "agents", "reward"].sum()
        td = env.step_mdp(out)
    total.backward()
    assert action.grad.isfinite().all()
    assert action.grad.abs().sum() > 0


@pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated:DeprecationWarning")  # PyTorch's compiler imports it
def test_compiled_by_pytorch():
    env, plain = (
        make("simple_spread", num_envs=8, seed=2, device="cuda", compile=tier) for tier in ("compile", "none")
    )
    ours, theirs = env.rollout(5), plain.rollout(5)
    for key in theirs.keys(True, True):
        torch.testing.assert_close(ours.get(key), theirs.get(key), rtol=1e-5, atol=1e-5)


def test_envs_of_the_cpu_in_a_pool_of_the_gpu():
    def one():
        return TransformedEnv(make("tic_tac_toe", num_envs=2, seed=0), StepCounter(5))

    pool, alone = SerialEnv(2, one, device="cuda"), SerialEnv(2, one)
    pool.set_seed(1)
    alone.set_seed(1)
    check_env_specs(pool)
    assert on_gpu(pool.rollout(4, break_when_any_done=False))


def test_rollouts_are_timed_beside_their_policy(monkeypatch):
    monkeypatch.setattr(rollout, "STEPS", 5)
    figures = rollout.measure(1, device="cuda", only="simple_spread")
    assert {figure.what for figure in figures} >= {
        f"simple_spread, 4096 rows, {kind}{more}"
        for kind in ("a function", "a module")
        for more in ("", ": more than the policy")
    }
