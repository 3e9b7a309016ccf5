"""Merging after a reset: what is not reset keeps its values bit for bit."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from marlenv.groups import DonePlan, merge, read_masks
from tensordict import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDict

from marlenv import Binary, Composite
from marlenv.errors import ResetError
from marlenv.tensordicts import unite

B, A = 3, 2


def plan_of(root: bool, nested: bool, rows=(B,), agents=A):
    spec = Composite(shape=rows)
    if root:
        spec["done"] = Binary(shape=(*rows, 1), dtype=torch.bool)
    if nested:
        spec["g"] = Composite(done=Binary(shape=(*rows, agents, 1), dtype=torch.bool), shape=(*rows, agents))
    return DonePlan(spec)


def data(fill: float, *, stacked: bool = False):
    """Entries of every sort, all of them ``fill``."""
    group = TensorDict(
        {"x": torch.full((B, A, 4), fill), "alive": torch.full((B, A), fill), "one": torch.full((B, A, 1), fill)},
        [B, A],
    )
    if stacked:
        parts = [TensorDict({"x": torch.full((B, 2 + i), fill)}, [B]) for i in range(A)]
        group = LazyStackedTensorDict(*parts, stack_dim=1)
    text = NonTensorStack(*[NonTensorData(str(fill))] * B)
    return TensorDict(
        {"obs": torch.full((B, 5), fill), "scalar": torch.full((B,), fill), "g": group, "text": text}, [B]
    )


masks = st.lists(st.booleans(), min_size=B, max_size=B).map(lambda bits: torch.tensor(bits).unsqueeze(-1))
agent_masks = st.lists(st.booleans(), min_size=B * A, max_size=B * A).map(lambda b: torch.tensor(b).reshape(B, A, 1))


@given(mask=masks, stacked=st.booleans())
def test_a_root_mask_governs_every_entry_below_it(mask, stacked):
    fresh, kept = data(1.0, stacked=stacked), data(7.0, stacked=stacked)
    out = merge({(): mask}, fresh, kept)
    assert out is kept
    for i, reset in enumerate(mask.flatten().tolist()):
        want = 1.0 if reset else 7.0
        assert (out["obs"][i] == want).all()
        assert out["scalar"][i] == want
        assert out["text"][i] == str(want) if isinstance(out["text"][i], str) else out["text"][i].data == str(want)
        for agent in range(A):
            assert (out["g"][i, agent]["x"] == want).all()


@given(mask=agent_masks)
def test_a_group_mask_governs_its_agents_and_nothing_else(mask):
    kept, before = data(7.0), data(7.0)
    out = merge(read_masks(plan_of(False, True), with_mask(kept, ("g", "_reset"), mask)), data(1.0), kept)
    for key in ("x", "alive", "one"):
        value = out["g", key].reshape(B, A, -1)
        assert torch.equal(value, torch.where(mask, 1.0, 7.0).expand_as(value))
    rows = mask.flatten(1).any(-1, keepdim=True)  # no level above: rows in which anything is reset start anew there
    assert torch.equal(out["obs"], torch.where(rows, torch.ones_like(before["obs"]), before["obs"]))


def with_mask(td, key, mask):
    td.set(key, mask)
    return td


@given(root=masks, nested=agent_masks)
def test_a_root_mask_overrides_nested_ones(root, nested):
    kept = with_mask(with_mask(data(7.0), "_reset", root), ("g", "_reset"), nested)
    found = read_masks(plan_of(True, True), kept)
    assert list(found) == [()]
    out = merge(found, data(1.0), kept)
    assert torch.equal(out["g", "x"], torch.where(root.unsqueeze(-1), 1.0, 7.0).expand(B, A, 4))


def test_an_absent_mask_resets_the_whole_level():
    found = read_masks(plan_of(True, True), data(7.0))
    assert found == {(): None}
    assert (merge(found, data(1.0), data(7.0))["g", "x"] == 1).all()


def test_a_mask_that_flags_above_overrule_cannot_stand_alone():
    td = with_mask(data(7.0), ("g", "_reset"), (torch.arange(B * A) % A == 1).reshape(B, A, 1))
    with pytest.raises(
        ResetError, match=r"\('g', '_reset'\) cannot stand alone; the done flags above it decide"
    ) as told:
        read_masks(plan_of(True, True), td)
    exec(str(told.value).split("'_reset': ")[-1], {"td": td})  # what it says to write
    assert torch.equal(read_masks(plan_of(True, True), td)[()], torch.ones(B, 1, dtype=torch.bool))


def test_kept_rows_are_bit_for_bit_what_they_were():
    odd = torch.tensor([[float("nan"), -0.0], [float("inf"), 1e-45]])
    kept = TensorDict({"x": odd.clone()}, [2])
    merge({(): torch.zeros(2, 1, dtype=torch.bool)}, TensorDict({"x": torch.ones(2, 2)}, [2]), kept)
    assert torch.equal(kept["x"].view(torch.int32), odd.view(torch.int32))


def test_merging_writes_no_leaf_in_place():
    x = torch.zeros(2, 1)
    kept = TensorDict({"x": x}, [2])
    merge({(): torch.ones(2, 1, dtype=torch.bool)}, TensorDict({"x": torch.ones(2, 1)}, [2]), kept)
    assert not x.any()


def test_entries_of_one_side_only():
    mask = torch.tensor([[True], [False]])
    kept = TensorDict({"old": torch.zeros(2)}, [2])
    out = merge({(): mask}, TensorDict({"new": torch.ones(2)}, [2]), kept)
    assert (out["old"].tolist(), out["new"].tolist()) == ([0.0, 0.0], [1.0, 1.0])


def test_masks_under_next_are_not_asked_for():
    td = TensorDict({"next": TensorDict({"_reset": torch.ones(B, 1).bool()}, [B])}, [B])
    assert read_masks(plan_of(True, False), td) == {(): None}


@pytest.mark.parametrize(
    ("key", "mask", "text"),
    [
        (
            ("g", "_reset"),
            torch.ones(B, A, 1).bool(),
            r"\('g', '_reset'\) has no done flag beside it; .* takes \['_reset'\]",
        ),
        ("_reset", torch.ones(B, 1), r"'_reset' must be a bool tensor of shape \[3, 1\], got torch.float32"),
        ("_reset", torch.ones(B, 2).bool(), r"must have the shape of the done flag beside it, \[3, 1\], got \[3, 2\]"),
    ],
)
def test_faults_of_masks(key, mask, text):
    with pytest.raises(ResetError, match=text):
        read_masks(plan_of(True, False), with_mask(data(0.0), key, mask))


def test_stacks_of_agents_and_of_rows_are_united_by_agent() -> None:
    """Parts were taken by their number: rows of the one were written to agents of the other."""
    rows = torch.arange(B * B, dtype=torch.float32).reshape(B, B)
    agents = LazyStackedTensorDict(*[TensorDict({"x": torch.zeros(B)}, [B]) for _ in range(B)], stack_dim=1)
    more = LazyStackedTensorDict(*[TensorDict({"y": row}, [B]) for row in rows], stack_dim=0)
    out = unite(agents, more)
    assert out is agents
    assert torch.equal(out["y"], more["y"])
    assert torch.equal(out["y"], rows)
