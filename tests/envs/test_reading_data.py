"""Specs from data, and ends of trajectories."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDict, tensorclass
from torchrl_oracle import collectors, data, utils
from twin_envs import assert_same_data, assert_same_specs, load

from marlenv import (
    Categorical,
    Composite,
    NonTensor,
    StackedComposite,
    make_composite_from_td,
    split_trajectories,
    terminated_or_truncated,
)
from marlenv.errors import KeyMissing, ShapeError, SpecError
from marlenv.testing.mocks import CountingEnv

reference = pytest.mark.reference


@tensorclass
class Pose:
    """A tensorclass entry."""

    x: torch.Tensor


DATA = {
    "plain": lambda: TensorDict(
        {"a": torch.zeros(3), "b": 1, "n": {"x": torch.zeros(4, dtype=torch.bool), "s": torch.tensor(1.0)}}, []
    ),
    "batch": lambda: TensorDict({"a": torch.zeros(3, 2), "g": TensorDict({"x": torch.zeros(3, 2, 1)}, [3, 2])}, [3]),
    "text": lambda: TensorDict({"a": torch.zeros(3), "t": NonTensorData("hi")}, []),
    "texts": lambda: TensorDict({"a": torch.zeros(2, 3), "t": NonTensorStack("hi", "ho")}, [2]),
}


@reference
@pytest.mark.parametrize("make", DATA.values(), ids=DATA)
@pytest.mark.parametrize("unsqueeze", [True, False])
@pytest.mark.parametrize("dynamic", [True, False])
def test_composites_from_data_are_torchrls(make, unsqueeze, dynamic):
    how = {"unsqueeze_null_shapes": unsqueeze, "dynamic_shape": dynamic}
    ours = make_composite_from_td(make(), **how)
    assert_same_specs(utils.make_composite_from_td(make(), **how), ours)
    if unsqueeze is False:
        ours.assert_is_in(make())


def test_sizes_of_the_batch_do_not_become_dynamic():
    """torchrl raises here."""
    td = TensorDict({"flag": torch.zeros(3), "x": torch.zeros(3, 2)}, [3])
    spec = make_composite_from_td(td, dynamic_shape=True)
    assert (spec["flag"].shape, spec["x"].shape) == ((3,), (3, -1))


def test_composites_of_text_tensorclasses_and_lazy_stacks():
    assert isinstance(make_composite_from_td(DATA["text"]())["t"], NonTensor)
    spec = make_composite_from_td(TensorDict({"p": Pose(x=torch.zeros(2, 3), batch_size=[2])}, [2]))
    assert spec["p"].data_cls is Pose
    assert spec["p", "x"].shape == (2, 3)
    parts = [TensorDict({"a": torch.zeros(n)}, []) for n in (2, 3)]
    uneven = make_composite_from_td(TensorDict({"g": LazyStackedTensorDict(*parts, stack_dim=0)}, []))
    assert isinstance(uneven["g"], StackedComposite)
    assert uneven["g"][1]["a"].shape == (3,)


def test_data_of_tensorclasses_go_through_steps_and_resets():
    env = CountingEnv(batch_size=[2], max_steps=1)
    seen = env.observation_spec.clone()
    seen["pose"] = make_composite_from_td(Pose(x=torch.zeros(2, 3), batch_size=[2]))
    env.observation_spec = seen
    step, reset = env._step, env._reset
    env._step = lambda td: step(td).set("pose", Pose(x=env.count.expand(2, 3), batch_size=[2]))
    env._reset = lambda td: reset(td).set("pose", Pose(x=env.count.expand(2, 3), batch_size=[2]))
    rollout = env.rollout(3, break_when_any_done=False)
    assert isinstance(rollout["pose"], Pose)
    assert rollout["pose"].x[..., 0].tolist() == [[0, 0, 0], [0, 1, 0]]


# --- terminated_or_truncated ---------------------------------------------------------------------


def bools(*values):
    return torch.tensor(values)


FLAGS = {
    "all three": lambda: TensorDict(
        {"done": bools([True], [False]), "terminated": bools([False], [True]), "truncated": bools([True], [False])}, [2]
    ),
    "nothing done": lambda: TensorDict({"done": bools([False], [False])}, [2]),
    "nested": lambda: TensorDict(
        {"done": bools([False], [False]), "agents": TensorDict({"done": bools([[True]], [[False]])}, [2, 1])}, [2]
    ),
    "group only": lambda: TensorDict(
        {"agents": TensorDict({"done": bools([[False]], [[False]])}, [2, 1]),
         "x": TensorDict({"y": torch.zeros(2)}, [2])}, [2]
    ),
}  # fmt: skip


@reference
@pytest.mark.parametrize("make", FLAGS.values(), ids=FLAGS)
@pytest.mark.parametrize("how", [{}, {"key": "_neg"}, {"key": None}, {"write_full_false": True}], ids=str)
def test_unions_of_flags_are_torchrls(make, how):
    theirs, ours = make(), make()
    assert terminated_or_truncated(ours, **how) == bool(utils.terminated_or_truncated(theirs, **how))
    assert_same_data(theirs, ours)


@reference
@pytest.mark.parametrize("make", [FLAGS["nested"], FLAGS["group only"]], ids=["nested", "group only"])
@pytest.mark.parametrize("full", [True, False])
def test_unions_of_flags_follow_a_spec(make, full):
    def spec(composite, categorical):
        flag = lambda *shape: categorical(2, shape, dtype=torch.bool)  # noqa: E731
        group = composite(done=flag(2, 1, 1), terminated=flag(2, 1, 1), shape=(2, 1))
        return composite(done=flag(2, 1), agents=group, shape=(2,))

    theirs, ours = make(), make()
    wanted = utils.terminated_or_truncated(theirs, spec(data.Composite, data.Categorical), write_full_false=full)
    assert terminated_or_truncated(ours, spec(Composite, Categorical), write_full_false=full) == bool(wanted)
    assert_same_data(theirs, ours)


# --- split_trajectories --------------------------------------------------------------------------


def trajectories(batch=(2,), seed=0, ids=None):
    generator = torch.Generator().manual_seed(seed)
    done = torch.rand((*batch, 5, 1), generator=generator) > 0.6
    td = TensorDict({"obs": torch.rand((*batch, 5, 3), generator=generator), "next": {"done": done}}, [*batch, 5])
    if ids is not None:
        td[ids] = torch.arange(5).expand(*batch, 5) // 2 + 10 * torch.arange(max(1, torch.Size(batch).numel())).reshape(
            *batch, 1
        )
    return td


@reference
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("ids", "how"),
    [
        (None, {}),
        ("traj_ids", {}),
        (("collector", "traj_ids"), {}),
        (None, {"prefix": "pre"}),
        (None, {"trajectory_key": ("a", "ids")}),
        (None, {"done_key": "done"}),
    ],
    ids=str,
)
def test_pieces_are_torchrls(batch, seed, ids, how):
    theirs, ours = trajectories(batch, seed, ids), trajectories(batch, seed, ids)
    assert_same_data(collectors.split_trajectories(theirs, **how), split_trajectories(ours, **how))
    assert_same_data(theirs, ours)


@reference
def test_nested_pieces_are_torchrls():
    theirs = collectors.split_trajectories(trajectories(), as_nested=True)
    ours = split_trajectories(trajectories(), as_nested=True)
    assert theirs.batch_size == ours.batch_size
    for a, b in zip(theirs["obs"].unbind(), ours["obs"].unbind(), strict=True):
        assert torch.equal(a, b)


@settings(max_examples=30)
@given(bits=st.lists(st.booleans(), min_size=8, max_size=8), rows=st.sampled_from([(2,), (2, 2), ()]))
def test_the_pieces_put_together_are_the_rollout(bits, rows):
    done = torch.tensor(bits).reshape(*rows, -1, 1)
    td = TensorDict({"n": torch.arange(8).reshape(*rows, -1), "next": {"done": done}}, done.shape[:-1])
    pieces = split_trajectories(td)
    assert pieces["n"][pieces["mask"]].tolist() == list(range(8))
    inner = pieces["next", "done"].squeeze(-1) & pieces["mask"]
    assert (inner.sum(-1) <= 1).all()
    lengths = pieces["mask"].sum(-1)
    ends = done.clone().squeeze(-1)
    ends[..., -1] = True
    assert len(lengths) == ends.sum()


@pytest.mark.parametrize("how", [{}, {"done_key": "done"}, {"done_key": "done", "prefix": "collector"}], ids=str)
def test_a_flag_that_is_named_goes_before_numbers_that_are_not(how):
    """Collectors of TorchRL count on in every step once an agent is done."""
    done = torch.tensor([False, False, True, False, False, False]).unsqueeze(-1)
    td = TensorDict({"n": torch.arange(6), "next": {"done": done}}, [6])
    td["collector"] = TensorDict({"traj_ids": torch.tensor([0, 1, 2, 3, 4, 5])}, [6])
    pieces = split_trajectories(td, **how)
    found = [one["n"][one["collector", "mask"]].tolist() for one in pieces]
    assert found == ([[0, 1, 2], [3, 4, 5]] if list(how) == ["done_key"] else [[n] for n in range(6)])
    assert td["collector", "traj_ids"].tolist() == [0, 1, 2, 3, 4, 5]


def test_faults_of_splitting():
    with pytest.raises(KeyMissing, match=r"neither trajectory ids nor \('next', 'done'\) in \['x'\]"):
        split_trajectories(TensorDict({"x": torch.zeros(3)}, [3]))
    td = trajectories()
    td["next", "agents"] = TensorDict({"done": torch.zeros(2, 5, 3, 1, dtype=torch.bool)}, [2, 5, 3])
    with pytest.raises(
        ShapeError, match=r"must have one flag per step, \[2, 5\] or \[2, 5, 1\], got \[2, 5, 3, 1\]; unite"
    ):
        split_trajectories(td, done_key=("agents", "done"))


# --- auto_specs_ ---------------------------------------------------------------------------------


def policy(td):
    return td.set("action", torch.zeros(*td.batch_size, 2))


class NoSpecs(CountingEnv):
    """Says nothing about what it gives."""

    def __init__(self, grows=False):
        super().__init__()
        self.grows = grows
        self.set_spec_lock_(False)
        self.full_observation_spec, self.full_action_spec = Composite(), Composite()

    def _more(self, out):
        size = 2 + int(self.count) if self.grows else 2
        return out.set("more", torch.zeros(size)).set("text", NonTensorData("t"))

    def _reset(self, tensordict):
        return self._more(super()._reset(tensordict))

    def _step(self, tensordict):
        return self._more(super()._step(tensordict))


def test_specs_are_read_off_two_steps():
    env = NoSpecs().auto_specs_(policy, observation_key=["observation", "more", "text"])
    assert env.is_spec_locked
    assert env.observation_keys == ["more", "observation", "text"]
    assert env.observation_spec["more"].shape == (2,)
    assert (env.action_spec.shape, env.reward_spec.shape) == ((2,), (1,))
    assert env.done_keys == ["done", "terminated"]
    env.check_env_specs()
    assert env.rollout(3, policy)["action"].shape == (3, 2)


def test_sizes_that_change_become_dynamic():
    env = NoSpecs(grows=True).auto_specs_(policy, observation_key=["observation", "more", "text"])
    assert env.observation_spec["more"].shape == (-1,)
    assert [s["more"].shape[0] for s in env.rollout(3, policy).unbind(0)] == [2, 3, 4]


def test_entries_of_no_family_are_named():
    with pytest.raises(
        SpecError, match=r"auto_specs_: entries \[.*'more'.*\] belong to no family; name them in observation_key"
    ):
        NoSpecs().auto_specs_(policy)


@reference
def test_specs_read_off_an_env_are_torchrls():
    made = []
    for library in ("torchrl", "marlenv"):
        env = load("conventions", library).Bare()
        made.append(env.auto_specs_(policy))
    for family in ("action", "observation", "reward"):  # torchrl lists observations and flags as state, too
        assert_same_specs(*(getattr(env, f"full_{family}_spec") for env in made))
    assert made[0].done_keys == made[1].done_keys
