"""Heuristic policies: they act as VMAS's, and reach its scores; those of our own scenarios beat random ones."""

import warnings

import harness
import numpy as np
import pytest
import torch
from harness import Pair
from marlenv.scenarios.balance_policy import BalancePolicy
from marlenv.scenarios.commons_policy import CommonsPolicy
from marlenv.scenarios.discovery_policy import DiscoveryPolicy
from marlenv.scenarios.flocking_policy import FlockingPolicy
from marlenv.scenarios.navigation_policy import NavigationPolicy
from marlenv.scenarios.predator_prey_policy import PredatorPreyPolicy
from marlenv.scenarios.rescue_policy import RescuePolicy
from marlenv.scenarios.road_traffic_policy import RoadTrafficPolicy
from marlenv.scenarios.skirmish_policy import SkirmishPolicy
from marlenv.scenarios.territory_policy import TerritoryPolicy
from marlenv.scenarios.transport_policy import TransportPolicy
from marlenv.scenarios.wheel_policy import WheelPolicy
from scipy.optimize import minimize

from marlenv.errors import ShapeError

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
OURS = {
    "commons": CommonsPolicy,
    "predator_prey": PredatorPreyPolicy,
    "rescue": RescuePolicy,
    "road_traffic": RoadTrafficPolicy,
    "skirmish": SkirmishPolicy,
    "territory": TerritoryPolicy,
}
LARGE = {"road_traffic"}
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
def test_the_choice_of_balance_is_up_where_that_of_vmas_is_down_and_left():
    seen = torch.randn(50, 16, generator=torch.Generator().manual_seed(0))
    ours, vmas = (
        BalancePolicy(continuous=False).act(seen),
        theirs("balance", continuous=False).compute_action(seen, 1.0),
    )
    assert torch.equal(ours > 0, vmas > 0)
    env = harness.vmas.make_env("simple", num_envs=2, seed=0, continuous_actions=False)
    env.agents[0].set_vel(torch.zeros(2, 2), None)
    env.step([torch.stack((ours.max(), vmas.max())).unsqueeze(-1)])
    assert env.agents[0].state.vel.sign().tolist() == [[0.0, 1.0], [-1.0, -1.0]]


@pytest.mark.slow
def test_the_choices_of_balance_score_as_its_forces():
    def score(policy, **how):
        env = harness.ScenarioEnv(harness.load(harness.WHERE["balance"])(), 64, seed=0, compile="none", **how)
        return env.rollout(150, policy)["next", "agents", "reward"].sum(1)[:, 0, 0]

    choices = score(BalancePolicy(continuous=False), continuous_actions=False)
    assert surely(choices, score(None, continuous_actions=False), by=1.0)
    assert choices.mean() > 0.5 * score(BalancePolicy()).mean()


@pytest.mark.parametrize(
    ("policy", "name", "options", "says"),
    [
        (FlockingPolicy, "flocking", {"n_lidar_rays": 0}, "'agents' must have 18 numbers.*got 6"),
        (SkirmishPolicy, "skirmish", {"n_archers": 1}, "'red' must have 35 numbers.*got 29"),
        (PredatorPreyPolicy, "predator_prey", {"n_prey": 4}, "'predators' must have 29 or 28 numbers.*got 23"),
        (CommonsPolicy, "commons", {"n_patches": 8, "reach": 0.1}, "must have 27 numbers.*default options, got 36"),
        (TransportPolicy, "wheel", {}, r"must have 11 or 18 or 25 or \.\.\. numbers.*got 13"),
    ],
)
def test_a_policy_refuses_observations_that_it_cannot_read(policy, name, options, says):
    with pytest.raises(ShapeError, match=f"{policy.__name__}: observations of .*{says}"):
        policy()(harness.make(name, 2, **options).reset())


