"""Connect four (https://en.wikipedia.org/wiki/Connect_Four) for any batch of boards at once.

A board is two int64 words with a byte per column, lowest row first; the bit above a full column stays empty, so that shifts
do not carry stones from one column into the next (after J. Tromp, https://tromp.github.io/c4/c4.html).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Size, Tensor

from marlenv.errors import SpecError
from marlenv.games import drawing
from marlenv.games.bits import cells, planes
from marlenv.games.rules import Rules
from marlenv.games.tables import Table
from marlenv.rng import RowRNG


class State(NamedTuple):
    """A position."""

    own: Tensor  # [*B] int64: stones of the player to move, bit 8 * column + row
    stones: Tensor  # [*B] int64: all stones
    ply: Tensor  # [*B] int64: how many stones there are
    won: Tensor  # [*B] bool: whether the last stone made a line


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
        columns: 1 to 8.
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
        for name, low, high in (("rows", 1, 7), ("columns", 1, 8), ("line", 2, 8)):
            if not low <= getattr(self, name) <= high:
                raise SpecError(f"ConnectFour: {name} must be {low} to {high}, got {getattr(self, name)}")

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
        empty = torch.zeros(batch_size, dtype=torch.int64, device=device)
        return State(empty, empty.clone(), empty.clone(), empty.to(torch.bool))

    def player(self, state: State) -> Tensor:
        return state.ply & 1

    def _open(self, state: State) -> Tensor:
        """A 1 in the byte of each column that has room, in a game that goes on; int64 ``[*B]``."""
        lowest = cells(*(8 * column for column in range(self.columns)))
        return (~state.stones >> (self.rows - 1) & lowest).masked_fill(state.won, 0)

    def legal(self, state: State) -> Tensor:
        return self._open(state).unsqueeze(-1).view(torch.bool)[..., : self.columns]

    def permits(self, state: State, action: Tensor) -> Tensor:
        column = action.clamp(0, self.columns - 1)
        return ((self._open(state) >> (8 * column) & 1) != 0) & (column == action)

    def pick(self, state: State, unit: Tensor) -> Tensor:
        """A column with room: the columns as one number of ``columns`` bits, looked up."""
        packed = (self._open(state) * PACK >> 56) & 0xFF
        rank = (ROOM[packed] * unit).to(torch.int64)
        return RANKED[torch.add(rank, packed, alpha=8)]

    def play(self, state: State, action: Tensor) -> State:
        own, stones, ply, won = state
        lowest = (torch.ones_like(own) << (8 * action)).masked_fill(self.over(state), 0)
        after = stones | (stones + lowest)  # the carry goes up through the stones of the column to its first free cell
        mine = own | (after ^ stones)
        goes = lowest != 0
        return State(
            torch.where(goes, stones ^ own, own), after, ply + goes, torch.where(goes, self._has_line(mine), won)
        )

    def _has_line(self, stones: Tensor) -> Tensor:
        steps = STEPS.on(stones.device).reshape(4, *[1] * stones.ndim)
        run, length = stones.unsqueeze(0), 1
        while length < self.line:
            reach = min(length, self.line - length)
            run = run & (run >> (steps * reach))
            length += reach
        return (run != 0).any(0)

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
        whole = cells(*(8 * column + row for column in range(self.columns) for row in range(self.rows)))
        player, others = self.player(state), state.stones ^ state.own
        x, o = torch.where(player == 0, state.own, others), torch.where(player == 0, others, state.own)
        by_column = planes(x, o, player, whole)[..., : self.columns, : self.rows]
        return by_column.transpose(-1, -2).flip(-2)

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


def _ranked() -> Tensor:
    """The set bits of each byte in order, then 0; int64 ``[256 * 8]``."""
    order = torch.where(_bits(), torch.arange(8), 8).sort(-1)[0]
    return (order % 8).flatten()


def _bits() -> Tensor:
    return ((torch.arange(256).unsqueeze(-1) >> torch.arange(8)) & 1).to(torch.bool)


STEPS = Table(lambda: torch.tensor([1, 8, 7, 9]))  # up, right, down and up to the right
RANKED, ROOM = Table(_ranked), Table(lambda: _bits().sum(-1).to(torch.float32))
PACK = cells(*(7 * (8 - column) for column in range(8)))  # multiplied, it moves bit 8 * column to bit 56 + column
