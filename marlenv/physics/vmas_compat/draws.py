"""The randomness of a scenario file: what it draws comes from the env, and no global generator is read or moved.

A file of VMAS says ``torch.rand(...)`` and means VMAS's generator, one for all rows. Here every draw is taken over, in
one of two ways:

- ``"rows"``: a draw whose first dimension is the rows comes from the streams of the rows
  (:class:`~marlenv.rng.RowRNG`). That is a size which came from ``batch_dim`` or from the shape of a tensor of all rows
  (:class:`~marlenv.physics.vmas_compat.states.Rows`), and no number that happens to be as many. While one row is reset
  (``env_index``) all draws come from the stream of that row: of ``world.batch_dim`` numbers, and of a tensor of all
  rows, only its own are used. So a row has the same life in a batch of any size, and resetting it moves nothing of the
  others. What a file draws once for all rows (``torch.randperm``, ``random.choice``, ``numpy.random``) comes from a
  stream of the env, and is shared; so is what the samplers draw that :mod:`~marlenv.physics.vmas_compat.samplers` does
  not know, for which the process's own generators are lent, started from that stream.
- ``"vmas"``: one generator each of PyTorch, NumPy and ``random``, seeded as VMAS seeds its own: the same numbers as
  VMAS's for the same seed, and rows that depend on each other as VMAS's do.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from marlenv.errors import SpecError
from marlenv.physics.vmas_compat import shared_generators
from marlenv.physics.vmas_compat.samplers import Governed
from marlenv.physics.vmas_compat.states import Rows
from marlenv.rng import GOLDEN, ROW_STEP, WORD, RowRNG, mixed

Way: TypeAlias = Literal["rows", "vmas"]
WAYS = ("rows", "vmas")
SHARED = 1 << 20
"""The stream of what belongs to no row."""


class _Here(threading.local):
    draws: Draws | None = None


_here = _Here()


def current_draws(rows: int, device: Any) -> Draws:
    """Those of the env whose scenario is at work, or new ones."""
    return _here.draws if _here.draws is not None else Draws("rows", rows, device, 0)


class Draws:
    """Where the random numbers of one env come from.

    Args:
        way: ``"rows"`` or ``"vmas"``.
        rows: how many rows, ``B``.
        device: where the numbers are wanted.
        seed: of all.

    """

    def __init__(self, way: Way, rows: int, device: Any, seed: int) -> None:
        if way not in WAYS:
            raise SpecError(f"load: randomness must be one of {list(WAYS)}, got {way!r}")
        self.way, self.rows, self.device = way, rows, torch.device(device)
        self.row: int | None = None
        """The row that is being reset now."""
        self.random, self.numpy = random.Random(), np.random.RandomState(0)
        self.mode = Governed(self)
        self._wanted = 0  # how deep in contexts that govern
        self.seed(seed)

    @property
    def shared(self) -> bool:
        """Whether all rows draw from one generator, as VMAS's do."""
        return self.way == "vmas"

    @property
    def generator(self) -> torch.Generator:
        """That of all rows, on the device; for ``"vmas"``."""
        return (shared_generators.of_torch(self.device) if self._wanted else self._generators)[-1]

    def seed(self, seed: int) -> None:
        """Starts all generators anew."""
        self._seed, small = seed, seed % (1 << 32)
        self.random.seed(small)
        self.numpy.seed(small)
        self._generators = [one.manual_seed(small) for one in self._new_generators()]
        self.rng = RowRNG(seed, self.rows, self.device)
        self.common = RowRNG(seed, (), self.device).fork(SHARED)
        self._sown = [0] * (self.rows + 1)  # how often generators were started for a row; the last: for all

    def _new_generators(self) -> list[torch.Generator]:
        """As :func:`shared_generators.of_torch` has them."""
        host = torch.device("cpu")
        places = [host, self.device] if self.device.type == "cuda" else [host]
        return [torch.Generator(place) for place in places]

    @contextmanager
    def current(self) -> Iterator[None]:
        """Within it these are the draws of worlds that are made."""
        before, _here.draws = _here.draws, self
        try:
            yield
        finally:
            _here.draws = before

    @contextmanager
    def govern(self) -> Iterator[None]:
        """Within it all that is drawn is taken over."""
        with ExitStack() as stack:
            if not self._wanted:
                stack.enter_context(shared_generators.lent(self.device))
                self._sow(None)
                stack.enter_context(self._one_for_all() if self.shared else self.mode)
            self._wanted += 1
            try:
                yield
            finally:
                self._wanted -= 1

    @contextmanager
    def row_by_row(self) -> Iterator[Callable[[int], None]]:
        """Within it, and within :meth:`govern`, all that is drawn comes from the row that was named last."""
        kept = self.random.getstate(), self.numpy.get_state()
        try:
            yield self._turn_to
        finally:
            self.row = None
            if not self.shared:
                self.random.setstate(kept[0])
                self.numpy.set_state(kept[1])

    @contextmanager
    def unmoved(self) -> Iterator[None]:
        """Whatever is drawn within it, afterwards all is as it was; not within :meth:`govern`."""
        streams = [(rng, rng.counter.clone()) for rng in (self.rng, self.common)]
        sown, states = self._sown.copy(), [one.get_state() for one in self._generators]
        kept = self.random.getstate(), self.numpy.get_state()
        try:
            yield
        finally:
            for rng, counter in streams:
                rng.counter = counter
            for one, state in zip(self._generators, states, strict=True):
                one.set_state(state)
            self._sown = sown
            self.random.setstate(kept[0])
            self.numpy.set_state(kept[1])

    def _turn_to(self, row: int) -> None:
        self.row = row
        if not self.shared:
            number = self._sow(row)
            self.random.seed(number + 1)
            self.numpy.seed(mixed(number) % (1 << 32))

    def _sow(self, row: int | None) -> int:
        """Starts the generators of the process anew, for a row or for all; never twice alike."""
        place = self.rows if row is None else row
        self._sown[place] += 1
        stream = mixed(mixed(self._seed ^ SHARED) + (0 if row is None else row + 1) * ROW_STEP)
        number = mixed(stream + self._sown[place] * GOLDEN) & WORD
        shared_generators.sow(number, self.device)
        return number

    @contextmanager
    def _one_for_all(self) -> Iterator[None]:
        """Within it PyTorch's generators are where ours stand, and ours go on from there."""
        pairs = list(zip(shared_generators.of_torch(self.device), self._generators, strict=True))
        for theirs, ours in pairs:
            theirs.set_state(ours.get_state())
        try:
            yield
        finally:
            for theirs, ours in pairs:
                ours.set_state(theirs.get_state())

    def to(self, device: Any) -> None:
        """Moves the generators."""
        seed = self._generators[0].initial_seed()
        self.device = torch.device(device)
        self.rng, self.common = self.rng.to(self.device), self.common.to(self.device)
        self._generators = [one.manual_seed(seed) for one in self._new_generators()]

    # --- draws -----------------------------------------------------------------------------------

    def point(
        self, rows: int, x: Sequence[float], y: Sequence[float], device: Any, where: Tensor | None = None
    ) -> Tensor:
        """A point in a rectangle for every row, or for the one that is being reset; ``[rows, 1, 2]``.

        Args:
            rows: ``B`` or 1.
            x: lowest and highest.
            y: likewise.
            device: of the result.
            where: the rows that need one, bool ``[rows]``; others' streams stay as they are.

        """
        if self.shared:
            sides = [torch.empty(rows, 1, 1, device=device) for _ in range(2)]
            pair = [s.uniform_(*b, generator=self.generator) for s, b in zip(sides, (x, y), strict=True)]
            return torch.cat(pair, 2)
        before = self.rng.counter
        unit = self.uniform((rows, 2))
        if where is not None and self.row is None:
            self.rng.counter = torch.where(where, self.rng.counter, before)
        low, high = (torch.tensor([x[k], y[k]], dtype=torch.float32, device=device) for k in (0, 1))
        return (low + unit * (high - low)).unsqueeze(1)

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Numbers in [0, 1) by row, in the shape that a scenario asked for."""
        return self.by_row(shape, lambda rng, inner: rng.uniform(shape=inner))

    def normal(self, shape: Sequence[int] = (), *, rows_last: bool = False) -> Tensor:
        """Gaussian numbers for actions, ``[*shape, B]``; for :class:`marlenv.physics.task.actions.Control`."""
        if self.shared:
            n, agents = shape
            parts = [torch.randn(self.rows, n, generator=self.generator, device=self.device).t() for _ in range(agents)]
            return torch.stack(parts, 1)
        return self.rng.normal(shape=shape, rows_last=rows_last)

    def by_row(self, shape: Sequence[int], draw: Callable[[RowRNG, tuple[int, ...]], Tensor]) -> Tensor:
        """What ``draw`` makes of the streams of the rows, where the first size is :class:`Rows`, or of one."""
        whole, inner = bool(shape) and isinstance(shape[0], Rows), tuple(shape[1:])
        if self.row is None:
            return draw(self.rng, inner) if whole else draw(self.common, tuple(shape))
        one = self.rng[self.row]
        if whole:  # the other rows' numbers are not used; they are of this row's stream, too
            others = torch.arange(self.rows, device=one.device) - self.row
            many = RowRNG.of(one.key ^ (others * ROW_STEP), one.counter.repeat(self.rows))
            out, after = draw(many, inner), many.counter[self.row]
        else:
            out, after = draw(one, tuple(shape)), one.counter
        counter = self.rng.counter.clone()
        counter[self.row] = after
        self.rng.counter = counter
        return out
