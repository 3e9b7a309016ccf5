"""Functions that numba compiles, with machine code kept on disk until one of the files changes that it is made from.

numba itself looks at the file of a function alone: what the function calls could be from another version, and an
upgrade of marlenv would go on with machine code of the version before. Importing this needs numba.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from marlenv.optional import need

numba = need("numba", "machine code of games")

Function = TypeVar("Function", bound=Callable[..., Any])

GAMES = Path(__file__).parent.parent
BESIDE = ("rng.py", "threads.py")
"""What the kernels of games use of other rooms."""


@lru_cache(maxsize=1)
def _stamp() -> str:
    """A hash of all files that machine code of games is made from, by name."""
    found = hashlib.sha256()
    for file in [*sorted(GAMES.rglob("*.py")), *(GAMES.parent / name for name in BESIDE)]:
        data = file.read_bytes()
        found.update(f"{file.relative_to(GAMES.parent)} {len(data)}\n".encode() + data)
    return found.hexdigest()


def compiled(function: Function) -> Any:
    """A function as machine code, which does not hold Python's lock; kept on disk where there is a place for it."""
    try:
        made = numba.njit(cache=True, nogil=True)(function)
        made._cache._cache_file._source_stamp = _stamp()  # numba has no other place for it
    except (RuntimeError, OSError):  # no folder can be written to, or the files are not there to be read
        return numba.njit(nogil=True)(function)
    return made


def inline(function: Function) -> Any:
    """A function whose code is put where it is called."""
    return numba.njit(inline="always")(function)


__all__ = ["compiled", "inline"]
