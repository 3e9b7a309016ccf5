"""Transforms that draw random numbers: from a stream of their own for every row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from marlenv.rng import RowRNG
from marlenv.transforms.base import Transform

if TYPE_CHECKING:
    from marlenv.envs import EnvBase


class Drawing(Transform):
    """A transform that draws random numbers; ``env.set_seed`` seeds it, and no global generator is read. Abstract."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seed, self.stream = 0, RowRNG()

    def join(self, env: EnvBase) -> None:
        """Starts a stream for every row."""
        super().join(env)
        self.stream = RowRNG(self.seed, env.batch_size, env.device)

    def reseed(self, seed: int | None) -> None:
        """Starts the streams anew."""
        self.seed = seed or 0
        self.stream = RowRNG(self.seed, self.stream.rows, self.stream.device)

    def row_state(self) -> Tensor | None:
        """The streams."""
        return self.stream.state

    def set_row_state(self, state: Tensor) -> None:
        """Puts the streams back."""
        self.stream = RowRNG.from_state(state)

    def draw(self, where: Tensor, how: Callable[[RowRNG], Tensor]) -> Tensor:
        """What is drawn for all rows; only the streams of the rows that ``where``, bool ``[*B]``, marks move on."""
        before = self.stream.counter
        drawn = how(self.stream)
        self.stream.counter = torch.where(where, self.stream.counter, before)
        return drawn
