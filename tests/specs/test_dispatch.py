"""Torch functions on specs."""

from __future__ import annotations

import pytest
import torch

from marlenv import Binary, Bounded, Categorical, Composite, NonTensor, Stacked, StackedComposite, TensorSpec, Unbounded
from marlenv.errors import Unsupported
from marlenv.specs.dispatch import METHODS
from marlenv.testing.catalogue.specs import mask

UNKNOWN = [
    lambda s: torch.add(s, 1),
    torch.zeros_like,
    lambda s: torch.cat([s, s]),
    torch.sum,
    lambda s: torch.zeros(2) + s,
    lambda s: torch.where(torch.ones(2, dtype=torch.bool), s, s),
    lambda s: torch.equal(s, s),
    torch.nn.functional.relu,
]


@pytest.mark.parametrize("call", UNKNOWN)
@pytest.mark.parametrize(
    "spec",
    [Unbounded((2,)), Composite(shape=(2,)), Stacked(Categorical(2), Categorical(3), dim=0)],
    ids=lambda s: type(s).__name__,
)
def test_other_functions_say_what_specs_take(call, spec):
    with pytest.raises(Unsupported, match=r"on a spec: not supported; specs take \['broadcast_to'"):
        call(spec)


def test_arguments_may_be_named_as_in_torch():
    spec = Bounded(0, 1, (1, 3))
    assert torch.squeeze(input=spec, dim=0) == spec.squeeze(0)
    assert torch.stack(tensors=[spec, spec], dim=1) == torch.stack([spec, spec], 1)
    assert torch.index_select(input=spec, dim=-1, index=torch.tensor([2])).shape == (1, 1)
    assert torch.unflatten(input=spec, dim=1, sizes=(3, 1)).shape == (1, 3, 1)


def test_every_function_has_its_method():
    assert all(hasattr(TensorSpec, name) for name in METHODS.values())


def test_equal_specs_become_one_dense_spec():
    spec = Categorical(3, (2,), mask=mask("110"))
    assert torch.stack([spec, spec.clone()], 1) == spec.unsqueeze(1).expand(2, 2)
    assert torch.stack([spec]) == spec.unsqueeze(0)
    assert type(torch.stack([Composite(a=spec), Composite(a=spec)])) is Composite


def test_specs_that_differ_in_numbers_become_one_dense_spec():
    assert type(torch.stack([Bounded(0, 1, (2,)), Bounded(0, 2, (2,))])) is Bounded
    assert type(torch.stack([Categorical(2, mask=mask("10")), Categorical(2)])) is Categorical
    merged = torch.stack([NonTensor((), example_data="a"), NonTensor((), example_data="b")])
    assert type(merged) is NonTensor
    assert merged.is_in(merged.rand())


@pytest.mark.parametrize(
    "parts",
    [
        [Unbounded((2,)), Unbounded((3,))],
        [Categorical(2), Categorical(3)],
        [Unbounded((2,)), Bounded(0, 1, (2,))],
        [Categorical(2, dtype=torch.int8), Binary(shape=())],
    ],
)
def test_specs_of_other_kinds_are_stacked_lazily(parts):
    stacked = torch.stack(parts)
    assert type(stacked) is Stacked
    assert list(stacked.unbind(0)) == parts


def test_composites_are_stacked_lazily_where_entries_cannot_merge():
    parts = [Composite(a=Unbounded((2,))), Composite(a=Unbounded((3,)))]
    assert type(torch.stack(parts)) is StackedComposite
    deep = torch.stack([Composite(b=p) for p in parts])
    assert type(deep) is StackedComposite
    assert type(deep["b"]) is StackedComposite


def test_comparing_a_tensor_with_a_spec_is_false():
    assert (torch.zeros(2) == Unbounded((2,))) is False
    assert (torch.zeros(2) != Unbounded((2,))) is True
