"""The numbers of turns: those of the rewards, to their last digit, in a whole rollout as step by step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import TensorDict, TensorDictBase

from marlenv import TurnView, compact_turns

TURNS = ((0, 4), (4, 6))  # steps in which decisions begin and end


def played(rewards: torch.Tensor) -> TensorDict:
    """A rollout ``[1, 6]`` of one agent that decides in steps 0 and 4."""
    shape = [1, 6, 1]
    mask = torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.bool).reshape(shape)
    over = torch.tensor([0, 0, 0, 0, 0, 1], dtype=torch.bool).reshape(shape)
    seen = torch.zeros(*shape, 2)
    following = {"observation": seen, "mask": mask.roll(-1, 1), "reward": rewards.reshape(*shape, 1)}
    after = TensorDict({"g": TensorDict(following, shape), "done": over, "terminated": over}, shape[:2])
    group = TensorDict({"observation": seen, "mask": mask}, shape)
    return TensorDict({"g": group, "done": torch.zeros_like(over), "next": after}, shape[:2])


def both(data: TensorDict, gamma: float) -> list[TensorDictBase]:
    """The two decisions under ``"next"``, by both ways."""
    view, steps = TurnView(gamma), []
    for t in range(6):
        steps += [view.add(data[:, t])["g"]]
    return [compact_turns(data, gamma)["g"][0, 0]["next"], torch.cat([*steps, view.flush()["g"]])["next"]]


def by_hand(values: list[float], gamma: float) -> list[float]:
    return [sum(gamma ** (t - begin) * values[t] for t in range(begin, end)) for begin, end in TURNS]


@pytest.mark.parametrize("gamma", [1.0, 0.9, 0.5, 0.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_fractions_keep_their_dtype_and_its_precision(dtype: torch.dtype, gamma: float) -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    for found in both(played(torch.tensor(values, dtype=dtype)), gamma):
        reward, discount = found["reward"].flatten(), found["discount"].flatten()
        assert reward.dtype == discount.dtype == dtype
        eps = torch.finfo(dtype).eps
        assert reward.double().tolist() == pytest.approx(by_hand(values, gamma), rel=4 * eps)
        assert discount.double().tolist() == pytest.approx([gamma**4, gamma**2], rel=4 * eps)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_whole_numbers_stay_whole_where_nothing_is_discounted(dtype: torch.dtype) -> None:
    values = [200, 100, 0, 7, 1, 255]
    if dtype == torch.int64:
        values[0] = 2**53 + 1  # which no fraction of 64 bits holds
    for found in both(played(torch.tensor(values, dtype=dtype)), 1):
        assert found["reward"].dtype == torch.int64
        assert found["reward"].flatten().tolist() == by_hand(values, 1)
        assert found["discount"].dtype == torch.float32
        assert found["discount"].flatten().tolist() == [1, 1]


def test_whole_numbers_that_are_discounted_are_fractions() -> None:
    values = [1, 2, 3, 4, 5, 6]
    for found in both(played(torch.tensor(values)), 0.5):
        assert found["reward"].dtype == found["discount"].dtype == torch.float32
        assert found["reward"].flatten().tolist() == by_hand(values, 0.5) == [3.25, 8]


def test_what_is_undecided_has_the_dtype_of_the_sums() -> None:
    for dtype, gamma, kept in ((torch.float16, 0.5, torch.float16), (torch.int32, 1, torch.int64)):
        data = played(torch.tensor([1, 2, 3, 4, 5, 6], dtype=dtype))
        data["g", "mask"][0, 0] = False
        view = TurnView(gamma)
        for t in range(6):
            view.add(data[:, t])
        for found in (compact_turns(data, gamma)["undecided", "g"], view.undecided["g"]):
            assert found.dtype == kept
            assert found.item() == 1 + 2 + 3 + 4


@pytest.fixture
def doubled() -> Any:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def test_the_default_dtype_changes_nothing(doubled: Any) -> None:
    rewards = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], dtype=torch.float32)
    for found in both(played(rewards), 0.9):
        assert found["reward"].dtype == found["discount"].dtype == torch.float32


def test_steps_of_long_turns_are_counted_out_in_bfloat16() -> None:
    """300 steps, which bfloat16 cannot count: 0.99 to the power of 299 is 0.0495, and of 300 0.0490."""
    data, gamma = played(torch.zeros(6, dtype=torch.bfloat16)), 0.99
    long = torch.cat([data[:, :1], *[data[:, 1:2]] * 298, data[:, 5:]], 1)
    long["next", "g", "reward"][:, -1] = 1
    found = compact_turns(long, gamma)["g", "next"]
    assert found["reward"].item() == torch.tensor(gamma**299, dtype=torch.bfloat16).item()
    assert found["discount"].item() == torch.tensor(gamma**300, dtype=torch.bfloat16).item()
