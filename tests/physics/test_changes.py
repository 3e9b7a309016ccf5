"""Changes after the first step are heard, or refused: no env plays on with what was compiled for something else."""

from __future__ import annotations

import copy
import pickle
import warnings
from dataclasses import dataclass

import pytest
import torch

from marlenv import make
from marlenv.errors import LockedScenario
from marlenv.physics import Agent, Scenario, Sphere, World, join
from marlenv.physics.env import make_scenario
from marlenv.physics.jit import cache
from marlenv.physics.jit.tiers import Compiled
from marlenv.specs import Bounded

compiled = pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")
TIERS = ["none", pytest.param("aot", marks=compiled), pytest.param("auto", marks=compiled)]


@dataclass(eq=False)
class Drifting(Scenario):
    """An agent in a wind; ``mistake`` says what it forgets about."""

    wind: float = 0.5
    mistake: str = ""

    def build(self):
        world = World()
        self.agents = world.add("agents", [Agent(Sphere(0.1))])
        self.half = self.wind / 2
        world.remember(last=0.0)
        return world

    def spawn(self):
        self.agents.pos = self.uniform(-1, 1, 1, 2)
        if self.mistake == "spawn":
            self.goal = self.uniform(-1, 1, 2)

    def before_step(self):
        self.agents.u = self.agents.u + self.wind

    def observe(self):
        return {"agents": join(self.agents.pos, self.agents.vel)}

    def rewards(self):
        x = self.agents.pos.sum(-1)
        if self.mistake == "count":
            self.wind += 0.1
        if self.mistake == "remember":
            self.before = x
        if self.mistake == "forget":
            del self.half
        self.memory.last = x[:, 0]
        return {"agents": x}


# --- a scenario that is built does not change ----------------------------------------------------


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        ("spawn", r"Drifting: self.goal cannot be assigned to .*world.remember\(goal=...\).*self.memory.goal"),
        ("remember", r"Drifting: self.before cannot be assigned to .*world.remember\(before=...\)"),
        ("count", r"Drifting: self.wind cannot be assigned to .*make another one: Drifting\(wind=0.6\)"),
        ("forget", "Drifting: self.half cannot be deleted after the world was built"),
    ],
)
def test_keeping_something_on_self_is_an_error_in_every_tier(mistake, says, tier):
    with pytest.raises(LockedScenario, match=says):
        make_scenario(Drifting(mistake=mistake), num_envs=2, compile=tier).rollout(2)


@pytest.mark.slow
@pytest.mark.parametrize("tier", TIERS)
def test_an_option_that_is_changed_after_the_first_step_is_an_error(tier):
    env = make_scenario(Drifting(), num_envs=2, seed=0, compile=tier)
    env.rollout(2)
    with pytest.raises(LockedScenario, match=r"make another one: Drifting\(wind=3.0\)"):
        env.scenario.wind = 3.0
    assert env.scenario.wind == 0.5


def test_before_the_world_is_built_a_scenario_takes_everything():
    scenario = Drifting()
    scenario.wind, scenario.whim = 2.0, 1
    env = make_scenario(scenario, num_envs=2, seed=0, compile="none")
    other = make_scenario(Drifting(wind=2.0), num_envs=2, seed=0, compile="none")
    assert scenario.half == 1.0
    assert (env.rollout(3) == other.rollout(3)).all()
    for twin in (copy.deepcopy(scenario), pickle.loads(pickle.dumps(scenario))):
        twin.wind = 3.0
        assert scenario.wind == 2.0


# --- gradients come and go -----------------------------------------------------------------------


def gradient(env):
    """Of the rewards of two steps with respect to the first action."""
    env.set_seed(0)
    td = env.reset()
    action = torch.full_like(env.full_action_spec["agents", "action"].zero(), 0.3).requires_grad_()
    td = env.step_mdp(env.step(td.set(("agents", "action"), action)))
    reward = env.step(td.set(("agents", "action"), action.detach()))["next", "agents", "reward"]
    return torch.autograd.grad(reward.sum(), action)[0] if reward.requires_grad else None


