"""The last steps of a rollout as machine code writes them, before they are turned.

Machine code has the rows last. Written row by row, each step touches a place of its own in memory for every row and
entry; a few steps at once are written many times as fast, as many as the caches still hold when they are turned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from marlenv.physics.env.layout import FLAGS, Layout, columns
from marlenv.physics.jit.kernel import Begun, Field, MachineKernel

FEWEST, MOST = 4, 64
"""Steps that are turned together, at least and at most."""
HELD = 12 << 20
"""Bytes of a few steps that the caches hold, about."""
Shapes = list[tuple[tuple[int, ...], torch.dtype]]


class Shown(NamedTuple):
    """What a policy is shown, in memory of its own."""

    memory: list[Tensor]
    """Observations and infos before each step, ``[T, ..., B]``."""
    values: list[tuple[Tensor, ...]]
    """Of each step, in the order of :meth:`Layout.first`; nothing is done."""
    watched: list[Tensor]
    """Tensors whose versions tell whether anybody wrote into any of it."""


class StagingBuffer:
    """Memory for the last steps of a rollout.

    Args:
        layout: of the env's data.
        memory: as :func:`staging_shapes` lists it.
        kept: which of the observations, infos and rewards after a step are kept.
    """

    def __init__(self, layout: Layout, memory: Sequence[Tensor], kept: Sequence[bool]) -> None:
        self._layout, (self._rows,) = layout, layout.batch
        count = len(layout.observations)
        self.before, rest = list(memory[:count]), iter(memory[count:])
        """Before every step and the one that follows on the last, ``[1 + C, ..., B]``; near rows that began anew, or
        all of it where what was after the step before is not kept.
        """
        self.after = [next(rest) if keep else None for keep in kept]
        """After every step, ``[C, ..., B]``; None for what is not kept."""
        self.start = 0
        """The step of the rollout that comes first in it."""
        self.length = len(memory[-1])
        """How many steps it has room for."""

    @property
    def stop(self) -> int:
        """The step of the rollout for which there is no room any more."""
        return self.start + self.length

    def turn(
        self, kernel: MachineKernel, before: Sequence[Tensor], after: Sequence[Tensor | None], done: Tensor, played: int
    ) -> None:
        """Copies what it holds to where it lies row by row, and goes on with the step ``played``.

        Args:
            kernel: does it.
            before: observations and infos before all steps of the rollout, ``[T, ..., B]``; the first are there.
            after: what followed on them.
            done: whether rows were done after them, ``[T, B]``, contiguous.
            played: so many steps were.
        """
        start, self.start = self.start, played
        if played == start:
            return
        for i, (x, out) in enumerate(zip(self.after, after, strict=True)):
            seen, begun = i < len(before), None
            if seen:  # nothing follows on the last step of all
                begun = Begun(self.before[i][1:], done[start:], before[i][start + 1 : played + 1])
            if x is not None and out is not None:
                kernel.turn(x[: played - start], out[start:played], begun)
            elif begun is not None and len(begun.out):
                kernel.turn(begun.x[: len(begun.out)], begun.out)

    def show(self, steps: int) -> Shown:
        """Memory for what a policy is shown before some steps; nobody else has it.

        Args:
            steps: how many, ``T``.
        """
        layout, rows = self._layout, self._rows
        fields = [entry.field for entry in layout.observations]
        memory, watched = _blocks(fields, steps, rows, layout.device)
        sizes = [len(FLAGS) * steps * level.agents.numel() * rows for level in layout.levels]
        flags = torch.zeros(sum(sizes), dtype=torch.bool, device=layout.device)
        levels = [
            x.view(len(FLAGS), steps, *level.agents, rows)
            for x, level in zip(flags.split(sizes), layout.levels, strict=True)
        ]
        shown = [entry.of(x, 1) for entry, x in zip(layout.observations, memory, strict=True)]
        values = zip(*(x.unbind(1) for x in (*shown, *columns(levels))), strict=True)
        return Shown(memory, list(values), [*watched, flags])


def _blocks(
    fields: Sequence[Field], steps: int, rows: int, device: torch.device | None
) -> tuple[list[Tensor], list[Tensor]]:
    """Memory for fields, ``[T, ..., B]``, and the tensors out of which it was cut, one of each dtype."""
    blocks = {}
    for dtype in dict.fromkeys(field.dtype for field in fields):
        size = sum(field.numbers for field in fields if field.dtype == dtype)
        blocks[dtype] = torch.empty(size * steps * rows, dtype=dtype, device=device)
    out, used = [], dict.fromkeys(blocks, 0)
    for field in fields:
        start, size = used[field.dtype], field.numbers * steps * rows
        used[field.dtype] += size
        out.append(blocks[field.dtype][start : start + size].view(steps, *field.shape, rows))
    return out, list(blocks.values())


def staging_shapes(observations: Sequence[Field], after: Sequence[Field], steps: int, rows: int) -> Shapes:
    """The memory of a staging buffer.

    Args:
        observations: and infos.
        after: what is kept of what follows on a step.
        steps: of the rollout.
        rows: of the env.
    """
    size = rows * sum(field.numbers * field.dtype.itemsize for field in (*observations, *after))
    stages = -(-steps // max(FEWEST, min(MOST, HELD // size)))
    some = -(-steps // stages)  # equal parts
    before: Shapes = [((1 + some, *field.shape, rows), field.dtype) for field in observations]
    return before + [((some, *field.shape, rows), field.dtype) for field in after]


__all__ = ["Shown", "StagingBuffer", "staging_shapes"]
