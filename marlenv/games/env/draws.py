"""The numbers that a game's random actions are drawn with."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Size, Tensor

from marlenv.envs.random_actions import ActionStream
from marlenv.games.fast.compiled import as_rows, for_numba, kernels
from marlenv.games.fast.fast_rules import FastRules
from marlenv.rng import GOLDEN, mix_, signed

BLOCK = 1 << 12  # numbers made at once, at most


class Draws:
    """Gives :meth:`TurnBasedEnv.rand_action` numbers in [0, 1) off the env's action stream, for the movers alone.

    In the stream every row and step has a number for each action of the env, so that others who draw from masks get
    the same.

    Args:
        stream: of the env.
        rows: the batch size of the data.
        width: how many numbers a row and step have.
    """

    def __init__(self, stream: ActionStream, rows: Size, width: int) -> None:
        self.stream, self.rows, self.width = stream, rows, width
        self._key, self._at = stream.rng(rows).key, stream.used
        self._steps = max(1, min(64, BLOCK // max(1, rows.numel() * width)))
        self._block: Tensor | None = None
        self._step = 0
        self._keys: NDArray[Any] | None = None
        self._first = np.zeros(rows.numel(), dtype=np.int64)

    def fits(self, stream: ActionStream, rows: Size) -> bool:
        """Whether these are the draws of a stream for these rows."""
        return self.stream is stream and self.rows == rows

    def all(self) -> Tensor:
        """All numbers of a step; float32 ``[*B, width]``. The stream moves on."""
        if self._block is None or self._step >= self._steps:
            places = torch.arange(1, self._steps * self.width + 1, device=self._key.device)
            places = places.reshape(self._steps, *[1] * len(self.rows), self.width)
            self._block, self._step = _unit(self._key.unsqueeze(-1) + (places + self._at) * GOLDEN), 0
        drawn = self._block[self._step]
        self.move()
        return drawn

    def one(self, which: Tensor | None) -> Tensor:
        """One number per row, int64 ``[*B]`` (the first where None); float32 ``[*B]``. The stream moves on."""
        if for_numba(self._key):
            number = torch.empty(self.rows, dtype=torch.float32, device="cpu")
            offsets = self._first if which is None else as_rows(which)
            kernels().unit_numbers(as_rows(self._key), offsets, self._at + 1, as_rows(number))
            self.move()
            return number
        if self._steps > 1:
            drawn = self.all()
            return drawn.select(-1, 0) if which is None else drawn.gather(-1, which.unsqueeze(-1)).squeeze(-1)
        at = self._at + 1
        number = self._key + (signed(at * GOLDEN) if which is None else (which + at) * GOLDEN)
        self.move()
        return _unit(number)

    def drawn(
        self, fast: FastRules[Any] | None, state: Any, offsets: tuple[int, ...] | None, shape: tuple[int, ...]
    ) -> Tensor | None:
        """The actions of those to move, as :meth:`marlenv.Rules.pick` gives them, where a fast form draws in one pass.

        Else None.

        Args:
            fast: the fast form.
            state: of rows ``[*B]``.
            offsets: how many places further the number of each player is.
            shape: of the actions.
        """
        if fast is None or offsets is None or (keys := self.keys) is None:
            return None
        found = fast.draw(state, keys, self._at + 1, offsets)
        if found is None:
            return None
        self.move()
        return torch.from_numpy(found.reshape(shape))

    @property
    def keys(self) -> NDArray[Any] | None:
        """The keys of the rows' streams, int64 ``[B]``, where numba should draw from them; else None."""
        if not for_numba(self._key):
            return None
        if self._keys is None:
            self._keys = as_rows(self._key)
        return self._keys

    @property
    def at(self) -> int:
        """The place in the streams of the first number of this step."""
        return self._at + 1

    def move(self, steps: int = 1) -> None:
        """Counts the numbers of this step, or of more, as used; those of a step that was not played are given back."""
        self._at += steps * self.width
        self._step += steps
        self.stream.skip(steps * self.width)


def _unit(number: Tensor) -> Tensor:
    """Numbers in [0, 1) on a grid of 2**24 steps, as :meth:`marlenv.RowRNG.uniform` makes them; float32.

    Works in place on ``number``, int64.
    """
    return mix_(number).bitwise_right_shift_(40).bitwise_and_(0xFFFFFF).to(torch.float32).mul_(2.0**-24)
