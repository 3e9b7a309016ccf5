"""Transforms and the envs they belong to: parents, copies, chains, keys, specs, functions, and what is refused."""

from __future__ import annotations

import gc
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict
from torch import nn

import marlenv
from marlenv import (
    Bounded,
    Compose,
    Composite,
    InitTracker,
    RewardScaling,
    RewardSum,
    SerialEnv,
    StepCounter,
    Transform,
    TransformedEnv,
    Unbounded,
)
from marlenv.errors import EnvClosed, KeyMissing, ResetError, SpecError
from marlenv.testing.mocks import CountingEnv, GroupedEnv, UnevenEnv


class Plus(Transform):
    """Adds a number; a transform of single values."""

    def __init__(self, number=1.0, in_keys=("observation",), out_keys=None, **options):
        super().__init__(in_keys, out_keys, **options)
        self.register_buffer("number", torch.tensor(number))

    def _apply_transform(self, obs):
        return obs + self.number


class Times(Plus):
    monotone = True

    def _apply_transform(self, obs):
        return obs * self.number


class Told(Transform):
    """Doubles the action that the env is told."""

    def __init__(self, inner="action", outer="action"):
        super().__init__(in_keys_inv=[inner], out_keys_inv=[outer])

    def _inv_apply_transform(self, state):
        return state * 2

    def _apply_transform(self, obs):
        return obs / 2


def observed(env, steps=2):
    return env.rollout(steps)["next", "observation"].flatten().tolist()


# --- belonging -----------------------------------------------------------------------------------


def chain(*numbers):
    return Compose(*map(Plus, numbers))


def test_a_parent_is_the_env_with_the_transforms_before():
    env = TransformedEnv(CountingEnv(), chain(1.0, 10.0, 100.0))
    assert observed(env, 1) == [112]
    for i, want in enumerate([1, 2, 12]):
        parent = env.transform[i].parent
        assert observed(parent, 1) == [want]
        assert parent.base_env is env.base_env
    assert env.transform[0].container is env
    assert env.transform.container is env
    assert (
        TransformedEnv(env.base_env, env.transform[:-1]).observation_keys == env.transform[-1].parent.observation_keys
    )


def test_transforms_alone_have_no_parent():
    alone = Plus()
    assert (alone.parent, alone.container) == (None, None)
    both = Compose(alone, Plus())
    assert (both.parent, both.container) == (None, None)
    assert alone.container is both


def test_another_env_must_be_given_a_copy():
    base = CountingEnv()
    env = TransformedEnv(base, chain(1.0, 10.0))
    for taken in (env.transform[0], env.transform, env.chain):
        with pytest.raises(SpecError, match=r"belongs to an env already; pass its copy, transform.clone\(\)"):
            TransformedEnv(CountingEnv(), taken)
    other = TransformedEnv(CountingEnv(), env.transform[0].clone())
    assert observed(other, 1) == [2]
    assert other.transform.number.data_ptr() == env.transform[0].number.data_ptr()  # buffers are shared
    with pytest.raises(SpecError, match=r"Plus: belongs to an env already; give the other env a copy"):
        Compose(env.transform[0], Plus())
    with pytest.raises(SpecError, match=r"belongs to an env already"):
        other.append_transform(env.transform[1])


def test_slices_of_a_chain_are_chains_of_copies():
    env = TransformedEnv(CountingEnv(), chain(1.0, 10.0, 100.0))
    last_two = env.transform[-2:]
    assert isinstance(last_two, Compose)
    assert last_two.parent is None
    for copy, original in zip(last_two, list(env.transform)[1:], strict=True):
        assert copy is not original
        assert type(copy) is type(original)
        assert copy.number.data_ptr() == original.number.data_ptr()
        assert copy.container is last_two
    assert observed(TransformedEnv(CountingEnv(), last_two), 1) == [111]


def test_a_popped_transform_is_free():
    many = chain(1.0, 10.0)
    free = many.pop()
    assert (len(many), free.container) == (1, None)
    assert observed(TransformedEnv(CountingEnv(), free), 1) == [11]


def test_an_env_that_is_gone_frees_its_transforms():
    kept = Plus()
    env = TransformedEnv(CountingEnv(), kept)
    del env
    gc.collect()
    assert kept.container is None


def test_transforms_can_be_pickled():
    env = TransformedEnv(CountingEnv(), Compose(Plus(), RewardSum(), StepCounter(3)))
    twin = pickle.loads(pickle.dumps(env))
    env.set_seed(0), twin.set_seed(0)
    assert (env.rollout(3) == twin.rollout(3)).all()
    assert twin.transform[0].container is twin


