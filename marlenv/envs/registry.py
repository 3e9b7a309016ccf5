"""An entry of the table of names in :mod:`marlenv.registration`: who makes an env, imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from marlenv.constants import on_cpu
from marlenv.errors import SpecError, UnknownName, nearest
from marlenv.optional import ELSEWHERE, EXTRAS, has

Kind = Literal["scenario", "game", "wrapper", "custom"]


@dataclass(frozen=True)
class Registration:
    """A registered env.

    Args:
        name: what users write.
        kind: which sort of env it is.
        factory: a callable, or where to find it: ``"module:name"``.
        options: keyword arguments that the factory gets first.
        needs: the module that must be installed.
        batched: whether the factory takes ``num_envs`` and ``max_steps`` itself; None: its signature says it.
        summary: one line.
        count_option: what a batched factory calls the number of envs.
        task_option: of a family: what its factory calls the task.
        tasks: of a family whose factory has no ``available_envs``: where the names of its tasks are.
        filmed: keyword arguments that the factory gets where pictures are wanted.
    """

    name: str
    kind: Kind
    factory: str | Callable[..., Any]
    options: dict[str, Any] = field(default_factory=dict)
    needs: str | None = None
    batched: bool | None = False
    summary: str = ""
    count_option: str = "num_envs"
    task_option: str | None = None
    tasks: str | None = None
    filmed: dict[str, Any] = field(default_factory=dict)

    def load(self) -> Callable[..., Any]:
        """The factory itself."""
        return load(self.factory) if isinstance(self.factory, str) else self.factory

    @property
    def lists_tasks(self) -> bool:
        """Whether it is a family whose tasks are known: all that come with marlenv, and classes with
        ``available_envs``.
        """
        return self.task_option is not None and (self.kind != "custom" or hasattr(self.factory, "available_envs"))

    @property
    def installed(self) -> bool:
        """Whether what it needs is installed."""
        return self.needs is None or has(self.needs)


def get_available_libraries() -> dict[str, bool]:
    """The simulators and libraries that marlenv knows, and whether they are installed here."""
    return {name: has(name) for name in sorted({*EXTRAS, *ELSEWHERE, "gym"})}


def load(where: str) -> Any:
    """What ``"module:name"`` points at.

    >>> load("marlenv.keys:beside")("done", "_reset")
    '_reset'
    """
    module, colon, name = where.partition(":")
    if not colon or not module or not name:
        raise SpecError(f"expected 'module:name', got {where!r}")
    if module.endswith(".py") or module.startswith(".") or "/" in module:
        there = f"{Path(module).stem}:{name}"
        raise SpecError(f"expected 'module:name', got the file {module!r}; in the folder where it is, write {there!r}")
    try:
        with on_cpu():  # constants of modules
            found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):  # it is there, and imports what is not
            raise
        raise UnknownName(f"no module is called {module!r}") from error
    try:
        return getattr(found, name)
    except AttributeError as error:
        known = [one for one in dir(found) if not one.startswith("_")]
        raise UnknownName(f"module {module!r} has no {name!r}; {nearest(name, known)}") from error
