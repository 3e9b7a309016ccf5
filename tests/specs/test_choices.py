"""Choices between composites of different entries, and between pieces of data that hold arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from marlenv import Bounded, Categorical, Choice, Composite, MultiOneHot, NonTensor, OneHot
from marlenv.errors import EntryMissing, SpecError

MOVE, SAY = Composite(move=Categorical(4)), Composite(say=Categorical(9))


def test_choices_of_other_entries_judge_their_own_draws() -> None:
    spec = Choice([MOVE, SAY])
    drawn = [spec.rand() for _ in range(30)]
    assert {name for value in drawn for name in value.keys()} == {"move", "say"}
    assert all(spec.is_in(value) for value in drawn)
    assert not spec.is_in(TensorDict({"say": torch.tensor(9)}))
    assert not spec.is_in(TensorDict({}))


def test_choices_of_other_entries_are_repaired_and_translated_by_the_one_that_has_them() -> None:
    spec = Choice([MOVE, SAY])
    assert spec.project(TensorDict({"say": torch.tensor(12)}))["say"] == 8
    assert spec.to_numpy(TensorDict({"say": torch.tensor(7)})) == {"say": 7}
    assert spec.encode({"say": 1})["say"] == 1
    with pytest.raises(EntryMissing, match="'move'"):
        spec.project(TensorDict({}))


def test_every_row_makes_a_choice_of_its_own_entries() -> None:
    spec = Choice([MOVE, SAY]).expand(12)
    value = spec.rand((2,), rng=torch.Generator().manual_seed(0))
    assert spec.is_in(value)
    given = spec.to_numpy(value)
    assert {name for row in given for one in row for name in one} == {"move", "say"}
    back = spec.encode(given)
    for was, now in zip(value.reshape(-1).unbind(0), back.reshape(-1).unbind(0), strict=True):
        assert was.to_dict() == now.to_dict()


def test_a_choice_that_cannot_encode_a_value_leaves_it_to_the_next() -> None:
    spec = Choice([MultiOneHot([2, 2]), OneHot(4)])
    assert spec.encode(3).tolist() == [False, False, False, True]
    assert Choice([OneHot(4), MultiOneHot([2, 2])]).encode(3).tolist() == [False, False, False, True]
    with pytest.raises(SpecError, match="which make no tensor"):
        Choice([Bounded(0, 1, (2,)), Bounded(4, 5, (2,))]).encode("text")


def data(end: float) -> dict[str, object]:
    return {"a": np.array([1.0, end]), "b": [torch.ones(2), ("text", np.zeros(3))]}


def test_data_that_hold_arrays_are_compared_as_a_whole() -> None:
    one, same, other = (NonTensor((), example_data=data(end)) for end in (2.0, 2.0, 3.0))
    assert one == same
    assert one != other
    assert torch.stack([one, same]).shape == (2,)
    spec = Choice([data(2.0), data(3.0)])
    assert spec == Choice([data(2.0), data(3.0)])
    assert [spec.is_in(data(end)) for end in (2.0, 3.0, 4.0)] == [True, True, False]
