"""The numbers behind random actions of games: those of :class:`~marlenv.envs.acting.ActionStream`, for the movers alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from marlenv.envs.acting import ActionStream
from marlenv.games.memory import as_rows, for_numba, kernels
from marlenv.games.rules import Rules
from marlenv.rng import GOLDEN, mix_

BLOCK = 1 << 12  # numbers made at once, at most


class Draws:
    """Reads numbers in [0, 1) off an env's action stream, where every row and step has a lane per action of the env.

    Args:
        stream: of the env.
        rows: the batch size of the data.
        width: how many lanes there are.
    """

    def __init__(self, stream: ActionStream, rows: Size, width: int) -> None:
        self.stream, self.rows, self.width = stream, rows, width
        self._key, self._at = stream.rng(rows).key, stream.used
        self._steps = max(1, min(64, BLOCK // max(1, rows.numel() * width)))
        self._block: Tensor | None = None
        self._step = 0
        self._first = np.zeros(rows.numel(), dtype=np.int64)

    def fits(self, stream: ActionStream, rows: Size) -> bool:
        """Whether these are the draws of a stream for these rows."""
        return self.stream is stream and self.rows == rows

    def all(self) -> Tensor:
        """The numbers of all lanes; float32 ``[*B, width]``. The stream moves on."""
        if self._block is None or self._step >= self._steps:
            lanes = torch.arange(1, self._steps * self.width + 1, device=self._key.device)
            lanes = lanes.reshape(self._steps, *[1] * len(self.rows), self.width)
            self._block, self._step = _unit(self._key.unsqueeze(-1) + (lanes + self._at) * GOLDEN), 0
        drawn = self._block[self._step]
        self._move()
        return drawn

    def one(self, lane: Tensor | None) -> Tensor:
        """The number of one lane per row, int64 ``[*B]`` (the first where None); float32 ``[*B]``. The stream moves on."""
        if for_numba(self._key):
            number = torch.empty(self.rows)
            lanes = self._first if lane is None else as_rows(lane)
            kernels().unit_numbers(as_rows(self._key), lanes, self._at + 1, as_rows(number))
            self._move()
            return number
        if self._steps > 1:
            drawn = self.all()
            return drawn.select(-1, 0) if lane is None else drawn.gather(-1, lane.unsqueeze(-1)).squeeze(-1)
        at = self._at + 1
        wrapped = (at * GOLDEN + (1 << 63)) % (1 << 64) - (1 << 63)
        number = self._key + (wrapped if lane is None else (lane + at) * GOLDEN)
        self._move()
        return _unit(number)

    def picked(self, rules: Rules[Any], state: Any, lanes: tuple[int, int] | None) -> Tensor | None:
        """The actions that the numbers of those to move pick, in one pass, where the rules have one; int64 ``[*B]``."""
        if lanes is None or type(rules).pick_from is Rules.pick_from or not for_numba(self._key):
            return None
        found = rules.pick_from(state, self._key, self._at + 1, lanes)
        if found is not None:
            self._move()
        return found

    def _move(self) -> None:
        self._at += self.width
        self._step += 1
        self.stream.skip(self.width)


def _unit(number: Tensor) -> Tensor:
    """Numbers in [0, 1) on a grid of 2**24 steps, as :meth:`marlenv.RowRNG.uniform` makes them; float32.

    Works in place on ``number``, int64.
    """
    return mix_(number).bitwise_right_shift_(40).bitwise_and_(0xFFFFFF).to(torch.float32).mul_(2.0**-24)
