"""Rollouts of random play that fast steps write into memory allocated once: nothing is stacked afterwards.

The data are those of the rollout of any env, entry by entry.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.buffer_pool import LARGE, BufferPool
from marlenv.envs.rollout import RolloutOptions, finish, go_on, start
from marlenv.envs.stepping import check_input
from marlenv.games.env.turn_based import TurnBasedEnv
from marlenv.games.fast.compiled import GAME_OVER, ILLEGAL_NEXT
from marlenv.games.fast.data_tree import DataTree
from marlenv.games.fast.step_buffers import Blank
from marlenv.games.rules import Rules
from marlenv.keys import path
from marlenv.tensordicts import copy_over, entries, get, is_nested, new, put

S = TypeVar("S", bound="tuple[Any, ...]")

MOST = 4  # times as much memory as an entry has itself may hang on it
MAPPED = 1 << 17  # bytes that a C library gets anew from the system, page by page
CHUNK = 64  # steps that memory is taken for where the end is not known


class RolloutsInMemory(TurnBasedEnv[S]):
    """An env whose rollouts of random play are written into memory allocated once. Abstract.

    A subclass says what memory a step takes, and plays many steps into it.
    """

    def __init__(self, rules: Rules[S], **options: Any) -> None:
        super().__init__(rules, **options)
        self.rollouts = BufferPool(least=MAPPED)
        self.copies = BufferPool()
        """Where the memory comes from of what is copied out of that of rollouts."""
        self.plans: dict[tuple[Size, int, Any], _Plan] = {}
        """Of rollouts of so many games and steps, on this device."""

    @abstractmethod
    def fuses(self, batch: Size) -> bool:
        """Whether :meth:`fast_rollout` plays so many games, and does all that steps do."""

    @abstractmethod
    def blank_buffers(self, blank: Blank) -> Any:
        """Memory for a step."""

    @abstractmethod
    def data_of(self, buffers: Any, *, rewards: bool) -> TensorDict:
        """The data over memory of :meth:`blank_buffers`, ``[*B]``; games that begin have no rewards."""

    @abstractmethod
    def blank_actions(self, blank: Blank) -> list[Tensor]:
        """Memory for the actions of a step."""

    @abstractmethod
    def put_actions(self, data: TensorDict, actions: Sequence[Tensor]) -> None:
        """Writes actions of :meth:`blank_actions` into the data."""

    @abstractmethod
    def fast_rollout(
        self, steps: int, before: Any, after: Any, actions: list[Tensor], *, stops: bool
    ) -> tuple[int, int]:
        """Random play into memory.

        Args:
            steps: the most to play, ``T``.
            before: the first step; memory for those that follow lies behind it.
            after: memory for what follows on the first step, and behind it for the others.
            actions: memory for actions, ``[T, ...]``.
            stops: whether to stop where a game is over; else games that are over begin anew.

        Returns:
            how many steps were played, and why no more, see :func:`marlenv.games.fast.compiled.played`; numbers of
            the action stream are used for those.
        """

    def _rollout(self, max_steps: int, policy: Any, options: RolloutOptions) -> TensorDict | None:
        return fused(self, max_steps, options) if policy is None and fits(self, options) else None


def fits(env: RolloutsInMemory[Any], options: RolloutOptions) -> bool:
    """Whether a rollout with random actions can be fused: the plain ones, of games that play whole steps fast."""
    special = (options.callback, options.actions, options.storing_device, options.out)
    given = options.tensordict
    batch = env.batch_size if given is None else given.batch_size
    return (
        all(one is None for one in special)
        and not options.compact
        and not options.break_when_all_done
        and options.return_contiguous is not False
        and not env.run_type_checks
        and env._auto_reset is None
        and (env.device is None or env.device.type == "cpu")
        and not torch.compiler.is_compiling()
        and (given is None if options.auto_reset else given is not None and _only_ours(env, given))
        and env.fuses(batch)
    )


def _only_ours(env: RolloutsInMemory[Any], td: TensorDictBase) -> bool:
    """Whether data to go on from hold the env's entries, as its specs have them, and nothing else but actions."""
    if type(td) is not TensorDict or (env.batch_size and td.batch_size != env.batch_size):
        return False
    lead, own = () if env.batch_size else td.batch_size, {}
    for spec in (env.full_observation_spec, env.full_done_spec):
        own.update(spec.items(True, True))
    held, known = set(map(path, td.keys(True))), [path(key) for key in (*own, *env.action_keys)]
    if not set(map(path, own)) <= held <= {key[:depth] for key in known for depth in range(1, len(key) + 1)}:
        return False
    values = ((td.get(key), spec) for key, spec in own.items())
    return all(x.dtype == spec.dtype and x.shape == (*lead, *spec.shape) and x.is_cpu for x, spec in values)


