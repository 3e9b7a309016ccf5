"""Envs written for TorchRL run after changing the imports, and give the same data."""

from __future__ import annotations

import pytest
import torch
from scripted_actions import Script
from torchrl_oracle import collectors, utils
from twin_envs import LIBRARIES, assert_same_data, assert_same_specs, load, ported, twins

import marlenv

pytestmark = pytest.mark.reference

ENVS = {
    "pendulum": ("pendulum", "PendulumEnv", {"seed": 3}),
    "navigation": ("navigation", "Navigation", {}),
    "navigation with flags at the root only": ("navigation", "Navigation", {"nested_done": False}),
    "counter": ("conventions", "Counter", {}),
    "counters": ("conventions", "Counter", {"batch_size": [3], "step_size": 2, "limit": 4}),
    "bare": ("conventions", "Bare", {}),
    "full specs": ("conventions", "FullSpecs", {}),
    "full specs, two rows": ("conventions", "FullSpecs", {"batch_size": (2,)}),
    "two groups": ("two_groups", "TwoGroups", {}),
    "two groups, two rows": ("two_groups", "TwoGroups", {"batch_size": (2,)}),
}
envs = pytest.mark.parametrize(("source", "make", "options"), ENVS.values(), ids=ENVS)


def rolled(env, steps=9, seed=5, **options):
    env.set_seed(seed)
    return env.rollout(steps, Script(env), **options)


@envs
def test_specs_and_keys_are_the_same(source, make, options):
    theirs, ours = twins(source, make, **options)
    for family in ("action", "state", "observation", "reward", "done"):
        assert_same_specs(getattr(theirs, f"full_{family}_spec"), getattr(ours, f"full_{family}_spec"))
        assert getattr(ours, f"{family}_keys") == getattr(theirs, f"{family}_keys")
    assert ours.reset_keys == theirs.reset_keys
    assert ours.done_keys_groups == theirs.done_keys_groups
    assert (ours.batch_size, ours.device, ours.batch_locked) == (theirs.batch_size, theirs.device, theirs.batch_locked)
    assert [k for k, _ in ours.named_buffers()] == [k for k, _ in theirs.named_buffers()]


@envs
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"break_when_any_done": False},
        {"return_contiguous": True},
        {"break_when_any_done": False, "return_contiguous": False},
        {"storing_device": "cpu"},
        {"trust_policy": True},
        {"auto_cast_to_device": True},
    ],
    ids=str,
)
def test_rollouts_are_the_same(source, make, options, how):
    theirs, ours = twins(source, make, **options)
    assert_same_data(rolled(theirs, **how), rolled(ours, **how))


@envs
def test_seed_chains_are_the_same(source, make, options):
    theirs, ours = twins(source, make, **options)
    for seed in (0, 1, 12345):
        assert ours.set_seed(seed) == theirs.set_seed(seed)
        assert ours.set_seed(seed, static_seed=True) == seed


@envs
def test_a_rollout_goes_on_from_given_data(source, make, options):
    data = []
    for env in twins(source, make, **options):
        env.set_seed(1)
        start = env.reset()
        data.append(env.rollout(2, Script(env), auto_reset=False, tensordict=start.copy(), break_when_any_done=False))
    assert_same_data(*data)


@envs
def test_stepping_by_hand_is_the_same(source, make, options):
    data = []
    for env in twins(source, make, **options):
        env.set_seed(2)
        policy, td, kept = Script(env), env.reset(), []
        for _ in range(7):
            step, td = env.step_and_maybe_reset(policy(td))
            kept += [step.clone(), td.exclude("action", "wolves", "sheep", ("agents", "action")).clone()]
        data.append(kept)
    for theirs, ours in zip(*data, strict=True):
        assert_same_data(theirs, ours)


@envs
def test_what_a_reset_does_not_give_keeps_its_value(source, make, options):
    """torchrl pads such entries (old actions) with zeros when some rows are reset, and keeps them when all are."""
    _, env = twins(source, make, **options)
    env.set_seed(2)
    policy, td = Script(env), env.reset()
    for _ in range(7):
        acted = policy(td)
        actions = {key: acted[key].clone() for key in env.action_keys}
        _, td = env.step_and_maybe_reset(acted)
        assert all(torch.equal(td[key], value) for key, value in actions.items())


@envs
def test_set_truncated_and_out(source, make, options):
    if make == "Bare":  # torchrl cannot: its flags lack the dimension that the spec has
        return
    theirs, ours = twins(source, make, **options)
    if "truncated" not in str(theirs.done_keys):
        for env in (theirs, ours):
            env.add_truncated_keys()
    assert ours.done_keys == theirs.done_keys
    data, marked, expected = (
        rolled(env, 3, set_truncated=cut) for env, cut in ((ours, True), (theirs, True), (theirs, False))
    )
    for key in [("next", *(key if isinstance(key, tuple) else (key,))) for key in theirs.done_keys]:
        if key[-1] == "truncated":  # torchrl also truncates what was done already; all else is as there
            end = (slice(None),) * (expected.ndim - 1) + (-1,)
            expected[key][end] |= ~expected[(*key[:-1], "done")][end]
            marked[key] = expected[key]
    assert_same_data(marked, data)


