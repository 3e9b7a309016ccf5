"""Tic-tac-toe for many rows: moves out of tables, and numba where it pays."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from marlenv.games.fast.compiled import as_rows, for_numba, kernels, played
from marlenv.games.fast.fast_rules import Drawing
from marlenv.games.fast.step_buffers import Arrays
from marlenv.games.tictactoe.positions import AFTER, COUNT, OUTCOME, PLAYER, RANKED, RETURNS, WORDS, State
from marlenv.threads import shared

DRAWING, PLAYING = 3, 20
"""Nanoseconds that a row takes one thread, about."""


class FastTicTacToe:
    """What envs ask in place of :class:`~marlenv.games.TicTacToe`.

    A :class:`marlenv.games.fast.fast_rules.FastSteps`.
    """

    def permits(self, state: State, action: Tensor) -> Tensor:
        """Whether cells lead anywhere."""
        within = action.clamp(0, 8)
        return (AFTER[torch.add(within, state.code, alpha=9)] >= 0) & (within == action)

    def pick(self, state: State, unit: Tensor) -> Tensor:
        """A free cell for each number."""
        if for_numba(state.code) and unit.dtype == torch.float32:
            found = torch.empty(unit.shape, dtype=torch.int64)
            kernels("tic_tac_toe").pick(COUNT.array, RANKED.array, *map(as_rows, (state.code, unit, found)))
            return found
        rank = (COUNT[state.code] * unit).to(torch.int64)
        return RANKED[torch.add(rank, state.code, alpha=9)].to(torch.int64)

    def draw(self, state: State, key: Tensor, at: int, offsets: tuple[int, int]) -> Tensor | None:
        """The same for numbers of the streams of ``key``."""
        if not for_numba(state.code):
            return None
        found = torch.empty(key.shape, dtype=torch.int64)
        threads, rows = shared(key.numel() * DRAWING), (as_rows(state.code), as_rows(key))
        kernels("tic_tac_toe").draw(threads, _drawn_by(), *rows, at, offsets, as_rows(found))
        return found

    def step(
        self, state: State, actions: Sequence[Tensor], done: Tensor, following: Arrays, restarted: Arrays | None
    ) -> int:
        """A whole step, compiled."""
        rows = map(as_rows, (state.code, *actions, done))
        ahead, threads = restarted is not None, shared(done.numel() * PLAYING)
        restarted = following if restarted is None else restarted
        return int(kernels("tic_tac_toe").step(threads, _tables(), *rows, following, restarted, ahead))

    def rollout(
        self, steps: int, before: Arrays, after: Arrays, actions: Arrays, drawing: Drawing, *, stops: bool
    ) -> tuple[int, int]:
        """A whole rollout, compiled."""
        threads, memory = shared(steps * drawing[0].size * PLAYING), (before, after, actions)
        end = kernels("tic_tac_toe").rollout(threads, steps, *memory, _drawn_by(), _tables(), drawing, stops)
        return played(end, steps)


def _drawn_by() -> Arrays:
    """The tables that actions are drawn by."""
    return COUNT.array, RANKED.array, PLAYER.array


def _tables() -> Arrays:
    """Those that cells are played by."""
    return tuple(table.array for table in (AFTER, PLAYER, OUTCOME, RETURNS, WORDS))