def fused(env: RolloutsInMemory[Any], steps: int, options: RolloutOptions) -> TensorDict:
    """A rollout with random actions that :func:`fits` accepts."""
    first = start(env, options)
    check_input(env, first)
    chunks: list[_Chunk] = []
    played = 0
    while played < steps and not (chunks and chunks[-1].over):
        length = min(CHUNK, steps - played) if options.stops else steps
        chunk = _Chunk(env, first.batch_size, length, stops=options.stops)
        if chunks:
            chunk.follow(chunks[-1])
        else:
            chunk.begin(first)
        chunks.append(chunk)
        played += chunk.play()
        if chunk.stuck is not None:
            done = _joined(chunks, first) if played else None
            kept = [] if done is None else [done[..., t].clone() for t in range(played)]
            td = env.rand_action(in_order(chunk.stuck, first))
            return go_on(env, td, env.rand_action, kept, steps - played, options)
    return finish(env, _joined(chunks, first), options)


class _Plan:
    """What all chunks of so many games and steps have in common: the memory they take, and how data lie over it.

    Args:
        env: whose.
        batch: ``[*B]``.
        steps: ``T``.
    """

    KEPT = 8

    def __init__(self, env: RolloutsInMemory[Any], batch: Size, steps: int) -> None:
        self.wanted: list[tuple[tuple[int, ...], torch.dtype]] = []

        def note(lead: tuple[int, ...], tail: tuple[int, ...], dtype: torch.dtype) -> Tensor:
            self.wanted.append(((steps, *lead, *batch, *tail), dtype))
            return torch.empty((*lead, *batch, *tail), dtype=dtype, device="meta")

        env.blank_buffers(note)
        self.count = len(self.wanted)
        env.blank_actions(note)
        self.wanted = [*self.wanted[: self.count], *self.wanted]
        self.first: _Layout | None = None
        """Of what the first step starts from."""
        self.whole: _Layout | None = None
        """Of all steps."""

    @classmethod
    def of(cls, env: RolloutsInMemory[Any], batch: Size, steps: int) -> _Plan:
        """That of an env, which keeps some."""
        kind = batch, steps, env.device
        plan = env.plans.get(kind)
        if plan is None:
            plan = cls(env, batch, steps)
            if len(env.plans) == cls.KEPT:
                del env.plans[next(iter(env.plans))]
            env.plans[kind] = plan
        return plan


class _Layout:
    """How data lie over memory: as views, but for entries that much more memory hangs on than they have themselves.

    Those are copied, as who saves an entry saves all that it is a view of.

    Args:
        td: the data.
        memory: of which all are views.
        ndim: the dimension of steps, which lie one after another in memory; None: nothing is copied.
    """

    def __init__(self, td: TensorDict, memory: Sequence[Tensor], ndim: int | None = None) -> None:
        leaves: list[Tensor] = []
        self.tree, self.ndim = DataTree(td, leaves), ndim
        numbers = {x.untyped_storage()._cdata: i for i, x in enumerate(memory)}
        self.views: list[tuple[int, Size, tuple[int, ...], int]] = []
        """Of which memory each leaf is a view, its shape, strides and offset."""
        self.copied: list[int] = []
        self.large: list[tuple[Size, torch.dtype] | None] = []
        """What is copied to memory that is used again; None for what is small."""
        for i, leaf in enumerate(leaves):
            number = numbers[leaf.untyped_storage()._cdata]
            assert leaf.dtype == memory[number].dtype, "data over memory of another dtype"
            view = leaf
            if ndim is not None and leaf.untyped_storage().nbytes() > MOST * leaf.nbytes:
                view = leaf.movedim(ndim, 0)
                self.copied.append(i)
                self.large.append((view.shape, view.dtype) if view.nbytes >= LARGE else None)
            self.views.append((number, view.shape, view.stride(), int(view.storage_offset())))

    def data(self, memory: Sequence[Tensor], copies: BufferPool) -> TensorDict:
        """The same data over other memory, and over ``copies``."""
        leaves = [memory[number].as_strided(shape, steps, at) for number, shape, steps, at in self.views]
        if self.ndim is not None:
            lent = iter(copies.lend([one for one in self.large if one is not None]))
            for i, large in zip(self.copied, self.large, strict=True):
                own = next(lent).copy_(leaves[i]) if large else leaves[i].clone(memory_format=torch.contiguous_format)
                leaves[i] = own.movedim(0, self.ndim)
        data: TensorDict = self.tree.of(leaves)
        return data