# --- chains --------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(numbers=st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=1, max_size=4), cut=st.integers(0, 4))
def test_a_chain_is_one_after_the_other(numbers, cut):
    """Compose(a, b) = a then b, however it is put together."""
    kinds = [Times(n) if i % 2 else Plus(n) for i, n in enumerate(numbers)]
    copies = lambda: [t.clone() for t in kinds]  # noqa: E731
    want = 1.0
    for i, n in enumerate(numbers):
        want = want * n if i % 2 else want + n
    flat, one, two = copies(), copies(), copies()
    assert observed(TransformedEnv(CountingEnv(), Compose(*flat)), 1) == [want]
    assert observed(TransformedEnv(CountingEnv(), Compose(Compose(*one[:cut]), Compose(*one[cut:]))), 1) == [want]
    env = TransformedEnv(CountingEnv())
    for t in two:
        assert env.append_transform(t) is env
    assert observed(env, 1) == [want]
    outer = CountingEnv()
    for t in copies():
        outer = TransformedEnv(outer, t)
    assert observed(outer, 1) == [want]
    assert isinstance(outer.base_env, CountingEnv)


def test_transforms_can_be_put_in_anywhere():
    env = TransformedEnv(CountingEnv(), chain(1.0, 10.0))
    env.insert_transform(1, Times(5.0))
    assert observed(env, 1) == [20]
    assert [type(t).__name__ for t in env.transform] == ["Plus", "Times", "Plus"]
    env.insert_transform(0, StepCounter(2))
    assert env.rollout(9).shape == (2,)
    assert len(env.chain) == 4
    plain = CountingEnv().append_transform(Plus())
    assert isinstance(plain, TransformedEnv)
    assert isinstance(plain.transform, Plus)


def test_inverses_run_from_the_outside_in():
    class Log(Transform):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def _call(self, td):
            calls.append(("out", self.name))
            return td

        def _inv_call(self, td):
            calls.append(("in", self.name))
            return td

    calls = []
    env = TransformedEnv(CountingEnv(), Compose(Log("a"), Compose(Log("b")), Log("c")))
    td = env.rand_action(env.reset())
    calls.clear()
    env.step(td)
    assert calls == [("in", "c"), ("in", "b"), ("in", "a"), ("out", "a"), ("out", "b"), ("out", "c")]


# --- keys and specs ------------------------------------------------------------------------------


def test_results_may_go_elsewhere():
    env = TransformedEnv(CountingEnv(), Plus(out_keys=["shifted"]))
    out = env.rollout(2)["next"]
    assert (out["shifted"] - out["observation"]).flatten().tolist() == [1, 1]
    assert set(env.observation_keys) == {"observation", "shifted"}
    env.check_env_specs()


def test_nested_keys():
    key = ("agents", "observation")
    env = TransformedEnv(GroupedEnv(batch_size=[2]), Plus(in_keys=[key], out_keys=[("agents", "more")]))
    out = env.rollout(2)["next"]
    assert torch.equal(out["agents", "more"], out[key] + 1)
    assert env.observation_spec["agents", "more"].shape == (2, 3, 3)
    env.check_env_specs()


def test_the_env_is_told_what_the_outside_does_not_see():
    base = CountingEnv()
    told, whole = [], base._step
    base._step = lambda td: told.append((td["action"].clone(), "wish" in td)) or whole(td)
    env = TransformedEnv(base, Told("action", "wish"))
    assert env.action_keys == ["wish"]
    td = env.rand_action(env.reset())
    assert "action" not in td
    wish = td["wish"].clone()
    out = env.step(td)
    assert torch.equal(out["wish"], wish)
    assert "action" not in out
    assert torch.equal(told[0][0], wish * 2)
    env.check_env_specs()


def test_specs_follow_values():
    base = CountingEnv()
    base.observation_spec = Composite(observation=Bounded(0, 6, (1,)))
    grown = TransformedEnv(base, Times(-2.0))
    assert grown.observation_spec["observation"] == Bounded(-12, 0, (1,))
    grown.check_env_specs()
    assert isinstance(TransformedEnv(base, Plus()).observation_spec["observation"], Unbounded)

    class Pair(Plus):
        def _apply_transform(self, obs):
            return torch.cat([obs, obs], -1).double()

    paired = TransformedEnv(CountingEnv(), Pair())
    assert paired.observation_spec["observation"] == Unbounded((2,), dtype=torch.float64)
    paired.check_env_specs()


