"""Pools whose envs live in workers, a block of neighbours in each: starting them, asking them, replacing the lost."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import SpecError
from marlenv.keys import Path
from marlenv.vector.base import BatchedEnv, fresh_seed_of, made
from marlenv.vector.buffers import Buffers, Layout, fit_for_buffers
from marlenv.vector.creator import EnvCreator
from marlenv.vector.process import SOON, Process, Watch, failures_of, start_method, stop
from marlenv.vector.protocol import Command, Description, Failure, refuse_unclosed, warn_unclosed
from marlenv.vector.ray import RayWatch, RayWorker
from marlenv.vector.worker import Recipe

STARTING = ("start", "describe", "layout")
"""What workers are asked before the pool runs."""


class WorkerPool(BatchedEnv):
    """A pool whose envs live in workers. Abstract.

    A worker that is lost is lost with all its envs: an error, or with ``on_failure="restart"`` a new worker. Steps are
    answered as cut off, resets and questions by the new envs; envs that were lost while they were neither stepped nor
    reset are cut off in the step that comes next.
    """

    in_processes = True
    _of_workers = ("_finalizer", "_memory", "_watch")
    _layout: Layout | None = None
    _all_hold_rows = True
    """Whether all children can let some of their rows wait while others are stepped."""
    _cut: set[int] = set()  # never changed in place
    """The envs that were lost between two of their steps."""

    # --- starting and ending ---------------------------------------------------------------------

    def _describe(self) -> None:
        self._workers: list[Any] = []
        self._seeds: list[int | None] = [None] * self.num_workers
        self._known: dict[Path, tuple[Tensor, int]] = {}
        self._threads_before: int | None = None
        if self.backend not in ("process", "ray"):
            raise SpecError(f"{type(self).__name__}: backend must be 'process' or 'ray', got {self.backend!r}")
        start_method(self.mp_start_method)
        if self.metadata_from_workers or not self._of_one_kind():
            self._launch()
            return
        make, options = self.create_env_fn[0], self.create_env_kwargs[0]
        if isinstance(make, EnvCreator) and not options and self.on_failure == "raise":
            self._adopt([make.description] * self.num_workers)
            return
        child = made(type(self).__name__, make, options, self.on_failure)
        try:
            self._adopt([Description.of(child)] * self.num_workers)
        finally:
            child.close(raise_if_closed=False)

    def _of_one_kind(self) -> bool:
        """Whether all children are made in the same way, so that one of them says what all are."""
        try:
            same = all(options == self.create_env_kwargs[0] for options in self.create_env_kwargs)
        except (RuntimeError, ValueError):  # tensors and arrays do not compare as one bool
            return False
        return same and all(make is self.create_env_fn[0] for make in self.create_env_fn)

    def _start(self) -> None:
        if not self._workers:
            self._launch()
        self._begin()
        if self.num_threads is not None:
            self._threads_before = torch.get_num_threads()
            torch.set_num_threads(self.num_threads)

    def _launch(self) -> None:
        """Starts the processes, learns what the children are, and lays out the memory."""
        self._pid = os.getpid()
        self._memory = Buffers(None, self.num_workers, self.num_processes, on_disk=self.memmap)
        self._watch: Any = RayWatch() if self.backend == "ray" else Watch()
        self._workers, self._known, self._cut = [], {}, set()
        self._finalizer = weakref.finalize(self, _end, type(self).__name__, self._workers, self._memory, self._pid)
        share, more = divmod(self.num_workers, self.num_processes)
        first = 0
        try:
            for number in range(self.num_processes):
                count = share + (number < more)
                self._workers.append(self._spawned(number, first, first + count))
                first += count
            self._settle("start", self._watch.wait(self._workers, "start", self.timeout))
            children: list[Description] = [one for part in self._ask("describe") for one in part]
            self._adopt(children)
            self._all_hold_rows = all(child.holds_rows for child in children)
            self._lay_out()
        except BaseException:
            self._abort()
            raise

    def _spawned(self, number: int, first: int, stop_: int, seeds: list[int | None] | None = None) -> Process:
        makers, options = self.create_env_fn[first:stop_], self.create_env_kwargs[first:stop_]
        assigned = self._assigned[first:stop_]
        seeds, loaded = seeds or self._seeds[first:stop_], self._loaded_by(first, stop_)
        recipe = Recipe(makers, options, assigned, first, self.on_failure, seeds, loaded)
        worker: Any
        if self.backend == "ray":
            worker = RayWorker(number, recipe, self.backend_options, self._memory.failures[first:stop_])
        else:
            worker = Process(
                number,
                recipe,
                self._memory,
                method=start_method(self.mp_start_method),
                daemon=self.daemon,
                threads=self.num_sub_threads,
            )
        self._watch.add(worker)
        return worker

    def _lay_out(self) -> None:
        """Allocates the memory for the data."""
        self._layout, self.resets_in_one = None, False
        if self.use_buffers is not False:
            far = "the children are actors of Ray" if self.backend == "ray" else None
            why = far or fit_for_buffers(self) or ("children differ in sizes" if self.share_individual_td else None)
            if why and self.use_buffers:
                warnings.warn(f"ParallelEnv: use_buffers=True cannot be: {why}; sent piece by piece", stacklevel=2)
            if not why:
                self._layout, self.resets_in_one = Layout(self), True
        if self._layout is not None:
            handle = self._memory.handle
            self._memory = Buffers(self._layout, self.num_workers, self.num_processes, handle)
            self._ask("layout", self._layout)
        self.__dict__["failures"] = self._memory.failures

    def _stop(self) -> None:
        if not self._workers:
            return
        failures: list[Failure] = []
        try:
            if not self._forked:
                failures = stop(self._workers, self.shutdown_timeout)
        finally:
            self._abort()
        refuse_unclosed(type(self).__name__, failures)

    def _abort(self) -> None:
        """Ends the processes: soon those that are idle, so that their envs can close, and the others at once."""
        self.__dict__["failures"] = self.failures.clone()
        if self._finalizer is not None:
            if not self._forked:
                stop(self._workers, SOON)  # an error is on its way already
            self._finalizer()
        self._workers = []
        self.is_closed = True
        if self._threads_before is not None:
            torch.set_num_threads(self._threads_before)
            self._threads_before = None

    # --- commands --------------------------------------------------------------------------------

    def _command(self, command: int, what: str, workers: Sequence[Any]) -> set[int]:
        """Lets workers do something with what is in the buffers; returns the numbers of those that were lost."""
        self._refuse_fork()
        try:
            for worker in workers:
                worker.tell(command)
            answers = self._watch.wait(workers, what, self.timeout)
        except BaseException:
            self._abort()
            raise
        return self._settle(what, answers) if answers else set()

    def _ask(
        self, name: str, *args: Any, each: Sequence[tuple[Any, ...]] | None = None, only: Sequence[Any] | None = None
    ) -> list[Any]:
        """Asks the blocks of workers; returns their answers. Workers that were lost are replaced, and asked again.

        Args:
            name: the method of the blocks.
            args: its arguments.
            each: its arguments per worker.
            only: the workers; all of them when left out.
        """
        workers = self._workers if only is None else only
        each = [args] * len(workers) if each is None else each
        answers = self._answers(name, each) if only is None else self._told(workers, name, each)
        if lost := self._settle(name, answers):
            answers = self._asked_again(lost, workers, name, each, answers)
        self._refuse_failures(name, answers)
        return [answers.get(worker.number) for worker in workers]

    def _asked_again(
        self,
        lost: set[int],
        workers: Sequence[Any],
        name: str,
        each: Sequence[tuple[Any, ...]],
        answers: dict[int, Any],
    ) -> dict[int, Any]:
        """Answers, with those of workers that have replaced others."""
        pairs = [(worker.number, args) for worker, args in zip(workers, each, strict=True) if worker.number in lost]
        kept = {number: answer for number, answer in answers.items() if number not in lost}
        if not pairs:
            return kept
        return kept | self._told([self._workers[number] for number, _ in pairs], name, [args for _, args in pairs])

    def _answers(self, name: str, each: Sequence[tuple[Any, ...]]) -> dict[int, Any]:
        """The answers of the blocks by the numbers of their workers, failures among them."""
        return self._told(self._workers, name, each)

    def _told(self, workers: Sequence[Any], name: str, each: Sequence[tuple[Any, ...]]) -> dict[int, Any]:
        self._refuse_fork()
        questions = [w.pack(type(self).__name__, name, args) for w, args in zip(workers, each, strict=True)]
        try:
            for worker, question in zip(workers, questions, strict=True):
                worker.ask(question)
            return self._watch.wait(workers, name, self.timeout)
        except BaseException:
            self._abort()
            raise

    def _refuse_failures(self, what: str, answers: dict[int, Any]) -> None:
        if failures_of(answers):
            self._refuse(what, answers)

    def _ask_on(
        self, name: str, each: Sequence[tuple[Any, ...]], instead: Callable[[], TensorDictBase] | None = None
    ) -> list[TensorDictBase]:
        """Asks the blocks to act. Workers that were lost are replaced.

        Args:
            name: the method of the blocks.
            each: its arguments per worker.
            instead: data of the whole pool of which the part of a lost worker is taken; when left out, the worker that
                replaces it is asked again.
        """
        answers = self._answers(name, each)
        lost = self._settle(name, answers)
        if lost and instead is not None:
            rest = instead()
            for worker in [self._workers[number] for number in lost]:
                answers[worker.number] = rest[worker.first : worker.first + worker.count]
        elif lost:
            answers = self._asked_again(lost, self._workers, name, each, answers)
            self._refuse_failures(name, answers)
        return [answers[worker.number] for worker in self._workers]

    def _settle(self, what: str, answers: dict[int, Any]) -> set[int]:
        """Replaces the workers that were lost, or raises unless envs have refused a question."""
        bad = {number: answer for number, answer in answers.items() if isinstance(answer, Failure)}
        lost = {number for number, answer in bad.items() if answer.lost}
        broken = any(not answer.lost and not answer.refuses(what) for answer in bad.values())
        if broken or (lost and (self.on_failure == "raise" or what in STARTING)):
            self._refuse(what, answers)
        for number in sorted(lost):
            self._replace(number)
        return lost

    def _refuse(self, what: str, answers: dict[int, Any]) -> None:
        who, failures = type(self).__name__, failures_of(answers)
        if all(failure.goes_on(what) for failure in failures):
            self._known.clear()  # others may have done it
            raise failures[0].refusal(who, what)
        self._abort()
        raise failures[0].raised(who, what)

    def _replace(self, number: int) -> None:
        """Starts a worker in place of one that was lost; its envs are reset, and to be cut off."""
        old = self._workers[number]
        a, b = old.first, old.first + old.count
        self._watch.drop(old)
        old.end()
        self._memory.failures[a:b] += 1
        seeds = [fresh_seed_of(seed, int(n)) for seed, n in zip(self._seeds[a:b], self.failures[a:b], strict=True)]
        new = self._workers[number] = self._spawned(number, a, b, seeds)
        self._known.clear()
        self._settle_one(new, None)
        if self._layout is None:
            self._settle_one(new, ("reset", None, {}))
        else:
            self._settle_one(new, ("layout", self._layout))
            new.tell(Command.RESET)
            self._settle_one(new, None)
        self._cut = self._cut.union(range(a, b))

    def _settle_one(self, worker: Any, question: tuple[Any, ...] | None) -> Any:
        try:
            if question is not None:
                name, *args = question
                worker.ask(worker.pack(type(self).__name__, name, tuple(args)))
            answers = self._watch.wait([worker], "restart", self.timeout)
        except BaseException:
            self._abort()
            raise
        self._refuse_failures("restart", answers)
        return answers.get(worker.number)


def _end(who: str, workers: list[Any], buffers: Buffers, pid: int) -> None:
    """Ends processes; only where they were started."""
    if os.getpid() != pid:
        return
    failures = stop(workers, SOON)
    buffers.close()
    warn_unclosed(who, failures)
