"""TorchRL's module paths under marlenv's name, found on import: ``from marlenv.envs.libs.vmas import VmasEnv``.

There is no file per path. :class:`PathFinder` makes a module for every path of :data:`marlenv.torchrl_paths.PATHS`; a
room of ours that stands at such a path (``marlenv.envs``) stays what it is, and gives TorchRL's names besides its own.
Names are the public names of ``marlenv``, looked up when they are used, so nothing is loaded before.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from marlenv.errors import nearest
from marlenv.torchrl_paths import ELSEWHERE, INSTEAD, PATHS, PRIVATE

OURS = "marlenv."


@cache
def names_below(path: str) -> tuple[str, ...]:
    """The names that a module of torchrl gives: its own, and those of the modules below it.

    >>> names_below("envs.model_based")
    ('DreamerDecoder', 'DreamerEnv', 'ImaginedEnv', 'ModelBasedEnvBase', 'WorldModelEnv')
    """
    found = {name for p, names in PATHS.items() if p == path or p.startswith(f"{path}.") for name in names.split()}
    return tuple(sorted(found))


def home_of(name: str) -> str | None:
    """The module of torchrl that defines a name.

    >>> home_of("VmasEnv"), home_of("step_mdp"), home_of("Nobody")
    ('envs.libs.vmas', 'envs.utils', None)
    """
    return next((path for path, names in PATHS.items() if name in names.split()), None)


def reason_of(path: str) -> str:
    """Why marlenv has no part of a module of torchrl; nothing where it has one.

    >>> reason_of("collectors.weight_update"), reason_of("collectors.utils")
    ('collectors stay in TorchRL', '')
    """
    fronts = [front for front in ELSEWHERE if f"{path}.".startswith(f"{front}.")]
    return ELSEWHERE[max(fronts, key=len)] if fronts else ""


def offered(path: str, public: Collection[str], *, below: bool = True) -> list[str]:
    """The names of a path that marlenv has.

    Args:
        path: one of ``PATHS``.
        public: the public names of marlenv.
        below: also those of the modules below it.

    >>> offered("envs.model_based", {"EnvBase", "DreamerEnv"})
    ['DreamerEnv']
    """
    return [name for name in (names_below(path) if below else PATHS[path].split()) if name in public]


def public(name: str) -> Any:
    """The public thing of a name, as the package's front door finds it; for a room that stands below that thing.

    An env makes a pool of envs without knowing where pools live; nothing is loaded before.

    >>> public("ParallelEnv").__module__
    'marlenv.vector.parallel'
    """
    finder = next(found for found in sys.meta_path if isinstance(found, PathFinder))
    return finder.resolve(name)


class PathFinder(MetaPathFinder):
    """Finds the modules of torchrl's paths.

    Args:
        public: the public names of marlenv.
        resolve: public or old name -> the thing; raises AttributeError.
    """

    def __init__(self, public: Collection[str], resolve: Callable[[str], Any]) -> None:
        self.public, self.resolve = public, resolve

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of a path; raises for a name that a path has not, so that ``from ... import`` says why."""
        if not fullname.startswith(OURS):
            return None
        where = fullname.removeprefix(OURS)
        parent, _, name = where.rpartition(".")
        if where not in PATHS and parent not in PATHS and (parent or not reason_of(where)):
            return None
        real = self._real(fullname, path, target)
        if where not in PATHS:
            if real is None:
                raise ImportError(self.missing(parent, name), name=fullname)
            return real
        if real is None:
            return ModuleSpec(fullname, PathLoader(self, where), is_package=True)
        if real.loader is not None:
            real.loader = RoomLoader(real.loader, self, where)
        return real

    def _real(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        """What the other finders find: a file."""
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    return spec
        return None

    def open(self, module: ModuleType, path: str) -> None:
        """Gives a module the names of a path, and the paths below it, when they are asked for."""
        own = vars(module).get("__getattr__")
        functions: set[str] = set()

        def lookup(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            if f"{path}.{name}" in PATHS and name not in functions:
                return importlib.import_module(f"{module.__name__}.{name}")
            if own is not None:
                with suppress(AttributeError):
                    return own(name)
            if name in names_below(path):
                if name in self.public:
                    return self.resolve(name)
                with suppress(AttributeError):  # an old name, or one that marlenv has not
                    return self.resolve(name)
            if name in PRIVATE and f"{PRIVATE[name][0]}.".startswith(f"{path}."):
                return getattr(importlib.import_module(PRIVATE[name][1]), name)
            raise AttributeError(self.missing(path, name))

        below = (p.removeprefix(f"{path}.") for p in PATHS if p.startswith(f"{path}."))
        there = sorted({p for p in below if "." not in p})
        functions.update(name for name in there if name in self.public)
        if functions:
            module.__class__ = _Room
        if "__all__" in vars(module):  # ``from marlenv.envs import *`` gives what TorchRL's gives
            vars(module)["__all__"] = sorted({*vars(module)["__all__"], *offered(path, self.public)})
        vars(module).update(
            __getattr__=lookup, __dir__=lambda: sorted({*vars(module), *offered(path, self.public), *there})
        )

    def missing(self, path: str, name: str) -> str:
        """Why a path has not got a name, and where it is."""
        here = f"marlenv.{path} has no {name!r}" if path else f"there is no module marlenv.{name}"
        home = home_of(name)
        if home is None:
            why = reason_of(f"{path}.{name}".strip(".")) or nearest(name, offered(path, self.public))
            theirs = f"; TorchRL's, if it has one, is torchrl.{path}.{name}" if path else ""
            return f"{here}{theirs if why.startswith('known') or name[0] == '_' else ''}; {why}"
        if name in self.public:
            return f"{here}; it is marlenv.{home}.{name}, as in TorchRL, or marlenv.{name}"
        ours = f"marlenv has {INSTEAD[name]} instead" if name in INSTEAD else "marlenv has nothing of that name"
        return f"{here}: it is torchrl.{home}.{name}; {ours if name in INSTEAD else reason_of(home) or ours}"


class _Room(ModuleType):
    """A room whose path of some name hides no public name: ``env_creator`` is the function, as in TorchRL."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and isinstance(value.__loader__, PathLoader)):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """By name, as modules are written by those who write them."""
        return importlib.import_module, (self.__name__,)


class PathLoader(Loader):
    """Makes the module of a path where marlenv has no file."""

    def __init__(self, finder: PathFinder, path: str) -> None:
        self.finder, self.path = finder, path

    def exec_module(self, module: ModuleType) -> None:
        """Fills the module: its names come when they are asked for."""
        names = offered(self.path, self.finder.public)
        doc = f"The names of ``torchrl.{self.path}`` that marlenv has: {', '.join(names) or 'none yet'}."
        vars(module).update(__doc__=doc, __all__=names, __path__=[])
        self.finder.open(module, self.path)


class RoomLoader(Loader):
    """Loads a room of ours that stands at a path of TorchRL's, and lets it give TorchRL's names too."""

    def __init__(self, loader: Any, finder: PathFinder, path: str) -> None:
        self.loader, self.finder, self.path = loader, finder, path

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # while it is copied
            raise AttributeError(name)
        return getattr(self.loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the room's own loader does."""
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Runs the room's file, then adds the names."""
        self.loader.exec_module(module)
        if not hasattr(module, "__path__"):
            vars(module)["__path__"] = []  # paths below a file: marlenv.envs.model_based.dreamer
        self.finder.open(module, self.path)
