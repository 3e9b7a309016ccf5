"""The memory of a rollout, in which every entry lies by itself.

Random actions and all that follows from them are written step by step with the rows last, ``[T, ..., B]``, as machine
code has them. Where a policy acts, the data are for training: they lie row by row, ``[B, T, ...]``, contiguous as they
are shown, so that nothing needs to be copied on its way into a loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import TypeVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.buffer_pool import BufferPool
from marlenv.physics.env.layout import FLAGS, Entry, Layout, columns
from marlenv.physics.env.simulation_env import SimulationEnv
from marlenv.physics.env.staging_buffer import StagingBuffer, Whole, staging_shapes
from marlenv.physics.jit.kernel import MachineKernel
from marlenv.physics.jit.source import action_fields
from marlenv.tensordicts import fetch, put


class RolloutBuffer:
    """Memory for ``T`` steps of an env.

    Args:
        env: whose.
        layout: of its data.
        pool: where the memory comes from.
        steps: ``T``.
        compact: without the observations and infos that follow on steps.
        by_rows: whether it lies row by row; actions have no room then.
        kernel: machine code that writes what a policy is shown; the last steps have memory besides then, as it writes
            them.
    """

    def __init__(
        self,
        env: SimulationEnv,
        layout: Layout,
        pool: BufferPool,
        steps: int,
        *,
        compact: bool,
        by_rows: bool,
        kernel: MachineKernel | None = None,
    ) -> None:
        self.layout, self.steps, self.rows, self.by_rows = layout, steps, env.num_envs, by_rows
        observations = [entry.field for entry in layout.observations]
        rewards = [entry.field for entry in layout.rewards]
        self.action_fields = action_fields(env.simulation)
        after = rewards if compact else [*observations, *rewards]
        fields = [*observations, *after, *(() if by_rows else self.action_fields)]
        lead = (self.rows, steps) if by_rows else (steps,)
        last = () if by_rows else (self.rows,)
        shapes = [((*lead, *field.shape, *last), field.dtype) for field in fields]
        flags = [((len(FLAGS), *lead, *level.agents, *last), torch.bool) for level in layout.levels]
        shapes += [*flags, *flags]
        stages = []
        if kernel is not None:
            stages = staging_shapes(observations, after, steps, self.rows, by_rows=kernel.by_rows)
        lent = pool.lend([*shapes, *stages], env.device)
        lent, stage = lent[: len(shapes)], lent[len(shapes) :]
        if by_rows:  # seen as the other is
            lent = [x.movedim(0 if i < len(fields) else 1, -1) for i, x in enumerate(lent)]
        memory = iter(lent)
        self.observations = [next(memory) for _ in observations]
        """Before every step, as the layout lists them, ``[T, ..., B]`` as are all."""
        self.after: list[Tensor | None] = [None if compact else next(memory) for _ in observations]
        """After every step; None for what is not kept."""
        self.after += [next(memory) for _ in rewards]
        self.actions = [] if by_rows else [next(memory) for _ in self.action_fields]
        self.before_flags = [next(memory).zero_() for _ in flags]
        """Those of every level before every step, bool ``[3, T, *A, B]``: nothing is done then."""
        self.after_flags = [next(memory) for _ in flags]
        """The same after every step; while the rollout is played only those of the rows."""
        own = torch.empty((len(FLAGS), steps, self.rows), dtype=torch.bool, device=env.device) if by_rows else None
        self.row_flags = (self.after_flags[0] if own is None else own).unbind(0)
        """Terminated, truncated and done of the rows after every step, bool ``[T, B]`` each, contiguous."""
        whole = Whole(self.observations, self.after)
        self.staging = None if kernel is None else StagingBuffer(layout, stage, kernel, whole, env.shown)
        """The last steps, where machine code writes them for a policy; None where it does not."""

    def start(self, td: TensorDictBase, *, anew: bool) -> list[Tensor]:
        """Stores what the first step starts from; returns its values, as :meth:`first` does.

        Args:
            td: data of the env.
            anew: whether an episode starts in every row, so that nothing is done.
        """
        held, flags = self.layout.read(td) or [], self.layout.read_flags(td) or []
        values, marks = [x for _, x in held], [level for _, level in flags]
        for entry, x, memory in zip(self.layout.observations, values, self.observations, strict=True):
            memory[0].copy_(x.reshape(self.rows, *entry.field.shape).movedim(0, -1))
        for level, memory in zip(marks, () if anew else self.before_flags, strict=not anew):
            memory[:, 0].copy_(torch.stack(level).squeeze(-1).movedim(1, -1))
        return values + [x for level in marks for x in level]

    def note(self, t: int, values: Sequence[Tensor], *, followed: bool = False) -> None:
        """Stores what a policy was shown before step ``t``, as it left it.

        Args:
            t: the step.
            values: as :meth:`start` returns them; flags among them are not looked at.
            followed: whether they are what followed on the step before, too, as where no row ended.
        """
        for entry, x, target, after in zip(
            self.layout.observations, values, self.observations, self.after, strict=False
        ):
            own = x.reshape(self.rows, *entry.field.shape).movedim(0, -1)
            target[t].copy_(own)
            if followed and after is not None:
                after[t - 1].copy_(own)

    def unended(self) -> list[Tensor]:
        """Flags of every level that say that nothing is done, in the order of :meth:`Layout.first`."""
        shape = (len(FLAGS), 1 + self.layout.agents, self.rows)
        return self.layout.flags(torch.zeros(shape, dtype=torch.bool, device=self.layout.device))

    def share_flags(self, played: int, ended: Tensor | None) -> None:
        """Gives all agents the flags of their row, after the first ``played`` steps.

        Args:
            played: how many.
            ended: which of them ended any row, uint8 ``[T]``; None if nobody noted it.
        """
        rows, *groups = self.after_flags
        if self.by_rows:
            for flag, kept in zip(rows, self.row_flags, strict=True):
                flag[:played] = kept[:played]
        some = None if ended is None else ended[:played].nonzero().squeeze(-1)
        for x in groups:
            if some is None or 4 * len(some) > played:
                x[:, :played] = rows[:, :played].unsqueeze(2)
            else:  # zeros are written faster than rows are repeated
                x[:, :played].zero_()
                if len(some):
                    x[:, some] = rows[:, some].unsqueeze(2)

    def step(self, t: int) -> TensorDict:
        """The data of one step, with those that followed under ``"next"``, without actions; tensors of their own."""
        before, after = ([x[:, t].clone() for x in flags] for flags in (self.before_flags, self.after_flags))
        observations = _entries(self.layout.observations, [x[t].clone() for x in self.observations], 0)
        kept = [None if x is None else x[t].clone() for x in self.after]
        results = _entries((*self.layout.observations, *self.layout.rewards), kept, 0)
        td = self.layout.first([*observations, *columns(before)])
        put(td, "next", self.layout.following([*results, *columns(after)]))
        return td

    def whole(self, steps: int) -> TensorDict:
        """The first ``steps`` steps as the data of a rollout, views of this memory, without the time's name.

        Actions are left to the caller where the memory has no room for them.
        """
        if steps < self.steps:
            return self._cut(steps).whole(steps)
        layout, batch = self.layout, Size((self.rows, steps))
        observations = _entries(layout.observations, self.observations, 1)
        results = _entries((*layout.observations, *layout.rewards), self.after, 1)
        td = layout.first([*observations, *columns(self.before_flags)], batch)
        put(td, "next", layout.following([*results, *columns(self.after_flags)], batch))
        for field, x in zip(self.action_fields, self.actions, strict=not self.by_rows):
            put(fetch(td, layout.paths[field.name[0]]), "action", x.movedim(-1, 0))
        return td

    def _cut(self, steps: int) -> RolloutBuffer:
        """The first ``steps`` steps of it: the same memory, or a copy where rows would not lie side by side."""

        def part(x: Tensor, time: int = 0) -> Tensor:
            x = x.narrow(time, 0, steps)
            return x.movedim(-1, time).contiguous().movedim(time, -1) if self.by_rows else x

        cut = copy(self)
        cut.steps = steps
        cut.observations, cut.actions = ([part(x) for x in some] for some in (self.observations, self.actions))
        cut.after = [None if x is None else part(x) for x in self.after]
        cut.before_flags, cut.after_flags = (
            [part(x, 1) for x in flags] for flags in (self.before_flags, self.after_flags)
        )
        return cut


V = TypeVar("V", Tensor, "Tensor | None")


def _entries(entries: Iterable[Entry], values: Sequence[V], time: int) -> list[V]:
    """Values of entries as they are in the data, None where there is none."""
    return [x if x is None else entry.of(x, time) for entry, x in zip(entries, values, strict=True)]


__all__ = ["RolloutBuffer"]
