"""SerialEnv is its children: each behaves as it would alone, with its own seed."""

from __future__ import annotations

import pytest
import torch
import torchrl_oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_actions import Script, equal
from tensordict import TensorDict
from twin_envs import assert_same_data, assert_same_specs, load

import marlenv
from marlenv import Composite, SerialEnv, StepCounter, TransformedEnv, Unbounded
from marlenv.envs.seeding import next_seed
from marlenv.errors import EnvClosed, SpecError
from marlenv.testing.mocks import CountingEnv, GroupedEnv, MaskedEnv, UnevenEnv


def chained(env, seed):
    """The seeds of the children, and the children alone."""
    seeds = []
    for _ in range(env.num_workers):
        seeds.append(seed)
        seed = next_seed(seed)
    return seeds, seed


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    how=st.sampled_from([{}, {"break_when_any_done": False}]),
    kind=st.sampled_from(["counting", "grouped", "rows"]),
    seed=st.integers(0, 1000),
)
def test_a_series_is_its_children_side_by_side(lengths, how, kind, seed):
    def child(length):
        if kind == "counting":
            return CountingEnv(max_steps=length)
        rows = [2] if kind == "rows" else []
        return GroupedEnv({"g": ["a", "b"], "h": ["c"]}, terminate={"a": length}, batch_size=rows)

    env = SerialEnv(len(lengths), child, create_env_kwargs=[{"length": n} for n in lengths])
    seeds, last = chained(env, seed)
    assert env.set_seed(seed) == last
    whole = env.rollout(7, **how)
    steps = whole.shape[-1]
    for i, (length, own) in enumerate(zip(lengths, seeds, strict=True)):
        alone = child(length)
        alone.set_seed(own)
        actions = [whole[i].select(*env.action_keys)[..., t] for t in range(steps)]
        mine = alone.rollout(steps, actions=actions, **{**how, "break_when_any_done": False})
        assert equal(mine, whole[i])
    assert steps == (7 if how else min(7, *lengths))


@pytest.mark.reference
@pytest.mark.parametrize(
    ("source", "make", "options"),
    [
        ("conventions", "Counter", {}),
        ("conventions", "Counter", {"batch_size": [2]}),
        ("navigation", "Navigation", {"num_envs": 2}),
        ("two_groups", "TwoGroups", {}),
        ("conventions", "FullSpecs", {}),
    ],
)
def test_keys_shapes_and_data_are_torchrls(source, make, options):
    envs = []
    for library, lib in (("torchrl", torchrl_oracle.envs), ("marlenv", marlenv)):
        envs.append(lib.SerialEnv(3, lambda library=library: getattr(load(source, library), make)(**options)))
    theirs, ours = envs
    assert ours.batch_size == theirs.batch_size
    for family in ("observation", "reward", "done", "action", "state"):
        assert_same_specs(getattr(theirs, f"full_{family}_spec"), getattr(ours, f"full_{family}_spec"))
        assert getattr(ours, f"{family}_keys") == getattr(theirs, f"{family}_keys")
    assert_same_data(theirs.reset(), ours.reset())
    for how in ({}, {"break_when_any_done": False}):
        data = []
        for env in envs:
            seed = env.set_seed(3)
            data.append(env.rollout(6, Script(env), **how))
        assert_same_data(*data)
        assert seed == theirs.set_seed(3)


def test_partial_steps_and_resets_reach_only_the_marked_children():
    env = SerialEnv(3, CountingEnv)
    td = env.reset()
    calls = []
    for i, child in enumerate(env.children_envs):
        step, reset = child._step, child._reset
        child._step = lambda td, i=i, step=step: calls.append(("step", i)) or step(td)
        child._reset = lambda td, i=i, reset=reset: calls.append(("reset", i)) or reset(td)
    td = env.step(env.rand_action(td).set("_step", torch.tensor([True, False, True])))
    assert calls == [("step", 0), ("step", 2)]
    assert td["next", "observation"].flatten().tolist() == [1, 0, 1]
    calls.clear()
    td = env.step_mdp(td).set("_reset", torch.tensor([[False], [False], [True]]))
    assert env.reset(td)["observation"].flatten().tolist() == [1, 0, 0]
    assert calls == [("reset", 2)]