def test_a_transform_may_edit_the_specs_itself():
    class Twice(Transform):
        def _call(self, td):
            return td.set("twice", td["observation"] * 2)

        def transform_observation_spec(self, observation_spec):
            observation_spec["twice"] = observation_spec["observation"].clone()
            return observation_spec

        def transform_reward_spec(self, reward_spec):
            reward_spec["reward"] = Bounded(0, 1, reward_spec["reward"].shape)
            return reward_spec

    env = TransformedEnv(CountingEnv(), Twice())
    assert env.rollout(2)["next", "twice"].flatten().tolist() == [2, 4]
    assert env.reset()["twice"].item() == 0
    assert env.reward_spec == Bounded(0, 1, (1,))
    env.check_env_specs()


def test_the_specs_of_the_base_stay_as_they_are():
    base = CountingEnv()
    before = base.specs.clone()
    TransformedEnv(base, Compose(Plus(), RewardSum(), StepCounter(3), InitTracker()))
    assert base.specs == before
    assert base.is_spec_locked


@pytest.mark.parametrize("locked", [True, False])
def test_locks_are_as_asked_for(locked):
    env = TransformedEnv(CountingEnv(), Plus(), spec_locked=locked)
    assert env.is_spec_locked is locked
    env.append_transform(RewardSum())
    assert env.is_spec_locked is locked
    assert "episode_reward" in env.observation_keys


def test_in_keys_are_chosen_when_the_transform_joins():
    env = TransformedEnv(GroupedEnv({"g": ["a"], "h": ["b"]}), RewardSum())
    assert env.transform.in_keys == [("g", "reward"), ("h", "reward")]
    assert env.transform.out_keys == [("g", "episode_reward"), ("h", "episode_reward")]
    named = TransformedEnv(GroupedEnv(), RewardSum(in_keys=[("agents", "reward")], out_keys=["total"]))
    assert named.rollout(2)["next", "total"].shape == (2, 3, 1)


def test_sums_are_sums():
    """USERS (b) 28: the return of an episode is the cumulated sum of its rewards."""
    env = TransformedEnv(GroupedEnv(batch_size=[2]), RewardSum())
    env.set_seed(0)
    out = env.rollout(5)["next", "agents"]
    assert torch.allclose(out["episode_reward"], out["reward"].cumsum(1), atol=1e-5)
    listed = TransformedEnv(CountingEnv(), RewardSum(reward_spec=True))
    assert listed.reward_keys == ["episode_reward", "reward"]
    assert listed.rollout(3)["next", "episode_reward"].flatten().tolist() == [1, 2, 3]
    listed.check_env_specs()


# --- functions -----------------------------------------------------------------------------------


def test_functions_are_transforms():
    env = TransformedEnv(CountingEnv(), lambda td: td.set("square", td["observation"] ** 2).exclude("observation"))
    assert env.observation_keys == ["square"]
    assert env.rollout(3)["next", "square"].flatten().tolist() == [1, 4, 9]
    env.check_env_specs()
    both = TransformedEnv(CountingEnv(), Compose(Plus(), lambda td: td.set("square", td["observation"] ** 2)))
    assert both.rollout(2)["next", "square"].flatten().tolist() == [4, 9]


def test_modules_are_functions_too():
    class Net(nn.Module):
        def forward(self, td):
            return td.set("features", td["observation"].repeat(3))

    env = TransformedEnv(CountingEnv(), Net())
    assert env.observation_spec["features"].shape == (3,)


# --- the env under the transforms ----------------------------------------------------------------


def test_attributes_are_those_of_the_base():
    env = TransformedEnv(CountingEnv(max_steps=7), Plus())
    assert env.max_steps == 7
    assert env.base_env.max_steps == 7
    with pytest.raises(AttributeError):
        env.no_such_thing  # noqa: B018
    assert (env.batch_size, env.device, env.batch_locked) == (env.base_env.batch_size, None, True)


@pytest.mark.parametrize("name", ["connect_four", "simple_spread"])
def test_an_env_that_was_made_with_a_seed_stays_seeded(name):
    """A newcomer's script is the same every time it runs."""
    data = [marlenv.make(name, num_envs=2, seed=3).append_transform(StepCounter()).rollout(5) for _ in range(2)]
    assert (data[0] == data[1]).all()
    other = marlenv.make(name, num_envs=2, seed=4).append_transform(StepCounter()).rollout(5)
    assert other.shape != data[0].shape or not (other == data[0]).all()


