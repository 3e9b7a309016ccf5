"""Numbers as users give them: lists, arrays or tensors."""

from __future__ import annotations

from numbers import Real

import numpy as np

from marlenv.errors import ShapeError, SpecError
from marlenv.tournament.likelihood import Array


def numbers(values: object, who: str, expected: str) -> Array:
    """An array of numbers.

    Raises:
        ShapeError: they are none, or rows of a list differ in length; says what was expected.

    >>> numbers([[1, 2], [3]], "iqm", "finite scores [runs, tasks]")
    Traceback (most recent call last):
    marlenv.errors.ShapeError: iqm: expected finite scores [runs, tasks], got a list with rows of different lengths
    """
    try:
        return np.asarray(values, dtype=float)
    except (ValueError, TypeError, RuntimeError) as error:  # the last of tensors that need a gradient
        ragged = "inhomogeneous" in str(error)
        got = f"a {type(values).__name__} with rows of different lengths" if ragged else f"what is no numbers: {error}"
        got = f"{type(values).__name__}; give its payoffs()" if callable(getattr(values, "payoffs", None)) else got
        raise ShapeError(f"{who}: expected {expected}, got {got}") from error


def level_of(level: float) -> float:
    """The share of cases in which an interval holds the truth.

    Raises:
        SpecError: it is none; says what came.

    >>> level_of(95)
    Traceback (most recent call last):
    marlenv.errors.SpecError: level must be between 0 and 1, such as 0.95, got 95
    """
    if not (isinstance(level, Real) and 0 < level < 1):
        raise SpecError(f"level must be between 0 and 1, such as 0.95, got {level!r}")
    return float(level)
