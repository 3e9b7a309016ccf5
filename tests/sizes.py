"""How many cases of a test run each day, and how many with --full; `sized` of conftest.py does so within a test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some(cases: Iterable[Any], every: int, *marks: pytest.MarkDecorator) -> list[Any]:
    """The cases of a parametrized test, tuples where it has several names: all with --full, else one of ``every``."""
    names = [case if isinstance(case, tuple) else (case,) for case in cases]
    left_out = [*marks, pytest.mark.full]
    return [pytest.param(*each, marks=left_out if i % every else marks) for i, each in enumerate(names)]
