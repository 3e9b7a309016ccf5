"""Transforms give what torchrl's give, entry by entry, on the same envs."""

from __future__ import annotations

import pytest
import torch
import torchrl_oracle
from scripted_actions import Script
from twin_envs import assert_same_data, assert_same_specs, load

import marlenv
from marlenv import SerialEnv, StepCounter, TransformedEnv
from marlenv.testing.mocks import GroupedEnv

pytestmark = pytest.mark.reference
LIBRARIES = {"torchrl": torchrl_oracle.envs, "marlenv": marlenv}

TRANSFORMS = {
    "RewardSum": lambda lib: lib.RewardSum(),
    "RewardSum among the rewards": lambda lib: lib.RewardSum(reward_spec=True),
    "StepCounter": lambda lib: lib.StepCounter(),
    "StepCounter(3)": lambda lib: lib.StepCounter(max_steps=3),
    "StepCounter with names": lambda lib: lib.StepCounter(3, truncated_key="cut", step_count_key="n"),
    "InitTracker": lambda lib: lib.InitTracker(),
    "InitTracker with a name": lambda lib: lib.InitTracker("first"),
    "Compose": lambda lib: lib.Compose(lib.RewardSum(), lib.StepCounter(4), lib.InitTracker()),
}
ENVS = {
    "one row": ("conventions", "Counter", {}),
    "three rows": ("conventions", "Counter", {"batch_size": [3]}),
    "flags of agents and of rows": ("navigation", "Navigation", {"num_envs": 3, "max_steps": 4}),
    "a group, flags of rows": ("navigation", "Navigation", {"nested_done": False, "num_envs": 3, "max_steps": 4}),
    "two groups by themselves": ("two_groups", "TwoGroups", {}),
    "two groups, two rows": ("two_groups", "TwoGroups", {"batch_size": (2,)}),
}
SHAPES = ["alone", "transformed series", "series of transformed"]


