"""How many cases of a test run each day, and how many with --full; `sized` of conftest.py does so within a test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some(cases: Iterable[Any], every: int) -> list[Any]:
    """The cases of a parametrized test: all of them with --full, else the first of so many each."""
    return [pytest.param(case, marks=() if i % every == 0 else pytest.mark.full) for i, case in enumerate(cases)]
