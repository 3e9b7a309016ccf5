"""Sizes, dimensions and indices as NumPy gives them: narrow, and without dimensions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from marlenv import Bounded, Categorical, Composite, MultiCategorical, OneHot, Unbounded
from marlenv.errors import BadIndex


@pytest.mark.parametrize(
    "index",
    [
        np.array([199, 0], dtype=np.uint8),
        torch.tensor([199, 0], dtype=torch.uint8),
        np.array([-1, 0], dtype=np.int8),
        np.array([-1, 0], dtype=np.int16),
        torch.tensor([-1, -200]),
    ],
)
def test_indices_of_any_integer_type_name_the_same_entries(index: object) -> None:
    rows = torch.arange(200.0)
    spec = Bounded(rows, rows + 1)[index]
    assert spec.low.tolist() == [199, 0]


def test_narrow_indices_out_of_range_are_refused() -> None:
    with pytest.raises(BadIndex, match=r"index \[150\] is out of range for size 100"):
        Categorical(3, (100,))[np.array([150], dtype=np.uint8)]


def test_numbers_of_numpy_are_sizes_and_dimensions() -> None:
    two, one = np.int64(2), np.int64(1)
    assert Categorical(2).expand(two).shape == (2,)
    assert Categorical(2, (2,)).reshape(two).shape == Categorical(2, (2,)).view(two).shape == (2,)
    assert torch.stack([Categorical(3, (1,)), Categorical(5, (1,))]).squeeze(one).shape == (2,)
    assert Categorical(np.array(3), np.array(2)) == Categorical(3, (2,))
    assert OneHot(np.array(3)) == OneHot(3)


def test_several_dimensions_are_squeezed_at_once() -> None:
    assert Unbounded((1, 1, 3)).squeeze((0, 1)).shape == torch.zeros(1, 1, 3).squeeze((0, 1)).shape
    assert Composite(shape=(1, 2, 1), names=["a", "b", "c"]).squeeze((0, -1)).names == ["b"]
    assert torch.stack([Categorical(3, (1, 1)), Categorical(5, (1, 1))]).squeeze((1, 2)).shape == (2,)


def test_values_are_counted_beyond_64_bits() -> None:
    assert MultiCategorical([2**40, 2**41]).cardinality() == 2**81
    assert MultiCategorical([[2, 3], [4, 5]]).cardinality() == 20


def test_several_choices_on_the_meta_device() -> None:
    spec = MultiCategorical([2, 3], device="meta")
    assert (spec.rand((4,)).shape, spec.cardinality(), spec.to_one_hot_spec().rand().shape) == ((4, 2), 6, (5,))
    assert MultiCategorical([2, 3]).to("meta").rand().is_meta
