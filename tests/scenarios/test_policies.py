"""Heuristic policies: they act as VMAS's, and reach its scores."""

import warnings

import harness
import numpy as np
import pytest
import torch
from marlenv.scenarios.balance_policy import BalancePolicy
from marlenv.scenarios.discovery_policy import DiscoveryPolicy
from marlenv.scenarios.flocking_policy import FlockingPolicy
from marlenv.scenarios.navigation_policy import NavigationPolicy
from marlenv.scenarios.transport_policy import TransportPolicy
from marlenv.scenarios.wheel_policy import WheelPolicy
from scipy.optimize import minimize

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from vmas.scenarios import load

POLICIES = {
    "balance": BalancePolicy,
    "discovery": DiscoveryPolicy,
    "flocking": FlockingPolicy,
    "transport": TransportPolicy,
    "wheel": WheelPolicy,
}
ALL = {**POLICIES, "navigation": NavigationPolicy}
EPISODES, STEPS = 200, 150


def theirs(name, *, continuous=True):
    return load(f"{name}.py").HeuristicPolicy(continuous)


@pytest.mark.reference
@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_acts_as_that_of_vmas(name):
    seen = harness.make(name, 64, seed=0).rollout(20)["agents", "observation"].flatten(0, 2)
    for u_range in (1.0, 0.4):
        expected = theirs(name).compute_action(seen.clone(), u_range)
        torch.testing.assert_close(POLICIES[name](u_range).act(seen), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.reference
def test_the_choices_of_balance_are_those_of_vmas():
    seen = torch.randn(50, 16, generator=torch.Generator().manual_seed(0))
    assert torch.equal(
        BalancePolicy(continuous=False).act(seen), theirs("balance", continuous=False).compute_action(seen, 1.0)
    )


def test_the_policy_of_navigation_solves_its_quadratic_program():
    g = torch.Generator().manual_seed(0)
    levers, needs = torch.randn(20, 2, generator=g) * 2, torch.randn(20, generator=g) * 3
    levers[:4, 0] = 0
    policy = NavigationPolicy(u_range=0.7)
    for u, lever, need in zip(policy.smallest(levers, needs), levers.numpy(), needs.tolist(), strict=True):

        def cost(x, lever=lever, need=need):
            return x @ x + 100 * max(0.0, need + lever @ x) ** 2

        best = min(
            (minimize(cost, start, bounds=[(-0.7, 0.7)] * 2) for start in ((0, 0), (0.5, -0.5), (-0.5, 0.5))),
            key=lambda r: r.fun,
        )
        assert cost(u.double().numpy()) <= best.fun + 1e-3 * max(1.0, best.fun)


@pytest.mark.parametrize("name", ALL)
def test_a_policy_plays_through_the_env(name):
    policy = ALL[name]()
    data = harness.make(name, 8, seed=0).rollout(5, policy)
    torch.testing.assert_close(data["agents", "action"], policy.act(data["agents", "observation"]))


@pytest.mark.slow
def test_the_policy_of_navigation_brings_agents_nearer_all_the_time():
    data = harness.make("navigation", 32, seed=0, collisions=False).rollout(
        300, NavigationPolicy(), break_when_any_done=False
    )
    far = data["agents", "observation"][..., 4:6].norm(dim=-1)[:, ::50].mean((0, 2))
    assert (far[1:] < 0.85 * far[:-1]).all()
    assert far[-1] < 0.3 * far[0]


def scores(rewards, dones):
    """The sum of rewards of each row until it is done; ``[episodes]``."""
    going = torch.cat((torch.ones_like(dones[:1]), ~dones[:-1].cumsum(0).bool()))
    return (rewards * going).sum(0).numpy()


def our_scores(name):
    data = harness.make(name, EPISODES, seed=1).rollout(STEPS, ALL[name](), break_when_any_done=False)
    return scores(data["next", "agents", "reward"].mean((2, 3)).t(), data["next", "done"].squeeze(-1).t())


def their_scores(name):
    env = harness.vmas.make_env(name, num_envs=EPISODES, seed=1)
    if name == "navigation":  # that of VMAS needs a solver for its quadratic program, of which ours knows the solution

        def act(seen, u_range):
            return NavigationPolicy(u_range).act(seen)
    else:
        act = theirs(name).compute_action
    seen, rewards, dones = env.reset(), [], []
    for _ in range(STEPS):
        actions = [act(one, u_range=agent.u_range) for one, agent in zip(seen, env.agents, strict=True)]
        seen, reward, done, _ = env.step(actions)
        rewards.append(torch.stack([r.flatten() for r in reward]).mean(0))
        dones.append(done)
    return scores(torch.stack(rewards), torch.stack(dones))


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("name", ALL)
def test_a_policy_reaches_the_score_of_vmas(name, monkeypatch):
    monkeypatch.setattr(harness.core.World, "collides", harness.without_gate)
    ours, vmas = our_scores(name), their_scores(name)
    rng = np.random.default_rng(0)
    draws = [rng.choice(ours, EPISODES).mean() - rng.choice(vmas, EPISODES).mean() for _ in range(2000)]
    low, high = np.quantile(draws, [0.005, 0.995])  # the bootstrap interval of the difference of means
    assert low <= 0 <= high, (name, ours.mean(), vmas.mean(), low, high)
