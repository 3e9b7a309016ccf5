"""What holds for the values of every spec."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import strategies as st
from laws import given, same
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

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
    RowRNG,
    Stacked,
    StackedComposite,
    Unbounded,
)
from marlenv.errors import NotInSpec, SpecError
from marlenv.specs.onehot import are_one_hot
from marlenv.testing.catalogue.specs import SPECS
from marlenv.testing.strategies import anything, leaves, shapes, specs, values

every = pytest.mark.parametrize("example", SPECS, ids=lambda e: e.name)
ragged = {"stacked sizes"}  # values are nested tensors, which take no leading dimensions


@every
def test_a_spec_accepts_what_it_draws(example):
    spec = example.make()
    for _ in range(5):
        assert spec.is_in(spec.rand())
    if example.name not in ragged:
        assert spec.is_in(spec.rand((2, 3)))


@given(st.data())
def test_any_spec_accepts_what_it_draws(data):
    spec = data.draw(specs())
    lead = data.draw(shapes(2, 3))
    value = data.draw(values(spec, lead))
    assert spec.is_in(value)
    assert value in spec
    spec.assert_is_in(value)
    assert Size(value.shape) == (*lead, *spec.shape)


@every
def test_project_leaves_what_is_in_the_spec(example):
    spec = example.make()
    value = spec.rand()
    before = value.clone() if isinstance(value, (Tensor, TensorDictBase)) else value
    assert same(spec.project(value), before)


@given(st.data())
def test_projected_values_are_in_the_spec(data):
    spec = data.draw(leaves(data.draw(shapes(1, 3)), tensors_only=True))
    value = data.draw(anything(spec, data.draw(shapes(1, 2))))
    fixed = spec.project(value)
    assert spec.is_in(fixed), (spec, value)
    assert fixed.shape == value.shape


PROJECTIONS = [
    (Bounded(-1, 1, (3,)), [-5.0, 0.5, 9.0], [-1.0, 0.5, 1.0]),
    (Bounded(0, 9, (3,), dtype=torch.int64), [2.6, -4.2, 1e30], [3, 0, 9]),
    (Bounded(0, 255, (3,), dtype=torch.uint8), [300, -1, 77], [255, 0, 77]),
    (Bounded(-(2**63), 2**63 - 1, (2,), dtype=torch.int64), [1e30, -1e30], [2**63 - 1, -(2**63)]),
    (Bounded(2, 3, (1,)), [math.nan], [2.0]),
    (Bounded(-math.inf, 3, (2,)), [math.nan, -math.inf], [0.0, -math.inf]),
    (Categorical(5, (3,)), [-2.0, 2.6, 99.0], [0, 3, 4]),
    (Categorical(5, (2,), mask=torch.tensor([True, False, False, True, False])), [1, 2], [0, 3]),
    (Binary(4), [0.3, 0.7, -1.0, 9.0], [0, 1, 0, 1]),
    (OneHot(3, dtype=torch.int64), [1, 5, 5], [0, 1, 0]),
    (OneHot(3, mask=torch.tensor([False, True, True])), [9.0, -math.inf, -1.0], [False, False, True]),
    (MultiCategorical([2, 3]), [7, -1], [1, 0]),
    (MultiOneHot([2, 2], dtype=torch.int8), [0, 0, 1, 1], [1, 0, 1, 0]),
]


@pytest.mark.parametrize(("spec", "value", "want"), PROJECTIONS)
def test_project_gives_the_nearest_value(spec, value, want):
    assert spec.project(torch.tensor(value)).tolist() == want


@every
def test_zero_and_one_have_the_shape_and_dtype(example):
    spec = example.make()
    for value in (spec.zero(), spec.one(), spec.zeros(), spec.ones()):
        if isinstance(value, Tensor) and not value.is_nested:
            assert value.shape == spec.rand().shape
            assert value.dtype == spec.dtype
    if isinstance(spec, Composite) and not isinstance(spec, StackedComposite):
        assert spec.zero((2,)).batch_size == (2, *spec.rand().batch_size)
        assert set(spec.one().keys(True, True)) == set(spec.rand().keys(True, True))


def test_zero_and_one_are_zeros_and_ones():
    spec = Composite(a=Bounded(3, 4, (2,)), b=Composite(c=Categorical(3), d=Binary(2)))
    assert all((leaf == 0).all() for leaf in spec.zero().values(True, True))
    assert all((leaf == 1).all() for leaf in spec.one().values(True, True))


WRONG = [
    (Bounded(-1, 1, (2,)), torch.tensor([0.0, 1.1]), "above"),
    (Bounded(-1, 1, (2,)), torch.tensor([0.0, -1.1]), "below"),
    (Bounded(-1, 1, (2,)), torch.tensor([0.0, math.nan]), "NaN"),
    (Bounded(-1, 1, (2,)), torch.zeros(3), "another shape"),
    (Bounded(-1, 1, (2,)), torch.tensor(0.0), "fewer dimensions"),
    (Bounded(-1, 1, (2,)), torch.zeros(2, dtype=torch.float64), "another dtype"),
    (Bounded([0.0, 2.0], [1.0, 3.0]), torch.tensor([0.5, 0.5]), "outside in one element"),
    (Categorical(3), torch.tensor(3), "n"),
    (Categorical(3), torch.tensor(-1), "negative"),
    (Categorical(3, dtype=torch.float32), torch.tensor(0.5), "not whole"),
    (Categorical(1, dtype=torch.bool), torch.tensor(True), "True of one value"),
    (Categorical(3, mask=torch.tensor([True, False, True])), torch.tensor(1), "masked"),
    (
        Categorical(3, (2,), mask=torch.tensor([[True, False, False], [False, True, True]])),
        torch.tensor([1, 1]),
        "masked here",
    ),
    (Binary(2), torch.tensor([0, 2], dtype=torch.int8), "2"),
    (OneHot(3), torch.tensor([True, True, False]), "two ones"),
    (OneHot(3), torch.tensor([False, False, False]), "no one"),
    (OneHot(3, dtype=torch.int64), torch.tensor([2, -1, 0]), "sum 1, not one-hot"),
    (OneHot(3, mask=torch.tensor([False, True, True])), torch.tensor([True, False, False]), "masked"),
    (MultiCategorical([2, 3]), torch.tensor([2, 0]), "above nvec"),
    (MultiCategorical([2, 3], mask=torch.tensor([True, True, False, True, True])), torch.tensor([0, 0]), "masked"),
    (MultiOneHot([2, 2]), torch.tensor([True, True, True, False]), "two ones"),
    (NonTensor((2,)), torch.zeros(2), "a tensor"),
    (Choice([Bounded(0, 1, (2,)), Bounded(4, 5, (2,))]), torch.tensor([0.5, 4.5]), "half of each"),
    (Stacked(Categorical(3), Categorical(5), dim=0), torch.tensor([4, 2]), "swapped"),
    (Stacked(Categorical(3), Categorical(5), dim=0), torch.tensor([1, 1, 1]), "too many parts"),
    (Composite(a=Composite(b=Binary(1))), TensorDict({"a": torch.zeros(2)}), "a leaf for a composite"),
    (Composite(a=Unbounded((2,))), torch.zeros(2), "a tensor for a composite"),
]


@pytest.mark.parametrize(("spec", "value", "why"), WRONG, ids=[f"{type(s).__name__} {why}" for s, _, why in WRONG])
def test_a_spec_refuses_what_it_does_not_hold(spec, value, why):
    assert not spec.is_in(value)
    assert not spec.contains(value)
    with pytest.raises(NotInSpec):
        spec.assert_is_in(value)


def test_composites_ask_for_nothing_where_they_are_empty():
    spec = Composite(a=Unbounded((2,)), nothing=Composite(inner=Composite()), hole=None)
    assert spec.is_in(TensorDict({"a": torch.zeros(2), "more": torch.zeros(5)}))


def test_composites_know_their_data_class():
    from tensordict import tensorclass

    @tensorclass
    class Seen:
        a: Tensor

    spec = Composite(a=Unbounded((2, 3)), shape=(2,), data_cls=Seen)
    value = spec.rand()
    assert isinstance(value, Seen)
    assert isinstance(spec.encode({"a": torch.zeros(2, 3)}), Seen)
    assert spec.is_in(value)
    assert not spec.is_in(TensorDict({"a": value.a}, [2]))
    with pytest.raises(NotInSpec, match="expected a Seen, got TensorDict"):
        spec.assert_is_in(TensorDict({"a": value.a}, [2]))


def test_a_mask_that_allows_nothing_is_an_error_when_drawing():
    spec = Categorical(2, (2,), mask=torch.tensor([[True, True], [False, False]]))
    with pytest.raises(SpecError, match="allows no value at all in some element"):
        spec.rand()
    with pytest.raises(SpecError, match="allows no value at all"):
        spec.rand(rng=RowRNG(rows=[2]))
    spec.update_mask(torch.tensor([True, False]))
    assert spec.rand().tolist() == [0, 0]


COUNTS = [
    (Categorical(5, (3,)), 5),
    (OneHot(4), 4),
    (Binary(3), 8),
    (Binary(shape=()), 2),
    (Binary(shape=(-1,)), math.inf),
    (MultiCategorical([2, 3]), 6),
    (MultiOneHot([2, 3]), 6),
    (Bounded(0, 4, (2,), dtype=torch.int64), 5),
    (Bounded(False, True, (2,), dtype=torch.bool), 2),
    (Bounded(-(2**63), 2**63 - 1, (2,), dtype=torch.int64), 2**64),
    (Bounded(0, 1, (2,)), math.inf),
    (Unbounded((2,)), math.inf),
    (Unbounded((2,), dtype=torch.bool), 2),
    (Unbounded((2,), dtype=torch.uint8), 256),
    (NonTensor(()), math.inf),
    (Choice([Categorical(3), Categorical(5)]), 8),
    (Composite(a=Categorical(3), b=Composite(c=OneHot(2)), d=None), 6),
    (Composite(), 1),
    (Stacked(Categorical(3), Categorical(5), dim=0), 15),
]


@pytest.mark.parametrize(("spec", "count"), COUNTS, ids=lambda x: str(x)[:60])
def test_cardinality_counts_the_values(spec, count):
    assert spec.cardinality() == count


LISTED = [s for s, n in COUNTS if n < 300 and not isinstance(s, (Unbounded, Stacked, Choice))]


@pytest.mark.parametrize("spec", LISTED, ids=lambda x: str(x)[:60])
def test_enumerate_lists_every_value_once(spec):
    listed = spec.enumerate()
    assert len(listed) == spec.cardinality()
    assert listed.shape == (len(listed), *spec.shape)
    assert spec.is_in(listed)
    rows = [str(row.to_dict() if isinstance(row, TensorDictBase) else row.tolist()) for row in listed.unbind(0)]
    assert len(set(rows)) == len(rows)


def test_enumerate_leaves_out_what_the_mask_forbids():
    allowed = torch.tensor([True, False, True])
    assert Categorical(3, (2,), mask=allowed).enumerate(use_mask=True).tolist() == [[0, 0], [2, 2]]
    assert len(Categorical(3, (2,), mask=allowed).enumerate()) == 3
    assert OneHot(3, mask=allowed).enumerate(True).tolist() == [[True, False, False], [False, False, True]]
    flags = torch.tensor([True, False, True, True])
    assert MultiCategorical([2, 2], mask=flags).enumerate(True).tolist() == [[0, 0], [0, 1]]
    assert Composite(a=Categorical(3, mask=allowed), b=Binary(1)).enumerate(True)["a"].tolist() == [0, 0, 2, 2]


def test_enumerate_lists_choices_in_a_list():
    listed = Choice([Categorical(2), Categorical(3, mask=torch.tensor([False, False, True]))]).enumerate(use_mask=True)
    assert [int(v) for v in listed] == [0, 1, 2]
    assert len(Composite(c=Choice([Categorical(2), Categorical(3)])).enumerate()) == 5


def test_index_picks_the_entries_that_a_value_names():
    table = torch.tensor([10, 20, 30])
    assert Categorical(3).index(torch.tensor(2), table).tolist() == 30
    assert OneHot(3).index(torch.tensor([False, False, True]), table).tolist() == 30
    assert Categorical(3, (2,)).index(torch.tensor([2, 0]), table).tolist() == [30, 10]
    assert Binary(3).index(torch.tensor([1, 0, 1]), table).tolist() == [10, 0, 30]
    pairs = torch.tensor([1, 2, 30, 40, 50])
    assert MultiCategorical([2, 3]).index(torch.tensor([1, 2]), pairs).tolist() == [2, 50]
    assert MultiOneHot([2, 3]).index(torch.tensor([0, 1, 0, 0, 1]), pairs).tolist() == [2, 50]


@given(st.integers(2, 5), shapes(2, 3))
def test_index_works_row_by_row(n, shape):
    spec = OneHot(n, (*shape, n))
    hot, table = spec.rand(), torch.rand(*shape, n)
    want = (hot * table).sum(-1)
    assert torch.equal(spec.index(hot, table), want)
    numbers = spec.to_categorical_spec()
    assert torch.equal(numbers.index(spec.to_categorical(hot), table), want)


@given(st.lists(st.sampled_from([0.0, 1.0, 1 - 1e-7, 1e-7, -1e-7, 0.5, 2.0, -1.0, math.nan]), min_size=5, max_size=5))
def test_what_is_nearly_one_hot_is_what_rounds_to_it(numbers):
    value = torch.tensor(numbers)
    near = torch.where((value - value.round()).abs() < 0.1, value.round(), value)
    want = [OneHot(n, dtype=torch.float32).is_in(part) for n, part in zip((2, 3), near.split([2, 3]), strict=True)]
    assert are_one_hot(value, [2, 3]).tolist() == want
    for dtype in (torch.bool, torch.uint8, torch.int64):
        whole = near.nan_to_num(7).round().abs().to(dtype)
        want = [OneHot(n, dtype=dtype).is_in(part) for n, part in zip((2, 3), whole.split([2, 3]), strict=True)]
        assert are_one_hot(whole, [2, 3]).tolist() == want


def test_rand_update_and_its_like_overwrite_the_entries_of_the_spec():
    spec = Composite(a=Bounded(3, 4, (2,)), b=Composite(c=Categorical(3)))
    td = TensorDict({"a": torch.zeros(5, 2), "more": torch.zeros(5)}, [5])
    assert spec.is_in(spec.rand_update(td))
    assert td["a"].min() >= 3
    assert spec.zeros_update(td)["a"].eq(0).all()
    assert spec.ones_update(td)["b", "c"].eq(1).all()
    assert td["b", "c"].shape == (5,)
    assert "more" in td


def test_rand_update_of_stacks_reaches_every_part():
    spec = next(e for e in SPECS if e.name == "stacked composite").make()
    td = spec.zero()
    assert spec.is_in(spec.rand_update(td))
    assert spec.ones_update(td)[:, 1]["claws"].all()
    assert not spec.zeros_update(td)[:, 1]["claws"].any()


def test_project_of_a_composite_mends_what_is_outside_in_place():
    spec = Composite(a=Bounded(0, 1, (2,)), b=Composite(c=Categorical(3)))
    td = TensorDict({"a": torch.tensor([0.5, 7.0]), "b": {"c": torch.tensor(9)}})
    kept = td["a"]
    assert spec.project(td) is td
    assert td["a"].tolist() == [0.5, 1.0]
    assert td["b", "c"] == 2
    assert kept.tolist() == [0.5, 7.0]


def test_project_does_not_write_to_a_locked_value_that_is_right():
    spec = Composite(a=Bounded(0, 1, (2,)))
    td = spec.rand().lock_()
    assert spec.project(td) is td


def test_project_of_stacks_goes_part_by_part():
    spec = Stacked(Categorical(3, (2,)), Categorical(5, (2,)), dim=1)
    assert spec.project(torch.tensor([[9, 9], [0, 4]])).tolist() == [[2, 4], [0, 4]]
    spec = next(e for e in SPECS if e.name == "stacked composite").make()
    td = spec.rand()
    td[:, 0]["act"].fill_(77)
    assert spec.is_in(spec.project(td))


def test_each_element_of_a_batch_makes_a_choice_of_its_own():
    spec = Choice([Bounded(0, 1, (2,)), Bounded(4, 5, (2,))]).expand(64, 2)
    value = spec.rand()
    assert 0 < int((value[:, 0] > 2).sum()) < 64
    assert spec.is_in(torch.tensor([[0.5, 0.5], [4.5, 4.5]]).repeat(32, 1))
    assert not spec.is_in(torch.tensor([[0.5, 0.5], [4.5, 0.5]]).repeat(32, 1))
    mended = spec.project(torch.tensor([[4.5, 4.5], [9.0, 9.0]]).repeat(32, 1))
    assert mended[:2].tolist() == [[4.5, 4.5], [1.0, 1.0]]


def test_choice_of_text_holds_exactly_its_choices():
    from tensordict import NonTensorData

    spec = Choice([NonTensorData("a"), NonTensorData("b")])
    assert spec.is_in("a")
    assert spec.is_in(NonTensorData("b"))
    assert not spec.is_in("c")
    assert {spec.rand().data for _ in range(30)} == {"a", "b"}


@pytest.mark.parametrize("n", [-5, 0, 300, 2.5])
def test_numbers_of_values_that_cannot_be_are_refused(n):
    spec = Categorical(-1, dtype=torch.uint8)
    with pytest.raises(SpecError, match="n"):
        spec.set_provisional_n(n)


def test_odd_numbers_come_as_often_as_even_ones_where_there_are_many_values():
    spec = Categorical(-1)
    spec.set_provisional_n(2**25)
    drawn = spec.rand((20_000,), rng=RowRNG(seed=0, rows=[20_000]))
    assert float((drawn % 2).double().mean()) == pytest.approx(0.5, abs=0.02)


def test_values_of_no_flags_are_listed():
    assert Binary(0).enumerate().shape == (1, 0)
