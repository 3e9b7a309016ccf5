"""Functions of what is copied: those made inside others hold objects, of which a copy has its own."""

from __future__ import annotations

import copy
from collections.abc import Collection
from types import CellType, FunctionType, ModuleType
from typing import Any


def own_functions(modules: Collection[str], memo: dict[int, Any]) -> None:
    """Gives what was copied functions over copies where those over the originals stand, as ``copy.deepcopy`` leaves
    functions as they are.

    Args:
        modules: in which files the functions were written.
        memo: that of ``copy.deepcopy``.
    """
    originals = memo.get(id(memo))  # which copy.deepcopy keeps alive
    for made in [x for x in memo.values() if x is not originals]:
        held = made if isinstance(made, (dict, list)) else getattr(made, "__dict__", None)
        if isinstance(held, (dict, list)):
            for key, x in list(held.items() if isinstance(held, dict) else enumerate(held)):
                if isinstance(x, FunctionType) and x.__module__ in modules and x.__closure__:
                    held[key] = _own(x, memo)


def _own(function: FunctionType, memo: dict[int, Any]) -> FunctionType:
    if (known := memo.get(id(function))) is not None and known is not function:
        return known
    cells = tuple(CellType() for _ in function.__closure__ or ())
    made = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, cells)
    made.__dict__.update(function.__dict__)
    made.__kwdefaults__, made.__qualname__, made.__module__ = (
        function.__kwdefaults__,
        function.__qualname__,
        function.__module__,
    )
    memo[id(function)] = made
    for cell, old in zip(cells, function.__closure__ or (), strict=True):
        try:
            x = old.cell_contents
        except ValueError:  # nothing was put into it yet
            continue
        nested = isinstance(x, FunctionType) and x.__module__ == function.__module__ and x.__closure__
        cell.cell_contents = _own(x, memo) if nested else x if isinstance(x, ModuleType) else copy.deepcopy(x, memo)
    return made
