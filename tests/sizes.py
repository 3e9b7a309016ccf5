"""Which cases of a test run in which tier, and with --full only; `sized` of conftest.py does so within a test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

LONG = ("waterfall", "sampling", "road_traffic", "pollock", "territory")
"""Scenarios whose machine code takes minutes to compile."""


def some(cases: Iterable[Any], every: int, *marks: pytest.MarkDecorator) -> list[Any]:
    """The cases of a parametrized test, tuples where it has several names: all with --full, else one of ``every``."""
    return _others(cases, every, pytest.mark.full, marks)


def first(cases: Iterable[Any], every: int, *marks: pytest.MarkDecorator) -> list[Any]:
    """One of ``every`` case for `make test`, and the others with the slow tests."""
    return _others(cases, every, pytest.mark.slow, marks)


def _others(cases: Iterable[Any], every: int, mark: pytest.MarkDecorator, marks: tuple[Any, ...]) -> list[Any]:
    names = [case if type(case) is tuple else (case,) for case in cases]  # a NamedTuple is one
    return [pytest.param(*each, marks=[*marks, mark] if i % every else marks) for i, each in enumerate(names)]


def compiled(names: Iterable[str], every: int, *marks: pytest.MarkDecorator) -> list[Any]:
    """Scenarios whose machine code is tested, as :func:`some` has them; those that take minutes with --full only."""
    names = list(names)
    long = [pytest.param(name, marks=[*marks, pytest.mark.full]) for name in names if name in LONG]
    return [*some([name for name in names if name not in LONG], every, *marks), *long]
