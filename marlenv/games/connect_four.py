"""Connect four (https://en.wikipedia.org/wiki/Connect_Four) for any batch of boards at once.

A board is two int64 words with a byte per row, the top row first. At least one bit of every byte stays empty, so that shifts do
not carry stones from one row into the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import torch
from torch import Size, Tensor

from marlenv.errors import whole
from marlenv.games import drawing
from marlenv.games.bits import planes
from marlenv.games.memory import as_rows, for_numba, kernels
from marlenv.games.rules import Arrays, Rules
from marlenv.games.tables import Table
from marlenv.rng import RowRNG


class State(NamedTuple):
    """A position."""

    board: Tensor  # [*B, 4] int64: stones of the player to move, bit 8 * row + column; all stones; how many; 1 if one made a line

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
    >>> state = rules.start(Size([2]))
    >>> for column in (3, 0, 3, 0, 3, 0, 3):
    ...     state = rules.play(state, torch.tensor([column, 6 - column]))
    >>> rules.returns(state)
    tensor([[ 1., -1.],
            [ 1., -1.]])

    Source: https://en.wikipedia.org/wiki/Connect_Four
    """

    rows: int = 6
    columns: int = 7
    line: int = 4

    players: ClassVar[tuple[str, ...]] = ("x", "o")
    outcomes: ClassVar[tuple[str, ...]] = ("", "line", "board full")
    alternating: ClassVar[bool] = True
    earned_at_end: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, low, high in (("rows", 1, 7), ("columns", 1, 7), ("line", 2, 8)):
            whole("ConnectFour", name, getattr(self, name), low, high)

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

    def _open(self, state: State) -> Tensor:
        """A bit for each column that has room, in a game that goes on; int64 ``[*B]``."""
        return (~state.board[..., 1] & ((1 << self.columns) - 1)).masked_fill(state.won, 0)

    def legal(self, state: State) -> Tensor:
        return _flags(self.columns)[self._open(state)]

    def permits(self, state: State, action: Tensor) -> Tensor:
        column = action.clamp(0, self.columns - 1)
        return ((self._open(state) >> column) & (column == action)).to(torch.bool)

    def pick(self, state: State, unit: Tensor) -> Tensor:
        if for_numba(state.board, rows=unit.numel()) and unit.dtype == torch.float32:
            found = torch.empty(unit.shape, dtype=torch.int64)
            board, tables = as_rows(state.board, 4), (RANKED.array, ROOM.array)
            kernels().connect_four_pick(*tables, board, as_rows(unit), self.columns, as_rows(found))
            return found
        open_ = self._open(state)
        rank = (ROOM[open_] * unit).to(torch.int64)
        return RANKED[torch.add(rank, open_, alpha=8)]

    def pick_from(self, state: State, key: Tensor, at: int, lanes: tuple[int, int]) -> Tensor | None:
        if not for_numba(state.board, rows=key.numel()):
            return None
        found = torch.empty(key.shape, dtype=torch.int64)
        rows = as_rows(state.board, 4), as_rows(key)
        kernels().connect_four_pick_from(RANKED.array, ROOM.array, *rows, at, lanes, self.columns, as_rows(found))
        return found

    def play(self, state: State, action: Tensor) -> State:
        own, stones, ply, won = state.board.unbind(-1)
        whole, bottom = _cells(self.rows, self.columns), _cells(1, self.columns) << 8 * (self.rows - 1)
        rests = ~stones & ((stones >> 8) | bottom)  # the cell of each column that a stone falls to
        stone = rests & (_cells(self.rows, 1) << action) & whole
        stone = torch.where(won == 0, stone, 0)
        goes = stone != 0
        mine = own | stone
        line = self._has_line(mine) & goes
        after = (torch.where(goes, stones ^ own, own), stones | stone, ply + goes, won | line)
        return State(torch.stack(after, -1))

    def _has_line(self, stones: Tensor) -> Tensor:
        found = torch.zeros_like(stones)
        for step in (1, 8, 7, 9):  # to the right, down, down to the left, down to the right
            run, length = stones, 1
            while length < self.line:
                reach = min(length, self.line - length)
                run = run & (run >> (step * reach))
                length += reach
            found = found | run
        return found != 0

    def over(self, state: State) -> Tensor:
        return state.won | (state.ply == self.longest)

    def returns(self, state: State) -> Tensor:
        score = (2 * (state.ply & 1) - 1) * state.won  # who made the line is not the one to move
        score = score.to(torch.float32)
        return torch.stack((score, -score), -1)

    def outcome(self, state: State) -> Tensor:
        full = (state.ply == self.longest).to(torch.int8) * 2
        return full.masked_fill(state.won, 1)

    def observe(self, state: State) -> Tensor:
        """Planes ``[3, rows, columns]``, top row first: own stones, the other's, ones if it is my turn; bool ``[*B, 2, 3, rows, columns]``."""
        player, own = self.player(state), state.board[..., 0]
        others = state.board[..., 1] ^ own
        x, o = torch.where(player == 0, own, others), torch.where(player == 0, others, own)
        return planes(x, o, player, self.rows, self.columns)

    # --- in one pass, on the CPU and with numba ---------------------------------------------------

    def turn(self, state: State, actions: Sequence[Tensor], gone: Tensor, told: Arrays, begun: Arrays | None) -> int:
        board, x, o = as_rows(state.board, 4), *map(as_rows, actions)
        shape, ahead = (self.rows, self.columns, self.line), begun is not None
        begun = told if begun is None else begun
        return int(kernels().connect_four_turn(board, x, o, as_rows(gone), shape, ahead, told, begun))

    # --- for people ------------------------------------------------------------------------------

    def action_name(self, state: State, action: int) -> str:
        """The column, counted from 1."""
        return str(action + 1)

    def grid(self, state: State) -> list[list[str]]:
        """The marks ``x``, ``o`` and ``.`` of one position, top row first."""
        seen = self.observe(state)[0]
        return [
            ["x" if a else "o" if b else "." for a, b in zip(*pair, strict=True)]
            for pair in zip(seen[0].tolist(), seen[1].tolist(), strict=True)
        ]

    def show(self, state: State, *, color: bool = False) -> str:
        """The board with ``x`` and ``o``, and the numbers of the columns."""
        paint = {"x": drawing.red, "o": drawing.yellow, ".": drawing.faint}
        rows = [" ".join(paint[mark](mark, color) for mark in row) for row in self.grid(state)]
        return "\n".join([*rows, drawing.faint(" ".join(str(c + 1) for c in range(self.columns)), color)])

    def svg(self, state: State) -> str:
        """The board with red and golden discs."""
        picture = drawing.Picture(self.columns, self.rows + 0.5, margin=0.25)
        picture.rect((0, 0), (self.columns, self.rows), drawing.BLUE, round_by=0.2)
        fill = {"x": drawing.RED, "o": drawing.GOLD, ".": drawing.PAPER}
        for y, row in enumerate(self.grid(state)):
            for x, mark in enumerate(row):
                picture.disc((x + 0.5, y + 0.5), fill[mark], 0.4)
        for x in range(self.columns):
            picture.text((x + 0.5, self.rows + 0.25), str(x + 1))
        return picture.svg()


def _cells(rows: int, columns: int) -> int:
    """The word of the upper left ``rows`` times ``columns`` cells."""
    return sum(((1 << columns) - 1) << 8 * row for row in range(rows))


@lru_cache(maxsize=8)
def _flags(columns: int) -> Table:
    """The bits of each number; bool ``[2 ** columns, columns]``."""
    return Table(_bits()[: 1 << columns, :columns].contiguous)


def _bits() -> Tensor:
    return ((torch.arange(256).unsqueeze(-1) >> torch.arange(8)) & 1).to(torch.bool)


def _ranked() -> Tensor:
    """The set bits of each number in order, then 0; int64 ``[256 * 8]``."""
    order = torch.where(_bits(), torch.arange(8), 8).sort(-1)[0]
    return (order % 8).flatten()


RANKED, ROOM = Table(_ranked), Table(lambda: _bits().sum(-1).to(torch.float32))
