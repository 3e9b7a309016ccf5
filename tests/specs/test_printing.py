"""Printing: one line per entry, and a leaf on one line."""

from __future__ import annotations

import pytest
import torch

from marlenv import Bounded, Categorical, Choice, Composite, MultiOneHot, NonTensor, OneHot, Stacked, Unbounded
from marlenv.testing.catalogue.specs import SPECS, inside, mask

DEEP = """\
Composite [4]
  wolves        [4, 3]
    observation [4, 3]
      image     [4, 3, 2, 2]  uint8    Bounded 0..255
      speed     [4, 3, 2]     float32  Unbounded
    action      [4, 3]        int64    Categorical n=3, masked
  reward        [4, 1]        float32  Unbounded
  done          [4, 1]        bool     Binary n=2
  terminated    [4, 1]        bool     Binary n=2"""

STACKS = """\
Composite [4]
  team                   [4, 2]                 stacked along dimension 1
    obs                  [4, 2, -1]  float32    Stacked 2 x Bounded
    act                  [4, 2]      int64      Stacked 2 x Categorical
    claws (part 1 only)  [4, 2]      bool       OneHot n=2
  step                   [4, 1]      float32    Unbounded"""


def lines(text: str) -> list[list[str]]:
    """The columns of a table, however wide."""
    return [line.split() for line in text.splitlines()]


@pytest.mark.parametrize(("name", "want"), [("composite deep", DEEP), ("composite of stacks", STACKS)])
def test_a_composite_prints_one_line_per_entry(name, want):
    spec = next(e for e in SPECS if e.name == name).make()
    assert lines(str(spec)) == lines(want)


def test_columns_are_aligned():
    spec = Composite(
        a=Unbounded((2,)), longer=Composite(b=Categorical(10, (2, 3))), text=NonTensor((), example_data="hi"), hole=None
    )
    assert str(spec) == (
        "Composite []\n"
        "  a       [2]     float32  Unbounded\n"
        "  longer  []\n"
        "    b     [2, 3]  int64    Categorical n=10\n"
        "  text    []               NonTensor e.g. 'hi'\n"
        "  hole                     None"
    )


def test_the_device_stands_in_the_first_line():
    assert str(Composite(device="cpu")) == "Composite [] on cpu"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (Bounded(-1, 1, (2, 3)), "Bounded([2, 3], float32, -1..1)"),
        (Bounded([0.0, -2.0], [1.0, 5.0]), "Bounded([2], float32, -2..5)"),
        (Unbounded((-1, 2), dtype=torch.int64), "Unbounded([-1, 2], int64)"),
        (Categorical(3, mask=mask("110")), "Categorical([], int64, n=3, masked)"),
        (OneHot(3), "OneHot([3], bool, n=3)"),
        (MultiOneHot([2, 3]), "MultiOneHot([5], bool, nvec=[2, 3])"),
        (NonTensor((2,), example_data="x"), "NonTensor([2], e.g. 'x')"),
        (Choice([Categorical(2), Categorical(3)]), "Choice([], int64, 2 choices)"),
        (Stacked(Unbounded((2,)), Unbounded((3,)), dim=0), "Stacked([2, -1], float32, 2 x Unbounded)"),
    ],
)
def test_a_leaf_prints_on_one_line(spec, text):
    assert repr(spec) == text


@pytest.mark.parametrize("example", SPECS, ids=lambda e: e.name)
def test_prints_fit_a_screen(example):
    spec = example.make()
    text = str(spec)
    assert max(len(line) for line in text.splitlines()) <= 120
    assert len(text.splitlines()) <= 1 + len(list(inside(spec)))
