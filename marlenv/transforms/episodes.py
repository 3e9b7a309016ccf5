"""Transforms that know where in its episode a row is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import KeyMissing, SpecError, whole
from marlenv.keys import LIFE_NAMES, NestedKey, Path, beside, nested, path
from marlenv.specs import Bounded, Composite
from marlenv.tensordicts import fetch, write
from marlenv.transforms.base import Kind, Transform
from marlenv.transforms.flags import tells_of

if TYPE_CHECKING:
    from marlenv.envs import EnvBase


class PerLevel(Transform):
    """A transform with one entry beside the done flags of every level that is reset by itself. Abstract."""

    only_in_env = "it looks at ends and beginnings of episodes"
    levels: Sequence[NestedKey] = ()
    """The done flags of these levels; none outside an env."""

    def join(self, env: EnvBase) -> None:
        """Finds the levels: the root, or the groups where there are no flags at the root."""
        super().join(env)
        self.levels = [nested((*level.path, "done")) for level in env.plan.done.top]

    @property
    def reset_keys(self) -> list[NestedKey]:
        """The reset masks of these levels; none outside an env."""
        return [beside(key, "_reset") for key in self.levels]


class _Flags(NamedTuple):
    """The keys of the flags of one level."""

    done: NestedKey
    truncated: NestedKey
    terminated: NestedKey
    union: NestedKey
    """Where the union goes; to ``done`` itself, unless it is given another name."""
    lives: tuple[NestedKey, ...]
    """Where a group says who lives and acts; nowhere, if it says of nobody, or the union goes elsewhere."""


class Truncation(PerLevel):
    """A transform that cuts episodes off: it truncates at its levels, and at the levels below them. Abstract.

    Who is cut off does not live and act any more, where a group says who does.
    """

    truncated_key = "truncated"
    """The name of the flag."""
    done_key = "done"
    """The name of its union with the others."""
    update_done = True
    """Whether the union is written."""
    flags: dict[NestedKey, list[_Flags]] = {}
    """What a limit sets, by the done flag of its level: the flags there and below; none outside an env."""
    added: dict[NestedKey, NestedKey] = {}
    """The flags that the env may lack, each with the done flag beside it."""

    def join(self, env: EnvBase) -> None:
        """Finds the levels, and the levels below each of them, whose flags follow."""
        super().join(env)
        paths = [level.path for level in env.plan.done.levels]
        self.flags, self.added = {}, {}
        for key in self.levels:
            at = path(key)[:-1]
            below = [p for p in paths if p[: len(at)] == at]
            self.flags[key] = [self._flags_of(env, p) for p in below]
            for keys in self.flags[key]:
                self.added |= {written: keys.done for written in (keys.truncated, keys.union) if written != keys.done}

    def _flags_of(self, env: EnvBase, level: Path) -> _Flags:
        names = ("done", self.truncated_key, "terminated", self.done_key)
        done, truncated, terminated, union = (nested((*level, name)) for name in names)
        return _Flags(done, truncated, terminated, union, self._lives(env, level))

    def _lives(self, env: EnvBase, group: Path) -> tuple[NestedKey, ...]:
        if not (group and self.update_done and self.done_key == "done"):
            return ()
        observed, done = env.full_observation_spec, env.full_done_spec[nested((*group, "done"))]
        alive, mask = (nested((*group, name)) for name in LIFE_NAMES)
        known = [key for key in (alive, mask) if key in observed and tells_of(observed[key], done)]
        return tuple(known) if alive in known else ()

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the flags."""
        for key, done in self.added.items():
            specs["done"][key] = specs["done"][done].clone()

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for key, done in self.added.items():
            if fetch(tensordict_reset, key) is None and (flag := fetch(tensordict_reset, done)) is not None:
                write(tensordict_reset, key, torch.zeros_like(flag))
        return tensordict_reset

    def _cut(self, keys: _Flags, over: Tensor, before: TensorDictBase, following: TensorDictBase) -> None:
        """Truncates at one level where the episode is ``over``, except what had terminated before."""
        done = fetch(following, keys.done)
        if done is None:
            return
        while over.ndim < done.ndim:
            over = over.unsqueeze(-2)
        dead = fetch(before, keys.terminated)
        cut = over.expand_as(done).clone() if dead is None else over & ~dead
        mine = fetch(following, keys.truncated)
        cut = cut if mine is None else cut | mine
        write(following, keys.truncated, cut)
        if self.update_done:
            union = done if keys.union == keys.done else fetch(following, keys.union)
            write(following, keys.union, ended := cut | (done if union is None else union))
            for key in keys.lives:
                write(following, key, fetch(following, key) & ~ended.squeeze(-1))

    def memories(self) -> list[NestedKey]:
        """The flags that a limit sets, which do not follow from the env's state alone."""
        return [key for keys in chain(*self.flags.values()) for key in (keys.truncated, keys.union, *keys.lives)]


