"""The names that TorchRL had: each warns, names its successor, and takes the arguments it took."""

from __future__ import annotations

import pytest
import torch

import marlenv
import marlenv.specs
from marlenv import (
    Binary,
    Bounded,
    Categorical,
    CategoricalBox,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    Stacked,
    StackedComposite,
    Unbounded,
)
from marlenv.specs.legacy import SUCCESSORS, TABLE, resolve

CALLS = {
    "CompositeSpec": (lambda C: C({"a": Unbounded((2,))}, b=Binary(1)), Composite(a=Unbounded((2,)), b=Binary(1))),
    "BoundedTensorSpec": (lambda C: C(minimum=0, maximum=1, shape=(2,)), Bounded(0, 1, (2,))),
    "BoundedContinuous": (lambda C: C(-1, 1, torch.Size([2]), domain="continuous"), Bounded(-1, 1, (2,))),
    "BoundedDiscrete": (lambda C: C(low=0, high=5, shape=(2,), dtype=torch.int64, domain="discrete"),
                        Bounded(0, 5, (2,), dtype=torch.int64)),
    "UnboundedContinuousTensorSpec": (lambda C: C((2,)), Unbounded((2,))),
    "UnboundedDiscreteTensorSpec": (lambda C: C((2,)), Unbounded((2,), dtype=torch.int64)),
    "UnboundedContinuous": (lambda C: C(shape=(2,), domain="continuous"), Unbounded((2,))),
    "UnboundedDiscrete": (lambda C: C((2,), None, torch.int32), Unbounded((2,), dtype=torch.int32)),
    "DiscreteTensorSpec": (lambda C: C(n=2, shape=torch.Size([3, 1]), dtype=torch.bool),
                           Categorical(2, (3, 1), dtype=torch.bool)),
    "OneHotDiscreteTensorSpec": (lambda C: C(3, (2, 3)), OneHot(3, (2, 3))),
    "MultiDiscreteTensorSpec": (lambda C: C([2, 3], dtype=torch.int32), MultiCategorical([2, 3], dtype=torch.int32)),
    "MultiOneHotDiscreteTensorSpec": (lambda C: C([2, 3]), MultiOneHot([2, 3])),
    "BinaryDiscreteTensorSpec": (lambda C: C(3, dtype=torch.bool), Binary(3, dtype=torch.bool)),
    "NonTensorSpec": (lambda C: C((2,)), NonTensor((2,))),
    "LazyStackedTensorSpec": (lambda C: C(Categorical(2), Categorical(3), dim=0),
                              Stacked(Categorical(2), Categorical(3), dim=0)),
    "LazyStackedCompositeSpec": (lambda C: C(Composite(), Composite(a=Binary(1)), dim=0),
                                 StackedComposite(Composite(), Composite(a=Binary(1)), dim=0)),
    "DiscreteBox": (lambda C: C(4), CategoricalBox(4)),
    "BinaryBox": (lambda C: C(4), CategoricalBox(4)),
}  # fmt: skip


def old(name: str):
    with pytest.warns(
        DeprecationWarning, match=f"{name} is the old name of marlenv.{SUCCESSORS[name]}; use {SUCCESSORS[name]}"
    ):
        return getattr(marlenv.specs, name)


@pytest.mark.parametrize("name", TABLE)
def test_old_names_take_the_old_arguments(name):
    make, want = CALLS[name]
    kind = old(name)
    made = make(kind)
    assert made == want
    assert type(made) is type(want) is getattr(marlenv, SUCCESSORS[name])
    assert isinstance(made, kind)
    assert issubclass(type(made), kind)
    assert not isinstance(3, kind)


@pytest.mark.parametrize("name", TABLE)
def test_old_names_are_found_in_the_package_too(name):
    with pytest.warns(DeprecationWarning, match=f"{name} is the old name"):
        kind = getattr(marlenv, name)
    assert isinstance(CALLS[name][1], kind)


def test_the_warning_points_at_the_caller():
    with pytest.warns(DeprecationWarning, match="is the old name") as caught:
        resolve("CompositeSpec"), marlenv.specs.DiscreteTensorSpec
    assert [w.filename for w in caught] == [__file__, __file__]


def test_old_names_ask_for_the_domain_too():
    with pytest.warns(DeprecationWarning, match="is the old name"):
        continuous, discrete = marlenv.specs.UnboundedContinuous, marlenv.specs.BoundedDiscrete
    assert not isinstance(Unbounded((2,), dtype=torch.int64), continuous)
    assert not isinstance(Bounded(0, 1, (2,)), discrete)
    assert isinstance(Bounded(0, 1, (2,), dtype=torch.int64), discrete)


def test_old_spellings_work_nowhere_else():
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        Bounded(minimum=0, maximum=1, shape=(2,))
    with pytest.warns(DeprecationWarning, match="is the old name"), pytest.raises(TypeError, match="minimun"):
        marlenv.specs.BoundedTensorSpec(minimun=0, maximum=1, shape=(2,))
    assert not hasattr(Bounded(0, 1, (2,)).space, "minimum")


def test_a_name_that_never_was_is_an_error():
    with pytest.raises(AttributeError, match="marlenv.specs has no 'BoundedSpec'"):
        marlenv.specs.BoundedSpec


def test_every_old_name_is_tested():
    assert set(CALLS) == set(TABLE)
