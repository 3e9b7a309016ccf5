"""Rollouts with a policy in the loop: ours, beside the policy alone, steps by hand, and TorchRL with VMAS.

The policies are a function that writes zeros, and a ``TensorDictModule`` with a perceptron 64 wide. The policy alone
is asked as often as a rollout asks it, about the same data; what a rollout takes more is the env's. On a GPU all sides
have 4,096 rows there, and a turn ends when it has done them; TorchRL with VMAS is beside them where it is installed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import nn

from marlenv.cli.benches.cuda import finished
from marlenv.cli.benches.timing import Figure, chosen, interleaved
from marlenv.optional import has, need
from marlenv.registration import make

ROWS, GPU_ROWS, STEPS, EPISODE = 32, 4096, 256, 100
SCENARIOS = ("simple_spread", "navigation")
WHO, THEIRS = "marlenv bench rollout", "TorchRL + VMAS"
Policy = Callable[[TensorDictBase], TensorDictBase]


def policies(env: Any) -> dict[str, Policy]:
    """A function and a module that act for the group ``"agents"``."""
    observation, action = (("agents", name) for name in ("observation", "action"))
    shape = env.full_action_spec[action].shape
    wide = env.full_observation_spec[observation].shape[-1]

    def function(td: TensorDictBase) -> TensorDictBase:
        td[action] = torch.zeros(shape, device=env.device)
        return td

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(wide, 64), nn.Tanh(), nn.Linear(64, shape[-1]), nn.Tanh())
    return {"a function": function, "a module": TensorDictModule(net.to(env.device), [observation], [action])}


def sides(env: Any, theirs: Any, policy: Policy) -> dict[str, Callable[[], int]]:
    """What is timed with one policy; each plays ``STEPS`` steps."""
    start = env.reset()

    @torch.no_grad()
    def alone() -> int:
        for _ in range(STEPS):
            policy(start.copy())
        return STEPS

    @torch.no_grad()
    def by_hand() -> int:
        td = env.reset()
        for _ in range(STEPS):
            _, td = env.step_and_maybe_reset(policy(td))
        return STEPS

    def rollout(played: Any) -> Callable[[], int]:
        @torch.no_grad()
        def play() -> int:
            played.rollout(STEPS, policy, break_when_any_done=False)
            return STEPS

        return play

    made = {"ours": rollout(env), "alone": alone, "by hand": by_hand}
    made |= {} if theirs is None else {THEIRS: rollout(theirs)}
    return made if env.device.type == "cpu" else {name: finished(play) for name, play in made.items()}


def torchrls(name: str, **options: Any) -> Any:
    """TorchRL's env around a scenario of VMAS."""
    need("vmas", WHO)
    make_env = need("torchrl.envs.libs.vmas", WHO).VmasEnv
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_env(name, **options)


def measure(rounds: int, *, device: str = "cpu", only: str = "") -> list[Figure]:
    """Microseconds per step of all sides, and what a rollout of ours takes more than its policy.

    Args:
        rounds: how often each side is timed.
        device: where all sides run.
        only: measure only the scenario with this in its name.
    """
    on_cpu, out = device == "cpu", []
    rows = ROWS if on_cpu else GPU_ROWS
    same: dict[str, Any] = {"num_envs": rows, "seed": 0, "max_steps": EPISODE, "device": device}
    for name in chosen("rollout", SCENARIOS, only):
        env = make(name, clamp_actions=True, compile="aot", **same)
        theirs = torchrls(name, **same) if on_cpu or (has("torchrl") and has("vmas")) else None
        for kind, policy in policies(env).items():
            got = interleaved(sides(env, theirs, policy), rounds)
            what = f"{name}, {rows} rows, {kind}"
            out += [Figure(what, got["ours"], got[other], other) for other in ("by hand", THEIRS) if other in got]
            out.append(Figure(f"{what}: more than the policy", got["ours"] - got["alone"], got["alone"], "the policy"))
    return out
