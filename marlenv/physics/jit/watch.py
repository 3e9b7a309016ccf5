"""What a scenario reads in Python, and whether it is what it was: machine code keeps the numbers of its trace.

A walk from a user's scenario lists what attributes, slots, containers, closures, classes and the globals that code
names hold. Plain values are compared by value, tensors by version, small arrays by their bytes, all else by identity.
Objects of marlenv and of libraries are not looked into (but PyTorch's modules are); the package that a scenario comes
from is no library to it. Of marlenv's own scenarios only the classes are kept: somebody may put other methods there.
Scenarios' classes tell when anything is assigned to them, and are looked at only then.
"""

from __future__ import annotations

import dis
import operator
import sys
from array import array
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial, partialmethod
from types import (
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marlenv.physics.jit.graph import Untraceable
from marlenv.physics.task.scenario import ScenarioMeta

OURS = "marlenv."
FOREIGN = {"marlenv", "torch", "numpy", "tensordict", *sys.stdlib_module_names}
PLAIN = (bool, int, float, complex, str, bytes)
SMALL = 1 << 16  # numbers in an array
MOST = 20_000  # objects that are looked at before each use
VERSION = operator.attrgetter("_version")
UNPLAYED = ("__repr__", "__init__", "__eq__")  # what dataclasses write
OPEN = (torch.nn.Module, SimpleNamespace, UserDict, UserList, ChainMap)
"""Objects of libraries that are looked into."""


def ours(scenario: Any) -> bool:
    """Whether all classes of a scenario are marlenv's own."""
    kinds = [kind for kind in type(scenario).__mro__ if kind is not object]
    return all(kind.__module__.startswith(OURS) or kind.__module__ == "abc" for kind in kinds)


class _Holder:
    """Some of what a mapping or a sequence holds.

    Args:
        content: the mapping or the sequence.
        keys: of what is compared.
        said: from a key to how users write it.
        whole: whether nothing may be added.

    """

    def __init__(self, content: Any, keys: Iterable[Any], said: Callable[[Any], str], *, whole: bool) -> None:
        self.content, self.keys, self.said = content, list(keys), said
        self.size = len(content) if whole else None
        self.kept = [content[key] for key in self.keys]
        self.values: Callable[[Any], Any] = (
            operator.itemgetter(*self.keys) if len(self.keys) > 1 else lambda x: [x[key] for key in self.keys]
        )

    def stays(self) -> bool:
        """Whether the same objects are there."""
        try:
            same = all(map(operator.is_, self.values(self.content), self.kept))
        except LookupError:
            return False
        return same and (self.size is None or len(self.content) == self.size)

    def changed(self) -> str | None:
        """What has other values, if anything has."""
        if self.stays():
            return None
        now = dict(self.content) if isinstance(self.content, Mapping) else dict(enumerate(self.content))
        for key, then in zip(self.keys, self.kept, strict=True):
            if key not in now or not _same(now[key], then):
                return self.said(key)
        added = [key for key in now if key not in self.keys] if self.size is not None else []
        return self.said(added[0]) if added else None


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, PLAIN) and bool(a == b))


class _Cells(Sequence[Any]):
    """What a function encloses."""

    def __init__(self, cells: Sequence[CellType]) -> None:
        self.cells = cells

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, at: Any) -> Any:
        try:
            return self.cells[at].cell_contents
        except ValueError:  # nothing yet
            return None


class _Entries(Sequence[Any]):
    """What an array of objects holds."""

    def __init__(self, entries: np.ndarray[Any, Any]) -> None:
        self.entries = entries

    def __len__(self) -> int:
        return self.entries.size

    def __getitem__(self, at: Any) -> Any:
        return self.entries.item(at)


class _Slots(Mapping[str, Any]):
    """What an object holds in slots."""

    def __init__(self, x: Any) -> None:
        kinds = [kind for kind in type(x).__mro__ if "__slots__" in vars(kind)]
        members = [key for kind in kinds for key, y in vars(kind).items() if isinstance(y, MemberDescriptorType)]
        self.x, self.members = x, members

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[str]:
        return (key for key in self.members if hasattr(self.x, key))

    def __getitem__(self, key: str) -> Any:
        try:
            return getattr(self.x, key)
        except AttributeError:
            raise KeyError(key) from None