@compiled
@pytest.mark.parametrize("name", ["simple_spread", "give_way"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_gradients_and_machine_code_take_turns(name, mode):
    expected = gradient(make(name, num_envs=3, seed=0, grad_enabled=True, compile="none"))
    assert expected.abs().sum() > 0
    env = make(name, num_envs=3, seed=0, grad_enabled=True, compile="auto")
    for _ in range(2):
        with mode():
            env.rollout(3)
            assert isinstance(env.engine, Compiled)
        assert env.engine is env.simulation
        assert torch.equal(gradient(env), expected)


@compiled
def test_machine_code_leaves_alone_what_a_graph_needs():
    env, other = (make("simple_spread", num_envs=3, seed=0, grad_enabled=True, compile=t) for t in ("auto", "none"))
    found = []
    for one in (env, other):
        td = one.reset()
        action = torch.full_like(one.full_action_spec["agents", "action"].zero(), 0.3).requires_grad_()
        with torch.no_grad():
            td = one.step_mdp(one.step(td.set(("agents", "action"), action.detach())))
        reward = one.step(td.set(("agents", "action"), action))["next", "agents", "reward"]
        with torch.no_grad():
            one.rollout(5, auto_reset=False, tensordict=one.reset())
        found.append(torch.autograd.grad(reward.pow(2).sum(), action)[0])
    torch.testing.assert_close(*found, rtol=0, atol=1e-5)


@compiled
def test_grad_enabled_is_heard_when_it_changes():
    env = make("simple_spread", num_envs=3, seed=0, compile="auto")
    env.rollout(2)
    assert isinstance(env.engine, Compiled)
    assert gradient(env) is None
    env.grad_enabled = True
    assert gradient(env) is not None
    env.grad_enabled = False
    assert gradient(env) is None
    assert isinstance(env.engine, Compiled)
    assert not any(x.requires_grad for x in env.rand_step(env.reset()).values(True, True))


@compiled
def test_the_state_that_gradients_left_behind_does_not_need_them_any_more():
    env = make("simple_spread", num_envs=3, seed=0, grad_enabled=True, compile="auto")
    gradient(env)
    assert env.get_state()["vel"].requires_grad
    env.grad_enabled = False
    env.rand_step(env.step_mdp(env.rand_step(env.reset())))
    assert not env.get_state()["vel"].requires_grad


@pytest.mark.parametrize("tier", ["none", pytest.param("auto", marks=compiled)])
def test_policies_may_decide_under_inference_mode(tier):
    @torch.inference_mode()
    def act(td):
        seen = td["agents", "observation"]
        return td.set(("agents", "action"), seen[..., :2].clamp(-1, 1)).set("value", seen.sum((1, 2)))

    env = make("simple_spread", num_envs=3, seed=0, max_steps=3, compile=tier)
    fused = env.rollout(7, act, break_when_any_done=False)
    env.set_seed(0)
    stepwise = env.rollout(7, act, break_when_any_done=False, callback=lambda *_: None)
    assert bool((fused == stepwise).all())


@pytest.mark.parametrize("tier", ["none", pytest.param("auto", marks=compiled)])
def test_random_actions_of_inference_are_none_of_training(tier):
    env = make("simple_spread", num_envs=3, seed=0, compile=tier)
    with torch.inference_mode():
        env.rollout(3)
    data = env.rollout(3)
    data["agents", "action"].add_(1)
    td = env.rand_action(env.reset())
    assert not any(x.is_inference() for x in td.values(True, True))


@compiled
@pytest.mark.parametrize("tier", ["aot", "auto"])
def test_an_env_that_was_first_used_under_inference_mode_is_as_fast_afterwards(tier):
    with torch.inference_mode():
        env = make("simple_spread", num_envs=3, seed=0, max_steps=3, compile=tier)
        td = env.reset()
        td = env.step_mdp(env.rand_step(td))
        first = env.rollout(4)
        assert isinstance(env.engine, Compiled)
    assert isinstance(env.engine, Compiled)
    env.set_seed(0)
    again = env.rollout(4)  # stops at an end, for which it keeps and restores states
    other = make("simple_spread", num_envs=3, seed=0, max_steps=3, compile=tier).rollout(4)
    assert (again == other).all()
    assert not any(x.is_inference() for x in again.values(True, True))
    assert first.shape == again.shape


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    "policy", [None, lambda td: td.set(("agents", "action"), td["agents", "observation"][..., :2])]
)
def test_rollouts_under_inference_mode_are_those_without(tier, policy):
    data = []
    for mode in (torch.inference_mode, torch.enable_grad):
        env = make("simple_spread", num_envs=3, seed=0, max_steps=3, compile=tier)
        with mode():
            data.append(env.rollout(5, policy, break_when_any_done=False))
    assert (data[0] == data[1]).all()


# --- what else may change ------------------------------------------------------------------------


@compiled
def test_the_tier_is_heard_when_it_changes():
    env = make("simple_spread", num_envs=3, seed=0, compile="none")
    reference = env.rollout(3)
    for tier, kind in (("aot", Compiled), ("none", type(env.simulation)), ("auto", Compiled)):
        env.tier = tier
        env.set_seed(0)
        torch.testing.assert_close(
            env.rollout(3)["next", "agents", "observation"], reference["next", "agents", "observation"]
        )
        assert isinstance(env.engine, kind)
    env.tier = "fast"
    with pytest.raises(ValueError, match="compile must be one of"):
        env.reset()


@pytest.mark.parametrize("tier", TIERS)
def test_random_actions_are_those_of_a_spec_that_was_changed(tier):
    env = make("simple_spread", num_envs=3, seed=0, compile=tier)
    env.rollout(2)
    specs = env.full_action_spec.clone()
    specs["agents", "action"] = Bounded(0.25, 0.5, shape=specs["agents", "action"].shape, dtype=torch.float32)
    env.full_action_spec = specs
    actions = env.rollout(20)["agents", "action"]
    assert actions.min() >= 0.25
    assert actions.max() <= 0.5


@compiled
def test_a_change_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = make("simple_spread", num_envs=3, seed=0, compile="auto")
        env.rollout(2)
        env.grad_enabled = True
        env.rollout(2)
