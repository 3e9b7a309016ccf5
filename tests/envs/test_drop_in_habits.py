"""What scripts of TorchRL's users rely on besides specs and steps: done by both libraries, from the same lines."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest
import torch
from tensordict import LazyStackedTensorDict, TensorDict
from torch import nn
from torchrl_oracle import data, envs, utils
from twin_envs import LIBRARIES, assert_same_data, assert_same_specs, load, twins

import marlenv
from marlenv.errors import ContractBroken, KeyMissing, ShapeError

pytestmark = pytest.mark.reference

THEIRS = SimpleNamespace(**{**vars(data), **vars(envs), **vars(utils)})
NAMES = {"torchrl": THEIRS, "marlenv": marlenv}
KINDS = ("action", "state", "observation", "reward", "done")


def both(make, *args, **kwargs):
    """An env of ``habits`` in both libraries, each with the library's names."""
    theirs, ours = twins("habits", make, *args, **kwargs)
    return (theirs, THEIRS), (ours, marlenv)


def ones(env):
    """A policy that plays 1."""
    return lambda td: td.set(env.action_key, torch.ones(*td.batch_size, 1))


def rolled(made, steps=7, **options):
    return [env.rollout(steps, ones(env), **options) for env, _ in made]


# --- policies of tensors -------------------------------------------------------------------------


def linear():
    torch.manual_seed(0)
    return nn.Linear(1, 1)


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = linear()

    def forward(self, x):
        return self.net(x)


class OwnWithMemory(Own):
    def forward(self, x, hidden=None):
        return self.net(x)


class Anything(Own):
    def forward(self, *args):
        return self.net(args[0])


class CallableObject:
    def __call__(self, state):
        return state * 0 + 0.5


def by_key(observation):
    return observation * 0.1


def of_td(td):
    return td.set("action", td["observation"] * 0.1)


POLICIES = {
    "linear layer": linear,
    "module": Own,
    "module with a default": OwnWithMemory,
    "module of anything": Anything,
    "sequence": lambda: nn.Sequential(linear(), nn.Tanh()),
    "function": lambda: lambda x: x * 0.1,
    "function by key": lambda: by_key,
    "callable object": CallableObject,
    "function of td": lambda: of_td,
}


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("how", [{}, {"break_when_any_done": False}, {"auto_cast_to_device": True}], ids=str)
def test_policies_take_and_return_tensors(make, batch, how):
    theirs, ours = (env.rollout(5, make(), **how) for env, _ in both("Count", batch))
    assert_same_data(theirs, ours)


def test_one_entry_of_one_group_is_what_a_policy_of_tensors_gets():
    """TorchRL hands over the group's tensordict, and then calls what comes back an action."""
    env = load("habits", "marlenv").TwoRewards()
    for policy in (linear(), lambda x: x * 0 + 1, lambda whatever: whatever.exp()):
        assert env.rollout(2, policy)["agents", "action"].shape == (2, 2, 1)


def test_a_function_that_says_nothing_is_given_what_it_can_use():
    env = load("habits", "marlenv").Count()
    whole = env.rollout(2, lambda x: x.set("action", x["observation"] + 1))
    assert whole["action"].tolist() == [[1.0], [2.0]]
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'nothing'") as caught:
        env.rollout(2, lambda x: x.nothing)
    assert "called with the tensordict it fails too: AttributeError" in caught.value.__notes__[-1]
    assert "call the argument td" in caught.value.__notes__[-1]


def test_what_a_function_of_observations_answers_wrong_is_not_taken_for_an_answer_to_the_tensordict():
    env = load("habits", "marlenv").TwoRewards()
    with pytest.raises(RuntimeError, match="batch dimension mismatch"):
        env.rollout(2, lambda seen: torch.zeros(7))
    with pytest.raises(RuntimeError, match="more tensors"):
        env.rollout(2, lambda seen: (torch.zeros(2, 1), torch.zeros(2, 1)))


