"""The moves of many games in one array, which a list is made of only for who looks at a game."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Moves = list[list[int]]
"""Of one game: in each move an action per seat that moved."""

WIDTHS = (np.int8, np.int16, np.int32, np.int64)


class MoveLists(Sequence[Moves]):
    """The moves of games, a list for each.

    Args:
        codes: all moves, game by game; ``[M, k]``.
        ends: behind which of them each game ends; int64 ``[G]``.

    >>> both = MoveLists(np.array([[5], [7], [4]]), np.array([1, 3]))
    >>> both[1], both == [[[5]], [[7], [4]]]
    ([[7], [4]], True)
    """

    def __init__(self, codes: NDArray[Any], ends: NDArray[np.int64]) -> None:
        self._codes, self._ends = codes, [0, *ends.tolist()]

    @classmethod
    def of(cls, packed: Iterable[bytes], plies: Sequence[int]) -> MoveLists:
        """Those of games that were packed, with the number of moves of each."""
        parts = [unpack(blob, n) for blob, n in zip(packed, plies, strict=True)]
        filled = [part for part in parts if len(part)] or [np.zeros((0, 1), np.int64)]
        return cls(np.concatenate(filled), np.cumsum([len(part) for part in parts], dtype=np.int64))

    def packed(self) -> list[bytes]:
        """The moves of each game in few bytes: the width of a number, then the numbers, little-endian."""
        low, high = (int(self._codes.min()), int(self._codes.max())) if self._codes.size else (0, 0)
        width = next(w for w in WIDTHS if np.iinfo(w).min <= low and high <= np.iinfo(w).max)
        narrow = np.dtype(width).newbyteorder("<")
        data, front = self._codes.astype(narrow).tobytes(), b"%d" % narrow.itemsize
        step = narrow.itemsize * self._codes.shape[1]
        return [front + data[step * a : step * b] for a, b in zip(self._ends, self._ends[1:], strict=False)]

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> Moves: ...
    @overload
    def __getitem__(self, index: slice) -> list[Moves]: ...
    def __getitem__(self, index: int | slice) -> Moves | list[Moves]:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        moves: Moves = self._codes[self._ends[at] : self._ends[at + 1]].tolist()
        return moves

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def unpack(blob: bytes, plies: int) -> NDArray[Any]:
    """The moves of a game of so many, or none where they were not kept; ``[plies, k]``.

    >>> unpack(MoveLists(np.array([[5, 300]]), np.array([1])).packed()[0], 1).tolist()
    [[5, 300]]
    """
    flat = np.frombuffer(blob, np.dtype(f"<i{int(blob[:1])}"), offset=1).astype(np.int64)
    return flat.reshape(plies, -1) if len(flat) else flat.reshape(0, 1)


__all__ = ["MoveLists", "Moves"]
