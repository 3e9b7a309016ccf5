"""Transforms that draw random numbers: from a stream of their own for every row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.groups.reset import RESET
from marlenv.keys import NestedKey, nested
from marlenv.rng import RowRNG
from marlenv.tensordicts import fetch
from marlenv.transforms.base import Transform, asked

if TYPE_CHECKING:
    from marlenv.envs import EnvBase


class Drawing(Transform):
    """A transform that draws random numbers; ``env.set_seed`` seeds it, and no global generator is read. Abstract."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seed, self.stream = 0, RowRNG()
        self.masks: list[NestedKey] = [RESET]

    def join(self, env: EnvBase) -> None:
        """Starts a stream for every row."""
        super().join(env)
        self.stream = RowRNG(self.seed, env.batch_size, env.device)
        self.masks = [nested((*level.path, RESET)) for level in env.plan.done.top]

    def reseed(self, seed: int | None) -> None:
        """Starts the streams anew."""
        self.seed = seed or 0
        self.stream = RowRNG(self.seed, self.stream.rows, self.stream.device)

    def row_state(self) -> Tensor | None:
        """The streams."""
        return self.stream.state

    def set_row_state(self, state: Tensor) -> None:
        """Puts the streams back."""
        self.stream.key, self.stream.counter = state.unbind(-1)

    def follow(self, other: Transform) -> None:
        """Draws from the streams of another."""
        assert isinstance(other, Drawing)
        self.stream = other.stream

    def asked(self, tensordict: TensorDictBase) -> Tensor:
        """Which parts of every row a reset is asked to start anew, by the masks it was given; bool ``[*B, n]``."""
        return asked(tensordict, self.masks, self.stream.rows, self.stream.device)

    def draw(self, where: Tensor, how: Callable[[RowRNG], Tensor]) -> Tensor:
        """What is drawn for all rows; only the streams of the rows that ``where``, bool ``[*B]``, marks move on."""
        before = self.stream.counter
        drawn = how(self.stream)
        self.stream.counter = torch.where(where, self.stream.counter, before)
        return drawn


class DrawingActions(Drawing):
    """A transform that draws what the env is told; rows that are not stepped, or reset, draw nothing. Abstract."""

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        before = self.stream.counter
        told, mask = super()._inv_call(tensordict), fetch(tensordict, "_step")
        if mask is not None:
            self.stream.counter = torch.where(mask.reshape(before.shape), self.stream.counter, before)
        return told
