"""The spec families and key families of an env, their locks and their setters."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from marlenv import Binary, Bounded, Categorical, Composite, EnvBase, Unbounded
from marlenv.errors import KeyCollision, KeyMissing, LockedSpec, ShapeError, SpecError, Unsupported
from marlenv.testing.mocks import CountingEnv, GroupedEnv, MaskedEnv, UnevenEnv

FAMILIES = ["action", "state", "observation", "reward", "done"]


class Blank(EnvBase):
    """An env whose specs are given."""

    def __init__(self, batch_size=(), device=None, **specs):
        super().__init__(batch_size=batch_size, device=device)
        for name, spec in specs.items():
            setattr(self, f"{name}_spec", spec)

    def _reset(self, tensordict):
        return self.full_observation_spec.zero()

    def _step(self, tensordict):
        return self.full_observation_spec.zero().update(self.full_reward_spec.zero())

    def _set_seed(self, seed):
        pass


@pytest.mark.parametrize(
    ("name", "of"), [("input", "action_spec, state_spec"), ("output", "observation_spec, reward_spec, done_spec")]
)
def test_the_two_sides_are_not_assigned(name, of):
    env = Blank()
    with pytest.raises(RuntimeError, match=rf"^Blank\.{name}_spec: it is made of others; assign {of}$"):
        setattr(env, f"{name}_spec", Composite())  # a RuntimeError in TorchRL
    with pytest.raises(SpecError):
        Blank(**{name: Composite()})


def test_every_family_is_there_without_being_assigned():
    env = Blank(batch_size=[2])
    assert set(env.input_spec) == {"full_action_spec", "full_state_spec"}
    assert set(env.output_spec) == {"full_observation_spec", "full_reward_spec", "full_done_spec"}
    assert env.reward_spec == Composite(shape=[2])
    assert set(env.done_keys) == {"done", "terminated"}
    assert env.full_done_spec["done"].shape == (2, 1)
    assert (env.observation_keys, env.state_keys, env.action_keys, env.reward_keys) == ([], [], [], [])
    assert set(env.specs) == {"input_spec", "output_spec"}


def test_short_views_are_the_only_leaf_or_the_composite():
    env = GroupedEnv()
    assert env.action_spec == env.full_action_spec["agents", "action"]
    assert env.reward_spec == env.output_spec["full_reward_spec"][env.reward_key]
    assert isinstance(env.observation_spec, Composite)
    assert isinstance(env.done_spec, Composite)
    assert isinstance(CountingEnv().done_spec, Composite)  # done and terminated


def test_keys_come_from_the_root_down():
    env = GroupedEnv({"z": ["a"], "b": {"c": ["d"]}})
    assert env.action_keys == [("z", "action"), ("b", "c", "action")]
    assert env.done_keys[:3] == ["done", "terminated", "truncated"]
    assert env.reset_keys == ["_reset", ("z", "_reset"), ("b", "c", "_reset")]
    assert env.done_keys_groups[2] == [("b", "c", n) for n in ("done", "terminated", "truncated")]
    assert CountingEnv().action_key == "action"
    assert CountingEnv().done_key == "done"
    assert GroupedEnv().reward_key == ("agents", "reward")


def test_one_key_is_refused_where_there_are_several():
    env = GroupedEnv({"g": ["a"], "h": ["b"]})
    for kind in ("action", "reward"):
        with pytest.raises(
            KeyMissing, match=rf"GroupedEnv.{kind}_key: the env has 2 {kind} entries, .*; use {kind}_keys"
        ):
            getattr(env, f"{kind}_key")
    with pytest.raises(KeyMissing, match=r"GroupedEnv.done_key: the env has 3 done entries"):
        env.done_key  # noqa: B018
    assert Blank().action_keys == []
    with pytest.raises(KeyMissing, match=r"Blank.action_key: the env has 0 action entries, \[\]"):
        Blank().action_key  # noqa: B018


def test_locked_specs_refuse_writing():
    env = CountingEnv()
    assert env.is_spec_locked
    for spec in (env.observation_spec, env.input_spec, env.full_done_spec):
        assert spec.is_locked
        with pytest.raises(LockedSpec, match=r"cannot set 'x' in a locked spec; call unlock_\(\) first, or assign"):
            spec["x"] = Unbounded((1,))
    with pytest.raises(LockedSpec):
        del env.observation_spec["observation"]
    env.set_spec_lock_(False)
    env.observation_spec["x"] = Unbounded((1,))
    assert not env.is_spec_locked
    assert env.observation_keys == ["observation", "x"]
    env.set_spec_lock_(True)
    with pytest.raises(LockedSpec):
        env.observation_spec["y"] = Unbounded((1,))
    env.is_spec_locked = False
    env.observation_spec["y"] = Unbounded((1,))


def test_unlocked_from_the_start():
    env = CountingEnv(spec_locked=False)
    assert not env.is_spec_locked
    env.observation_spec["x"] = Unbounded((1,))
    assert env.observation_keys == ["observation", "x"]


def test_keys_and_plan_are_cached_while_locked():
    env = CountingEnv()
    assert env.plan is env.plan
    assert env.observation_keys is env.observation_keys
    env.set_spec_lock_(False)
    assert env.plan is not env.plan


@pytest.mark.parametrize("locked", [True, False])
def test_assigning_a_spec_unlocks_writes_forgets_and_relocks(locked):
    env = CountingEnv(spec_locked=locked)
    assert env.observation_keys == ["observation"]
    env.observation_spec = Composite(other=Unbounded((2,)), third=Unbounded((1,)))
    assert env.observation_keys == ["other", "third"]
    assert env.is_spec_locked is env.observation_spec.is_locked is locked
    env.action_spec = Categorical(3)
    assert env.action_spec == env.full_action_spec["action"] == Categorical(3)
    env.reward_spec = Composite(agents=Composite(reward=Unbounded((3, 1)), shape=(3,)))
    assert env.reward_key == ("agents", "reward")
    env.done_spec = Binary(shape=(1,), dtype=torch.bool)
    assert env.done_keys == ["done", "terminated"]
    assert env.is_spec_locked is env.output_spec.is_locked is locked


def test_the_step_follows_an_assigned_spec():
    env = CountingEnv()
    env.rollout(2)
    env.reward_spec = Unbounded((1, 1))
    assert env.rollout(2)["next", "reward"].shape == (2, 1, 1)
    env.full_done_spec = Composite(
        {n: Binary(shape=(1,), dtype=torch.bool) for n in ("done", "terminated", "truncated")}
    )
    assert "truncated" in env.rollout(2)["next"].keys()


@pytest.mark.parametrize("kind", FAMILIES)
def test_unbatched_views(kind):
    env = GroupedEnv(batch_size=[2, 3])
    single = GroupedEnv()
    assert getattr(env, f"full_{kind}_spec_unbatched") == getattr(single, f"full_{kind}_spec")
    assert getattr(env, f"{kind}_spec_unbatched") == getattr(single, f"{kind}_spec")
    assert env.input_spec_unbatched == single.input_spec
    assert env.output_spec_unbatched == single.output_spec


def test_unbatched_views_of_uneven_agents():
    env = UnevenEnv()
    assert env.full_action_spec_unbatched == env.full_action_spec


def test_assigning_an_unbatched_spec_adds_the_batch():
    env = GroupedEnv(batch_size=[2])
    env.observation_spec_unbatched = Composite(x=Unbounded((4,)))
    assert env.observation_spec["x"].shape == (2, 4)
    env.action_spec_unbatched = Composite(action=Bounded(-2, 2, (3,)))
    assert env.full_action_spec["action"].shape == (2, 3)
    env.full_reward_spec_unbatched = {"agents": {"reward": Unbounded((3, 1))}}
    assert env.full_reward_spec["agents", "reward"].shape == (2, 3, 1)
    env.done_spec_unbatched = Binary(shape=(1,), dtype=torch.bool)
    assert env.full_done_spec["terminated"].shape == (2, 1)
    env.full_state_spec_unbatched = Composite(s=Unbounded((1,)))
    assert env.state_spec["s"].shape == (2, 1)


@pytest.mark.parametrize(
    ("names", "want"),
    [
        ({"done"}, {"done", "terminated"}),
        ({"terminated"}, {"done", "terminated"}),
        ({"truncated"}, {"done", "terminated", "truncated"}),
        ({"done", "truncated"}, {"done", "terminated", "truncated"}),
    ],
)
def test_every_flag_is_flanked_by_its_dual(names, want):
    flag = Binary(shape=(1,), dtype=torch.bool)
    env = Blank(done=Composite(dict.fromkeys(names, flag)))
    assert set(env.full_done_spec) == want
    nested = Blank(done=Composite(a=Composite(b=Composite(dict.fromkeys(names, flag)))))
    assert set(nested.full_done_spec["a", "b"]) == want
    assert "done" not in nested.full_done_spec


def test_add_truncated_keys():
    env = GroupedEnv()
    env.full_done_spec = Composite(
        done=Binary(shape=(1,), dtype=torch.bool), g=Composite(done=Binary(shape=(2, 1), dtype=torch.bool))
    )
    assert env.add_truncated_keys() is env
    assert {"truncated", ("g", "truncated")} < set(env.done_keys)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Blank([2], action=Unbounded((3,))), ShapeError,
         r"Blank.action_spec: the shape must begin with the env's batch size \[2\], got \[3\]; "
         r".*action_spec_unbatched"),
        (lambda: Blank([2], observation=Composite(x=Unbounded((2, 1)))), ShapeError,
         r"Blank.observation_spec: the shape must begin with the env's batch size \[2\], got \[\]"),
        (lambda: Blank(state=Unbounded((3,))), TypeError,
         r"Blank.state_spec: expected a Composite with named entries, got Unbounded"),
        (lambda: Blank(reward=Unbounded(())), ShapeError,
         r"Blank.reward_spec: entry 'reward' needs at least one dimension, got shape \[\]; use \(1,\)"),
        (lambda: Blank([2, -3]), ShapeError, r"Blank: batch_size cannot be negative, got \[2, -3\]"),
        *((lambda size=size: Blank(size), SpecError, "a size is an int or a sequence of them, got ")
          for size in (2.5, True, {})),
        (lambda: Blank(action=3), SpecError, r"Blank.action_spec: expected a spec, got int"),
        (lambda: Blank(observation=Composite(x=Unbounded((1,))), reward=Composite(x=Unbounded((1,)))), KeyCollision,
         r"Blank: entry 'x' is in both the observation spec and the reward spec"),
        (lambda: Blank(state=Composite(action=Unbounded((1,))), action=Unbounded((1,))), KeyCollision,
         r"entry 'action' is in both the state spec and the action spec"),
        (lambda: Blank(observation=Composite(action=Unbounded((1,))), action=Unbounded((1,))), KeyCollision,
         r"entry 'action' is in both the action spec and the observation spec"),
        (lambda: Blank(observation=Composite({("action", "x"): Unbounded((1,))}), action=Unbounded((1,))), KeyCollision,
         r"Blank: entry \('action', 'x'\) of the observation spec lies within 'action', an entry of the action spec; "
         r"call one of them something else"),
        *((lambda name=name: Blank(observation=Composite({name: Unbounded((1,))})), KeyCollision,
           rf"Blank: the observation spec has an entry '{name}', .* call it something else")
          for name in ("next", "_reset", "_step")),
        (lambda: Blank(observation=Composite({("next", "x"): Unbounded((1,))})), KeyCollision,
         r"the observation spec has an entry \('next', 'x'\)"),
        (lambda: Blank(state=Composite({("g", "_reset"): Unbounded((1,))})), KeyCollision,
         r"the state spec has an entry \('g', '_reset'\)"),
    ],
)  # fmt: skip
def test_specs_that_cannot_be_right(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_a_bare_observation_spec_is_called_observation():
    env = Blank()
    env.observation_spec = Unbounded((3,))
    assert env.observation_spec == Composite(observation=Unbounded((3,)))
    assert env.observation_keys == ["observation"]
    env.state_spec = Composite(s=Unbounded((1,)))
    env.state_spec = None
    assert env.state_spec.is_empty()


def test_state_entries_may_be_observed_too():
    """USERS (b) 27: state that is not observed, or that is, passes the check."""
    for observed in (True, False):
        seen = {"x": Unbounded((1,)), **({"s": Unbounded((1,))} if observed else {})}
        env = Blank(observation=Composite(seen), state=Composite(s=Unbounded((1,))), action=Unbounded((1,)))
        env.check_env_specs(tensordict=None if observed else TensorDict({"s": torch.zeros(1)}, []))


def test_the_devices_of_specs_follow_the_env():
    env = Blank(device="cpu", action=Unbounded((1,)))
    assert env.action_spec.device == torch.device("cpu")
    assert env.to("cpu") is env
    with pytest.raises(SpecError, match=r"Blank.device: already cpu; move the env with env.to\('meta'\)"):
        env.device = "meta"
    moved = env.to("meta")
    assert moved.action_spec.device == torch.device("meta")
    assert moved.full_done_spec["done"].device == torch.device("meta")
    assert moved.is_spec_locked


def test_batch_size_is_the_shape():
    env = GroupedEnv(batch_size=[2, 3])
    assert (env.shape, env.ndim, env.batch_dims, env.numel(), env.ndimension()) == (torch.Size([2, 3]), 2, 2, 6, 2)
    assert Blank(batch_size=4).batch_size == Blank(batch_size=np.int64(4)).batch_size == (4,)
    assert Blank(batch_size=(n for n in (4, 2))).batch_size == (4, 2)


@pytest.mark.parametrize("make", [CountingEnv, GroupedEnv, MaskedEnv, lambda: UnevenEnv("pad")])
def test_envs_can_be_copied_and_pickled(make):
    env = make()
    env.set_seed(3)
    env.rand_step(env.reset())
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert twin.is_spec_locked
        assert twin.action_keys == env.action_keys
        one, other = env.rand_action(), twin.rand_action()
        assert (one == other).all()
        twin.rollout(3)
        env.set_seed(3), env.rand_step(env.reset())


def test_all_actions_and_cardinality():
    env = MaskedEnv(n=3)
    assert env.all_actions()["action"].tolist() == [0, 1, 2]
    assert env.cardinality() == 3
    with pytest.raises(Unsupported, match=r"its values cannot be listed"):
        CountingEnv().all_actions()


def test_fake_tensordict_has_the_layout_of_a_step():
    for make in (CountingEnv, GroupedEnv, MaskedEnv, UnevenEnv, lambda: GroupedEnv(batch_size=[2])):
        env = make()
        fake, real = env.fake_tensordict(), env.rand_step(env.reset())
        assert set(fake.keys(True)) == set(real.keys(True))
        assert fake.batch_size == real.batch_size
        for key in env.done_keys:
            assert fake[key].shape == real[key].shape


def test_repr_and_dynamic_flag():
    assert repr(CountingEnv()) == "CountingEnv(batch_size=[], device=None)"
    assert not CountingEnv().has_dynamic_specs
    assert Blank(observation=Composite(x=Unbounded((-1,))))._has_dynamic_specs


@pytest.mark.parametrize("kind", ["action", "reward"])
def test_a_leaf_takes_no_groups_place(kind):
    """A leaf would be the only entry, at the root, and the env would miss those of its groups at the next step."""
    env = GroupedEnv()
    key, leaf = getattr(env, f"{kind}_keys")[0], Bounded(-1, 1, (3,))
    text = rf"^GroupedEnv\.{kind}_spec: expected a Composite with the entries of the groups, \[.*{kind}.*\], "
    text += "got a leaf, Bounded.*at the root"
    with pytest.raises(SpecError, match=text):
        setattr(env, f"{kind}_spec", leaf)
    env.rollout(2)
    spec = getattr(env, f"full_{kind}_spec").clone()
    spec[key] = spec[key].clone()
    setattr(env, f"{kind}_spec", spec)
    env.rollout(2)
    single = CountingEnv()
    setattr(single, f"{kind}_spec", getattr(single, f"{kind}_spec").clone())
    single.rollout(2)
