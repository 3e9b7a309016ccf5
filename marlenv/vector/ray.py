"""Blocks of envs as actors of Ray, on this machine or on many. Data go through Ray's object store."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import WorkerFailed
from marlenv.optional import need
from marlenv.vector.base import Options
from marlenv.vector.channels import Answered, Channel, answer, blocks_of
from marlenv.vector.process import in_words, packed, packed_question
from marlenv.vector.protocol import Failure, dump, load
from marlenv.vector.worker import Block, Recipe, hush, wants_quiet


class Actor:
    """What runs in Ray: some blocks, which answer questions.

    Args:
        recipes: what the blocks are made from.
        firsts: the number of the first env of each.
        path: where the pool's process looks for modules, so that envs are found here too.
        quiet: whether warnings are not shown.
    """

    def __init__(self, recipes: list[bytes], firsts: list[int], path: list[str], quiet: bool) -> None:
        self.recipes, self.firsts = recipes, firsts
        self.made: tuple[list[Block], Failure | None] | None = None
        sys.path += [folder for folder in path if folder not in sys.path]
        hush(quiet)

    def run(self, data: bytes) -> bytes:
        """Answers a question ``(tag, place, method, arguments)``; the first one makes the envs."""
        place = 0
        try:
            _, place, method, args = load(data)
            if self.made is None:
                self.made = blocks_of([load(recipe) for recipe in self.recipes], alone=True)
            blocks, failed = self.made
            return dump((failed, None) if failed else answer(blocks, place, method, args))
        except BaseException as error:
            return dump((Failure.of(error, self.firsts[place]), None))


SPREAD: Options = {"num_cpus": 0.001, "scheduling_strategy": "SPREAD", "max_concurrency": 1}
"""Of an actor, unless somebody says otherwise; those that ask for nothing at all may all land on one node."""


def started(who: str) -> Any:
    """Ray, running: as it was started, or as ``RAY_ADDRESS`` says, or on this machine alone."""
    ray = need("ray", who)
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    return ray


def actor(who: str, recipes: Sequence[Recipe], options: Options) -> Any:
    """A new actor."""
    ray = started(who)
    data = [packed(recipe) for recipe in recipes]
    firsts = [recipe.first for recipe in recipes]
    return ray.remote(Actor).options(**{**SPREAD, **options}).remote(data, firsts, sys.path, wants_quiet())


def outcome(ray: Any, reference: Any, first: int) -> tuple[Any, list[int] | None]:
    """What an actor answered, and how often its envs were started again; a failure where it, or its node, is lost."""
    try:
        return load(ray.get(reference))
    except ray.exceptions.RayTaskError as error:  # raised around the envs, by what would be raised again
        return Failure(first, f"{type(error.cause).__name__}: {error.cause}", str(error), error.cause), None
    except ray.exceptions.RayError as error:
        how = f"its actor was lost: {str(error).splitlines()[0]}"
        return Failure(first, how, "", error, lost=True), None


def check_runs(ray: Any, who: str) -> None:
    """Raises where Ray was shut down: it would start again by itself, without the actors."""
    if not ray.is_initialized():
        raise WorkerFailed(
            f"{who}: Ray was shut down while its actors held envs; start Ray again, and reset: the pool makes new envs"
        )


def lacking(ray: Any, options: Mapping[str, Any]) -> str:
    """What to say besides of an actor that has never answered: that no node has what it asks for, or none is free."""
    named = {"CPU": options.get("num_cpus"), "GPU": options.get("num_gpus"), **(options.get("resources") or {})}
    want = {name: count for name, count in named.items() if count}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(all(node.get(name, 0) >= count for name, count in want.items()) for node in nodes):
        return ""
    most = {name: max((node.get(name, 0) for node in nodes), default=0) for name in want}
    return f"; an actor asks for {want}, and no node of Ray has that (at most {most}); change backend_options"


class RayWorker:
    """A block in an actor, as :class:`~marlenv.ParallelEnv` sees it.

    Args:
        number: of the worker.
        recipe: what its block is made from.
        options: those of the actor, such as ``num_cpus`` and ``resources``.
        failures: where to count how often its envs were started again.
    """

    def __init__(self, number: int, recipe: Recipe, options: Options, failures: Tensor) -> None:
        self.failures, self.before = failures, failures.clone()
        self.number, self.first, self.count = number, recipe.first, len(recipe.makers)
        self.ray = started("ParallelEnv(backend='ray')")
        self.actor = actor("ParallelEnv(backend='ray')", [recipe], options)
        self.busy, self.reference, self.options = False, None, options
        self.begun = False
        """Whether it has ever answered."""
        self.ask(self.pack("ParallelEnv", "ready", ()))

    reference: Any

    def pack(self, who: str, name: str, args: tuple[Any, ...]) -> bytes:
        """A question to the block, as :meth:`ask` takes it."""
        return packed_question(who, in_words(self.first, self.count), name, args, (None, 0, name, args))

    def ask(self, question: bytes) -> None:
        """Asks the block to do something."""
        check_runs(self.ray, "ParallelEnv")
        self.reference, self.busy = self.actor.run.remote(question), True

    def read(self) -> Any:
        """The answer."""
        self.busy = False
        said, failures = outcome(self.ray, self.reference, self.first)
        if failures is not None:
            self.begun = True
            self.failures.copy_(self.before + torch.tensor(failures))
        return said

    def close_soon(self) -> None:
        """Lets the envs close."""
        if not self.busy and self.ray.is_initialized():
            with contextlib.suppress(Exception):  # it is lost already
                self.ask(self.pack("ParallelEnv", "close", ()))
                self.closing = True

    closing = False

    def closed_within(self, timeout: float) -> Failure | None:
        """Waits for that; returns how an env failed to, if one did."""
        if not self.closing or not self.ray.is_initialized():
            return None
        ready, _ = self.ray.wait([self.reference], timeout=timeout)
        said = outcome(self.ray, self.reference, self.first)[0] if ready else None
        return said if isinstance(said, Failure) else None

    def end(self) -> None:
        """Ends the actor at once."""
        if self.ray.is_initialized():  # else Ray is gone, and would start again
            with contextlib.suppress(Exception):
                self.ray.kill(self.actor)

    def late(self, what: str, timeout: float | None) -> Failure:
        """Kills an actor that takes too long, and says so."""
        self.end()
        self.busy = False
        more = "" if self.count == 1 else f", of the actor of {in_words(self.first, self.count)}"
        more += "" if self.begun else lacking(self.ray, self.options)
        return Failure(self.first, f"no answer to {what!r} within {timeout:g} s{more}", "", None, lost=True)


class RayWatch:
    """Waits for actors."""

    def add(self, worker: RayWorker) -> None:
        """Nothing is needed."""

    def drop(self, worker: RayWorker) -> None:
        """Nothing is needed."""

    def wait(self, workers: Sequence[RayWorker], what: str, timeout: float | None = None) -> dict[int, Any]:
        """What all of ``workers`` answer, by their numbers, where that is not None; failures are answers too."""
        references = [worker.reference for worker in workers]
        check_runs(workers[0].ray, "ParallelEnv")
        workers[0].ray.wait(references, num_returns=len(references), timeout=timeout)
        late = set()
        if timeout is not None:
            late = set(workers[0].ray.wait(references, num_returns=len(references), timeout=0)[1])
        said = {w.number: w.late(what, timeout) if w.reference in late else w.read() for w in workers}
        return {number: one for number, one in said.items() if one is not None}


class RayChannel(Channel):
    """An actor that steps its envs each in its own time.

    Args:
        recipes: what they are made from.
        options: those of the actor.
    """

    def __init__(self, recipes: Sequence[Recipe], options: Options) -> None:
        super().__init__(recipes)
        self.ray = started("AsyncEnvPool(backend='ray')")
        self.actor = actor("AsyncEnvPool(backend='ray')", recipes, options)
        self.references: dict[Any, Any] = {}
        self.options, self.begun = options, False

    closing: Sequence[Any] = ()

    def _send(self, tag: Any, question: bytes) -> None:
        check_runs(self.ray, "AsyncEnvPool")
        self.references[self.actor.run.remote(question)] = tag

    def answered(self, tag: Any) -> None:
        super().answered(tag)
        self.begun = True

    def lost(self, how: str) -> list[Answered]:
        self.references.clear()
        if self.begun or not self.ray.is_initialized():
            return super().lost(how)
        return super().lost(how + lacking(self.ray, self.options))

    def kill(self) -> None:
        if self.ray.is_initialized():  # else Ray is gone, and would start again
            with contextlib.suppress(Exception):
                self.ray.kill(self.actor)

    def close_soon(self) -> None:
        if self.ray.is_initialized() and not self.open and not self.dead:
            with contextlib.suppress(Exception):  # it is lost already
                self.closing = [self.actor.run.remote(dump((None, place, "close", ()))) for place in range(self.count)]

    def end(self, timeout: float) -> list[Failure]:
        said: list[Any] = []
        if self.closing and self.ray.is_initialized():
            with contextlib.suppress(Exception):
                ready, _ = self.ray.wait(self.closing, num_returns=len(self.closing), timeout=timeout)
                said = [outcome(self.ray, one, self.first)[0] for one in ready]
        self.kill()
        return [one for one in said if isinstance(one, Failure) and not one.lost]

    @classmethod
    def gather(cls, channels: Sequence[Any], timeout: float | None) -> list[Answered]:
        owners = {reference: channel for channel in channels for reference in channel.references}
        if not owners:
            return []
        ray = channels[0].ray
        check_runs(ray, "AsyncEnvPool")
        ray.wait(list(owners), num_returns=1, timeout=timeout)
        found = []
        for reference in ray.wait(list(owners), num_returns=len(owners), timeout=0)[0]:
            if reference not in owners[reference].references:  # of an actor that was lost in this round
                continue
            channel = owners[reference]
            tag = channel.references.pop(reference)
            said, failures = outcome(ray, reference, channel.first + channel.open[tag])
            if failures is None and said.lost:
                found += channel.lost(said.summary)
                continue
            channel.answered(tag)
            found.append(Answered(tag, said, failures))
        return found
