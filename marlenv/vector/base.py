"""What every vectorised env is: children of one kind side by side along the first batch dimension."""

from __future__ import annotations

import inspect
import os
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, Literal

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase, EnvMetaData
from marlenv.envs.access import SIDE
from marlenv.envs.rollout import stack_steps
from marlenv.envs.seeding import next_seed
from marlenv.envs.stepping import STEP, standing
from marlenv.errors import EnvClosed, NeedsReset, SpecError, SpecTypeError, Unsupported, whole
from marlenv.groups.reset import read_masks
from marlenv.keys import NestedKey
from marlenv.tensordicts import get, lazy, put, rows
from marlenv.vector.attributes import ChildAttributes
from marlenv.vector.protocol import Description
from marlenv.vector.state_dicts import flattened, parted

MakeEnv = Callable[..., EnvBase]
Options = dict[str, Any]


class BatchedEnv(ChildAttributes):
    """Several envs as one, with one more batch dimension in front. Abstract.

    Attributes that a batched env does not have are asked of the children: ``env.gravity`` is a list with one value per
    child, and ``env.some_method(1)`` calls the method of every child and returns the list of answers; setting
    ``env.gravity = 9`` reaches every child.

    ``env[1:3]`` is a pool of some of the children, which stay those of the whole: what is done here is done there.

    The children start with the first reset, step or question, or with :meth:`start`; a pool that was closed starts
    again when it is used.

    Args:
        num_workers: how many children.
        create_env_fn: makes a child; or a list with one such function per child.
        create_env_kwargs: keyword arguments for it; or a list with one dict per child.
        pin_memory: must be False; TorchRL has given it up too.
        share_individual_td: return the data of the children as a lazy stack, each with sizes of its own. When left out,
            that happens where children differ in sizes; False refuses such children.
        shared_memory: keep the data on their way between processes in shared memory.
        memmap: keep them in a memory-mapped file instead; needs ``shared_memory=False``.
        policy_proof: not read; taken as TorchRL takes it.
        device: where the data live; that of the children when left out.
        allow_step_when_done: must be False; TorchRL has given it up too.
        num_threads: threads of this process while child processes run; not read by :class:`SerialEnv`.
        num_sub_threads: threads of each child process; not read by :class:`SerialEnv`.
        serial_for_single: whether :class:`ParallelEnv` makes a :class:`SerialEnv` of one child.
        non_blocking: do not wait for copies between devices.
        mp_start_method: how child processes start; refused by :class:`SerialEnv`.
        use_buffers: whether data travel in memory that is allocated once; when left out, wherever sizes are fixed.
        metadata_from_workers: ask the child processes what they are, and make no child here; refused by
            :class:`SerialEnv`.
        consolidate: taken as TorchRL takes it; data that travel without buffers are one message per process anyway.
        daemon: end child processes with this one, at once.
        shutdown_timeout: seconds that child processes have to close.
        auto_wrap_envs: not read; functions of all kinds can be sent to processes.
        num_processes: how many child processes share the children, each a block of neighbours; as many as children when
            left out.
        timeout: seconds that a child process may take for one answer; any time when left out.
        on_failure: ``"restart"`` makes a child that fails anew, marks its step as truncated and counts it in
            :attr:`failures`; the other children go on untouched.
        backend: where the children of :class:`ParallelEnv` live: ``"process"``, or ``"ray"`` for actors of Ray.
        backend_options: options of Ray's actors, such as ``{"num_cpus": 1}``.
    """

    handles_partial_steps = True
    gives_all_flags = True  # the children have completed theirs
    starts_again = True
    _alike = True
    """Whether children must have the same entries."""
    in_processes = False
    """Whether the children live in processes of their own."""

    def __init__(
        self,
        num_workers: int,
        create_env_fn: MakeEnv | Sequence[MakeEnv],
        *,
        create_env_kwargs: Options | Sequence[Options] | None = None,
        pin_memory: bool = False,
        share_individual_td: bool | None = None,
        shared_memory: bool = True,
        memmap: bool = False,
        policy_proof: Callable[..., Any] | None = None,
        device: torch.device | str | int | None = None,
        allow_step_when_done: bool = False,
        num_threads: int | None = None,
        num_sub_threads: int = 1,
        serial_for_single: bool = False,
        non_blocking: bool = False,
        mp_start_method: str | None = None,
        use_buffers: bool | None = None,
        metadata_from_workers: bool = False,
        consolidate: bool = True,
        daemon: bool = False,
        shutdown_timeout: float = 10.0,
        auto_wrap_envs: bool = True,
        num_processes: int | None = None,
        timeout: float | None = None,
        on_failure: Literal["raise", "restart"] = "raise",
        backend: str = "process",
        backend_options: Options | None = None,
    ) -> None:
        who = type(self).__name__
        whole(who, "num_workers", num_workers, 1)
        gone = {"pin_memory": pin_memory, "allow_step_when_done": allow_step_when_done}
        self._refuse_options(who, on_failure, backend_options, gone)
        here = {"mp_start_method": mp_start_method, "metadata_from_workers": metadata_from_workers}
        self._refuse_for_children_here(who, here)
        seconds = {"timeout": timeout, "shutdown_timeout": shutdown_timeout}
        check_numbers(who, {"num_threads": num_threads, "num_sub_threads": num_sub_threads, **seconds})
        self.num_workers = num_workers
        self.create_env_fn, self.create_env_kwargs = recipes(who, num_workers, create_env_fn, create_env_kwargs)
        self.share_individual_td = self._share_given = share_individual_td
        self.serial_for_single, self.consolidate, self.pin_memory = serial_for_single, consolidate, pin_memory
        self.allow_step_when_done, self.metadata_from_workers = allow_step_when_done, metadata_from_workers
        self.use_buffers, self.shared_memory, self.memmap = use_buffers, shared_memory, memmap
        self.mp_start_method, self.num_threads, self.num_sub_threads = mp_start_method, num_threads, num_sub_threads
        self.non_blocking, self.daemon, self.shutdown_timeout = non_blocking, daemon, float(shutdown_timeout)
        self.auto_wrap_envs, self.timeout, self.on_failure = auto_wrap_envs, timeout, on_failure
        self.backend, self.backend_options, self.policy_proof = backend, dict(backend_options or {}), policy_proof
        self.num_processes = num_workers if num_processes is None else num_processes
        whole(who, "num_processes", self.num_processes, 1, num_workers)
        self._check_memory()
        super().__init__(device=device)
        self.failures = torch.zeros(num_workers, dtype=torch.int64)
        self._given_device, self.is_closed = self.device, True
        self.__dict__.setdefault("_assigned", [{} for _ in range(num_workers)])
        self._describe()

    @staticmethod
    def _refuse_options(who: str, on_failure: str, backend_options: Any, gone: Mapping[str, Any]) -> None:
        if not isinstance(backend_options, Mapping | None):
            raise SpecError(f"{who}: backend_options must be a dict of options, got {backend_options!r}")
        if on_failure not in ("raise", "restart"):
            raise SpecError(f"{who}: on_failure must be 'raise' or 'restart', got {on_failure!r}")
        for name, given in gone.items():
            if given:
                raise SpecError(f"{who}: {name} must be False, got {given!r}; leave it out")

    def _refuse_for_children_here(self, who: str, options: Mapping[str, Any]) -> None:
        for name, given in options.items():
            if given and not self.in_processes:
                raise SpecTypeError(f"{who}: {name} is for child processes, got {given!r}; use ParallelEnv")

    # --- starting and closing --------------------------------------------------------------------

    @abstractmethod
    def _describe(self) -> None:
        """Writes batch size, device and specs; called once, when the pool is made."""

    @abstractmethod
    def _start(self) -> None:
        """Starts the children."""

    @abstractmethod
    def _stop(self) -> None:
        """Closes the children, if there are any."""

    _ended = False

    def start(self) -> None:
        """Starts the children; the first reset or step does it too.

        Raises:
            EnvClosed: they run already.
        """
        if not self.is_closed:
            raise EnvClosed(f"{type(self).__name__}.start: the env runs already; close it first")
        self._start()
        self.is_closed = self._ended = False

    _pid = 0
    """The process whose workers these are."""
    _finalizer: Any = None
    """Ends the workers of a pool that nobody has any more; alive as long as they are."""
    _of_workers: tuple[str, ...] = ("_finalizer",)
    """The attributes that are of no use without the workers; copies do not have them."""

    def __getstate__(self) -> dict[str, Any]:
        if self._finalizer is not None and self._finalizer.alive:
            raise Unsupported(
                f"{type(self).__name__}: its workers run, and cannot be copied or pickled; close it first, or copy "
                f"what makes it"
            )
        return {name: value for name, value in super().__getstate__().items() if name not in self._of_workers}

    @property
    def _forked(self) -> bool:
        """Whether this process is a fork of the one whose workers these are, which hear two voices as one."""
        return self._pid != os.getpid()

    def _refuse_fork(self) -> None:
        """Raises before a fork speaks to workers."""
        if self._forked:
            raise Unsupported(
                f"{type(self).__name__}: its workers belong to process {self._pid}, and this is process {os.getpid()}, "
                f"a fork of it; make the pool in this process, or close() it here and reset it, for workers of its own"
            )

    _ran = False
    _unreset: set[int] = set()  # never changed in place
    """The children of a pool that has ended and runs again, until they are reset or put into a state."""

    def _begin(self) -> None:
        """Notes that the children were started."""
        self._unreset, self._ran = set(range(self.num_workers)) if self._ran else set(), True

    def _note_reset(self, td: TensorDictBase | None = None) -> None:
        """Notes that children were reset: those that masks mark, or all."""
        on = [True] * self.num_workers if td is None else self._marked(td)
        self._unreset = {i for i in self._unreset if not on[i]}

    def _check_were_reset(self, td: TensorDictBase) -> None:
        """Raises if a child is to be stepped that was started again and not reset since."""
        on = self._any_row(get(td, STEP), td)
        self._refuse_unreset("step", [i for i in range(self.num_workers) if on[i]])

    def _refuse_unreset(self, what: str, rows: Sequence[int]) -> None:
        if found := sorted(self._unreset.intersection(rows)):
            raise NeedsReset(
                f"{type(self).__name__}.{what}: the pool has ended, and envs {found} were started again and not reset "
                f"since; call reset() first"
            )

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Closes all children; the pool starts again when it is used.

        Args:
            raise_if_closed: raise where there is nothing to close.

        Raises:
            EnvClosed: the pool was closed already.
            WorkerFailed: a child in a worker raised an error; all are closed. A child in series raises its own.
        """
        again = self._ended
        try:
            self._stop()
        finally:
            self.is_closed = self._ended = True
        if again and raise_if_closed:
            raise EnvClosed(f"{type(self).__name__}.close: the env is closed already; pass raise_if_closed=False")

    def update_kwargs(self, kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Changes keyword arguments of the children; they are used when the pool starts, or starts again.

        Args:
            kwargs: those that change; or a list with one dict per child.

        Raises:
            SpecError: they are something else.
        """
        many = [kwargs] * self.num_workers if isinstance(kwargs, Mapping) else kwargs
        check_dicts(f"{type(self).__name__}.update_kwargs", "kwargs", many, self.num_workers)
        for own, more, assigned in zip(self.create_env_kwargs, many, self._assigned, strict=True):
            own.update(more)
            for name in more:
                assigned.pop(name, None)
        self._on_new_kwargs()

    def _on_new_kwargs(self) -> None:
        """Called when keyword arguments have changed."""

    def configure_parallel(  # type: ignore[override]  # an env that is no pool refuses whatever it is given
        self,
        *,
        use_buffers: bool | None = None,
        shared_memory: bool | None = None,
        memmap: bool | None = None,
        mp_start_method: str | None = None,
        num_threads: int | None = None,
        num_sub_threads: int | None = None,
        non_blocking: bool | None = None,
        daemon: bool | None = None,
        shutdown_timeout: float | None = None,
    ) -> BatchedEnv:
        """Changes how the children run, before they start; what is left out stays. Returns the env.

        Raises:
            EnvClosed: the children run already.
        """
        given = {name: value for name, value in locals().items() if name != "self" and value is not None}
        if not self.is_closed:
            raise EnvClosed(
                f"{type(self).__name__}.configure_parallel: the env runs already; call it before the first reset"
            )
        check_numbers(type(self).__name__, given)
        for name, value in given.items():
            setattr(self, name, value)
        self._check_memory()
        return self

    def _check_memory(self) -> None:
        if self.shared_memory and self.memmap:
            raise SpecError(
                f"{type(self).__name__}: memmap and shared memory are mutually exclusive; pass shared_memory=False"
            )

    # --- what the children are -------------------------------------------------------------------

    @property
    def meta_data(self) -> EnvMetaData:
        """Example data, specs and batch size of the pool."""
        return EnvMetaData.metadata_from_env(self)

    failures: Tensor
    """How often each child failed and was started again; int64 ``[num_workers]``."""

    def _adopt(self, children: Sequence[EnvBase | Description]) -> None:
        """Takes batch size, device and specs from the children, or from what is known of them."""
        first, locked = children[0], self.is_spec_locked
        self.set_spec_lock_(False)
        self._check_alike(children)
        if self._given_device is None:
            self.__dict__["_device"] = first.device
        self.batch_size = (self.num_workers, *first.batch_size)
        for kind in SIDE:
            stacked = torch.stack([getattr(child, f"full_{kind}_spec") for child in children])
            setattr(self, f"full_{kind}_spec", stacked.clone())
        groups = [getattr(child, "group_map", None) for child in children]
        for name in ("group_map", "tree"):
            self.__dict__.pop(name, None)
            if (found := getattr(first, name, None)) is not None and all(one == groups[0] for one in groups):
                setattr(self, name, found)
        self._allow_done_after_reset = True  # the children have looked at theirs
        self.supports_set_state = all(child.supports_set_state for child in children)
        self._remembered = list(first.remembered)
        self._mask_keys = dict(first._mask_keys)
        if self._share_given is None:
            self.share_individual_td = any(unlike(first, child, sizes=False) for child in children)
        self._adopt_names(children)
        self.set_spec_lock_(locked)

    def _on_move(self) -> None:
        self._given_device = self.device

    def _check_alike(self, children: Sequence[EnvBase | Description]) -> None:
        who, first = type(self).__name__, children[0]
        if other := next((child for child in children if child.batch_size != first.batch_size), None):
            raise SpecError(
                f"{who}: all children must have the batch size {list(first.batch_size)}, got {list(other.batch_size)}"
            )
        if self._given_device is None and len(devices := {child.device for child in children}) > 1:
            raise SpecError(
                f"{who}: the children live on {sorted(map(str, devices))}; say by device= where the data are to be"
            )
        for i, child in enumerate(children):
            if says := unlike(first, child, sizes=self._share_given is not False) if self._alike else None:
                raise SpecError(f"{who}: all children must have the same entries, but child {i} {says}")

    @property
    def remembered(self) -> list[NestedKey]:
        """The entries of the data that the transforms of the children go on from."""
        return self._remembered

    # --- data of the children --------------------------------------------------------------------

    def _for_step(self, td: TensorDictBase, *left_out: NestedKey) -> TensorDictBase:
        """What children are told in a step; of what stands under ``"next"`` what their transforms go on from."""
        told, following = td.exclude("next", *left_out), get(td, "next")
        if following is not None and self._remembered:
            held = following.select(*self._remembered, strict=False)
            if not held.is_empty():
                put(told, "next", held)
        return told

    def _stack(self, parts: list[TensorDictBase]) -> TensorDictBase:
        """The data of all children as those of the pool."""
        if self.device is not None:
            parts = [p if p.device == self.device else p.to(self.device, non_blocking=self.non_blocking) for p in parts]
        if self.share_individual_td:
            return lazy(parts, 0)
        try:
            return stack_steps(parts, 0)
        except RuntimeError:
            if not self.plan.dynamic:
                raise
            return lazy(parts, 0)  # children whose entries have different sizes now

    def _any_row(self, mask: Tensor | None, td: TensorDictBase) -> list[bool]:
        """Which children a mask reaches; all of them when there is none."""
        if mask is None:
            return [True] * self.num_workers
        flat = rows(mask, td.ndim)
        return (flat.flatten(1).any(-1) if flat.ndim > 1 else flat).tolist()

    def _marked(self, td: TensorDictBase) -> list[bool]:
        """Which children are reset at all."""
        reached = [self._any_row(mask, td) for mask in read_masks(self.plan.done, td).values()]
        return [any(column) for column in zip(*reached, strict=True)]

    def _reset_options(self, kwargs: Options) -> list[Options]:
        """The keyword arguments of a reset per child; those in ``list_of_kwargs`` are for one child each."""
        own = kwargs.pop("list_of_kwargs", None)
        if own is None:
            return [kwargs] * self.num_workers
        check_dicts(f"{type(self).__name__}.reset", "list_of_kwargs", own, self.num_workers)
        return [{**one, **kwargs} for one in own]

    # --- parameters and buffers of the children --------------------------------------------------

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The parameters and buffers of the children, under ``"worker0"`` and so on; in the state dict of a module that
        the pool is part of, under names that begin so.
        """
        if self.is_closed:
            self.start()
        into, prefix = kwargs.pop("destination", None), kwargs.pop("prefix", "")
        own = OrderedDict((f"worker{i}", one) for i, one in enumerate(self._saved(*args, **kwargs)))
        if into is None and not prefix:
            return own
        into = OrderedDict() if into is None else into
        into.update({prefix + name: value for name, value in flattened(own).items()})
        return into

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Loads what :meth:`state_dict` gave; or what one child gave, into all of them."""
        if self.is_closed:
            self.start()
        names = [f"worker{i}" for i in range(self.num_workers)]
        if names[0] in state_dict and state_dict.keys() != set(names):
            raise SpecError(
                f"{type(self).__name__}.load_state_dict: expected what {self.num_workers} children gave, got "
                f"{sorted(state_dict)}"
            )
        own = [state_dict[name] for name in names] if names[0] in state_dict else [state_dict] * self.num_workers
        self._load(own, strict, assign)

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, local_metadata: Mapping[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Loads the part of a module's state dict that is the pool's: PyTorch asks for it."""
        if self.is_closed:
            self.start()
        own = {name.removeprefix(prefix): value for name, value in state_dict.items() if name.startswith(prefix)}
        states = {f"worker{i}": one for i, one in enumerate(self._saved())}
        known = flattened(states)
        missing_keys += [prefix + name for name in known if name not in own]
        unexpected_keys += [prefix + name for name in own if name not in known]
        parts = [parted(one, own, f"{name}.") for name, one in states.items()]
        try:
            self._load(parts, False, bool(local_metadata.get("assign_to_params_buffers", False)))
        except RuntimeError as error:
            error_msgs.append(str(error))

    def _saved(self, *args: Any, **kwargs: Any) -> list[Any]:
        """What ``state_dict`` of each child gives."""
        return self._call_children("state_dict", args, kwargs)

    @abstractmethod
    def _load(self, states: list[Any], strict: bool, assign: bool) -> None:
        """Loads such a dict into each child."""

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seeds the children along the chain of seeds, each with the seed that the one before it returned.

        Args:
            seed: that of the first child.
            static_seed: give all children this seed.

        Returns:
            The seed that comes after the last child's.
        """
        if self.is_closed:
            self.start()
        self._static_seed = static_seed
        super().set_seed(seed, static_seed)
        return self._last_seed

    _last_seed: int | None = None
    _static_seed = False


def recipes(
    who: str,
    count: int,
    create_env_fn: MakeEnv | Sequence[MakeEnv],
    create_env_kwargs: Options | Sequence[Options] | None,
) -> tuple[list[MakeEnv], list[Options]]:
    """A function and its keyword arguments for each of ``count`` envs."""
    makers = list(create_env_fn) if isinstance(create_env_fn, Sequence) else [create_env_fn] * count
    for odd in [make for make in makers if isinstance(make, EnvBase) or not callable(make)]:
        raise SpecError(f"{who}: create_env_fn must be a function that makes an env, got {type(odd).__name__}")
    given: Any = {} if create_env_kwargs is None else create_env_kwargs
    options = [given] * count if isinstance(given, Mapping) else given
    if len(makers) != count:
        raise SpecError(f"{who}: {count} workers need {count} entries in create_env_fn, got {len(makers)}")
    check_dicts(who, "create_env_kwargs", options, count)
    return makers, [dict(one) for one in options]


def check_dicts(who: str, name: str, given: Any, count: int) -> None:
    """Raises unless keyword arguments are a sequence of one dict per child."""
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise SpecError(f"{who}: {name} must be a list of {count} dicts, one per child, got {given!r}")
    for i, one in enumerate(given):
        if not isinstance(one, Mapping):
            raise SpecError(f"{who}: {name}[{i}] must be a dict of keyword arguments, got {one!r}")
    if len(given) != count:
        raise SpecError(f"{who}: {count} workers need {count} entries in {name}, got {len(given)}")


def check_numbers(who: str, given: Mapping[str, Any]) -> None:
    """Raises where an option that counts threads, or seconds, cannot."""
    if given.get("num_threads") is not None:
        whole(who, "num_threads", given["num_threads"], 1)
    if "num_sub_threads" in given:
        whole(who, "num_sub_threads", given["num_sub_threads"], 1)
    for name in ("timeout", "shutdown_timeout"):
        value, none = given.get(name, 1.0), name == "timeout"
        if value is None and none:
            continue
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not number or not (value > 0 or (value == 0 and not none)):
            above = "above 0, or None for any time" if none else "from 0 on"
            raise SpecError(f"{who}: {name} must be a number of seconds {above}, got {value!r}")


def fresh_seed_of(seed: int | None, failures: int) -> int | None:
    """The seed of an env that is made anew: another one, as the old one would lead to the same end."""
    return None if seed is None else next_seed(seed + (failures << 32))


def made(who: str, make: MakeEnv, options: Options, on_failure: str) -> EnvBase:
    """A child."""
    _check_call(who, make, options)
    child = make(**options)
    if not isinstance(child, EnvBase):
        raise SpecError(f"{who}: create_env_fn must make an env, got {type(child).__name__}")
    if on_failure == "restart":
        child.add_truncated_keys()
    return child


def _check_call(who: str, make: MakeEnv, options: Options) -> None:
    """Raises where a maker does not take the options, or needs more."""
    try:
        asked = inspect.signature(make)
    except (TypeError, ValueError):  # it does not say
        return
    try:
        asked.bind(**options)
    except TypeError as error:
        name = getattr(make, "__qualname__", repr(make))
        given = ", ".join(map(repr, options)) or "no arguments"
        raise SpecError(
            f"{who}: create_env_fn must make an env of {given} (create_env_kwargs), and {name}{asked} cannot: {error}"
        ) from error


def cut_off(env: EnvBase, td: TensorDictBase) -> TensorDictBase:
    """The "next" data of an env that failed in its step: present observations, zero rewards, and cut off."""
    out = standing(env, td).clone()
    for level in env.plan.done.levels:
        if (node := env.plan.done.node(out, level)) is not None:
            before = env.plan.done.done_of(node, level)
            put(node, "truncated", ~before)
            put(node, "done", torch.ones_like(before))
    return out


def unlike(first: EnvBase | Description, other: EnvBase | Description, *, sizes: bool = True) -> str | None:
    """What keeps two envs from standing side by side, or None.

    Args:
        first: an env.
        other: another one.
        sizes: whether entries, and groups, may differ in their sizes.
    """
    for kind in SIDE:
        one, two = (getattr(env, f"full_{kind}_spec") for env in (first, other))
        mine, its = ({*spec.keys(True, True)} for spec in (one, two))
        if mine != its:
            return f"lacks the {kind} entries {_named(mine - its)} of child 0, and adds {_named(its - mine)}"
        for key in one.keys(True):
            a, b = one[key], two[key]
            if len(a.shape) != len(b.shape) or (a.shape != b.shape and not sizes):
                return f"has the shape {list(b.shape)} in its {kind} entry {key!r}, and child 0 has {list(a.shape)}"
            if a.dtype != b.dtype:
                return f"has the dtype {b.dtype} in its {kind} entry {key!r}, and child 0 has {a.dtype}"
    groups = [getattr(env, "group_map", None) for env in (first, other)]
    return None if sizes or groups[0] == groups[1] else f"has the groups {groups[1]}, and child 0 has {groups[0]}"


def _named(keys: set[NestedKey]) -> list[NestedKey]:
    return sorted(keys, key=str)
