"""Copies, equality and serialisation."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from laws import given, same, seeded

from marlenv import (
    Binary,
    Bounded,
    Categorical,
    Choice,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    StackedComposite,
    TensorSpec,
    Unbounded,
)
from marlenv.testing.catalogue.specs import SPECS, inside, mask
from marlenv.testing.strategies import specs

every = pytest.mark.parametrize("example", SPECS, ids=lambda e: e.name)


def saved_and_loaded(spec: TensorSpec) -> TensorSpec:
    file = io.BytesIO()
    torch.save(spec, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = {
    "clone": lambda s: s.clone(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda s: pickle.loads(pickle.dumps(s)),
    "torch.save": saved_and_loaded,
    "torch.clone": torch.clone,
}


@pytest.mark.parametrize("way", COPIES.values(), ids=COPIES.keys())
@every
def test_a_copy_is_equal_and_draws_the_same(example, way):
    spec = example.make()
    spec.rand()  # what was computed on the way must not be in the way
    made = way(spec)
    assert made == spec
    assert made is not spec
    assert type(made) is type(spec)
    assert same(made.rand(rng=seeded(1)), spec.rand(rng=seeded(1)))


@given(specs())
def test_any_spec_survives_pickling(spec):
    assert pickle.loads(pickle.dumps(spec)) == spec


@every
def test_a_clone_shares_no_memory(example):
    spec = example.make()
    made = spec.clone()
    for old, new in zip(inside(spec), inside(made), strict=True):
        assert old is not new
        for name in old.params:
            a, b = getattr(old, name), getattr(new, name)
            assert a is None or a.numel() == 0 or a.data_ptr() != b.data_ptr()


def test_changing_a_clone_leaves_the_original():
    spec = Composite(a=Categorical(2, mask=mask("10")), b=Composite(c=Unbounded((2,))))
    made = spec.clone()
    made["a"].update_mask(mask("01"))
    made["b", "d"] = Binary(1)
    del made["b", "c"]
    assert spec["a"].mask.tolist() == [True, False]
    assert set(spec["b"]) == {"c"}


def test_specs_do_not_see_what_becomes_of_the_tensors_they_were_made_from():
    low, flags, nvec = torch.zeros(2), torch.tensor([True, False]), torch.tensor([2, 3])
    specs = Bounded(low, 1, (2,)), Categorical(2, mask=flags), MultiCategorical(nvec)
    low.fill_(9)
    flags.fill_(False)
    nvec.fill_(77)
    assert specs[0].low.tolist() == [0.0, 0.0]
    assert specs[1].mask.tolist() == [True, False]
    assert specs[2].nvec.tolist() == [2, 3]


UNEQUAL = {
    "shape": (Unbounded((2,)), Unbounded((3,))),
    "dtype": (Unbounded((2,)), Unbounded((2,), dtype=torch.float64)),
    "class": (Unbounded((2,)), Bounded(-1, 1, (2,))),
    "low": (Bounded(0, 1, (2,)), Bounded(0.5, 1, (2,))),
    "high": (Bounded(0, 1, (2,)), Bounded([0.0, 0.0], [1.0, 2.0])),
    "n": (Categorical(3), Categorical(4)),
    "mask": (Categorical(3, mask=mask("110")), Categorical(3, mask=mask("011"))),
    "no mask": (Categorical(3, mask=mask("110")), Categorical(3)),
    "nvec": (MultiCategorical([2, 3]), MultiCategorical([3, 2])),
    "vectors": (MultiOneHot([2, 3]), MultiOneHot([3, 2])),
    "representation": (OneHot(3), MultiOneHot([3])),
    "example": (NonTensor((), example_data="a"), NonTensor((), example_data="b")),
    "array example": (NonTensor((), example_data=torch.zeros(2)), NonTensor((), example_data=torch.ones(2))),
    "choices": (Choice([Categorical(2)]), Choice([Categorical(3)])),
    "batch of choices": (Choice([Categorical(2, (3,))]), Choice([Categorical(2)]).expand(3)),
    "entry": (Composite(a=Unbounded((2,))), Composite(a=Unbounded((3,)))),
    "key": (Composite(a=Unbounded((2,))), Composite(b=Unbounded((2,)))),
    "batch size": (Composite(shape=(2,)), Composite(shape=(3,))),
    "stack": (torch.stack([Categorical(2), Categorical(3)]), torch.stack([Categorical(2), Categorical(4)])),
    "stacked dimension": (
        torch.stack([Categorical(2, (2,)), Categorical(3, (2,))], 0),
        torch.stack([Categorical(2, (2,)), Categorical(3, (2,))], 1),
    ),
    "not a spec": (Unbounded((2,)), torch.zeros(2)),
    "nothing": (Composite(), None),
}


@pytest.mark.parametrize("why", UNEQUAL)
def test_specs_that_differ_are_unequal(why):
    a, b = UNEQUAL[why]
    assert a != b
    assert b != a
    assert a == a.clone()


def test_the_order_of_entries_does_not_matter():
    a, b = Unbounded((2,)), Binary(1)
    assert Composite(a=a, b=b) == Composite(b=b, a=a)


def test_spaces_compare_by_value():
    assert Bounded(0, 1, (3,)).space == Bounded(0, 1, (3,)).space
    assert Bounded(0, 1, (3,)).space != Bounded(0, 2, (3,)).space
    assert Bounded(0, 1, (3,)).space != Categorical(3).space
    assert Categorical(3).space == OneHot(3).space
    assert [end.tolist() for end in Bounded(0, 1, (1,)).space] == [[0.0], [1.0]]
    assert len(MultiCategorical([2, 3]).space) == 2


def test_locks_survive_pickling_as_locks_of_the_whole():
    spec = Composite(a=Composite(b=Composite())).lock_()
    for way in (copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))):
        made = way(spec)
        assert made.is_locked
        assert made["a", "b"].is_locked
        with pytest.raises(RuntimeError, match="holds it is locked"):
            made["a", "b"].unlock_()
        assert not made.unlock_()["a", "b"].is_locked


def test_stacks_survive_pickling():
    spec = next(e for e in SPECS if e.name == "stacked composite").make()
    made = pickle.loads(pickle.dumps(spec.lock_()))
    assert isinstance(made, StackedComposite)
    assert made == spec
    assert made.is_locked