class _Chunk:
    """Some steps of a rollout: every entry lies there by itself, step by step, ``[T, *lead, *B, *tail]``.

    Args:
        env: whose.
        batch: ``[*B]``.
        steps: ``T``.
        stops: whether it is over where any game is; else games that are over begin anew.
    """

    def __init__(self, env: RolloutsInMemory[Any], batch: Size, steps: int, *, stops: bool) -> None:
        self.env, self.batch, self.steps, self.stops = env, batch, steps, stops
        self.plan = _Plan.of(env, batch, steps)
        count, self.memory = self.plan.count, env.rollouts.lend(self.plan.wanted)
        self.before, self.after = self.memory[:count], self.memory[count : 2 * count]
        self.actions = self.memory[2 * count :]
        self.played = 0
        self.over = False
        """Whether a game was over, and nothing is to follow."""
        self.stuck: TensorDict | None = None
        """The data of a step that was not played: a random action would be illegal there."""

    def _buffers(self, memory: list[Tensor], step: int) -> Any:
        return self.env.blank_buffers(_given(x[step] for x in memory))

    def begin(self, td: TensorDictBase) -> None:
        """Stores what the first step starts from."""
        if self.plan.first is None:
            self.plan.first = _Layout(self.env.data_of(self._buffers(self.before, 0), rewards=False), self.before)
        copy_over(self.plan.first.data(self.before, self.env.copies), td)

    def follow(self, chunk: _Chunk) -> None:
        """Starts from what followed on the last step of another chunk."""
        for mine, theirs in zip(self.before, chunk.after, strict=True):
            mine[0].copy_(theirs[-1])

    def play(self) -> int:
        """Plays all steps, or those until a game is over; returns how many."""
        first, after = self._buffers(self.before, 0), self._buffers(self.after, 0)
        self.played, why = self.env.fast_rollout(self.steps, first, after, self.actions, stops=self.stops)
        self.over = why == GAME_OVER
        if why == ILLEGAL_NEXT:
            self.stuck = self.env.data_of(self._buffers(self.before, self.played), rewards=False).clone()
        return self.played

    def whole(self) -> TensorDict:
        """The data of the steps that were played, ``[*B, T]``."""
        if self.played < self.steps:
            return self._layout().data(self.memory, self.env.copies)
        if self.plan.whole is None:
            self.plan.whole = self._layout()
        return self.plan.whole.data(self.memory, self.env.copies)

    def _layout(self) -> _Layout:
        env, ndim = self.env, len(self.batch)
        before, after = (
            env.blank_buffers(_given((x[: self.played] for x in memory), ndim)) for memory in (self.before, self.after)
        )
        td = env.data_of(before, rewards=False)
        env.put_actions(td, env.blank_actions(_given((x[: self.played] for x in self.actions), ndim)))
        put(td, "next", env.data_of(after, rewards=True))
        return _Layout(td, self.memory, ndim)


def _given(memory: Iterator[Tensor], ndim: int | None = None) -> Blank:
    """Gives memory that is there, in order; ``[*lead, *B, T, *tail]`` of that of steps, ``[T, *lead, *B, *tail]``.

    Args:
        memory: to give.
        ndim: how many dimensions ``*B`` are; None for memory of one step.
    """

    def give(lead: tuple[int, ...], tail: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        one = next(memory)
        return one if ndim is None else one.movedim(0, len(lead) + ndim)

    return give


def _joined(chunks: list[_Chunk], first: TensorDictBase) -> TensorDict:
    """All chunks one after another, with entries in the order of the ``first`` data."""
    parts = [chunk.whole() for chunk in chunks if chunk.played]
    td = parts[0] if len(parts) == 1 else torch.cat(parts, parts[0].ndim - 1)
    return in_order(td, first)


def in_order(td: TensorDict, first: TensorDictBase) -> TensorDict:
    """The same entries, those that ``first`` has before the others and in its order."""
    names = [name for name, _ in entries(first) if get(td, name) is not None]
    names += [name for name, _ in entries(td) if name not in names]
    data: dict[str, Any] = {}
    for name in names:
        value, model = get(td, name), get(first, name)
        data[name] = in_order(value, model) if is_nested(value) and is_nested(model) else value
    return new(data, td.batch_size, td.device)


__all__ = ["RolloutsInMemory", "fits", "fused", "in_order"]
