"""Hex (https://en.wikipedia.org/wiki/Hex_(board_game)) for any batch of boards at once.

Every stone carries the number of its chain, and the four edges count as stones. A new stone gives its number to all
chains beside it, so that a game is over when two opposite edges have the same number: nothing is ever searched.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import torch
from torch import Size, Tensor

from marlenv.errors import SpecError, flag
from marlenv.games.fast.boards import FastBoard
from marlenv.games.parts import drawing
from marlenv.games.parts.options import keep_whole
from marlenv.games.parts.tables import Table
from marlenv.games.rules import Rules
from marlenv.rng import RowRNG

SIDES = ((-1, 0), (-1, 1), (0, 1), (1, 0), (1, -1), (0, -1))  # where the six neighbours of a cell are: row, column


class State(NamedTuple):
    """A position; the chains of x have numbers above 0, those of o below, and a free cell has 0."""

    chain: Tensor  # [*B, cells + 5] int16: per cell, then the edges north, south, west and east, then 0
    ply: Tensor  # [*B] int64: how many moves were made


@dataclass(frozen=True)
class Hex(Rules[State]):
    """Connect your two edges: ``x``, who begins, the upper with the lower, ``o`` the left with the right one.

    Cells are counted row by row from the upper left corner; people write column and row, ``a1`` first. Every row stands
    half a cell further to the right than the one above, and a cell touches six others.

    - observation: planes ``[3, rows, columns]``: own stones, the other's stones, ones if it is my turn
    - action: a cell; with ``swap`` also ``rows * columns``
    - reward: +1 for the connection, -1 for the other
    - ends: with a connection; there is no draw

    Args:
        rows: 2 to 26.
        columns: as many as rows when left out.
        swap: whether ``o`` may answer the first stone by taking it over, mirrored along the long diagonal (the pie
            rule).

    >>> rules = Hex(3)
    >>> state = rules.start(Size([]))
    >>> for name in ("b1", "a1", "b2", "a2", "b3"):
    ...     state = rules.play(state, torch.tensor(rules.read_action(state, name)))
    >>> rules.returns(state)
    tensor([ 1., -1.])

    Source: https://en.wikipedia.org/wiki/Hex_(board_game)
    """

    rows: int = 11
    columns: int | None = None
    swap: bool = False

    players: ClassVar[tuple[str, ...]] = ("x", "o")
    outcomes: ClassVar[tuple[str, ...]] = ("", "connected")
    alternating: ClassVar[bool] = True
    pays_at_end: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            keep_whole(self, name, 2, 26)
        if flag("Hex", "swap", self.swap) and self.rows != self.width:
            raise SpecError(f"Hex: swap needs a square board, got {self.rows} rows and {self.width} columns")

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.rows if self.columns is None else self.columns

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.rows * self.width

    @property
    def n_actions(self) -> int:
        return self.cells + self.swap

    @property
    def longest(self) -> int:
        return self.cells + self.swap

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (3, self.rows, self.width)

    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> State:
        n = self.cells
        chain = torch.zeros(*batch_size, n + 5, dtype=torch.int16, device=device)
        for edge, number in enumerate((n + 1, n + 2, -n - 3, -n - 4)):
            chain[..., n + edge] = number
        return State(chain, torch.zeros(batch_size, dtype=torch.int64, device=device))

    def player(self, state: State) -> Tensor:
        return state.ply & 1

    def legal(self, state: State) -> Tensor:
        going = ~self.over(state).unsqueeze(-1)
        free = (state.chain[..., : self.cells] == 0) & going
        return torch.cat((free, (state.ply == 1).unsqueeze(-1) & going), -1) if self.swap else free

    def play(self, state: State, action: Tensor) -> State:
        swaps = action == self.cells
        cell = action.unsqueeze(-1)
        if self.swap:  # o takes the cell that mirrors the one stone there is
            stone = state.chain[..., : self.cells].ne(0).to(torch.int8).argmax(-1, keepdim=True)
            mirrored = stone % self.rows * self.rows + stone // self.rows
            cell = torch.where(swaps.unsqueeze(-1), mirrored, cell)
            fresh = self.start(state.ply.shape, device=state.ply.device).chain
            chain = torch.where(swaps.unsqueeze(-1), fresh, state.chain)
        else:
            chain = state.chain
        player = self.player(state)
        sign = (1 - 2 * player).to(torch.int16).unsqueeze(-1)
        beside = _neighbours(self.rows, self.width)[torch.add(cell.squeeze(-1), player, alpha=self.cells)]
        met, number = chain.gather(-1, beside), (cell + 1).to(torch.int16) * sign
        met = torch.where(met * sign > 0, met, number)  # the chains of mine that the stone joins
        joined = chain == number
        for one in met.unbind(-1):
            joined = joined | (chain == one.unsqueeze(-1))
        after = torch.where(joined, number, chain).scatter(-1, cell, number)
        over = self.over(state)
        return State(torch.where(over.unsqueeze(-1), state.chain, after), state.ply + ~over)

    def _connected(self, state: State) -> Tensor:
        """Who has connected the edges; bool ``[*B, 2]``."""
        north, south, west, east = state.chain[..., self.cells : self.cells + 4].unbind(-1)
        return torch.stack((north == south, west == east), -1)

    def over(self, state: State) -> Tensor:
        return self._connected(state).any(-1)

    def returns(self, state: State) -> Tensor:
        x, o = self._connected(state).to(torch.float32).unbind(-1)
        return torch.stack((x - o, o - x), -1)

    def observe(self, state: State) -> Tensor:
        """Own stones, the other's, ones if it is my turn; bool ``[*B, 2, 3, rows, columns]``."""
        cells = state.chain[..., : self.cells].unflatten(-1, (self.rows, self.width))
        x, o = cells > 0, cells < 0
        turns = [(self.player(state) == seat)[..., None, None].expand(x.shape) for seat in (0, 1)]
        return torch.stack((x, o, turns[0], o, x, turns[1]), -3).unflatten(-3, (2, 3))

    def fast_form(self) -> FastBoard[State]:
        """The same answers for envs of many rows, see :mod:`marlenv.games.fast`."""
        return FastBoard(self, "hex_kernels", (self.rows, self.width, self.swap), work=(100, 700))

    # --- for people ------------------------------------------------------------------------------

    def action_name(self, state: State, action: int) -> str:
        """Column and row: ``"a1"`` is the upper left corner."""
        if action == self.cells:
            return "swap"
        return f"{string.ascii_lowercase[action % self.width]}{action // self.width + 1}"

    def marks(self, state: State) -> list[str]:
        """``x``, ``o`` or ``.`` for each cell of one position."""
        return ["x" if c > 0 else "o" if c < 0 else "." for c in state.chain[: self.cells].tolist()]

    def show(self, state: State, *, color: bool = False) -> str:
        """The board as a rhombus, with letters and numbers."""
        paint, marks = {"x": drawing.red, "o": drawing.blue, ".": drawing.faint}, self.marks(state)
        letters = " ".join(string.ascii_lowercase[: self.width])
        lines = ["   " + drawing.faint(letters, color)]
        for row in range(self.rows):
            cells = marks[row * self.width : (row + 1) * self.width]
            shown = " ".join(paint[mark](mark, color) for mark in cells)
            lines.append(" " * row + drawing.faint(f"{row + 1:2}", color) + " " + shown)
        return "\n".join(lines)

    def svg(self, state: State) -> str:
        """The board of hexagons, edges in the colours of their owners."""
        wide = self.width + self.rows / 2
        picture = drawing.Picture(wide, 0.866 * self.rows, margin=0.8)
        tall = 0.866 * self.rows
        slant = (self.rows - 1) / 2
        for y, shift in ((-0.3, 0.0), (tall + 0.43, slant)):
            picture.line((shift + 0.5, y), (shift + self.width - 0.5, y), drawing.RED, 0.2)
        for x in (-0.3, self.width + 0.3):
            picture.line((x, 0.45), (x + slant, tall - 0.45), drawing.BLUE, 0.2)
        fill = {"x": drawing.RED, "o": drawing.BLUE, ".": drawing.WHITE}
        for cell, mark in enumerate(self.marks(state)):
            row, column = divmod(cell, self.width)
            x, y = column + row / 2 + 0.5, 0.866 * row + 0.5
            corners = [(0, -0.577), (0.5, -0.289), (0.5, 0.289), (0, 0.577), (-0.5, 0.289), (-0.5, -0.289)]
            picture.polygon([(x + dx, y + dy) for dx, dy in corners], fill[mark], line=drawing.FAINT)
            if mark == ".":
                picture.text((x, y), self.action_name(state, cell), drawing.FAINT, 0.24)
        return picture.svg()


@lru_cache(maxsize=64)
def _neighbours(rows: int, columns: int) -> Table:
    """What each player's stone on each cell touches, cells and own edges, filled up; int64 ``[2 * cells, 6]``."""

    def make() -> Tensor:
        n, lines = rows * columns, []
        for player in (0, 1):
            for cell in range(n):
                at = divmod(cell, columns)
                near = [(at[0] + dr, at[1] + dc) for dr, dc in SIDES]
                touched = [r * columns + c for r, c in near if 0 <= r < rows and 0 <= c < columns]
                touched += [n + 2 * player] * (at[player] == 0)
                touched += [n + 2 * player + 1] * (at[player] == (rows, columns)[player] - 1)
                lines.append(touched + [n + 4] * (6 - len(touched)))
        return torch.tensor(lines)

    return Table(make)
