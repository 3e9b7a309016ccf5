"""Observations and rewards normalised by running statistics, which are measured while the env is played."""

from __future__ import annotations

import atexit
import copy as copies
import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from tensordict import MemoryMappedTensor, TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.envs.stepping import STEP
from marlenv.errors import ShapeError, SpecError, Unsupported
from marlenv.groups.reset import RESET
from marlenv.keys import NestedKey, beside, last, nested, path
from marlenv.specs import Composite, Stacked, TensorSpec, Unbounded
from marlenv.tensordicts import fetch, rows
from marlenv.transforms.base import Kind, Transform, asked
from marlenv.transforms.compose import Compose
from marlenv.transforms.norm import ObservationNorm

if TYPE_CHECKING:
    from marlenv.envs import EnvBase

try:
    import fcntl
except ImportError:  # on Windows; statistics that processes share are then not locked
    fcntl = None  # type: ignore[assignment]


class _Running(Transform):
    """A transform with running statistics, buffers of the module: ``share_memory()`` shares them. Abstract."""

    NAMES: ClassVar[tuple[str, str, str]]
    """What the three statistics of an entry are called."""
    GIVEN: ClassVar[str]
    """The attribute that holds statistics which the user gave."""
    standard_normal: ClassVar[bool] = True
    one_for_each: ClassVar[bool] = True
    stateful = True

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None,
        out_keys: Sequence[NestedKey] | None,
        lock: Any,
        decay: float,
        eps: float,
    ) -> None:
        super().__init__(in_keys, out_keys)
        if not 0 < decay <= 1:
            raise SpecError(f"{type(self).__name__}: decay must be above 0 and at most 1, got {decay}")
        if eps < 0:
            raise SpecError(f"{type(self).__name__}: eps must not be below 0, got {eps}")
        self.lock, self.decay, self.eps, self.frozen = lock, decay, eps, False
        self._file: str | None = None
        self.levels: list[tuple[str, ...]] = [()]
        self._begun: dict[NestedKey, Any] = {}  # the statistics that were made of specs: of which size, dtype, device

    def join(self, env: EnvBase) -> None:
        """Finds the entries, the flags that govern them, and the statistics that were given."""
        super().join(env)
        self.levels = [level.path for level in env.plan.done.top]
        self._take_given()
        if env.batch_locked and self.stateful:  # else the data say how many rows there are
            self._begin(env)

    def _begin(self, env: EnvBase) -> None:
        """Makes the statistics that there are not yet, so that all copies move the same ones."""
        outputs = (env.full_observation_spec, env.full_reward_spec)
        found = {key: spec[key] for spec in outputs for key in self.in_keys or () if key in spec}
        for key, leaf in found.items():
            if isinstance(leaf, Stacked) or -1 in leaf.shape:
                continue
            form = leaf.shape, leaf.dtype, leaf.device
            old = self._begun.get(key, form)
            if not self._known(key) or (old != form and not self._measured_once(key)):
                self._make(key, leaf.zero(), len(env.batch_size))
                self._begun[key] = form

    def _take_given(self) -> None:
        """Registers the statistics that were given, once the keys are known."""

    def default_in_keys(self, env: EnvBase) -> list[NestedKey]:
        """The floating observations, and the rewards."""
        spec = env.full_observation_spec
        seen = super().default_in_keys(env)
        floating = [key for key in seen if spec[key].dtype is not None and spec[key].dtype.is_floating_point]
        return [*floating, *env.reward_keys]

    def _update(self, value: Tensor, one: Tensor, two: Tensor, count: Tensor, where: Tensor) -> None:
        """Moves the statistics of an entry, in place, by the rows that ``where`` marks, bool ``[*B]``."""
        raise NotImplementedError

    def _loc_scale_of(self, one: Tensor, two: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        """What an entry is normalised with."""
        raise NotImplementedError

    def _start(self, key: NestedKey, value: Tensor, batch_ndim: int) -> list[Tensor]:
        """The statistics of an entry before there are any values."""
        raise NotImplementedError

    def statistics(self, key: NestedKey) -> tuple[Tensor, Tensor, Tensor]:
        """The statistics of an entry.

        Raises:
            SpecError: there are none yet.
        """
        if not self._measured_once(key):
            raise SpecError(f"{type(self).__name__}: nothing is known of {key!r} yet; play a step first")
        return self._held(key)

    def _held(self, key: NestedKey) -> tuple[Tensor, Tensor, Tensor]:
        """The statistics of an entry, of no value perhaps."""
        return tuple(self._buffers[_name(key, name)] for name in self.NAMES)  # type: ignore[return-value]

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return self._normalise(next_tensordict)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._normalise(tensordict_reset, tensordict)

    def _restored(self, tensordict_reset: TensorDictBase) -> TensorDictBase:
        """Normalises what stands after ``set_state``, and measures nothing: it was measured before."""
        frozen, known = self.frozen, all(self._measured_once(key) for key in self._keys()[0])
        self.frozen = frozen or known
        try:
            return self._normalise(tensordict_reset)
        finally:
            self.frozen = frozen

    def _normalise(
        self, td: TensorDictBase, given: TensorDictBase | None = None, mask: Tensor | None = None
    ) -> TensorDictBase:
        """Measures and normalises, in place.

        Args:
            td: what the env answered.
            given: what a reset was given; the rows that are reset are measured.
            mask: of a step, bool ``[*B]``; the rows that are stepped are measured.
        """
        with self._locked():
            for key, new in zip(*self._keys(), strict=True):
                value = fetch(td, key)
                if value is not None:
                    where = self._fresh(key, given, td.batch_size, value.device) if mask is None else mask
                    td.set(new, self._normalised(key, value, where))
        return td

    def _fresh(self, key: NestedKey, given: TensorDictBase | None, batch: Size, device: torch.device) -> Tensor:
        """Which rows of an entry are new; bool ``[*B]``."""
        if given is None:
            return torch.ones(batch, dtype=torch.bool, device=device)
        above = [at for at in self.levels if path(key)[: len(at)] == at] or self.levels
        return asked(given, [nested((*at, RESET)) for at in above], batch, device).any(-1)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        missing = [key for key in self._keys()[0] if fetch(next_tensordict, key) is None]
        if missing and not self.missing_tolerance:
            raise self.no_entry(missing[0], next_tensordict.keys(True, True))
        mask = fetch(tensordict, STEP)
        return self._normalise(next_tensordict, None, None if mask is None else rows(mask, next_tensordict.ndim))

    forward = _call

    def _locked(self) -> AbstractContextManager[Any]:
        if self.lock is not None:
            return self.lock
        return nullcontext() if self._file is None else _alone(self._file)

    def _give(self, key: NestedKey, name: str, held: Tensor) -> None:
        """Takes a statistic that others have too; where it is a file, one of them at a time may touch it."""
        self.register_buffer(_name(key, name), held)
        self._file = getattr(held, "filename", None) or self._file

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, value in destination.items():
            if isinstance(value, MemoryMappedTensor):
                destination[name] = value.clone()  # the file may be gone when it is loaded

    def _known(self, key: NestedKey) -> bool:
        """Whether an entry has statistics."""
        return self._buffers.get(_name(key, self.NAMES[0])) is not None

    def _measured_once(self, key: NestedKey) -> bool:
        """Whether they are of any value."""
        return self._known(key) and bool(self._held(key)[2].any())

    def _make(self, key: NestedKey, value: Tensor, batch_ndim: int) -> None:
        for name, start in zip(self.NAMES, self._start(key, _floating(value), batch_ndim), strict=True):
            self.register_buffer(_name(key, name), start)

    def _normalised(self, key: NestedKey, value: Tensor, where: Tensor) -> Tensor:
        value = _floating(value)
        if not self._known(key):
            self._make(key, value, where.ndim)
        held = self._held(key)
        if value.shape[value.ndim - held[0].ndim :] != held[0].shape:
            self._refuse(key, value.shape, held[0].shape, where.ndim)
        if not self.frozen:
            self._update(value.detach().to(held[0].dtype), *held, where=where)  # statistics are no part of a graph
        loc, scale = self._loc_scale_of(*held)
        return ((value - loc) / scale).to(value.dtype)

    def _refuse(self, key: NestedKey, shape: Size, held: Size, batch_ndim: int) -> None:
        """Raises for statistics that do not fit, unless they broadcast to the values and are not measured any more."""
        extra = len(shape) - len(held)
        fits = extra >= 0 and all(a in (1, b) for a, b in zip(held, shape[extra:], strict=True))
        if fits and self.frozen:
            return
        by_row = held[batch_ndim:] == shape[batch_ndim:]
        advice = "play as many rows as were measured, or measure with reduce_batch_dims=True"
        raise ShapeError(
            f"{type(self).__name__}: the statistics of {key!r} are {list(held)}, and its values {list(shape)}; "
            f"{advice if by_row else 'take statistics of such entries'}"
        )

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Gives the normalised entries no bounds."""
        for key, new in zip(self.in_keys or (), self.out_keys or (), strict=True):
            found = [kind for kind in ("observation", "reward") if key in specs[kind]]
            if not (found or self.missing_tolerance):
                known = [k for kind in ("observation", "reward") for k in specs[kind].keys(True, True)]
                raise self.no_entry(key, known, "the env gives")
            for kind in found:
                specs[kind][new] = _unbounded(specs[kind][key])  # type: ignore[index]

    # --- what users do with the statistics --------------------------------------------------------

    def freeze(self) -> Self:
        """Stops measuring; goes on normalising."""
        self.frozen = True
        return self

    def unfreeze(self) -> Self:
        """Goes on measuring."""
        self.frozen = False
        return self

    def frozen_copy(self) -> Self:
        """A copy with statistics of its own that measures no more, for evaluation."""
        for key in self._keys()[0]:
            self.statistics(key)
        return copies.deepcopy(self).freeze()

    @property
    def loc(self) -> TensorDict:
        """The locations by key."""
        return TensorDict({key: self._loc_scale_of(*self.statistics(key))[0] for key in self._keys()[0]})

    @property
    def scale(self) -> TensorDict:
        """The scales by key."""
        return TensorDict({key: self._loc_scale_of(*self.statistics(key))[1] for key in self._keys()[0]})

    def denorm(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Data as the env gave them; a new tensordict."""
        out = tensordict.copy()
        for key, new in zip(*self._keys(), strict=True):
            value = fetch(out, new)
            if value is not None:
                loc, scale = self._loc_scale_of(*self.statistics(key))
                out.set(key, value * scale + loc)
        return out

    def to_observation_norm(self) -> Any:
        """The same normalisation with the statistics as they are: an :class:`ObservationNorm`, or a chain of them."""
        made = []
        for key, new in zip(*self._keys(), strict=True):
            loc, scale = self._loc_scale_of(*self.statistics(key))
            made.append(ObservationNorm(loc.clone(), scale.clone(), [key], [new], standard_normal=True))
        return Compose(*made) if len(made) > 1 else made[0]

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        mine_alone = None if self.in_keys is None else {_name(k, name) for k in self.in_keys for name in self.NAMES}
        for name, value in state_dict.items():
            own = name[len(prefix) :]
            if mine_alone is not None and own not in mine_alone:
                continue  # statistics of other entries; nn.Module says so
            if name.startswith(prefix) and "." not in own and own.rpartition("|")[2] in self.NAMES:
                mine = self._buffers.get(own)
                if mine is None or mine.shape != value.shape:
                    self.register_buffer(own, value.clone())
        super()._load_from_state_dict(state_dict, prefix, *args)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "lock": None}

    def __deepcopy__(self, memo: Any) -> Self:
        twin = self.clone()
        twin._buffers = {name: None if one is None else one.clone() for name, one in self._buffers.items()}
        twin._file = None
        given = getattr(self, self.GIVEN)
        if given is not None:  # its own are copies of those from now on, in whatever env it is
            taken = all(self._known(key) for key in self.in_keys or ()) and self.in_keys is not None
            whole = given.clone if isinstance(given, TensorDictBase) else partial(copies.deepcopy, given, memo)
            setattr(twin, self.GIVEN, None if taken else whole())
        return twin

    def __repr__(self) -> str:
        return f"{type(self).__name__}(decay={self.decay}, eps={self.eps}, in_keys={self.in_keys})"