def test_options_that_leave_observations_as_they_are_play_on():
    for policy, name, options in (
        (TransportPolicy, "transport", {"n_packages": 3}),
        (NavigationPolicy, "navigation", {"collisions": False}),
        (NavigationPolicy, "navigation", {"n_lidar_rays": 20}),
        (DiscoveryPolicy, "discovery", {"use_agent_lidar": True}),
        (BalancePolicy, "balance", {"n_agents": 5}),
    ):
        assert policy()(harness.make(name, 2, **options).reset())["agents", "action"].isfinite().all()


def test_policies_that_know_no_choices_refuse_them():
    for kind in (FlockingPolicy, WheelPolicy, TransportPolicy, DiscoveryPolicy):
        with pytest.raises(ValueError, match=f"{kind.__name__}: continuous must be True.*continuous_actions=True"):
            kind(continuous=False)
    assert BalancePolicy(continuous=False).act(torch.zeros(3, 16)).shape == (3,)


def test_under_the_policy_of_navigation_its_function_shrinks_as_fast_as_it_says():
    g = torch.Generator().manual_seed(0)
    pos, vel = (torch.randn(500, 2, generator=g, dtype=torch.float64, requires_grad=True) for _ in range(2))
    force = NavigationPolicy(u_range=1e3, clf_slack=1e9).act(torch.cat((pos, vel, pos), -1)).detach()
    value = (pos.square() + 0.5 * pos * vel + vel.square()).sum(-1)
    by_pos, by_vel = torch.autograd.grad(value.sum(), (pos, vel))
    rate = (by_pos * vel + by_vel * force).sum(-1)
    least = -0.2 * value - vel.square().sum(-1) / 2
    acts = force.abs().amax(-1) > 0
    assert acts.sum() > 100
    torch.testing.assert_close(rate[acts], least[acts], rtol=1e-5, atol=1e-5)
    assert (rate <= least + 1e-5).all()


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


@pytest.mark.parametrize("name", [*ALL, *OURS])
def test_a_policy_plays_through_the_env(name):
    policy = {**ALL, **OURS}[name]()
    data = harness.make(name, 8, seed=0).rollout(5, policy)
    for group in policy.groups:
        torch.testing.assert_close(data[group, "action"], policy.act(data[group, "observation"]))


@pytest.mark.slow
def test_the_policy_of_navigation_brings_agents_nearer_all_the_time():
    data = harness.make("navigation", 32, seed=0, collisions=False).rollout(
        300, NavigationPolicy(), break_when_any_done=False
    )
    far = data["agents", "observation"][..., 4:6].norm(dim=-1)[:, ::50].mean((0, 2))
    assert (far[1:] < 0.85 * far[:-1]).all()
    assert far[-1] < 0.3 * far[0]


def score(rewards, dones):
    """The sum of rewards of each row until it is done; ``[episodes]``."""
    rewards, dones = torch.stack(rewards), torch.stack(dones)
    going = torch.cat((torch.ones_like(dones[:1]), ~dones[:-1].cumsum(0).bool()))
    return (rewards * going).sum(0).double().numpy()


def both_scores(name, episodes, steps):
    """What the policy gets in ours and what that of VMAS gets in VMAS, from the same starts; ``[episodes]`` each."""
    pair, ours = Pair(name, {}, episodes), ALL[name]()
    # that of navigation needs a solver for its quadratic program in VMAS, of which ours knows the solution
    act = (lambda seen, u_range: ours.act(seen)) if name == "navigation" else theirs(name).compute_action
    state, (mine, _) = pair.state, pair.sim.observe(pair.state)
    seen = pair.theirs.get_from_scenario(True, False, False, False)
    seen, rewards, dones = seen[0], ([], []), ([], [])
    with torch.no_grad():
        for _ in range(steps):
            state, mine, gained, over, _ = pair.sim.transition(state, {"agents": ours.act(mine["agents"])})
            actions = [act(one, u_range=agent.u_range) for one, agent in zip(seen, pair.theirs.agents, strict=True)]
            seen, reward, done, _ = pair.theirs.step(actions)
            for side, (r, d) in enumerate(
                ((gained["agents"].mean(1), over), (sum(reward).flatten() / len(reward), done))
            ):
                rewards[side].append(r)
                dones[side].append(d)
    return [score(r, d) for r, d in zip(rewards, dones, strict=True)]