@pytest.mark.parametrize("rows", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_masks_reach_the_rows_of_the_children(rows):
    env = SerialEnv(2, lambda: CountingEnv(batch_size=[2]))
    td = env.step_mdp(env.rand_step(env.reset()))
    mask = torch.zeros(2, 2, 1, dtype=torch.bool)
    mask[rows] = True
    out = env.reset(td.clone().set("_reset", mask))
    assert torch.equal(out["observation"] == 0, mask)
    stepped = env.step(env.rand_action(out).set("_step", mask.squeeze(-1)))
    assert torch.equal(stepped["next", "observation"] > out["observation"], mask)


def test_children_may_be_batched_and_in_series():
    env = SerialEnv(2, lambda: SerialEnv(3, lambda: GroupedEnv(batch_size=[4])))
    assert env.batch_size == (2, 3, 4)
    assert env.rollout(3)["agents", "action"].shape == (2, 3, 4, 3, 3, 2)
    env.check_env_specs()
    one = env.set_seed(5)
    first = env.rollout(2)
    assert env.set_seed(5) == one
    assert (env.rollout(2) == first).all()
    streams = first["noise"][..., 0, 0].flatten()
    assert streams.unique().numel() == 24  # every row of every child draws its own numbers (USERS (b) 32)


def test_children_that_were_made_with_seeds_make_the_same_series_again():
    kwargs = [{"seed": 3}, {"seed": 4}]
    data = [
        SerialEnv(2, lambda **seed: marlenv.make("simple_spread", **seed), create_env_kwargs=kwargs).rollout(4)
        for _ in range(2)
    ]
    assert (data[0] == data[1]).all()


def test_children_of_different_kinds():
    makers = [lambda: CountingEnv(max_steps=2), lambda: TransformedEnv(CountingEnv(max_steps=4))]
    rollout = SerialEnv(2, makers).rollout(5, break_when_any_done=False)
    assert rollout["next", "observation"].squeeze(-1).tolist() == [[1, 2, 1, 2, 1], [1, 2, 3, 4, 1]]


def test_children_that_observe_different_things():
    def child(n):
        env = CountingEnv()
        env.observation_spec = Composite(observation=Unbounded((n,)))
        env._reset = lambda td: TensorDict({"observation": torch.zeros(n)}, [])
        step = env._step
        env._step = lambda td: step(td).set("observation", torch.full((n,), env.count.item()))
        return env

    env = SerialEnv(2, child, create_env_kwargs=[{"n": 2}, {"n": 3}])
    rollout = env.rollout(3)
    assert [rollout[i]["next", "observation"][-1].tolist() for i in range(2)] == [[3, 3], [3, 3, 3]]
    env.check_env_specs()


def test_children_of_uneven_agents():
    env = SerialEnv(2, UnevenEnv, create_env_kwargs=[{"max_steps": 2}, {"max_steps": 3}])
    rollout = env.rollout(5, break_when_any_done=False)
    seen = rollout["next", "agents"][..., 1]["observation"][..., 0]
    assert seen.tolist() == [[1, 2, 1, 2, 1], [1, 2, 3, 1, 2]]
    env.check_env_specs()


def test_attributes_and_methods_of_the_children():
    env = SerialEnv(3, CountingEnv, create_env_kwargs=[{"max_steps": n} for n in (2, 3, 4)])
    a, b, c = env.max_steps
    assert (a, b, c) == (2, 3, 4)
    assert [state["count"].item() for state in SerialEnv(2, CountingEnv)._get_state(None).unbind(0)] == [0, 0]
    with pytest.raises(AttributeError, match="no_such_thing"):
        env.no_such_thing  # noqa: B018
    env.children_envs[0].shout = lambda word, times=1: word * times
    for child in env.children_envs[1:]:
        child.shout = lambda word, times=1: word
    assert env.shout("a", times=2) == ["aa", "a", "a"]
    grouped = SerialEnv(2, GroupedEnv)
    assert grouped.group_map == {"agents": ["agent_0", "agent_1", "agent_2"]}


def test_masked_actions_are_legal_child_by_child():
    env = SerialEnv(2, MaskedEnv, create_env_kwargs=[{"max_steps": 1}, {"max_steps": 9}])
    rollout = env.rollout(6, break_when_any_done=False)
    assert (rollout["next", "reward"] == 1).all()


def test_closing_closes_the_children():
    env = SerialEnv(2, CountingEnv)
    env.rollout(3)
    env.close()
    children = env.children_envs
    assert all(child.is_closed for child in children)
    with pytest.raises(EnvClosed, match=r"SerialEnv.close: the env is closed already; pass raise_if_closed=False"):
        env.close()
    env.close(raise_if_closed=False)
    assert env.rollout(3)["next", "observation"].flatten().tolist() == [1, 2, 3] * 2  # it starts again
    assert not any(child in children for child in env.children_envs)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: SerialEnv(0, CountingEnv), r"SerialEnv: num_workers must be an integer from 1 on, got 0"),
        (lambda: SerialEnv(2, [CountingEnv]), r"SerialEnv: 2 workers need 2 entries in create_env_fn, got 1"),
        (
            lambda: SerialEnv(2, CountingEnv, create_env_kwargs=[{}]),
            r"2 workers need 2 entries in create_env_kwargs, got 1",
        ),
        (
            lambda: SerialEnv(2, CountingEnv, create_env_kwargs=[{}, {"batch_size": [2]}]),
            r"SerialEnv: all children must have the batch size \[\], got \[2\]",
        ),
        (lambda: SerialEnv(2, lambda: 3), r"SerialEnv: create_env_fn must make an env, got int"),
        (
            lambda: SerialEnv(2, lambda env: env),
            r"SerialEnv: create_env_fn must make an env of no arguments \(create_env_kwargs\), and .*\(env\) cannot: "
            r"missing a required argument: 'env'",
        ),
        (
            lambda: SerialEnv(2, CountingEnv()),
            r"SerialEnv: create_env_fn must be a function that makes an env, got CountingEnv",
        ),
        (
            lambda: SerialEnv(2, [CountingEnv, GroupedEnv]),
            r"SerialEnv: all children must have the same entries, but child 1 lacks the action entries \['action'\] of "
            r"child 0",
        ),
    ],
)
def test_what_is_refused(make, text):
    with pytest.raises(SpecError, match=text):
        make()


def test_what_children_saved_is_for_as_many_children():
    env = SerialEnv(2, CountingEnv)
    with pytest.raises(SpecError, match=r"load_state_dict: expected what 2 children gave, got \['worker0'\]"):
        env.load_state_dict({"worker0": env.state_dict()["worker0"]})


def test_reprs():
    assert repr(SerialEnv(2, CountingEnv)) == "SerialEnv(2 x CountingEnv(batch_size=[], device=None))"


def test_transformed_children_and_transformed_series_are_the_same():
    base = lambda length: CountingEnv(max_steps=length)  # noqa: E731
    options = [{"length": n} for n in (2, 3)]
    inside = SerialEnv(2, lambda length: TransformedEnv(base(length), StepCounter(4)), create_env_kwargs=options)
    outside = TransformedEnv(SerialEnv(2, base, create_env_kwargs=options), StepCounter(4))
    data = []
    for env in (inside, outside):
        env.set_seed(2)
        data.append(env.rollout(8, Script(env), break_when_any_done=False))
    assert_same_data(*data)
