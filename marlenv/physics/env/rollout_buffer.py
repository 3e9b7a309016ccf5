"""The memory of a rollout: every entry lies there by itself, step by step and with the rows last, ``[T, ..., B]``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import TypeVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.buffer_pool import BufferPool
from marlenv.physics.env.layout import FLAGS, Entry, Layout
from marlenv.physics.env.simulation_env import SimulationEnv
from marlenv.physics.jit.kernel import action_fields
from marlenv.tensordicts import fetch, put


class RolloutBuffer:
    """Memory for ``T`` steps of an env.

    Args:
        env: whose.
        layout: of its data.
        pool: where the memory comes from.
        steps: ``T``.
        compact: without the observations and infos that follow on steps.
    """

    def __init__(self, env: SimulationEnv, layout: Layout, pool: BufferPool, steps: int, *, compact: bool) -> None:
        self.layout, self.steps, self.rows = layout, steps, env.num_envs
        observations = [entry.field for entry in layout.observations]
        rewards = [entry.field for entry in layout.rewards]
        self.action_fields = action_fields(env.simulation)
        after = rewards if compact else [*observations, *rewards]
        fields = [*observations, *after, *self.action_fields]
        shapes = [((steps, *field.shape, self.rows), field.dtype) for field in fields]
        flags = [((len(FLAGS), steps, *level.agents, self.rows), torch.bool) for level in layout.levels]
        memory = iter(pool.lend([*shapes, *flags, *flags], env.device))
        self.observations = [next(memory) for _ in observations]
        """Before every step, as the layout lists them."""
        self.after: list[Tensor | None] = [None if compact else next(memory) for _ in observations]
        """After every step; None for what is not kept."""
        self.after += [next(memory) for _ in rewards]
        self.actions = [next(memory) for _ in self.action_fields]
        self.before_flags = [next(memory).zero_() for _ in flags]
        """Those of every level before every step, bool ``[3, T, *A, B]``: nothing is done then."""
        self.after_flags = [next(memory) for _ in flags]
        """The same after every step; while the rollout is played only those of the rows."""
        self.row_flags = self.after_flags[0].unbind(0)
        """Terminated, truncated and done of the rows after every step, bool ``[T, B]`` each."""

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

    def first(self, t: int) -> list[Tensor]:
        """What a policy is given before a later step, in the order of :meth:`Layout.first`: tensors of its own."""
        layout = self.layout
        values = [entry.of(x[t].clone()) for entry, x in zip(layout.observations, self.observations, strict=True)]
        none = torch.zeros((3, 1 + layout.agents, self.rows), dtype=torch.bool, device=layout.device)
        return values + layout.flags(none)

    def share_flags(self, played: int, ended: Tensor | None) -> None:
        """Gives all agents the flags of their row, after the first ``played`` steps.

        Args:
            played: how many.
            ended: which of them ended any row, uint8 ``[T]``; None if nobody noted it.
        """
        rows, *groups = self.after_flags
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
        td = self.layout.first([*observations, *_columns(before)])
        put(td, "next", self.layout.following([*results, *_columns(after)]))
        return td

    def whole(self, steps: int) -> TensorDict:
        """The first ``steps`` steps as the data of a rollout, views of this memory, without the time's name."""
        if steps < self.steps:
            return self._cut(steps).whole(steps)
        layout, batch = self.layout, Size((self.rows, steps))
        observations = _entries(layout.observations, self.observations, 1)
        results = _entries((*layout.observations, *layout.rewards), self.after, 1)
        td = layout.first([*observations, *_columns(self.before_flags)], batch)
        put(td, "next", layout.following([*results, *_columns(self.after_flags)], batch))
        for field, x in zip(self.action_fields, self.actions, strict=True):
            put(fetch(td, layout.paths[field.name[0]]), "action", x.movedim(-1, 0))
        return td

    def _cut(self, steps: int) -> RolloutBuffer:
        """The first ``steps`` steps of it, the same memory."""
        cut = copy(self)
        cut.steps = steps
        cut.observations, cut.actions = ([x[:steps] for x in some] for some in (self.observations, self.actions))
        cut.after = [None if x is None else x[:steps] for x in self.after]
        cut.before_flags, cut.after_flags = (
            [x[:, :steps] for x in flags] for flags in (self.before_flags, self.after_flags)
        )
        return cut


V = TypeVar("V", Tensor, "Tensor | None")


def _entries(entries: Iterable[Entry], values: Sequence[V], time: int) -> list[V]:
    """Values of entries as they are in the data, None where there is none."""
    return [x if x is None else entry.of(x, time) for entry, x in zip(entries, values, strict=True)]


def _columns(flags: Sequence[Tensor]) -> list[Tensor]:
    """The flags of levels, ``[3, *T, *A, B]`` each, as they are in the data, three ``[B, *T, *A, 1]`` of each level."""
    out = []
    for level in flags:
        (_, *between, rows), (block, *strides, one) = level.shape, level.stride()
        size, stride, start = (rows, *between, 1), (one, *strides, 1), level.storage_offset()
        out += [level.as_strided(size, stride, start + k * block) for k in range(3)]
    return out


__all__ = ["RolloutBuffer"]
