"""Names of envs: what is registered, where it is, and who makes it. Nothing is imported until it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from marlenv.errors import SpecError, UnknownName, nearest
from marlenv.optional import EXTRAS, has

Kind = Literal["scenario", "game", "wrapper", "custom"]

INDEXES = ("marlenv.scenarios.index", "marlenv.games.index", "marlenv.wrappers.index")
"""Modules that register the envs of a room when they are imported."""


@dataclass(frozen=True)
class Entry:
    """A registered env.

    Args:
        name: what users write.
        kind: which sort of env it is.
        factory: a callable, or where to find it: ``"module:name"``.
        options: keyword arguments that the factory gets first.
        needs: the module that must be installed.
        batched: whether the factory takes ``num_envs`` and ``max_steps`` itself.
        summary: one line.
        task_option: of a family: what its factory calls the task.
    """

    name: str
    kind: Kind
    factory: str | Callable[..., Any]
    options: dict[str, Any] = field(default_factory=dict)
    needs: str | None = None
    batched: bool = False
    summary: str = ""
    task_option: str = "task"

    def load(self) -> Callable[..., Any]:
        """The factory itself."""
        return load(self.factory) if isinstance(self.factory, str) else self.factory

    @property
    def installed(self) -> bool:
        """Whether what it needs is installed."""
        return self.needs is None or has(self.needs)


_TABLE: dict[str, Entry] = {}
_LOADED: set[str] = set()


def register(
    name: str,
    factory: str | Callable[..., Any],
    *,
    kind: Kind = "custom",
    options: dict[str, Any] | None = None,
    needs: str | None = None,
    batched: bool = False,
    summary: str = "",
) -> None:
    """Gives an env a name, for :func:`marlenv.make` and the command line.

    Args:
        name: must be new.
        factory: makes the env; a callable, or ``"module:name"``.
        kind: ``"custom"`` for envs of one's own.
        options: keyword arguments that the factory gets first.
        needs: the module that must be installed.
        batched: whether the factory takes ``num_envs`` and ``max_steps`` itself; else several envs are stepped in series.
        summary: one line for ``marlenv list``.

    Raises:
        SpecError: the name is taken.

    >>> register("my_count", "marlenv.testing:CountingEnv")
    >>> make("my_count").batch_size
    torch.Size([])
    >>> unregister("my_count")
    """
    _load_indexes()
    _add(Entry(name, kind, factory, options or {}, needs, batched, summary))


def _add(entry: Entry) -> None:
    if entry.name in _TABLE:
        raise SpecError(f"register: the name {entry.name!r} is taken by {_TABLE[entry.name].factory!r}")
    _TABLE[entry.name] = entry


def unregister(name: str) -> None:
    """Takes a name back."""
    del _TABLE[find(name).name]


def find(name: str) -> Entry:
    """The entry of a name. ``"family/task"`` finds the entry of the family, with the task as its option.

    Raises:
        UnknownName: names the nearest.
    """
    _load_indexes()
    if name in _TABLE:
        return _TABLE[name]
    family, slash, task = name.partition("/")
    if slash and family in _TABLE:
        entry = _TABLE[family]
        return replace(entry, name=name, options={**entry.options, entry.task_option: task})
    hint = nearest(name, _TABLE)
    raise UnknownName(f"no env is called {name!r}; {hint if '?' in hint else '`marlenv list` shows all that are'}")


def available(kind: Kind | None = None) -> list[str]:
    """The names of all registered envs, or of those of one kind.

    >>> "simple_spread" in available("scenario")
    True
    """
    _load_indexes()
    return sorted(name for name, entry in _TABLE.items() if kind in (None, entry.kind))


def get_available_libraries() -> dict[str, bool]:
    """The simulators and libraries that marlenv knows, and whether they are installed here."""
    return {name: has(name) for name in sorted(EXTRAS)}


def _load_indexes() -> None:
    for module in INDEXES:
        if module not in _LOADED:
            for entry in importlib.import_module(module).ENTRIES:
                _add(entry)
            _LOADED.add(module)


def load(where: str) -> Any:
    """What ``"module:name"`` points at.

    >>> load("marlenv.keys:beside")("done", "_reset")
    '_reset'
    """
    module, colon, name = where.partition(":")
    if not colon or not module or not name:
        raise SpecError(f"expected 'module:name', got {where!r}")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and not module.startswith(error.name):
            raise
        raise UnknownName(f"no module is called {module!r}") from error
    try:
        return getattr(found, name)
    except AttributeError as error:
        raise UnknownName(f"module {module!r} has no {name!r}; {nearest(name, dir(found))}") from error