@pytest.mark.parametrize("library", LIBRARIES)
def test_more_outputs_than_actions_are_refused(library):
    class Two(nn.Module):
        def forward(self, x):
            return x, x

    with pytest.raises(RuntimeError, match="more tensors"):
        load("habits", library).Count().rollout(2, Two())


# --- rollouts ------------------------------------------------------------------------------------


def test_rollouts_of_dynamic_specs_are_lazy_without_being_asked():
    made = both("Growing")
    for how in ({}, {"return_contiguous": False}, {"break_when_any_done": False}):
        theirs, ours = rolled(made, 5, **how)
        assert type(ours) is type(theirs) is LazyStackedTensorDict
        assert ours.names == theirs.names == ["time"]
        assert len(theirs) == len(ours)
        for one, other in zip(theirs.unbind(0), ours.unbind(0), strict=True):
            assert_same_data(one, other)
    for env, k in made:
        with pytest.raises(RuntimeError, match=r"dynamic.*return_contiguous=False"):
            env.rollout(5, return_contiguous=True)
        k.check_env_specs(env)
        assert k.SerialEnv(2, type(env)).rollout(4).shape == (2, 3)


def dense(rollout):
    """A lazily stacked rollout as a dense one, without rewards at the root."""
    out = rollout.to_tensordict().exclude("reward")
    out.names = rollout.names
    return out


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("how", [{}, {"break_when_any_done": False}, {"break_when_all_done": True}], ids=str)
@pytest.mark.parametrize("limit", [1, 3])
def test_rewards_of_resets_are_dropped(batch, how, limit):
    """TorchRL drops them by a lazy stack, unless every step follows on a reset."""
    made = both("RewardsInResets", batch, limit=limit)
    theirs, ours = rolled(made, **how)
    assert "reward" not in ours.keys()
    assert_same_data(dense(theirs), ours)
    theirs, ours = rolled([(k.TransformedEnv(env, k.RewardSum()), k) for env, k in made], **how)
    assert_same_data(dense(theirs), ours)
    assert_same_data(*(env.reset() for env, _ in made))


def test_envs_that_return_rewards_from_resets_are_told():
    env = load("habits", "marlenv").RewardsInResets()
    with pytest.raises(ContractBroken, match=r"entries that are in no spec: \['reward'\]"):
        env.check_env_specs()
    with pytest.raises(RuntimeError, match="during a call to"):
        utils.check_env_specs(load("habits", "torchrl").RewardsInResets())


def test_masks_of_resets_are_not_left_behind():
    steps = []
    for env, k in both("Count", (2,)):
        wrapped = k.TransformedEnv(env, k.StepCounter())
        td = ones(env)(wrapped.reset())
        step, following = wrapped.step_and_maybe_reset(td)
        again = wrapped.maybe_reset(following)
        nobody = wrapped.reset(again.clone().set("_reset", torch.zeros(2, 1, dtype=torch.bool)))
        assert not wrapped.any_done(nobody)
        steps.append([one.clone() for one in (step, following, again, nobody)])
    for theirs, ours in zip(*steps, strict=True):
        assert not [key for key in ours.keys(True, True) if "_reset" in str(key)]
        assert_same_data(theirs, ours)


# --- specs that were not assigned, and nested ones -----------------------------------------------


def test_an_env_that_says_nothing_stays_empty():
    (theirs, _), (ours, _) = both("Nothing")
    for kind in KINDS:
        assert_same_specs(getattr(theirs, f"full_{kind}_spec"), getattr(ours, f"full_{kind}_spec"))
        assert (
            getattr(ours, f"{kind}_keys")
            == getattr(theirs, f"{kind}_keys")
            == (["done", "terminated"] if kind == "done" else [])
        )
    for call in ("reset", "fake_tensordict", "rand_action", "rand_step"):
        assert_same_data(getattr(theirs, call)(), getattr(ours, call)())
    assert_same_data(theirs.rollout(2), ours.rollout(2))
    assert list(ours.reward_spec.keys()) == list(theirs.reward_spec.keys()) == []
    with pytest.raises(KeyMissing, match="Nothing.reward_key: the env has 0 reward entries"):
        ours.reward_key  # noqa: B018


