"""Ways to envs that answer in their own time: threads, and processes. Each env has a block of its own.

A question is ``(tag, place, method, arguments)``: the tag comes back with the answer, the place says which env of the
worker is meant.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as first_ready
from types import ModuleType
from typing import Any, NamedTuple

import torch

from marlenv.threads import renew as renew_threads
from marlenv.vector.process import context_of, in_words, packed, packed_question, unguarded
from marlenv.vector.protocol import Failure, dump, load
from marlenv.vector.worker import Block, Recipe, begin_process, wants_quiet


class Answered(NamedTuple):
    """What a worker has said."""

    tag: Any
    """That of the question."""
    said: Any
    """The answer, or a failure."""
    failures: list[int] | None = None
    """How often each env of the block failed and was started again; None where the worker is lost."""


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
        """The tags of the questions that wait for an answer, and the env that each is for; the oldest first."""
        self.heard = 0.0
        """When it was last heard of, or asked after a rest; in seconds of the monotonic clock."""
        self.dead = False
        """Whether the worker is lost."""

    def pack(self, who: str, tag: Any, place: int, method: str, args: tuple[Any, ...]) -> Any:
        """A question to an env, as :meth:`ask` takes it.

        Raises:
            SpecError: an argument cannot be sent.
        """
        return packed_question(who, in_words(self.first + place, 1), method, args, (tag, place, method, args))

    def ask(self, tag: Any, place: int, question: Any) -> None:
        """Asks an env something."""
        if not self.open:
            self.heard = time.monotonic()
        self.open[tag] = place  # before it is sent: a worker that does not take it is at work
        self._send(tag, question)

    def answered(self, tag: Any) -> None:
        """Notes that a question was answered."""
        self.open.pop(tag, None)
        self.heard = time.monotonic()

    def lost(self, how: str) -> list[Answered]:
        """Failures in answer to all that is open, of the env at work first."""
        self.dead = True
        answers = [
            Answered(tag, Failure(self.first + place, how, "", None, lost=True)) for tag, place in self.open.items()
        ]
        self.open.clear()
        return answers

    @abstractmethod
    def _send(self, tag: Any, question: Any) -> None: ...

    @abstractmethod
    def kill(self) -> None:
        """Ends the worker at once, if it can be ended."""

    @abstractmethod
    def close_soon(self) -> None:
        """Lets the envs close; a worker that is at work does not hear, and is killed."""

    @abstractmethod
    def end(self, timeout: float) -> list[Failure]:
        """Waits so many seconds for that, and then ends the worker at once; returns how envs failed to close."""

    @classmethod
    @abstractmethod
    def gather(cls, channels: Sequence[Any], timeout: float | None) -> list[Answered]:
        """The answers that have come; waits for the first of them."""


def answer(blocks: list[Block], place: int, method: str, args: Any) -> tuple[Any, list[int]]:
    """What a block answers, or how it failed; and how often its envs were started again."""
    block = blocks[place]
    try:
        said = getattr(block, method)(*args)
    except BaseException as error:
        said = Failure.of(error, block.at)
    return said, block.env.failures.tolist()


def blocks_of(
    recipes: Sequence[Recipe], start: Callable[[Block], None] = Block.start, *, alone: bool = False
) -> tuple[list[Block], Failure | None]:
    """The blocks of recipes, running; or none, and how one failed to start.

    Args:
        recipes: what they are made from.
        start: starts a block.
        alone: whether they live in a process of the pool.
    """
    blocks: list[Block] = []
    for recipe in recipes:
        block = Block(recipe, alone=alone)
        try:
            start(block)
        except BaseException as error:
            closed(blocks)
            return [], Failure.of(error, block.at)
        blocks.append(block)
    return blocks, None


def closed(blocks: Sequence[Block]) -> list[Failure]:
    """Closes blocks, all of them; returns how envs failed to."""
    failures = []
    for block in blocks:
        try:
            block.close()
        except BaseException as error:
            failures.append(Failure.of(error, block.at))
    return failures


class Making:
    """The threads of a pool that make their envs at the same time.

    An import may meet modules that imports of other threads have made half: it is tried again after these.
    """

    def __init__(self) -> None:
        self._count, self._changed, self._again = 0, threading.Condition(), threading.Lock()

    def begin(self) -> None:
        """Notes that one more thread will call :meth:`start`."""
        with self._changed:
            self._count += 1

    def start(self, block: Block) -> None:
        """Starts a block."""
        try:
            block.start()
        except BaseException as error:
            if not met_half_a_module(error):
                raise
        else:
            return
        finally:
            with self._changed:
                self._count -= 1
                self._changed.notify_all()
        with self._again:
            with self._changed:
                self._changed.wait_for(lambda: self._count == 0)
            block.start()


def met_half_a_module(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, is what an import raises that meets a module that is not complete."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        raised_in = [frame.f_globals.get("__name__") for frame, _ in traceback.walk_tb(error.__traceback__)]
        if isinstance(error, ImportError) or raised_in[-1:] == ["importlib._bootstrap"]:
            return True
        if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
            return True
        error = error.__cause__ or error.__context__
    return False


class ThreadChannel(Channel):
    """A thread that steps its envs. A thread cannot be killed: one that hangs is left to itself.

    Args:
        recipes: what they are made from.
        answers: where the answers of all threads arrive.
        making: the threads that make envs now.
    """

    remote = False

    def __init__(self, recipes: Sequence[Recipe], answers: queue.SimpleQueue[Any], making: Making) -> None:
        super().__init__(recipes)
        self.recipes, self.answers, self.questions, self.making = recipes, answers, queue.SimpleQueue[Any](), making
        self.unclosed: list[Failure] = []
        renew_threads()
        making.begin()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def pack(self, who: str, tag: Any, place: int, method: str, args: tuple[Any, ...]) -> Any:
        return tag, place, method, args

    def _send(self, tag: Any, question: Any) -> None:
        self.questions.put(question)

    def kill(self) -> None:
        self.questions.put(None)

    def close_soon(self) -> None:
        self.questions.put(None)

    def end(self, timeout: float) -> list[Failure]:
        if not self.dead:
            self.thread.join(timeout)
        return self.unclosed

    @classmethod
    def gather(cls, channels: Sequence[Any], timeout: float | None) -> list[Answered]:
        answers, found = channels[0].answers, []
        with contextlib.suppress(queue.Empty):
            found.append(answers.get(timeout=timeout) if timeout != 0 else answers.get_nowait())
            while True:
                found.append(answers.get_nowait())
        found = [one for one in found if not one[0].dead]  # a thread that was given up may wake later
        for channel, tag, *_ in found:
            channel.answered(tag)
        return [Answered(*one) for _, *one in found]

    def _serve(self) -> None:
        blocks, failed = blocks_of(self.recipes, self.making.start)
        while (question := self.questions.get()) is not None:
            tag, *asked = question
            self.answers.put((self, tag, *((failed, None) if failed else answer(blocks, *asked))))
        self.unclosed = closed(blocks)


@dataclass
class Desk:
    """What a process that answers questions gets when it starts."""

    recipes: list[bytes]
    pipe: Connection
    affinity: Sequence[int] | None
    first: int
    quiet: bool
    """Whether warnings are not shown."""


class ProcessChannel(Channel):
    """A process that steps its envs.

    Args:
        recipes: what they are made from.
        method: the start method.
        affinity: the CPUs that it may use.
    """

    def __init__(self, recipes: Sequence[Recipe], method: str, affinity: Sequence[int] | None = None) -> None:
        super().__init__(recipes)
        context = context_of("AsyncEnvPool", method)
        data = [packed(recipe) for recipe in recipes]
        self.pipe, far = context.Pipe()
        desk = Desk(data, far, affinity, self.first, wants_quiet())
        self.begun = False
        """Whether it has ever answered."""
        self.process = context.Process(target=serve_questions, args=(desk,), name=f"marlenv async worker {self.first}")
        self.process.start()
        far.close()

    def _send(self, tag: Any, question: bytes) -> None:
        with contextlib.suppress(OSError):  # it is dead, as gathering will show
            self.pipe.send_bytes(question)

    def kill(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.process.kill()

    def close_soon(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            if self.open or self.dead:
                self.process.kill()
            else:
                self.pipe.send_bytes(dump(None))

    def end(self, timeout: float) -> list[Failure]:
        until, failures = time.monotonic() + timeout, list[Failure]()
        with contextlib.suppress(OSError, ValueError):
            first_ready([self.pipe, self.process.sentinel], timeout)
            if not self.open and not self.dead and self.pipe.poll():
                with contextlib.suppress(EOFError):  # all have closed
                    failures = load(self.pipe.recv_bytes())
            self.process.join(left(until))
            if self.process.is_alive():
                self.process.kill()
            self.process.join()
            self.process.close()
            self.pipe.close()
        return failures

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
                found += channel.read()  # what it said before it died
                code = channel.process.exitcode
                found += channel.lost(f"its worker process ended with exit code {code}{unguarded(code, channel.begun)}")
        return found

    def read(self) -> list[Answered]:
        """The answers that are in the pipe."""
        found = []
        with contextlib.suppress(EOFError, OSError):
            while self.pipe.poll():
                one = Answered(*load(self.pipe.recv_bytes()))
                self.answered(one.tag)
                self.begun = True
                found.append(one)
        return found


def serve_questions(desk: Desk) -> None:
    """What the process of a :class:`ProcessChannel` runs."""
    begin_process(desk.quiet)
    torch.set_num_threads(1)
    blocks: list[Block] = []
    try:
        if desk.affinity is not None:
            os.sched_setaffinity(0, desk.affinity)
        blocks, failed = blocks_of([load(recipe) for recipe in desk.recipes], alone=True)
    except BaseException as error:
        failed = Failure.of(error, desk.first)
    questions: Iterator[Any] = _heard(desk.pipe)
    if len(desk.recipes) > 1:
        questions = _heard_meanwhile(desk.pipe)
    for tag, *asked in questions:
        said, failures = (failed, None) if failed else answer(blocks, *asked)
        try:
            data = dump((tag, said, failures))
        except Exception as error:
            data = dump((tag, Failure.of(error, desk.first), failures))
        with contextlib.suppress(OSError):  # the pool's process is gone, as listening will show
            desk.pipe.send_bytes(data)
    if unclosed := closed(blocks):
        with contextlib.suppress(OSError):
            desk.pipe.send_bytes(dump(unclosed))


def _heard(pipe: Connection) -> Iterator[Any]:
    """The questions in a pipe, until it says that there are no more, or the pool's process is gone."""
    parent = parent_process()
    hears: list[Any] = [pipe] if parent is None else [pipe, parent.sentinel]
    while pipe in first_ready(hears):
        try:
            question = load(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        if question is None:
            return
        yield question


def _heard_meanwhile(pipe: Connection) -> Iterator[Any]:
    """The same, taken out of the pipe while envs are at work: else the pool, with a large one to write, and the worker,
    with a large answer, would wait for each other.
    """
    questions = queue.SimpleQueue[Any]()

    def listen() -> None:
        for question in _heard(pipe):
            questions.put(question)
        questions.put(None)

    threading.Thread(target=listen, daemon=True).start()
    return iter(questions.get, None)


def left(until: float | None) -> float | None:
    """The seconds that are left; None for any number."""
    return None if until is None else max(0.0, until - time.monotonic())
