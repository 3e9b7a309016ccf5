"""Pools whose envs are asked through channels: what was asked, what has been answered, and what to do if nothing is."""

from __future__ import annotations

import os
import time
import weakref
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Size

from marlenv.errors import SpecError
from marlenv.tensordicts import shallow
from marlenv.vector.base import BatchedEnv, cut_off, fresh_seed_of
from marlenv.vector.channels import Answered, Channel, left
from marlenv.vector.process import ASKED_BY, SOON
from marlenv.vector.protocol import QUESTIONS, Failure, plain, refuse_unclosed, warn_unclosed
from marlenv.vector.worker import Recipe

KINDS = ("step", "step_and_maybe_reset", "reset", "ask")
STEPS = ("step", "step_and_maybe_reset")
RESETS = ("reset", "reset_rows")
AGAIN = "restart"
"""The tag of the reset of an env that replaces one that was lost."""


class Question(NamedTuple):
    """What was asked of an env, to be answered by another one if it is lost."""

    kind: str
    method: str
    args: tuple[Any, ...]


class QuestionPool(BatchedEnv):
    """A pool whose envs are asked through channels. Abstract.

    A worker that died, or that has said nothing for longer than ``timeout`` while it was asked something, is lost with
    all its envs: an error, or with ``on_failure="restart"`` a new worker. Steps that were asked of it are answered as
    cut off, resets by the new envs, other questions too; its other envs are cut off in the step that comes next.
    """

    channel: type[Channel]
    """How its envs are reached."""
    num_envs: int
    envs_per_worker: int

    # --- starting and ending ---------------------------------------------------------------------

    def _describe(self) -> None:
        self._channels: list[Channel] = []
        self._ready: dict[str, dict[int, Any]] = {kind: {} for kind in KINDS}
        self._asked: dict[str, dict[int, TensorDictBase | None]] = {kind: {} for kind in KINDS}
        self._open: dict[int, Question] = {}
        self._owed: dict[int, Question] = {}
        """The questions that new envs answer after their reset."""
        self._cut: set[int] = set()
        """The envs that were lost between two steps."""
        self._refusals: dict[int, Failure] = {}
        """What envs say that cannot do what they were asked, and go on; raised where their data are received."""
        self._seeds: list[int | None] = [None] * self.num_envs
        self._launch()

    def _launch(self) -> None:
        made: list[Channel] = []
        self._pid = os.getpid()
        self._finalizer = weakref.finalize(self, _end, type(self).__name__, made, self._pid)
        self._channels = made
        self.failures = torch.zeros(self.num_envs, dtype=torch.int64)
        self._lost = self.failures.clone()  # of which those that went with their workers
        try:
            for number in range(-(-self.num_envs // self.envs_per_worker)):
                made.append(self._opened(number, self._recipes(number, self._seeds)))
            found = [one for part in self._ask("describe") for one in part]
            self._adopt(found)
            self._all_hold_rows = all(one.holds_rows for one in found)
        except BaseException:
            self._abort()
            raise
        self._env_batch_sizes: list[Size] = [one.batch_size for one in found]

    def _recipes(self, number: int, seeds: Sequence[int | None]) -> list[Recipe]:
        makers, options, assigned = self.create_env_fn, self.create_env_kwargs, self._assigned
        return [
            Recipe([makers[i]], [options[i]], [assigned[i]], i, self.on_failure, [seeds[i]], self._loaded_by(i, i + 1))
            for i in self._rows(number)
        ]

    def _rows(self, number: int) -> range:
        first = number * self.envs_per_worker
        return range(first, min(first + self.envs_per_worker, self.num_envs))

    if TYPE_CHECKING:  # calling a class of this kind makes one of its subclasses, which type checkers do not know

        def _opened(self, number: int, recipes: list[Recipe]) -> Channel: ...
    else:

        @abstractmethod
        def _opened(self, number, recipes):  # noqa: ANN001, ANN202
            """A way to new envs."""

    def _start(self) -> None:
        if not self._channels:
            self._launch()
        self._begin()

    def _stop(self) -> None:
        failures: list[Failure] = []
        try:
            if not self._forked:
                failures = ended(self._channels, self.shutdown_timeout)
        finally:
            self._abort()
        refuse_unclosed(type(self).__name__, failures)

    def _abort(self) -> None:
        if self._finalizer is not None:
            if not self._forked:
                ended(self._channels, SOON)  # an error is on its way already
            self._finalizer()
        self._channels, self.is_closed = [], True
        for kind in KINDS:
            self._ready[kind].clear()
            self._asked[kind].clear()
        for noted in (self._open, self._owed, self._cut, self._refusals):
            noted.clear()

    def _on_new_kwargs(self) -> None:
        self._loaded = {}
        if self.is_closed:
            self._abort()

    # --- asking ----------------------------------------------------------------------------------

    def _place(self, i: int) -> tuple[Channel, int]:
        return self._channels[i // self.envs_per_worker], i % self.envs_per_worker

    def _tell(self, kind: str, envs: Sequence[int], method: str, each: Iterable[tuple[Any, ...]]) -> None:
        """Asks envs something: all of them, or none where an argument cannot be sent."""
        self._refuse_fork()
        asked = [(i, *self._packed(kind, i, method, args)) for i, args in zip(envs, each, strict=True)]
        try:
            for i, question, data in asked:
                if i in self._cut and method in (*STEPS, *RESETS):
                    self._cut.discard(i)
                    if method in STEPS:
                        self._begin_again(i, question)
                        continue
                channel, place = self._place(i)
                channel.ask((kind, i), place, data)
                self._open[i] = question
        except BaseException:
            self._abort()
            raise

    def _packed(self, kind: str, i: int, method: str, args: tuple[Any, ...]) -> tuple[Question, Any]:
        channel, place = self._place(i)
        if channel.remote:
            args = tuple(plain(x) if isinstance(x, TensorDictBase) else x for x in args)
        elif self._given_device is not None:  # envs that do not say where they live are on the CPU
            args = tuple(x.to("cpu") if isinstance(x, TensorDictBase) else x for x in args)
        return Question(kind, method, args), channel.pack(type(self).__name__, (kind, i), place, method, args)

    def _ask(self, method: str, *args: Any, only: Sequence[int] | None = None, each: Any = None) -> list[Any]:
        """Asks envs something, and waits for all answers."""
        self._refuse_busy(f"{type(self).__name__}.{ASKED_BY.get(method, method)}", range(self.num_envs))
        envs = list(range(self.num_envs) if only is None else only)
        given = [args] * len(envs) if each is None else list(each)
        answers = self._answered(method, envs, given)
        if lost := self._to_ask_again(method, answers):
            self._replace_between([envs[n] for n in lost])
            again = self._answered(method, [envs[n] for n in lost], [given[n] for n in lost])
            for n, answer in zip(lost, again, strict=True):
                answers[n] = answer
        if failures := [one for one in answers if isinstance(one, Failure)]:
            self._refuse(method, failures)
        return answers

    def _answered(self, method: str, envs: Sequence[int], each: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What envs answer, failures too."""
        self._tell("ask", envs, method, each)
        ready = self._ready["ask"]
        while len(ready) < len(envs):
            self._pump(None)
        return [ready.pop(i) for i in envs]

    def _to_ask_again(self, method: str, answers: Sequence[Any]) -> list[int]:
        """Which answers are missing, of envs that were lost and are to be replaced."""
        if self.on_failure == "raise" or method not in QUESTIONS:
            return []
        return [n for n, one in enumerate(answers) if isinstance(one, Failure) and one.lost]

    def _refuse_busy(self, who: str, envs: Iterable[int]) -> None:
        if busy := sorted(i for i in envs if any(i in asked for asked in self._asked.values())):
            raise SpecError(
                f"{who}: envs {busy} are still at work, or their data were not received; receive them first"
            )

    def _refuse(self, what: str, failures: Sequence[Failure]) -> None:
        who = type(self).__name__
        if all(failure.goes_on(what) for failure in failures):
            raise failures[0].refusal(who, what)
        self._abort()
        raise failures[0].raised(who, what)

    def _raise_refusals(self, kind: str, envs: Iterable[int]) -> None:
        """Raises where some envs refused what they were asked; they may be asked again."""
        refused = {i: self._refusals.pop(i) for i in sorted(self._refusals.keys() & envs)}
        for i in refused:
            del self._ready[kind][i], self._asked[kind][i]
        if refused:
            self._refuse(kind, list(refused.values()))

    # --- hearing ---------------------------------------------------------------------------------

    def _pump(self, timeout: float | None) -> None:
        """Takes in the answers that have come, after the first; ends workers that take too long."""
        self._refuse_fork()
        try:
            answers = self.channel.gather(self._channels, self._patience(timeout))
            for one in answers:
                self._take(one)
            if self.timeout is not None:
                self._end_the_late()
        except BaseException:
            self._abort()
            raise

    def _patience(self, timeout: float | None) -> float | None:
        """How long to wait: so long as asked for, or until the first worker is late."""
        if self.timeout is None:
            return timeout
        first = min((channel.heard for channel in self._channels if channel.open), default=None)
        if first is None:
            return timeout
        until = left(first + self.timeout)
        return until if timeout is None or until is None else min(until, timeout)

    def _end_the_late(self) -> None:
        now = time.monotonic()
        for channel in [one for one in self._channels if one.open and now - one.heard >= (self.timeout or 0)]:
            kind, i = next(iter(channel.open))
            channel.kill()
            method = self._owed[i].method if kind == AGAIN else self._open[i].method
            for one in channel.lost(f"no answer to {method!r} within {self.timeout:g} s"):
                self._take(one)

    def _take(self, answered: Answered) -> None:
        (kind, i), said, failures = answered
        if failures is not None:
            self.failures[i] = self._lost[i] + failures[0]
        if kind == AGAIN:
            question = self._owed.pop(i)
            if isinstance(said, Failure):
                self._refuse(AGAIN, [said])
            kind, said = question.kind, self._instead(question, said)
        else:
            question = self._open.pop(i)
        if isinstance(said, Failure):
            if said.lost and self.on_failure == "restart" and question.method in (*STEPS, *RESETS):
                self._replace(i // self.envs_per_worker)
                self._cut.discard(i)
                self._begin_again(i, question)
                return
            if kind != "ask":
                if not said.goes_on(kind):
                    self._refuse(kind, [said])
                self._refusals[i] = said
        self._ready[kind][i] = said

    # --- instead of what is lost -----------------------------------------------------------------

    def _replace(self, number: int) -> None:
        """Starts a worker in place of one that was lost, if that is not done yet."""
        old, rows = self._channels[number], self._rows(number)
        if not old.dead:
            return
        old.end(1.0)
        self.failures[rows.start : rows.stop] += 1
        self._lost[rows.start : rows.stop] = self.failures[rows.start : rows.stop]
        self._cut.update(rows)
        fresh = [fresh_seed_of(seed, int(n)) for seed, n in zip(self._seeds, self.failures, strict=True)]
        self._channels[number] = self._opened(number, self._recipes(number, fresh))

    def _begin_again(self, i: int, question: Question) -> None:
        """Resets an env that replaces one that was lost, which then owes an answer."""
        channel, place = self._place(i)
        self._owed[i] = question
        options = question.args[1] if question.method == "reset" else {}
        args = (None, options)
        channel.ask((AGAIN, i), place, channel.pack(type(self).__name__, (AGAIN, i), place, "reset", args))

    def _replace_between(self, envs: Sequence[int]) -> None:
        """Replaces the workers of envs that were lost between two steps, which are cut off in the next one."""
        numbers = sorted({i // self.envs_per_worker for i in envs})
        for number in numbers:
            self._replace(number)
        new = [i for number in numbers for i in self._rows(number)]
        answers = self._answered("reset", new, [(None, {})] * len(new))
        self._cut.update(new)
        if failures := [one for one in answers if isinstance(one, Failure)]:
            self._refuse(AGAIN, failures)

    def _instead(self, question: Question, fresh: TensorDictBase) -> Any:
        """What a new env answers to a question that was asked of the one before."""
        if question.method in RESETS:
            return fresh
        cut = cut_off(self, shallow(question.args[0]))
        return cut if question.method == "step" else (cut, fresh)


def ended(channels: list[Channel], timeout: float) -> list[Failure]:
    """Lets the envs of workers close, and ends those that do not within so many seconds; returns how envs failed to."""
    until = time.monotonic() + timeout
    failures = []
    for channel in channels:
        channel.close_soon()
    for channel in channels:
        failures += channel.end(max(0.0, until - time.monotonic()))
    channels.clear()
    return failures


def _end(who: str, channels: list[Channel], pid: int) -> None:
    if os.getpid() == pid:
        warn_unclosed(who, ended(channels, SOON))