def test_seeds_reach_the_base():
    a, b = (TransformedEnv(GroupedEnv(batch_size=[2]), Plus(in_keys=["noise"])) for _ in "ab")
    assert a.set_seed(3) == b.base_env.set_seed(3)
    b.set_seed(3)
    assert (a.rollout(3) == b.rollout(3)).all()


def test_states_reach_the_base():
    env = TransformedEnv(CountingEnv(), Compose(Plus(), StepCounter()))
    env.rand_step(env.reset())
    state = env.get_state()
    env.rand_step(env.reset())
    assert env.set_state(state)["observation"].item() == 2
    assert env.base_env.count.item() == 1


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("drawn", [False, True])
def test_a_state_at_a_limit_is_put_back_with_its_flags(grouped, drawn):
    base = marlenv.make("simple_spread", num_envs=2, compile="none") if grouped else CountingEnv(9)
    limits = (StepCounter(), marlenv.RandomTruncationTransform(1, 1)) if drawn else (StepCounter(2),)
    env = TransformedEnv(base, Compose(*limits))
    td = env.rollout(2)[..., -1]["next"]
    state = env.get_state(td)
    env.reset()
    back = env.set_state(state)
    for key in env.done_keys:
        assert torch.equal(back[key], td[key]), key
    assert back["done"].all()
    assert not grouped or back["agents", "truncated"].all()


@pytest.mark.parametrize("below", [False, True])
def test_sums_among_the_rewards_are_put_back(below):
    """In one env, and in the envs of a pool under a transform that changes the sums: they go on from 2."""

    def summed():
        return TransformedEnv(CountingEnv(9), RewardSum(reward_spec=True))

    scaled = TransformedEnv(SerialEnv(2, summed), RewardScaling(0.0, 10.0, ["episode_reward"]))
    env, scale = (scaled, 10) if below else (TransformedEnv(SerialEnv(2, CountingEnv), RewardSum(reward_spec=True)), 1)
    td = env.reset()
    for _ in range(2):
        td = env.step_mdp(env.rand_step(td))
    state, later = env.get_state(td), env.step_mdp(env.rand_step(td))
    back = env.set_state(state)
    assert back["episode_reward"].flatten().tolist() == [2 * scale, 2 * scale]
    assert env.rand_step(back)["next", "episode_reward"].flatten().tolist() == [3 * scale, 3 * scale]
    some = env.set_state(state, torch.tensor([True, False]), later)
    assert some["episode_reward"].flatten().tolist() == [2 * scale, 3 * scale]


def test_rows_that_are_skipped_are_told_in_the_shape_of_the_env_below():
    shaped = marlenv.BatchSizeTransform(reshape_fn=lambda td: td.reshape(2, 2))
    env = TransformedEnv(GroupedEnv(batch_size=[4]), Compose(RewardSum(), shaped))
    td, mask = env.rand_action(env.reset()), torch.tensor([[True, False], [True, True]])
    out = env.step(td.set("_step", mask.clone()))["next", "agents"]
    assert torch.equal(out["observation"][..., 0, 2], mask.float())  # the steps so far
    assert torch.equal(out["episode_reward"].any(-2).squeeze(-1), mask)


def test_closing_and_moving():
    env = TransformedEnv(CountingEnv(), Plus())
    env.to("meta")
    assert env.device.type == env.base_env.device.type == "meta"
    assert env.transform.number.device.type == "meta"
    assert env.action_spec.device.type == "meta"
    env.close()
    assert env.base_env.is_closed
    with pytest.raises(EnvClosed, match=r"TransformedEnv: the env is closed"):
        env.reset()


def test_data_outside_an_env():
    data = TensorDict({"observation": torch.zeros(3, 1), "next": {"observation": torch.ones(3, 1)}}, [3])
    out = Compose(Plus(), Times(2.0))(data)
    assert out is data
    assert out["observation"].flatten().tolist() == [2, 2, 2]
    assert out["next", "observation"].flatten().tolist() == [4, 4, 4]
    outside = TensorDict({"action": torch.ones(1)}, [])
    assert Told().inv(outside)["action"].item() == 2
    assert outside["action"].item() == 1


