"""The contract of transforms, on all in the catalogue: copies, pickles, states, rows, series, resets, chains."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import some
from tensordict import TensorDict

import marlenv
from marlenv import Compose, SerialEnv, TransformedEnv
from marlenv.errors import KeyMissing, NotFinite, ShapeError, SpecError, Unsupported
from marlenv.specs import Composite
from marlenv.testing import run_contract
from marlenv.testing.catalogue import envs, transforms
from marlenv.testing.comparison import differences
from marlenv.testing.mocks import CountingEnv, GroupedEnv, MaskedEnv

BASES = [example.make() for example in envs.ENVS]
PAIRS = [
    (one, next(example for example, env in zip(envs.ENVS, BASES, strict=True) if one.suits(env)))
    for one in transforms.TRANSFORMS
]
MANY = [  # whose rows are reset by a mask at the root
    (one, example)
    for one, example in PAIRS
    if (made := example.make()).batch_size and made.reset_keys == ["_reset"] and "chess" not in one.name
]
EVERY = pytest.mark.parametrize(("one", "base"), PAIRS, ids=[one.name for one, _ in PAIRS])


def half(td: Any, spec: Composite) -> Any:
    """A policy that plays the same in every row: 0.5 where that can be, else what draws begin with."""
    for key, leaf in spec.items(True, True):
        shape = (*td.batch_size[: td.ndim - spec.ndim], *(1 if n == -1 else n for n in leaf.shape))
        if leaf.dtype.is_floating_point:
            td.set(key, torch.full(shape, 0.5, dtype=leaf.dtype))
        else:
            td.set(key, leaf.project(torch.zeros(shape, dtype=leaf.dtype)))
    return td


def played(env: Any, steps: int = 4) -> TensorDict:
    env.set_seed(3)
    masked = any("action_mask" in str(key) for key in env.observation_keys)
    policy = None if masked else lambda td: half(td, env.full_action_spec)
    return env.rollout(steps, policy, break_when_any_done=False)


def timeless(td: TensorDict) -> TensorDict:
    return td.exclude(*[key for key in td.keys(True, True) if "time_" in str(key)])


@EVERY
def test_copies_pickles_and_states_go_on_alike(one: Any, base: Any) -> None:
    first = TransformedEnv(base.make(), one.make())
    want = timeless(played(first))
    again = TransformedEnv(base.make(), one.make().clone())
    assert not differences(timeless(played(again)), want)
    sent = pickle.loads(pickle.dumps(TransformedEnv(base.make(), one.make())))
    assert not differences(timeless(played(sent)), want)
    other = TransformedEnv(base.make(), one.make())
    other.transform.load_state_dict(first.transform.state_dict())
    pair = [timeless(played(env, 3)) for env in (first, other)]
    assert not differences(*pair)
    assert first.transform.clone().container is None


@pytest.mark.parametrize(("one", "base"), MANY, ids=[one.name for one, _ in MANY])
def test_what_was_not_reset_stays(one: Any, base: Any) -> None:
    env = TransformedEnv(base.make(), one.make())
    env.set_seed(3)
    td = env.reset()
    td = env.step_mdp(env.step(half(td, env.full_action_spec)))
    before = td.clone()
    mask = torch.zeros(env.full_done_spec["done"].shape, dtype=torch.bool)
    mask[0] = True
    td = env.reset(td.set("_reset", mask))
    kept = (slice(1, None),)
    assert not differences(timeless(td[kept]), timeless(before[kept].select(*td.keys(True, True), strict=False)))
    td = env.step(half(td, env.full_action_spec))
    assert set(td["next"].keys(True, True)) >= set(env.observation_keys)


TOGETHER = {
    "running statistics": "one statistic for all rows",
    "moving averages": "the number of steps is one for all rows",
    "numbers of episodes": "counted over all rows",
    "a grid of rows": "its number of rows is given",
    "an opponent": "its function knows three rows",
}  # fmt: skip


def rows_of(n: int) -> CountingEnv:
    return CountingEnv(3, batch_size=[n])


PLAIN = [one for one in transforms.TRANSFORMS if one.suits(CountingEnv(2, batch_size=[3])) and one.name not in TOGETHER]


@pytest.mark.parametrize("one", PLAIN, ids=lambda one: one.name)
def test_a_batch_is_a_stack_of_singles(one: Any) -> None:
    many, few = (timeless(played(TransformedEnv(rows_of(n), one.make()), 6)) for n in (5, 2))
    assert not differences(many[:2], few)


DRAWN = {"intervals at random", "idle steps", "random limits", "hidden state", "lost messages", "noise"}


@pytest.mark.parametrize("one", [one for one in PLAIN if one.name not in DRAWN], ids=lambda one: one.name)
def test_inside_and_outside_of_a_series_are_the_same(one: Any) -> None:
    """Random numbers apart: inside, every env has a seed of its own. The second env ends later than the first."""
    makers = [lambda n=n: CountingEnv(n) for n in (3, 4)]
    try:
        inside = SerialEnv(2, [lambda make=make: TransformedEnv(make(), one.make()) for make in makers])
    except (SpecError, RuntimeError, IndexError):
        pytest.skip("its keys or functions are for batches")
    outside = TransformedEnv(SerialEnv(2, makers), one.make())
    pair = [timeless(played(env, 9)) for env in (inside, outside)]
    assert not differences(*pair)


KNOWS_ALL = "its statistics are one for all rows, and no state of a row"
EXEMPT = {
    "reward sum among the rewards": {
        "resets_give_no_rewards": "as TorchRL lists it",
        "states_can_be_put_back": "a sum among the rewards is none of the observations",
    },
    "time limit of another name": {"done_has_a_cause": "the cause has another name"},
    "decoder": {"entries_share_no_memory": "the decoder of the catalogue hands its input on"},
    "numbers of episodes": {"rows_draw_from_streams_of_their_own": "counted over all rows",
                            "states_can_be_put_back": "counted over all rows",
                            "resets_start_afresh": "counted over all episodes"},
    "running statistics": dict.fromkeys(("partial_resets_keep_other_rows", "rows_draw_from_streams_of_their_own",
                                         "resets_start_afresh", "states_can_be_put_back"), KNOWS_ALL),
    "moving averages": dict.fromkeys(("partial_resets_keep_other_rows", "rows_draw_from_streams_of_their_own",
                                      "resets_start_afresh", "states_can_be_put_back"), KNOWS_ALL),
    "auto reset": {"numbers_are_finite": "final observations are not known"},
    "vectorised gym": {"numbers_are_finite": "the env gives no final observations"},
}  # fmt: skip


TIMELESS = [pair for pair in PAIRS if pair[0].name != "times"]  # no two of which are the same


@pytest.mark.slow
@pytest.mark.parametrize(("one", "base"), some(TIMELESS, 2), ids=[one.name for one, _ in TIMELESS])
def test_envs_seen_through_it_keep_the_contract(one: Any, base: Any) -> None:
    broken = [
        r
        for r in run_contract(lambda: TransformedEnv(base.make(), one.make()), EXEMPT.get(one.name))
        if r.verdict == "broken"
    ]
    assert not broken, [(r.name, r.says) for r in broken]


# --- chains ---------------------------------------------------------------------------------------

PURE = {
    "norm": lambda: marlenv.ObservationNorm(0.5, 2.0, ["observation"]),
    "clip": lambda: marlenv.ClipTransform(["observation"], low=-1.0, high=2.5),
    "reward": lambda: marlenv.RewardScaling(1.0, 3.0),
    "sum": marlenv.RewardSum,
    "count": lambda: marlenv.StepCounter(4),
    "init": marlenv.InitTracker,
    "frames": lambda: marlenv.CatFrames(2, -1, ["observation"]),
    "late": lambda: marlenv.ObservationDelay(1),
    "copy": lambda: marlenv.UnaryTransform(["observation"], ["copied"], fn=lambda x: x + 1),
}


@settings(max_examples=25)
@given(
    names=st.lists(st.sampled_from(list(PURE)), max_size=4, unique=True), cut=st.integers(0, 4), rows=st.integers(1, 3)
)
def test_chains_keep_the_laws(names: list[str], cut: int, rows: int) -> None:
    """However a chain is put together, specs hold, rows are independent, and one after the other is the chain."""
    whole = TransformedEnv(rows_of(rows), Compose(*(PURE[name]() for name in names)))
    whole.check_env_specs()
    want = played(whole, 7)
    nested = Compose(Compose(*(PURE[n]() for n in names[:cut])), Compose(*(PURE[n]() for n in names[cut:])))
    assert not differences(played(TransformedEnv(rows_of(rows), nested), 7), want)
    step_by_step = TransformedEnv(rows_of(rows))
    for name in names:
        step_by_step.append_transform(PURE[name]())
    assert not differences(played(step_by_step, 7), want)
    assert not differences(played(TransformedEnv(rows_of(1), Compose(*(PURE[n]() for n in names))), 7), want[:1])


# --- bad input ------------------------------------------------------------------------------------


class Broken(GroupedEnv):
    """Agent 1 of row 1 sees nan at the third step."""

    def _step(self, tensordict: TensorDict) -> TensorDict:
        out = super()._step(tensordict)
        if int(self.count[("agents",)].max()) == 3:
            out["agents", "observation"][1, 1, 2] = float("nan")
        return out


def checked(wrong: str) -> None:
    """Row 1 starts anew at the third step, whose first observation, or later action, is not finite."""

    class Odd(CountingEnv):
        def _reset(self, tensordict: TensorDict | None, **_: object) -> TensorDict:
            again = tensordict is not None and "_reset" in tensordict
            out = super()._reset(tensordict)
            out["observation"][0] = float("nan") if again else 0.0  # of a row that is not reset: nobody asked
            out["observation"][1] = float("inf") if again and wrong == "reset" else out["observation"][1]
            return out

    env = TransformedEnv(Odd(9, batch_size=[2]), marlenv.FiniteTensorDictCheck())
    td = env.reset()
    for _ in range(2):
        td = env.step_mdp(env.step(td.set("action", torch.zeros(2, 1))))
    td = env.reset(td.set("_reset", torch.tensor([[False], [True]])))
    env.step(td.set("action", torch.tensor([[0.0], [-torch.inf]])))


def twice() -> None:
    used = marlenv.RewardSum()
    keep = TransformedEnv(CountingEnv(), used)
    TransformedEnv(keep.base_env, used)


BAD = [
    (lambda: CountingEnv().append_transform(marlenv.ObservationNorm(0.0, 1.0, ["observatoin"])).rollout(1), KeyMissing,
     r"ObservationNorm: no entry 'observatoin'; the data has \['observation', "),
    (lambda: CountingEnv().append_transform(marlenv.RewardSum(["rewards"])), KeyMissing,
     r"RewardSum: no entry 'rewards'; the rewards are \['reward'\]"),
    (lambda: CountingEnv().append_transform(marlenv.RenameTransform(["obs"], ["x"])), KeyMissing,
     r"RenameTransform: no entry 'obs'; the env has \["),
    (lambda: CountingEnv().append_transform(marlenv.ExcludeTransform("action")), KeyMissing,
     r"ExcludeTransform: no entry 'action'; the env has"),
    (lambda: CountingEnv().append_transform(marlenv.SelectTransform("obs")), KeyMissing,
     r"SelectTransform: no entry 'obs'"),
    (lambda: CountingEnv().append_transform(marlenv.GrayScale(["observation"])), SpecError,
     r"GrayScale: expected images \[..., 3, height, width\], got a spec of shape \[1\]"),
    (lambda: CountingEnv().append_transform(marlenv.Resize(3)), KeyMissing,
     r"Resize: no entry 'pixels'; name one in in_keys; the env observes \['observation'\]"),
    (lambda: MaskedEnv().append_transform(marlenv.ActionDiscretizer(3)), TypeError,
     r"ActionDiscretizer: the action must be Bounded, got Categorical"),
    (lambda: MaskedEnv().append_transform(marlenv.ActionScaling()), SpecError,
     r"ActionScaling: the action must have finite bounds, got Categorical"),
    (lambda: CountingEnv().append_transform(marlenv.RandomTruncationTransform(1, 2)), SpecError,
     r"no entry 'step_count'; put a StepCounter\(\) before it"),
    (lambda: CountingEnv(batch_size=[2]).append_transform(marlenv.TensorDictPrimer(Composite(shape=[3]))), ShapeError,
     r"must begin with the batch size \[2\], got \[3\]; pass expand_specs=True"),
    (lambda: CountingEnv().append_transform(marlenv.Reward2GoTransform()), Unsupported,
     r"Reward2GoTransform: transforms stored data"),
    (lambda: CountingEnv().append_transform(marlenv.AgentIndex()), ValueError,
     r"AgentIndex: the env has no groups of agents"),
    (lambda: Compose(*[marlenv.RewardSum()] * 2), SpecError, r"RewardSum\(\) is in this chain already; pass its"),
    (lambda: marlenv.ObservationNorm(in_keys=["a"]).init_stats(0), SpecError, r"num_iter must be an integer from 1 on"),
    (twice, SpecError, r"belongs to an env already; pass its copy, transform.clone\(\)"),
    (lambda: Broken(batch_size=[2]).append_transform(marlenv.FiniteTensorDictCheck()).rollout(5), NotFinite,
     r"\('agents', 'observation'\) is nan in row 1, agent 1 of group 'agents', number 2, step 3 since the last reset"),
    (lambda: checked("reset"), NotFinite, r"'observation' is inf in row 1, number 0$"),
    (lambda: checked("action"), NotFinite, r"'action' is -inf in row 1, number 0, step 1 since the last reset"),
    (lambda: CountingEnv().append_transform(lambda td: None), TypeError, r"must return the tensordict that it edits"),
    (lambda: marlenv.ClipTransform(["a"]), TypeError, r"ClipTransform: give low, high or both"),
    (lambda: marlenv.ClipTransform(["a"], low=float("nan")), SpecError, r"low must be a number, got nan"),
    (lambda: marlenv.DTypeCastTransform("float32", torch.float64), TypeError,
     r"DTypeCastTransform: dtype_in must be a torch.dtype, got 'float32'"),
    (lambda: marlenv.ActionDiscretizer("a"), SpecError, r"num_intervals must be an integer from 1 on, got 'a'"),
    (lambda: CountingEnv().append_transform(marlenv.ActionDiscretizer(3)).step(TensorDict(action=torch.tensor([7]))),
     SpecError, r"ActionDiscretizer: 'action' must be numbers of intervals, of which there are \[3\], got \[7\]"),
    (lambda: CountingEnv().append_transform(marlenv.ActionDiscretizer(3)).step(TensorDict(action=torch.tensor([-1]))),
     SpecError, r"ActionDiscretizer: 'action' must be numbers of intervals, of which there are \[3\], got \[-1\]"),
    (lambda: GroupedEnv().append_transform(marlenv.ActionDiscretizer(torch.tensor([2, 4]), ("agents", "action"))).step(
        TensorDict(agents=TensorDict(action=torch.tensor([[1, 3], [3, 1], [0, 0]])))),
     SpecError, r"must be numbers of intervals, of which there are \[2, 4\], got \[\[1, 3\], \[3, 1\], \[0, 0\]\]"),
    (lambda: marlenv.PendulumEnv().append_transform(marlenv.CatTensors(["th", "thdot"], "x")), SpecError,
     r"CatTensors: \['th', 'thdot'\] do not fit together along dimension -1, their shapes are \[\[\], \[\]\]; unsq"),
    (lambda: marlenv.PendulumEnv().append_transform(marlenv.CatTensors(["th", "params"], "x")), SpecError,
     r"CatTensors: \['params', 'th'\] do not fit together along dimension -1, .* \['TensorDict', \[\]\]"),
    (lambda: marlenv.PendulumEnv().append_transform(marlenv.Stack(["th", "thdod"], "x")), KeyMissing,
     r"Stack: no entry 'thdod'; the observations are \['thdot', "),
    (lambda: marlenv.FlattenObservation(-1, -2), SpecError, r"last_dim must not come before first_dim=-1, got -2"),
    (lambda: Broken(batch_size=[2]).append_transform(marlenv.FlattenObservation(-2, -1, [("agents", "observation")])),
     ShapeError,
     r"FlattenObservation: would make \('agents', 'observation'\) of shape \[2, \d+\], and entries there must begin "
     r"with \[2, \d\], the rows and agents; name other dimensions, or write it above them, out_keys=\['observation'\]"),
    (lambda: marlenv.ConditionalSkip(3), TypeError, r"ConditionalSkip: cond must be a function, got 3"),
    (lambda: marlenv.ConditionalPolicySwitch(None, bool), TypeError, r"Switch: policy must be a function, got None"),
    (lambda: marlenv.ConditionalPolicySwitch(bool, "x"), TypeError, r"Switch: condition must be a function, got 'x'"),
    (lambda: marlenv.UnaryTransform(["a"], ["b"], fn=3), TypeError, r"UnaryTransform: fn must be a function, got 3"),
    (lambda: marlenv.UnaryTransform(["a"], ["b"], fn=abs, inv_fn=3), TypeError, r"inv_fn must be a function, got 3"),
    (lambda: marlenv.Hash(["a"], ["b"], hash_fn=3), TypeError, r"Hash: hash_fn must be a function, got 3"),
    (lambda: marlenv.Tokenizer(["a"], ["b"], tokenizer=3), TypeError, r"tokenizer must be a function, got 3"),
    (lambda: CountingEnv().append_transform(marlenv.EndOfLifeTransform()).reset(), SpecError,
     r"EndOfLifeTransform: 'CountingEnv' object has no attribute 'unwrapped' on the way to 'unwrapped.ale.lives'; say"),
    (lambda: marlenv.RenameTransform(["a", "b"], ["c"]), SpecError, r"RenameTransform: in_keys and out_keys must be"),
    (lambda: marlenv.RenameTransform([], [], ["a"], []), SpecError, r"in_keys_inv and out_keys_inv must be as many"),
    (lambda: marlenv.RewardSum(["reward"], ["a", "b"]), SpecError, r"RewardSum: in_keys and out_keys must be as many"),
    (lambda: CountingEnv().append_transform(marlenv.RewardSum(out_keys=["a", "b"])), SpecError,
     r"RewardSum: in_keys and out_keys must be as many, got \['reward'\] and \['a', 'b'\]"),
    (lambda: marlenv.CatFrames(2, -1, ["a"], ["b", "c"]), SpecError, r"CatFrames: in_keys and out_keys must be"),
    (lambda: marlenv.VecNorm(["a"], ["b", "c"]), SpecError, r"VecNorm: in_keys and out_keys must be as many"),
    (lambda: marlenv.VecNormV2(["a"], eps=-1), SpecError, r"VecNormV2: eps must not be below 0, got -1"),
    (lambda: marlenv.RewardClipping(1.0, -1.0), SpecError, r"clamp_min must not be above clamp_max, got 1.0 and -1.0"),
    (lambda: marlenv.RewardScaling(None, 1.0), TypeError, r"RewardScaling: loc must be a number, got None"),
    (lambda: marlenv.TargetReturn("x"), TypeError, r"TargetReturn: target_return must be a number, got 'x'"),
    (lambda: marlenv.Reward2GoTransform("x"), TypeError, r"Reward2GoTransform: gamma must be a number, got 'x'"),
    (lambda: marlenv.ClipTransform(["a"], low=2, high=1), SpecError, r"low must be below high, got 2 and 1"),
    (lambda: marlenv.UnsqueezeTransform(1), SpecError,
     r"dim must be negative, counted from the end, .* got 1; or pass allow_positive_dim=True"),
    (lambda: marlenv.PermuteTransform((0, 1)), SpecError, r"dims must be \[-2, -1\] in some order, got \[0, 1\]"),
    (lambda: marlenv.CatFrames(2, 0), SpecError, r"dim must be negative"),
    (lambda: marlenv.ObservationNorm(loc=1.0), SpecError, r"loc and scale go together"),
    (lambda: marlenv.ObservationNorm(in_keys=["x"])(TensorDict({"x": torch.ones(1)})), SpecError,
     r"loc and scale are not known; give them, or call init_stats\(\) first"),
    (lambda: marlenv.RewardScaling(0.0, 1.0)(TensorDict({"rewards": torch.ones(1)})), KeyMissing,
     r"RewardScaling: no entry 'reward'; the data has \['rewards'\]"),
    (lambda: marlenv.LineariseRewards(["r"], weights=[1.0])(TensorDict({"r": torch.ones(2)})), ShapeError,
     r"1 weights, but 2 rewards"),
    (lambda: marlenv.TargetReturn(1.0, mode="grow"), SpecError, r"mode must be 'reduce' or 'constant', got 'grow'"),
    (marlenv.BatchSizeTransform, SpecError, r"give batch_size or reshape_fn, one of them"),
    (lambda: marlenv.TeamReward("max"), SpecError,
     r"mode is 'sum' or 'mean' and per 'group' or 'team', got 'max' and 'group'"),
    (lambda: marlenv.DropMessages(1.5), SpecError, r"prob must be from 0 to 1, got 1.5"),
    (lambda: CountingEnv().append_transform(marlenv.ConditionalSkip(lambda td: "no")).rollout(1), TypeError,
     r"the condition must give a bool or a tensor of bools, got str"),
    (lambda: marlenv.RandomCropTensorDict(5)(TensorDict({"x": torch.ones(3)}, [3])), ShapeError,
     r"sub_seq_len is 5, but a trajectory has 3 steps only"),
    (lambda: marlenv.Hash(["x"], ["h"], ["x"], ["h"]).inv(TensorDict({"h": torch.ones(2)})), KeyMissing,
     r"none of the 0 values that were hashed has the hash"),
    (lambda: CountingEnv(batch_size=[2]).append_transform(marlenv.BatchSizeTransform(batch_size=[4])), SpecError,
     r"has the batch size \[2\]; give reshape_fn"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "text"), BAD)
def test_what_does_not_fit_is_said(make: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def test_missing_entries_may_be_passed_over() -> None:
    norm = Compose(marlenv.ObservationNorm(0.0, 2.0, ["other", "observation"]))
    norm.set_missing_tolerance(True)
    assert TransformedEnv(CountingEnv(), norm).rollout(2)["next", "observation"].flatten().tolist() == [2, 4]


def test_hooks_are_called_as_the_documents_say() -> None:
    called = []

    class Spy(marlenv.Transform):
        def transform_output_spec(self, output_spec: Composite) -> Composite:
            called.append(("output", sorted(output_spec.keys())))
            return super().transform_output_spec(output_spec)

        def transform_input_spec(self, input_spec: Composite) -> Composite:
            called.append(("input", sorted(input_spec.keys())))
            return super().transform_input_spec(input_spec)

        def transform_env_batch_size(self, batch_size: torch.Size) -> torch.Size:
            called.append(("batch", batch_size))
            return batch_size

        def transform_env_device(self, device: Any) -> Any:
            called.append(("device", device))
            return device

        def _reset_env_preprocess(self, tensordict: Any) -> Any:
            called.append(("reset", tensordict))
            return tensordict

        def dump(self, **kwargs: Any) -> None:
            called.append(("dump", kwargs))

    env = TransformedEnv(CountingEnv(batch_size=[2]), Compose(Spy()))
    env.reset()
    env.transform.dump(suffix="x")
    assert called == [
        ("batch", torch.Size([2])),
        ("device", None),
        ("output", ["full_done_spec", "full_observation_spec", "full_reward_spec"]),
        ("input", ["full_action_spec", "full_state_spec"]),
        ("reset", None),
        ("dump", {"suffix": "x"}),
    ]


def test_spec_hooks_of_one_entry_edit_composites() -> None:
    from marlenv.transforms import _apply_to_composite, _apply_to_composite_inv

    class Halves(marlenv.Transform):
        def __init__(self) -> None:
            super().__init__(["observation"], ["half"], ["action"], ["act"])

        def _apply_transform(self, obs: torch.Tensor) -> torch.Tensor:
            return obs / 2

        @_apply_to_composite
        def transform_observation_spec(self, observation_spec: Any) -> Any:
            return marlenv.Bounded(0, 9, observation_spec.shape)

        @_apply_to_composite_inv
        def transform_action_spec(self, action_spec: Any) -> Any:
            return marlenv.Bounded(0, 7, action_spec.shape)

    env = TransformedEnv(CountingEnv(), Halves())
    assert env.observation_spec["half"] == marlenv.Bounded(0, 9, (1,))
    assert env.action_keys == ["act"]
    assert env.action_spec == marlenv.Bounded(0, 7, (1,))
    env.check_env_specs()
