"""What ``Chess.numbering`` gives: other people's numbers for moves, those of SAN among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from torch import Tensor

from marlenv.errors import UnknownName, nearest
from marlenv.games.chess.board import State
from marlenv.games.chess.fast import paths
from marlenv.games.chess.numberings import san
from marlenv.games.chess.numberings.encoding import Encoding, Name, encoding


@dataclass(frozen=True)
class Numbering:
    """A numbering of moves, and the way to our actions and back; get one from ``Chess.numbering``.

    >>> from marlenv.games.chess import Chess
    >>> rules = Chess()
    >>> state, san = rules.start(torch.Size([1])), rules.numbering("san")
    >>> e4 = rules.read_sans(state, ["e4"])
    >>> san.encode(state, e4), san.decode(state, san.encode(state, e4)) == e4
    (tensor([26]), tensor([True]))
    """

    name: Any
    chess960: bool = False
    path: paths.Path = "auto"

    def __post_init__(self) -> None:
        known = [*get_args(Name), "san"]
        if self.name not in known:
            raise UnknownName(f"Chess.numbering: {self.name!r}; {nearest(str(self.name), known)}")

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return len(san.san_moves()) if self.name == "san" else self._table.size

    @property
    def _table(self) -> Encoding:
        return encoding(self.name, self.chess960)

    def mask(self, state: State) -> Tensor:
        """The legal moves; bool ``[*B, size]``."""
        if self.name == "san":
            return san.numbered(state, self.chess960, self.path).mask()
        return self._table.mask(state.board, state.moves)

    def decode(self, state: State, number: Tensor) -> Tensor:
        """Our actions of numbers, int64 ``[*B]``; -1 where a number means nothing (in SAN: no legal move)."""
        if self.name == "san":
            return san.numbered(state, self.chess960, self.path).action(number)
        return self._table.decode(state.board, number)

    def encode(self, state: State, action: Tensor) -> Tensor:
        """The numbers of our actions, int64 ``[*B]``; -1 where they have none (in SAN: where they are not legal)."""
        if self.name == "san":
            return san.numbered(state, self.chess960, self.path).number(action)
        return self._table.encode(state.board, action)
