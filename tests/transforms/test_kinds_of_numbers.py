"""Entries of every kind of number: whole ones, halves, flags and one-hot ones, between limits and in other shapes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torchrl_oracle as rl
from tensordict import TensorDict

import marlenv
from marlenv import (
    ActionDiscretizer,
    ActionScaling,
    Binary,
    Bounded,
    Categorical,
    ClipTransform,
    Composite,
    DTypeCastTransform,
    EnvBase,
    LineariseRewards,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    PermuteTransform,
    RewardClipping,
    SqueezeTransform,
    TransformedEnv,
    Unbounded,
    UnsqueezeTransform,
    check_env_specs,
)
from marlenv.errors import BadIndex, ShapeError, SpecError, SpecTypeError
from marlenv.specs import TensorSpec

LOW, MEDIAN, HIGH, RANDOM = (
    getattr(ActionDiscretizer.SamplingStrategy, s) for s in ("LOW", "MEDIAN", "HIGH", "RANDOM")
)
PLAIN, SMALL, HALF = Unbounded((1,)), (0, 3, 200), (torch.float16, torch.bfloat16)


class Shows(EnvBase):
    """Shows one value and pays one reward, again and again, and notes which actions it is told."""

    def __init__(
        self, seen: TensorSpec = PLAIN, paid: TensorSpec = PLAIN, told: TensorSpec = PLAIN, value: Any = None,
        reward: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(batch_size=[2])
        seen, paid, told = (spec.expand(2, *spec.shape) for spec in (seen, paid, told))
        self.observation_spec, self.action_spec = Composite(observation=seen, shape=[2]), told
        self.reward_spec, self.done_spec = paid, Binary(shape=(2, 1), dtype=torch.bool)
        self.value = seen.rand() if value is None else torch.as_tensor(value, dtype=seen.dtype).expand(seen.shape)
        self.reward = paid.zero() if reward is None else torch.as_tensor(reward, dtype=paid.dtype).expand(paid.shape)
        self.heard: list[torch.Tensor] = []

    def _reset(self, tensordict, **_):
        return TensorDict({"observation": self.value.clone()}, [2])

    def _step(self, tensordict):
        self.heard.append(tensordict["action"])
        ends = torch.zeros(2, 1, dtype=torch.bool)
        return TensorDict({"observation": self.value.clone(), "reward": self.reward.clone(), "terminated": ends}, [2])

    def _set_seed(self, seed):
        pass


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.int16, torch.float32, *HALF])
@pytest.mark.parametrize("limits", [(-1.0, 1.0), (-0.5, 0.5), (-1, 1), (-300, 300), (None, 2.5), (2, None)])
def test_rewards_between_limits_are_what_the_spec_says(limits, dtype) -> None:
    low, high = limits
    env = TransformedEnv(Shows(paid=Unbounded((3,), dtype=dtype), reward=SMALL), RewardClipping(low, high))
    spec, reward = env.full_reward_spec["reward"], env.rollout(1)["next", "reward"][0, 0]
    want = [min(max(one, -1e9 if low is None else low), 1e9 if high is None else high) for one in SMALL]
    assert reward.tolist() == want
    assert reward.dtype == spec.dtype
    assert spec.is_in(reward.expand(2, 3))
    assert spec.dtype == (dtype if dtype.is_floating_point or isinstance(low or high, int) else torch.float32)


def test_whole_numbers_stay_whole_between_limits() -> None:
    env = TransformedEnv(
        Shows(Bounded(0, 255, (3,), dtype=torch.uint8), value=(0, 50, 200)),
        ClipTransform(["observation"], low=0.5, high=99.5),
    )
    seen = env.reset()["observation"]
    assert seen.tolist() == [[1, 50, 99]] * 2
    assert env.observation_spec["observation"] == Bounded(1, 99, (2, 3), dtype=torch.uint8)
    env.observation_spec["observation"].assert_is_in(seen)


@pytest.mark.parametrize(("limits", "want"), [((-1, 300), [0, 50, 200]), ((float("-inf"), 60), [0, 50, 60])])
def test_limits_beyond_a_dtype_are_none(limits, want) -> None:
    """Of 8 bits -1 is 255, and 300 is 44."""
    cut = ClipTransform(["x"], low=limits[0], high=limits[1])
    assert cut(TensorDict({"x": torch.tensor([0, 50, 200], dtype=torch.uint8)}))["x"].tolist() == want


def test_the_env_is_told_whole_actions_between_limits() -> None:
    base = Shows(told=Bounded(0, 9, (2,), dtype=torch.int64))
    env = TransformedEnv(base, ClipTransform(in_keys_inv=["action"], low=0.0, high=5.5))
    assert env.action_spec == Bounded(0, 5, (2, 2), dtype=torch.int64)
    env.step(env.reset().set("action", torch.tensor([[0, 9], [6, 3]])))
    assert base.heard[-1].dtype == torch.int64
    assert base.heard[-1].tolist() == [[0, 5], [5, 3]]


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float32, *HALF])
@pytest.mark.parametrize(("weights", "want"), [(None, 100), ([1, 2], 160), ([0.5, -2.0], -100.0)])
def test_weighted_sums_have_the_dtype_of_their_spec(weights, want, dtype) -> None:
    paid = Bounded(0, 100, (2,), dtype=dtype)
    env = TransformedEnv(Shows(paid=paid, reward=(40, 60)), LineariseRewards(["reward"], weights=weights))
    spec, reward = env.full_reward_spec["reward"], env.rollout(1)["next", "reward"][:, 0]
    assert reward.tolist() == [[want]] * 2
    assert reward.dtype == spec.dtype
    ends = {None: (0, 200), 160: (0, 300), -100.0: (-200, 50)}[want if weights else None]
    assert (spec.space.low[0].item(), spec.space.high[0].item()) == ends


TOLD_INT, TOLD_PAIR = Bounded(0, 9, (2,), dtype=torch.int64), Bounded(-1.0, 1.0, (2,))
OPEN = Bounded(torch.tensor([0.0, -1.0]), torch.tensor([float("inf"), 1.0]), (2,))
FLAGS = {"seen": OneHot(4), "paid": Binary(shape=(1,), dtype=torch.bool)}


@pytest.mark.parametrize(
    ("entries", "make", "error", "what"),
    [
        (FLAGS, lambda: ClipTransform(["observation"], low=0), SpecTypeError, "ClipTransform: cuts numbers, .* bool"),
        (FLAGS, lambda: ClipTransform(["done"], high=0), SpecTypeError, "ClipTransform: cuts numbers, .* bool"),
        (FLAGS, lambda: RewardClipping(0, 1), SpecTypeError, "RewardClipping: cuts numbers, .* bool"),
        ({"seen": Categorical(5)}, lambda: ClipTransform(["observation"], low=0.25, high=0.75), SpecError,
         "no number of dtype int64 lies between the limits, 0.25 and 0.75"),
        ({"paid": Bounded(0, 9, (1,), dtype=torch.uint8)}, lambda: RewardClipping(-5, -1), SpecError,
         "no number of dtype uint8 lies between the limits, -5 and -1"),
        ({"paid": Bounded(0.0, 1.0, (1,))}, lambda: LineariseRewards(["reward"], weights=[1, 2]), ShapeError,
         "2 weights, but 1 rewards"),
        ({"told": TOLD_INT}, lambda: ActionDiscretizer(3), SpecTypeError, "ActionDiscretizer: .* floating numbers"),
        ({"told": TOLD_INT}, ActionScaling, SpecTypeError, "ActionScaling: the action must be of floating numbers"),
        ({"told": TOLD_INT}, lambda: ActionScaling(loc=4.0, scale=4.0), SpecTypeError, "ActionScaling: .* floating"),
        ({"told": OPEN}, lambda: ActionDiscretizer(3, sampling=LOW), SpecError, "ActionDiscretizer: .* finite bounds"),
        ({"told": Bounded(-3e38, 3e38, (2,))}, lambda: ActionDiscretizer(3), SpecError, "ranges between them that are"),
        ({"told": Bounded(-3e38, 3e38, (2,))}, ActionScaling, SpecError, "ActionScaling: .* that are finite"),
        ({"told": TOLD_PAIR}, lambda: DTypeCastTransform(torch.int64, torch.int32, in_keys_inv=["action"]),
         SpecTypeError, "DTypeCastTransform: casts torch.int64, got an entry of torch.float32"),
        ({"told": TOLD_PAIR}, lambda: DTypeCastTransform(torch.float64, torch.float32, in_keys_inv=["action"]),
         SpecTypeError, "DTypeCastTransform: casts torch.float64, got an entry of torch.float32"),
        ({}, lambda: DTypeCastTransform(torch.int64, torch.int32, in_keys=["observation"]),
         SpecTypeError, "DTypeCastTransform: casts torch.int64, got an entry of torch.float32"),
        ({"told": TOLD_PAIR}, lambda: SqueezeTransform(-1, in_keys_inv=["action"]), SpecError,
         r"SqueezeTransform: 'action' must have size 1 in dimension -1, got \[2, 2\]"),
        ({"told": OneHot(4)}, lambda: UnsqueezeTransform(-1, in_keys_inv=["action"]), SpecError,
         "UnsqueezeTransform: 'action' is OneHot.* nothing could be drawn"),
        ({"told": OneHot(4, (3, 4))}, lambda: PermuteTransform((-1, -2), in_keys_inv=["action"]), SpecError,
         "PermuteTransform: 'action' is OneHot.* nothing could be drawn"),
    ],
)  # fmt: skip
def test_what_does_not_go_is_said_when_the_env_is_made(entries, make, error, what) -> None:
    with pytest.raises(error, match=what):
        TransformedEnv(Shows(**entries), make())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALF])
@pytest.mark.parametrize("sampling", [LOW, MEDIAN, HIGH, RANDOM])
def test_a_discretised_action_is_one_of_the_env(sampling, dtype) -> None:
    """In float32 ``-2 + (0.2 + 2)`` is more than 0.2."""
    base = Shows(told=Bounded(-2.0, 0.2, (2,), dtype=dtype))
    env = TransformedEnv(base, ActionDiscretizer(3, sampling=sampling))
    for number in (0, 1, 2):
        env.step(env.reset().set("action", torch.full((2, 2), number)))
        base.full_action_spec["action"].assert_is_in(base.heard[-1])
        width, played = 2.2 / 3, base.heard[-1].double()
        assert bool((played >= -2 + number * width - 0.02).all() & (played <= -2 + (number + 1) * width + 0.02).all())


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.0, 1.0)])
@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_the_ends_of_a_scaled_action_are_those_of_the_env(dtype, ends) -> None:
    for low in range(-20, 0, 3):
        told = Bounded(low / 10, 0.2, (1,), dtype=dtype)
        base = Shows(told=told)
        env = TransformedEnv(base, ActionScaling(standard_normal=ends[0] < 0))
        for end in ends:
            env.step(env.reset().set("action", torch.full((2, 1), end, dtype=dtype)))
            told.expand(2, 1).assert_is_in(base.heard[-1])


def test_what_is_beyond_the_ends_of_a_scaled_action_stays_beyond_them() -> None:
    base = Shows(told=Bounded(-2.0, 4.0, (1,)))
    env = TransformedEnv(base, ActionScaling())
    env.step(env.reset().set("action", torch.tensor([[2.0], [-3.0]])))
    assert base.heard[-1].tolist() == [[7.0], [-8.0]]


@pytest.mark.parametrize("dtype", HALF)
def test_a_scaled_action_has_the_dtype_of_the_env(dtype) -> None:
    base = Shows(told=Bounded(-2.0, 1.0, (2,), dtype=dtype))
    env = TransformedEnv(base, ActionScaling(loc=torch.tensor([-0.5, -0.5]), scale=torch.tensor([1.5, 1.5])))
    env.step(env.reset().set("action", torch.tensor([[1.0, 0.0]] * 2, dtype=env.action_spec.dtype)))
    assert base.heard[-1].dtype == dtype
    assert base.heard[-1].tolist() == [[1.0, -0.5]] * 2


ONE_HOT = {
    "one-hot": OneHot(4, (3, 4)),
    "several one-hot": MultiOneHot([2, 3], (3, 5)),
    "several": MultiCategorical([2, 3], (3, 2)),
    "plain": Categorical(4, (3, 4)),
}
SHAPES = {
    "flat": (lambda lib: lib.FlattenObservation(-2, -1, in_keys=["observation"]), lambda x: x.flatten(-2, -1)),
    "flat from the front": (
        lambda lib: lib.FlattenObservation(0, 1, in_keys=["observation"], allow_positive_dim=True),
        lambda x: x.flatten(1, 2),
    ),
    "one more": (lambda lib: lib.UnsqueezeTransform(-1, in_keys=["observation"]), lambda x: x.unsqueeze(-1)),
    "one more within": (lambda lib: lib.UnsqueezeTransform(-2, in_keys=["observation"]), lambda x: x.unsqueeze(-2)),
    "turned": (
        lambda lib: lib.PermuteTransform((-1, -2), in_keys=["observation"]),
        lambda x: x.transpose(-1, -2),
    ),
    "none to squeeze": (lambda lib: lib.SqueezeTransform(-1, in_keys=["observation"]), lambda x: x),
}


@pytest.mark.parametrize("kind", ONE_HOT)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_spec_follows_the_shape_of_what_has_dimensions_of_its_own(shape, kind) -> None:
    base, (make, by_torch) = Shows(ONE_HOT[kind]), SHAPES[shape]
    env = TransformedEnv(base, make(marlenv))
    seen, spec = env.reset()["observation"], env.observation_spec["observation"]
    assert torch.equal(seen, by_torch(base.value))
    assert (spec.shape, spec.dtype) == (seen.shape, seen.dtype)
    check_env_specs(env)


@pytest.mark.parametrize("shape", ["flat", "one more"])
def test_one_hot_shapes_are_torchrls(shape) -> None:
    make = SHAPES[shape][0]
    theirs = rl.envs.TransformedEnv(marlenv.to_torchrl(Shows(OneHot(4, (3, 4)))), make(rl.envs))
    ours = TransformedEnv(Shows(OneHot(4, (3, 4))), make(marlenv))
    assert ours.observation_spec["observation"].shape == theirs.reset()["observation"].shape


def test_a_single_value_has_no_domain_left_without_its_dimension() -> None:
    env = TransformedEnv(Shows(OneHot(1, (3, 1))), SqueezeTransform(-1, in_keys=["observation"]))
    assert env.observation_spec["observation"] == Unbounded((2, 3), dtype=torch.bool)
    check_env_specs(env)


def test_a_spec_is_not_flattened_over_single_values() -> None:
    assert OneHot(4, (2, 3, 4)).flatten().shape == (6, 4)
    assert Categorical(4, (2, 3, 4)).flatten(-2, -1).shape == (2, 12)
    with pytest.raises(BadIndex, match=r"flatten: dimension -1 belongs to single values"):
        OneHot(4, (2, 3, 4)).flatten(-2, -1)


def test_numbers_in_another_order_are_drawn_and_told_as_they_were() -> None:
    base = Shows(told=Categorical(4, (3, 2)))
    env = TransformedEnv(base, PermuteTransform((-1, -2), in_keys_inv=["action"]))
    assert env.action_spec == Categorical(4, (2, 2, 3))
    given = env.rand_step(env.reset())["action"]
    assert torch.equal(base.heard[-1], given.transpose(-1, -2))
    base.full_action_spec["action"].assert_is_in(base.heard[-1])
