"""Options that a simulator took, and whether it made anything of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from marlenv.errors import nearest
from marlenv.options import takes


def check_used(who: str, sim: Any, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises where a simulator took an option and made nothing of it: no constructor names it, no attribute is called
    so.

    Args:
        who: the wrapper.
        sim: the simulator, which may have others inside (``env``).
        given: the options that it was handed.
        known: those of the wrapper.

    Raises:
        TypeError: names the nearest of the wrapper's options.
    """
    layers = [sim]
    while (inner := getattr(layers[-1], "env", None)) is not None:
        layers.append(inner)
    for name in given:
        if not any(takes(type(one), name) or hasattr(one, name) for one in layers):
            odd = f"{who} has no option {name!r}, and {type(layers[-1]).__name__} makes nothing of it"
            raise TypeError(f"{odd}; {nearest(name, known)}")
