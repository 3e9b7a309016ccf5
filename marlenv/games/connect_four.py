"""Connect four for any batch of boards at once. A board is two int64 words with a byte per row, the top row first.

At least one bit of every byte stays empty, so that shifts do not carry stones from one row into the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Size, Tensor

from marlenv.games.fast.boards import FastBoard
from marlenv.games.parts import drawing
from marlenv.games.parts.bits import in_a_row, low_bits, planes
from marlenv.games.parts.options import keep_whole
from marlenv.games.rules import Rules
from marlenv.rng import RowRNG


class State(NamedTuple):
    """A position."""

    board: Tensor  # [*B, 4] int64: own stones, bit 8 * row + column; all stones; how many; 1 if the last made a line

    @property
    def ply(self) -> Tensor:
        """How many stones there are; int64 ``[*B]``."""
        return self.board[..., 2]

    @property
    def won(self) -> Tensor:
        """Whether the last stone made a line; bool ``[*B]``."""
        return self.board[..., 3] != 0


@dataclass(frozen=True)
class ConnectFour(Rules[State]):
    """Drop stones into columns; four in a row win. ``x`` begins.

    The actions are columns, counted from the left; people count from 1::

        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . . o . . .
        . . x x o . .
        1 2 3 4 5 6 7

    - observation: planes ``[3, rows, columns]``, top row first: own stones, the other's stones, ones if it is my turn
    - action: a column
    - reward: +1 for the first line, -1 for the other
    - ends: with a line, or a full board

    Args:
        rows: 1 to 7.
        columns: 1 to 7.
        line: how many in a row win, from 2 on.

    >>> rules = ConnectFour()
    >>> state = rules.start(Size([]))
    >>> for column in (3, 0, 3, 0, 3, 0, 3):
    ...     state = rules.play(state, torch.tensor(column))
    >>> rules.returns(state)
    tensor([ 1., -1.])

    Source: https://en.wikipedia.org/wiki/Connect_Four
    """

    rows: int = 6
    columns: int = 7
    line: int = 4

    players = ("x", "o")
    outcomes = ("", "line", "board full")
    alternating = pays_at_end = True

    def __post_init__(self) -> None:
        for name, low, high in (("rows", 1, 7), ("columns", 1, 7), ("line", 2, 8)):
            keep_whole(self, name, low, high)

    @property
    def n_actions(self) -> int:
        return self.columns

    @property
    def longest(self) -> int:
        return self.rows * self.columns

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (3, self.rows, self.columns)

    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> State:
        return State(torch.zeros((*batch_size, 4), dtype=torch.int64, device=device))

    def player(self, state: State) -> Tensor:
        return state.ply & 1

    def legal(self, state: State) -> Tensor:
        open_ = ~state.board[..., 1] & ((1 << self.columns) - 1)  # a bit for each column whose highest cell is free
        return low_bits(open_.masked_fill(state.won, 0), self.columns)

    def permits(self, state: State, action: Tensor) -> Tensor:
        column = action.clamp(0, self.columns - 1)
        return ((~state.board[..., 1] >> column) & (column == action) & ~state.won).to(torch.bool)

    def play(self, state: State, action: Tensor) -> State:
        own, stones, ply, won = state.board.unbind(-1)
        rests = ~stones & ((stones >> 8) | _cells(1, self.columns) << 8 * (self.rows - 1))  # where stones fall to
        stone = torch.where(won == 0, rests & (_cells(self.rows, 1) << action.to(torch.int64)), 0)
        goes, steps = stone != 0, (1, 8, 7, 9)  # to the right, down, down to the left, down to the right
        line = goes & torch.stack([in_a_row(own | stone, step, self.line) for step in steps]).any(0)
        after = (torch.where(goes, stones ^ own, own), stones | stone, ply + goes, won | line)
        return State(torch.stack(after, -1))

    def over(self, state: State) -> Tensor:
        return state.won | (state.ply == self.longest)

    def returns(self, state: State) -> Tensor:
        score = ((2 * (state.ply & 1) - 1) * state.won).to(torch.float32)  # who made the line is not the one to move
        return torch.stack((score, -score), -1)

    def outcome(self, state: State) -> Tensor:
        return ((state.ply == self.longest).to(torch.int8) * 2).masked_fill(state.won, 1)

    def observe(self, state: State) -> Tensor:
        """Own stones, the other's, ones if it is my turn; bool ``[*B, 2, 3, rows, columns]``, top row first."""
        player, own, stones = self.player(state), state.board[..., 0], state.board[..., 1]
        x = torch.where(player == 0, own, stones ^ own)
        return planes(x, stones ^ x, player, self.rows, self.columns)

    def fast_form(self) -> FastBoard[State]:
        """The same answers for envs of many rows, see :mod:`marlenv.games.fast`."""
        return FastBoard(self, "connect_four_kernels", (self.rows, self.columns, self.line), work=(10, 60))

    def action_name(self, state: State, action: int) -> str:
        """The column, counted from 1."""
        return str(action + 1)

    def show(self, state: State, *, color: bool = False) -> str:
        """The board with ``x`` and ``o``, and the numbers of the columns."""
        paint = {"x": drawing.red, "o": drawing.yellow, ".": drawing.faint}
        rows = [" ".join(paint[mark](mark, color) for mark in row) for row in drawing.marks(self.observe(state))]
        return "\n".join([*rows, drawing.faint(" ".join(map(str, range(1, self.columns + 1))), color)])

    def svg(self, state: State) -> str:
        """The board with red and golden discs."""
        picture = drawing.Picture(self.columns, self.rows + 0.5, margin=0.25)
        picture.rect((0, 0), (self.columns, self.rows), drawing.BLUE, round_by=0.2)
        fill = {"x": drawing.RED, "o": drawing.GOLD, ".": drawing.PAPER}
        for y, row in enumerate(drawing.marks(self.observe(state))):
            for x, mark in enumerate(row):
                picture.disc((x + 0.5, y + 0.5), fill[mark], 0.4)
        for x in range(self.columns):
            picture.text((x + 0.5, self.rows + 0.25), str(x + 1))
        return picture.svg()


def _cells(rows: int, columns: int) -> int:
    """The word of the upper left ``rows`` times ``columns`` cells."""
    return sum(((1 << columns) - 1) << 8 * row for row in range(rows))
