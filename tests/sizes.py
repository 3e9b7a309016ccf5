"""How many cases of a test run each day, and how many with --full; `sized` of conftest.py does so within a test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

LONG = ("waterfall", "sampling", "road_traffic", "pollock")
"""Scenarios whose machine code takes minutes to compile."""


def some(cases: Iterable[Any], every: int, *marks: pytest.MarkDecorator) -> list[Any]:
    """The cases of a parametrized test, tuples where it has several names: all with --full, else one of ``every``."""
    names = [case if isinstance(case, tuple) else (case,) for case in cases]
    left_out = [*marks, pytest.mark.full]
    return [pytest.param(*each, marks=left_out if i % every else marks) for i, each in enumerate(names)]


def compiled(names: Iterable[str], every: int, *marks: pytest.MarkDecorator) -> list[Any]:
    """Scenarios whose machine code is tested, as :func:`some` has them; those that take minutes with --full only."""
    names = list(names)
    long = [pytest.param(name, marks=[*marks, pytest.mark.full]) for name in names if name in LONG]
    return [*some([name for name in names if name not in LONG], every, *marks), *long]
