"""Numbers and flags as simulators give them: whether they are some, and the errors where they are not."""

from __future__ import annotations

from math import isnan
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from marlenv.errors import SpecError

SINGLE = ((), (1,))
"""Shapes of one number."""
FLAGS = (bool, int, float, np.bool_, np.number, np.ndarray)


def numbers_of(value: Any) -> NDArray[Any] | None:
    """Real numbers as an array, without gradients; None where a value is anything else, such as a text or nothing.

    >>> numbers_of([1, 2.5]), numbers_of("1"), numbers_of(None), numbers_of(1j)
    (array([1. , 2.5]), None, None, None)
    """
    try:
        array = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value)
        if array.dtype == object and all(isinstance(one, SupportsFloat) for one in array.flat):
            array = array.astype(np.float64)  # fractions, decimals, whole numbers that no type holds
    except (TypeError, ValueError, OverflowError):
        return None
    return array if array.dtype.kind in "biuf" else None


def is_number(value: Any) -> bool:
    """Whether a value is a real number, or an array of them; NaN is none.

    >>> is_number(0.5), is_number([1, 2]), is_number("1"), is_number(float("nan")), is_number(None)
    (True, True, False, False, False)
    """
    if isinstance(value, float):
        return not isnan(value)
    if isinstance(value, int):
        return True
    array = numbers_of(value)
    return array is not None and not bool(np.isnan(array).any())


def no_number(who: str, reward: Any, where: str = "") -> SpecError:
    """The error for a reward that is not a number.

    >>> print(no_number("MyWrapper", None, " in row 2"))
    MyWrapper.step: the reward in row 2 is not a number, got None
    """
    return SpecError(f"{who}.step: the reward{where} is not a number, got {reward!r}")


def is_flag(value: Any) -> bool:
    """Whether a value is one flag: True or False, or a number that stands for it.

    >>> is_flag(np.array([False])), is_flag("False"), is_flag(None), is_flag(np.array([False, True]))
    (True, False, False, False)
    """
    if isinstance(value, Tensor):
        return value.numel() == 1 and not bool(value.isnan())
    return isinstance(value, FLAGS) and np.size(value) == 1 and is_number(value)


def added(who: str, total: Any, reward: Any, where: str = "") -> Any:
    """A reward added to those before it, in memory of its own.

    Args:
        who: the wrapper, for errors.
        total: of those before; None where there are none.
        reward: a number, or an array or a list of them.
        where: whose it is, for errors.

    Raises:
        SpecError: it is not a number.

    >>> added("MyWrapper", None, -0.0), added("MyWrapper", 1.0, [2.0, 3.0])
    (-0.0, array([3., 4.]))
    """
    if not is_number(reward):
        raise no_number(who, reward, where)
    own = np.array(reward) if type(reward) is list else reward
    return own * 1 if total is None else total + own