def made(library, env, transform, shape):
    source, make, options = ENVS[env]
    lib = LIBRARIES[library]
    base = lambda: getattr(load(source, library), make)(**options)  # noqa: E731
    if shape == "alone":
        return lib.TransformedEnv(base(), TRANSFORMS[transform](lib))
    if shape == "transformed series":
        return lib.TransformedEnv(lib.SerialEnv(2, base), TRANSFORMS[transform](lib))
    return lib.SerialEnv(2, lambda: lib.TransformedEnv(base(), TRANSFORMS[transform](lib)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("env", ENVS)
def test_rollouts_are_torchrls(env, transform, shape):
    if env.startswith("flags of agents") and "names" in transform:
        pytest.skip("torchrl gives agents no flag of another name; then they would be done without a cause")
    theirs, ours = (made(library, env, transform, shape) for library in LIBRARIES)
    for family in ("observation", "reward", "done", "action"):  # torchrl lists sums and counters as state, too
        assert_same_specs(getattr(theirs, f"full_{family}_spec"), getattr(ours, f"full_{family}_spec"))
    if "StepCounter" in transform and env.startswith("two groups") and shape == "series of transformed":
        pytest.skip("torchrl's data of groups have wrong batch sizes here and cannot be read")
    if "among" in transform and shape == "series of transformed":
        pytest.skip("torchrl's series forgets the sums and gives the rewards of single steps (USERS (b) 28)")
    for how in ({}, {"break_when_any_done": False}):
        data = []
        for one in (theirs, ours):
            one.set_seed(3)
            data.append(one.rollout(8, Script(one), **how))
        assert_same_data(*data)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_partial_resets_are_torchrls(transform):
    data = []
    for library in LIBRARIES:
        env = made(library, "three rows", transform, "alone")
        env.set_seed(1)
        policy, td = Script(env), env.reset()
        for _ in range(2):
            td = env.step_mdp(env.step(policy(td))).exclude("action")
        td["_reset"] = torch.tensor([[True], [False], [True]])
        data.append(env.reset(td))
    assert_same_data(*data)


@pytest.mark.slow
@pytest.mark.parametrize("transform", [t for t in TRANSFORMS if "names" not in t])
def test_a_series_of_transformed_envs_is_a_transformed_series(transform):
    """RewardSum in series sums (USERS (b) 28); StepCounter truncates groups (25)."""
    for env in ENVS:
        data = []
        for shape in SHAPES[1:]:
            one = made("marlenv", env, transform, shape)
            one.set_seed(3)
            data.append(one.rollout(9, Script(one), break_when_any_done=False))
        assert_same_data(*data)


def test_the_truncation_of_a_row_reaches_its_agents():
    env = TransformedEnv(GroupedEnv(batch_size=[2]), StepCounter(3))
    out = env.rollout(3)["next"]
    for flag in ("truncated", "done"):
        assert out["agents", flag][:, -1].all()
        assert out[flag][:, -1].all()
    assert not out["agents", "terminated"].any()


def test_an_agent_that_had_terminated_does_not_become_truncated():
    """USERS (b) 9. What terminates in the very step of the limit is both, as in torchrl."""
    env = TransformedEnv(GroupedEnv(terminate={"agent_0": 2, "agent_1": 4}, rule="all"), StepCounter(4))
    out = env.rollout(4)["next", "agents"]
    assert out["terminated"][-1].flatten().tolist() == [True, True, False]
    assert out["truncated"][-1].flatten().tolist() == [False, True, True]
    assert out["done"].squeeze(-1).tolist() == [[False] * 3, [True, False, False], [True, False, False], [True] * 3]


def test_flags_that_the_agents_lacked_are_added():
    """torchrl makes the agents done without a cause here."""
    env = TransformedEnv(load("navigation", "marlenv").Navigation(max_steps=99), StepCounter(2, truncated_key="cut"))
    assert ("agents", "cut") in env.done_keys
    out = env.rollout(2, Script(env))["next"]
    assert out["agents", "cut"][:, -1].all()
    env.check_env_specs()


def test_only_the_rows_that_are_done_start_again():
    """USERS (b) 25: a transform does not reset the counters of other children."""
    limits = [{"limit": 2}, {"limit": 4}]
    env = TransformedEnv(SerialEnv(2, load("conventions", "marlenv").Counter, create_env_kwargs=limits), StepCounter())
    rollout = env.rollout(6, break_when_any_done=False)
    assert rollout["next", "step_count"].squeeze(-1).tolist() == [[1, 2, 1, 2, 1, 2], [1, 2, 3, 4, 1, 2]]


def test_update_done_off_leaves_done_to_the_env():
    """torchrl resets what is truncated all the same; ours goes by ``done``."""
    env = TransformedEnv(load("conventions", "marlenv").Counter(limit=9), StepCounter(2, update_done=False))
    rollout = env.rollout(4, break_when_any_done=False)
    assert rollout["next", "truncated"].flatten().tolist() == [False, True, True, True]
    assert not rollout["next", "done"].any()
    assert rollout["next", "step_count"].flatten().tolist() == [1, 2, 3, 4]


KEYS = {
    "StepCounter": ("step_count_keys", "done_keys", "terminated_keys", "truncated_keys", "reset_keys"),
    "StepCounter with names": ("step_count_keys", "done_keys", "terminated_keys", "truncated_keys"),
    "InitTracker with a name": ("init_keys", "reset_keys"),
}


@pytest.mark.parametrize("transform", KEYS)
@pytest.mark.parametrize("env", ENVS)
def test_the_keys_of_transforms_are_torchrls(env, transform):
    theirs, ours = (made(library, env, transform, "alone") for library in LIBRARIES)
    for name in KEYS[transform]:
        want, got = (sorted(getattr(env.transform, name), key=str) for env in (theirs, ours))
        assert got == want, name
        assert list(getattr(TRANSFORMS[transform](marlenv), name)) == [], "outside an env there are none"


def test_missing_entries_are_tolerated_by_all_transforms_of_an_env_at_once():
    for lib in LIBRARIES.values():
        env = lib.TransformedEnv(lib.PendulumEnv(), lib.Compose(lib.DoubleToFloat(["th"]), lib.RewardSum()))
        for mode in (True, False):
            env.set_missing_tolerance(mode)
            assert [t.missing_tolerance for t in env.transform] == [mode, mode]
            assert env.transform.missing_tolerance is mode
    env = marlenv.TransformedEnv(marlenv.PendulumEnv(), marlenv.SignTransform(["nobody"]))
    with pytest.raises(KeyError, match="nobody"):
        env.rollout(1)
    env.set_missing_tolerance(True)
    env.rollout(1)


TOLERANT = {
    "RenameTransform": lambda lib: lib.RenameTransform(["nobody"], ["x"], ["nothing"], ["y"]),
    "SelectTransform": lambda lib: lib.SelectTransform("th", "thdot", "params", "nobody"),
    "ActionScaling": lambda lib: lib.ActionScaling(["nothing"]),
    "VecNorm": lambda lib: lib.VecNorm(["nobody"], new_api=False),
    "ObservationNorm": lambda lib: lib.ObservationNorm(0.0, 1.0, ["nobody"]),
    "GrayScale": lambda lib: lib.GrayScale(["nobody"]),
}


@pytest.mark.filterwarnings("ignore:This class is to be deprecated:FutureWarning")  # torchrl's VecNorm
@pytest.mark.parametrize("name", TOLERANT)
def test_entries_that_no_spec_has_are_passed_over_where_torchrl_passes_over_them(name):
    for lib in LIBRARIES.values():
        transform = TOLERANT[name](lib)
        transform.set_missing_tolerance(True)
        env = lib.TransformedEnv(lib.PendulumEnv(), transform)
        assert env.rollout(2).shape == (2,)
        assert "x" not in env.full_observation_spec.keys()
        assert "y" not in env.full_action_spec.keys()


def test_transforms_edit_the_zeros_that_buffers_are_made_from():
    found = []
    for lib in LIBRARIES.values():

        class Whole(lib.Transform):
            def transform_fake_tensordict(self, fake_tensordict):
                return fake_tensordict.set("whole", fake_tensordict["th"].long())

        class Twice(lib.Transform):
            def transform_fake_tensordict(self, fake_tensordict):
                return fake_tensordict.set("twice", fake_tensordict["whole"] * 2)

        env = lib.TransformedEnv(lib.PendulumEnv(), lib.Compose(Whole(), Twice()))
        found.append({key: (value.shape, value.dtype) for key, value in env.fake_tensordict().items(True, True)})
    assert {key: value for key, value in found[1].items() if "rng" not in key} == found[0]
    assert found[1]["twice"] == (torch.Size([]), torch.int64)


def test_bounded_observations_are_put_together_as_torchrls():
    """The bounds go side by side in ours; torchrl forgets them."""
    data, keys = [], ["th", "thdot"]
    for lib in LIBRARIES.values():
        wide = lib.UnsqueezeTransform(-1, in_keys=keys, in_keys_inv=keys)
        env = lib.TransformedEnv(lib.PendulumEnv(), lib.Compose(wide, lib.CatTensors(keys, "both", del_keys=False)))
        td = env.reset().update({"th": torch.tensor([0.5]), "thdot": torch.tensor([-1.0])})
        data.append(env.step(td.set("action", torch.tensor([1.0])))["next", "both"])
    assert torch.equal(*data)
    low = torch.tensor([-torch.pi, -8.0])
    assert env.observation_spec["both"] == marlenv.Bounded(low, -low)
    env.check_env_specs()
    short = marlenv.CatTensors(keys, "both", unsqueeze_if_oor=True, del_keys=False)  # an IndexError in torchrl
    TransformedEnv(marlenv.PendulumEnv(), short).check_env_specs()


def test_the_action_mask_says_whose_mask_it_keeps():
    for lib in LIBRARIES.values():
        env = lib.TransformedEnv(lib.TicTacToeEnv(), lib.ActionMask(mask_key="mask"))
        td = env.reset()
        env.step(td.set("action", torch.tensor(4)))
        assert env.transform.action_spec is env.full_action_spec["action"]
        assert env.transform.action_spec.mask.tolist() == [i != 4 for i in range(9)]
    with pytest.raises(marlenv.errors.SpecError, match="ActionMask.action_spec: belongs to no env"):
        marlenv.ActionMask().action_spec  # noqa: B018
