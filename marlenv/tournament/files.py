"""Files that a tournament writes: each whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterable
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


def write_whole(path: Path, parts: Iterable[str]) -> None:
    """Writes a text beside its place and then puts it there, so that nobody reads half of it.

    Raises:
        OSError: it cannot be written; an older file is as it was.
    """
    text, draft = "".join(parts), path.with_name(f".{path.name}.draft")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise OSError(f"{path}: {error.strerror}; nothing was written, an older file is as it was") from error
    finally:
        draft.unlink(missing_ok=True)
