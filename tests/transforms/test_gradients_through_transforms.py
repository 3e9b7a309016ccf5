"""Gradients through transforms of an env that has some: as by hand, and statistics are constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import marlenv
from marlenv import Compose, EnvBase, RewardSum, StepCounter, Transform, TransformedEnv, VecNorm, VecNormV2

OBS, ACTION, REWARD = (("agents", name) for name in ("observation", "action", "reward"))


def smooth() -> EnvBase:
    """A scenario whose rewards have gradients; three rows that are cut off after 4 steps."""
    return marlenv.make("navigation", num_envs=3, seed=0, max_steps=4, grad_enabled=True, compile="none")


class Encoded(Transform):
    """Observations as a learned module has them."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__(in_keys=[OBS])
        self.net = net

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return self.net(obs)


@pytest.mark.parametrize("chain", [list, lambda: [StepCounter(), RewardSum()]])
def test_a_learned_encoder_in_the_env_has_the_gradients_of_one_outside(chain: Callable[[], list[Transform]]) -> None:
    def gradients(inside: bool) -> list[Tensor]:
        torch.manual_seed(0)
        env = smooth()
        net, policy = nn.Linear(env.observation_spec[OBS].shape[-1], 4), nn.Linear(4, 2)
        if inside:
            env = TransformedEnv(env, Compose(*chain(), Encoded(net)))
        td, total = env.reset(), torch.zeros(())
        for _ in range(7):
            seen = td[OBS] if inside else net(td[OBS])
            data, td = env.step_and_maybe_reset(td.set(ACTION, policy(seen).tanh()))
            total = total + data["next", REWARD].sum()
        return list(torch.autograd.grad(total, [*net.parameters(), *policy.parameters()]))

    inside, outside = gradients(True), gradients(False)
    assert all(bool(grad.any()) for grad in inside)
    assert all(torch.equal(*pair) for pair in zip(inside, outside, strict=True))


NORMS: dict[str, Callable[[Any], Any]] = {
    "VecNorm": lambda keys: VecNorm(*keys),
    "VecNormV2": lambda keys: VecNormV2(*keys, reduce_batch_dims=True),
    "VecNormV2 of a row": lambda keys: VecNormV2(*keys),
    "VecNormV2 in the data": lambda keys: VecNormV2(*keys, stateful=False),
}


@pytest.mark.parametrize("kind", NORMS)
def test_statistics_are_constants_of_a_gradient(kind: str) -> None:
    env = TransformedEnv(smooth(), NORMS[kind](([REWARD], [("agents", "normed")])))
    td, total, by_hand = env.reset(), torch.zeros(()), torch.zeros(())
    push = torch.full(env.action_spec.shape, 0.5, requires_grad=True)
    for _ in range(3):
        td = env.step(td.set(ACTION, push * 1))
        raw, normed = td["next", REWARD], td["next", "agents", "normed"]
        (slope,) = torch.autograd.grad(normed.sum(), raw, retain_graph=True)
        if kind != "VecNormV2 in the data":
            torch.testing.assert_close(slope, (1 / env.transform.scale[REWARD]).expand_as(slope).detach())
        total, by_hand = total + normed.sum(), by_hand + (raw * slope).sum()
        td = env.step_mdp(td)
    (grad,), (want,) = (torch.autograd.grad(x, push, retain_graph=True) for x in (total, by_hand))
    assert bool(grad.isfinite().all())
    assert bool(grad.any())
    torch.testing.assert_close(grad, want)
