"""Whether a scenario's code is the same whenever it runs: what a tracer may keep for ever.

A trace is what Python did once. Numbers that Python made on the way (from a global generator, the clock, the number of
rows, an attribute that a method counts up) would be frozen in it. So a scenario is traced twice, at another time and
with another number of rows; both traces must agree, and no global generator may move. Where one moves while there are
other threads, which may draw as they like, a third trace listens to what this thread asks generators for.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from marlenv.physics.jit.graph import Graph, Node, Untraceable

CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
AHEAD = 100_003  # seconds between the two traces, as far as the code can see
ONE_AT_A_TIME = threading.RLock()

Trace = Sequence[Any]
"""The expressions of a graph in a form that can be compared."""


@contextmanager
def elsewhere(seed: int) -> Iterator[None]:
    """Within this context this thread sees a time of this seed; the clocks of other threads go on.

    PyTorch's default dtype is float32. There is one for all threads, so that others see it too where it was another.

    >>> with elsewhere(1):
    ...     later = time.monotonic()
    >>> later - time.monotonic() > 90_000
    True
    """
    with ONE_AT_A_TIME:
        clocks, dtype = {name: getattr(time, name) for name in CLOCKS}, torch.get_default_dtype()
        try:
            if dtype is not torch.float32:
                torch.set_default_dtype(torch.float32)
            for name, clock in clocks.items():
                setattr(time, name, _shifted(clock, seed * AHEAD * (10**9 if name.endswith("ns") else 1)))
            yield
        finally:
            for name, clock in clocks.items():
                setattr(time, name, clock)
            if dtype is not torch.float32:
                torch.set_default_dtype(dtype)


def _shifted(clock: Callable[[], Any], by: int) -> Callable[[], Any]:
    here = threading.get_ident()
    return lambda: clock() + by if threading.get_ident() == here else clock()


# --- global generators ---------------------------------------------------------------------------


def drawn(run: Callable[[], Any], again: Callable[[], Any]) -> tuple[Any, str | None]:
    """What a function gives, and a global generator that it draws from, if there is one.

    A coin that is tossed falls the same way twice every other time, so results tell nothing. Generators that it draws
    from are afterwards as they were; others are not touched, whoever else draws from them.

    Args:
        run: is listened to from outside: whether a generator moves.
        again: does the same once more, where one moved and another thread may have moved it.

    >>> drawn(lambda: random.random() < 2, lambda: random.random())
    (True, 'random')
    >>> drawn(lambda: 2, lambda: 2)
    (2, None)
    """
    alone, before = len(sys._current_frames()) == 1, _states()
    try:
        result = run()
    finally:
        moved = [name for name, state in _states().items() if _differ(state, before[name])]
        if moved and not alone:
            with listening() as heard, suppress(Exception):  # what was heard before an error counts
                again()
            moved = list(dict.fromkeys(heard))
        for name in moved:  # it was run that drew
            RESTORES[name](before[name])
    return result, moved[0] if moved else None


@contextmanager
def listening() -> Iterator[list[str]]:
    """Within this context it notes which global generators this thread asks for numbers; other threads are left alone.

    >>> with listening() as heard:
    ...     _ = torch.rand(2), np.random.rand(), np.random.default_rng(0).random()
    >>> heard
    ['torch', 'numpy.random']
    """
    heard: list[str] = []
    with ONE_AT_A_TIME:
        kept = [(module, key, getattr(module, key)) for module, keys in _askers() for key in keys]
        try:
            for module, key, ask in kept:
                setattr(module, key, _noted(ask, module.__name__, heard))
            with _Listening(heard):
                yield heard
        finally:
            for module, key, ask in kept:
                setattr(module, key, ask)


def _states() -> dict[str, Any]:
    return {"random": random.getstate(), "numpy.random": np.random.get_state(), "torch": torch.get_rng_state()}


RESTORES: dict[str, Callable[[Any], None]] = {
    "random": random.setstate,
    "numpy.random": np.random.set_state,
    "torch": torch.set_rng_state,
}


def _differ(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return any(map(_differ, a, b))
    return not (torch.equal(a, b) if isinstance(a, Tensor) else np.array_equal(a, b))


def _askers() -> list[tuple[Any, list[str]]]:
    """Modules, and which of their functions move their global generator."""
    found: list[tuple[Any, list[str]]] = [(np.random, ["seed"]), (torch, ["seed", "manual_seed"])]
    for module, owner in ((random, random._inst), (np.random, np.random.mtrand._rand)):
        own = [key for key, ask in vars(module).items() if getattr(ask, "__self__", None) is owner]
        found.append((module, [key for key in own if key not in ("getstate", "get_state")]))
    return found


def _noted(ask: Callable[..., Any], name: str, heard: list[str]) -> Callable[..., Any]:
    here = threading.get_ident()

    def noting(*args: Any, **options: Any) -> Any:
        if threading.get_ident() == here:
            heard.append(name)
        return ask(*args, **options)

    return noting


class _Listening(TorchDispatchMode):
    """Notes operations that draw from PyTorch's global generator."""

    def __init__(self, heard: list[str]) -> None:
        super().__init__()
        self.heard = heard

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags and not any(
            isinstance(x, torch.Generator) and x is not torch.default_generator for x in (*args, *options.values())
        ):
            self.heard.append("torch")
        return func(*args, **options)


