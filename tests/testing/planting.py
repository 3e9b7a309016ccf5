"""How a broken env is planted, with the clause that must catch it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from marlenv import EnvBase

OBS, REWARD, ALIVE, MASK = (("agents", name) for name in ("observation", "reward", "alive", "mask"))


class Fault(NamedTuple):
    """A broken env."""

    name: str
    clause: str
    make: Callable[..., EnvBase]


FAULTS: list[Fault] = []


def fault(name: str, clause: str, make: Callable[..., EnvBase] | None = None) -> Any:
    """Plants a fault; without ``make``, decorates the class that has it."""
    if make is None:
        return lambda kind: FAULTS.append(Fault(name, clause, kind)) or kind
    FAULTS.append(Fault(name, clause, make))
    return make
