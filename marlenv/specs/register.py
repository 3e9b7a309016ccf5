"""Values of any kind that are numbered as they come: ``use_register=True``."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from torch import Tensor

from marlenv.errors import NotInSpec

SCALARS = {bool, float, int, str}


class Register:
    """The values that a spec has met, numbered from 0 in the order in which they came.

    All copies of a spec have one register. Specs with different registers are equal: what was met is no part of the
    domain.

    >>> register = Register()
    >>> register.numbers(["up", "down", "up"], n=2, who="OneHot")
    [0, 1, 0]
    >>> register.values(np.array(1), who="OneHot")
    array('down', dtype='<U4')
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def numbers(self, value: Any, n: int, who: str) -> Any:
        """The number of a value, or of each value in a list, an array or a tensor.

        Raises:
            NotInSpec: it would be a value more than ``n``, or it cannot be registered.
        """
        if isinstance(value, (Tensor, np.ndarray, np.generic)):
            value = value.tolist()
        if isinstance(value, list):
            return [self.numbers(one, n, who) for one in value]
        try:
            number = self._numbers.get(value, len(self._numbers))
        except TypeError as error:
            raise NotInSpec(f"{who}.encode: a registered value must be hashable, got {value!r}") from error
        if number >= n:
            raise NotInSpec(f"{who}.encode: all {n} values are taken by {list(self._numbers)}, got {value!r}")
        return self._numbers.setdefault(value, number)

    def values(self, numbers: np.ndarray, who: str) -> np.ndarray:
        """The values that numbers stand for, as an array; of objects, unless all are of one kind that numpy has.

        Raises:
            NotInSpec: a number stands for no value yet.
        """
        known = list(self._numbers)
        if numbers.size and numbers.max() >= len(known):
            raise NotInSpec(f"{who}.to_numpy: {int(numbers.max())} stands for no value yet; registered are {known}")
        picked = [known[i] for i in numbers.reshape(-1).tolist()]
        if len(kinds := {*map(type, picked)}) == 1 and kinds <= SCALARS:
            array = np.array(picked)
            if array.tolist() == picked:  # not so for numbers that are too large, and texts that end in zeros
                return array.reshape(numbers.shape)
        array = np.empty(len(picked), dtype=object)
        for i, value in enumerate(picked):  # one by one: numpy would take tuples apart
            array[i] = value
        return array.reshape(numbers.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Register)

    __hash__ = None  # type: ignore[assignment]
