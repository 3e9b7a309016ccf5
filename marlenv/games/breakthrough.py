"""Breakthrough for any batch of boards at once.

A board is two int64 words; bit ``8 * row + column`` is a cell, the top row first.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Size, Tensor

from marlenv.games.fast.boards import FastBoard
from marlenv.games.parts import drawing
from marlenv.games.parts.bits import cells, flags, planes
from marlenv.games.parts.options import keep_whole
from marlenv.games.rules import Rules
from marlenv.rng import RowRNG


class State(NamedTuple):
    """A position."""

    white: Tensor  # [*B] int64: white's stones, bit 8 * row + column
    black: Tensor  # [*B] int64: black's
    ply: Tensor  # [*B] int64: how many moves were made


@dataclass(frozen=True)
class Breakthrough(Rules[State]):
    """Be the first to bring a stone to the other's edge. White begins at the lower edge.

    A stone goes one cell ahead, straight or aslant, to a free cell; aslant also to one with a stone of the other, which
    is captured. An action is three times the cell, counted row by row from the upper left corner, and 0, 1 or 2 for a
    move to the left, straight or to the right, as one sees the board; people write both cells, ``a2b3``::

        8 b b b b b b b b
        7 b b b b b b b b
        6 . . . . . . . .
        5 . . . . . . . .
        4 . . . . . . . .
        3 . . . . . . . .
        2 w w w w w w w w
        1 w w w w w w w w
          a b c d e f g h

    - observation: planes ``[3, rows, columns]``, top row first: own stones, the other's stones, ones if it is my turn
    - action: a cell and where to
    - reward: +1 for the breakthrough or the last capture, -1 for the other
    - ends: with a stone on the other's edge, or when one has no stone left; there is no draw

    Args:
        rows: 2 to 8; from 6 on each begins with two rows of stones, else with one.
        columns: 2 to 8.

    >>> rules = Breakthrough(4, 3)
    >>> state = rules.start(Size([]))
    >>> for name in ("b1a2", "b4c3", "a2b3", "c3b2", "b3a4"):
    ...     state = rules.play(state, torch.tensor(rules.read_action(state, name)))
    >>> rules.returns(state)
    tensor([ 1., -1.])

    Source: https://en.wikipedia.org/wiki/Breakthrough_(board_game)
    """

    rows: int = 8
    columns: int = 8

    players: ClassVar[tuple[str, ...]] = ("white", "black")
    outcomes: ClassVar[tuple[str, ...]] = ("", "breakthrough", "all captured")
    alternating: ClassVar[bool] = True
    pays_at_end: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            keep_whole(self, name, 2, 8)

    @property
    def n_actions(self) -> int:
        return 3 * self.rows * self.columns

    @property
    def depth(self) -> int:
        """How many rows of stones each has at the start."""
        return 2 if self.rows >= 6 else 1

    @property
    def longest(self) -> int:
        ahead = sum(self.rows - 2 - row for row in range(self.depth))  # of a column's stones, all but the last step
        return 2 * self.columns * ahead + 1

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (3, self.rows, self.columns)

    def _block(self, *rows: int) -> int:
        """The word of these rows."""
        return cells(*(8 * row + column for row in rows for column in range(self.columns)))

    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> State:
        zero = torch.zeros(batch_size, dtype=torch.int64, device=device)
        lower = self._block(*range(self.rows - self.depth, self.rows))
        return State(zero + lower, zero + self._block(*range(self.depth)), zero)

    def player(self, state: State) -> Tensor:
        return state.ply & 1

    def legal(self, state: State) -> Tensor:
        white = self.player(state) == 0
        own = torch.where(white, state.white, state.black).masked_fill(self.over(state), 0)
        free = ~(state.white | state.black)
        first, last = (cells(*(8 * row + column for row in range(self.rows))) for column in (0, self.columns - 1))
        from_ = []  # what a shift to the right copies of the sign is in the last row, where black has won, or an edge
        for column, targets, edge in ((-1, ~own, first), (0, free, 0), (1, ~own, last)):
            up, down = targets << 8 - column, targets >> 8 + column  # from where white, black come to these
            from_.append(own & ~edge & torch.where(white, up, down))
        return flags(torch.stack(from_, -1), self.rows, self.columns).movedim(-3, -1).flatten(-3)

    def play(self, state: State, action: Tensor) -> State:
        white, going = self.player(state) == 0, ~self.over(state)
        cell, column = action // 3, action % 3 - 1
        at = cell // self.columns * 8 + cell % self.columns
        to = at + column + torch.where(white, -8, 8)
        source, target = (going.to(torch.int64) << place.clamp(0, 63) for place in (at, to))
        moved, kept = source | target, ~target
        return State(
            torch.where(white, state.white ^ moved, state.white & kept),
            torch.where(white, state.black & kept, state.black ^ moved),
            state.ply + going,
        )

    def over(self, state: State) -> Tensor:
        return self.outcome(state) > 0

    def outcome(self, state: State) -> Tensor:
        through = ((state.white & self._block(0)) | (state.black & self._block(self.rows - 1))) != 0
        gone = (state.white == 0) | (state.black == 0)
        return (gone.to(torch.int8) * 2).masked_fill(through, 1)

    def returns(self, state: State) -> Tensor:
        score = ((2 * (state.ply & 1) - 1) * self.over(state)).to(torch.float32)  # who moved last has won
        return torch.stack((score, -score), -1)

    def observe(self, state: State) -> Tensor:
        """Own stones, the other's, ones if it is my turn; bool ``[*B, 2, 3, rows, columns]``, top row first."""
        return planes(state.white, state.black, self.player(state), self.rows, self.columns)

    def fast_form(self) -> FastBoard[State]:
        """The same answers for envs of many rows, see :mod:`marlenv.games.fast`."""
        return FastBoard(self, "breakthrough_kernels", (self.rows, self.columns), work=(60, 300))

    # --- for people ------------------------------------------------------------------------------

    def action_name(self, state: State, action: int) -> str:
        """Both cells, such as ``"a2b3"``, as it is for the player to move."""
        (row, column), aside = divmod(action // 3, self.columns), action % 3 - 1
        ahead = 1 - 2 * int(self.player(state))
        names = string.ascii_lowercase
        return f"{names[column]}{self.rows - row}{names[column + aside]}{self.rows - row + ahead}"

    def _marks(self, state: State) -> list[list[str]]:
        words = {"x": "w", "o": "b", ".": "."}
        return [[words[mark] for mark in row] for row in drawing.marks(self.observe(state))]

    def show(self, state: State, *, color: bool = False) -> str:
        """The board with ``w`` and ``b``, letters and numbers."""
        paint = {"w": drawing.bold, "b": drawing.blue, ".": drawing.faint}
        rows = [" ".join(paint[mark](mark, color) for mark in row) for row in self._marks(state)]
        return drawing.labelled(rows, string.ascii_lowercase[: self.columns], color=color)

    def svg(self, state: State) -> str:
        """The chequered board with white and black discs."""
        picture = drawing.Picture(self.columns, self.rows)
        fill = {"w": drawing.WHITE, "b": drawing.BLACK}
        for y, row in enumerate(self._marks(state)):
            picture.text((-0.25, y + 0.5), str(self.rows - y))
            for x, mark in enumerate(row):
                picture.rect((x, y), (1, 1), drawing.WOOD if (x + y) % 2 else drawing.PAPER)
                if mark != ".":
                    picture.disc((x + 0.5, y + 0.5), fill[mark], 0.36, line=drawing.INK)
        for x in range(self.columns):
            picture.text((x + 0.5, self.rows + 0.25), string.ascii_lowercase[x])
        return picture.svg()