def agree(ours, vmas):
    """Whether two scores of the same episodes are equal on average, and in proportion: bootstrap intervals of 99 %."""
    rng, off = np.random.default_rng(0), ours - vmas
    draws = rng.integers(len(off), size=(2000, len(off)))
    for measure in (off[draws].mean(1), (off * vmas)[draws].mean(1)):
        low, high = np.quantile(measure, [0.005, 0.995])
        if not low <= 0 <= high:
            return False
    return True


@pytest.mark.reference
@pytest.mark.parametrize(
    ("name", "episodes", "steps"),
    [("balance", 16, 40), ("wheel", 16, 20), *(pytest.param(n, EPISODES, STEPS, marks=pytest.mark.slow) for n in ALL)],
)
def test_a_policy_reaches_the_score_of_vmas_and_other_scores_would_show(name, episodes, steps, monkeypatch):
    monkeypatch.setattr(harness.core.World, "collides", harness.without_gate)
    ours, vmas = both_scores(name, episodes, steps)
    assert agree(ours, vmas), (name, ours.mean(), vmas.mean())
    for changed in (2 * ours, 0.5 * ours, ours + 0.01 * steps, ours - 0.01 * steps):
        assert not agree(changed, vmas), "this test would pass with other rewards"


def returns(name, policy, steps, rows=64):
    """What each agent of the first group gets in each row until it is done, the rest at random; ``[rows, agents]``."""
    env = harness.make(name, rows, seed=0, max_steps=steps)
    play = env.rand_action if policy is None else lambda td: policy(env.rand_action(td))
    data, group = env.rollout(steps, play, break_when_all_done=True), next(iter(env.tree.groups))
    rewards, dones = (data["next", *key].squeeze(-1).movedim(1, 0) for key in ((*group, "reward"), ("done",)))
    return torch.from_numpy(score(list(rewards), list(dones.unsqueeze(-1).expand_as(rewards))))


def surely(better, worse, by=0.1):
    """Whether returns ``[rows]`` are on average larger by more than this share: a bootstrap interval of 99 %."""
    draws = np.random.default_rng(0).integers(len(better), size=(2, 2000, len(better)))
    means = [x.numpy()[rows].mean(1) for x, rows in zip((better, worse), draws, strict=True)]
    return bool(np.quantile(means[0] - means[1] - by * abs(worse.mean().item()), 0.005) > 0)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LARGE else n for n in OURS])
def test_a_policy_of_ours_surely_beats_random_actions(name):
    policy = OURS[name]()
    policy.groups = policy.groups[:1]
    played, random = returns(name, policy, 150).mean(1), returns(name, None, 150).mean(1)
    assert surely(played, random)
    assert not surely(random, random)


def test_the_commons_are_a_dilemma():
    """All get more when all spare the patches; one who does not gets more than they, at their cost."""
    spare, greedy = CommonsPolicy(), CommonsPolicy(spare=0.0)

    def one_greedy(td):
        seen = td["agents", "observation"]
        first = torch.arange(seen.shape[1]).unsqueeze(-1) == 0
        return td.set(("agents", "action"), torch.where(first, greedy.act(seen), spare.act(seen)))

    all_spare, all_greedy, mixed = (returns("commons", policy, 200) for policy in (spare, greedy, one_greedy))
    assert surely(all_spare.mean(1), all_greedy.mean(1))
    assert surely(mixed[:, 0], all_spare[:, 0])
    assert surely(mixed[:, 0], mixed[:, 1:].mean(1))
    assert surely(all_spare.mean(1), mixed.mean(1), by=0.0)