def test_uneven_agents_go_through_transforms():
    env = TransformedEnv(UnevenEnv(), Compose(RewardSum(), StepCounter(3), InitTracker()))
    env.set_seed(0)
    out = env.rollout(9)
    assert out.shape == (3,)
    assert torch.allclose(out["next", "agents"]["episode_reward"], out["next", "agents"]["reward"].cumsum(0), atol=1e-5)
    env.check_env_specs()


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: TransformedEnv(CountingEnv, Plus()), SpecError,
         r"TransformedEnv: expected an env, got EnvMeta; make it first"),
        (lambda: TransformedEnv(CountingEnv(), 3), SpecError,
         r"expected a transform or a function of tensordicts, got int"),
        (lambda: TransformedEnv(CountingEnv(), Plus(in_keys=["nope"])).rollout(1), KeyMissing,
         r"Plus: no entry 'nope'; the data has \['done', 'observation', 'reward'"),
        (lambda: Transform(["a"], ["b", "c"]), SpecError,
         r"Transform: in_keys and out_keys must be as many, got \['a'\] and \['b', 'c'\]"),
        (lambda: Transform(in_keys_inv=["a"], out_keys_inv=[]), SpecError,
         r"in_keys_inv and out_keys_inv must be as many"),
        (lambda: StepCounter(0), SpecError, r"StepCounter: max_steps must be an integer from 1 on, got 0"),
        (lambda: StepCounter(truncated_key=("a", "b")), SpecError, r"StepCounter: the keys are names \(strings\)"),
        (lambda: InitTracker(("a", "b")), SpecError, r"InitTracker: init_key is a name \(string\).*got \('a', 'b'\)"),
        (lambda: TransformedEnv(CountingEnv(), InitTracker("observation")), SpecError,
         r"InitTracker: the env observes 'observation' already; choose another init_key"),
    ],
)  # fmt: skip
def test_what_is_refused(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_reprs():
    assert repr(Compose(RewardSum(), StepCounter(5))) == "Compose(RewardSum(), StepCounter(max_steps=5))"
    assert repr(TransformedEnv(CountingEnv(), Plus())) == (
        "TransformedEnv(CountingEnv(batch_size=[], device=None), Plus(in_keys=['observation']))"
    )
    assert repr(Told()) == "Told(in_keys_inv=['action'])"


class Ended(Transform):
    """Says that an episode is over as soon as it begins."""

    def _reset(self, tensordict, tensordict_reset):
        return tensordict_reset.set("done", torch.ones_like(tensordict_reset["done"]))


def test_what_transforms_say_after_a_reset_is_looked_at_where_that_is_asked_for():
    assert bool(TransformedEnv(CountingEnv(), Ended()).reset()["done"])
    with pytest.raises(ResetError, match=r"'done' is True after a reset"):
        TransformedEnv(CountingEnv(), Ended(), allow_done_after_reset=False).reset()


def test_specs_follow_the_numbers_that_are_measured_or_loaded() -> None:
    def normed() -> TransformedEnv:
        norm = marlenv.ObservationNorm(in_keys=["thdot"], out_keys=["speed"])
        clip = marlenv.ClipTransform(["th"], out_keys=["angle"], low=-4.0, high=4.0)
        return TransformedEnv(marlenv.PendulumEnv(), Compose(norm, clip))  # what it reads stays as it is

    env, other, third = normed(), normed(), normed()
    norm = env.transform[0]
    norm.init_stats(20)
    low, high = (float(norm(TensorDict(thdot=torch.tensor(end)))["speed"]) for end in (-8.0, 8.0))
    spec = env.observation_spec["speed"]
    assert (float(spec.low), float(spec.high)) == pytest.approx((low, high))
    marlenv.check_env_specs(env)
    env.transform[1].low.fill_(-2.0)
    other.load_state_dict(env.state_dict())
    third.transform[0].load_state_dict(norm.state_dict())
    assert other.observation_spec["speed"] == third.observation_spec["speed"] == spec
    assert float(other.observation_spec["angle"].low) == -2.0
    marlenv.check_env_specs(other)


def test_numbers_that_do_not_fit_the_env_are_refused_when_they_are_loaded() -> None:
    two = marlenv.ObservationNorm(torch.zeros(2), torch.ones(2), ["observation"])
    env = TransformedEnv(CountingEnv(), marlenv.ObservationNorm(in_keys=["observation"]))
    with pytest.raises(SpecError, match=r"must be numbers, or fit every one of \['observation'\], got shapes \[2\]"):
        env.transform.load_state_dict(two.state_dict())
