"""Where a tournament writes files."""

from __future__ import annotations

from pathlib import Path

from marlenv.errors import PoolError


def placed(who: str, path: Path, ledger: Path | None = None) -> Path:
    """The path of a file to write, if there can be one.

    Args:
        who: writes it.
        path: of the file.
        ledger: of the tournament that it tells of; it is not written over.

    Raises:
        PoolError: there is no such folder, or the path is one, or that of the ledger.
    """
    if not path.parent.is_dir():
        raise PoolError(f"{who} {path}: there is no folder {path.parent}; make it, or choose another place")
    if path.is_dir():
        raise PoolError(f"{who} {path}: that is a folder; name a file in it")
    if ledger is not None and path.exists() and path.samefile(ledger):
        raise PoolError(f"{who} {path}: that is the ledger, and its games would be lost; name another file")
    return path
