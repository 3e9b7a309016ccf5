"""Several envs as one, in processes of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs.stepping import STEP, present
from marlenv.errors import SpecError
from marlenv.groups.reset import read_masks
from marlenv.keys import Path, nested
from marlenv.tensordicts import choose, fetch, get, rows, shallow
from marlenv.vector.base import Options, cut_off
from marlenv.vector.buffers import ABSENT, DONE, KNOWN, SENT, Field, Layout
from marlenv.vector.process import Process
from marlenv.vector.protocol import Command, Description, plain
from marlenv.vector.serial import SerialEnv
from marlenv.vector.state_dicts import followed
from marlenv.vector.workers import WorkerPool


class ParallelEnv(WorkerPool):
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

    def __new__(cls, num_workers: int, *args: Any, serial_for_single: bool = False, **kwargs: Any) -> Any:
        if serial_for_single and num_workers == 1:
            for name in ("mp_start_method", "metadata_from_workers"):
                kwargs.pop(name, None)
            return SerialEnv(num_workers, *args, **kwargs)
        return super().__new__(cls, num_workers, *args, **kwargs)

    def __getnewargs__(self) -> tuple[int]:
        """What a copy is made with before it gets its attributes."""
        return (self.num_workers,)

    # --- acting ----------------------------------------------------------------------------------

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self.is_closed:
            self.start()
        if self._unreset:
            self._check_were_reset(tensordict)
        mask = get(tensordict, STEP)
        if mask is not None and not self._all_hold_rows:
            self._ask("check_waiting", each=[(plain(part),) for part in self._blocks(tensordict.exclude("next"))])
        if self._cut and (cut := self._cut.intersection(self._stepped(tensordict))):
            return self._step_others(cut, tensordict)
        layout, workers = self._layout, self._workers
        if layout is None:
            return self._step_by_pipe(tensordict)
        if mask is not None:
            workers = self._reached(self._any_row(mask, tensordict))
        self._send(layout, tensordict, {} if mask is None else {(STEP,): mask}, layout.needed)
        if mask is not None:
            self._known.clear()
        lost = self._command(Command.STEP, "step", workers)
        out = self._received(layout, "following", [w for w in workers if w.number not in lost])
        if lost:
            return self._without(lost, out, tensordict)
        if mask is None:
            self._learn(layout, out)
        return out

    def _stepped(self, td: TensorDictBase) -> list[int]:
        """The envs that a step reaches."""
        return [i for i, on in enumerate(self._any_row(get(td, STEP), td)) if on]

    def _step_others(self, cut: set[int], td: TensorDictBase) -> TensorDictBase:
        """The data of a step of all envs but some that were lost before it: these are cut off."""
        mask = get(td, STEP)
        gone = self._rows_of(cut)
        go = ~gone if mask is None else rows(mask, td.ndim) & ~gone
        out = cut_off(self, td)
        if go.any():
            told = shallow(td)
            told.set(STEP, go)
            out = choose(gone, out, self._step(told), len(self.batch_size))
        self._cut = self._cut - cut
        return out

    def _rows_of(self, envs: Iterable[int]) -> Tensor:
        """Which rows are those of some envs; bool of the pool's batch size."""
        found = torch.zeros(self.batch_size, dtype=torch.bool, device=self.device)
        found[sorted(envs)] = True
        return found

    def _step_and_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase | None] | None:
        if self.is_closed:
            self.start()
        if self._unreset:
            self._check_were_reset(tensordict)
        layout = self._layout
        if layout is None or self._cut:
            return None
        self._send(layout, tensordict, {}, layout.needed)
        lost = self._command(Command.STEP_AND_RESET, "step_and_maybe_reset", self._workers)
        out = self._received(layout, "following", [w for w in self._workers if w.number not in lost])
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
        self._note_begun(tensordict)
        return fresh

    def _note_begun(self, request: TensorDictBase | None) -> None:
        """Notes of which envs all rows begin anew, so that nothing is to be cut off."""
        if not self._cut or request is None:
            self._cut = set()
            return
        masks = [mask for mask in read_masks(self.plan.done, request).values() if mask is not None]
        self._cut = {i for i in self._cut if not all(bool(mask[i].all()) for mask in masks)}

    def _reset_rows(self, request: TensorDictBase, tensordict: TensorDictBase) -> TensorDictBase:
        if self.is_closed:
            self.start()
        if self._layout is None:
            parts = [(plain(ask), plain(td)) for ask, td in zip(*map(self._blocks, (request, tensordict)), strict=True)]
            fresh = self._joined(self._ask_on("reset_rows", parts))
        else:
            fresh = self._reset_marked(self._layout, Command.RESET_ROWS, request, tensordict)
        self._note_begun(request)
        return fresh

    def _reset_marked(
        self, layout: Layout, command: int, request: TensorDictBase, td: TensorDictBase
    ) -> TensorDictBase:
        on = self._marked(request)
        workers = self._reached(on)
        masks = {field.path: mask for field in layout.masks[:-1] if (mask := fetch(request, field.path)) is not None}
        self._send(layout, td, masks, layout.states)
        self._known.clear()
        lost = self._command(command, "reset", workers) if workers else set()
        fresh = self._received(layout, "root", workers)
        if len(workers) == len(self._workers) and not lost:
            return fresh
        touched = self._rows_of(i for w in workers for i in range(w.first, w.first + w.count))
        if lost:  # all envs of theirs have begun anew
            whole = self._rows_of(i for w in workers if w.number not in lost for i in range(w.first, w.first + w.count))
            touched = touched & (whole | self._marked_rows(request))
        still = present(self, td)
        return choose(touched, fresh, still, len(self.batch_size)) if workers else still

    def _marked_rows(self, request: TensorDictBase) -> Tensor:
        """The rows that are reset; bool of the pool's batch size."""
        marked = self._rows_of([])
        for mask in read_masks(self.plan.done, request).values():
            marked |= True if mask is None else rows(mask, request.ndim)
        return marked

    def _reached(self, on: list[bool]) -> list[Process]:
        """The workers with an env that is marked."""
        return [w for w in self._workers if any(on[w.first : w.first + w.count])]

    # --- data through the buffers ----------------------------------------------------------------

    def _send(self, layout: Layout, td: TensorDictBase, masks: dict[Path, Tensor], needed: set[Path]) -> None:
        """Writes what the workers do not have yet; what does not fit and is not ``needed`` is what a transform made."""
        self._refuse_fork()
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
        workers = [self._workers[number] for number in lost]
        gone = self._rows_of(i for w in workers for i in range(w.first, w.first + w.count))
        self._cut = self._cut.difference(self._stepped(td))
        cut = cut_off(self, td)
        return cut if out.is_empty() else choose(gone, cut, out, len(self.batch_size))

    # --- data piece by piece ---------------------------------------------------------------------

    def _blocks(self, td: TensorDictBase) -> list[TensorDictBase]:
        """The data of each worker's envs."""
        return [td[w.first : w.first + w.count] for w in self._workers]

    def _joined(self, parts: list[TensorDictBase]) -> TensorDictBase:
        return self._stack([row for part in parts for row in part.unbind(0)])

    def _step_by_pipe(self, td: TensorDictBase) -> TensorDictBase:
        each = [(plain(part),) for part in self._blocks(self._for_step(td))]
        out = self._joined(self._ask_on("step", each, lambda: cut_off(self, td)))
        if self._cut:
            self._cut = self._cut.difference(self._stepped(td))
        return out

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
        for number in range(len(self._workers)):
            worker = self._workers[number]
            [(seed, own)] = self._ask("seed", seed, self._static_seed, only=[worker])
            self._seeds[worker.first : worker.first + worker.count] = own
        self._last_seed = seed

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
        self._cut = set()
        self._note_reset()
        return out

    def _on_new_kwargs(self) -> None:
        self._loaded = {}
        if self.is_closed:
            self._stop()

    def _load(self, states: list[Any], strict: bool, assign: bool) -> None:
        with followed(self, dict(enumerate(states))):
            self._ask("load", each=[(states[w.first : w.first + w.count], strict, assign) for w in self._workers])

    def _described(self) -> list[Description]:
        return [one for part in self._ask("described") for one in part]

    def _take_specs(self, children: Sequence[Description]) -> None:
        self._adopt(children)
        if self._layout is None or self.share_individual_td or vars(Layout(self)) != vars(self._layout):
            self._known.clear()
            self._lay_out()

    def _read_children(self, name: str) -> list[Any] | None:
        self.start() if self.is_closed else None
        answers = self._ask("get", name)
        return None if answers[0] is None else [one for part in answers for one in part]

    def _call_children(self, name: str, args: tuple[Any, ...], kwargs: Options) -> list[Any]:
        return [one for part in self._ask("call", name, args, kwargs) for one in part]

    def _set_children(self, name: str, value: Any) -> None:
        self._ask("set", name, value) if self._workers else None

    def __getitem__(self, index: Any) -> ParallelEnv:
        from marlenv.vector.views import ParallelView, numbers

        return ParallelView(self, numbers(type(self).__name__, index, self.num_workers))

    def __repr__(self) -> str:
        return f"ParallelEnv(batch_size={list(self.batch_size)}, {self.num_processes} processes)"
