"""Two threads against one: rollouts of random actions, and steps of games by hand; wall time, interleaved.

What is compared are two envs of the same seed in one process. The peer is one thread, so that the ratio says how many
times as fast two are: 2 at most, less where memory or what is done in Python bounds it. What the machine gives at all
comes first: cores that are two halves of one, or that are shared with others, give less than 2 for anything, and what
writes more than the caches hold gets no more from two threads than memory takes. "two processes" says how much that is:
two of them, with a core and half of the rows each, play at once and one after the other. They share nothing but memory,
so two threads can hardly give more.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import torch

from marlenv.cli.benches.timing import Figure, interleaved
from marlenv.errors import SpecError
from marlenv.registration import make

SCENARIOS = ("navigation", "balance", "ball_passage", "flocking", "discovery", "joint_passage")
GAMES = ("chess", "tic_tac_toe", "connect_four", "go", "hanabi")
ROWS = (1024, 16384)
STEPS = {1024: 256, 16384: 64}
"""Of a rollout, by the number of rows; those of games, whose steps are larger, have a quarter, but for long ones."""
TURN = {1024: 8, 16384: 2}
"""Rollouts that one side plays before it is the other's turn (of games four times as many), as those who train play one
after another: the first one after a change of threads finds the caches and the other core cold."""
PARTS = ("rollout", "long", "steps", "processes")
MACHINE = "machine"
THREADS = 2
SIDE, PRODUCTS = 256, 200  # of matrices that fit into a core's own cache; how many products of them are a turn
LARGE, WRITES = 1 << 28, 4  # bytes, more than caches hold; how many times a turn writes them


def measure(rounds: int, *, only: str = "") -> list[Figure]:
    """Times what was asked for.

    Args:
        rounds: how often each side.
        only: scenarios, games, numbers of rows and parts, with commas between them; all where none of a kind is named.
            ``machine`` alone: what the machine gives.
    """
    words = {word.strip() for word in only.split(",") if word.strip()}
    known = [MACHINE, *SCENARIOS, *GAMES, *map(str, ROWS), *PARTS]
    if odd := words - set(known):
        raise SpecError(f"marlenv bench threads: --only knows {known}, got {sorted(odd)}")
    names = [name for name in (*SCENARIOS, *GAMES) if name in words] or [*SCENARIOS, *GAMES]
    sizes = [n for n in ROWS if str(n) in words] or list(ROWS)
    parts = [part for part in PARTS if part in words] or list(PARTS)
    before, figures = torch.get_num_threads(), []
    try:
        if not words or MACHINE in words:
            figures += _machine(rounds)
        for name in names if words != {MACHINE} else []:
            for rows in sizes:
                for part in parts:
                    if part == "rollout" or name in GAMES:
                        apart = part == "processes"
                        last = _apart(name, rows, rounds) if apart else _figure(part, name, rows, rounds)
                        print(f"  {last.what}: {last.ratio:.2f}x", file=sys.stderr, flush=True)
                        figures.append(last)
    finally:
        torch.set_num_threads(before)
    return figures


def _machine(rounds: int) -> list[Figure]:
    """What two threads give for products of small matrices, which share nothing, and for writes, which share memory."""
    torch.set_num_threads(1)
    memory = [torch.empty(LARGE, dtype=torch.uint8) for _ in range(THREADS)]

    def multiply(_: int) -> int:
        x, out = torch.full((SIDE, SIDE), 1 / SIDE), torch.empty(SIDE, SIDE)
        for _ in range(PRODUCTS):
            torch.mm(x, x, out=out)
        return PRODUCTS

    def write(thread: int) -> int:
        for _ in range(WRITES):
            memory[thread].zero_()
        return WRITES * LARGE >> 20

    with ThreadPoolExecutor(THREADS, initializer=torch.set_num_threads, initargs=(1,)) as pool:

        def compared(what: str, work: Callable[[int], int], unit: str) -> Figure:
            sides = {many: lambda many=many: sum(pool.map(work, range(int(many)))) for many in (str(THREADS), "1")}
            got = interleaved(sides, rounds)
            return Figure(what, got[str(THREADS)], got["1"], "one thread", unit)

        return [
            compared("arithmetic that shares nothing", multiply, "us/product"),
            compared("writes to memory", write, "us/MiB"),
        ]


def _figure(part: str, name: str, rows: int, rounds: int) -> Figure:
    sides = {many: _play(part, name, rows, many) for many in (THREADS, 1)}
    got = interleaved({str(many): play for many, play in sides.items()}, rounds)
    what = "long rollout" if part == "long" else part
    return Figure(f"{name} B={rows} {what}", got[str(THREADS)], got["1"], "one thread")


def _apart(name: str, rows: int, rounds: int) -> Figure:
    """Rollouts of half of the rows in each of two processes, at once and one after the other."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None]
    cores = (allowed * THREADS)[:THREADS]
    with ExitStack() as stack:
        context = multiprocessing.get_context("spawn")
        workers = [
            stack.enter_context(ProcessPoolExecutor(1, context, _begin_apart, (core, name, rows))) for core in cores
        ]
        sides = {
            "at once": lambda: (
                sum(turn.result() for turn in [worker.submit(_turn_apart) for worker in workers]) // THREADS
            ),
            "in turn": lambda: sum(worker.submit(_turn_apart).result() for worker in workers) // THREADS,
        }
        got = interleaved(sides, rounds)
    return Figure(f"{name} B={rows} two processes", got["at once"], got["in turn"], "one after the other")


_turns: list[Callable[[], int]] = []
"""What a process of :func:`_apart` plays."""


def _begin_apart(core: int | None, name: str, rows: int) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})
    _turns.append(_play("rollout", name, rows, 1, rows // THREADS))


def _turn_apart() -> int:
    return _turns[0]()


def _play(part: str, name: str, rows: int, many: int, share: int | None = None) -> Callable[[], int]:
    """Plays on with so many threads; only a share of the rows, if that is given."""
    options: dict[str, Any] = {} if name in GAMES else {"compile": "aot"}
    env: Any = make(name, num_envs=share or rows, seed=0, **options)
    held, few = [env.reset()], 4 if name in GAMES and part != "long" else 1
    steps, turn = STEPS[rows] // few, TURN[rows] * few

    def rollout() -> int:
        torch.set_num_threads(many)
        for _ in range(turn):
            env.rollout(steps, break_when_any_done=False)
        return turn * steps

    def by_hand() -> int:
        torch.set_num_threads(many)
        td = held[0]
        for _ in range(turn * steps):
            _, td = env.step_and_maybe_reset(env.rand_action(td))
        held[0] = td
        return turn * steps

    play = by_hand if part == "steps" else rollout
    play()  # two pieces of memory take turns; first writes to the other one are in the round that nobody counts
    return play
