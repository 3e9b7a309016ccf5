"""Dimensions whose size is not known in advance (-1)."""

from __future__ import annotations

import pytest
import torch
from tensordict import LazyStackedTensorDict, TensorDict

from marlenv import (
    Bounded,
    Categorical,
    Choice,
    Composite,
    MultiCategorical,
    OneHot,
    Stacked,
    StackedComposite,
    Unbounded,
)
from marlenv.errors import NotInSpec, ShapeError, SpecError
from marlenv.testing.catalogue.specs import mask

DYNAMIC = [
    Unbounded((3, -1, 2)),
    Bounded([[[0.0, 1.0]]], 2, (3, -1, 2)),
    Categorical(3, (3, -1, 2), mask=mask("110")),
    OneHot(3, (3, -1, 2, 3), mask=mask("110")),
    MultiCategorical([2, 3], (3, -1, 2, 2)),
    Composite(x=Unbounded((3, -1, 2, 4)), act=Categorical(3, (3, -1, 2), mask=mask("110")), shape=(3, -1, 2)),
]
every = pytest.mark.parametrize("spec", DYNAMIC, ids=lambda s: type(s).__name__)


@every
def test_any_size_is_accepted_and_an_example_has_size_1(spec):
    assert spec.zero().shape[1] == spec.rand().shape[1] == 1
    for n in (1, 5):
        value = torch.cat([spec.rand() for _ in range(n)], 1)
        assert spec.is_in(value)
        assert spec.is_in(torch.stack([value, value]))


