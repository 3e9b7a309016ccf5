"""Options of rules as the rules compute with them."""

from __future__ import annotations

from typing import Any

from marlenv.errors import whole


def keep_whole(rules: Any, name: str, low: int, high: int | None = None) -> None:
    """Checks an option of rules, and keeps it as Python's own int: NumPy's overflow where bits and sizes are computed.

    An option that may be left out, whose default is None, stays None.

    Args:
        rules: a frozen dataclass.
        name: of its field.
        low: the least that it may be.
        high: the most; None where there is no bound.

    Raises:
        SpecError: it is no integer within these bounds.

    >>> import numpy as np
    >>> from marlenv.games import ConnectFour
    >>> ConnectFour(rows=np.uint8(5))
    ConnectFour(rows=5, columns=7, line=4)
    """
    value = getattr(rules, name)
    if value is not None or getattr(type(rules), name, 0) is not None:
        object.__setattr__(rules, name, whole(type(rules).__name__, name, value, low, high))
