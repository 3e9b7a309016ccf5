"""marlenv: multi-agent environments for PyTorch.

``from marlenv import X`` is the one public way in. A name is imported when it is first used, so ``import marlenv``
loads neither torch nor any simulator; the names and their homes stand in ``__init__.pyi``.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from typing import Any

from marlenv.module_paths import PathFinder
from marlenv.torchrl_paths import PATHS


def _read_names() -> dict[str, str]:
    """Public name -> module, from the stub file beside this one."""
    tree = ast.parse(pkgutil.get_data("marlenv", "__init__.pyi") or b"")
    return {a.asname or a.name: str(n.module) for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}


_HOMES = _read_names()
_ROOMS = (
    "envs",
    "games",
    "groups",
    "interop",
    "physics",
    "record",
    "samples",
    "scenarios",
    "specs",
    "testing",
    "transforms",
    "vector",
    "wrappers",
)
__all__ = sorted(_HOMES)

filter_warnings_subprocess = True
"""Whether warnings in the processes of pools are kept quiet; read when a pool starts them."""


def __getattr__(name: str) -> Any:
    return _resolve(name)


def _resolve(name: str) -> Any:
    """The thing that a public or an old name stands for."""
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    if name in _ROOMS or name in PATHS:
        return importlib.import_module(f"marlenv.{name}")
    from marlenv.specs.legacy import TABLE, resolve

    if name in TABLE:
        return resolve(name, stacklevel=4)
    raise AttributeError(f"marlenv has no {name!r}; {_nearest(name)}")


def _nearest(name: str) -> str:
    from marlenv.errors import nearest

    return nearest(name, [*_HOMES, *_ROOMS])


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_ROOMS})


sys.meta_path.insert(0, PathFinder(_HOMES, _resolve))
