"""Programs that play: processes that are asked for moves over their standard input and output, several at once."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import shlex
import shutil
import signal
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any, NamedTuple

from marlenv.errors import SpecError, whole
from marlenv.tournament.players import CRASH, TIME

Command = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A program with its arguments, as a shell would read it or word by word; a path is a program without arguments."""
WRONG = -4
"""The answer for a move that is none, or not legal."""
GRACE = 5.0
"""Seconds that a process may take to end after it has been killed."""


class Answer(NamedTuple):
    """What a program says about a position."""

    move: str | int
    """The move, or CRASH or TIME where there is none."""
    score: float | None = None
    """How good it finds its position, in pawns (or points); None where it does not say."""


class Program(ABC):
    """One process, which is started when it is first asked, and again after it has failed.

    Args:
        command: the program, with its arguments.
        seconds: how long it may take for an answer.
    """

    def __init__(self, command: Sequence[str], seconds: float) -> None:
        self.command, self.seconds = command, seconds
        self.process: asyncio.subprocess.Process | None = None

    @abstractmethod
    async def greet(self) -> None:
        """What is said once, after it has been started."""

    @abstractmethod
    async def answer(self, question: Any) -> Answer:
        """Its move in a position."""

    async def move(self, question: Any) -> Answer:
        """Its move in a position; CRASH or TIME where it has none."""
        try:
            async with asyncio.timeout(self.seconds + getattr(question, "seconds", 0)):
                if self.process is None:
                    pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
                    self.process = await asyncio.create_subprocess_exec(
                        *self.command, stdin=pipe, stdout=pipe, stderr=none, start_new_session=True
                    )
                    await self.greet()
                return await self.answer(question)
        except TimeoutError:
            await self.stop()
            return Answer(TIME)
        except (EOFError, OSError, IndexError, ValueError):  # the last one: a line without an end
            await self.stop()
            return Answer(CRASH)
        except asyncio.CancelledError:  # what it would say now answers nothing that is asked later
            await self.stop()
            raise

    async def say(self, *lines: str) -> None:
        """Sends it lines."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        await self.process.stdin.drain()

    async def line(self) -> str:
        """Its next line, without the end of line."""
        assert self.process is not None
        assert self.process.stdout is not None
        if line := await self.process.stdout.readline():
            return line.decode(errors="replace").rstrip()
        raise EOFError

    async def stop(self) -> None:
        """Ends the process, whatever it does, those that it has started itself, and its pipes."""
        process, self.process = self.process, None
        if process is None:
            return
        assert process.stdin is not None
        transport = process._transport  # type: ignore[attr-defined]  # asyncio has no public name for it
        if process.returncode is None:  # else its number may be another's by now
            with contextlib.suppress(ProcessLookupError, PermissionError):  # it has just ended
                os.killpg(process.pid, signal.SIGKILL)  # a wrapper's engine, too; kill() knows the wrapper alone
        if not process.stdin.is_closing():  # wait() waits for the pipes, which nobody empties and others may hold open
            process.stdin.transport.abort()
        transport.get_pipe_transport(1).close()
        try:
            async with asyncio.timeout(GRACE):
                await process.wait()
        except TimeoutError:  # one of another user, or deep in the kernel
            pass
        finally:
            transport.close()


class Crew:
    """The processes of a player, and the thread in which their answers are waited for."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self.programs = list(programs)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="engines", daemon=True)
        self.thread.start()
        self.close = weakref.finalize(self, _end, self.programs, self.loop, self.thread)

    def ask(self, questions: Sequence[Any]) -> list[Answer]:
        """An answer to each question."""
        answers = asyncio.run_coroutine_threadsafe(self._share(questions), self.loop)
        try:
            return answers.result()
        except BaseException:  # Ctrl-C, most of all
            answers.cancel()
            raise

    async def _share(self, questions: Sequence[Any]) -> list[Answer]:
        count = len(self.programs)
        answers = [Answer(CRASH)] * len(questions)

        async def some(first: int) -> None:
            for k in range(first, len(questions), count):
                answers[k] = await self.programs[first].move(questions[k])

        await asyncio.gather(*(some(first) for first in range(count)))
        return answers


def words_of(who: str, command: object) -> list[str]:
    """The program and its arguments, each a text.

    Raises:
        SpecError: they are none.

    >>> words_of("UCIPlayer", "nice -n 10 'my engine'")
    ['nice', '-n', '10', 'my engine']
    """
    given: Iterable[object]
    if isinstance(command, str):
        try:
            given = shlex.split(command)
        except ValueError as error:
            raise SpecError(
                f"{who}: {command!r} is no command: {error}; a list says where words end, ['stockfish', ...]"
            ) from None
    else:
        given = [command] if isinstance(command, os.PathLike) else command if isinstance(command, Sequence) else [None]
    words = [os.fspath(word) if isinstance(word, os.PathLike) else word for word in given]
    found = [word for word in words if isinstance(word, str)]
    if len(found) < len(words):
        raise SpecError(f"{who}: expected a command as a text, a path or a list of them, got {command!r}")
    return found


class EnginePlayer(ABC):
    """What players that are programs share: the command, and the processes.

    Args:
        command: the program, with its arguments.
        processes: how many of them think at the same time.
        patience: seconds to wait for an answer, beyond the time that it is given to think.
        move_seconds: how long it is given to think about a move; None where it is not told.

    Raises:
        SpecError: there is no such program, or an option is out of range.
    """

    def __init__(self, command: Command, processes: int, patience: float, move_seconds: float | None) -> None:
        who = type(self).__name__
        self.command = words_of(who, command)
        if not self.command or shutil.which(self.command[0]) is None:
            raise SpecError(f"{who}: no program {command!r} was found; install the engine or give its whole path")
        whole(who, "processes", processes, 1)
        for name, seconds in (("patience", patience), ("move_seconds", move_seconds)):
            most = math.inf if name == "patience" else sys.float_info.max
            number = isinstance(seconds, Real) and not isinstance(seconds, bool)
            if seconds is not None and not (number and 0 < seconds <= most):
                raise SpecError(f"{who}: {name} must be a number of seconds above 0, got {seconds!r}")
        self.processes, self.patience = processes, patience
        self._crew: Crew | None = None

    def _ask(self, questions: Sequence[Any], *about: Any) -> list[Answer]:
        """An answer to each question; the programs are those of :meth:`_program`."""
        if self._crew is None:
            self._crew = Crew([self._program(*about) for _ in range(self.processes)])
        return self._crew.ask(questions)

    @abstractmethod
    def _program(self, *about: Any) -> Program:
        """One more program."""

    def close(self) -> None:
        """Ends the processes; the next turn starts them again."""
        if self._crew is not None:
            self._crew.close()
            self._crew = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_crew": None}  # another process starts its own


def _end(programs: list[Program], loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    async def ended() -> None:
        await asyncio.gather(*(program.stop() for program in programs))

    with contextlib.suppress(TimeoutError):
        asyncio.run_coroutine_threadsafe(ended(), loop).result(2 * GRACE)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()