@pytest.mark.parametrize("mask", [[[True], [False], [True]], [[False]] * 3, [[True]] * 3, None])
def test_partial_resets_are_the_same(mask):
    data = []
    for env in twins("conventions", "Counter", batch_size=[3]):
        td = env.step_mdp(env.step(Script(env)(env.reset()))).exclude("action")
        if mask is not None:
            td["_reset"] = torch.tensor(mask)
        data.append(env.reset(td))
    assert_same_data(*data)


@pytest.mark.parametrize("wolves", [[[True], [False]], [[True], [True]], [[False], [False]]])
@pytest.mark.parametrize("sheep", [[[True], [False], [False]], [[True]] * 3])
def test_nested_partial_resets_are_the_same(wolves, sheep):
    data = []
    for env in twins("two_groups", "TwoGroups"):
        td = env.step_mdp(env.step(Script(env)(env.reset()))).exclude(("wolves", "action"), ("sheep", "action"))
        td["wolves", "_reset"], td["sheep", "_reset"] = torch.tensor(wolves), torch.tensor(sheep)
        data.append(env.reset(td))
    assert_same_data(*data)


def test_pendulum_takes_any_batch_size():
    data = []
    for env in twins("pendulum", "PendulumEnv", seed=1):
        env.set_seed(4)
        start = env.reset(env.gen_params(batch_size=[5]))
        data.append(env.rollout(4, Script(env), auto_reset=False, tensordict=start))
    assert data[1].batch_size == (5, 4)
    assert_same_data(*data)


def test_the_loop_of_the_tutorial():
    data = []
    for library in LIBRARIES:
        scope = load("pendulum", library)
        env = scope.PendulumEnv(seed=1)
        scope.check_env_specs(env)
        env.set_seed(0)
        data.append(scope.simple_rollout(env, Script(env), steps=5))
    assert_same_data(*data)


def test_gradients_flow_through_the_pendulum():
    """As in the tutorial: the policy is trained through the env."""
    grads = []
    for env in twins("pendulum", "PendulumEnv", seed=1):
        env.set_seed(0)
        gain = torch.tensor(0.5, requires_grad=True)
        start = env.reset(env.gen_params(batch_size=[3]))
        play = lambda td, gain=gain: td.set("action", (gain * td["th"]).unsqueeze(-1))  # noqa: E731
        rollout = env.rollout(4, play, tensordict=start, auto_reset=False, trust_policy=True)
        rollout["next", "reward"].mean().backward()
        grads.append(gain.grad)
    assert torch.equal(*grads)
    assert grads[0].abs() > 0


def test_waiting_rows_stand_still():
    """torchrl repeats the last transition of a row that waits, its reward too; ours stands, with reward 0."""
    theirs, ours = (rolled(env, 9, break_when_all_done=True) for env in twins("conventions", "Counter", batch_size=[3]))
    assert ours.shape == theirs.shape == (3, 5)
    for row, last in enumerate((2, 3, 4)):
        lived = slice(0, last + 1)
        assert_same_data(theirs[row, lived], ours[row, lived])
        assert ours["next", "done"][row, last:].all()
        assert not ours["next", "reward"][row, last + 1 :].any()
        assert (ours["next", "count"][row, last:] == ours["next", "count"][row, last]).all()
        assert ours["done"][row, last + 1 :].all()


def test_every_argument_of_rollout_has_its_name_and_place():
    import inspect

    from torchrl_oracle import envs

    for name in ("rollout", "reset", "step", "set_seed", "step_and_maybe_reset", "maybe_reset", "auto_specs_"):
        theirs = inspect.signature(getattr(envs.EnvBase, name)).parameters
        ours = inspect.signature(getattr(marlenv.EnvBase, name)).parameters
        positional = [p for p in theirs if theirs[p].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        assert [p for p in ours if p in positional] == positional, name
        takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in ours.values())
        assert all(p in ours or takes_any for p in theirs if p != "kwargs"), name
    for name, theirs in (("step_mdp", utils), ("check_env_specs", utils), ("make_composite_from_td", utils)):
        wanted = set(inspect.signature(getattr(theirs, name)).parameters)
        assert wanted <= set(inspect.signature(getattr(marlenv, name)).parameters), name
    wanted = set(inspect.signature(collectors.split_trajectories).parameters)
    assert wanted <= set(inspect.signature(marlenv.split_trajectories).parameters)


def test_only_the_imports_change():
    text = "from torchrl.envs.utils import step_mdp\nfrom torchrl.data import Composite  # torchrl's specs\n"
    assert ported(text) == "from marlenv import step_mdp\nfrom marlenv import Composite  # torchrl's specs\n"


def test_a_flag_that_torchrl_cannot_infer_is_completed():
    env = load("conventions", "marlenv").FullSpecs()
    env._step, whole = lambda td: whole(td).exclude("terminated"), env._step
    out = env.rollout(9, Script(env))["next"]
    assert torch.equal(out["terminated"], out["done"] & ~out["truncated"])


def test_envs_without_a_reward_spec_may_leave_the_reward_out():
    for env in twins("conventions", "Bare"):
        env._step = lambda td, whole=env._step: whole(td).exclude("reward")
        assert "reward" not in env.rollout(3)["next"].keys()
        assert env.reward_keys == []
