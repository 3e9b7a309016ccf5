"""``marlenv bench rollout`` gives every side the same policy, and asks it as often."""

from __future__ import annotations

import pytest
import torch

from marlenv import make
from marlenv.cli.benches import rollout
from marlenv.errors import SpecError
from marlenv.physics.jit import cache


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # VMAS and TorchRL warn of their own ways
def test_every_side_asks_the_same_policy_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchrl.envs.libs.vmas import VmasEnv

    monkeypatch.setattr(rollout, "STEPS", 7)
    env = make("simple_spread", num_envs=4, seed=0, max_steps=5, clamp_actions=True)
    theirs = VmasEnv("simple_spread", num_envs=4, seed=0, max_steps=5)
    asked: list[torch.Size] = []

    def counting(policy: rollout.Policy) -> rollout.Policy:
        def counted(td):
            asked.append(td["agents", "observation"].shape)
            return policy(td)

        return counted

    for kind, policy in rollout.policies(env).items():
        for name, play in rollout.sides(env, theirs, counting(policy)).items():
            asked.clear()
            assert play() == 7, name
            assert asked == [torch.Size([4, 3, 14])] * 7, (kind, name)


@pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")
@pytest.mark.filterwarnings("ignore")
def test_what_is_more_than_the_policy_is_the_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    got = {"ours": 50.0, "alone": 20.0, "by hand": 60.0, "TorchRL + VMAS": 900.0}
    monkeypatch.setattr(rollout, "interleaved", lambda sides, rounds: got)
    figures = rollout.measure(1, only="spread")
    assert [figure.what for figure in figures] == [
        f"simple_spread, 32 rows, {kind}{more}"
        for kind in ("a function", "a module")
        for more in ("", "", ": more than the policy")
    ]
    assert [(figure.ours, figure.peer) for figure in figures[:3]] == [(50.0, 60.0), (50.0, 900.0), (30.0, 20.0)]


def test_a_scenario_that_there_is_not_is_an_error_with_those_there_are() -> None:
    with pytest.raises(SpecError, match="nothing has 'balance' in its name; there are simple_spread, navigation"):
        rollout.measure(1, only="balance")
