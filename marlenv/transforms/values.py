"""Transforms of single values: limits, signs, types, and the check that all of them are numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import NotFinite, SpecError, SpecTypeError
from marlenv.groups.reset import RESET
from marlenv.keys import NestedKey, nested, path
from marlenv.specs import Bounded, Composite, Stacked, TensorSpec
from marlenv.tensordicts import fetch, rows
from marlenv.transforms.base import Transform, asked
from marlenv.transforms.names import is_public

if TYPE_CHECKING:
    from marlenv.envs import EnvBase

Keys = Sequence[NestedKey] | None


class ClipTransform(Transform):
    """Cuts numbers to ``[low, high]``: what the env says under ``in_keys``, and what it is told under ``in_keys_inv``.

    Whole numbers stay whole: their limits are the whole numbers between ``low`` and ``high``.

    Args:
        in_keys: observations or rewards.
        out_keys: where the results go.
        in_keys_inv: actions or states.
        out_keys_inv: the same as the outside names them.
        low: the least value; no such limit when left out.
        high: the greatest value, above ``low``.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(), ClipTransform(in_keys=["observation"], high=2))
    >>> env.rollout(4)["next", "observation"].squeeze(-1)
    tensor([1., 2., 2., 2.])
    """

    pure: ClassVar[bool] = True
    low: Tensor | None
    high: Tensor | None

    def __init__(
        self,
        in_keys: Keys = None,
        out_keys: Keys = None,
        in_keys_inv: Keys = None,
        out_keys_inv: Keys = None,
        *,
        low: float | Tensor | None = None,
        high: float | Tensor | None = None,
    ) -> None:
        super().__init__(in_keys or (), out_keys, in_keys_inv, out_keys_inv)
        if low is None and high is None:
            raise SpecTypeError("ClipTransform: give low, high or both")
        for name, limit in (("low", low), ("high", high)):
            made = None if limit is None else torch.as_tensor(limit)
            if made is not None and made.numel() != 1:
                raise SpecTypeError(f"ClipTransform: {name} must be one number, got {list(made.shape)}")
            if made is not None and bool(made.isnan()):
                raise SpecError(f"ClipTransform: {name} must be a number, got nan")
            self.register_buffer(name, made)
        if low is not None and high is not None and low >= high:
            raise SpecError(f"ClipTransform: low must be below high, got {low} and {high}")

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return obs.clamp(*limits_in(self, obs.dtype, self.low, self.high)).to(obs.dtype)

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        return self._apply_transform(state)

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """The spec between the limits.

        Raises:
            SpecTypeError: the entry is of flags.
            SpecError: it is of whole numbers, and none lies between the limits.
        """
        if isinstance(spec, Stacked):
            return super().derive(spec)
        need_values(self, spec.dtype, self.low, self.high)
        return between(spec, self._apply_transform)


def between(spec: TensorSpec, cut: Callable[[Tensor], Tensor]) -> Bounded:
    """The spec of numbers that are cut to limits, in the dtype that the cut gives them.

    >>> between(Unbounded((2,)), lambda x: x.clamp(-1, 1))
    Bounded([2], float32, -1..1)
    """
    ends = torch.finfo(spec.dtype) if spec.dtype.is_floating_point else torch.iinfo(spec.dtype)
    low, high = spec.space if isinstance(spec, Bounded) else (ends.min, ends.max)
    low, high = (cut(torch.as_tensor(end, dtype=spec.dtype, device=spec.device)) for end in (low, high))
    return Bounded(low, high, spec.shape, device=spec.device, dtype=low.dtype)


def limits_in(who: Transform, dtype: torch.dtype, *limits: Tensor | None) -> list[Tensor | None]:
    """The least and the greatest value of a dtype between two limits: of whole numbers, whole and in its range.

    Raises:
        SpecTypeError: the dtype is that of flags.

    >>> limits_in(SignTransform(), torch.uint8, torch.tensor(-0.5), torch.tensor(99.5))
    [tensor(0, dtype=torch.uint8), tensor(99, dtype=torch.uint8)]
    """
    if dtype == torch.bool:
        raise SpecTypeError(
            f"{type(who).__name__}: cuts numbers, got an entry of dtype bool; name others in in_keys, or put "
            f"DTypeCastTransform(torch.bool, torch.float32, in_keys=[...]) before it"
        )
    if dtype.is_floating_point:
        return list(limits)
    made: list[Tensor | None] = []
    for limit, inwards in zip(limits, (torch.ceil, torch.floor), strict=True):
        ends, whole = torch.iinfo(dtype), limit
        if limit is not None and limit.is_floating_point():
            whole = inwards(limit.double()).clamp(ends.min, min(ends.max, 2**63 - 1024))  # the last float64 below 2**63
        made.append(None if whole is None else whole.clamp(ends.min, ends.max).to(dtype))
    return made


def need_values(who: Transform, dtype: torch.dtype, low: Tensor | None, high: Tensor | None) -> None:
    """Raises where no value of a dtype lies between limits.

    Raises:
        SpecError: so it is.
    """
    least, most = limits_in(who, dtype, low, high)
    lower = [(low, least), (most, high), (least, most)]
    if any(bool((a > b).any()) for a, b in lower if a is not None and b is not None):
        raise SpecError(
            f"{type(who).__name__}: no number of dtype {str(dtype).removeprefix('torch.')} lies between the limits, "
            f"{None if low is None else low.tolist()} and {None if high is None else high.tolist()}; widen them"
        )


class SignTransform(Transform):
    """-1, 0 or 1 for negative numbers, zeros and positive numbers.

    Args:
        in_keys: observations or rewards.
        out_keys: where the signs go.
        in_keys_inv: actions or states.
        out_keys_inv: the same as the outside names them.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(), SignTransform(in_keys=["observation"]))
    >>> env.rollout(2)["observation"].squeeze(-1)
    tensor([0., 1.])
    """

    pure: ClassVar[bool] = True

    def __init__(
        self, in_keys: Keys = None, out_keys: Keys = None, in_keys_inv: Keys = None, out_keys_inv: Keys = None
    ) -> None:
        super().__init__(in_keys or (), out_keys, in_keys_inv, out_keys_inv)

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return obs.sign()

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        return self._apply_transform(state)

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """From -1 to 1."""
        if isinstance(spec, Stacked):
            return super().derive(spec)
        return Bounded(-1, 1, spec.shape, device=spec.device, dtype=spec.dtype)


class DTypeCastTransform(Transform):
    """Gives entries of one dtype as another, and turns back what the env is told.

    Args:
        dtype_in: of the env.
        dtype_out: of the outside.
        in_keys: observations and rewards; all of ``dtype_in`` when left out.
        out_keys: where the results go.
        in_keys_inv: actions and states; all of ``dtype_in`` when left out, none where ``in_keys`` are given.
        out_keys_inv: the same as the outside names them.

    >>> cast = DTypeCastTransform(torch.float32, torch.float64, in_keys=["observation"])
    >>> TransformedEnv(marlenv.testing.CountingEnv(), cast).reset()["observation"].dtype
    torch.float64
    """

    pure: ClassVar[bool] = True
    invertible: ClassVar[bool] = True

    def __init__(
        self,
        dtype_in: torch.dtype,
        dtype_out: torch.dtype,
        in_keys: Keys = None,
        out_keys: Keys = None,
        in_keys_inv: Keys = None,
        out_keys_inv: Keys = None,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        for name, given in (("dtype_in", dtype_in), ("dtype_out", dtype_out)):
            if not isinstance(given, torch.dtype):
                raise SpecTypeError(f"{type(self).__name__}: {name} must be a torch.dtype, got {given!r}")
        self.dtype_in, self.dtype_out = dtype_in, dtype_out
        self.finds_inputs = in_keys is None and in_keys_inv is None

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return obs.to(self.dtype_out)

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        return state.to(self.dtype_in)

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """The spec with the other dtype.

        Raises:
            SpecTypeError: the entry has neither of the two.
        """
        self._need(spec, self.dtype_in, self.dtype_out)
        return spec.to(self.dtype_out)

    def _respec_inputs(self, spec: Composite) -> Composite:
        for key in self.in_keys_inv:
            if key in spec:
                self._need(spec[key], self.dtype_in)  # which the env is told
        return super()._respec_inputs(spec)

    def _need(self, spec: TensorSpec, *dtypes: torch.dtype) -> None:
        """Raises unless an entry has one of some dtypes."""
        if spec.dtype not in dtypes:
            raise SpecTypeError(
                f"{type(self).__name__}: casts {self.dtype_in}, got an entry of {spec.dtype}, {spec!r}; name others, "
                f"or another dtype_in"
            )

    def _of_dtype(self, *specs: Composite) -> list[NestedKey]:
        leaves = [(key, leaf) for spec in specs for key, leaf in spec.items(True, True) if is_public(key)]
        return [key for key, leaf in leaves if leaf.dtype == self.dtype_in]

    def default_in_keys(self, env: EnvBase) -> list[NestedKey]:
        """The observations and rewards of the dtype."""
        return self._of_dtype(env.full_observation_spec, env.full_reward_spec)

    def join(self, env: EnvBase) -> None:
        """Finds the entries of the dtype."""
        if self.finds_inputs:
            self.in_keys_inv = self._of_dtype(env.full_action_spec, env.full_state_spec)
            self.out_keys_inv = list(self.in_keys_inv)
        super().join(env)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Casts stored data: what the keys name, or without any all entries of the dtype."""
        if self.in_keys is not None:
            return super().forward(tensordict)
        for key, value in list(tensordict.items(True, True)):
            if isinstance(value, Tensor) and value.dtype == self.dtype_in:
                tensordict.set(key, self._apply_transform(value))
        return tensordict

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dtype_in} -> {self.dtype_out})"


