"""Files, each written whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch


@contextmanager
def whole_file(who: str, path: Path, kept: str = "an older file is as it was") -> Iterator[Path]:
    """A place beside ``path`` to write to, which becomes ``path`` when all is written; makes the folder.

    What is no file, such as ``/dev/stdout``, is written to itself; behind a link is the file that it names.

    Args:
        who: writes it.
        path: of the file.
        kept: what is there still after an error.

    Raises:
        OSError: it cannot be written, as where the disk is full.
    """
    place = path.resolve()
    older, draft = path.is_file(), place.with_name(f".{place.stem}.{os.getpid()}{place.suffix}")
    try:
        if path.exists() and not older:
            yield path
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)
        yield draft
        if older:
            shutil.copymode(place, draft)
        draft.replace(place)
    except OSError as error:
        raise OSError(f"{who}: {path} cannot be written: {error.strerror or error}; {kept}") from error
    finally:
        draft.unlink(missing_ok=True)


def save(what: Any, path: Path) -> None:
    """Writes with torch.

    Raises:
        OSError: the file cannot be written.
    """
    try:
        with path.open("wb") as file:
            torch.save(what, file)
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):  # what the file said, which torch puts its own text on top of
            raise OSError(*error.__context__.args) from error
        raise
