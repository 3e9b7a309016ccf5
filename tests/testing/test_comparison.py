"""What comparing tensordicts sees: numbers bit for bit, texts, entries that one lacks, agents of unequal sizes."""

from __future__ import annotations

import pytest
import torch
from tensordict import LazyStackedTensorDict, NonTensorStack, TensorDict

from marlenv.testing.comparison import differences, leaves, same

NAN = float("nan")


def texts(*words: str) -> TensorDict:
    return TensorDict({"chess": TensorDict({"fen": NonTensorStack(*words)}, [len(words)])}, [len(words)])


def test_texts_are_compared() -> None:
    assert not differences(texts("a", "b"), texts("a", "b"))
    assert differences(texts("a", "b"), texts("a", "c")) == ["('chess', 'fen')"]
    assert differences(TensorDict({"san": "e4"}, []), TensorDict({"san": "d4"}, [])) == ["san"]
    assert differences(TensorDict({"n": "1"}, []), TensorDict({"n": torch.tensor(1)}, [])) == ["n"]


def test_what_one_lacks_is_a_difference() -> None:
    whole = TensorDict({"x": torch.ones(1), "text": "e4"}, [])
    assert differences(whole, whole.exclude("text")) == ["text"]
    assert differences(whole.exclude("x"), whole) == ["x"]


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (torch.tensor([NAN, 1.0]), torch.tensor([NAN, 1.0]), True),
        (torch.tensor([NAN, 1.0]), torch.tensor([0.0, 1.0]), False),
        (torch.ones(2), torch.ones(2).double(), False),
        (torch.ones(2), torch.ones(1, 2), False),
        (torch.ones(2), torch.ones(2).nextafter(torch.zeros(2)), False),
        (torch.tensor([True]), torch.tensor([True]), True),
        (torch.tensor(1), "1", False),
    ],
)
def test_tensors_are_equal_bit_for_bit(a: object, b: object, equal: bool) -> None:
    assert same(a, b) is equal


def test_agents_of_unequal_sizes_are_compared_one_by_one() -> None:
    def group(last: float) -> TensorDict:
        agents = [TensorDict({"x": torch.zeros(2)}, []), TensorDict({"x": torch.tensor([0, 0, last])}, [])]
        return TensorDict({"agents": LazyStackedTensorDict(*agents, stack_dim=0)}, [])

    assert set(leaves(group(1))) == {("agents", "0", "x"), ("agents", "1", "x")}
    assert differences(group(1), group(2)) == ["('agents', '1', 'x')"]
