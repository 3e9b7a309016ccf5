"""The fast form of rules whose draws, whole steps and rollouts numba compiles, for any number of players."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar, Generic

import numpy as np
from numpy.typing import NDArray
from torch import Size, Tensor

from marlenv.games.fast.compiled import played
from marlenv.games.fast.fast_rules import Drawing
from marlenv.games.fast.step_buffers import Arrays, Places
from marlenv.games.rules import Rules, State
from marlenv.rng import RowRNG
from marlenv.threads import shared


@cache
def _room(name: str) -> ModuleType:
    """A module of this room; importing it needs numba."""
    return import_module(f"marlenv.games.fast.{name}")  # optional: compiled on first use


def _calls() -> Any:
    """What calls the kernels."""
    return _room("whole_games")


@dataclass(frozen=True)
class CompiledRules(Generic[State]):
    """What :class:`marlenv.GameEnv` asks in place of rules; a :class:`marlenv.games.fast.fast_rules.FastRollouts`.

    The kernels are ``draw`` and ``play``, see :mod:`marlenv.games.fast.whole_games`. Positions that no game leads to
    they do not play: the rules do.

    Args:
        rules: the game.
        kernels: the module of this room that has them.
        options: what they are to know of the rules.
        work: how many nanoseconds a row takes one thread, about, to draw and to play.
    """

    rules: Rules[State]
    kernels: str
    options: tuple[Any, ...]
    work: tuple[int, int]
    held: ClassVar[bool] = False
    """Whether ``play`` of several steps leaves in place of a position what the next starts from."""

    @cached_property
    def _players(self) -> int:
        return len(self.rules.players)

    @cached_property
    def _like(self) -> tuple[Arrays, Arrays, NDArray[Any]]:
        """What a step reads, of one row: a position, the actions of each player, whether the game is over."""
        start = self.rules.start(Size([1]), rng=RowRNG(0, [1]))
        actions = tuple(np.zeros(1, np.int64) for _ in self.rules.players)
        return rows_of(start, 1), actions, np.zeros(1, np.bool_)

    def permits(self, state: State, action: Tensor) -> Tensor:
        """As the rules say."""
        return self.rules.permits(state, action)

    def pick(self, state: State, unit: Tensor) -> Tensor:
        """As the rules say."""
        return self.rules.pick(state, unit)

    def draw(self, state: State, keys: NDArray[Any], at: int, offsets: tuple[int, ...]) -> NDArray[Any] | None:
        """Legal actions by numbers of streams, compiled."""
        held, rows = _held(state), len(keys)
        found = np.empty((rows, self._players if self.rules.simultaneous else 1), np.int64)
        threads, read = shared(rows * self.work[0]), (self.options, self._like[0], _addresses(held))
        return found if _calls().draw(self._draw, threads, rows, *read, (keys, at, offsets), found) else None

    def step(
        self,
        state: State,
        actions: Sequence[Tensor],
        done: Tensor,
        following: Places,
        restarted: Places | None,
        *,
        likely: bool = False,
    ) -> int:
        """A whole step, compiled."""
        held, rows, fresh = _held([*state, *actions, done]), done.numel(), restarted or following
        kernel, options = self._play(following[1][0].dtype)
        read = options, self._like, _addresses(held)
        threads = shared(rows * self.work[1])
        return int(_calls().step(kernel, threads, rows, *read, (restarted is not None, likely), following, fresh))

    def rollout(
        self, steps: int, before: Places, after: Places, actions: Arrays, drawing: Drawing, *, stops: bool
    ) -> tuple[int, int]:
        """A whole rollout, compiled."""
        rows = drawing[0].size
        found = np.empty((rows, self._players if self.rules.simultaneous else 1), np.int64)
        kernel, options = self._play(before[1][0].dtype)
        both, threads = (self.options, options), shared(steps * rows * sum(self.work))
        given = threads, steps, both, (before, after, actions, found), drawing, stops, self.held
        return played(int(_calls().rollout((self._draw, kernel), *given)), steps)

    # --- kernels ----------------------------------------------------------------------------------

    @cached_property
    def _draw(self) -> int:
        """Where ``draw`` is, compiled."""
        kinds = _calls().kinds
        given = self.options, self._like[0], np.empty(0, np.int64), 0, (0,) * self._players, np.empty((0, 1), np.int64)
        return int(_calls().compiled_at(_room(self.kernels).draw, tuple(map(kinds, given))))

    def _play(self, kind: np.dtype[Any]) -> tuple[int, tuple[Any, ...]]:
        """Where ``play`` is, compiled for observations of a dtype, and its options."""
        if kind not in self._plays:
            options = self._playing(kind)
            out = self._out(kind)
            given = tuple(map(_calls().kinds, (options, self._like, (True, True, 1), out, out)))
            self._plays[kind] = int(_calls().compiled_at(_room(self.kernels).play, given)), options
        return self._plays[kind]

    @cached_property
    def _plays(self) -> dict[np.dtype[Any], tuple[int, tuple[Any, ...]]]:
        return {}

    def _out(self, kind: np.dtype[Any]) -> tuple[Any, ...]:
        """Memory of no rows that has the types of what is written."""
        dtypes = (np.int64, np.int8, np.bool_, np.float32)
        players = ((np.empty((0, 0), dtype),) * self._players for dtype in (kind, np.bool_))
        return (self._like[0], *players, *(np.empty((0, 0), dtype) for dtype in dtypes))

    def __getstate__(self) -> dict[str, Any]:
        """Without what holds in this process alone."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _playing(self, kind: np.dtype[Any]) -> tuple[Any, ...]:
        """The options of ``play``, for observations of a dtype."""
        return self.options


def rows_of(parts: tuple[Tensor, ...], count: int) -> Arrays:
    """The memory of a position as ``[count, n]`` each; of copies of parts that have gaps."""
    return tuple(part.contiguous().numpy().reshape(count, part.numel() // count) for part in parts)


def _held(parts: Sequence[Tensor]) -> list[Tensor]:
    """The same without gaps: whoever is given addresses of them holds them."""
    return [part if part.is_contiguous() else part.contiguous() for part in parts]


def _addresses(parts: list[Tensor]) -> tuple[int, ...]:
    return tuple([part.data_ptr() for part in parts])
