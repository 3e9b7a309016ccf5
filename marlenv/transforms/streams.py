"""Transforms that draw random numbers: from a stream of their own for every row."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.groups.reset import RESET
from marlenv.keys import NestedKey, nested
from marlenv.rng import RowRNG, row_keys
from marlenv.tensordicts import fetch
from marlenv.transforms.base import Transform, asked

if TYPE_CHECKING:
    from marlenv.envs import EnvBase


class Drawing(Transform):
    """A transform that draws random numbers; ``env.set_seed`` seeds it, and no global generator is read. Abstract."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seed, self.stream, self.any_rows = 0, RowRNG(), False
        self.masks: list[NestedKey] = [RESET]
        self._begun: tuple[Any, ...] | None = None  # in which env, and for which rows, the streams were started

    def join(self, env: EnvBase) -> None:
        """Starts a stream for every row; where the specs of the same env are derived once more, they go on."""
        super().join(env)
        begun = weakref.ref(self.container), env.batch_size, env.device
        if self._begun != begun:
            self.stream, self._begun = RowRNG(self.seed, env.batch_size, env.device), begun
        self.any_rows = not (env.batch_locked or env.batch_size)
        self.masks = [nested((*level.path, RESET)) for level in env.plan.done.top]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_begun": None}

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
        self.fit(tensordict.batch_size)
        return asked(tensordict, self.masks, self.stream.rows, self.stream.device)

    def fit(self, rows: Size) -> None:
        """Starts a stream for every row of the data, where an env takes any batch size and there were others before.

        Row ``i`` has the stream that it has among other numbers of rows; it goes on where the furthest stood, so that
        no number comes twice.
        """
        if not self.any_rows or rows == self.stream.rows:
            return
        used = self.stream.counter
        self.stream.key = row_keys(self.seed, rows, self.stream.device)
        self.stream.counter = torch.zeros_like(self.stream.key) + (used.max() if used.numel() else 0)

    def draw(self, where: Tensor, how: Callable[[RowRNG], Tensor]) -> Tensor:
        """What is drawn for all rows; only the streams of the rows that ``where``, bool ``[*B]``, marks move on."""
        before = self.stream.counter
        drawn = how(self.stream)
        self.stream.counter = torch.where(where, self.stream.counter, before)
        return drawn


class DrawingActions(Drawing):
    """A transform that draws what the env is told; rows that are not stepped, or reset, draw nothing. Abstract."""

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.fit(tensordict.batch_size)
        before = self.stream.counter
        told, mask = super()._inv_call(tensordict), fetch(tensordict, "_step")
        if mask is not None:
            self.stream.counter = torch.where(mask.reshape(before.shape), self.stream.counter, before)
        return told
