"""Whether a scenario's code is the same whenever it runs: what a tracer may keep for ever.

A trace is what Python did once. Numbers that Python made on the way (from a global generator, the clock, the number of
rows, an attribute that a method counts up) would be frozen in it. So a scenario is traced twice, with other generators,
another time and another number of rows, and both traces must agree.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marlenv.physics.jit.graph import Graph, Node, Untraceable

CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
AHEAD = 100_003  # seconds between the two traces, as far as the code can see
ONE_AT_A_TIME = threading.RLock()

Trace = Sequence[Any]
"""The expressions of a graph in a form that can be compared."""


@contextmanager
def elsewhere(seed: int) -> Iterator[None]:
    """Within this context this thread sees global generators with this seed, and a time of this seed.

    Afterwards all is as it was.

    >>> state = random.getstate()
    >>> with elsewhere(1):
    ...     first = random.random()
    >>> with elsewhere(1):
    ...     print(random.random() == first)
    True
    >>> random.getstate() == state
    True
    """
    with ONE_AT_A_TIME:
        states = random.getstate(), np.random.get_state(), torch.get_rng_state()
        clocks = {name: getattr(time, name) for name in CLOCKS}
        dtype = torch.get_default_dtype()
        try:
            random.seed(seed)
            np.random.seed(seed)
            torch.default_generator.manual_seed(seed)
            torch.set_default_dtype(torch.float32)
            for name, clock in clocks.items():
                setattr(time, name, _shifted(clock, seed * AHEAD * (10**9 if name.endswith("ns") else 1)))
            yield
        finally:
            for name, clock in clocks.items():
                setattr(time, name, clock)
            torch.set_default_dtype(dtype)
            random.setstate(states[0])
            np.random.set_state(states[1])
            torch.set_rng_state(states[2])


@contextmanager
def undrawn() -> Iterator[None]:
    """Raises when a global generator was moved: a coin that is tossed falls the same way twice every other time."""
    before = _generators()
    yield
    for name, state in _generators().items():
        if state != before[name]:
            raise Untraceable(
                f"draws from a global generator ({name}); use self.uniform, self.normal and self.randint, which draw "
                f"for every row"
            )


def _generators() -> dict[str, Any]:
    numpys: Any = np.random.get_state()
    return {
        "random": random.getstate(),
        "numpy.random": (numpys[0], numpys[1].tobytes(), *numpys[2:]),
        "torch": torch.get_rng_state().numpy().tobytes(),
    }


def _shifted(clock: Callable[[], Any], by: int) -> Callable[[], Any]:
    here = threading.get_ident()
    return lambda: clock() + by if threading.get_ident() == here else clock()


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
    """Raises when traces differ, and says why.

    Args:
        first: makes the first trace, with a number of rows and a seed of everything else.
        trace: makes the others.
        rows: two numbers of rows.

    """
    one, two = first(rows[0], 1), trace(rows[1], 2)
    if one == two:
        return
    what = _difference(one, two)
    if trace(rows[0], 2) == one:
        why = (
            "it depends on the number of rows, as x.shape[0] or self.rows do when they are used as numbers; "
            "use the dimensions of a row only"
        )
    elif trace(rows[0], 1) == one:
        why = (
            "it draws from a global generator (random, numpy.random or torch) or looks at the clock; "
            "use self.uniform, self.normal, self.randint and self.steps"
        )
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
