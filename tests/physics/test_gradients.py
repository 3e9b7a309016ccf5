"""Gradients through the physics: of first and second order, over episodes, and in copies."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from marlenv.physics.env import ScenarioEnv
from marlenv.physics.laws.contacts import depth
from marlenv.registration import make


def spread(**options: object) -> ScenarioEnv:
    env = make("simple_spread", 2, seed=0, n_agents=2, grad_enabled=True, compile="none", **options)
    assert isinstance(env, ScenarioEnv)
    return env


def test_second_derivatives_agree_with_differences_of_the_first() -> None:
    env = spread()
    state = env.get_state(env.reset())

    def slope(push: Tensor) -> Tensor:
        td = env.set_state(state)
        for _ in range(2):
            after = env.step(td.set(("agents", "action"), push))
            td = env.step_mdp(after)
        worth = after["next", "agents", "observation"].square().sum()
        return torch.autograd.grad(worth, push, create_graph=True)[0]

    push, step = torch.full((2, 2, 2), 0.3, requires_grad=True), 1e-2
    second = torch.autograd.grad(slope(push).sum(), push)[0]
    up, down = (slope((push.detach() + way).requires_grad_()).detach() for way in (step, -step))
    assert torch.allclose(second, (up - down) / (2 * step), atol=1e-5)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # torch.func's own
def test_bodies_far_apart_have_finite_derivatives_of_every_order() -> None:
    """The law is a softplus, whose derivatives are the sigmoid and its slope."""
    over = torch.tensor([-300.0, -1.0, 0.0, 1.0, 300.0], dtype=torch.float64, requires_grad=True)
    first = torch.autograd.grad(depth(over, 1.0).sum(), over, create_graph=True)[0]
    assert torch.allclose(first, over.sigmoid())
    assert torch.allclose(torch.autograd.grad(first.sum(), over)[0], over.sigmoid() * (-over).sigmoid())
    with torch.no_grad():
        plain = depth(over, 1.0)
    assert torch.equal(depth(over, 1.0), plain)
    assert torch.allclose(torch.func.jacfwd(lambda x: depth(x, 1.0))(over.detach()).diagonal(), over.sigmoid())


@pytest.mark.parametrize("by", ["limit", "mask"])
def test_what_starts_anew_everywhere_hangs_on_nothing(by: str) -> None:
    env = spread(max_steps=3 if by == "limit" else None)
    push, td = torch.zeros(2, 2, 2, requires_grad=True), env.reset()
    for _ in range(2):
        loss = torch.zeros(())
        for _ in range(3):
            action = push + td["agents", "observation"][..., :2]
            after, td = env.step_and_maybe_reset(td.set(("agents", "action"), action))
            loss = loss - after["next", "agents", "reward"].sum()
        loss.backward()
        if by == "mask":
            td = env.reset(td.set("_reset", torch.ones(2, 1, dtype=torch.bool)))
        assert not td["agents", "observation"].requires_grad


def test_a_copy_in_the_middle_of_an_episode_goes_on_without_the_graph() -> None:
    env = spread()
    action = torch.zeros(2, 2, 2, requires_grad=True)
    td = env.step_mdp(env.step(env.reset().set(("agents", "action"), action * 1)))
    other = copy.deepcopy(env)
    nexts = [each.step(td.clone().set(("agents", "action"), action))["next", "agents"] for each in (env, other)]
    assert torch.equal(nexts[0]["observation"], nexts[1]["observation"])
    reward = nexts[1]["reward"].sum()
    reward.backward()  # through the last step only; through the first as well, it would be gone afterwards
    nexts[0]["reward"].sum().backward()


@pytest.mark.parametrize("tier", ["aot", "none"])
@pytest.mark.parametrize("most", [0, -1, 2.5, "3", True])
def test_a_limit_is_checked_whenever_it_is_set(most: object, tier: str) -> None:
    env = make("simple_spread", 2, seed=0, compile=tier)
    with pytest.raises(ValueError, match=rf"ScenarioEnv: max_steps must be an integer from 1 on, got {most!r}"):
        env.max_steps = most
    env.max_steps = 3
    assert env.rollout(4, break_when_any_done=False)["next", "truncated"][0].flatten().tolist() == [0, 0, 1, 0]
