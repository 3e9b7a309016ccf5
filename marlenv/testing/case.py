"""An env before the contract: what makes it, how it played, and what is known of it so far."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from marlenv.envs import EnvBase
from marlenv.errors import SpecError
from marlenv.options import takes
from marlenv.testing import generators
from marlenv.testing.checks import NotJudged
from marlenv.testing.trace import Trace, record, seed

T = TypeVar("T")
STEPS = 64
"""How many steps all clauses look at, unless told otherwise."""
ROWS = 3
"""How many rows an env is made with where it has one only and takes a number."""


class Case:
    """What the clauses of a contract judge.

    Args:
        make_env: makes a fresh env; with an argument ``num_envs`` or ``batch_size`` also one with another number of
            rows.
        steps: how many steps are recorded and compared.
    """

    def __init__(self, make_env: Callable[..., EnvBase], steps: int = STEPS) -> None:
        if isinstance(make_env, EnvBase) or not callable(make_env):
            raise SpecError(
                f"the contract needs a function that makes a fresh env, got {type(make_env).__name__}; "
                f"say lambda: MyEnv(...)"
            )
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            raise SpecError(f"the contract: steps must be a positive int, got {steps!r}")
        self.make_env, self.steps = make_env, steps
        self._last: Callable[[], Any] = lambda: None
        self._known: dict[object, Any] = {}

    def once(self, key: object, find: Callable[[], T]) -> T:
        """What ``find`` finds, found once."""
        if key not in self._known:
            self._known[key] = find()
        return self._known[key]

    def make(self, rows: int | None = None, *, generators_at: int = 0) -> EnvBase:
        """A fresh env, or one with so many rows; before that, the global generators are put to a place.

        Raises:
            NotJudged: it cannot be made with that number of rows.
        """
        generators.place(generators_at)
        return self._make(rows)

    def _make(self, rows: int | None) -> EnvBase:
        if rows is None:
            return self._fresh(self.make_env())
        name = self._size
        if name is None:
            raise NotJudged("what makes the env takes neither num_envs nor batch_size")
        try:
            env = self._fresh(self.make_env(**{name: rows if name == "num_envs" else [rows]}))
        except Exception as error:
            raise NotJudged(f"the env cannot be made with {rows} rows: {type(error).__name__}: {error}") from error
        if tuple(env.batch_size) != (rows,):
            raise NotJudged(f"made with {name}={rows}, the env has the batch size {list(env.batch_size)}")
        return env

    def _fresh(self, env: Any) -> EnvBase:
        if not isinstance(env, EnvBase):
            raise SpecError(f"what makes the env returned a {type(env).__name__}; expected a marlenv.EnvBase")
        if self._last() is env:
            raise SpecError(
                "what makes the env returned the same one twice; it must make a fresh one: lambda: MyEnv(...)"
            )
        self._last = weakref.ref(env)
        return env

    @functools.cached_property
    def _size(self) -> str | None:
        """The argument that says how many rows."""
        return next((name for name in ("num_envs", "batch_size") if takes(self.make_env, name)), None)

    def open(self, rows: int | None = None, number: int | None = None) -> EnvBase:
        """A fresh env, seeded if it can be."""
        env = self.make(rows)
        seed(env) if number is None else seed(env, number)
        return env

    @functools.cached_property
    def trace(self) -> Trace:
        """How it played."""
        return record(lambda: self._make(None), self.steps)

    @property
    def twinned(self) -> Trace:
        """The trace, for comparing a twin with it.

        Raises:
            NotJudged: the env cannot be seeded.
        """
        if self.trace.unseeded:
            raise NotJudged(self.trace.unseeded)
        return self.trace

    @property
    def rows(self) -> int | None:
        """With how many rows the clauses about rows make it; None: as it is."""
        return None if self.trace.played.batch_size.numel() > 1 else ROWS

    @property
    def several(self) -> Trace | None:
        """How it played with several rows, where it has one and can be made with more; else None."""
        if self.rows is None or self._size is None:
            return None
        trace = self.once("several rows", lambda: record(lambda: self._make(ROWS), self.steps))
        return None if isinstance(trace.error, NotJudged) else trace

    @property
    def batch(self) -> Trace:
        """How several rows played.

        Raises:
            NotJudged: there is one row only, or the env cannot be seeded.
        """
        trace = self.twinned if self.rows is None else self.several
        if trace is None:
            self.make(self.rows)  # says why it cannot be made
            raise NotJudged("the env has one row only")
        if trace.unseeded:
            raise NotJudged(trace.unseeded)
        return trace
