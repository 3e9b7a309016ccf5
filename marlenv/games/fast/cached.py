"""Functions that numba compiles, with machine code kept on disk until one of the files changes that it is made from.

numba itself looks at the file of a function alone: what the function calls could be from another version, and an
upgrade of marlenv would go on with machine code of the version before. Importing this needs numba.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from marlenv.errors import Unsupported
from marlenv.games.fast.compiled import switched_off
from marlenv.optional import need

if switched_off():
    raise Unsupported("machine code of games: numba is switched off by NUMBA_DISABLE_JIT; unset it, or do without")
numba = need("numba", "machine code of games")

from numba.core.caching import FunctionCache  # noqa: E402

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


DAMAGED = (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError, IndexError, KeyError, ValueError)
"""What comes of files that cannot be read, or were not written to their end."""


class MachineCodeCache(FunctionCache):
    """Machine code of a function on disk: what cannot be read is made again, and what cannot be written is not kept."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was kept; None where nothing was, or nothing that can be read."""
        try:
            return super().load_overload(sig, target_context)
        except DAMAGED:
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keeps what was compiled; in place of all that was kept, where that cannot be read."""
        try:
            super().save_overload(sig, data)
        except DAMAGED:
            with contextlib.suppress(*DAMAGED):
                self.flush()
                super().save_overload(sig, data)


def compiled(function: Function) -> Any:
    """A function as machine code, which does not hold Python's lock; kept on disk where there is a place for it."""
    made = numba.njit(nogil=True)(function)
    with contextlib.suppress(RuntimeError, OSError):  # no folder can be written to, or the files cannot be read
        kept = MachineCodeCache(function)
        kept._cache_file._source_stamp = _stamp()  # numba has no other place for it
        made._cache = kept
    return made


def inline(function: Function) -> Any:
    """A function whose code is put where it is called."""
    return numba.njit(inline="always")(function)


__all__ = ["compiled", "inline"]
