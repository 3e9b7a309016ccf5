"""Where time goes: the functions that are at work at moments drawn by chance, and how many calls are made."""

from __future__ import annotations

import dis
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from marlenv.cli.parts import DATA, PACKING, Parts
from marlenv.errors import Unsupported

MEAN = 1e-3  # seconds between two samples
SOONEST = 1e-5
INLINE = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")  # parts of the function around them
RESUME = dis.opmap["RESUME"]


class Node:
    """A function in a tree of calls: how many samples fell into it and into what it called.

    Args:
        name: of the function.
        part: whose work it does.
        where: its module.
    """

    __slots__ = ("below", "count", "name", "own", "part", "where")

    def __init__(self, name: str, part: str, where: str) -> None:
        self.name, self.part, self.where = name, part, where
        self.count = self.own = 0
        self.below: dict[tuple[str, str, str], Node] = {}

    def __iter__(self) -> Iterator[Node]:
        yield self
        for one in self.below.values():
            yield from one


class Tree:
    """Samples as a tree of calls.

    Args:
        parts: says which part each function belongs to.
        root: the function that all samples lie below; it and what called it are left out.
    """

    def __init__(self, parts: Parts, root: CodeType) -> None:
        self.parts, self._root = parts, root
        self.top = Node("rollouts", DATA, "")  # what they do not do themselves is to free the one before

    def add(self, frame: FrameType | None, weight: int = 1) -> None:
        """Takes in what was at work: the innermost function, and with it those that called it."""
        stack: list[FrameType] = []
        while frame is not None and frame.f_code is not self._root:
            stack.append(frame)
            frame = frame.f_back
        if frame is None:  # between two rollouts
            return
        node, part = self.top, PACKING
        node.count += weight
        for one in reversed(stack):
            part = self.parts.follow(part, one)
            name = one.f_code.co_qualname
            if name.endswith(INLINE) and part == node.part:
                continue
            key = name, part, str(one.f_globals.get("__name__"))
            node = node.below.setdefault(key, Node(*key))
            node.count += weight
        node.own += weight

    def shares(self) -> dict[str, float]:
        """The share of every part; they add up to 1."""
        found: Counter[str] = Counter()
        for node in self.top:
            found[node.part] += node.own
        return {name: found[name] / max(1, self.top.count) for name in self.parts.names}


class Sampler:
    """Within its ``with`` block, gives what the main thread does to ``take`` at moments drawn by chance.

    The moments are a Poisson process in real time, so every stretch of time gets samples in proportion to its length,
    whatever its rhythm. A moment that falls into an operation of a library counts when that returns, as often as there
    were moments, for the function that called it. Python functions are not slowed down: nothing is called in between.

    Args:
        take: gets the innermost frame, and how many moments fell there.
    """

    def __init__(self, take: Callable[[FrameType, int], None]) -> None:
        self._take, self._rng, self._on = take, random.Random(0), False

    def __enter__(self) -> Sampler:
        if not hasattr(signal, "setitimer"):
            raise Unsupported(f"profile: {sys.platform} has no signal.setitimer; use Linux or macOS")
        if threading.current_thread() is not threading.main_thread():
            raise Unsupported("profile: samples are taken in the main thread; call it there")
        self._before, self._on = signal.signal(signal.SIGALRM, self._tick), True
        wait = self._rng.expovariate(1 / MEAN)
        self._next = time.perf_counter() + wait
        self._timer = signal.setitimer(signal.ITIMER_REAL, max(SOONEST, wait))
        return self

    def __exit__(self, *_: object) -> None:
        self._on = False  # for a signal that is already on its way
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)
        signal.setitimer(signal.ITIMER_REAL, *self._timer)

    def _tick(self, _: int, frame: FrameType | None) -> None:
        if not self._on:
            return
        now, count = time.perf_counter(), 0
        while self._next <= now:
            count += 1
            self._next += self._rng.expovariate(1 / MEAN)
        if count and frame is not None:
            self._take(began(frame), count)
        self._next += time.perf_counter() - now  # no time of its own
        signal.setitimer(signal.ITIMER_REAL, max(SOONEST, self._next - time.perf_counter()))


def began(frame: FrameType) -> FrameType:
    """Who has used the time before a moment: the caller of a function that is only about to begin."""
    new = frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == RESUME
    return frame.f_back if new and frame.f_back is not None else frame


def count_calls(parts: Parts, play: Callable[[], Any]) -> dict[str, int]:
    """How many functions, Python's and built in, each part calls."""
    found: Counter[str] = Counter()
    stack = [PACKING]

    def saw(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            stack.append(parts.follow(stack[-1], frame))
            found[stack[-1]] += 1
        elif event == "return":
            if len(stack) > 1:
                stack.pop()
        elif event == "c_call":
            found[stack[-1]] += 1

    before = sys.getprofile()
    sys.setprofile(saw)
    try:
        play()
    finally:
        sys.setprofile(before)
    found[PACKING] -= 1  # that of setprofile
    return {name: found[name] for name in parts.names}