class _Written(Mapping[str, Any]):
    """What a class says by itself."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def __len__(self) -> int:
        return len(_entries(self.kind))

    def __iter__(self) -> Iterator[str]:
        return iter(_entries(self.kind))

    def __getitem__(self, key: str) -> Any:
        return vars(self.kind)[key]


class Watch:
    """All that a scenario could read besides the values of rows, as it was when this was made.

    Args:
        scenario: whose.

    Raises:
        Untraceable: it holds more than can be looked at in each step.

    >>> lesson = SimpleNamespace(rates={"low": 0.1})
    >>> watch = Watch(lesson)
    >>> lesson.rates["low"] = 0.2
    >>> watch.changed()
    "self.rates['low']"
    """

    def __init__(self, scenario: Any) -> None:
        self.holders: list[_Holder] = []
        self._kinds: list[_Holder] = []  # scenarios' classes
        self._change = ScenarioMeta.changed
        self.tensors: list[tuple[Tensor, int, str]] = []
        self.arrays: list[tuple[Any, bytes, str]] = []
        self.sets: list[tuple[Any, set[int], str]] = []
        self._seen: dict[int, Any] = {}
        kinds = type(scenario).__mro__
        self._own = frozenset(kind.__module__.partition(".")[0] for kind in kinds) - FOREIGN
        for kind in kinds:
            if kind.__module__.startswith(OURS):
                list(self._of_kind(kind))
        queue: list[tuple[Any, str]] = [(scenario, "self")]
        while queue:
            x, name = queue.pop()
            if id(x) not in self._seen and not isinstance(x, (*PLAIN, type(None))):
                self._seen[id(x)] = x  # lives on, so that nothing else gets its id
                if len(self._seen) > MOST:
                    raise Untraceable(f"holds more than {MOST} objects ({name}), too many to tell whether any changes")
                queue += self._look(x, name)
        full = [holder for holder in self.holders if holder.keys]
        self._full = [(holder.values, holder.content, holder.kept) for holder in full]
        self._empty = [holder.content for holder in self.holders if not holder.keys]
        self._empty += [x for x, ids, _ in self.sets if not ids]
        self._looks = bool(self.arrays) or any(ids for _, ids, _ in self.sets)
        self._sized = [holder.content for holder in full if holder.size is not None]
        self._sizes = [len(content) for content in self._sized]
        self._numbers = [x for x, _, _ in self.tensors]
        self._versions = [version for _, version, _ in self.tensors]
        self._only_kinds = not (self._full or self._empty or self._sized or self._numbers or self._looks)

    def stays(self) -> bool:
        """Whether all is as it was."""
        if self._change is not (change := ScenarioMeta.changed):
            if self.changed() is not None:
                return False
            self._change = change
        if self._only_kinds:
            return True
        if any(self._empty):
            return False
        try:
            for values, content, kept in self._full:
                if not all(map(operator.is_, values(content), kept)):
                    return self.changed() is None
        except LookupError:
            return False
        if list(map(len, self._sized)) != self._sizes or list(map(VERSION, self._numbers)) != self._versions:
            return False
        return not self._looks or self.changed() is None

    def changed(self) -> str | None:
        """What is not as it was, as users write it; None where all is."""
        for holder in (*self._kinds, *self.holders):
            if not holder.stays() and (what := holder.changed()) is not None:
                return what
        for x, version, name in self.tensors:
            if x._version != version:
                return name
        for x, held, name in self.arrays:
            if _bytes(x) != held:
                return name
        return next((name for x, ids, name in self.sets if set(map(id, x)) != ids), None)

    def _look(self, x: Any, name: str) -> Iterator[tuple[Any, str]]:
        """Notes what an object holds, and gives what is to be looked at next."""
        if isinstance(x, Tensor):
            if not x.is_inference():
                self.tensors.append((x, x._version, name))
        elif isinstance(x, np.ndarray) and x.dtype.hasobject:
            if x.dtype == object:
                yield from self._hold(_Entries(x), range(x.size), lambda at: f"{name}.flat[{at}]", whole=True)
        elif isinstance(x, (np.ndarray, array, bytearray, memoryview)):
            if (x.size if isinstance(x, np.ndarray) else len(x)) < SMALL:
                self.arrays.append((x, _bytes(x), name))
        elif isinstance(x, (set, frozenset)):
            self.sets.append((x, set(map(id, x)), name))
            yield from ((y, name) for y in x)
        elif isinstance(x, (dict, list, tuple, deque, MappingProxyType)):
            keys = x if isinstance(x, (dict, MappingProxyType)) else range(len(x))
            yield from self._hold(x, keys, lambda key: f"{name}[{key!r}]", whole=True)
            yield from self._object(x, name)
        elif isinstance(x, FunctionType):
            yield from self._function(x, name)
        elif isinstance(x, type):
            if not self._foreign(x.__module__):
                yield from self._of_kind(x)
        else:
            yield from ((part, name) for part in _parts(x))
            yield from self._object(x, name)

    def _of_kind(self, kind: type) -> Iterator[tuple[Any, str]]:
        """Notes what a class says, and gives what is to be looked at next."""
        said = _within(kind.__name__)
        if isinstance(kind, ScenarioMeta):
            yield from self._hold(_Written(kind), _entries(kind), said, whole=True)
        else:
            yield from self._hold(vars(kind), _entries(kind), said, whole=False)

    def _object(self, x: Any, name: str) -> Iterator[tuple[Any, str]]:
        """What an object that is an author's holds in attributes and in slots, and its classes."""
        if isinstance(x, ModuleType) or (self._foreign(type(x).__module__) and not isinstance(x, OPEN)):
            return
        slots = _Slots(x)
        for content in ([vars(x)] if hasattr(x, "__dict__") else []) + ([slots] if slots.members else []):
            yield from self._hold(content, content, _within(name), whole=True)
        yield from ((kind, kind.__name__) for kind in type(x).__mro__)

    def _function(self, x: FunctionType, name: str) -> Iterator[tuple[Any, str]]:
        if self._foreign(x.__module__ or ""):
            return
        names = {name for code in _codes(x.__code__) for name in code.co_names}
        there = x.__globals__
        known = _globals(x.__code__) & there.keys()
        yield from self._hold(there, known, lambda key: f"the global {key}", whole=False)
        for module in [there[key] for key in names & there.keys() if isinstance(there[key], ModuleType)]:
            if not self._foreign(module.__name__):
                inner = vars(module)
                yield from self._hold(inner, names & inner.keys(), f"{module.__name__}.{{}}".format, whole=False)
        if x.__closure__:
            free = x.__code__.co_freevars
            yield from self._hold(_Cells(x.__closure__), range(len(free)), lambda at: f"{free[at]}", whole=True)
        for part in (x.__defaults__, x.__kwdefaults__):
            yield part, f"a default of {name}"

    def _foreign(self, module: str) -> bool:
        """Whether a module is one of Python's, of marlenv's or of a library that the scenario does not come from."""
        top = module.partition(".")[0]
        return top not in self._own and (top in FOREIGN or _installed(module))

    def _hold(
        self, content: Any, keys: Iterable[Any], said: Callable[[Any], str], *, whole: bool
    ) -> Iterator[tuple[Any, str]]:
        holder = _Holder(content, keys, said, whole=whole)
        if (holder.keys or whole) and not isinstance(content, tuple):
            (self._kinds if isinstance(content, _Written) else self.holders).append(holder)
        yield from ((x, said(key)) for key, x in zip(holder.keys, holder.kept, strict=True))