@contextmanager
def _alone(file: str) -> Iterator[None]:
    """Holds a file that no other process, and no other thread, holds at the same time."""
    with Path(file).open("rb") as held:
        if fcntl is not None:
            fcntl.flock(held, fcntl.LOCK_EX)  # until it is closed
        yield


def _name(key: NestedKey, name: str) -> str:
    """What a statistic of an entry is called among the buffers."""
    return "|".join((*path(key), name)).replace(".", "_")


def _wide(where: Tensor, value: Tensor) -> Tensor:
    """A bool per row with the dimensions of an entry."""
    return where.reshape((*where.shape, *[1] * (value.ndim - where.ndim)))  # of two numbers: no dimension at all


def _floating(value: Tensor) -> Tensor:
    return value if value.is_floating_point() else value.to(torch.get_default_dtype())


def _unbounded(spec: TensorSpec) -> TensorSpec:
    dtype = spec.dtype if spec.dtype.is_floating_point else torch.get_default_dtype()
    return Unbounded(spec.shape, device=spec.device, dtype=dtype)


class VecNorm(_Running):
    """Normalises observations and rewards by mean and deviation over rows and time; TorchRL's first form.

    Old values count less by ``decay`` with every step. One statistic serves all rows; each agent has its own. Every
    observation is measured once, the first of an episode too: of a partial reset the rows that are reset, and no others
    (TorchRL's measures the others again); of a step those that do not stand still. For gradients, statistics are
    constants.

    Args:
        in_keys: observations and rewards; all floating ones when left out.
        out_keys: where the results go.
        shared_td: statistics to use, ``<key>_sum``, ``<key>_ssq`` and ``<key>_count``; for several processes those of
            :meth:`build_td_for_shared_vecnorm`.
        lock: held while statistics are read and written; of statistics in files the file is locked when left out.
        decay: of the weight of old values, per step.
        eps: the least variance, and deviation.
        shapes: of the statistics, where they are not those of one row.
        new_api: make a :class:`VecNormV2` instead, as in TorchRL.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(9, batch_size=[2]), VecNorm(["observation"], decay=1.0))
    >>> env.rollout(4)["next", "observation"][0].squeeze(-1)
    tensor([1.0000, 1.2247, 1.3416, 1.4142])
    """

    NAMES = ("sum", "ssq", "count")
    GIVEN = "shared_td"

    def __new__(cls, *args: Any, new_api: bool | None = None, **kwargs: Any) -> Any:
        """The transform, or with ``new_api`` the second form of it."""
        return VecNormV2(*args, **kwargs) if new_api else super().__new__(cls)

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        shared_td: TensorDictBase | None = None,
        lock: Any = None,
        decay: float = 0.9999,
        eps: float = 1e-4,
        shapes: Sequence[torch.Size] | None = None,
        new_api: bool | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys, lock, decay, eps)
        self.shapes = None if shapes is None else list(shapes)
        self.shared_td = shared_td
        self._take_given()

    def _take_given(self) -> None:
        if self.shared_td is None or self.in_keys is None:
            return
        for key in self.in_keys:
            for name in self.NAMES:
                where = beside(key, f"{last(key)}_{name}")
                if (held := self.shared_td.get(where, None)) is None:
                    raise self.no_entry(where, self.shared_td.keys(True, True), "shared_td has")
                self._give(key, name, held)

    @staticmethod
    def build_td_for_shared_vecnorm(
        env: EnvBase, keys: Sequence[NestedKey] | None = None, memmap: bool = False
    ) -> TensorDictBase:
        """Statistics that several processes share, for ``shared_td``: in files, which last as long as this process.

        Args:
            env: one of the envs.
            keys: observations and rewards; all floating ones when left out.
            memmap: TorchRL's argument; they are in files in any case.

        >>> shared = VecNorm.build_td_for_shared_vecnorm(marlenv.testing.CountingEnv(), ["observation"])
        >>> sorted(shared.keys()), shared.is_memmap()
        (['observation_count', 'observation_ssq', 'observation_sum'], True)
        """
        zeros, made = env.fake_tensordict(), TensorDict({})
        for key in VecNorm().default_in_keys(env) if keys is None else keys:
            value = fetch(zeros.get("next"), key)
            if value is None:
                raise VecNorm().no_entry(key, zeros.get("next").keys(True, True), "the env gives")
            start = VecNorm([key])._start(key, _floating(value), len(env.batch_size))
            for name, zero in zip(VecNorm.NAMES, start, strict=True):
                made.set(beside(key, f"{last(key)}_{name}"), zero)
        folder = tempfile.mkdtemp(prefix="marlenv-vecnorm-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return made.memmap_(prefix=folder)

    def _start(self, key: NestedKey, value: Tensor, batch_ndim: int) -> list[Tensor]:
        shape = value.shape[batch_ndim:] if self.shapes is None else self.shapes[self._keys()[0].index(key)]
        zero = value.new_zeros(shape)
        return [zero, zero.clone(), value.new_zeros(1, dtype=torch.float32)]

    def _update(self, value: Tensor, one: Tensor, two: Tensor, count: Tensor, where: Tensor) -> None:
        lead, value = tuple(range(value.ndim - one.ndim)), torch.where(_wide(where, value), value, 0)
        for held, new in ((one, value), (two, value.pow(2))):
            held.mul_(self.decay).add_(new.sum(lead) if lead else new)
        count.mul_(self.decay).add_(where.sum())

    def _loc_scale_of(self, one: Tensor, two: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        count = count if one.ndim else count.squeeze()  # a number stays one
        mean = one / count
        return mean, (two / count - mean.pow(2)).clamp_min(self.eps).sqrt().clamp_min(self.eps)


class VecNormV2(_Running):
    """Normalises observations and rewards by moving averages; TorchRL's second form.

    Every observation is measured once, as by :class:`VecNorm`.

    Args:
        in_keys: observations and rewards; all floating ones when left out.
        out_keys: where the results go.
        lock: held while statistics are read and written; of statistics in files the file is locked when left out.
        stateful: keep the statistics in the transform, one for all time; False: in the data, one per row and episode.
        decay: of the weight of old values, per step; 1 averages over all of them.
        eps: the least deviation.
        shared_data: statistics to use: ``loc``, ``var`` and ``count``, tensordicts with the entries' keys.
        reduce_batch_dims: average over rows; else every row has statistics of its own.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(9), VecNormV2(["observation"], decay=1.0))
    >>> env.rollout(4)["next", "observation"].squeeze(-1)
    tensor([1.0000, 1.2247, 1.3416, 1.4142])
    """

    NAMES = ("loc", "var", "vecnorm_count")
    GIVEN = "shared_data"
    MEMORY = tuple(f"_vecnorm_{name}" for name in ("loc", "var", "count"))

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        *,
        lock: Any = None,
        stateful: bool = True,
        decay: float = 0.9999,
        eps: float = 1e-4,
        shared_data: Any = None,
        reduce_batch_dims: bool = False,
    ) -> None:
        super().__init__(in_keys, out_keys, lock, decay, eps)
        if not stateful and (reduce_batch_dims or shared_data is not None):
            raise Unsupported(
                "VecNormV2: stateful=False keeps statistics per row; they are not shared or averaged over rows"
            )
        self.stateful, self.reduce_batch_dims = stateful, reduce_batch_dims
        self.shared_data = shared_data
        self._unmeasured: dict[NestedKey, TensorSpec] = {}  # the statistics in the data, before there are values
        self._batch_ndim = 0
        self._take_given()

    def _take_given(self) -> None:
        for key in self.in_keys or () if self.shared_data is not None else ():
            for mine, theirs in zip(self.NAMES, ("loc", "var", "count"), strict=True):
                held = self.shared_data[theirs].get(key, None)
                if held is None:
                    raise self.no_entry(key, self.shared_data[theirs].keys(True, True), f"shared_data[{theirs!r}] has")
                self._give(key, mine, held)

    def _start(self, key: NestedKey, value: Tensor, batch_ndim: int) -> list[Tensor]:
        together = self.reduce_batch_dims
        zero = value.new_zeros(value.shape[batch_ndim:] if together else value.shape)
        shape = () if together else (*value.shape[:batch_ndim], *[1] * (value.ndim - batch_ndim))
        return [zero, zero.clone(), torch.zeros(shape, dtype=torch.int64, device=value.device)]

    def _update(self, value: Tensor, one: Tensor, two: Tensor, count: Tensor, where: Tensor) -> None:
        lead, wide = tuple(range(value.ndim - one.ndim)), _wide(where, value)
        if lead:
            n = where.sum()
            value = torch.where(wide, value, 0)
        else:
            n = wide.to(torch.int64) if count.ndim else where.any().to(torch.int64)
        count += n
        weight = torch.as_tensor(1 - self.decay ** n.double() if self.decay != 1.0 else n / count.clamp_min(1)).to(
            one.dtype
        )
        for held, new in ((one, value), (two, value.pow(2))):
            held.lerp_(new.sum(lead) / n.clamp_min(1) if lead else torch.where(wide, new, held), weight)

    def _loc_scale_of(self, one: Tensor, two: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        correction = 1 - (count * math.log(self.decay)).exp().to(one.dtype) if self.decay < 1 else 1
        spread = (two - one.pow(2)).clamp_min(0)  # below zero by rounding, where all values are alike
        return one / correction, (spread / correction).sqrt().clamp_min(self.eps)

    # --- statistics in the data -------------------------------------------------------------------

    def memories(self) -> list[NestedKey]:
        """The statistics, where they are in the data, and what is shown by them."""
        if self.stateful:
            return []
        return [*(place for key in self.in_keys or () for place in self._places(key)), *(self.out_keys or ())]

    def _places(self, key: NestedKey) -> list[NestedKey]:
        """Where the statistics of an entry are in the data."""
        return [self.own(nested((name, *path(key)))) for name in self.MEMORY]

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Gives the normalised entries no bounds; adds the statistics where they are in the data."""
        found = {
            key: specs[kind][key]
            for key in self.in_keys or ()
            for kind in ("observation", "reward")
            if key in specs[kind]
        }
        super().respec(specs)
        self._unmeasured, self._batch_ndim = {}, specs["observation"].ndim
        for key, leaf in found.items() if not self.stateful else ():
            made = _unbounded(leaf)
            count = Unbounded(leaf.shape, device=leaf.device, dtype=torch.int64)
            for place, spec in zip(self._places(key), (made, made.clone(), count), strict=True):
                specs["observation"][place] = spec
                self._unmeasured[place] = spec.clone()

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return super()._reset(tensordict, tensordict_reset) if self.stateful else self._measured(tensordict_reset, None)

    def _restored(self, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return super()._restored(tensordict_reset) if self.stateful else self._measured(tensordict_reset, None)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        return (
            super()._step(tensordict, next_tensordict) if self.stateful else self._measured(next_tensordict, tensordict)
        )

    def _measured(self, td: TensorDictBase, before: TensorDictBase | None) -> TensorDictBase:
        """Normalises with statistics that stand in the data of the step before; none before a reset."""
        lead = td.batch_size[: td.ndim - self._batch_ndim]
        for key, new in zip(self.in_keys or (), self.out_keys or (), strict=True):
            wheres = self._places(key)
            held = [None if before is None else fetch(before, where) for where in wheres]
            one, two, count = (
                self._unmeasured[where].zero(lead) if value is None else value
                for where, value in zip(wheres, held, strict=True)
            )
            value = fetch(td, key)
            if value is not None:
                value = _floating(value)
                if not self.frozen:
                    count, new_one = count + 1, value.detach()
                    weight = torch.as_tensor(1 - self.decay) if self.decay != 1.0 else 1 / count
                    one, two = one.lerp(new_one, weight.to(one.dtype)), two.lerp(new_one.pow(2), weight.to(two.dtype))
                loc, scale = self._loc_scale_of(one, two, count)
                td.set(new, (value - loc) / scale)
            for where, made in zip(wheres, (one, two, count), strict=True):
                td.set(where, made.clone() if before is not None and made is fetch(before, where) else made)
        return td
