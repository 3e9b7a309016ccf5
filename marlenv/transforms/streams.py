"""Transforms that draw random numbers: from a stream of their own for every row."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.envs.seeding import fresh_seed
from marlenv.errors import ShapeError, SpecError
from marlenv.groups.reset import RESET
from marlenv.keys import NestedKey, beside, nested
from marlenv.rng import RowRNG
from marlenv.specs.onehot import are_one_hot
from marlenv.tensordicts import fetch, rows
from marlenv.transforms.base import Transform, asked

if TYPE_CHECKING:
    from marlenv.envs import EnvBase

DRAWN = 5  # the stream of RowRNG that transforms draw from


class Drawing(Transform):
    """A transform that draws random numbers; ``env.set_seed`` seeds it, and no global generator is read. Abstract.

    Without a seed of its own it takes that of the env that it joins; of one that has none, another one every time.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.any_rows = False
        self._seed: int | None = None  # as it was told
        self._own_seed: int | None = None  # where it was told none
        self._stream: RowRNG | None = None  # made when it is asked for, as a pool has to start to say its seed
        self._of: tuple[Size, torch.device | None] = Size(), None  # its rows, and their device
        self.masks: list[NestedKey] = [RESET]
        self._begun: tuple[Any, ...] | None = None  # in which env, and for which rows, the streams were started

    @property
    def seed(self) -> int:
        """What it was seeded with; else what follows from the env, or outside one a number of its own."""
        if self._seed is not None:
            return self._seed
        if self._own_seed is None:
            held = self.container
            self._own_seed = fresh_seed() if held is None or isinstance(held, Transform) else held.seed_of(self)
        return self._own_seed

    @property
    def stream(self) -> RowRNG:
        """The streams of the rows."""
        if self._stream is None:
            self._stream = self._beginning(*self._of)
        return self._stream

    def _beginning(self, rows: Size, device: torch.device | None = None) -> RowRNG:
        """A stream for every row, which is none of those that an env of the same seed draws from."""
        return RowRNG(self.seed, rows, device).fork(DRAWN)

    def join(self, env: EnvBase) -> None:
        """Starts a stream for every row; where the specs of the same env are derived once more, they go on."""
        super().join(env)
        begun = weakref.ref(self.container), env.batch_size, env.device
        if self._begun != begun:
            before, self._begun, self._of = self._begun, begun, begun[1:]
            if before is None or before[0] != begun[0]:
                self._own_seed = self._stream = None  # those of another env
            elif self._stream is not None and before[1] == begun[1]:  # on another device
                self._stream = RowRNG.of(*(x.to(env.device) for x in (self._stream.key, self._stream.counter)))
            else:
                self._stream = None
        self.any_rows = not (env.batch_locked or env.batch_size)
        self.masks = [nested((*level.path, RESET)) for level in env.plan.done.top]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_begun": self._begun and (None, *self._begun[1:])}

    def go_on_in(self, env: EnvBase) -> None:
        """Goes on in the copy of an env, whose part it is a copy of, when specs are derived there once more."""
        if self._begun is not None:
            self._begun = weakref.ref(env), *self._begun[1:]

    def reseed(self, seed: int | None) -> None:
        """Starts the streams anew."""
        self._seed, self._own_seed, self._stream = seed, None, None

    def row_state(self) -> Tensor | None:
        """The streams."""
        return self.stream.state

    def set_row_state(self, state: Tensor) -> None:
        """Puts the streams back."""
        self.stream.key, self.stream.counter = state.unbind(-1)

    def follow(self, other: Transform) -> None:
        """Draws from the streams of another."""
        assert isinstance(other, Drawing)
        self._stream = other.stream

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
        begun = self._beginning(rows, self.stream.device)
        self.stream.key, self.stream.counter = begun.key, begun.counter + (used.max() if used.numel() else 0)

    def draw(self, where: Tensor, how: Callable[[RowRNG], Tensor]) -> Tensor:
        """What is drawn for all rows; only the streams of the rows that ``where``, bool ``[*B]``, marks move on."""
        before = self.stream.counter
        drawn = how(self.stream)
        self.stream.counter = torch.where(where, self.stream.counter, before)
        return drawn


class DrawingActions(Drawing):
    """A transform that draws what the env is told; rows that are not stepped, or reset, draw nothing. Abstract."""

    _given: TensorDictBase | None = None  # what it is about to tell the env

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.fit(tensordict.batch_size)
        before, self._given = self.stream.counter, tensordict
        try:
            told, mask = super()._inv_call(tensordict), fetch(tensordict, "_step")
        finally:
            self._given = None
        if mask is not None:
            self.stream.counter = torch.where(mask.reshape(before.shape), self.stream.counter, before)
        return told

    def check_one_hot(self, key: NestedKey, value: Tensor, sizes: Sequence[int]) -> None:
        """Raises where an action is not one-hot: of the rows that are stepped, and the agents that act.

        On other devices than the CPU a look at data would wait for the device, so nothing is looked at.

        Args:
            key: its name, for the message.
            value: what the outside gives, ``[*B, ..., n]``.
            sizes: of the vectors that stand side by side, whose sum is ``n``.

        Raises:
            ShapeError: it has another length.
            SpecError: it is not one-hot.
        """
        if value.shape[-1] != sum(sizes):
            raise ShapeError(f"{type(self).__name__}: {key!r} must have {sum(sizes)} numbers, got {list(value.shape)}")
        if not value.is_cpu or torch.compiler.is_compiling():
            return
        bad = ~are_one_hot(value, sizes).all(-1)
        given = self._given
        for name in ("mask", "alive") if given is not None else ():
            acting = fetch(given, beside(key, name))
            if isinstance(acting, Tensor) and acting.dtype == torch.bool and acting.shape == bad.shape:
                bad = bad & acting
        stepped = None if given is None else fetch(given, "_step")
        if given is not None and stepped is not None:
            flags = rows(stepped, given.ndim)
            bad = bad & flags.reshape((*flags.shape, *[1] * (bad.ndim - flags.ndim)))
        if bool(bad.any()):
            wanted = "one-hot" if len(sizes) == 1 else f"one-hot vectors of {list(sizes)} numbers side by side"
            raise SpecError(f"{type(self).__name__}: {key!r} must be {wanted}, got {value[bad][0].tolist()}")
