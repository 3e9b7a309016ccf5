"""Several envs as one, stepped one after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.envs import EnvBase
from marlenv.envs.resetting import check_reset_options, reset_rows
from marlenv.envs.stepping import STEP, check_waiting, present, standing
from marlenv.errors import SpecError
from marlenv.groups.reset import read_masks
from marlenv.tensordicts import entries, get, new, raw, rows, split
from marlenv.vector.base import BatchedEnv, Options, cut_off, fresh_seed_of, made
from marlenv.vector.fit import Fit
from marlenv.vector.protocol import Description
from marlenv.vector.state_dicts import followed

CPU = torch.device("cpu")


class SerialEnv(BatchedEnv):
    """Several envs as one, stepped one after the other.

    Child ``i`` behaves as it would alone with its own seed. A ``"_step"`` or ``"_reset"`` mask reaches only the
    children that it marks. What :class:`ParallelEnv` takes for its processes is taken here too, and has no effect.

    Args:
        num_workers: how many children.
        create_env_fn: makes a child; or a list with one such function per child.
        create_env_kwargs: keyword arguments for it; or a list with one dict per child.
        device: where the data live; that of the children when left out.
        share_individual_td: return the data of the children as a lazy stack. When left out, that happens where they
            differ in sizes.

    >>> env = SerialEnv(2, marlenv.testing.CountingEnv, create_env_kwargs=[{"max_steps": 2}, {"max_steps": 9}])
    >>> env.rollout(3, break_when_any_done=False)["next", "observation"].squeeze(-1)
    tensor([[1., 2., 1.],
            [1., 2., 3.]])
    """

    children_envs: list[EnvBase]
    """The children, in order."""
    _made = False
    _together: tuple[list[EnvBase], Any] | None = None
    """The children that were looked at, and what steps them at once, if anything does."""
    _seeds: list[int | None]
    _first = 0
    """The number of the first child, where the children are part of a larger pool."""
    _checks = False
    """Whether the data of every child are held against its specs, as they are in workers."""
    _caught: type[BaseException] = Exception
    """What a child may raise that is its failure; in workers, leaving the program too."""
    _fits: dict[int, Fit]
    _at: Any
    """Holds the number of the child that is at work; in shared memory, where the child is in a process."""

    def _describe(self) -> None:
        """Makes the children, and reads the specs off them; closes those that there are where that fails."""
        self.__dict__.setdefault("_at", [0])
        self.__dict__.setdefault("_seeds", [None] * self.num_workers)
        children: list[EnvBase] = []
        try:
            for i in range(self.num_workers):
                with self._turn(i):
                    child = self._new(i)
                    children.append(self._copied(child) if any(child is other for other in children) else child)
                    self._loads_again(i, children[i])
            self._adopt(children)
            for i, (child, seed) in enumerate(zip(children, self._seeds, strict=True)):  # of a pool that was closed
                if seed is not None:
                    with self._turn(i):
                        child.set_seed(seed, static_seed=self._static_seed)
        except BaseException:
            for child in children:
                with suppress(Exception):
                    child.close(raise_if_closed=False)
            raise
        self.__dict__["children_envs"], self._made, self._fits = children, True, {}

    def _new(self, i: int) -> EnvBase:
        child = made(type(self).__name__, self.create_env_fn[i], self.create_env_kwargs[i], self.on_failure)
        for name, value in self._assigned[i].items():
            setattr(child, name, value)
        return child

    def _loads_again(self, i: int, child: EnvBase) -> None:
        """Loads into a child that was made anew what the one before it has loaded."""
        if (state := self._loaded.get(i)) is not None:
            child.load_state_dict(state, strict=False)

    def _copied(self, child: EnvBase) -> EnvBase:
        try:
            return deepcopy(child)
        except Exception as error:
            raise SpecError(
                f"{type(self).__name__}: create_env_fn gave the same {type(child).__name__} twice, and it cannot be "
                f"copied; make a new env at every call"
            ) from error

    def _start(self) -> None:
        if not self._made:
            self.failures = torch.zeros_like(self.failures)
            self._describe()
        self._begin()

    def _stop(self) -> None:
        failed: dict[int, BaseException] = {}
        for i, child in enumerate(self.children_envs if self._made else []):
            try:
                with self._turn(i):
                    child.close(raise_if_closed=False)
            except BaseException as error:  # the others are to be closed, too
                failed[i] = error
        self._made = False
        if failed:
            first, *others = failed
            self._at[0] = first
            for i in others:
                failed[first].add_note(f"env {self._number(i)} failed, too: {failed[i]!r}")
            raise failed[first]

    # --- one child after the other ---------------------------------------------------------------

    def _number(self, i: int) -> int:
        """The number of a child in the whole pool."""
        return self._first + i

    @contextmanager
    def _turn(self, i: int) -> Iterator[None]:
        """While a child is at work: its errors say so."""
        self._at[0] = i
        try:
            yield
        except self._caught as error:
            error.add_note(f"in env {self._number(i)} of the pool")
            raise

    def _each(self, ask: Callable[..., Any], *columns: Iterable[Any]) -> list[Any]:
        """What ``ask`` answers for each child, given what ``columns`` have for it."""
        found: list[Any] = []
        for i, given in enumerate(zip(self.children_envs, *columns, strict=True)):
            with self._turn(i):
                found.append(ask(*given))
        return found

    def _on_new_kwargs(self) -> None:
        self._loaded = {}
        if self.is_closed:
            self._stop()

    def _reset_goes_to(self) -> list[EnvBase]:
        return self.children_envs

    # --- acting ----------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        if self.is_closed:
            self.start()
        options = [kwargs] * self.num_workers
        if kwargs:
            options = self._reset_options(kwargs)
            self._each(check_reset_options, options)
        fresh = self._begun(tensordict, options)
        if self._unreset:
            self._note_reset(tensordict)
        return self._stack(fresh)

    def _begun(self, tensordict: TensorDictBase | None, options: list[Options]) -> list[TensorDictBase]:
        """The data of each child after a reset of those that masks mark."""
        fresh: list[TensorDictBase] = []
        if tensordict is None:
            for i, own in enumerate(options):
                self._at[0] = i
                try:
                    one = self.children_envs[i].reset(**own)
                    fresh.append(self._fitting(i, one) if self._checks else one)
                except self._caught as error:
                    fresh.append(self._restarted(i, error, own))
            return fresh
        for i, (td, on) in enumerate(zip(split(tensordict), self._marked(tensordict), strict=True)):
            child = self.children_envs[i]
            told = self._told(child, td)
            if on:
                self._at[0] = i
                try:
                    told = child.reset(told, **options[i])
                    told = self._fitting(i, told) if self._checks else told
                except self._caught as error:
                    told = self._restarted(i, error, options[i])
            fresh.append(present(child, told))
        return fresh

    def _reset_rows(self, request: TensorDictBase, tensordict: TensorDictBase) -> TensorDictBase:
        if self.is_closed:
            self.start()
        asks, tds = split(request), split(tensordict)
        fresh: dict[int, TensorDictBase] = {}
        for i, on in enumerate(self._marked(request)):
            if not on:
                continue
            child, self._at[0] = self.children_envs[i], i
            asked, told = self._told(child, asks[i]), self._told(child, tds[i])
            try:
                told = reset_rows(child, asked, read_masks(child.plan.done, asked), told)
                told = self._fitting(i, told) if self._checks else told
            except self._caught as error:
                told = self._restarted(i, error, {})
            fresh[i] = present(self.children_envs[i], told)
        if (among := self._among(fresh, tensordict)) is not None:
            return among
        rows = zip(self.children_envs, tds, strict=True)
        return self._stack(
            [present(c, self._told(c, td)) if i not in fresh else fresh[i] for i, (c, td) in enumerate(rows)]
        )

    def _among(self, fresh: dict[int, TensorDictBase], td: TensorDictBase) -> TensorDictBase | None:
        """The data of some children in their rows of ``td``; None where they do not fit there."""
        first = next(iter(fresh.values()), None)
        if first is None or len(fresh) == self.num_workers or raw(td) is None or self.device is not None:
            return None
        return written(td, list(fresh), list(fresh.values()))

    def _fitting(self, i: int, td: TensorDictBase) -> TensorDictBase:
        """The data of a child, held against its specs."""
        child = self.children_envs[i]
        fit = self._fits.get(i)
        if fit is None or fit.plan is not child.plan:
            fit = self._fits[i] = Fit(child)
        return fit.check(td)

    def _told(self, child: EnvBase, td: TensorDictBase) -> TensorDictBase:
        """Data of the pool where a child has its own; a child that does not say where has them on the CPU."""
        device = child.device
        if device is None and self._device is not None:
            device = CPU
        if device is None or td.device == device:
            return td
        return td.to(device, non_blocking=self.non_blocking)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self.is_closed:
            self.start()
        if self._unreset:
            self._check_were_reset(tensordict)
        mask = get(tensordict, STEP)
        on = self._any_row(mask, tensordict)
        if mask is not None:
            self._check_waiting(tensordict, on)
        if all(on) and (beside := self._beside()) is not None:
            return self._step_beside(beside, tensordict)
        stepped: list[Any] = []
        for i, (child, td, go) in enumerate(zip(self.children_envs, split(tensordict), on, strict=True)):
            self._at[0] = i
            try:
                one = get(child.step(self._told(child, td)), "next") if go else None
                stepped.append(self._fitting(i, one) if go and self._checks else one)
            except self._caught as error:
                cut = cut_off(child, td) if self.on_failure == "restart" else td
                self._restarted(i, error, {})
                stepped.append(cut)
        if not all(on):
            still = standing(self, tensordict).unbind(0)
            stepped = [s if one is None else one for one, s in zip(stepped, still, strict=True)]
        return self._stack(stepped)

    def _check_waiting(self, tensordict: TensorDictBase, on: list[bool]) -> None:
        """Raises before any child is stepped if one of them would move rows that are to wait."""
        for i, (child, td, go) in enumerate(zip(self.children_envs, split(tensordict), on, strict=True)):
            if go:
                with self._turn(i):
                    check_waiting(child, td, rows(get(td, STEP), td.ndim))

    def _beside(self) -> Any:
        """What steps the children at once and packs their data; None where each is stepped by itself."""
        children = self.children_envs
        if self._together is None or self._together[0] != children:
            make, ours = type(children[0])._side_by_side, type(children[0]).step is EnvBase.step
            self._together = [*children], make(children) if make is not None and ours else None
        beside = self._together[1]
        if beside is None or self.share_individual_td or self.device is not None:
            return None
        return beside if all(map(beside.is_plain, children)) else None

    def _step_beside(self, beside: Any, td: TensorDictBase) -> TensorDictBase:
        """The "next" data of children that are stepped at once."""
        answers: list[Any] = []
        lost: dict[int, TensorDictBase] = {}
        for i, (child, action) in enumerate(
            zip(self.children_envs, beside.actions(self.children_envs, td), strict=True)
        ):
            self._at[0] = i
            try:
                answers.append(beside.play(child, action))
            except self._caught as error:
                row = split(td)[i]
                lost[i] = cut_off(child, row) if self.on_failure == "restart" else row
                self._restarted(i, error, {})
                answers.append(None)
        if not lost:
            return beside.packed(answers)
        return self._stack([lost[i] if one is None else beside.packed([one])[0] for i, one in enumerate(answers)])

    def _restarted(self, i: int, error: BaseException, options: Options) -> TensorDictBase:
        """What a child that failed starts with after it was made anew; raises the error unless that is asked for."""
        if self.on_failure == "raise":
            error.add_note(f"in env {self._number(i)} of the pool")
            raise error
        self.failures[i] += 1
        with suppress(self._caught):  # it has failed already
            self.children_envs[i].close(raise_if_closed=False)
        self._renew(i)
        return self.children_envs[i].reset(**options)

    def _renew(self, i: int) -> None:
        """Makes a child anew. Its seed is a new one: with the old one it would come to the same end."""
        with self._turn(i):
            child = self._new(i)
            self._loads_again(i, child)
            if (seed := fresh_seed_of(self._seeds[i], int(self.failures[i]))) is not None:
                child.set_seed(seed)
        self.children_envs[i] = child

    def _set_seed(self, seed: int | None) -> None:
        for i, child in enumerate(self.children_envs):
            self._seeds[i] = seed
            with self._turn(i):
                seed = child.set_seed(seed, static_seed=self._static_seed)
        self._last_seed = seed

    def _action_seed(self) -> int:
        return self.children_envs[0].action_stream.seed

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        if self.is_closed:
            self.start()
        return self._stack(self._each(lambda child, td: child.get_state(td), self._parts(tensordict)))

    def _state_of(self, state: TensorDictBase, mask: Tensor, tensordict: TensorDictBase | None) -> TensorDictBase:
        if self.is_closed:
            self.start()
        each = state.unbind(0), mask.unbind(0), self._parts(tensordict)
        return self._stack(self._each(lambda child, s, m, td: child._state_of(s, m, td), *each))

    def _parts(self, tensordict: TensorDictBase | None) -> Sequence[TensorDictBase | None]:
        """The data of each child."""
        return [None] * self.num_workers if tensordict is None else tensordict.unbind(0)

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        if self.is_closed:
            self.start()
        parts = self._each(lambda child, own: child.set_state(own), state.unbind(0))
        self._note_reset()
        return self._stack(parts)

    # --- the children as modules and as objects --------------------------------------------------

    def _load(self, states: list[Any], strict: bool, assign: bool) -> None:
        with followed(self, dict(enumerate(states))):
            self._each(lambda child, own: child.load_state_dict(own, strict=strict, assign=assign), states)

    def _described(self) -> list[Description]:
        return [Description.of(child) for child in self.children_envs]

    def _take_specs(self, children: Sequence[Description]) -> None:
        self._adopt(children)

    def _read_children(self, name: str) -> list[Any] | None:
        if self.is_closed and self._made:
            getattr(self.children_envs[0], name)  # raises before anything starts
        self.start() if self.is_closed else None
        found = self._each(lambda child: getattr(child, name))
        return None if callable(found[0]) else found

    def _call_children(self, name: str, args: tuple[Any, ...], kwargs: Options) -> list[Any]:
        return self._each(lambda child: getattr(child, name)(*args, **kwargs))

    def _set_children(self, name: str, value: Any) -> None:
        self._each(lambda child: setattr(child, name, value)) if self._made else None

    def __getitem__(self, index: Any) -> SerialEnv:
        from marlenv.vector.views import SerialView, numbers

        return SerialView(self, numbers(type(self).__name__, index, self.num_workers))

    def __repr__(self) -> str:
        return f"SerialEnv({self.num_workers} x {self.children_envs[0]!r})"


def written(td: TensorDictBase, rows: list[int], fresh: list[TensorDictBase]) -> TensorDictBase | None:
    """Copies of the entries of ``td`` that ``fresh`` has, with ``fresh`` in some rows; None where shapes differ."""
    data: dict[str, Any] = {}
    places = torch.tensor(rows)
    for name, value in entries(fresh[0]):
        column, old = [get(one, name) for one in fresh], get(td, name)
        if type(value) is Tensor and type(old) is Tensor:
            if any(type(one) is not Tensor or one.shape != old.shape[1:] or one.dtype != old.dtype for one in column):
                return None
            data[name] = old.index_copy(0, places, torch.stack(column))
        elif raw(value) is not None and raw(old) is not None and all(raw(one) is not None for one in column):
            below = written(old, rows, column)
            if below is None:
                return None
            data[name] = below
        else:
            return None
    return new(data, Size((td.batch_size[0], *fresh[0].batch_size)), td.device)
