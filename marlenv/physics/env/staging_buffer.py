"""The last steps of a rollout as machine code writes them, step after step, before they are turned.

In the data of a rollout the steps of a row lie side by side. Written there, each step touches a place of its own in
memory for every row and entry; a few steps at once are written many times as fast, as many as the caches still hold
when they are turned.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

import torch
from torch import Size, Tensor

from marlenv.buffer_pool import BufferPool
from marlenv.physics.env.layout import FLAGS, Layout, columns
from marlenv.physics.jit.kernel import MachineKernel, Turned
from marlenv.physics.jit.source import Field

FEWEST, MOST = 4, 64
"""Steps that are turned together, at least and at most."""
EVEN = 4
"""Steps are turned so many together, or a multiple, unless all are: no line of 64 bytes is written in parts then."""
HELD = 12 << 20
"""Bytes of a few steps that the caches hold, about."""
ALIGNED = 64
"""Bytes of which the place of a tensor in memory is a multiple."""
Shapes = list[tuple[tuple[int, ...], torch.dtype]]


class Whole(NamedTuple):
    """Where a rollout lies row by row."""

    before: Sequence[Tensor]
    """Observations and infos before all steps, ``[T, ..., B]``; the first are there."""
    after: Sequence[Tensor | None]
    """What followed on them; None for what is not kept."""


class Shown(NamedTuple):
    """What a policy is shown, in memory of its own."""

    memory: list[Tensor]
    """Observations and infos before each step, ``[T, ..., B]``; the steps a multiple of :data:`ALIGNED` bytes apart."""
    values: list[tuple[Tensor, ...]]
    """Of each step, in the order of :meth:`Layout.first`; nothing is done."""
    watched: list[Tensor]
    """Tensors whose versions tell whether anybody wrote into any of it."""


class StagingBuffer:
    """Memory for the last steps of a rollout.

    Args:
        layout: of the env's data.
        memory: as :func:`staging_shapes` lists it.
        kernel: writes and turns the steps.
        whole: where the rollout lies row by row.
        shown: where the memory of what a policy is shown comes from.
    """

    def __init__(
        self, layout: Layout, memory: Sequence[Tensor], kernel: MachineKernel, whole: Whole, shown: BufferPool
    ) -> None:
        self._layout, (self._rows,), self._by_rows, self._shown = layout, layout.batch, kernel.by_rows, shown
        count = 0 if kernel.by_rows else len(layout.observations)
        memory = [x.movedim(1, -1) if kernel.by_rows else x for x in memory]
        self.before, rest = list(memory[:count]), iter(memory[count:])
        """Before every step and the one that follows on the last, ``[1 + C, ..., B]``; none where steps lie row by row.
        """
        self.after = [None if x is None else next(rest) for x in whole.after]
        """After every step, ``[C, ..., B]``; None for what is not kept."""
        self.start = 0
        """The step of the rollout that comes first in it."""
        self.length = len(memory[-1])
        """How many steps it has room for."""
        turned = self._turned(whole)
        self._entries, self._turn = [*turned], kernel.turning([*turned.values()])

    @property
    def stop(self) -> int:
        """The step of the rollout for which there is no room any more."""
        return self.start + self.length

    def _turned(self, whole: Whole) -> dict[int, Turned]:
        """What is copied, by its place among the entries."""
        turned: dict[int, Turned] = {}
        for i, (x, out, before) in enumerate(zip_longest(self.after, whole.after, whole.before)):
            if x is not None and out is not None:
                turned[i] = Turned(x, out, before)
            elif len(before) > 1:
                turned[i] = Turned(None, before[1:])
        return turned

    def turn(self, played: int, shown: Sequence[Tensor], ended: Sequence[int]) -> None:
        """Copies what it holds to where it lies row by row, and goes on with the step ``played``.

        Args:
            played: how many steps of the rollout.
            shown: what a policy was shown since it was turned last, as it left it.
            ended: whether any row ended in each of the rollout's steps.
        """
        start, self.start = self.start, played
        if played > start:
            seen = [shown[i] if i < len(shown) else None for i in self._entries]
            self._turn(start, played, seen, ended[start:played])

    def show(self, steps: int) -> Shown:
        """Memory for what a policy is shown before some steps; nobody else has it.

        Args:
            steps: how many, ``T``.
        """
        layout, rows = self._layout, self._rows
        fields = [entry.field for entry in layout.observations]
        memory, watched = self._blocks(fields, steps)
        sizes = [len(FLAGS) * steps * level.agents.numel() * rows for level in layout.levels]
        flags = torch.zeros(sum(sizes), dtype=torch.bool, device=layout.device)
        levels = [
            x.view(len(FLAGS), steps, *level.agents, rows)
            for x, level in zip(flags.split(sizes), layout.levels, strict=True)
        ]
        shown = [entry.of(x, 1) for entry, x in zip(layout.observations, memory, strict=True)]
        values = zip(*(x.unbind(1) for x in (*shown, *columns(levels))), strict=True)
        return Shown(memory, list(values), [*watched, flags])

    def _blocks(self, fields: Sequence[Field], steps: int) -> tuple[list[Tensor], list[Tensor]]:
        """Memory for fields, ``[T, ..., B]``, and the tensors out of which it was cut, one of each dtype.

        Every step begins where memory of its own would, since what PyTorch computes depends on that in the last bits.
        """
        sizes, places = _laid(tuple(fields), self._rows, self.length, by_rows=self._by_rows)
        lent = self._shown.lend([((size,), dtype) for dtype, size in sizes], self._layout.device)
        blocks = {dtype: block for (dtype, _), block in zip(sizes, lent, strict=True)}
        return [blocks[dtype].as_strided((steps, *shape), stride, at) for dtype, shape, stride, at in places], lent


Laid = tuple[list[tuple[torch.dtype, int]], list[tuple[torch.dtype, Size, tuple[int, ...], int]]]


@lru_cache
def _laid(fields: tuple[Field, ...], rows: int, steps: int, *, by_rows: bool) -> Laid:
    """How many numbers of each dtype there are, and of each field the dtype, the shape of a step, ``[..., B]``, the
    strides of steps, ``[T, ..., B]``, and where the first is.
    """
    sizes, places = dict[torch.dtype, int](), []
    for field in fields:
        x = field.room(rows, torch.device("meta"), by_rows=by_rows).movedim(0, -1)
        apart, first = -(-x.nbytes // ALIGNED) * ALIGNED // x.element_size(), sizes.get(field.dtype, 0)
        places.append((field.dtype, x.shape, (apart, *x.stride()), first))
        sizes[field.dtype] = first + steps * apart
    return list(sizes.items()), places


def _shape(field: Field, steps: int, rows: int, *, by_rows: bool) -> tuple[int, ...]:
    return (steps, rows, *field.shape) if by_rows else (steps, *field.shape, rows)


def staging_shapes(
    observations: Sequence[Field], after: Sequence[Field], steps: int, rows: int, *, by_rows: bool
) -> Shapes:
    """The memory of a staging buffer.

    Args:
        observations: and infos.
        after: what is kept of what follows on a step.
        steps: of the rollout.
        rows: of the env.
        by_rows: as of :class:`StagingBuffer`.
    """
    size = rows * sum(field.numbers * field.dtype.itemsize for field in (*observations, *after))
    stages = -(-steps // max(FEWEST, min(MOST, HELD // size)))
    some = min(steps, -(-steps // (stages * EVEN)) * EVEN)  # parts about equal
    before = () if by_rows else observations  # where they lie row by row it is what is shown
    fields = [*((field, 1 + some) for field in before), *((field, some) for field in after)]
    return [(_shape(field, length, rows, by_rows=by_rows), field.dtype) for field, length in fields]


__all__ = ["Shown", "StagingBuffer", "Whole", "staging_shapes"]