class DoubleToFloat(DTypeCastTransform):
    """Gives float64 as float32, and turns back what the env is told; :class:`DTypeCastTransform`.

    >>> data = TensorDict({"reward": torch.zeros(2, dtype=torch.float64)}, [2])
    >>> DoubleToFloat()(data)["reward"].dtype
    torch.float32
    """

    pure: ClassVar[bool] = True

    def __init__(
        self, in_keys: Keys = None, out_keys: Keys = None, in_keys_inv: Keys = None, out_keys_inv: Keys = None
    ) -> None:
        super().__init__(torch.float64, torch.float32, in_keys, out_keys, in_keys_inv, out_keys_inv)


class FiniteTensorDictCheck(Transform):
    """Raises when the env gives a number that is not finite, or is told such an action, and says where.

    Of a reset the rows that are reset are looked at.

    >>> FiniteTensorDictCheck()(TensorDict({"reward": torch.tensor([0.0, float("nan")])}, [2]))
    Traceback (most recent call last):
    marlenv.errors.NotFinite: FiniteTensorDictCheck: 'reward' is nan in row 1
    """

    def __init__(self) -> None:
        super().__init__()
        self.masks: list[NestedKey] = []
        self.action_keys: list[NestedKey] = []
        self.steps: Tensor | None = None
        """How many steps every row took since its last reset; int64 ``[*B]``."""

    def join(self, env: EnvBase) -> None:
        """Finds the actions, and the masks of resets."""
        super().join(env)
        self.action_keys = list(env.action_keys)
        self.masks = [nested((*level.path, RESET)) for level in env.plan.done.top]
        self.steps = torch.zeros(env.batch_size, dtype=torch.int64, device=env.device)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Looks at all entries of data."""
        return self._checked(tensordict, list(tensordict.keys(True, True)), None, None)

    def _checked(
        self, td: TensorDictBase, keys: Sequence[NestedKey], where: Tensor | None, steps: Tensor | None
    ) -> TensorDictBase:
        """Looks at entries, in the rows that ``where``, bool ``[*B]``, marks."""
        for key in keys:
            value = fetch(td, key)
            for agent, part in enumerate(value if isinstance(value, list) else [value]):
                index = self._odd(part, where)
                if index is not None:
                    number = part[tuple(index)].item()
                    place = [*index[: td.ndim], agent, *index[td.ndim :]] if isinstance(value, list) else index
                    raise self._error(key, number, place, td.ndim, steps)
        return td

    def _odd(self, value: Any, where: Tensor | None) -> list[int] | None:
        """Where the first number that is not finite stands, if there is one."""
        if not isinstance(value, Tensor) or not value.is_floating_point() or bool(value.isfinite().all()):
            return None
        odd = ~value.isfinite()
        odd = odd if where is None else odd & where.reshape((*where.shape, *[1] * (odd.ndim - where.ndim)))
        index: list[int] | None = next(iter(odd.nonzero().tolist()), None)
        return index

    def _error(
        self, key: NestedKey, number: float, index: list[int], batch_ndim: int, steps: Tensor | None
    ) -> NotFinite:
        row = index[:batch_ndim]
        where = [f"row {row[0] if len(row) == 1 else tuple(row)}"] * bool(row)
        group, rest = path(key)[:-1], index[batch_ndim:]
        if group and rest:
            where.append(f"agent {rest.pop(0)} of group {nested(group)!r}")
        where += [f"number {rest[0] if len(rest) == 1 else tuple(rest)}"] * bool(rest)
        step = 0 if steps is None else int(steps[tuple(row)])
        where += [f"step {step} since the last reset"] * bool(step)
        return NotFinite(f"{type(self).__name__}: {key!r} is {number} in {', '.join(where)}")

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        mask = fetch(tensordict, "_step")
        where = None if mask is None else rows(mask, tensordict.ndim)
        return self._checked(tensordict, self.action_keys, where, None if self.steps is None else self.steps + 1)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        where = asked(tensordict, self.masks, tensordict_reset.batch_size, tensordict_reset.device).any(-1)
        if self.steps is not None:
            self.steps = torch.where(where, 0, self.steps)
        return self._checked(tensordict_reset, list(tensordict_reset.keys(True, True)), where, self.steps)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        mask = fetch(tensordict, "_step")
        if self.steps is not None:
            self.steps = self.steps + (1 if mask is None else rows(mask, tensordict.ndim).long())
        return self._checked(next_tensordict, list(next_tensordict.keys(True, True)), None, self.steps)

    def row_state(self) -> Tensor | None:
        """How many steps every row took."""
        return self.steps

    def set_row_state(self, state: Tensor) -> None:
        """Puts that back."""
        self.steps = state


def apply_to_outputs(function: Any) -> Any:
    """Lets a spec hook that is written for one entry edit a composite: what ``in_keys`` name, under ``out_keys``.

    >>> class Half(Transform):
    ...     def _apply_transform(self, obs):
    ...         return obs / 2
    ...     @apply_to_outputs
    ...     def transform_observation_spec(self, observation_spec):
    ...         return Bounded(0, 1, observation_spec.shape)
    >>> env = TransformedEnv(marlenv.testing.CountingEnv(), Half(["observation"]))
    >>> env.observation_spec["observation"]
    Bounded([1], float32, 0..1)
    """

    def hook(self: Transform, spec: TensorSpec) -> TensorSpec:
        if not isinstance(spec, Composite):
            return function(self, spec)
        for old, new in zip(self.in_keys or (), self.out_keys or (), strict=True):
            if old in spec:
                spec[new] = function(self, spec[old].clone())
        return spec

    return hook


def apply_to_inputs(function: Any) -> Any:
    """The same for what goes in: what ``in_keys_inv`` name, under ``out_keys_inv``."""

    def hook(self: Transform, spec: TensorSpec) -> TensorSpec:
        if not isinstance(spec, Composite):
            return function(self, spec)
        for inner, outer in zip(self.in_keys_inv, self.out_keys_inv, strict=True):
            if inner in spec:
                leaf = function(self, spec[inner].clone())
                if inner != outer:
                    del spec[inner]
                spec[outer] = leaf
        return spec

    return hook
