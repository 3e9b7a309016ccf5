"""Random specs and calls, made by torchrl 0.14.1 too: what differs is in the table, and the table says nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import marlenv as ours

theirs = pytest.importorskip("torchrl.data", reason="the other library")

import differences  # noqa: E402  they import torchrl
import random_calls  # noqa: E402
from differential import campaign, run  # noqa: E402

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "specs-differences.md"
ROWS = {row.name for row in differences.ROWS}
FEW, MANY = 500, 50_000

NOT_CALLED = {
    "CONFLICTING_KWARGS", "SPEC_HANDLED_FUNCTIONS", "implements_for_spec",  # how torchrl is made
    "cuda",  # needs a device
}  # fmt: skip


def told(unexplained: dict) -> str:
    return "\n".join(str(case) for cases in unexplained.values() for case in cases[:2])


def test_few_random_calls_agree_or_are_explained():
    met, unexplained = campaign(range(FEW))
    assert not unexplained, told(unexplained)
    assert met["agree"] > 0.7 * FEW


@pytest.mark.slow
def test_many_random_calls_agree_or_are_explained(sized):
    met, unexplained = campaign(range(sized(MANY // 5, MANY)))
    assert not unexplained, told(unexplained)
    if sized(False, True):
        assert not ROWS - set(met), "rows that nothing shows any more"


def test_the_page_has_the_rows_that_are_recognised():
    rows = re.findall(r"^\| `([\w=-]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert set(rows) == ROWS


def test_every_public_method_is_called():
    """Of every class: ``dir`` of a spec of theirs, but for what the calls name."""
    named = {name for call in random_calls.CALLS.values() for name in call.names}
    leaf = theirs.Bounded(0, 1, (2,))
    kinds = [leaf, theirs.Unbounded(), theirs.Categorical(3), theirs.OneHot(3), theirs.MultiCategorical([2, 3]),
             theirs.MultiOneHot([2, 3]), theirs.Binary(2), theirs.NonTensor(()), theirs.Choice([leaf]),
             theirs.Composite(a=leaf), theirs.Stacked(leaf, leaf, dim=0),
             torch.stack([theirs.Composite(a=leaf), theirs.Composite()])]  # fmt: skip
    public = {name for spec in kinds for name in dir(spec) if not name.startswith("_")}
    assert not public - named - NOT_CALLED


def test_a_case_is_its_number():
    assert str(run(17)) == str(run(17))
    assert str(run(17)) != str(run(18))


FAULTS = {
    "project": (ours.Bounded, "_project", lambda self, value: self.low.expand(value.shape).to(self.dtype) * 0),
    "is_in": (ours.Bounded, "_holds", lambda self, value: True),
    "unsqueeze": (ours.TensorSpec, "unsqueeze", lambda self, dim: self._map(lambda t: t.unsqueeze(0))),
    "pop": (ours.Composite, "_erase", lambda self, name: None),
    "cardinality": (ours.Categorical, "cardinality", lambda self: 3),
    "rand": (ours.Categorical, "_draw", lambda self, lead, generator: torch.zeros(self.shape, dtype=self.dtype)),
    "one-hot": (ours.OneHot, "_number", lambda self, val: val.to(torch.uint8).argmin(-1)),
    "is_in with a missing key": (ours.Composite, "is_in", lambda self, val: False),
    "indices": (ours.TensorSpec, "__getitem__", lambda self, index: self),
    "encode": (ours.TensorSpec, "encode", lambda self, val, ignore_device=False: self.zero()),
    "keys": (ours.Composite, "_names_of_entries", lambda self: list(self._specs)[:1]),
}  # fmt: skip


QUICK = {"unsqueeze", "indices", "keys"}


@pytest.mark.parametrize("fault", [pytest.param(f, marks=() if f in QUICK else pytest.mark.slow) for f in FAULTS])
def test_a_fault_is_found(fault, monkeypatch):
    kind, name, wrong = FAULTS[fault]
    monkeypatch.setattr(kind, name, wrong)
    for start in range(0, 10_000, 100):
        if campaign(range(start, start + 100))[1]:
            return
    pytest.fail(f"the fault in {kind.__name__}.{name} was not found")