def _told(key: str, x: Any) -> bool:
    """Whether an entry of a class is its author's."""
    return not key.startswith("__") or (isinstance(x, FunctionType) and key not in UNPLAYED)


def _entries(kind: type) -> list[str]:
    """What a class says by itself."""
    return [key for key, x in vars(kind).items() if not key.startswith("_abc") and _told(key, x)]


def _within(name: str) -> Callable[[Any], str]:
    return lambda key: f"{name}.{key}"


def _parts(x: Any) -> tuple[Any, ...]:
    """What something that can be called, or looks like an attribute, is made of."""
    if isinstance(x, MethodType):
        return x.__self__, x.__func__
    if isinstance(x, (partial, partialmethod)):
        return x.func, x.args, x.keywords
    if isinstance(x, (staticmethod, classmethod)):
        return (x.__func__,)
    return (x.fget,) if isinstance(x, property) else ()


def _bytes(x: Any) -> bytes:
    return bytes(x) if isinstance(x, bytearray) else x.tobytes()


@cache
def _installed(module: str) -> bool:
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of what is defined in it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


@lru_cache(maxsize=4096)
def _globals(code: CodeType) -> frozenset[str]:
    """The names that are looked up among globals, unlike those of attributes."""
    lines = [line for part in _codes(code) for line in dis.get_instructions(part)]
    return frozenset(line.argval for line in lines if "GLOBAL" in line.opname or line.opname == "LOAD_NAME")


__all__ = ["Watch", "ours"]
