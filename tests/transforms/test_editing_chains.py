"""Chains of transforms edited in place, chains replaced, and what is no transform."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

import marlenv
from marlenv import (
    ActionScaling,
    AutoResetTransform,
    Compose,
    EnvBase,
    InitTracker,
    ObservationNorm,
    RewardSum,
    SerialEnv,
    StepCounter,
    TimeMaxPool,
    TransformedEnv,
)
from marlenv.errors import BadIndex, KeyMissing, SpecError
from marlenv.testing.comparison import differences
from marlenv.testing.mocks import CountingEnv


def same(env: TransformedEnv, *transforms: object) -> None:
    """Holds that an env is what it would be if it had been made with these transforms."""
    other = TransformedEnv(CountingEnv(), Compose(*transforms))
    for kind in ("observation", "reward", "done", "action", "state"):
        assert getattr(env, f"full_{kind}_spec") == getattr(other, f"full_{kind}_spec")
    for one in (env, other):
        one.set_seed(3)
    assert not differences(env.rollout(4), other.rollout(4))
    env.check_env_specs()


def test_specs_and_data_follow_a_chain_that_is_edited_in_place() -> None:
    env = TransformedEnv(CountingEnv(), Compose(RewardSum()))
    chain = env.transform
    assert isinstance(chain, Compose)
    assert isinstance(chain[-1], RewardSum)
    chain.append(StepCounter(max_steps=3))
    same(env, RewardSum(), StepCounter(max_steps=3))
    chain.insert(0, InitTracker())
    same(env, InitTracker(), RewardSum(), StepCounter(max_steps=3))
    gone = chain.pop()
    same(env, InitTracker(), RewardSum())
    TransformedEnv(CountingEnv(), gone)  # it is free again
    chain[0] = TimeMaxPool(["observation"], T=2)
    same(env, TimeMaxPool(["observation"], T=2), RewardSum())
    del chain[0]
    chain.pop()
    same(env)
    with pytest.raises(BadIndex, match="Compose: index 2 is out of range; there are 0 transforms"):
        chain[2] = RewardSum()
    with pytest.raises(BadIndex, match="index -1 is out of range; there are 0 transforms"):
        chain.pop()


@pytest.mark.parametrize("index", [-2, -1, 0, 1, 2])
def test_a_transform_is_inserted_where_a_list_puts_it(index: int) -> None:
    want = ["RewardSum", "StepCounter"]
    want.insert(index, "InitTracker")
    for insert in (
        lambda env: env.transform.insert(index, InitTracker()),
        lambda env: env.insert_transform(index, InitTracker()),
    ):
        env = TransformedEnv(CountingEnv(), Compose(RewardSum(), StepCounter()))
        insert(env)
        assert [type(transform).__name__ for transform in env.transform] == want
        assert [type(env.transform[i]).__name__ for i in range(3)] == want
        same(env, *(transform.clone() for transform in env.transform))
        assert env.rollout(3)["next", "episode_reward"].flatten().tolist() == [1, 2, 3]  # and nothing twice
    alone = Compose(RewardSum(), StepCounter())
    alone.insert(index, InitTracker())
    assert [type(transform).__name__ for transform in alone] == want


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (lambda chain: chain.insert(2, InitTracker()), "insert: index 2 is out of range; there are 1 transforms"),
        (lambda chain: chain.insert(-2, InitTracker()), "insert: index -2 is out of range; there are 1 transforms"),
        (lambda chain: chain.insert("a", InitTracker()), "insert: index must be an integer, got 'a'; there are 1"),
        (lambda chain: chain.insert(1.0, InitTracker()), "insert: index must be an integer, got 1.0"),
        (lambda chain: chain.pop("a"), "pop: index must be an integer, got 'a'"),
        (lambda chain: chain.__delitem__(slice(0, 1)), "pop: index must be an integer, got slice"),
    ],
)
def test_a_place_that_there_is_not_leaves_the_chain_as_it_was(edit, text: str) -> None:
    env = TransformedEnv(CountingEnv(), Compose(RewardSum()))
    with pytest.raises(BadIndex, match=rf"Compose\.{text}"):
        edit(env.transform)
    assert len(env.transform) == len(list(env.transform)) == 1
    same(env, RewardSum())
    env.transform.insert(-1, InitTracker())
    same(env, InitTracker(), RewardSum())


def test_a_transform_does_not_take_two_places() -> None:
    chain = Compose(RewardSum(), StepCounter())
    with pytest.raises(SpecError, match=r"StepCounter\(.*\) is in this chain already; pass its copy"):
        chain[0] = chain[1]
    assert [type(transform).__name__ for transform in chain] == ["RewardSum", "StepCounter"]


def test_a_chain_inside_a_chain_is_edited_too() -> None:
    inner = Compose(RewardSum())
    env = TransformedEnv(CountingEnv(), Compose(inner, InitTracker()))
    inner.append(StepCounter())
    same(env, RewardSum(), StepCounter(), InitTracker())


def test_a_transform_that_was_given_alone_comes_back_alone() -> None:
    env = TransformedEnv(CountingEnv(), RewardSum())
    assert isinstance(env.transform, RewardSum)
    env.append_transform(StepCounter())
    assert [type(t) for t in env.transform] == [RewardSum, StepCounter]
    assert len(TransformedEnv(CountingEnv()).append_transform(RewardSum()).transform) == 1


def test_another_transform_takes_the_place_of_the_chain() -> None:
    env = TransformedEnv(CountingEnv(), Compose(RewardSum(), StepCounter()))
    old = env.transform
    env.transform = InitTracker()
    assert isinstance(env.transform, InitTracker)
    same(env, InitTracker())
    env.transform = Compose(StepCounter(), RewardSum())
    same(env, StepCounter(), RewardSum())
    env.transform = old
    same(env, RewardSum(), StepCounter())
    with pytest.raises(SpecError, match="belongs to an env already"):
        TransformedEnv(CountingEnv(), RewardSum()).transform = old


def test_what_does_not_fit_leaves_the_env_as_it_was() -> None:
    env = TransformedEnv(CountingEnv(), Compose(RewardSum()))
    odd = RewardSum(in_keys=["nothing"])
    for edit in (
        lambda: env.transform.append(odd),
        lambda: env.append_transform(odd),
        lambda: setattr(env, "transform", odd),
    ):
        with pytest.raises(KeyMissing, match="nothing"):
            edit()
        same(env, RewardSum())
    assert odd.container is None


@pytest.mark.parametrize(
    "put",
    [
        lambda t: TransformedEnv(CountingEnv(), t),
        lambda t: CountingEnv().append_transform(t),
        lambda t: TransformedEnv(CountingEnv()).append_transform(t),
        lambda t: TransformedEnv(CountingEnv()).insert_transform(0, t),
        Compose,
        lambda t: Compose().append(t),
        lambda t: setattr(TransformedEnv(CountingEnv()), "transform", t),
    ],
)
def test_a_class_and_a_transform_of_torchrl_are_refused(put) -> None:
    theirs = pytest.importorskip("torchrl.envs")
    with pytest.raises(SpecError, match=r"got the class RewardSum; make one, RewardSum\(\.\.\.\)"):
        put(RewardSum)
    with pytest.raises(SpecError, match="RewardSum is TorchRL's, .*; use marlenv's own: from marlenv import RewardSum"):
        put(theirs.RewardSum())
    with pytest.raises(
        SpecError, match="FlattenAction is TorchRL's, .*; marlenv has none of that name: put it on marlenv.to_torchrl"
    ):
        put(theirs.transforms.FlattenAction(-2, -1))


def test_an_env_no_longer_resets_itself_without_the_transform_that_says_so() -> None:
    def counts(env: EnvBase) -> list[float]:
        seen: list[float] = env.rollout(7, break_when_any_done=False)["next", "observation"].flatten().tolist()
        return seen

    want = [1, 2, 3, 1, 2, 3, 1]
    env = TransformedEnv(CountingEnv(3), Compose(AutoResetTransform(), StepCounter()))
    env.transform.pop(0)
    assert counts(env) == want
    env = TransformedEnv(CountingEnv(3), Compose(AutoResetTransform(), StepCounter()))
    env.transform = StepCounter()
    assert counts(env) == want
    base = CountingEnv(3)
    above = TransformedEnv(TransformedEnv(base, StepCounter()), AutoResetTransform(), auto_unwrap=False)
    assert counts(above) != want  # it was told that the env goes on by itself, which this one does not
    assert counts(above.base_env) == want
    assert counts(base) == want


def scaled(scale: float) -> TransformedEnv:
    """An env whose actions reach from ``-1 / scale`` to ``1 / scale``."""
    env = marlenv.make("simple_spread", num_envs=2)
    return TransformedEnv(env, ActionScaling(loc=0.0, scale=scale, in_keys_inv=[("agents", "action")]))


@pytest.mark.parametrize("within", [scaled, lambda scale: SerialEnv(2, lambda: scaled(scale))])
def test_specs_follow_what_the_env_below_loads(within: Callable[[float], EnvBase]) -> None:
    one, other = (TransformedEnv(within(scale), StepCounter(), auto_unwrap=False) for scale in (1.0, 2.0))
    assert one.full_action_spec != other.full_action_spec
    one.load_state_dict(other.state_dict())
    assert one.full_action_spec == other.full_action_spec
    copy.deepcopy(one).check_env_specs()


def test_truncated_flags_that_were_added_stay_where_specs_are_derived_anew() -> None:
    env = TransformedEnv(CountingEnv(), ObservationNorm(loc=0.0, scale=1.0))
    assert "truncated" not in env.done_keys
    env.add_truncated_keys()
    env.append_transform(RewardSum())
    assert "truncated" in env.done_keys
    env.load_state_dict(env.state_dict())
    assert "truncated" in env.done_keys
    assert "truncated" in pickle.loads(pickle.dumps(env)).done_keys
    env.check_env_specs()
    assert env.rollout(3, set_truncated=True)["next", "truncated"][-1].item()
