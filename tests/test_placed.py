"""Data that are on a device already are said to be there, as ``td.to(device)`` says it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tensordict import LazyStackedTensorDict, NonTensorData, TensorDict, TensorDictBase

from marlenv.tensordicts import placed

CPU, META = torch.device("cpu"), torch.device("meta")


def plain() -> TensorDict:
    return TensorDict({"a": torch.ones(2), "agents": {"b": torch.zeros(2, 3), "c": {"d": torch.ones(2)}}}, [2])


def with_stack() -> TensorDict:
    parts = [TensorDict({"x": torch.full((2,), n)}, [2]) for n in (1, 2)]
    return plain().set("stacked", LazyStackedTensorDict(*parts, stack_dim=1))


def with_word() -> TensorDict:
    return plain().set("word", NonTensorData("hello", batch_size=[2]))


def locked_inside() -> TensorDict:
    td = plain()
    td["agents"].lock_()
    return td


@pytest.mark.parametrize("make", [plain, with_stack, with_word, locked_inside])
@pytest.mark.parametrize("device", [CPU, META], ids=str)
def test_it_is_what_to_gives(make: Callable[[], TensorDict], device: torch.device) -> None:
    td = make()
    ours, theirs = placed(td, device), td.to(device)
    assert list(ours.keys(True)) == list(theirs.keys(True))
    for key in ours.keys(True):
        mine, other = ours.get(key), theirs.get(key)
        if isinstance(mine, NonTensorData):
            assert mine.data == other.data == "hello"
            continue
        assert mine.device == other.device == device, key
        if isinstance(mine, TensorDictBase):
            assert type(mine) is type(other), key
            assert mine.batch_size == other.batch_size, key
            assert mine.is_locked == other.is_locked, key
        elif device == CPU:
            assert torch.equal(mine, td.get(key)), key
    assert td.device is None