OPERATIONS = {
    "expand": (lambda s: s.expand(4, *s.shape), (4, 3, -1, 2)),
    "unsqueeze": (lambda s: s.unsqueeze(1), (3, 1, -1, 2)),
    "squeeze": (lambda s: s.unsqueeze(0).squeeze(), (3, -1, 2)),
    "number": (lambda s: s[1], (-1, 2)),
    "number in the dynamic dimension": (lambda s: s[:, 7], (3, 2)),
    "everything": (lambda s: s[:, :, 0], (3, -1)),
    "dots": (lambda s: s[..., 0] if s.event_ndim == 0 else s[:, :, 0], (3, -1)),
    "unbind": (lambda s: s.unbind(0)[0], (-1, 2)),
    "permute": (lambda s: s.permute(1, 0, 2), (-1, 3, 2)),
    "reshape": (lambda s: s.reshape(1, *s.shape), (1, 3, -1, 2)),
    "unflatten": (lambda s: s.unflatten(0, (3, 1)), (3, 1, -1, 2)),
    "flatten": (lambda s: s.unsqueeze(2).flatten(1, 2), (3, -1, 2)),
    "stack": (lambda s: torch.stack([s, s], 1), (3, 2, -1, 2)),
    "clone": (lambda s: s.clone(), (3, -1, 2)),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@every
def test_dynamic_dimensions_stay_dynamic(spec, operation):
    change, want = OPERATIONS[operation]
    got = change(spec)
    assert got.shape[: len(want)] == want
    assert got.is_in(got.rand())
    if isinstance(got, Composite):
        assert got["x"].shape == (*want, 4)
        assert got["act"].mask.shape == (*(abs(n) for n in want), 3)


@every
def test_what_needs_the_size_is_refused(spec):
    for wrong in (
        lambda: spec.flatten(0, 1),
        lambda: spec.reshape(-1, *spec.shape[3:]),
        lambda: spec.unbind(1),
        lambda: spec.expand(3, 5, *spec.shape[2:]),
        lambda: spec.unflatten(1, (-1, 2)),
    ):
        with pytest.raises(ShapeError):
            wrong()
    for cut in (slice(1, None), slice(None, None, 2), slice(0, 2)):
        with pytest.raises(IndexError, match=r"dimension 1 has no known size \(-1\)"):
            spec[:, cut]


def test_make_neg_dim_keeps_the_parameters_of_the_first_entry():
    spec = Bounded([[0.0], [1.0]], [[1.0], [2.0]], (2, 1))
    assert float(spec.rand()[1]) >= 1
    assert spec.make_neg_dim(0) is spec
    assert spec.shape == (-1, 1)
    assert spec.is_in(torch.zeros(9, 1))
    assert not spec.is_in(torch.full((9, 1), 1.5))
    hot = Categorical(2, (2,), mask=mask("10", "01"))
    hot.make_neg_dim(-1)
    assert hot.mask.tolist() == [[True, False]]


def test_make_neg_dim_reaches_all_entries():
    spec = Composite(a=Unbounded((2, 3)), b=Composite(c=Categorical(3, (2,)), shape=(2,)), d=None, shape=(2,))
    spec.make_neg_dim(0)
    assert spec.shape == spec["b"].shape == (-1,)
    assert spec["a"].shape == (-1, 3)
    assert spec["b", "c"].shape == (-1,)
    choice = Choice([Categorical(2), Categorical(3)]).expand(4)
    assert choice.make_neg_dim(0).is_in(torch.tensor([0, 1, 2, 2, 2]))


def test_make_neg_dim_of_stacks_reaches_the_parts():
    spec = Stacked(Categorical(2, (3,)), Categorical(4, (3,)), dim=0).make_neg_dim(1)
    assert spec.shape == (2, -1)
    assert spec.is_in(torch.tensor([[0, 1], [3, 3]]))
    team = StackedComposite(
        Composite(x=Unbounded((3, 2)), shape=(3,)), Composite(x=Unbounded((3, 5)), shape=(3,)), dim=1
    )
    team.make_neg_dim(0)
    assert team.shape == (-1, 2)


def ragged(*sizes: int) -> LazyStackedTensorDict:
    """Observations of different sizes, side by side."""
    return LazyStackedTensorDict(
        *[TensorDict({"obs": torch.zeros(n), "act": torch.tensor(0)}) for n in sizes], stack_dim=0
    )


def test_values_of_different_sizes_are_checked_row_by_row():
    row = Composite(obs=Unbounded((-1,)), act=Categorical(3))
    batch, open_end = row.expand(2), row.expand(2).make_neg_dim(0)
    assert batch.is_in(ragged(2, 3))
    assert open_end.is_in(ragged(2, 3, 5))
    assert row.is_in(ragged(2, 3, 5))
    assert row.expand(2).is_in(LazyStackedTensorDict(ragged(1, 2), ragged(3, 4), stack_dim=0))
    assert not Composite(obs=Unbounded((2,)), act=Categorical(3)).is_in(ragged(2, 3))
    assert not row.expand(1, 2).is_in(ragged(2, 3))
    assert not batch.is_in(ragged(2, 3, 4))
    wrong = ragged(2, 3)
    wrong[1]["act"].fill_(7)
    assert not batch.is_in(wrong)
    with pytest.raises(NotInSpec) as caught:
        batch.assert_is_in(wrong)
    assert caught.value.__notes__ == ["in entry 'act'"]
    batch.assert_is_in(ragged(2, 3))


def test_n_may_be_said_later():
    spec = Categorical(-1, (2,))
    for use in (spec.rand, spec.enumerate, spec.cardinality, lambda: spec.to_one_hot(torch.tensor([0, 1]))):
        with pytest.raises(SpecError, match=r"n is not known yet \(n=-1\); say how many values there are"):
            use()
    assert spec.is_in(torch.tensor([5, 99]))
    assert not spec.is_in(torch.tensor([5, -1]))
    assert spec.project(torch.tensor([5, -1])).tolist() == [5, 0]
    spec.set_provisional_n(3)
    assert spec.n == spec.cardinality() == 3
    assert spec.rand((100,)).max() == 2
    assert spec.expand(4, 2).n == spec.clone().n == 3
    assert spec.space.n == -1
    spec.set_provisional_n(None)
    with pytest.raises(SpecError):
        spec.rand()


@pytest.mark.parametrize("count", range(1, 7))
def test_many_dynamic_dimensions(count):
    spec = Unbounded((*[-1] * count, 3))
    assert spec.unsqueeze(1).shape == (-1, 1, *[-1] * (count - 1), 3)
    assert Unbounded((-1, 1_000_003, 2_006)).clone().shape == (-1, 1_000_003, 2_006)
