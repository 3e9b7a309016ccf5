"""Bounds that are written in place hold at once, for this spec alone."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from marlenv import Bounded

INSIDE, OUTSIDE = torch.tensor([-4.0, 0.0]), torch.tensor([0.0, -4.0])


def widened() -> Bounded:
    """-5..1 and -1..1, where every number was computed before the bound was written."""
    spec = Bounded(-1, 1, (2,))
    assert not spec.is_in(INSIDE)
    spec.rand()
    spec.space.low[0] = -5
    return spec


def test_one_element_changes_and_checks_draws_and_repairs_follow() -> None:
    spec = widened()
    assert spec.space.low.tolist() == [-5, -1]
    assert (spec.is_in(INSIDE), spec.is_in(OUTSIDE)) == (True, False)
    assert spec.project(torch.tensor([-9.0, -9.0])).tolist() == [-5, -1]
    drawn = spec.rand((4000,), rng=torch.Generator().manual_seed(0))
    assert drawn.amin(0).tolist() == pytest.approx([-5, -1], abs=0.02)
    assert drawn.mean(0).tolist() == pytest.approx([-2, 0], abs=0.1)


def test_whole_numbers_follow_too() -> None:
    spec = Bounded(0, 9, (2,), dtype=torch.int64)
    assert len(spec.enumerate()) == 10
    spec.space.high.fill_(3)
    assert len(spec.enumerate()) == 4
    spec.low[0] = 3
    assert set(spec.rand((60,))[:, 0].tolist()) == {3}


def test_a_bound_may_be_scaled() -> None:
    spec = Bounded(-1, 1, (2,))
    spec.space.low *= 5
    spec.high /= 2
    assert (spec.low.tolist(), spec.high.tolist()) == ([-5, -5], [0.5, 0.5])


@pytest.mark.parametrize(
    "derived",
    [
        lambda spec: spec.unsqueeze(0)[0],
        lambda spec: spec.expand(3, 2)[1],
        lambda spec: torch.stack([spec, spec])[0],
        lambda spec: spec.reshape(1, 2)[0],
        lambda spec: spec.clone(),
        copy.deepcopy,
        lambda spec: pickle.loads(pickle.dumps(spec)),
    ],
)
@pytest.mark.parametrize("read", [False, True])
def test_neither_a_spec_nor_what_is_made_of_it_changes_the_other(derived, read) -> None:
    spec = widened()
    made = derived(spec)
    if read:
        assert made.low.tolist() == [-5, -1]
    spec.space.low[1] = -8
    assert made == widened()
    assert (made.is_in(INSIDE), made.is_in(OUTSIDE)) == (True, False)
    made.space.low.zero_()
    assert (spec.is_in(INSIDE), spec.is_in(OUTSIDE)) == (True, True)
    assert not made.is_in(INSIDE)


def test_bounds_given_as_tensors_stay_the_callers() -> None:
    low = torch.tensor([-1.0, -1.0])
    spec = Bounded(low, 1, (2,))
    spec.space.low[0] = -5
    low[1] = -9
    assert (spec.low.tolist(), low.tolist()) == ([-5, -1], [-1, -9])


def test_bounds_made_in_inference_mode_follow() -> None:
    with torch.inference_mode():
        spec = widened()
        assert (spec.is_in(INSIDE), spec.is_in(OUTSIDE)) == (True, False)


@pytest.mark.reference
def test_torchrl_does_the_same() -> None:
    data = pytest.importorskip("torchrl.data")
    theirs = data.Bounded(-1, 1, (2,))
    theirs.space.low[0] = -5
    ours = widened()
    assert ours.space.low.tolist() == theirs.space.low.tolist()
    assert [ours.is_in(v) for v in (INSIDE, OUTSIDE)] == [bool(theirs.is_in(v)) for v in (INSIDE, OUTSIDE)]
