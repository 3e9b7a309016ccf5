"""The packer's column path does what the packer does entry by entry, complaints included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from marlenv.groups import GroupTree, Packer

from marlenv import Binary, Bounded, Composite, OneHot, Unbounded
from marlenv.errors import DtypeError, GroupError, ShapeError

TREE = GroupTree({"wolves": ["a", "b"], "rest": {"of_them": ["c"]}})
ALIKE = Composite(
    observation=Composite(sight=Unbounded((2, 3)), count=Unbounded((), dtype=torch.int64)),
    picture=Bounded(0, 255, (2, 2, 3), dtype=torch.uint8),
    action_mask=Binary(shape=(4,), dtype=torch.bool),
    reward=Unbounded((1,), dtype=torch.float64),
)
OTHERS = {"one-hot": OneHot(3), "zero is not allowed": Bounded(1, 2, (2,)), "of its own": Unbounded((5,))}


def specs_of(other: str | None) -> dict[str, Composite]:
    if other is None:
        return dict.fromkeys("abc", ALIKE)
    odd = Composite({**dict(ALIKE.items()), "odd": OTHERS[other]})
    return {"a": ALIKE if other == "of its own" else odd, "b": odd, "c": odd}


def entries(rng: np.random.Generator, spec: Composite) -> dict[str, Any]:
    """Random values, some of them missing, as simulators give them: arrays of other dtypes, numbers, nothing."""
    data: dict[str, Any] = {
        "observation": {"sight": rng.normal(size=(2, 3)), "count": int(rng.integers(9))},
        "picture": rng.integers(0, 256, (2, 2, 3)).astype(np.uint8),
        "action_mask": rng.integers(0, 2, 4).astype(np.int8),
        "reward": float(rng.normal()),
    }
    if "odd" in spec:
        data["odd"] = (
            rng.uniform(1, 2, spec["odd"].shape).astype(np.float32)
            if not isinstance(spec["odd"], OneHot)
            else int(rng.integers(3))
        )
    return {name: value for name, value in data.items() if rng.random() > 0.2}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([None, *OTHERS]))
def test_data_are_packed_alike(seed: int, other: str | None) -> None:
    rng, specs = np.random.default_rng(seed), specs_of(other)
    data = {agent: entries(rng, spec) if rng.random() > 0.2 else {} for agent, spec in specs.items()}
    packer = Packer(TREE, specs)
    assert (packer.columns is not None) == (other is None)
    ours, theirs = packer.pack(data), packer._pack_groups(data)
    assert ours.batch_size == theirs.batch_size
    for agent in "abc":
        where, i = TREE.place[agent]
        for key, value in theirs.get(where if len(where) > 1 else where[0])[i].items(True, True):
            got = ours.get(where if len(where) > 1 else where[0])[i].get(key)
            assert got.dtype == value.dtype
            assert torch.equal(got, value), (agent, key)


@pytest.mark.parametrize(
    ("bad", "error", "says"),
    [
        ({"action_mask": np.ones(3)}, ShapeError, r"entry 'action_mask' of agent 'b' must have shape \[4\], got \[3\]"),
        ({"picture": np.uint8(3)}, ShapeError, r"entry 'picture' of agent 'b' must have shape \[2, 2, 3\], got \[\]"),
        ({"observation": {"count": 0.5}}, DtypeError, "expected whole numbers"),
        ({"observation": np.zeros(3)}, GroupError, r"entry 'observation' of agent 'b' must be a mapping"),
    ],
)
def test_complaints_are_the_packers(bad: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Packer(TREE, specs_of(None)).pack({"a": {}, "b": bad, "c": {}})


@pytest.mark.parametrize("value", [300, -129, np.int64(300), np.array([300]), np.array([300.0]), 2**70], ids=str)
@pytest.mark.parametrize("columns", [True, False])
def test_numbers_that_would_wrap_around_are_refused_on_both_ways(value: Any, columns: bool) -> None:
    packer = Packer(GroupTree({"g": ["a", "b"]}), dict.fromkeys("ab", Composite(o=Unbounded((1,), dtype=torch.int8))))
    if not columns:
        packer.columns = None
    with pytest.raises(DtypeError, match=r"entry 'o' of agent 'b': expected numbers in -128..127, which int8 holds"):
        packer.pack({"a": {"o": 5}, "b": {"o": value}})
    assert packer.pack({"a": {"o": -128}, "b": {"o": np.int64(127)}})["g", "o"].tolist() == [[-128], [127]]
