"""Connect four in one pass over memory, and by tables of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from marlenv.games.fast.compiled import as_rows, for_numba, kernels, played
from marlenv.games.fast.fast_rules import Drawing
from marlenv.games.fast.step_buffers import Arrays
from marlenv.games.parts.bits import low_bits
from marlenv.games.parts.tables import Table
from marlenv.threads import shared

DRAWING, PLAYING = 5, 60
"""Nanoseconds that a row takes one thread, about."""


class Boards(Protocol):
    """Positions; :class:`marlenv.games.connect_four.State`."""

    @property
    def board(self) -> Tensor:
        """int64 ``[*B, 4]``."""


class FastConnectFour(NamedTuple):
    """What :class:`marlenv.GameEnv` asks in place of :class:`~marlenv.games.ConnectFour`, whose fields these are."""

    rows: int
    columns: int
    line: int

    def _open(self, state: Boards) -> Tensor:
        """A bit for each column that has room, in a game that goes on; int64 ``[*B]``."""
        _, stones, _, won = state.board.unbind(-1)
        return (~stones & ((1 << self.columns) - 1)).masked_fill(won != 0, 0)

    def permits(self, state: Boards, action: Tensor) -> Tensor:
        """Whether columns have room, by a look at one bit."""
        column = action.clamp(0, self.columns - 1)
        return ((self._open(state) >> column) & (column == action)).to(torch.bool)

    def pick(self, state: Boards, unit: Tensor) -> Tensor:
        """A column with room for each number, out of a table."""
        if for_numba(state.board, rows=unit.numel()) and unit.dtype == torch.float32:
            found = torch.empty(unit.shape, dtype=torch.int64)
            board, tables = as_rows(state.board, 4), (RANKED.array, ROOM.array)
            kernels("connect_four").pick(*tables, board, as_rows(unit), self.columns, as_rows(found))
            return found
        open_ = self._open(state)
        rank = (ROOM[open_] * unit).to(torch.int64)
        return RANKED[torch.add(rank, open_, alpha=8)]

    def draw(self, state: Boards, key: Tensor, at: int, offsets: tuple[int, int]) -> Tensor | None:
        """The same for numbers of the streams of ``key``."""
        if not for_numba(state.board, rows=key.numel()):
            return None
        found = torch.empty(key.shape, dtype=torch.int64)
        rows = as_rows(state.board, 4), as_rows(key)
        threads, tables = shared(key.numel() * DRAWING), (RANKED.array, ROOM.array)
        kernels("connect_four").draw(threads, *tables, *rows, at, offsets, self.columns, as_rows(found))
        return found

    def step(
        self, state: Boards, actions: Sequence[Tensor], done: Tensor, following: Arrays, restarted: Arrays | None
    ) -> int:
        """A whole step, compiled."""
        board, x, o = as_rows(state.board, 4), *map(as_rows, actions)
        ahead, threads = restarted is not None, shared(done.numel() * PLAYING)
        restarted = following if restarted is None else restarted
        rows = board, x, o, as_rows(done)
        return int(kernels("connect_four").step(threads, *rows, tuple(self), ahead, following, restarted))

    def rollout(
        self, steps: int, before: Arrays, after: Arrays, actions: Arrays, drawing: Drawing, *, stops: bool
    ) -> tuple[int, int]:
        """A whole rollout, compiled."""
        threads, tables = shared(steps * drawing[0].size * PLAYING), (RANKED.array, ROOM.array)
        memory = before, after, actions
        end = kernels("connect_four").rollout(threads, steps, *memory, tables, drawing, tuple(self), stops)
        return played(end, steps)


def _ranked() -> Tensor:
    """The set bits of each byte in order, then 0; int64 ``[256 * 8]``."""
    order = torch.where(low_bits(torch.arange(256), 8), torch.arange(8), 8).sort(-1)[0]
    return (order % 8).flatten()


RANKED = Table(_ranked)
ROOM = Table(lambda: low_bits(torch.arange(256), 8).sum(-1).to(torch.float32))
