"""Tic-tac-toe for many rows: moves out of tables."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from marlenv.games.fast.boards import FastBoard
from marlenv.games.rules import Rules
from marlenv.games.tictactoe.positions import AFTER, COUNT, OUTCOME, PLAYER, RANKED, RETURNS, WORDS, State


class FastTicTacToe(FastBoard[State]):
    """What envs ask in place of :class:`~marlenv.games.TicTacToe`."""

    def __init__(self, rules: Rules[State]) -> None:
        tables = tuple(table.array for table in (AFTER, RANKED, COUNT, PLAYER, OUTCOME, RETURNS, WORDS))
        super().__init__(rules, "tic_tac_toe_kernels", tables, work=(3, 20))

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the tables."""
        return FastTicTacToe, (self.rules,)

    def pick(self, state: State, unit: Tensor) -> Tensor:
        """A free cell for each number."""
        rank = (COUNT[state.code] * unit).to(torch.int64)
        return RANKED[torch.add(rank, state.code, alpha=9)].to(torch.int64)
