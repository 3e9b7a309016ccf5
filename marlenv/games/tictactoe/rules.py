"""The rules of tic-tac-toe for any batch of boards at once (https://en.wikipedia.org/wiki/Tic-tac-toe).

The game is so small that everything about all of its 3**9 boards is in tables; the rules look it up.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Size, Tensor

from marlenv.games.parts import drawing
from marlenv.games.rules import Rules
from marlenv.games.tictactoe.fast import FastTicTacToe
from marlenv.games.tictactoe.positions import (
    AFTER,
    BOARD,
    BOARDS,
    LEGAL,
    NUMBERED,
    OUTCOME,
    OVER,
    PLANES,
    PLAYER,
    RETURNS,
    WEIGHTS,
    State,
)
from marlenv.rng import RowRNG


@dataclass(frozen=True)
class TicTacToe(Rules[State]):
    """Three in a row on a board of nine; ``x`` begins.

    The cells, which are the actions::

        0 1 2
        3 4 5
        6 7 8

    - observation: planes ``[3, 3, 3]``: own stones, the other's stones, ones if it is my turn
    - action: a cell
    - reward: +1 for three in a row, -1 for the other
    - ends: with three in a row, or a full board

    >>> rules = TicTacToe()
    >>> state = rules.start(Size([2]))
    >>> rules.legal(rules.play(state, torch.tensor([4, 0]))).sum(-1)
    tensor([8, 8])

    Source: https://en.wikipedia.org/wiki/Tic-tac-toe
    """

    players = ("x", "o")
    outcomes = ("", "three in a row", "board full")
    alternating = pays_at_end = True
    n_actions = longest = 9
    observation_shape = (3, 3, 3)

    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> State:
        return State(torch.zeros(batch_size, dtype=torch.int64, device=device))

    def position(self, board: Tensor) -> State:
        """The positions with these boards, ``[*B, 9]``: 0 free, +1 x, -1 o."""
        return State(NUMBERED[(board.long() % 3 * WEIGHTS.to(board.device)).sum(-1)])

    def player(self, state: State) -> Tensor:
        return PLAYER[state.code]

    def is_position(self, state: State) -> Tensor:
        return (state.code >= 0) & (state.code < BOARDS)

    def legal(self, state: State) -> Tensor:
        return LEGAL[state.code]

    def permits(self, state: State, action: Tensor) -> Tensor:
        within = action.clamp(0, 8)
        return (AFTER[torch.add(within, state.code, alpha=9)] >= 0) & (within == action)

    def play(self, state: State, action: Tensor) -> State:
        after = AFTER[torch.add(action, state.code, alpha=9)]
        return State(torch.where(after < 0, state.code, after))

    def over(self, state: State) -> Tensor:
        return OVER[state.code]

    def returns(self, state: State) -> Tensor:
        return RETURNS[state.code]

    def outcome(self, state: State) -> Tensor:
        return OUTCOME[state.code]

    def observe(self, state: State) -> Tensor:
        """Planes ``[3, 3, 3]``: own stones, the other's stones, ones if it is my turn; bool ``[*B, 2, 3, 3, 3]``."""
        return PLANES[state.code]

    def fast_form(self) -> FastTicTacToe:
        """The same answers for envs of many rows, see :mod:`marlenv.games.fast`."""
        return FastTicTacToe(self)

    def show(self, state: State, *, color: bool = False) -> str:
        """The board with ``x`` and ``o``; free cells show their numbers."""
        marks = {0: drawing.faint, 1: drawing.red, -1: drawing.blue}
        cells = [marks[c]({0: str(i), 1: "x", -1: "o"}[c], color) for i, c in enumerate(BOARD[state.code].tolist())]
        return "\n---+---+---\n".join(" " + " | ".join(cells[row : row + 3]) for row in (0, 3, 6))

    def svg(self, state: State) -> str:
        """The board with crosses and circles."""
        picture = drawing.Picture(3, 3)
        for x in (1, 2):
            picture.line((x, 0.1), (x, 2.9))
            picture.line((0.1, x), (2.9, x))
        for cell, stone in enumerate(BOARD[state.code].tolist()):
            row, column = divmod(cell, 3)
            if stone > 0:
                picture.cross((column + 0.5, row + 0.5), drawing.RED)
            elif stone < 0:
                picture.ring((column + 0.5, row + 0.5), drawing.BLUE)
            else:
                picture.text((column + 0.5, row + 0.5), str(cell), drawing.FAINT)
        return picture.svg()
