"""Where a tournament writes files."""

from __future__ import annotations

from pathlib import Path

from marlenv.errors import PoolError


def placed(who: str, path: Path) -> Path:
    """The path of a file to write, if there can be one.

    Raises:
        PoolError: there is no such folder, or the path is one.
    """
    if not path.parent.is_dir():
        raise PoolError(f"{who} {path}: there is no folder {path.parent}; make it, or choose another place")
    if path.is_dir():
        raise PoolError(f"{who} {path}: that is a folder; name a file in it")
    return path