@pytest.mark.parametrize("name", [f"{full}{kind}_spec" for kind in KINDS for full in ("", "full_")])
def test_a_bare_spec_is_taken_wherever_torchrl_takes_one(name):
    found = []
    for env, k in both("Nothing"):
        try:
            setattr(env, name, k.Unbounded((3,)))
        except (TypeError, ValueError):
            found.append("refused")
            continue
        found.append(sorted(getattr(env, name if name.startswith("full_") else f"full_{name}").keys(True, True)))
    assert found[0] == found[1]
    assert (found[1] == "refused") == (name in ("state_spec", "full_state_spec"))


@pytest.mark.parametrize("gives", [True, False])
@pytest.mark.parametrize("how", [{}, {"break_when_any_done": False}, {"break_when_all_done": True}], ids=str)
def test_a_reward_without_a_spec_goes_through_and_none_is_made_up(gives, how):
    theirs, ours = rolled(both("SilentReward", gives=gives), 5, **how)
    assert ("reward" in ours["next"].keys()) == gives
    if how != {"break_when_all_done": True}:  # rows that wait stand still here
        assert_same_data(theirs, ours)


def test_the_reward_spec_is_a_composite_where_there_are_several():
    (theirs, _), (ours, _) = both("TwoRewards")
    assert_same_specs(theirs.reward_spec, ours.reward_spec)
    assert_same_specs(theirs.reward_spec_unbatched, ours.reward_spec_unbatched)
    assert ours.reward_keys == theirs.reward_keys == [("agents", "reward"), ("team", "reward")]
    policy = lambda td: td.set(("agents", "action"), torch.ones(2, 1))  # noqa: E731
    assert_same_data(theirs.rollout(3, policy), ours.rollout(3, policy))
    with pytest.raises(KeyError):
        ours.reward_key  # noqa: B018


# --- batch sizes ---------------------------------------------------------------------------------


def test_batch_locked_by_attribute_and_argument():
    answers = []
    for library in LIBRARIES:
        k = load("habits", library)
        answers.append([made().batch_locked for made in (k.Count, k.AnySize, k.UnlockedByNew, k.Imagined)])
        answers[-1] += [NAMES[library].TransformedEnv(made()).batch_locked for made in (k.Count, k.AnySize)]
        env = k.Count()
        env._batch_locked = False
        answers[-1].append(env.batch_locked)
    assert answers[0] == answers[1] == [True, False, False, False, True, False, False]


def test_batch_locked_by_a_private_attribute_of_the_class():
    """TorchRL writes over it."""
    k = load("habits", "marlenv")
    unlocked = type("Unlocked", (k.Count,), {"_batch_locked": False})
    locked = type("Locked", (k.AnySize,), {"_batch_locked": True})
    assert (unlocked().batch_locked, unlocked()._batch_locked) == (False, False)
    assert (locked().batch_locked, type("Below", (locked,), {})().batch_locked) == (True, True)
    assert k.Count().batch_locked


@pytest.mark.parametrize("make", ["AnySize", "Imagined"])
def test_unlocked_envs_with_a_batch_size_keep_to_it(make):
    made = both(make, batch_size=[2])
    assert_same_data(*rolled(made, 3))
    other = TensorDict({"x": torch.zeros(5, 1), "action": torch.ones(5, 1)}, [5])
    for env, _ in made:
        assert not env.batch_locked
        for act in (env.step, env.reset, env.rand_action):
            with pytest.raises(RuntimeError):
                act(other.clone())
    with pytest.raises(ShapeError, match=rf"{make}: expected a tensordict of batch size \[2\], got \[5\]"):
        made[1][0].step(other.clone())


@pytest.mark.parametrize("make", ["AnySize", "Imagined"])
def test_unlocked_envs_without_one_take_any(make):
    td = TensorDict({"x": torch.zeros(5, 1), "action": torch.ones(5, 1)}, [5])
    theirs, ours = (env.step(td.clone()) for env, _ in both(make))
    assert_same_data(theirs, ours)


