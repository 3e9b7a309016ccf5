"""The moves of many games in one array, which a list is made of only for who looks at a game."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Moves = list[list[int]]
"""Of one game: in each move an action per seat that moved."""


class MoveLists(Sequence[Moves]):
    """The moves of games, a list for each.

    Args:
        codes: all moves, game by game; ``[M, k]``.
        lengths: how many are those of each game; int64 ``[G]``.

    >>> both = MoveLists(np.array([[5], [7], [4]]), np.array([1, 2]))
    >>> both[1], both == [[[5]], [[7], [4]]]
    ([[7], [4]], True)
    """

    def __init__(self, codes: NDArray[Any], lengths: NDArray[np.int64]) -> None:
        self.codes, self.lengths = codes, lengths
        self._ends = np.append(0, np.cumsum(lengths))

    def part(self, start: int, stop: int) -> NDArray[Any]:
        """The moves of the games from one place up to another, game by game; ``[m, k]``."""
        return self.codes[self._ends[start] : self._ends[stop]]

    def take(self, which: NDArray[np.int64]) -> MoveLists:
        """Those of some games."""
        lengths = self.lengths[which]
        shift = self._ends[which] - np.append(0, np.cumsum(lengths))[:-1]  # from here to there
        return MoveLists(self.codes[np.repeat(shift, lengths) + np.arange(lengths.sum())], lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, index: int) -> Moves: ...
    @overload
    def __getitem__(self, index: slice) -> list[Moves]: ...
    def __getitem__(self, index: int | slice) -> Moves | list[Moves]:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        moves: Moves = self.part(at, at + 1).tolist()
        return moves

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


__all__ = ["MoveLists", "Moves"]
