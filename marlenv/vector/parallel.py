"""Several envs as one, in processes of their own."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs.stepping import STEP, present
from marlenv.errors import SpecError, Unsupported
from marlenv.keys import Path, nested
from marlenv.tensordicts import choose, fetch, get
from marlenv.vector.base import WHOLE, BatchedEnv, Options, cut_off, fresh_seed_of, made
from marlenv.vector.buffers import ABSENT, DONE, KNOWN, SENT, Buffers, Field, Layout, fit_for_buffers
from marlenv.vector.creator import EnvCreator
from marlenv.vector.process import Process, Watch, failures_of, start_method, stop
from marlenv.vector.protocol import Command, Description, Failure, plain
from marlenv.vector.ray import RayWatch, RayWorker
from marlenv.vector.serial import SerialEnv
from marlenv.vector.worker import Recipe


class ParallelEnv(BatchedEnv):
    """Several envs as one, in child processes.

    Data are those of :class:`SerialEnv`, entry by entry, whatever the number of processes. They travel through shared
    memory that is allocated once from the specs; entries that no spec names stay behind. Where sizes are not known, or
    data are no tensors, they are sent piece by piece (``use_buffers=False``).

    Functions of all kinds can be given, lambdas too. As with every start method but ``"fork"``, a script that makes a
    pool needs ``if __name__ == "__main__":`` around what it does.

    Args:
        num_workers: how many children.
        create_env_fn: makes a child; or a list with one such function per child.
        create_env_kwargs: keyword arguments for it; or a list with one dict per child.
        num_processes: how many processes share the children, each a block of neighbours; one for each when left out.
        device: where the data live; that of the children when left out.
        use_buffers: False sends the data piece by piece.
        serial_for_single: make a :class:`SerialEnv` of one child.
        mp_start_method: ``"forkserver"`` where there is one, else ``"spawn"``; or ``"fork"``.
        timeout: seconds that a process may take for one answer; any time when left out.
        on_failure: ``"restart"`` makes a child that fails, or is lost with its process, anew: its step is marked as
            truncated and counted in :attr:`failures`, and the other children go on untouched.

    Raises:
        WorkerFailed: a child raised an error, or its process died or took too long; says which env, and at what.

    >>> env = ParallelEnv(3, lambda: marlenv.testing.CountingEnv(max_steps=2), num_processes=2)
    >>> env.rollout(3, break_when_any_done=False)["next", "observation"].squeeze(-1)
    tensor([[1., 2., 1.],
            [1., 2., 1.],
            [1., 2., 1.]])
    >>> env.close()
    """

    in_processes = True
    _finalizer: Any = None
    _layout: Layout | None = None
    _all_hold_rows = True
    """Whether all children can let some of their rows wait while others are stepped."""

    def __new__(cls, num_workers: int, *args: Any, serial_for_single: bool = False, **kwargs: Any) -> Any:
        if serial_for_single and num_workers == 1:
            for name in ("mp_start_method", "metadata_from_workers"):
                kwargs.pop(name, None)
            return SerialEnv(num_workers, *args, **kwargs)
        return super().__new__(cls, num_workers, *args, **kwargs)

    def __getnewargs__(self) -> tuple[int]:
        """What a copy is made with before it gets its attributes."""
        return (self.num_workers,)

    def __getstate__(self) -> dict[str, Any]:
        if self._workers:
            raise Unsupported(
                f"{type(self).__name__}: its processes run, and cannot be copied or pickled; close it first, or copy "
                f"what makes it"
            )
        held = ("_memory", "_watch", "_finalizer")  # of processes that have ended
        return {name: value for name, value in super().__getstate__().items() if name not in held}

    # --- starting and ending ---------------------------------------------------------------------

    def _describe(self) -> None:
        self._workers: list[Any] = []
        self._seeds: list[int | None] = [None] * self.num_workers
        self._known: dict[Path, tuple[Tensor, int]] = {}
        self._fresh: dict[int, TensorDictBase] = {}
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
        self._adopt([Description.of(child)] * self.num_workers)
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
        self._memory = Buffers(None, self.num_workers, self.num_processes, on_disk=self.memmap)
        self._watch: Any = RayWatch() if self.backend == "ray" else Watch()
        self._workers, self._known = [], {}
        self._finalizer = weakref.finalize(self, _end, self._workers, self._memory, os.getpid())
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
        recipe = Recipe(makers, options, first, self.on_failure, seeds or self._seeds[first:stop_])
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
        if self._workers:
            stop(self._workers, self.shutdown_timeout)
            self._abort()

    def _abort(self) -> None:
        """Ends the processes at once."""
        self.__dict__["failures"] = self.failures.clone()
        if self._finalizer is not None:
            self._finalizer()
        self._workers = []
        self.is_closed = True
        if self._threads_before is not None:
            torch.set_num_threads(self._threads_before)
            self._threads_before = None

    # --- commands --------------------------------------------------------------------------------

    def _command(self, command: Command, what: str, workers: Sequence[Any]) -> set[int]:
        """Lets workers do something with what is in the buffers; returns the numbers of those that were lost."""
        try:
            for worker in workers:
                worker.tell(command)
            answers = self._watch.wait(workers, what, self.timeout)
        except BaseException:
            self._abort()
            raise
        return self._settle(what, answers) if answers else set()

    def _ask(self, name: str, *args: Any, each: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Asks the blocks of all workers; returns their answers. ``each``: arguments per worker."""
        answers = self._answers(name, [args] * len(self._workers) if each is None else each)
        self._refuse_failures(name, answers)
        return [answers.get(worker.number) for worker in self._workers]

    def _answers(self, name: str, each: Sequence[tuple[Any, ...]]) -> dict[int, Any]:
        """The answers of the blocks by the numbers of their workers, failures among them."""
        return self._told(self._workers, name, each)

    def _told(self, workers: Sequence[Any], name: str, each: Sequence[tuple[Any, ...]]) -> dict[int, Any]:
        try:
            for worker, args in zip(workers, each, strict=True):
                worker.ask(name, *args)
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
        """The same where lost workers may be replaced: in place of their answer stands what their envs begin with.

        Args:
            name: the method of the blocks.
            each: its arguments per worker.
            instead: data of the whole pool of which the part of a lost worker is taken.
        """
        answers = self._answers(name, each)
        lost = self._settle(name, answers)
        rest = instead() if lost and instead is not None else None
        for number in lost:
            worker = self._workers[number]
            answers[number] = self._fresh[number] if rest is None else rest[worker.first : worker.first + worker.count]
        return [answers[worker.number] for worker in self._workers]

    def _settle(self, what: str, answers: dict[int, Any]) -> set[int]:
        """Replaces the workers that were lost, or raises."""
        bad = {number: answer for number, answer in answers.items() if isinstance(answer, Failure)}
        if not bad:
            return set()
        lost = {number for number, answer in bad.items() if answer.lost}
        if self.on_failure == "raise" or lost != bad.keys() or what == "start":
            self._refuse(what, answers)
        for number in sorted(lost):
            self._replace(number)
        return lost

    def _refuse(self, what: str, answers: dict[int, Any]) -> None:
        who, failures = type(self).__name__, failures_of(answers)
        if all(failure.refuses(what) for failure in failures):
            raise failures[0].refusal(who, what)
        self._abort()
        raise failures[0].raised(who, what)

    def _replace(self, number: int) -> None:
        """Starts a worker in place of one that was lost; its envs are reset."""
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
            self._fresh[number] = self._settle_one(new, ("reset", None, {}))
            return
        self._settle_one(new, ("layout", self._layout))
        new.tell(Command.RESET)
        self._settle_one(new, None)

    def _settle_one(self, worker: Any, question: tuple[Any, ...] | None) -> Any:
        try:
            if question is not None:
                worker.ask(*question)
            answers = self._watch.wait([worker], "restart", self.timeout)
        except BaseException:
            self._abort()
            raise
        self._refuse_failures("restart", answers)
        return answers.get(worker.number)

    # --- acting ----------------------------------------------------------------------------------

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self.is_closed:
            self.start()
        if self._unreset:
            self._check_were_reset(tensordict)
        mask = get(tensordict, STEP)
        if mask is not None and not self._all_hold_rows:
            self._ask("check_waiting", each=[(plain(part),) for part in self._blocks(tensordict.exclude("next"))])
        layout, workers = self._layout, self._workers
        if layout is None:
            return self._step_by_pipe(tensordict)
        if mask is not None:
            workers = self._reached(self._any_row(mask, tensordict))
        self._send(layout, tensordict, {} if mask is None else {(STEP,): mask}, layout.needed)
        if mask is not None:
            self._known.clear()
        lost = self._command(Command.STEP, "step", workers)
        out = self._received(layout, "following", workers)
        if mask is None:
            self._learn(layout, out)
        return self._without(lost, out, tensordict) if lost else out

    def _step_and_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase | None] | None:
        if self.is_closed:
            self.start()
        if self._unreset:
            self._check_were_reset(tensordict)
        layout = self._layout
        if layout is None:
            return None
        self._send(layout, tensordict, {}, layout.needed)
        lost = self._command(Command.STEP_AND_RESET, "step_and_maybe_reset", self._workers)
        out = self._received(layout, "following", self._workers)
        flags = self._memory.flags[:, DONE]
        if lost:
            out = self._without(lost, out, tensordict)
        elif not flags.any():
            self._learn(layout, out)
            return out, None
        self._level_root(layout, [w for w in self._workers if not flags[w.number] and w.number not in lost])
        fresh = self._received(layout, "root", self._workers)
        self._learn(layout, fresh)
        return out, fresh

    def _level_root(self, layout: Layout, workers: list[Process]) -> None:
        """Writes what follows on the step of workers in which nothing was done to where resets stand."""
        there = self._memory.there
        places = {field.path: i for i, field in enumerate(layout.following)}
        for worker in workers:
            a, b = worker.first, worker.first + worker.count
            for i, field in enumerate(layout.root):
                j = places[field.path]
                self._memory.blocks["root"][i][a:b].copy_(self._memory.blocks["following"][j][a:b])
                there["root"][worker.number, i] = there["following"][worker.number, j]

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        if self.is_closed:
            self.start()
        layout = self._layout
        if layout is None or kwargs:
            fresh = self._reset_by_pipe(tensordict, kwargs)
        elif tensordict is None:
            self._command(Command.RESET, "reset", self._workers)
            fresh = self._received(layout, "root", self._workers)
            self._learn(layout, fresh)
        else:
            fresh = self._reset_marked(layout, Command.RESET_SOME, tensordict, tensordict)
        if self._unreset:
            self._note_reset(tensordict)
        return fresh

    def _reset_rows(self, request: TensorDictBase, tensordict: TensorDictBase) -> TensorDictBase:
        if self.is_closed:
            self.start()
        if self._layout is None:
            parts = [(plain(ask), plain(td)) for ask, td in zip(*map(self._blocks, (request, tensordict)), strict=True)]
            return self._joined(self._ask_on("reset_rows", parts))
        return self._reset_marked(self._layout, Command.RESET_ROWS, request, tensordict)

    def _reset_marked(
        self, layout: Layout, command: Command, request: TensorDictBase, td: TensorDictBase
    ) -> TensorDictBase:
        on = self._marked(request)
        workers = self._reached(on)
        masks = {field.path: mask for field in layout.masks[:-1] if (mask := fetch(request, field.path)) is not None}
        self._send(layout, td, masks, layout.states)
        self._known.clear()
        if workers:
            self._command(command, "reset", workers)
        fresh = self._received(layout, "root", workers)
        if len(workers) == len(self._workers):
            return fresh
        touched = torch.zeros(self.num_workers, dtype=torch.bool, device=self.device)
        for worker in workers:
            touched[worker.first : worker.first + worker.count] = True
        still = present(self, td)
        touched = touched.reshape(-1, *[1] * (len(self.batch_size) - 1)).expand(self.batch_size)
        return choose(touched, fresh, still, len(self.batch_size)) if workers else still

    def _reached(self, on: list[bool]) -> list[Process]:
        """The workers with an env that is marked."""
        return [w for w in self._workers if any(on[w.first : w.first + w.count])]

    # --- data through the buffers ----------------------------------------------------------------

    def _send(self, layout: Layout, td: TensorDictBase, masks: dict[Path, Tensor], needed: set[Path]) -> None:
        """Writes what the workers do not have yet; what does not fit and is not ``needed`` is what a transform made."""
        known, states = self._known, []
        for field, block in zip(layout.inputs, self._memory.blocks["inputs"], strict=True):
            value: Any = td
            for name in field.path:
                value = None if value is None else get(value, name)
            if value is None:
                states.append(ABSENT)
                continue
            had = known.get(field.path)
            same = had is not None and had[0] is value and had[1] == value._version
            if same and field.path not in layout.states:  # writes through NumPy leave no trace; states must be right
                states.append(KNOWN)
                continue
            if value.shape != block.shape or value.is_floating_point() > block.is_floating_point():
                if field.path not in needed:
                    states.append(ABSENT)
                    continue
                raise SpecError(
                    f"{type(self).__name__}: entry {nested(field.path)!r} must be {field.dtype} {list(block.shape)}, "
                    f"got {value.dtype} {list(value.shape)}"
                )
            block.copy_(value.detach() if value.requires_grad else value)
            if value.dtype != block.dtype and not block.is_floating_point() and bool((block != value.cpu()).any()):
                raise SpecError(
                    f"{type(self).__name__}: entry {nested(field.path)!r} must be {field.dtype}, got {value.dtype} "
                    f"with values that it does not have"
                )
            states.append(SENT)
        there = self._memory.there
        there["inputs"][:] = states
        for i, field in enumerate(layout.masks):
            mask = masks.get(field.path)
            there["masks"][:, i] = mask is not None
            if mask is not None:
                block = self._memory.blocks["masks"][i]
                block.copy_(mask.reshape(block.shape))

    def _received(self, layout: Layout, area: str, workers: Sequence[Any]) -> TensorDictBase:
        """Copies of what the workers have written."""
        if not workers:
            return layout.build([], self.num_workers, self.device)
        shown = self._memory.there[area][[worker.number for worker in workers]]
        there = shown[0]
        if len(shown) > 1 and (shown != there).any():
            self._refuse_gaps(getattr(layout, area), shown, workers)
        leaves = []
        for field, block, here in zip(getattr(layout, area), self._memory.blocks[area], there.tolist(), strict=True):
            if here:
                value = block.clone() if self.device is None else block.to(self.device, copy=True)
                leaves.append((field.path, value))
        return layout.build(leaves, self.num_workers, self.device)

    def _refuse_gaps(self, fields: list[Field], shown: Any, workers: Sequence[Any]) -> None:
        """Raises where some workers have an entry that others have not."""
        place = int((shown != shown[0]).any(0).argmax())
        has = dict(zip(shown[:, place].tolist(), (worker.first for worker in workers), strict=True))
        raise SpecError(
            f"{type(self).__name__}: entry {nested(fields[place].path)!r} is among the data of env {has[1]} and not "
            f"among those of env {has[0]}; give it in every step"
        )

    def _learn(self, layout: Layout, td: TensorDictBase) -> None:
        """Remembers what all workers have too, so that it is not sent back."""
        known = self._known
        for field in layout.root:
            value = fetch(td, field.path)
            if value is not None and not value.is_inference():
                known[field.path] = (value, value._version)

    def _without(self, lost: set[int], out: TensorDictBase, td: TensorDictBase) -> TensorDictBase:
        """The data of a step in which workers were lost."""
        gone = torch.zeros(self.num_workers, dtype=torch.bool, device=self.device)
        for number in lost:
            worker = self._workers[number]
            gone[worker.first : worker.first + worker.count] = True
        gone = gone.reshape(-1, *[1] * (len(self.batch_size) - 1)).expand(self.batch_size)
        return choose(gone, cut_off(self, td), out, len(self.batch_size))

    # --- data piece by piece ---------------------------------------------------------------------

    def _blocks(self, td: TensorDictBase) -> list[TensorDictBase]:
        """The data of each worker's envs."""
        return [td[w.first : w.first + w.count] for w in self._workers]

    def _joined(self, parts: list[TensorDictBase]) -> TensorDictBase:
        return self._stack([row for part in parts for row in part.unbind(0)])

    def _step_by_pipe(self, td: TensorDictBase) -> TensorDictBase:
        each = [(plain(part),) for part in self._blocks(self._for_step(td))]
        return self._joined(self._ask_on("step", each, lambda: cut_off(self, td)))

    def _reset_by_pipe(self, td: TensorDictBase | None, kwargs: Options) -> TensorDictBase:
        options = self._reset_options(kwargs)
        if any(options):
            self._ask("check_options", each=[(options[w.first : w.first + w.count],) for w in self._workers])
        self._known.clear()
        parts = [None] * len(self._workers) if td is None else [plain(p) for p in self._blocks(td.exclude("next"))]
        each = [
            (part, {"list_of_kwargs": options[w.first : w.first + w.count]})
            for part, w in zip(parts, self._workers, strict=True)
        ]
        return self._joined(self._ask_on("reset", each))

    # --- seeds, states, attributes ---------------------------------------------------------------

    def _set_seed(self, seed: int | None) -> None:
        seeds: list[int | None] = []
        for worker in self._workers:
            answers = self._told([worker], "seed", [(seed, self._static_seed)])
            self._refuse_failures("set_seed", answers)
            seed, own = answers[worker.number]
            seeds += own
        self._last_seed, self._seeds = seed, seeds

    def _action_seed(self) -> int:
        if self.is_closed:
            self.start()
        return self._ask("action_seed")[0]

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        if self.is_closed:
            self.start()
        parts = [None] * len(self._workers) if tensordict is None else self._blocks(tensordict)
        return self._joined(self._ask("get_state", each=[(plain(part),) for part in parts]))

    def _state_of(self, state: TensorDictBase, mask: Tensor, tensordict: TensorDictBase | None) -> TensorDictBase:
        if self.is_closed:
            self.start()
        tds = [None] * len(self._workers) if tensordict is None else self._blocks(tensordict)
        masks = [mask[worker.first : worker.first + worker.count].cpu() for worker in self._workers]
        parts = zip(self._blocks(state), masks, tds, strict=True)
        return self._joined(self._ask("state_of", each=[(plain(s), m, plain(td)) for s, m, td in parts]))

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        if self.is_closed:
            self.start()
        self._known.clear()
        out = self._joined(self._ask("set_state", each=[(plain(part),) for part in self._blocks(state)]))
        self._note_reset()
        return out

    def _on_new_kwargs(self) -> None:
        if self.is_closed:
            self._stop()

    def _saved(self, args: tuple[Any, ...], kwargs: Options) -> list[Any]:
        return [one for part in self._ask("call", "state_dict", args, kwargs) for one in part]

    def _load(self, states: list[Any], strict: bool, assign: bool) -> None:
        self._ask("load", each=[(states[w.first : w.first + w.count], strict, assign) for w in self._workers])

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or name in WHOLE or "_workers" not in self.__dict__:
                raise
        if self.is_closed:
            self.start()
        answers = self._ask("get", name)
        if answers[0][0]:
            return lambda *args, **kwargs: [one for part in self._ask("call", name, args, kwargs) for one in part]
        return [one for _, part in answers for one in part]

    def __getitem__(self, index: Any) -> ParallelEnv:
        from marlenv.vector.views import ParallelView, numbers

        return ParallelView(self, numbers(type(self).__name__, index, self.num_workers))

    def __repr__(self) -> str:
        return f"ParallelEnv(batch_size={list(self.batch_size)}, {self.num_processes} processes)"


def _end(workers: list[Any], buffers: Buffers, pid: int) -> None:
    """Ends processes; only where they were started."""
    if os.getpid() != pid:
        return
    for worker in workers:
        worker.end()
    workers.clear()
    buffers.close()
