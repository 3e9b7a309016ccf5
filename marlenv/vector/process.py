"""The pool's side of a worker process: starting, telling, waiting, ending."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import select
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing.connection import wait as first_ready
from typing import Any

from tensordict import TensorDictBase

from marlenv.errors import SpecError, Unsupported
from marlenv.vector.buffers import ANSWER, AT, COMMAND, Bell, Buffers
from marlenv.vector.protocol import Answer, Command, Failure, dump, load
from marlenv.vector.worker import Recipe, Setup, serve, wants_quiet

PRELOADED = ["marlenv.vector.worker"]
"""What is imported once, in the process that worker processes are forked from."""


_SERVED: set[int] = set()  # the processes that have such a server; forks of them cannot use it


def start_method(asked: str | None) -> str:
    """How child processes start: as asked for, else forked from a server that has imported torch, if possible."""
    methods = multiprocessing.get_all_start_methods()
    if asked is not None and asked not in methods:
        raise SpecError(f"ParallelEnv: mp_start_method must be one of {methods}, got {asked!r}")
    if _SERVED and os.getpid() not in _SERVED:
        if asked == "forkserver":
            raise Unsupported(
                "ParallelEnv: mp_start_method='forkserver' cannot be in a fork of a process that has a server already; "
                "leave it out, or use 'spawn'"
            )
        return asked or "spawn"
    return asked or ("forkserver" if "forkserver" in methods else "spawn")


def context_of(who: str, method: str) -> Any:
    """What makes child processes.

    Args:
        who: wants some.
        method: the start method.

    Raises:
        Unsupported: this process may not have any.
    """
    if multiprocessing.current_process().daemon:
        raise Unsupported(
            f"{who}: this process is daemonic, as the workers of a DataLoader are, and may not have child processes; "
            f"use SerialEnv, or AsyncEnvPool(backend='threading')"
        )
    context: Any = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(PRELOADED)
        _SERVED.add(os.getpid())
    return context


class Process:
    """A worker process.

    Args:
        number: of the worker.
        recipe: what its block is made from.
        buffers: shared memory, of which only the flags are used at first.
        method: the start method.
        daemon: whether it ends with this process, at once.
        threads: how many threads it computes with.
    """

    def __init__(
        self, number: int, recipe: Recipe, buffers: Buffers, *, method: str, daemon: bool = False, threads: int = 1
    ) -> None:
        self.number, self.first, self.count = number, recipe.first, len(recipe.makers)
        self.flags = buffers.flags[number]
        self.flags[AT] = 0
        context = context_of("ParallelEnv", method)
        data = packed(recipe)  # before there is anything to let go of
        self.pipe, far = context.Pipe()
        self.go, self.done = Bell(), Bell()
        setup = Setup(
            data, number, self.count, self.first, buffers.envs, buffers.workers, far,
            self.go.ear, self.done.hand, buffers.handle, threads, wants_quiet(),
        )  # fmt: skip
        self.process = context.Process(target=serve, args=(setup,), daemon=daemon, name=f"marlenv worker {number}")
        self.process.start()
        far.close()
        self.busy = True  # it is making its envs
        self.begun = False
        """Whether it has ever answered."""

    @property
    def envs(self) -> str:
        """Its envs, in words."""
        return in_words(self.first, self.count)

    def tell(self, command: int) -> None:
        """Gives a command."""
        self.flags[COMMAND], self.flags[ANSWER], self.busy = command, Answer.NONE, True
        self.go.ring()

    def pack(self, who: str, name: str, args: tuple[Any, ...]) -> bytes:
        """A question to the block, as :meth:`ask` takes it."""
        return packed_question(who, self.envs, name, args, (name, args))

    def ask(self, question: bytes) -> None:
        """Asks the block to do something that has no place in the buffers."""
        self.tell(Command.PIPE)
        with contextlib.suppress(OSError):  # it is dead, as waiting for it will show
            self.pipe.send_bytes(question)

    def read(self) -> Any:
        """The answer: None where it is in the buffers; a failure as what it is."""
        self.busy = False
        kind = self.flags[ANSWER]
        self.begun |= bool(kind != Answer.NONE)
        if kind == Answer.BUFFERS:
            return None
        try:
            return load(self.pipe.recv_bytes())
        except (EOFError, OSError):
            return self.death()

    def rang(self) -> bool:
        """Whether it has answered, and the bell was not heard yet."""
        return bool(self.busy and self.flags[ANSWER] != Answer.NONE)

    def late(self, what: str, timeout: float | None) -> Failure:
        """Kills a worker that takes too long, and says so."""
        self.process.kill()
        self.busy = False
        return Failure(
            self.first + int(self.flags[AT]), f"no answer to {what!r} within {timeout:g} s", "", None, lost=True
        )

    def death(self) -> Failure:
        """What to say of a worker that has ended."""
        self.process.join(1.0)
        code = self.process.exitcode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        says = f"the worker process of {self.envs} (pid {self.process.pid}) ended with {how}"
        says += unguarded(code, self.begun)
        return Failure(self.first + int(self.flags[AT]), says, "", None, lost=True)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.is_alive()

    def close_soon(self) -> None:
        """Lets the envs close; a worker that is at work does not hear, and is killed."""
        if self.busy and self.flags[ANSWER] != Answer.BUFFERS:  # an answer in the pipe may not be there yet
            self.process.kill()
        else:
            self.tell(Command.CLOSE)

    def closed_within(self, timeout: float) -> Failure | None:
        """Waits for the end of the process; returns how an env failed to close, if one did."""
        until = time.monotonic() + timeout
        failure = None
        with contextlib.suppress(OSError):  # the pipe is closed
            first_ready([self.pipe, self.process.sentinel], timeout)
            if self.flags[COMMAND] == Command.CLOSE and self.flags[ANSWER] == Answer.FAILED and self.pipe.poll():
                failure = self.read()
        self.process.join(max(0.0, until - time.monotonic()))
        return failure

    def end(self) -> None:
        """Ends the process at once."""
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.release()

    def release(self) -> None:
        """Lets go of what was shared with it."""
        with contextlib.suppress(OSError):
            self.pipe.close()
        self.go.close()
        self.done.close()
        with contextlib.suppress(ValueError):
            self.process.close()


def in_words(first: int, count: int) -> str:
    """Neighbouring envs, in words.

    >>> in_words(2, 1), in_words(2, 3)
    ('env 2', 'envs 2 to 4')
    """
    return f"env {first}" if count == 1 else f"envs {first} to {first + count - 1}"


def unguarded(code: int | None, begun: bool) -> str:
    """What to say besides of a process that ended before it had begun: most often the script made a pool in it, too."""
    if begun or code != 1:
        return ""
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script is not None and not os.path.exists(script):
        return (
            f"; the script came through standard input, or is no more ({script!r} is no file), and other processes "
            f"cannot read it: put it into a file, or use mp_start_method='fork'"
        )
    return (
        "; a script that makes a pool needs `if __name__ == '__main__':` around what it does, or mp_start_method='fork'"
    )


def packed(recipe: Recipe) -> bytes:
    """A recipe as bytes.

    Raises:
        SpecError: something in it cannot be sent to another process; says what.
    """
    try:
        return dump(recipe)
    except Exception as error:
        for i, (make, options) in enumerate(zip(recipe.makers, recipe.options, strict=True), recipe.first):
            for what, value in (
                ("create_env_fn", make),
                *((f"create_env_kwargs[{k!r}]", v) for k, v in options.items()),
            ):
                try:
                    dump(value)
                except Exception as cause:
                    raise SpecError(
                        f"ParallelEnv: {what} of env {i} cannot be sent to another process, {value!r}: {cause}; give a "
                        f"function that makes what it needs by itself"
                    ) from cause
        raise SpecError(f"ParallelEnv: the recipe of envs cannot be sent to another process: {error}") from error


ASKED_BY = {
    "check_options": "reset",
    "check_waiting": "step",
    "reset_rows": "reset",
    "seed": "set_seed",
    "described": "load_state_dict",
    "load": "load_state_dict",
}
"""What a user has called where a pool asks other things first."""


def packed_question(who: str, envs: str, method: str, args: tuple[Any, ...], question: Any) -> bytes:
    """A question as bytes.

    Args:
        who: the pool.
        envs: those that are asked, in words.
        method: what they are to do.
        args: its arguments.
        question: what is sent.

    Raises:
        SpecError: an argument cannot be sent to another process; says which.
    """
    try:
        return dump(question)
    except Exception as error:
        if method == "among":
            _, method, args = args
        if method == "call":
            method, *rest = args
            args = tuple(rest)
        name, value = unsendable(args)
        what = repr(value) if name is None else f"{name} = {value!r}"
        raise SpecError(
            f"{who}.{ASKED_BY.get(method, method)}: an argument for {envs} cannot be sent to another process, {what}: "
            f"{error}; give what can be pickled"
        ) from error


def unsendable(value: Any, name: str | None = None) -> tuple[str | None, Any]:
    """What of a value cannot be sent to another process, and the name under which it stands.

    >>> name, value = unsendable([1, {"x": 2, "numbers": [3, (i for i in [])], "y": 4}])
    >>> name, type(value).__name__
    ('numbers', 'generator')
    """
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping | TensorDictBase):
        parts = value.items()
    elif isinstance(value, tuple | list):
        parts = enumerate(value)
    for key, part in parts:
        try:
            dump(part)
        except Exception:
            return unsendable(part, key if isinstance(key, str) else name)
    return name, value


class Watch:
    """Waits for workers: for their answers, and for their deaths."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._known: dict[int, Process] = {}

    def add(self, worker: Process) -> None:
        """Watches a worker."""
        for fd in (worker.done.ear.fd, worker.process.sentinel):
            self._poll.register(fd, select.POLLIN)
            self._known[fd] = worker

    def drop(self, worker: Process) -> None:
        """Watches it no more."""
        for fd in [fd for fd, known in self._known.items() if known is worker]:
            self._poll.unregister(fd)
            del self._known[fd]

    def wait(self, workers: Sequence[Process], what: str, timeout: float | None = None) -> dict[int, Any]:
        """Waits until all of ``workers`` have answered, have died, or are late.

        Returns:
            What they answered, by their numbers, where that is not None; failures are answers too.
        """
        left = len(workers)
        answers: dict[int, Any] = {}
        until = None if timeout is None else time.monotonic() + timeout
        while left:
            rung = self._poll.poll(None if until is None else max(0.0, until - time.monotonic()) * 1000)
            if not rung:
                late = [worker for worker in workers if worker.busy]
                return answers | {worker.number: worker.late(what, timeout) for worker in late}
            for fd, _ in rung:
                worker = self._known.get(fd)
                if worker is None:  # it has died in this round
                    continue
                left -= worker.busy
                if fd == worker.done.ear.fd:
                    worker.done.hush()
                    answer = worker.read()
                else:
                    answer = worker.read() if worker.rang() else worker.death()
                    self.drop(worker)
                worker.busy = False
                if answer is not None:
                    answers[worker.number] = answer
        return answers


SOON = 5.0
"""The seconds that workers have to close after an error, and when the pool is forgotten."""


def stop(workers: list[Any], timeout: float) -> list[Failure]:
    """Asks workers to close, and ends those that do not within ``timeout`` seconds; returns how envs failed to."""
    until = time.monotonic() + timeout
    said = []
    for worker in workers:
        worker.close_soon()
    for worker in workers:
        said.append(worker.closed_within(max(0.0, until - time.monotonic())))
        worker.end()
    workers.clear()
    return [one for one in said if isinstance(one, Failure) and not one.lost]


def failures_of(answers: dict[int, Any]) -> list[Failure]:
    """The failures among answers, by the numbers of their workers."""
    return [answer for _, answer in sorted(answers.items()) if isinstance(answer, Failure)]
