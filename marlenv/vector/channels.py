"""Ways to envs that answer in their own time: threads, and processes. Each env has a block of its own.

A question is ``(tag, place, method, arguments)``: the tag comes back with the answer, the place says which env of the
worker is meant.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as first_ready
from typing import Any

import torch

from marlenv.vector.process import PRELOADED, packed
from marlenv.vector.protocol import Failure, dump, load
from marlenv.vector.worker import Block, Recipe

Answered = tuple[Any, Any]
"""The tag of a question, and its answer."""


class Channel(ABC):
    """A way to the envs of one worker.

    Args:
        recipes: what they are made from.
    """

    remote = True
    """Whether data must be sent, rather than shown."""

    def __init__(self, recipes: Sequence[Recipe]) -> None:
        self.first, self.count = recipes[0].first, len(recipes)
        self.open: dict[Any, int] = {}
        """The tags of the questions that wait for an answer, and the env that each is for."""

    def ask(self, tag: Any, place: int, method: str, *args: Any) -> None:
        """Asks an env something."""
        self.open[tag] = place
        self._send(tag, place, method, args)

    def lost(self, how: str) -> list[Answered]:
        """Failures in answer to all that is open."""
        answers = [(tag, Failure(self.first + place, how, "", None, lost=True)) for tag, place in self.open.items()]
        self.open.clear()
        return answers

    @abstractmethod
    def _send(self, tag: Any, place: int, method: str, args: Any) -> None: ...

    @abstractmethod
    def end(self, timeout: float) -> None:
        """Closes the envs, and waits for that so many seconds."""

    @classmethod
    @abstractmethod
    def gather(cls, channels: Sequence[Any], timeout: float | None) -> list[Answered]:
        """The answers that have come; waits for the first of them."""


def answer(blocks: list[Block], place: int, method: str, args: Any) -> Any:
    """What a block answers, or how it failed."""
    try:
        return getattr(blocks[place], method)(*args)
    except BaseException as error:
        return Failure.of(error, blocks[place].at)


def blocks_of(recipes: Sequence[Recipe]) -> list[Block]:
    """The blocks of recipes, running."""
    blocks = []
    for recipe in recipes:
        blocks.append(Block(recipe))
        blocks[-1].env.start()
    return blocks


class ThreadChannel(Channel):
    """A thread that steps its envs.

    Args:
        recipes: what they are made from.
        answers: where the answers of all threads arrive.
    """

    remote = False

    def __init__(self, recipes: Sequence[Recipe], answers: queue.SimpleQueue[Any]) -> None:
        super().__init__(recipes)
        self.answers, self.questions = answers, queue.SimpleQueue[Any]()
        self.thread = threading.Thread(target=_serve_thread, args=(recipes, self.questions, answers, self), daemon=True)
        self.thread.start()

    def _send(self, tag: Any, place: int, method: str, args: Any) -> None:
        self.questions.put((tag, place, method, args))

    def end(self, timeout: float) -> None:
        self.questions.put(None)
        self.thread.join(timeout)

    @classmethod
    def gather(cls, channels: Sequence[Any], timeout: float | None) -> list[Answered]:
        answers, found = channels[0].answers, []
        with contextlib.suppress(queue.Empty):
            found.append(answers.get(timeout=timeout) if timeout != 0 else answers.get_nowait())
            while True:
                found.append(answers.get_nowait())
        for channel, tag, _ in found:
            channel.open.pop(tag, None)
        return [(tag, said) for _, tag, said in found]


def _serve_thread(recipes: Sequence[Recipe], questions: Any, answers: Any, channel: ThreadChannel) -> None:
    try:
        blocks: list[Block] = blocks_of(recipes)
        failed = None
    except BaseException as error:
        blocks, failed = [], Failure.of(error, recipes[0].first)
    while (question := questions.get()) is not None:
        tag, *asked = question
        answers.put((channel, tag, failed or answer(blocks, *asked)))
    for block in blocks:
        block.close()


@dataclass
class Desk:
    """What a process that answers questions gets when it starts."""

    recipes: list[bytes]
    pipe: Connection
    affinity: Sequence[int] | None
    first: int = field(default=0)


class ProcessChannel(Channel):
    """A process that steps its envs.

    Args:
        recipes: what they are made from.
        method: the start method.
        affinity: the CPUs that it may use.
    """

    def __init__(self, recipes: Sequence[Recipe], method: str, affinity: Sequence[int] | None = None) -> None:
        super().__init__(recipes)
        context: Any = multiprocessing.get_context(method)
        if method == "forkserver":
            context.set_forkserver_preload(PRELOADED)
        data = [packed(recipe) for recipe in recipes]
        self.pipe, far = context.Pipe()
        desk = Desk(data, far, affinity, self.first)
        self.process = context.Process(target=serve_questions, args=(desk,), name=f"marlenv async worker {self.first}")
        self.process.start()
        far.close()

    def _send(self, tag: Any, place: int, method: str, args: Any) -> None:
        with contextlib.suppress(OSError):  # it is dead, as gathering will show
            self.pipe.send_bytes(dump((tag, place, method, args)))

    def end(self, timeout: float) -> None:
        with contextlib.suppress(OSError, ValueError):
            if self.open:  # it will not hear
                self.process.kill()
            else:
                self.pipe.send_bytes(dump(None))
            self.process.join(timeout)
            if self.process.is_alive():
                self.process.kill()
            self.process.join()
            self.process.close()
            self.pipe.close()

    @classmethod
    def gather(cls, channels: Sequence[Any], timeout: float | None) -> list[Answered]:
        pipes = {channel.pipe: channel for channel in channels if channel.open}
        sentinels = {channel.process.sentinel: channel for channel in channels if channel.open}
        found: list[Answered] = []
        for ready in first_ready([*pipes, *sentinels], timeout):
            if ready in pipes:
                found += pipes[ready].read()
        for channel in sentinels.values():
            if channel.open and not channel.process.is_alive():
                found += channel.read() or channel.lost(
                    f"its worker process ended with exit code {channel.process.exitcode}"
                )
        return found

    def read(self) -> list[Answered]:
        """The answers that are in the pipe."""
        found = []
        with contextlib.suppress(EOFError, OSError):
            while self.pipe.poll():
                tag, said = load(self.pipe.recv_bytes())
                self.open.pop(tag, None)
                found.append((tag, said))
        return found


def serve_questions(desk: Desk) -> None:
    """What the process of a :class:`ProcessChannel` runs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pool's process hears it, and ends its workers
    torch.set_num_threads(1)
    parent = parent_process()
    blocks: list[Block] = []
    failed = None
    try:
        if desk.affinity is not None:
            os.sched_setaffinity(0, desk.affinity)
        blocks = blocks_of([load(recipe) for recipe in desk.recipes])
    except BaseException as error:
        failed = Failure.of(error, desk.first)
    hears: list[Any] = [desk.pipe] if parent is None else [desk.pipe, parent.sentinel]
    while desk.pipe in first_ready(hears):
        try:
            question = load(desk.pipe.recv_bytes())
        except (EOFError, OSError):
            break
        if question is None:
            break
        tag, *asked = question
        said = failed or answer(blocks, *asked)
        try:
            data = dump((tag, said))
        except Exception as error:
            data = dump((tag, Failure.of(error, desk.first)))
        desk.pipe.send_bytes(data)
    for block in blocks:
        block.close()


def left(until: float | None) -> float | None:
    """The seconds that are left; None for any number."""
    return None if until is None else max(0.0, until - time.monotonic())
