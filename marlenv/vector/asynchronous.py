"""Envs that are stepped each in its own time, while others wait for their actions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, Literal, cast

import torch
from tensordict import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.envs import EnvBase
from marlenv.envs.rollout import stack_steps
from marlenv.envs.stepping import STEP, advance, check_actions, present, standing
from marlenv.errors import BadIndex, ShapeError, SpecError, whole
from marlenv.groups.done import strip
from marlenv.groups.reset import RESET
from marlenv.specs import NonTensor
from marlenv.tensordicts import fetch, get, lazy, shallow
from marlenv.vector.base import MakeEnv, Options
from marlenv.vector.channels import left
from marlenv.vector.protocol import Description
from marlenv.vector.questions import QuestionPool
from marlenv.vector.state_dicts import followed

INDEX = "env_index"
Stack = Literal["dense", "maybe_dense", "lazy"]
STACKS = ("dense", "maybe_dense", "lazy")


class AsyncEnvPool(QuestionPool):
    """Several envs that are stepped each in its own time.

    ``async_step_send`` hands out actions and returns at once; ``async_step_recv`` waits until ``min_get`` envs have
    answered. Data say by ``"env_index"`` which env they are of. ``reset``, ``step`` and ``rollout`` wait for all, and
    give what :class:`SerialEnv` gives.

    Args:
        env_makers: makes an env, or is one (with threads); or a list with one of these per env.
        backend: ``"threading"``, ``"multiprocessing"`` or ``"ray"``.
        stack: how data of several envs are put together: ``"dense"``, ``"lazy"`` for envs of different kinds, or
            ``"maybe_dense"``.
        exchange: taken as TorchRL takes it; data travel as one message per env.
        worker_affinity: the CPUs of each process: a list of them per process, or a function of its number.
        envs_per_worker: how many envs share a process.
        create_env_kwargs: keyword arguments for the makers; or a list with one dict per env.
        mp_start_method: how child processes start.
        timeout: seconds that an env may take for one answer; any time when left out. Threads cannot be ended: one that
            hangs is left to itself.
        on_failure: ``"restart"`` makes an env that fails, or is lost with its worker, anew: its step is marked as
            truncated and counted in :attr:`failures`, and the other envs go on untouched.
        backend_options: options of Ray's actors, such as ``{"num_cpus": 1}``.

    >>> pool = AsyncEnvPool([marlenv.testing.CountingEnv] * 3)
    >>> td = pool.rand_action(pool.reset())
    >>> pool.async_step_send(td[[0, 2]])
    >>> sorted(pool.async_step_recv(min_get=2)["env_index"])
    [0, 2]
    >>> pool.close()
    """

    own_backend: str

    def __new__(cls, *args: Any, backend: str = "threading", **kwargs: Any) -> Any:
        if cls is not AsyncEnvPool:
            return super().__new__(cls, *args, **kwargs)
        if backend not in BACKENDS:
            raise SpecError(f"AsyncEnvPool: backend must be one of {sorted(BACKENDS)}, got {backend!r}")
        return super().__new__(BACKENDS[backend], *args, **kwargs)

    def __init_subclass__(cls, *, backend: str) -> None:
        super().__init_subclass__()
        cls.own_backend = backend
        BACKENDS[backend] = cls

    def __init__(
        self,
        env_makers: MakeEnv | EnvBase | Sequence[MakeEnv | EnvBase],
        *,
        backend: Literal["threading", "multiprocessing", "ray"] = "threading",
        stack: Stack = "dense",
        exchange: Literal["queue", "shm", "auto"] | None = None,
        worker_affinity: Sequence[Sequence[int]] | Callable[[int], Sequence[int]] | None = None,
        envs_per_worker: int = 1,
        create_env_kwargs: Options | Sequence[Options] | None = None,
        mp_start_method: str | None = None,
        timeout: float | None = None,
        on_failure: Literal["raise", "restart"] = "raise",
        backend_options: Options | None = None,
    ) -> None:
        who = type(self).__name__
        makers = list(env_makers) if isinstance(env_makers, Sequence) else [env_makers]
        if stack not in STACKS:
            raise SpecError(f"{who}: stack must be one of {list(STACKS)}, got {stack!r}")
        if exchange not in (None, "queue", "shm", "auto"):
            raise SpecError(f"{who}: exchange must be 'queue', 'shm' or 'auto', got {exchange!r}")
        if not self.in_processes and (exchange == "shm" or envs_per_worker != 1 or worker_affinity is not None):
            raise SpecError(
                f"{who}: exchange='shm', envs_per_worker and worker_affinity are for backend='multiprocessing'"
            )
        once = self.channel.remote or on_failure == "restart"
        if once and (envs := [i for i, maker in enumerate(makers) if isinstance(maker, EnvBase)]):
            raise SpecError(f"{who}: env {envs[0]} is an env; give a function that makes it")
        self.env_makers, self.num_envs, self.min_get = makers, len(makers), 1
        self.stack, self.exchange = stack, exchange or "queue"
        self.envs_per_worker = whole(who, "envs_per_worker", envs_per_worker, 1)
        self.worker_affinity, self._alike = worker_affinity, stack == "dense"
        self._affinity = self._affinities(who)
        envs_given = [maker for maker in makers if isinstance(maker, EnvBase)]
        if len({id(env) for env in envs_given}) < len(envs_given):
            raise SpecError(
                f"{who}: the same env was given twice; give one for each place, or a function that makes it"
            )
        held = [_Held(maker) if isinstance(maker, EnvBase) else maker for maker in makers]
        super().__init__(
            len(makers),
            held,
            create_env_kwargs=create_env_kwargs,
            share_individual_td=None if stack == "dense" else stack == "lazy" or None,
            mp_start_method=mp_start_method,
            timeout=timeout,
            on_failure=on_failure,
            backend=self.own_backend,
            backend_options=backend_options,
        )

    def _affinities(self, who: str) -> list[Sequence[int] | None]:
        workers = -(-self.num_envs // self.envs_per_worker)
        given = self.worker_affinity
        if given is None:
            return [None] * workers
        if not hasattr(os, "sched_setaffinity"):
            raise SpecError(f"{who}: worker_affinity needs os.sched_setaffinity, which only Linux has")
        masks: list[Any] = [given(i) for i in range(workers)] if callable(given) else list(given)
        if len(masks) != workers:
            raise SpecError(f"{who}: worker_affinity must have {workers} lists of CPUs, got {len(masks)}")
        here = os.sched_getaffinity(0)
        for i, mask in enumerate(masks):
            if not mask or (odd := [cpu for cpu in mask if cpu not in here]):
                raise SpecError(
                    f"{who}: worker_affinity[{i}] must be some of the CPUs {sorted(here)}, got {list(mask)}"
                )
            del odd
        return masks

    # --- starting and ending ---------------------------------------------------------------------

    def _adopt(self, children: Any) -> None:
        super()._adopt(children)
        locked = self.is_spec_locked
        self.set_spec_lock_(False)
        states = self.full_state_spec.clone()
        states[INDEX] = NonTensor(self.batch_size, example_data=0)
        self.full_state_spec = states
        self.set_spec_lock_(locked)

    def shutdown(self) -> None:
        """Closes the envs, like :meth:`close`."""
        self.close(raise_if_closed=False)

    @property
    def env_batch_sizes(self) -> list[Size]:
        """The batch size of every env."""
        return list(self._env_batch_sizes)

    @property
    def resolved_exchange(self) -> Literal["queue", "shm"]:
        """How data travel."""
        return "queue"

    exchange_keys: tuple[Any, ...] = ()
    """The keys of data in shared slots; there are none."""

    def stats(self, *, reset: bool = False) -> dict[str, float | int]:
        """Counters of shared slots; there are none."""
        return {}

    # --- all at once -----------------------------------------------------------------------------

    def _on_reset(self, tensordict: TensorDictBase) -> None:
        super()._on_reset(tensordict)
        if self.share_individual_td and tensordict.batch_size == self.batch_size:
            self._indexed(tensordict)  # alike after a reset of some rows, so that steps can be stacked row by row

    def _indexed(self, td: TensorDictBase) -> TensorDictBase:
        own = [NonTensorData(i, batch_size=size) for i, size in enumerate(self._env_batch_sizes)]
        td.set(INDEX, NonTensorStack(*own))
        return td

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        if self.is_closed:
            self.start()
        options = self._reset_options(kwargs)
        if any(options):
            self._ask("check_options", each=[([one],) for one in options])
        if tensordict is None:
            parts = self._ask("reset", each=[(None, {"list_of_kwargs": [one]}) for one in options])
            fresh = self._stack([part[0] for part in parts])
        else:
            on = [i for i, marked in enumerate(self._marked(tensordict)) if marked]
            sent = tensordict.exclude("next", INDEX)
            each = [(_row(sent, i), {"list_of_kwargs": [options[i]]}) for i in on]
            fresh = self._with_rest("reset", on, each, lambda: present(self, tensordict))
        if self._unreset:
            self._note_reset(tensordict)
        return self._indexed(fresh)

    def _reset_rows(self, request: TensorDictBase, tensordict: TensorDictBase) -> TensorDictBase:
        if self.is_closed:
            self.start()
        on = [i for i, marked in enumerate(self._marked(request)) if marked]
        sent = tensordict.exclude("next", INDEX)
        each = [(_row(request, i), _row(sent, i)) for i in on]
        return self._indexed(self._with_rest("reset_rows", on, each, lambda: present(self, tensordict)))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self.is_closed:
            self.start()
        if self._unreset:
            self._check_were_reset(tensordict)
        mask: Tensor | None = get(tensordict, STEP)
        on = [i for i, marked in enumerate(self._any_row(mask, tensordict)) if marked]
        sent = self._for_step(tensordict, INDEX)
        if mask is not None and not self._all_hold_rows:
            self._ask("check_waiting", only=on, each=[(_row(sent, i),) for i in on])
        return self._with_rest("step", on, [(_row(sent, i),) for i in on], lambda: standing(self, tensordict))

    def _with_rest(self, method: str, on: list[int], each: Any, rest: Callable[[], TensorDictBase]) -> TensorDictBase:
        """The answers of some envs among the data of the others."""
        answers = self._ask(method, only=on, each=each)
        if len(on) == self.num_envs:
            return self._stack([part[0] for part in answers])
        rows = list(rest().exclude(INDEX).unbind(0))
        for i, part in zip(on, answers, strict=True):
            rows[i] = part[0]
        return self._stack(rows)

    # --- each in its own time --------------------------------------------------------------------

    def async_step_send(self, tensordict: TensorDictBase, env_index: int | Sequence[int] | None = None) -> None:
        """Hands out actions; returns at once.

        Args:
            tensordict: data with actions of one env or of several, and with ``"env_index"`` where that is not given.
            env_index: the env, or the envs, that the data are of.

        Raises:
            SpecError: an env is named twice, or is still at work.
            BadIndex: there is no such env.
            ShapeError: the data have another batch size.
        """
        self._hand_out("step", tensordict, env_index)

    def async_step_recv(
        self,
        min_get: int | None = None,
        env_index: int | None = None,
        *,
        max_get: int | None = None,
        timeout: float | None = None,
    ) -> TensorDictBase:
        """The data of steps: waits until enough envs have answered.

        Args:
            min_get: how many to wait for; :attr:`min_get` of the pool (1, unless it is changed) when left out. With 0,
                where none has answered yet, no rows come: data of batch size ``[0]``.
            env_index: wait for this env alone; its data come without a dimension in front.
            max_get: how many at most; all that have answered when left out.
            timeout: the seconds to wait.

        Raises:
            SpecError: more are waited for than are at work.
            TimeoutError: too few have answered in time; nothing is lost, they can be received later.
        """
        return self._received("step", min_get, env_index, max_get, timeout)[0]

    def async_step_and_maybe_reset_send(
        self, tensordict: TensorDictBase, env_index: int | Sequence[int] | None = None
    ) -> None:
        """Like :meth:`async_step_send`; what is done is reset at once."""
        self._hand_out("step_and_maybe_reset", tensordict, env_index)

    def async_step_and_maybe_reset_recv(
        self,
        min_get: int | None = None,
        env_index: int | None = None,
        *,
        max_get: int | None = None,
        timeout: float | None = None,
    ) -> tuple[TensorDictBase, TensorDictBase]:
        """The data of steps, and those to go on from; arguments and errors are those of :meth:`async_step_recv`."""
        step, following = self._received("step_and_maybe_reset", min_get, env_index, max_get, timeout)
        return step, following

    def async_reset_send(
        self, tensordict: TensorDictBase | None = None, env_index: int | Sequence[int] | None = None
    ) -> None:
        """Lets envs start anew; returns at once. Arguments and errors are those of :meth:`async_step_send`."""
        if tensordict is None and env_index is None:
            env_index = range(self.num_envs)
        self._hand_out("reset", tensordict, env_index)

    def async_reset_recv(
        self,
        min_get: int | None = None,
        env_index: int | None = None,
        *,
        max_get: int | None = None,
        timeout: float | None = None,
    ) -> TensorDictBase:
        """The data of resets; arguments and errors are those of :meth:`async_step_recv`."""
        return self._received("reset", min_get, env_index, max_get, timeout)[0]

    def _hand_out(self, kind: str, td: TensorDictBase | None, env_index: Any) -> None:
        who = f"{type(self).__name__}.async_{kind}_send"
        if self.is_closed:
            self.start()
        rows = self._addressed(who, td, env_index)
        envs = [i for i, _ in rows]
        self._refuse_busy(who, envs)
        if kind != "reset" and not self.share_individual_td:
            for _, row in rows:
                self._check_actions(cast(TensorDictBase, row))
        if kind != "reset" and self._unreset:
            self._refuse_unreset(f"async_{kind}_send", envs)
        told = [None if row is None else self._for_step(row, INDEX).unsqueeze(0) for _, row in rows]
        asked = {i: None if row is None else shallow(row) for i, row in rows}
        self._tell(kind, envs, kind, [(one, {}) if kind == "reset" else (one,) for one in told])
        self._asked[kind].update(asked)
        if kind == "reset":
            self._unreset = self._unreset.difference(envs)

    def _check_actions(self, row: TensorDictBase) -> None:
        """Raises as a step of the pool does, for data of one env; what fits at first sight is not looked at again."""
        plain = self.device is None and not self.run_type_checks
        for entry in self.plan.actions if plain else ():
            value, spec = fetch(row, entry.path), entry.spec
            if type(value) is not Tensor or value.shape != spec.shape[1:] or value.dtype != spec.dtype:
                plain = False
        if not plain:
            check_actions(self, self.plan, row.expand(self.batch_size))

    def _addressed(
        self, who: str, td: TensorDictBase | None, env_index: Any
    ) -> list[tuple[int, TensorDictBase | None]]:
        """Which env each row of the data is of."""
        if env_index is None:
            assert td is not None
            if INDEX not in td.keys():
                raise SpecError(f"{who}: the data have no entry 'env_index'; give env_index=")
            env_index = td[INDEX]
        while isinstance(env_index, (list, tuple)) and env_index and isinstance(env_index[0], (list, tuple)):
            env_index = [one[0] for one in env_index]
        found = torch.as_tensor(env_index if not isinstance(env_index, range) else list(env_index))
        if not found.numel() and (td is None or td.batch_size[:1] == (0,)):
            return []
        one, numbers = found.ndim == 0, [int(i) for i in found.reshape(-1)]
        if numbers and (found.is_floating_point() or found.dtype == torch.bool):
            raise SpecError(f"{who}: env_index must be integers, got {env_index!r}")
        if odd := [i for i in numbers if not 0 <= i < self.num_envs]:
            raise BadIndex(f"{who}: env_index must be from 0 to {self.num_envs - 1}, got {odd[0]}")
        if len(set(numbers)) < len(numbers):
            twice = sorted({i for i in numbers if numbers.count(i) > 1})
            raise SpecError(f"{who}: each env once, got env_index {twice} more than once")
        if td is None:
            return [(i, None) for i in numbers]
        size = self._env_batch_sizes[numbers[0] if numbers else 0]
        if one and td.batch_size == size:
            return [(numbers[0], td)]
        if td.batch_size != (len(numbers), *size):
            want = list(size) if one else [len(numbers), *size]
            raise ShapeError(
                f"{who}: expected data of batch size {want} for env_index {numbers}, got {list(td.batch_size)}"
            )
        return list(zip(numbers, td.unbind(0), strict=True))

    def _received(
        self,
        kind: str,
        min_get: int | None,
        env_index: int | None,
        max_get: int | None = None,
        timeout: float | None = None,
    ) -> tuple[TensorDictBase, Any]:
        who = f"{type(self).__name__}.async_{kind}_recv"
        ready, asked = self._ready[kind], self._asked[kind]
        until = None if timeout is None else time.monotonic() + timeout
        if env_index is not None:
            if not isinstance(env_index, Integral):
                raise SpecError(
                    f"{who}: env_index must be the number of one env, got {env_index!r}; min_get is for more"
                )
            if env_index not in asked:
                raise SpecError(f"{who}: env {env_index} is not at work; envs {sorted(asked)} are")
            while env_index not in ready:
                self._wait(who, until, 1, 0)
            self._raise_refusals(kind, {env_index}) if self._refusals else None
            return self._composed(kind, int(env_index))
        least = whole(who, "min_get", self.min_get if min_get is None else min_get, 0)
        if max_get is not None:
            whole(who, "max_get", max_get, 1)
        if least > len(asked):
            raise SpecError(f"{who}: cannot wait for {least} envs when {len(asked)} are at work")
        while len(ready) < least:
            self._wait(who, until, least, len(ready))
        self._pump(0) if len(ready) < len(asked) else None
        self._raise_refusals(kind, set(ready)) if self._refusals else None
        taken = sorted(list(ready)[:max_get])
        if not taken:
            nothing = TensorDict({INDEX: NonTensorData([], batch_size=[0])}, [0], device=self.device)
            return nothing, nothing.copy()
        pairs = [self._composed(kind, i) for i in taken]
        steps, following = zip(*pairs, strict=True)
        return self._together(list(steps)), None if following[0] is None else self._together(list(following))

    def _wait(self, who: str, until: float | None, least: int, have: int) -> None:
        seconds = left(until)
        if seconds == 0 and have < least:
            self._pump(0)
            if left(until) == 0 and not any(self._ready.values()):
                raise TimeoutError(f"{who}: {have} of {least} envs have answered in time; receive them later")
        before = sum(map(len, self._ready.values()))
        self._pump(seconds)
        if left(until) == 0 and sum(map(len, self._ready.values())) == before:
            raise TimeoutError(f"{who}: {have} of {least} envs have answered in time; receive them later")

    def _composed(self, kind: str, i: int) -> tuple[TensorDictBase, Any]:
        """What was sent with what was answered."""
        said, sent = self._ready[kind].pop(i), self._asked[kind].pop(i)
        size = self._env_batch_sizes[i]
        number = NonTensorData(i, batch_size=size)
        if kind == "reset":
            fresh = said[0] if self.device is None else said[0].to(self.device)
            if sent is not None:
                strip(sent, RESET)
                fresh = sent.update(fresh)
            return fresh.set(INDEX, number), None
        data = TensorDict({}, size) if sent is None else sent
        if kind == "step":
            return data.set("next", said[0]).set(INDEX, number), None
        following, root = said
        data = data.set("next", following[0]).set(INDEX, number)
        after = advance(data, self.plan.reward_tree)
        if root is not None:
            after.update(root[0])
        return data, after

    def _together(self, parts: list[TensorDictBase]) -> TensorDictBase:
        if self.stack == "lazy":
            return lazy(parts, 0)
        if self.stack == "maybe_dense":
            return LazyStackedTensorDict.maybe_dense_stack(parts, 0)
        return stack_steps(parts, 0)

    # --- seeds, states, attributes ---------------------------------------------------------------

    def _set_seed(self, seed: int | None) -> None:
        for i in range(self.num_envs):
            seed, (self._seeds[i],) = self._ask("seed", seed, self._static_seed, only=[i])[0]
        self._last_seed = seed

    def _action_seed(self) -> int:
        if self.is_closed:
            self.start()
        return self._ask("action_seed", only=[0])[0]

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        if self.is_closed:
            self.start()
        rows = [None if tensordict is None else _row(tensordict.exclude(INDEX), i) for i in range(self.num_envs)]
        return self._stack([part[0] for part in self._ask("get_state", each=[(row,) for row in rows])])

    def _state_of(self, state: TensorDictBase, mask: Tensor, tensordict: TensorDictBase | None) -> TensorDictBase:
        if self.is_closed:
            self.start()
        tds = [None if tensordict is None else _row(tensordict.exclude(INDEX), i) for i in range(self.num_envs)]
        each = [(_row(state, i), mask[i : i + 1].cpu(), td) for i, td in enumerate(tds)]
        return self._stack([part[0] for part in self._ask("state_of", each=each)])

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        if self.is_closed:
            self.start()
        parts = self._ask("set_state", each=[(_row(state, i),) for i in range(self.num_envs)])
        self._cut.clear()
        self._note_reset()
        return self._indexed(self._stack([part[0] for part in parts]))

    def _load(self, states: list[Any], strict: bool, assign: bool) -> None:
        with followed(self, dict(enumerate(states))):
            self._ask("load", each=[([own], strict, assign) for own in states])

    def _described(self) -> list[Description]:
        return [one for part in self._ask("described") for one in part]

    def _take_specs(self, children: Sequence[Description]) -> None:
        self._adopt(children)

    def _read_children(self, name: str) -> list[Any] | None:
        self.start() if self.is_closed else None
        answers = self._ask("get", name)
        return None if answers[0] is None else [one for part in answers for one in part]

    def _call_children(self, name: str, args: tuple[Any, ...], kwargs: Options) -> list[Any]:
        return [one for part in self._ask("call", name, args, kwargs) for one in part]

    def _set_children(self, name: str, value: Any) -> None:
        self._ask("set", name, value) if self._channels else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_size={list(self.batch_size)}, stack={self.stack!r})"


BACKENDS: dict[str, type[AsyncEnvPool]] = {}
"""The classes of pools by their backends; each adds itself."""


class _Held:
    """Gives an env that was made before, once."""

    def __init__(self, env: EnvBase) -> None:
        self.env = env

    def __call__(self, **_: Any) -> EnvBase:
        return self.env


def _row(td: TensorDictBase, i: int) -> TensorDictBase:
    return td[i : i + 1]
