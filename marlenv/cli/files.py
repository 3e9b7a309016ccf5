"""Files that commands write: where they can be, and the steps of a rollout as they come."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, is_non_tensor, is_tensor_collection

from marlenv.errors import SpecError
from marlenv.files import whole_file


def writable(option: str, path: Path) -> Path:
    """The path of a file to write, if it can be written: found out before the work whose result it is to hold. Makes
    the folder.

    Raises:
        SpecError: it cannot.
    """
    there = path.exists()
    with contextlib.suppress(OSError):  # what is tried next says more
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.open("ab").close()
    except OSError as error:
        raise SpecError(f"{option} {path}: no file can be written there: {error.strerror}; name another") from error
    if not there:
        path.resolve().unlink()  # behind a link is the file that it names
    return path


class KeptRollout:
    """The steps of a rollout in memory-mapped files of a folder, with what was played in ``rollout.json``.

    Files are as long as all steps. A rollout that stops before leaves those that it played, and says so. What is no
    tensor, such as text, has no fixed size in a file, and is written at the end.

    Args:
        out: the folder, which is made; it must be empty.
        steps: how many steps there are to be.
        note: of what was asked for.

    Raises:
        SpecError: the folder holds something, or cannot be made.
    """

    def __init__(self, out: Path, steps: int, note: dict[str, Any]) -> None:
        self._made = not out.exists()
        try:
            out.mkdir(parents=True, exist_ok=True)
            full = any(out.iterdir())
        except OSError as error:
            raise SpecError(
                f"--out {out}: no folder can be made there: {error.strerror}; name another place"
            ) from error
        if full:
            raise SpecError(f"--out {out}: the folder is not empty; choose another or remove it")
        self._out, self._steps, self._note = out, steps, note
        self._store: TensorDictBase | None = None
        self._said: list[Any] = []

    def add(self, data: TensorDictBase) -> None:
        """Writes a step."""
        tensors = data.filter_non_tensor_data()
        if self._store is None:
            self._store = self._allocate(tensors)
        self._store[(slice(None),) * data.ndim + (len(self._said),)].update_(tensors)
        self._said.append(_non_tensors(data))

    def _allocate(self, data: TensorDictBase) -> TensorDictBase:
        """Files for all steps like ``data``, along a new last batch dimension."""
        wide = data.unsqueeze(-1).expand(*data.batch_size, self._steps)
        if any(isinstance(v, LazyStackedTensorDict) for v in wide.values(True)):
            wide = wide.clone()
        try:
            return wide.cpu().memmap_like(prefix=str(self._out))
        except (OSError, RuntimeError) as error:  # of tensordict and of torch
            size = self._steps * data.bytes()
            said = f"rollout: {self._steps} steps of {size:,} bytes cannot be kept in {self._out}: {error}"
            raise OSError(said) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        played = len(self._said)
        if self._store is None or played == 0:
            self._remove()
            if self._made:
                self._out.rmdir()
            return
        store = self._store if played == self._steps else self._cut(self._store, played)
        if self._said[0] is not None:  # tensors stay in their files
            store.clone(False).update(torch.stack(self._said, -1)).memmap(prefix=str(self._out))
        note = {**self._note, "steps": played, "complete": played == self._steps}
        with whole_file("rollout", self._out / "rollout.json") as draft:
            draft.write_text(json.dumps(note, indent=2, default=str) + "\n")
        if error is not None:
            print(f"data of the {played} steps before: {self._out.resolve()}", file=sys.stderr)

    def _cut(self, store: TensorDictBase, played: int) -> TensorDictBase:
        """The files again, as long as what was played."""
        draft = self._out / ".draft"
        store[(slice(None),) * (store.ndim - 1) + (slice(played),)].memmap(prefix=str(draft), copy_existing=True)
        self._remove(but=draft)
        for one in draft.iterdir():
            one.rename(self._out / one.name)
        draft.rmdir()
        return TensorDict.load_memmap(self._out)

    def _remove(self, but: Path | None = None) -> None:
        """Empties the folder, which may be the one that the command was called in."""
        for one in self._out.iterdir():
            if one.is_dir() and one != but:
                shutil.rmtree(one)
            elif one != but:
                one.unlink()


def _non_tensors(data: TensorDictBase) -> TensorDictBase | None:
    """The entries that are no tensors; None where there are none."""

    def kept(value: Any) -> Any:
        if is_non_tensor(value):
            return value
        return _non_tensors(value) if is_tensor_collection(value) else None

    return data.apply(kept, call_on_nested=True, filter_empty=True)
