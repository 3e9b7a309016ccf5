"""Whatever a policy does to the data, the fused rollout is the plain one: values, keys, dtypes, errors, views."""

from functools import partial

import pytest
import torch
from sizes import first
from stepwise import stepwise
from tensordict import NonTensorData, TensorDict
from tensordict.nn import TensorDictModule
from test_fused import same
from torch import nn

from marlenv.errors import MarlenvError
from marlenv.physics.jit import cache
from marlenv.registration import make

TIERS = [
    "none",
    pytest.param("aot", marks=pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")),
]
ACTION, OBSERVATION = ("agents", "action"), ("agents", "observation")


def steer(td):
    return td.set(ACTION, -td[OBSERVATION][..., :2].clamp(-1, 1))


def only_from(step, odd):
    """A policy that does something odd from some step on."""
    count = iter(range(1000))

    def act(td):
        steer(td)
        return (odd(td) if next(count) >= step else None) or td

    return act


def notes_under_next(td):
    td["next", "agents", "value"] = td[OBSERVATION][..., :1] * 2


def hides_next_entries(td):
    td["next", "agents", "observation"] = torch.zeros(7, 3, 1)


def replaces_observations(td):
    td[OBSERVATION] = td[OBSERVATION] / 2


def replaces_observations_by_halves(td):
    td[OBSERVATION] = td[OBSERVATION].half()


def writes_into_observations(td):
    td[OBSERVATION][:, 0] = 9.0


def writes_into_flags(td):
    td["done"][0] = True


def wide_actions(td):
    td[ACTION] = td[ACTION].double()


def acts_in_place(td):
    td[ACTION].mul_(0.5)


def leaves_out_observations(td):
    del td[OBSERVATION]


def replaces_the_group(td):
    td["agents"] = TensorDict({"action": td[ACTION], "observation": td[OBSERVATION].clone()}, [7, 3])


def writes_text(td):
    td["note"] = NonTensorData("hello", [7])


def writes_a_group_of_its_own(td):
    td["mind"] = TensorDict({"thought": td[OBSERVATION].sum(-1)}, [7, 3])


def lets_rows_wait(td):
    td["_step"] = torch.tensor([True, False, True, True, False, True, True]).unsqueeze(-1)


def writes_too_few_actions(td):
    del td[ACTION]
    td["agents"].batch_size = [7]
    td["agents", "action"] = torch.zeros(7, 2, 2)


def writes_what_is_no_number(td):
    td[ACTION] = td[ACTION] / 0


def locks(td):
    td.lock_()


def makes_gradients(td):
    td["log_prob"] = td[OBSERVATION].sum(-1) * torch.ones(1, requires_grad=True)
    td[ACTION] = td[ACTION] * torch.ones(1, requires_grad=True)


ODD = [
    notes_under_next,
    hides_next_entries,
    replaces_observations,
    replaces_observations_by_halves,
    writes_into_observations,
    writes_into_flags,
    wide_actions,
    acts_in_place,
    leaves_out_observations,
    replaces_the_group,
    writes_text,
    writes_a_group_of_its_own,
    lets_rows_wait,
    writes_too_few_actions,
    writes_what_is_no_number,
    locks,
    makes_gradients,
]


def both(tier, policy, **options):
    """What the fused rollout and the plain one give: data, or an error."""
    out = []
    for roll in (lambda env: env.rollout, lambda env: lambda *a, **k: stepwise(env, *a, **k)):
        env = make("simple_spread", num_envs=7, seed=2, max_steps=4, compile=tier)
        try:
            out.append(roll(env)(9, policy(), **options))
        except (MarlenvError, RuntimeError, KeyError) as error:
            out.append(error)
    return out


def agree(fused, plain):
    if isinstance(plain, Exception):
        assert type(fused) is type(plain)
        assert str(fused) == str(plain)
        return
    same(fused, plain)
    for key in plain.keys(True, True):
        if isinstance(plain[key], torch.Tensor):
            assert fused[key].requires_grad == plain[key].requires_grad, key


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("start", first([2, 0, 5], 3))
@pytest.mark.parametrize("odd", ODD)
def test_policies_that_do_more_than_act(odd, start, stop, tier):
    agree(*both(tier, lambda: only_from(start, odd), break_when_any_done=stop))


@pytest.mark.parametrize("tier", TIERS)
def test_modules_that_write_under_next_or_over_observations(tier):
    torch.manual_seed(0)
    net = nn.Linear(14, 2)

    def module(out):
        act = TensorDictModule(lambda x: (net(x), x + 1), in_keys=[OBSERVATION], out_keys=[ACTION, out])
        return lambda: act

    with torch.no_grad():
        for out in (("next", "agents", "guess"), OBSERVATION, ("agents", "guess")):
            agree(*both(tier, module(out), break_when_any_done=False))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", ["simple_tag", "dispersion", "simple_speaker_listener"])
@pytest.mark.parametrize("rows", [1, 7, 50])
def test_training_data_arrive_row_by_row(name, rows, tier):
    """All entries are contiguous, as a stack of steps, and equal to them; also where it ends early."""
    for stop, steps in ((False, 9), (True, 9), (False, 1)):
        out = []
        for fused in (True, False):
            env = make(name, num_envs=rows, seed=2, max_steps=4, compile=tier)
            act = env.rand_action
            out.append((env.rollout if fused else partial(stepwise, env))(steps, act, break_when_any_done=stop))
        same(*out)
        assert [key for key, x in out[0].items(True, True) if not x.is_contiguous()] == []
        assert out[0].shape == (rows, min(4 if stop else 9, steps))


@pytest.mark.parametrize("tier", TIERS)
def test_policies_see_their_last_action(tier):
    def smooth():
        def act(td):
            now = -td[OBSERVATION][..., :2].clamp(-1, 1)
            last = td.get(ACTION, None)
            return td.set(ACTION, now if last is None else (now + last) / 2)

        return act

    def lazy():
        return lambda td: td if ACTION in td.keys(True) else steer(td)

    def in_place():
        memory = torch.zeros(7, 3, 2)
        return lambda td: td.set(ACTION, memory.copy_(-td[OBSERVATION][..., :2].clamp(-1, 1)))

    for policy in (smooth, lazy, in_place):
        agree(*both(tier, policy, break_when_any_done=False))


@pytest.mark.parametrize("tier", TIERS)
def test_what_a_policy_keeps_is_what_it_would_keep_step_by_step(tier):
    """Data that a policy holds on to get what followed, and do not change with the data of the rollout."""
    kept = []
    for roll in (lambda env: env.rollout, lambda env: lambda *a: stepwise(env, *a)):
        env, held, seen = make("simple_spread", num_envs=7, seed=2, compile=tier), [], []

        def act(td, held=held, seen=seen):
            held.append(td)
            seen.append(td[OBSERVATION])
            return steer(td)

        data = roll(env)(5, act)
        data.apply_(lambda x: x.fill_(1))
        kept.append((held, seen))
    for fused, plain in zip(*(held for held, _ in kept), strict=True):
        assert set(fused.keys(True)) == set(plain.keys(True))
        same(fused["next"], plain["next"])
    assert all(torch.equal(a, b) for a, b in zip(*(seen for _, seen in kept), strict=True))


@pytest.mark.parametrize("tier", TIERS)
def test_a_policy_may_put_the_env_into_another_state(tier):
    def policy():
        count = iter(range(1000))
        return lambda td: act(next(count), td)

    def act(step, td):
        env = envs[-1]
        if step == 2:
            states.append(env.get_state())
        if step == 4:
            env.set_state(states[-1])
        if step == 6:
            env.step(steer(td.copy()))
        return steer(td)

    out, envs, states = [], [], []
    for fused in (True, False):
        envs.append(make("simple_spread", num_envs=7, seed=2, max_steps=50, compile=tier))
        roll = envs[-1].rollout if fused else lambda *a: stepwise(envs[-1], *a)
        out.append(roll(9, policy()))
    same(*out)


@pytest.mark.parametrize("tier", TIERS)
def test_a_policy_may_change_where_episodes_are_truncated(tier):
    env = make("simple_spread", num_envs=7, seed=2, max_steps=50, compile=tier)
    ends = {3: 5, 8: 2, 11: None}  # by the step in which the policy says so

    def act(td):
        step = next(count)
        env.max_steps = ends.get(step, env.max_steps)
        return steer(td)

    count = iter(range(20))
    truncated = env.rollout(20, act, break_when_any_done=False)["next", "truncated"]
    assert truncated.all(0).flatten().nonzero().flatten().tolist() == [4, 8, 10]  # after 5, 4 and 2 steps
    assert truncated.sum() == 3 * 7


@pytest.mark.parametrize("tier", TIERS)
def test_data_to_go_on_from_stay_as_they_are(tier):
    env = make("simple_spread", num_envs=7, seed=2, max_steps=4, compile=tier)
    for roll in (env.rollout, lambda *a, **k: stepwise(env, *a, **k)):
        td = env.step_mdp(env.step(env.rand_action(env.reset())))
        before = td.clone()
        roll(3, steer, tensordict=td, auto_reset=False)
        same(td, before)


@pytest.mark.parametrize("tier", TIERS)
def test_compact_rollouts_take_any_policy(tier):
    for odd in (replaces_observations, writes_into_observations, wide_actions, notes_under_next):
        for start in (0, 2, 9):
            agree(*both(tier, lambda odd=odd, start=start: only_from(start, odd), compact=True))
