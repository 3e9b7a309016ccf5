"""Timing two sides fairly: interleaved rounds in one process, garbage collection off, medians of wall time."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import torch

from marlenv.cli.text import number
from marlenv.errors import SpecError
from marlenv.text_table import table


class Figure(NamedTuple):
    """One thing that was measured."""

    what: str
    ours: float
    """Microseconds per step, median."""
    peer: float
    """The same for the peer."""
    peer_name: str
    unit: str = "us/step"

    @property
    def ratio(self) -> float:
        """How many times less ours takes."""
        return self.peer / self.ours


def chosen(suite: str, names: Iterable[str], only: str) -> list[str]:
    """The names that hold ``only``.

    Raises:
        SpecError: there is none.

    >>> chosen("games", ["hex", "chess", "go"], "he")
    ['hex', 'chess']
    """
    names = list(names)
    if found := [name for name in names if only in name]:
        return found
    raise SpecError(f"bench {suite}: nothing has {only!r} in its name; there are {', '.join(names)}")


def interleaved(
    sides: Mapping[str, Callable[[], int]], rounds: int, clocks: Mapping[str, Callable[[], float]] | None = None
) -> dict[str, float]:
    """Microseconds per step of each side, medians over rounds in which the sides take turns.

    Args:
        sides: name -> a function that plays some steps and returns how many.
        rounds: how often each is called; once more before, unmeasured, to warm up.
        clocks: what sides are timed with, where not with wall time.
    """
    for play in sides.values():
        play()
    times: dict[str, list[float]] = {name: [] for name in sides}
    was_on = gc.isenabled()
    gc.disable()
    try:
        for i in range(rounds):
            order = list(sides) if i % 2 == 0 else list(sides)[::-1]
            for name in order:
                clock = (clocks or {}).get(name, time.perf_counter)
                start = clock()
                steps = sides[name]()
                times[name].append((clock() - start) / steps * 1e6)
            gc.collect()
    finally:
        if was_on:
            gc.enable()
    return {name: statistics.median(values) for name, values in times.items()}


def report(figures: Sequence[Figure]) -> str:
    """The figures as a table with ratios."""
    rows = [[f.what, number(f.ours), f"{number(f.peer)} ({f.peer_name})", _times(f.ratio), f.unit] for f in figures]
    return table(rows, ["what", "marlenv", "peer", "ratio", "unit"], right=[1, 2, 3])


def _times(ratio: float) -> str:
    """How many times less, with the hundredths where they decide."""
    return f"{ratio:.1f}x" if ratio >= 2 else f"{ratio:.2f}x"


def machine() -> str:
    """Where this was measured."""

    def of(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "not installed"

    return (
        f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} thread, Python "
        f"{platform.python_version()}, "
        f"torch {torch.__version__}, tensordict {of('tensordict')}, torchrl {of('torchrl')}"
    )
