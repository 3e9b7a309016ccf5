"""All that a scenario file holds in Python, by a walk from its scenario: what steps may read, and what they change.

What a file computes may be machine code only as long as everything that it could read besides the values of
rows is what it was when the code was made. So a walk lists every dict and list that can be reached, with the values of
rows in them, ``[B, ...]``, apart from all the rest, which must stay.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from types import BuiltinFunctionType, CellType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from marlenv.physics.jit.graph import Untraceable
from marlenv.physics.laws import dynamics, shapes
from marlenv.physics.laws.integrate import Laws
from marlenv.physics.vmas_compat import entities, sensors, states, utils, world

OURS = "marlenv.physics.vmas_compat."
FIXED = (int, float, complex, str, bytes, torch.device, torch.dtype, torch.Size, Enum, ModuleType, BuiltinFunctionType,
         shapes.Shape, dynamics.Dynamics, Laws, property, staticmethod, classmethod, frozenset, range, slice,
         type(None), type(...))  # fmt: skip
"""What cannot change."""
ASIDE: Mapping[type, set[str]] = {
    states.Vectorized: {"_batch_dim"},
    states.EntityState: {"values", "taken", "motion", "place"},
    states.AgentState: {"turned"},
    states.Action: {"_tensors"},
    utils.Observable: {"_observers"},
    entities.Entity: {"_version", "_render"},
    sensors.Lidar: {"_render"},
    world.World: {"_version", "_fast", "_near", "_engines", "_draws"},
}
"""Attributes of our own objects that the engine keeps, or that only pictures read: those of its class, no others, since
a file may give attributes of any name to entities, worlds and sensors.
"""


class Entry(NamedTuple):
    """A value of the rows: ``holder[key]``."""

    holder: Any
    key: Any
    value: Tensor


class Holder:
    """A dict or a list, and what in it must stay.

    Args:
        owner: whose it is.
        content: the dict or the list.
        aside: keys that are not looked at.
        rows: how many rows there are, ``B``.

    """

    def __init__(self, owner: Any, content: Any, aside: set[str], rows: int) -> None:
        self.owner, self.content = owner, content
        every = content.items() if isinstance(content, Mapping) else enumerate(content)
        pairs: list[tuple[Any, Any]] = [(key, x) for key, x in every if key not in aside]
        self.entries = [Entry(content, key, x) for key, x in pairs if _of_rows(x, rows)]
        """The values of rows in it."""
        self.size = len(content)
        fixed = [(key, x) for key, x in pairs if not _of_rows(x, rows)]
        self._kept = [x for _, x in fixed]
        self._versions = [(x, x._version) for x in self._kept if isinstance(x, Tensor)]
        keys = [key for key, _ in fixed]
        self._values: Callable[[Any], Any] = (
            operator.itemgetter(*keys) if len(keys) > 1 else lambda content: [content[key] for key in keys]
        )

    def stays(self) -> bool:
        """Whether all but the values of rows is as it was."""
        if len(self.content) != self.size and not isinstance(self.content, MappingProxyType):
            return False  # Python itself adds to classes, such as __slotnames__
        try:
            same = all(map(operator.is_, self._values(self.content), self._kept))
        except (KeyError, IndexError):
            return False
        return same and all(x._version == version for x, version in self._versions)

    def copied(self) -> Any:
        """What it holds, for :meth:`restore`."""
        content = dict(self.content) if isinstance(self.content, Mapping) else list(self.content)
        return content, [(x, x._version, x.clone()) for x, _ in self._versions]

    def restore(self, before: Any) -> None:
        """Makes it hold what it held; values of rows that were written into stay so."""
        content, numbers = before
        if isinstance(self.content, dict):
            self.content.clear()
            self.content.update(content)
        elif isinstance(self.content, list):
            self.content[:] = content
        else:
            for name in [
                n for n, x in self.content.items() if not n.startswith("__") and content.get(n, self) is not x
            ]:
                setattr(self.owner, name, content[name]) if name in content else delattr(self.owner, name)
        for x, version, value in numbers:
            if x._version != version:
                x.copy_(value)


def _of_rows(x: Any, rows: int) -> bool:
    return isinstance(x, Tensor) and x.ndim > 0 and x.shape[0] == rows


def walk(scenario: Any, rows: int) -> list[Holder]:
    """Everything that can be reached from a scenario.

    Raises:
        Untraceable: there is something of which nobody can tell whether it changes.

    """
    home = type(scenario).__module__
    holders: list[Holder] = []
    seen: set[int] = set()
    queue: list[Any] = [scenario, _Globals(scenario)]
    while queue:
        x = queue.pop()
        if id(x) in seen or isinstance(x, (*FIXED, Tensor)):
            continue
        seen.add(id(x))
        if (isinstance(x, FunctionType) and x.__module__.startswith(OURS)) or type(x).__module__ in ("typing", "types"):
            continue
        if isinstance(x, (tuple, FunctionType, MethodType, CellType)):
            inner = list(_inner(x))
            if any(_of_rows(one, rows) for one in inner):
                raise Untraceable(f"keeps values of rows in a {type(x).__name__}")
            queue += inner
            continue
        content, aside = _content(x, home)
        holder = Holder(x, content, aside, rows)
        if holder.entries and not isinstance(content, (dict, list)):
            raise Untraceable(f"keeps values of rows in {x!r}")
        holders.append(holder)
        pairs = content.items() if isinstance(content, Mapping) else enumerate(content)
        queue += [value for key, value in pairs if key not in aside]
    return holders


class _Globals:
    """The module of a scenario."""

    def __init__(self, scenario: Any) -> None:
        self.names = _globals(scenario)


def _globals(scenario: Any) -> dict[str, Any]:
    return next(
        (x.__globals__ for kind in type(scenario).__mro__ for x in vars(kind).values() if isinstance(x, FunctionType)),
        {},
    )


def _inner(x: Any) -> Iterator[Any]:
    """What a tuple, a function or a method holds."""
    if isinstance(x, tuple):
        yield from x
    elif isinstance(x, MethodType):
        yield from (x.__self__, x.__func__)
    elif isinstance(x, CellType):
        yield x.cell_contents
    else:
        yield from x.__closure__ or ()
        yield from x.__defaults__ or ()
        yield from (x.__kwdefaults__ or {}).values()


def _aside(x: Any) -> set[str]:
    """What is not looked at in an object of ours."""
    return {name for kind, names in ASIDE.items() if isinstance(x, kind) for name in names}


def _content(x: Any, home: str) -> tuple[Any, set[str]]:
    """The dict or list in which something keeps what it holds, and what in it is not looked at."""
    if isinstance(x, _Globals):
        return x.names, {name for name in x.names if name.startswith("__")}
    if isinstance(x, (dict, list)):
        return x, set()
    if isinstance(x, type):
        own = x.__module__ == home
        return (vars(x), {n for n in vars(x) if n.startswith("__") or n == "_abc_impl"}) if own else ({}, set())
    module = type(x).__module__
    if (module == home or module.startswith(OURS)) and not isinstance(x, MappingProxyType) and hasattr(x, "__dict__"):
        return vars(x), _aside(x) if module.startswith(OURS) else set()
    raise Untraceable(f"keeps {type(x).__module__}.{type(x).__name__}, which is not known here")