# --- two traces ----------------------------------------------------------------------------------


@contextmanager
def unchanged(scenario: Any) -> Iterator[None]:
    """Raises when attributes of a scenario, or what lists, dicts and tensors among them hold, are others afterwards."""
    before = {name: (value, _glance(value)) for name, value in vars(scenario).items()}
    yield
    after = vars(scenario)
    for name in (*before, *(name for name in after if name not in before)):
        if name in before and name in after and after[name] is before[name][0]:
            then, now = before[name][1], _glance(after[name])
            if len(then) == len(now) and all(a is b or a == b for a, b in zip(then, now, strict=True)):
                continue
        raise Untraceable(
            f"changes self.{name} while it is played; declare it in build with world.remember({name}=...) and use "
            f"self.memory.{name}"
        )


def _glance(x: Any) -> list[Any]:
    """What may change within an object, without a look deeper."""
    if isinstance(x, Tensor):
        return [] if x.is_inference() else [x._version]
    if isinstance(x, np.ndarray):
        return [x.tobytes()] if x.size < 1 << 16 else []
    if isinstance(x, Mapping):
        return [_Same(y) for pair in x.items() for y in pair]
    return [_Same(y) for y in x] if isinstance(x, (list, tuple, set, frozenset)) else []


class _Same:
    """An object that equals itself only, and lives as long as this."""

    __slots__ = ("what",)

    def __init__(self, what: Any) -> None:
        self.what = what

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.what is self.what

    __hash__ = None  # type: ignore[assignment]


def trace_of(graph: Graph, roots: Sequence[Node]) -> Trace:
    """All expressions, loops and results of a graph."""
    nodes = [(n.op, n.kind, repr(n.value), *(arg.at for arg in n.args)) for n in graph.nodes]
    loops = [
        (loop.count, *(n.at for n in loop.nexts), loop.stop.at if loop.stop is not None else -1) for loop in graph.loops
    ]
    return [*nodes, *loops, *graph.tables, [node.at for node in roots]]


def check_agreement(
    first: Callable[[int, int], Trace], trace: Callable[[int, int], Trace], rows: Sequence[int]
) -> None:
    """Raises when traces differ or numbers are drawn from a global generator, and says why.

    Args:
        first: makes the first trace, with a number of rows and a seed of everything else.
        trace: makes the others.
        rows: two numbers of rows.

    """
    (one, two), generator = drawn(lambda: (first(rows[0], 1), trace(rows[1], 2)), lambda: trace(rows[0], 1))
    if generator:
        raise Untraceable(
            f"draws from a global generator ({generator}); use self.uniform, self.normal and self.randint, which draw "
            f"for every row"
        )
    if one == two:
        return
    what = _difference(one, two)
    if trace(rows[0], 2) == one:
        why = (
            "it depends on the number of rows, as x.shape[0] or self.rows do when they are used as numbers; "
            "use the dimensions of a row only"
        )
    elif trace(rows[0], 1) == one:
        why = "it looks at the clock; use self.steps"
    else:
        why = (
            "something outlives a step besides the world's state: a generator, a counter, a list or the clock; "
            "declare it in build with world.remember, or use self.steps"
        )
    raise Untraceable(f"is not the same when it runs again ({what}): {why}")


def _difference(one: Trace, two: Trace) -> str:
    for a, b in zip(one, two, strict=False):
        if a != b:
            if a[0] == b[0] == "const":
                return f"a number is {a[2]} once and {b[2]} then"
            break
    return "other operations are done"
