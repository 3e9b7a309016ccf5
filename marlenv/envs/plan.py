"""What follows from the specs of an env, computed once while they are locked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.groups.done import DoneLevel, DonePlan
from marlenv.keys import NestedKey, Path, as_tree, by_depth, nested, path
from marlenv.specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    StackedComposite,
    TensorSpec,
    Unbounded,
)
from marlenv.tensordicts import fetch, parts

if TYPE_CHECKING:
    from marlenv.envs.env import EnvBase

MASKED = (Categorical, OneHot, MultiCategorical, MultiOneHot)
DENSE = (*MASKED, Binary, Bounded, Unbounded)
WORD = 64  # bits of a number


class ActionEntry(NamedTuple):
    """One action leaf: where it is, and where the mask of its legal values stands, if the env emits one."""

    path: Path
    spec: TensorSpec
    mask: Path | None
    levels: list[tuple[str, Size]]
    """The groups on the way to it, each with its batch size."""
    draw: Size
    """How many random numbers a draw takes per row of the batch."""
    numbered: bool
    """Whether its values are the numbers of choices, which fractions are not."""
    bits: Path | None
    """Where the mask stands that the env told as bits, 64 values in each number."""
    masked: bool
    """Whether the env says which of its values are legal, in one way or the other."""

    def legal(self, td: TensorDictBase | None) -> Any:
        """The mask in the data, bool ``[*B, ..., n]``; None where there is none."""
        where = self.mask or self.bits
        mask = None if td is None or where is None else fetch(td, where)
        return mask if mask is None or self.mask is not None else unpacked(mask)

    @property
    def key(self) -> NestedKey:
        """The nested key."""
        return nested(self.path)


class RewardEntry(NamedTuple):
    """One reward leaf and the shape that it must have, batch included."""

    path: Path
    shape: Size


class Plan:
    """Everything that stepping and resetting an env need to know about its specs."""

    def __init__(self, env: EnvBase) -> None:
        observation, reward = env.full_observation_spec, env.full_reward_spec
        action, state, done = env.full_action_spec, env.full_state_spec, env.full_done_spec
        self.batch_ndim = len(env.batch_size)
        self.action_keys = by_depth(action.keys(True, True))
        self.state_keys = by_depth(state.keys(True, True))
        self.reward_keys = by_depth(reward.keys(True, True))
        self.done_keys = by_depth(done.keys(True, True))
        self.observation_keys = by_depth(observation.keys(True, True))
        self.done = DonePlan(done)
        self.undeclared = _undeclared(self.done)
        """The levels whose spec has no ``truncated``, with it: a step may give one all the same."""
        same = not _differ(reward, self.batch_ndim)
        self.rewards = [RewardEntry(path(key), reward[key].shape) for key in self.reward_keys if same]
        self.carried = [key for key in self.reward_keys if key in self.state_keys]
        """Rewards that are state too, such as their sums: the next step needs them."""
        self.left_out = [key for key in self.reward_keys or ["reward"] if key not in self.carried]
        """What is of one step, and not of the next: rewards, ``"reward"`` also where an env has no reward spec, empty
        groups of rewards, and ``truncated`` where no spec has it."""
        more = [nested((*level.path, "truncated")) for level in self.undeclared] + _empty_groups(reward)
        self.left_out += [key for key in more if not any(key in spec for spec in (observation, state, action, done))]
        self.reward_tree: dict[str, Any] = as_tree(self.left_out)
        """The same as a tree."""
        named = env._mask_keys
        self.rows = _entries_of_rows(action, observation, self.batch_ndim, named)
        """The actions of each row, where rows are lazily stacked because they differ."""
        keys = self.action_keys if self.rows is None else []  # rows that differ check their own
        self.actions = [_entry(key, action, observation, named) for key in keys]
        self.parts = _entries_of_agents(action, observation, self.actions, named)
        """The actions of each agent, by the path of its group, where its agents are lazily stacked."""
        self.dense_actions = all(isinstance(entry.spec, DENSE) and -1 not in entry.spec.shape for entry in self.actions)
        self.dynamic = any(
            _differ(spec, self.batch_ndim) for spec in (observation, reward, action, state, done)
        ) or any(-1 in leaf.shape for side in (env.output_spec, env.input_spec) for leaf in side.values(True, True))

    def acts(self, td: TensorDictBase) -> list[tuple[TensorDictBase, ActionEntry]]:
        """Every action entry with the data that it is of: those of an agent, where a group is lazily stacked."""
        found = [(td, entry) for entry in self.actions]
        for level, entries in self.parts.items():
            agents = parts(fetch(td, level)) or []
            found += [(one, entry) for one, own in zip(agents, entries, strict=False) for entry in own]
        return found


def _undeclared(done: DonePlan) -> list[DoneLevel]:
    return [
        level._replace(names=(*level.names, "truncated")) for level in done.levels if "truncated" not in level.names
    ]


def _empty_groups(spec: Composite) -> list[NestedKey]:
    """The groups without a leaf that lie in groups with one."""
    empty = {key for key in spec.keys(True) if isinstance(spec[key], Composite) and spec[key].is_empty(recurse=True)}
    return by_depth(key for key in empty if len(path(key)) == 1 or nested(path(key)[:-1]) not in empty)


Named = Mapping[NestedKey, NestedKey]  # the masks of actions, where one was told


def _entry(key: NestedKey, action: Composite, observation: Composite, named: Named) -> ActionEntry:
    where = path(key)
    levels = [(where[i - 1], action[nested(where[:i])].shape) for i in range(1, len(where))]
    draw = Size() if isinstance(action[key], Composite) else action[key].unit_shape[action.ndim :]
    numbered = isinstance(action[key], (Categorical, MultiCategorical))
    mask = _mask_of(key, action[key], observation, named.get(key))
    bits = None if mask is not None else _bits_of(action[key], observation, named.get(key))
    return ActionEntry(where, action[key], mask, levels, draw, numbered, bits, (mask or bits) is not None)


def _differ(spec: Composite, batch_ndim: int) -> bool:
    """Whether rows are lazily stacked."""
    return isinstance(spec, StackedComposite) and spec.dim == 0 and batch_ndim > 0


def _entries_of_rows(
    action: Composite, observation: Composite, batch_ndim: int, named: Named
) -> list[list[ActionEntry]] | None:
    if not _differ(action, batch_ndim):
        return None
    pairs = zip(action.unbind(0), observation.unbind(0), strict=True)
    return [[_entry(key, does, sees, named) for key in by_depth(does.keys(True, True))] for does, sees in pairs]


def _entries_of_agents(
    action: Composite, observation: Composite, actions: list[ActionEntry], named: Named
) -> dict[Path, list[list[ActionEntry]]]:
    found: dict[Path, list[list[ActionEntry]]] = {}
    for level in dict.fromkeys(entry.path[:-1] for entry in actions if len(entry.path) > 1):
        group, seen = action[nested(level)], observation.get(nested(level), None)
        if isinstance(group, StackedComposite) and isinstance(seen, Composite):
            pairs = zip(group.parts, seen.unbind(group.dim), strict=True)
            found[level] = [[_entry(key, does, sees, named) for key in by_depth(does.keys())] for does, sees in pairs]
    return found


def _mask_of(key: NestedKey, spec: TensorSpec, observation: Composite, told: NestedKey | None) -> Path | None:
    """Where the legal values of an action leaf are given: as told, or ``<name>_mask`` or ``action_mask`` beside it."""
    if not isinstance(spec, MASKED):
        return None
    if told is not None and (flags := observation.get(told, None)) is not None and flags.shape == spec._mask_shape:
        return path(told)
    *level, name = path(key)
    for candidate in (f"{name}_mask", "action_mask", "mask"):
        where = (*level, candidate)
        flags = observation.get(nested(where), None)
        if isinstance(flags, (Binary, Categorical)) and tuple(flags.shape) == tuple(spec._mask_shape):
            return where
    return None


def _bits_of(spec: TensorSpec, observation: Composite, told: NestedKey | None) -> Path | None:
    """Where the legal values of an action leaf are given as bits, as it was told."""
    words = None if told is None else observation.get(told, None)
    if told is None or words is None or words.dtype != torch.int64 or not isinstance(spec, MASKED):
        return None
    return path(told) if (*words.shape[:-1], WORD * words.shape[-1]) == tuple(spec._mask_shape) else None


def unpacked(words: Tensor) -> Tensor:
    """The bits of numbers, the lowest of the first one first; int64 ``[..., w]`` to bool ``[..., 64 w]``.

    >>> unpacked(torch.tensor([5, 1]))[[0, 1, 2, 63, 64]].tolist()
    [True, False, True, False, True]
    """
    return (words.unsqueeze(-1) >> torch.arange(WORD, device=words.device) & 1).bool().flatten(-2)


class Locking:
    """The part of :class:`~marlenv.envs.env.EnvBase` that locks specs and caches what follows from them. Abstract."""

    _cache: dict[str, Any]
    _locked: bool
    _input_spec: Composite
    _output_spec: Composite

    @property
    def is_spec_locked(self) -> bool:
        """Whether the specs refuse writing."""
        return self._locked

    @is_spec_locked.setter
    def is_spec_locked(self, value: bool) -> None:
        self.set_spec_lock_(value)

    def set_spec_lock_(self, mode: bool = True) -> Any:
        """Locks the specs (or unlocks them, with ``mode=False``) and forgets what was derived from them."""
        self._cache.clear()
        self._locked = mode
        for side in (self._input_spec, self._output_spec):
            if mode:
                side.lock_()
            else:
                side.unlock_()
        return self

    def empty_cache(self) -> None:
        """Forgets what was derived from the specs; needed after changing unlocked specs in place."""
        self._cache.clear()

    @property
    def plan(self) -> Plan:
        """What follows from the specs; kept while they are locked."""
        found = self._cache.get("plan")
        if found is None:
            found = Plan(self)  # type: ignore[arg-type]
            if self._locked:
                self._cache["plan"] = found
        return found
