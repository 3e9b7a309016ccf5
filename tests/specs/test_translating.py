"""Between simulators and tensors, and between numbers and one-hot vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume
from hypothesis import strategies as st
from laws import given, same
from tensordict import NonTensorData, NonTensorStack
from torch import Tensor

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
    Stacked,
    StackedComposite,
    Unbounded,
)
from marlenv.errors import KeyMissing, NotInSpec, ShapeError, SpecError
from marlenv.testing.catalogue.specs import SPECS, mask
from marlenv.testing.strategies import discrete, leaves, shapes, specs, values

every = pytest.mark.parametrize("example", SPECS, ids=lambda e: e.name)


@every
def test_encode_undoes_to_numpy(example):
    spec = example.make()
    value = spec.rand()
    assert same(spec.encode(spec.to_numpy(value, safe=True)), value)


@given(st.data())
def test_encode_undoes_to_numpy_for_any_spec(data):
    spec = data.draw(specs())
    value = data.draw(values(spec))
    assert same(spec.encode(spec.to_numpy(value)), value)


@given(st.data())
def test_encode_takes_leading_dimensions(data):
    spec = data.draw(leaves(tensors_only=True))
    lead = data.draw(shapes(2, 3, min_dims=1))
    value = data.draw(values(spec, lead))
    assert same(spec.encode(spec.to_numpy(value)), value)


@pytest.mark.parametrize("lead", [(), (2,), (3, 2)])
def test_unequal_leaves_encode_what_they_gave(lead):
    spec = torch.stack([Categorical(3), Categorical(5)])
    value = torch.arange(2).expand(*lead, 2) + torch.arange(torch.Size(lead).numel()).reshape(*lead, 1) % 2
    assert same(spec.encode(spec.to_numpy(value)), value)
    team = Composite(a=spec)
    assert same(team.encode({"a": spec.to_numpy(value)})["a"], value)


def test_composites_encode_what_they_gave_beside_entries_without_tensors():
    spec = Composite(
        obs=Unbounded((2,)), text=NonTensor((), example_data="x"), empty=Composite(),
        deep=Composite(one=NonTensor((), example_data=1)),
    )  # fmt: skip
    value = spec.rand((3,))
    back = spec.encode(spec.to_numpy(value))
    assert (back.batch_size, back["deep"].batch_size, back["empty"].batch_size) == ((3,), (3,), (3,))
    assert same(back, value)
    pair = torch.stack([Composite(obs=Unbounded((2,))), Composite()])
    value = pair.rand((3,))
    assert same(pair.encode(pair.to_numpy(value)), value)


WRAPPING = [[300], 300, -1, np.array([300]), np.int64(300), torch.tensor([300]), [torch.tensor(300)], np.array([300.0]),
            float("nan"), 2**70, [2**70]]  # fmt: skip


@pytest.mark.parametrize("value", WRAPPING, ids=str)
def test_numbers_that_would_wrap_around_are_refused(value):
    spec = Categorical(200, (1,), dtype=torch.uint8)
    with pytest.raises(NotInSpec, match=r"encode: expected numbers in 0..255, which uint8 holds, got"):
        spec.encode(value)


def test_whole_numbers_beyond_64_bits_are_refused():
    spec = Unbounded((1,), dtype=torch.int64)
    for value in (np.array([2**63], dtype=np.uint64), np.array([1e19]), torch.tensor([torch.inf])):
        with pytest.raises(NotInSpec, match="which int64 holds"):
            spec.encode(value)
    assert spec.encode(np.array([2**63 - 1], dtype=np.uint64)).tolist() == [2**63 - 1]


def test_numbers_that_would_wrap_around_are_refused_where_kinds_are_remembered():
    spec = Categorical(200, (1,), dtype=torch.uint8)
    spec.memoize_encode()
    assert spec.encode(np.array([3])).tolist() == [3]
    with pytest.raises(NotInSpec, match="0..255"):
        spec.encode(np.array([300]))


KINDS = [("a", 1), (2, 3), "up", 2.5, None, 7]


def test_registered_values_of_any_kind_come_back_as_they_were():
    spec = OneHot(9, use_register=True)
    assert [spec.to_numpy(spec.encode(one)).item() for one in KINDS] == KINDS
    assert spec.to_numpy(spec.encode(KINDS)).tolist() == KINDS
    assert spec.to_numpy(spec.encode([7, 7])).dtype == np.int64


def test_registered_values_of_several_components_keep_their_kind():
    spec = MultiOneHot([3, 3], use_register=True)
    given = [["a", 1], ["b", 2]]
    assert spec.to_numpy(spec.encode(given)).tolist() == given
    pairs = MultiOneHot([3, 3], use_register=True)
    assert pairs.to_numpy(pairs.encode([("a", 1), None])).tolist() == [("a", 1), None]


def test_composites_encode_nested_dicts_with_leading_dimensions():
    spec = Composite(a=Unbounded((3, 2)), b=Composite(c=Categorical(4, (3,)), shape=(3,)), shape=(3,))
    td = spec.encode({"a": np.zeros((5, 3, 2)), "b": {"c": np.ones((5, 3))}})
    assert td.batch_size == (5, 3)
    assert td["b"].batch_size == (5, 3)
    assert spec.is_in(td)


def test_stacks_encode_entries_that_differ_in_rank_or_dtype():
    one = Composite(x=Unbounded((2,)), act=Categorical(3), deep=Composite(y=Unbounded(())), own=Unbounded((1,)))
    two = Composite(x=Unbounded((2, 2)), act=Unbounded(()), deep=Composite(y=Categorical(4)))
    spec = StackedComposite(one, two, dim=0)
    for value in (spec.rand(), spec.rand((5,))):
        given = spec.to_numpy(value)
        assert [a.dtype for a in given["act"]] == [np.int64, np.float32]
        assert [a.ndim - value.ndim + 1 for a in given["x"]] == [1, 2]
        assert given["own"][1] is None
        back = spec.encode(given)
        for part, was, now in zip(spec.parts, value.unbind(-1), back.unbind(-1), strict=True):
            assert part.is_in(now)
            assert same(now, was)


@given(st.data())
def test_one_hot_and_categorical_undo_each_other(data):
    spec = data.draw(discrete(data.draw(shapes(2, 3))))
    assume(not isinstance(spec, Binary))
    value = data.draw(values(spec))
    hot, number = spec.to_one_hot_spec(), spec.to_categorical_spec()
    flags, index = spec.to_one_hot(value, safe=True), spec.to_categorical(value, safe=True)
    assert number.is_in(index.to(number.dtype))
    assert hot.is_in(flags.to(hot.dtype))
    assert torch.equal(number.to_one_hot(index), flags.bool())
    assert torch.equal(hot.to_categorical(flags), index.long())
    assert (hot.mask is None) == (spec.mask is None)
    assert torch.equal(hot.to_categorical_spec().to_one_hot_spec().enumerate(), hot.to(torch.bool).enumerate())
    if spec.mask is not None:
        assert torch.equal(hot.mask, number.mask)
    assert spec.to_one_hot_spec().to_categorical_spec().to(number.dtype) == number


def test_binary_becomes_pairs():
    spec = Binary(3)
    assert spec.to_one_hot_spec().shape == (3, 2)
    assert spec.to_one_hot(torch.tensor([1, 0, 1], dtype=torch.int8)).tolist() == [
        [False, True],
        [True, False],
        [False, True],
    ]
    assert spec.to_categorical_spec() == Categorical(2, (3,), dtype=torch.int8)


def test_the_spec_of_a_conversion_shares_no_memory():
    spec = MultiOneHot([2, 2], mask=mask("1011"))
    spec.to_categorical_spec().mask.fill_(True)
    assert spec.mask.tolist() == [True, False, True, True]


ENCODED = [
    (Unbounded((2,)), [1, 2], [1.0, 2.0]),
    (Unbounded((2,)), (1.5, 2), [1.5, 2.0]),
    (Unbounded((2,)), np.array([1.0, 2.0])[::-1], [2.0, 1.0]),
    (Unbounded((2,)), [torch.tensor(1.0), 2.0], [1.0, 2.0]),
    (Unbounded((2, 1)), [np.array([1.0]), np.array([2.0])], [[1.0], [2.0]]),
    (Unbounded((2, 2)), [[1, 2], [3, 4]], [[1.0, 2.0], [3.0, 4.0]]),
    (Unbounded((1,)), 3, [3.0]),
    (Unbounded(()), [3], 3.0),
    (Unbounded((2, 2)), [1, 2, 3, 4], [[1.0, 2.0], [3.0, 4.0]]),
    (Unbounded((2, 1)), np.zeros((1, 2)), [[0.0], [0.0]]),
    (Unbounded((-1, 1)), [[1], [2]], [[1.0], [2.0]]),
    (Bounded(0, 255, (2,), dtype=torch.uint8), np.array([7, 255], dtype=np.int64), [7, 255]),
    (Binary(1, dtype=torch.bool), True, [True]),
    (Binary(2, dtype=torch.bool), np.array([True, False]), [True, False]),
    (Categorical(5), np.int64(3), 3),
    (OneHot(3), 2, [False, False, True]),
    (OneHot(3), torch.tensor([False, True, False]), [False, True, False]),
    (OneHot(3, (2, 3)), [2, 0], [[False, False, True], [True, False, False]]),
    (OneHot(3, dtype=torch.int64), torch.tensor([0, 1, 2]), [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    (MultiOneHot([2, 2], dtype=torch.int8), [1, 0], [0, 1, 1, 0]),
    (MultiCategorical([2, 3]), (1, 2), [1, 2]),
    (Stacked(Categorical(3), Categorical(5), dim=0), [2, 4], [2, 4]),
    (Stacked(Categorical(3), Categorical(5), dim=0), np.array([2, 4]), [2, 4]),
    (Choice([Categorical(3), OneHot(3).to_categorical_spec()]), 2, 2),
]


@pytest.mark.parametrize(("spec", "value", "want"), ENCODED, ids=lambda x: repr(x)[:40])
def test_encode_takes_what_simulators_give(spec, value, want):
    got = spec.encode(value)
    assert got.tolist() == want
    assert got.dtype == spec.dtype


def test_encode_copies_arrays_because_simulators_write_into_them_again():
    buffer = np.zeros(2, dtype=np.float32)
    seen = Unbounded((2,)).encode(buffer)
    buffer[:] = 9
    assert seen.tolist() == [0.0, 0.0]
    read_only = np.zeros(2, dtype=np.float32)
    read_only.flags.writeable = False
    assert Unbounded((2,)).encode(read_only).tolist() == [0.0, 0.0]


def test_encode_never_mixes_dimensions_up():
    with pytest.raises(ShapeError, match=r"expected a value of shape \[\.\.\., 2, 3\], got \[3, 2\]"):
        Unbounded((2, 3)).encode(np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        (OneHot(3), 3),
        (OneHot(3), -1),
        (OneHot(3), np.array([0, 5])),
        (MultiOneHot([2, 3]), [1, 3]),
        (MultiOneHot([2, 3]), [-1, 0]),
    ],
)
def test_encode_refuses_numbers_without_a_vector(spec, value):
    with pytest.raises(NotInSpec, match="encode: expected"):
        spec.encode(value)


@pytest.mark.parametrize("value", ["text", None, [[1], [1, 2]], [np.zeros(2), np.zeros(3)], object()])
def test_encode_refuses_what_is_not_a_number(value):
    with pytest.raises(SpecError, match="expected numbers"):
        Unbounded((2,)).encode(value)


def test_errors_of_encode_say_the_entry():
    spec = Composite(wolf=Composite(obs=Unbounded((2,))))
    with pytest.raises(ShapeError) as caught:
        spec.encode({"wolf": {"obs": np.zeros(3)}})
    assert caught.value.__notes__ == ["in entry 'obs'", "in entry 'wolf'"]
    with pytest.raises(KeyMissing, match="did you mean 'obs'"):
        spec.encode({"wolf": {"obz": np.zeros(2)}})


def test_to_numpy_checks_on_request():
    with pytest.raises(NotInSpec):
        Categorical(3).to_numpy(torch.tensor(5), safe=True)
    assert Categorical(3).to_numpy(torch.tensor(5)) == 5
    with pytest.raises(NotInSpec):
        Composite(a=Composite(b=Categorical(3))).to_numpy({"a": {"b": torch.tensor(5)}}, safe=True)


def test_to_numpy_gives_numbers_for_vectors():
    assert OneHot(3).to_numpy(torch.tensor([False, False, True])) == 2
    assert MultiOneHot([2, 3]).to_numpy(torch.tensor([0, 1, 1, 0, 0], dtype=torch.bool)).tolist() == [1, 0]
    assert Unbounded((2,), dtype=torch.bfloat16).to_numpy(torch.ones(2, dtype=torch.bfloat16)).dtype == np.float32
    assert Unbounded((1,)).to_numpy(torch.ones(1, requires_grad=True)).tolist() == [1.0]


def test_non_tensors_are_wrapped_and_unwrapped():
    spec = NonTensor((), example_data="a")
    assert spec.encode("e2e4").data == "e2e4"
    assert spec.to_numpy(spec.encode("e2e4")) == "e2e4"
    batched = NonTensor((2,), batched=True)
    assert batched.encode(["a", "b"]).tolist() == ["a", "b"]
    assert batched.encode("c").tolist() == ["c", "c"]
    assert batched.to_numpy(batched.encode(["a", "b"])) == ["a", "b"]
    kept = NonTensorData("x", batch_size=[])
    assert spec.encode(kept) is kept


@pytest.mark.parametrize(
    ("spec", "shape", "kind"),
    [
        (NonTensor((2, 3)), (2, 3), NonTensorData),
        (NonTensor((2, 3), batched=True), (2, 3), NonTensorStack),
        (NonTensor((2, 3), feature_dims=1), (2, 3), NonTensorStack),
        (NonTensor((2, 3), feature_dims=2), (2, 3), NonTensorData),
        (NonTensor((0, 3), batched=True), (0, 3), NonTensorData),
    ],
)
def test_non_tensors_have_one_item_or_one_per_element(spec, shape, kind):
    value = spec.rand()
    assert value.batch_size == shape
    assert isinstance(value, kind)
    assert spec.rand((4,)).batch_size == (4, *shape)
    if spec.feature_dims == 1:
        assert isinstance(value.unbind(0)[0], NonTensorData)
        assert value.unbind(0)[0].batch_size == (3,)


def test_stacks_of_composites_encode_one_dict_per_part():
    spec = next(e for e in SPECS if e.name == "stacked composite").make()
    value = spec.rand()
    assert isinstance(spec, StackedComposite)
    assert same(spec.encode(spec.to_numpy(value, safe=True)), value)


def test_tensors_of_simulators_are_moved_and_cast_not_copied():
    value = torch.zeros(2)
    assert Unbounded((2,)).encode(value) is value
    assert Unbounded((2,)).encode(torch.zeros(2, dtype=torch.float64)).dtype == torch.float32
    assert isinstance(Unbounded((2,)).encode(value, ignore_device=True), Tensor)
