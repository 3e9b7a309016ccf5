"""Numbers as users give them: lists, arrays or tensors."""

from __future__ import annotations

import numpy as np

from marlenv.errors import ShapeError
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
        raise ShapeError(f"{who}: expected {expected}, got {got}") from error