class StepCounter(Truncation):
    """Counts the steps of the episode and cuts it off after ``max_steps``.

    Writes ``step_count`` (int64, the shape of the done flag) beside the done flags of the root, or of every group where
    there are none at the root: 0 after a reset, 1 after the first step. With ``max_steps`` it adds ``truncated`` flags,
    there and at the levels below, and ``done`` becomes the union. What terminates in the very step of the limit is
    both; an agent that had terminated before does not become truncated.

    Args:
        max_steps: the longest episode; no limit when left out.
        truncated_key: the name of the flag.
        step_count_key: the name of the counter.
        update_done: whether ``done`` becomes the union.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(max_steps=9), StepCounter(max_steps=2))
    >>> env.rollout(5)["next", "truncated"].squeeze(-1)
    tensor([False,  True])
    """

    counted: Sequence[tuple[NestedKey, NestedKey]] = ()
    """Per level: its done flag and its counter; none outside an env."""

    def __init__(
        self,
        max_steps: int | None = None,
        truncated_key: str = "truncated",
        step_count_key: str = "step_count",
        update_done: bool = True,
    ) -> None:
        super().__init__()
        if max_steps is not None:
            whole("StepCounter", "max_steps", max_steps, 1)
        if not isinstance(truncated_key, str) or not isinstance(step_count_key, str):
            raise SpecError("StepCounter: the keys are names (strings); they are written beside every done flag")
        self.max_steps, self.update_done = max_steps, update_done
        self.truncated_key, self.step_count_key = truncated_key, step_count_key

    def join(self, env: EnvBase) -> None:
        """Finds the levels, and what a limit sets."""
        super().join(env)
        self.counted = [(key, beside(key, self.step_count_key)) for key in self.levels]
        if self.max_steps is None:
            self.flags, self.added = {}, {}

    @property
    def step_count_keys(self) -> list[NestedKey]:
        """The counters; none outside an env, as the keys below."""
        return [count for _, count in self.counted]

    @property
    def done_keys(self) -> list[NestedKey]:
        """The flags beside the counters."""
        return [key for key, _ in self.counted]

    @property
    def truncated_keys(self) -> list[NestedKey]:
        """The flags that a limit sets beside the counters."""
        return [beside(key, self.truncated_key) for key in self.done_keys]

    @property
    def terminated_keys(self) -> list[NestedKey]:
        """What a limit leaves alone beside the counters."""
        return [beside(key, "terminated") for key in self.done_keys]

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the counters, and the flags if there is a limit."""
        for key, count in self.counted:
            flag = specs["done"][key]
            most = torch.iinfo(torch.int64).max
            for where in {count, self.memory_of(count)}:
                specs["observation"][where] = Bounded(0, most, flag.shape, dtype=torch.int64, device=flag.device)
        super().respec(specs)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for key, count in self.counted:
            done = fetch(tensordict_reset, key)
            write(tensordict_reset, count, torch.zeros_like(done, dtype=torch.int64))
            if count in self._overwritten:
                write(tensordict_reset, self.memory_of(count), torch.zeros_like(done, dtype=torch.int64))
        return tensordict_reset if self.max_steps is None else super()._reset(tensordict, tensordict_reset)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key, where in self.counted:
            kept = self.memory_of(where) if self._overwritten else where
            before = fetch(tensordict, kept)
            if before is None:
                raise KeyMissing(
                    f"StepCounter: no entry {where!r} in the data; start from env.reset(), and hand on what it gives"
                )
            count = before + 1
            write(next_tensordict, where, count)
            if kept != where:
                write(next_tensordict, kept, count.clone())
            if self.max_steps is not None:
                over = count >= self.max_steps
                for keys in self.flags[key]:
                    self._cut(keys, over, tensordict, next_tensordict)
        return next_tensordict

    def memories(self) -> list[NestedKey]:
        """The counters, and the flags that a limit sets."""
        return [*self.step_count_keys, *super().memories()]

    def __repr__(self) -> str:
        return f"StepCounter(max_steps={self.max_steps})"


class InitTracker(PerLevel):
    """Marks the first step of every episode: ``is_init`` beside the done flags of the root, True after a reset.

    Where there are no flags at the root it stands beside those of every group.

    Args:
        init_key: the name of the flag.

    >>> TransformedEnv(marlenv.testing.CountingEnv(), InitTracker()).rollout(3)["is_init"].squeeze(-1)
    tensor([ True, False, False])
    """

    def __init__(self, init_key: str = "is_init") -> None:
        super().__init__()
        if not isinstance(init_key, str):
            raise SpecError(
                f"InitTracker: init_key is a name (string), written beside every done flag; got {init_key!r}"
            )
        self.init_key = init_key

    @property
    def init_keys(self) -> list[NestedKey]:
        """The flags; none outside an env."""
        return [beside(key, self.init_key) for key in self.levels]

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the flags."""
        for key, where in zip(self.levels, self.init_keys, strict=True):
            if where in specs["observation"]:
                raise SpecError(f"InitTracker: the env observes {where!r} already; choose another init_key")
            specs["observation"][where] = specs["done"][key].clone()

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for key in self.levels:
            write(tensordict_reset, beside(key, self.init_key), torch.ones_like(fetch(tensordict_reset, key)))
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self.levels:
            write(next_tensordict, beside(key, self.init_key), torch.zeros_like(fetch(next_tensordict, key)))
        return next_tensordict