# --- envs that reset themselves ------------------------------------------------------------------


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_envs_that_reset_themselves_are_transformed(replace, batch):
    made = both("ResetsItself", batch, auto_reset=True, auto_reset_replace=replace)
    for env, k in made:
        assert type(env).__name__ == "AutoResetEnv"
        assert isinstance(env, k.TransformedEnv)
        assert type(env.base_env).__name__ == "ResetsItself"
        assert type(env.transform).__name__ == "AutoResetTransform"
        assert env.limit == 3
    assert_same_data(*rolled(made, break_when_any_done=False))
    counted = [(env.append_transform(k.StepCounter()), k) for env, k in made]
    for env, _ in counted:
        assert [type(one).__name__ for one in env.transform] == ["AutoResetTransform", "StepCounter"]
    assert_same_data(*rolled(counted, break_when_any_done=False))


FILLS = [{}, {"replace": False}, {"fill_float": -3.0}, {"fill_float": None}]


@pytest.mark.parametrize("fills", FILLS, ids=str)
def test_what_stands_in_for_the_end_can_be_chosen(fills):
    made = []
    for env, k in both("ResetsItself", (2,)):
        kinds = (
            (THEIRS.AutoResetEnv, THEIRS.AutoResetTransform) if k is THEIRS else (k.AutoResetEnv, k.AutoResetTransform)
        )
        made.append((kinds[0](env, kinds[1](**fills)), k))
    assert_same_data(*rolled(made, break_when_any_done=False))


# --- transformed envs ----------------------------------------------------------------------------


def test_private_attributes_of_the_inner_env_are_reached():
    for env, k in both("Count"):
        outer = k.TransformedEnv(env, k.StepCounter())
        env._mine = "mine"
        assert (outer._mine, outer._secret, outer._helper(), outer.limit) == ("mine", 7, 3, 3)
        assert not hasattr(outer, "_nothing")
        assert not hasattr(outer, "__nothing__")
        with pytest.raises(AttributeError, match="_nothing"):
            outer._nothing  # noqa: B018


@pytest.mark.parametrize("unwrap", [True, False])
def test_auto_unwrap(unwrap):
    made = []
    for env, k in both("Count"):
        outer = k.TransformedEnv(k.TransformedEnv(env, k.RewardSum()), k.StepCounter(), auto_unwrap=unwrap)
        assert isinstance(outer.base_env, k.TransformedEnv) == (not unwrap)
        assert type(outer.transform).__name__ == ("Compose" if unwrap else "StepCounter")
        made.append((outer, k))
    assert_same_data(*rolled(made, break_when_any_done=False))
    theirs, ours = (outer.transform[-1].parent if unwrap else outer.transform.parent for outer, _ in made)
    assert sorted(ours.observation_keys) == sorted(theirs.observation_keys) == ["episode_reward", "observation"]


@pytest.mark.parametrize("cached", [True, False])
def test_cache_specs(cached):
    """A transform whose specs change later is seen where specs are not cached."""
    for env, k in both("Count"):

        class Widens(k.Transform):
            width = 1

            def transform_observation_spec(self, observation_spec):
                observation_spec["extra"] = k.Unbounded((self.width,))  # noqa: B023
                return observation_spec

        outer = k.TransformedEnv(env, Widens(), cached)
        assert outer.cache_specs is cached
        assert outer.observation_spec["extra"].shape == (1,)
        outer.transform.width = 4
        assert outer.observation_spec["extra"].shape == ((1,) if cached else (4,))
        assert outer.full_observation_spec["extra"].shape == ((1,) if cached else (4,))


def test_device_moves_the_env():
    for env, k in both("Count"):
        assert env.device is None
        outer = k.TransformedEnv(base_env=env, transform=k.StepCounter(), device="cpu")
        assert (outer.device, outer.base_env.device) == (torch.device("cpu"),) * 2
        assert outer.rollout(2).shape == (2,)


def test_no_warning_is_given_by_any_of_it():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = load("habits", "marlenv").ResetsItself(auto_reset=True)
        marlenv.TransformedEnv(env, marlenv.StepCounter()).rollout(4, ones(env))
