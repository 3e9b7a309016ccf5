"""Transforms of actions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from marlenv.constants import constant
from marlenv.errors import KeyMissing, ShapeError, SpecError, SpecTypeError, nearest_first, whole
from marlenv.groups import open_rows
from marlenv.keys import NestedKey, nested
from marlenv.specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    TensorSpec,
    Unbounded,
)
from marlenv.specs.discrete import Discrete, one_hot, pick
from marlenv.tensordicts import fetch, write
from marlenv.transforms.base import Kind, Transform
from marlenv.transforms.streams import DrawingActions

if TYPE_CHECKING:
    from marlenv.envs import EnvBase


class ActionMask(Transform):
    """Keeps the mask of the action spec up to date with the mask that the env emits.

    ``env.rand_action`` reads emitted masks by itself; this is for policies and scripts that draw from
    ``env.action_spec``.

    Args:
        action_key: a discrete action.
        mask_key: the mask of its legal values, bool ``[*B, ..., n]``: an observation, or a state that the env gives
            with every step; that is an observation from here on, too.

    >>> env = TransformedEnv(marlenv.testing.MaskedEnv(), ActionMask())
    >>> td = env.reset()
    >>> bool(td["action_mask"].gather(-1, env.action_spec.rand().unsqueeze(-1)).all())
    True
    """

    def __init__(self, action_key: NestedKey = "action", mask_key: NestedKey = "action_mask") -> None:
        super().__init__(in_keys=[action_key, mask_key], out_keys=[action_key, mask_key])
        self.action_key, self.mask_key = action_key, mask_key

    @property
    def action_spec(self) -> TensorSpec:
        """The spec of the action, whose mask is kept up to date; known once it belongs to an env."""
        if self.container is None:
            raise SpecError("ActionMask.action_spec: belongs to no env; make TransformedEnv(env, ActionMask()) first")
        spec: TensorSpec = self.container.full_action_spec[self.outer_key]
        return spec

    def join(self, env: EnvBase) -> None:
        """Finds the name that later transforms give to the action."""
        super().join(env)
        self.outer_key = self.container.name_outside(self, self.action_key)

    def mask_keys(self) -> dict[NestedKey, NestedKey]:
        """The mask, whatever it is called.

        Raises:
            SpecError: later transforms leave no such action, or rows that the mask does not fit.
        """
        rows, inner = self.container.batch_size, self._rows
        if rows[len(rows) - len(inner) :] != inner:
            raise SpecError(
                f"ActionMask: later transforms give the env the batch size {list(rows)}, and its mask has "
                f"{list(inner)}; put ActionMask after them"
            )
        if self.outer_key not in self.container.full_action_spec:
            known = list(self.container.full_action_spec.keys(True, True))
            raise SpecError(
                f"ActionMask: later transforms leave no action {self.outer_key!r}, whose mask to keep, but {known}; "
                f"put ActionMask after them"
            )
        self.wider = self._projections()
        return {self.outer_key: self.memory_of(self.mask_key)}

    def overwrites(self, key: NestedKey) -> bool:
        """Nothing: masks are read."""
        return False

    def _projections(self) -> list[DiscreteActionProjection]:
        """The later transforms that give the action more values than the mask has."""
        key, found = self.action_key, []
        for leaf in self.container._around(self)[1]:
            if isinstance(leaf, DiscreteActionProjection) and leaf.in_keys_inv == [key]:
                found.append(leaf)
            key = dict(zip(leaf.in_keys_inv, leaf.out_keys_inv, strict=False)).get(key, key)
        return found

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Checks that there is a discrete action and a mask."""
        action, seen, state = specs["action"], specs["observation"], specs["state"]
        asked = ("action", self.action_key, [action]), ("observation or state", self.mask_key, [seen, state])
        for what, key, places in asked:
            if not any(key in place for place in places):
                known = [one for place in places for one in place.keys(True, True)]
                raise KeyMissing(f"ActionMask: no {what} entry {key!r}; the env has {nearest_first(key, known)}")
        spec = action[self.action_key]
        if not isinstance(spec, Discrete) or "mask" not in spec.params:
            raise SpecError(f"ActionMask: the action must be discrete with a mask, got {spec!r}")
        if self.mask_key not in seen:
            seen[self.mask_key] = state[self.mask_key].clone()
        self._rows = specs["observation"].shape
        self.kept_key = self.memory_of(self.mask_key)
        if self.kept_key != self.mask_key:
            specs["observation"][self.kept_key] = specs["observation"][self.mask_key].clone()

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        self._keep(next_tensordict)
        self._on_reset(next_tensordict)
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase | None, tensordict_reset: TensorDictBase) -> TensorDictBase:
        self._keep(tensordict_reset)  # the mask is read when kept and reset rows are merged
        return tensordict_reset

    def _keep(self, td: TensorDictBase) -> None:
        """Writes the mask where it still stands after later transforms, in place."""
        if self.kept_key != self.mask_key:
            write(td, self.kept_key, fetch(td, self.mask_key).clone())

    def _on_reset(self, tensordict: TensorDictBase) -> None:
        mask = fetch(tensordict, self.kept_key).bool()
        for projection in self.wider:
            mask = projection.widened(mask)
        self.container.full_action_spec[self.outer_key].update_mask(open_rows(mask))


class ActionDiscretizer(DrawingActions):
    """Lets a continuous action be chosen from intervals: the outside gives their numbers.

    Args:
        num_intervals: into how many intervals every number of the action is cut; or one count for each number.
        action_key: an action of the env between finite bounds.
        out_action_key: the action that the outside gives; ``action_key`` when left out.
        sampling: which value of an interval is played: ``ActionDiscretizer.SamplingStrategy.MEDIAN`` (when left out),
            ``LOW``, ``HIGH`` or ``RANDOM``.
        categorical: numbers of intervals; False takes them one-hot, one after the other.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(), ActionDiscretizer(4))
    >>> env.action_spec, env.transform.inv(TensorDict({"action": torch.tensor([3])}))["action"]
    (MultiCategorical([1], int64, n=4), tensor([0.7500]))
    """

    class SamplingStrategy(IntEnum):
        """Which value of an interval is played."""

        MEDIAN = 0
        LOW = 1
        HIGH = 2
        RANDOM = 3

    def __init__(
        self,
        num_intervals: int | Tensor,
        action_key: NestedKey = "action",
        out_action_key: NestedKey | None = None,
        sampling: ActionDiscretizer.SamplingStrategy | None = None,
        categorical: bool = True,
    ) -> None:
        super().__init__(in_keys_inv=[action_key], out_keys_inv=[out_action_key or action_key])
        if not isinstance(num_intervals, Tensor):
            num_intervals = torch.tensor(whole("ActionDiscretizer", "num_intervals", num_intervals, 1))
        self.num_intervals: Tensor = num_intervals
        if bool((self.num_intervals < 1).any()):
            raise SpecError(f"ActionDiscretizer: num_intervals must be 1 or more, got {num_intervals}")
        self.sampling = self.SamplingStrategy.MEDIAN if sampling is None else self.SamplingStrategy(sampling)
        self.categorical = categorical

    def transform_action_spec(self, action_spec: Composite) -> Composite:
        """Puts choices in place of the action, and notes its bounds."""
        inner, outer = self.in_keys_inv[0], self.out_keys_inv[0]
        if inner not in action_spec:
            raise self.no_entry(inner, action_spec.keys(True, True), "the actions are")
        spec = action_spec[inner]
        if not isinstance(spec, Bounded):
            raise SpecTypeError(f"ActionDiscretizer: the action must be Bounded, got {spec!r}")
        need_floats(self, spec)
        if not has_width(spec):
            raise SpecError(
                f"ActionDiscretizer: the action must have finite bounds, and ranges between them that are finite, "
                f"got {spec!r}"
            )
        self.low, self.high = spec.space
        self.single = single = spec.ndim == action_spec.ndim
        if self.num_intervals.numel() not in (1, 1 if single else spec.shape[-1]):
            raise SpecError(
                f"ActionDiscretizer: num_intervals must be one number, or one for each of the {spec.shape[-1]} numbers "
                f"of the action, got {self.num_intervals.tolist()}"
            )
        self.nvec = self.num_intervals.reshape(-1) if single else self.num_intervals.expand(spec.shape[-1])
        device = spec.device
        self.counts = self.nvec.tolist()
        self.units = torch.stack([self._units(n) for n in self.counts]).to(device)
        if single:
            made: TensorSpec = (Categorical if self.categorical else OneHot)(self.counts[0])
        elif self.categorical:
            made = MultiCategorical(self.nvec, (len(self.nvec),), remove_singleton=False)
        else:
            made = MultiOneHot(self.counts)
        lead = spec.shape if single else spec.shape[:-1]
        del action_spec[inner]
        action_spec[outer] = made.to(device).expand(*lead, *made.shape)
        return action_spec

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        if not self.categorical:
            sizes = [self.counts[0]] if self.single else self.counts
            self.check_one_hot(self.out_keys_inv[0], state, sizes)
            state = torch.stack([which_is_one(part) for part in state.split(sizes, -1)], -1)
        if self.single:
            state = state.reshape(state.shape[: self.low.ndim])
        odd = (state < 0) | (state >= self.nvec)
        if state.is_floating_point() or (state.is_cpu and bool(odd.any())):  # elsewhere the device itself says so
            raise SpecError(
                f"ActionDiscretizer: {self.out_keys_inv[0]!r} must be numbers of intervals, of which there are "
                f"{self.counts}, got {state.tolist()}"
            )
        number = 0 if self.single else torch.arange(len(self.counts), device=self.low.device)
        unit = self.units[number, state.long()]
        if self.sampling == self.SamplingStrategy.RANDOM:
            counts = constant(self.counts[0] if self.single else self.counts, unit.device, unit.dtype)
            unit = unit + self.stream.uniform(shape=state.shape[len(self.stream.rows) :]) / counts
        played = (self.low + unit * (self.high - self.low)).to(self.low.dtype)
        return played.clamp(self.low, self.high)  # which it may miss by a rounding

    def _units(self, n: int) -> Tensor:
        """Where in its range, from 0 to 1, every one of ``n`` intervals is played."""
        lower = torch.arange(n, dtype=self.low.dtype) / n
        upper = (1 - lower).flip(0)
        kinds = {self.SamplingStrategy.MEDIAN: (lower + upper) / 2, self.SamplingStrategy.HIGH: upper}
        return nn.functional.pad(kinds.get(self.sampling, lower), (0, max(self.counts) - n))

    def __repr__(self) -> str:
        return f"ActionDiscretizer({self.num_intervals.tolist()}, action_key={self.in_keys_inv[0]!r})"


class ActionScaling(Transform):
    """Lets a bounded action be given between -1 and 1, or 0 and 1.

    Args:
        in_keys_inv: one action of the env; ``"action"`` when left out.
        out_keys_inv: the action as the outside names it.
        in_keys: the action in stored data, which ``forward`` scales.
        out_keys: where the results go.
        loc: the middle; of the bounds when left out.
        scale: half of the width; of the bounds when left out.
        standard_normal: between -1 and 1; False: between 0 and 1.

    >>> env = TransformedEnv(marlenv.PendulumEnv(), ActionScaling())
    >>> env.action_spec, env.transform.inv(TensorDict({"action": torch.tensor([0.5])}))["action"]
    (Bounded([1], float32, -1..1), tensor([1.]))
    """

    invertible: ClassVar[bool] = True
    monotone: ClassVar[bool] = True

    def __init__(
        self,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        *,
        loc: Tensor | float | None = None,
        scale: Tensor | float | None = None,
        standard_normal: bool = True,
    ) -> None:
        keys = ["action"] if in_keys_inv is None else in_keys_inv
        super().__init__(in_keys or keys, out_keys, keys, out_keys_inv)
        if len(self.in_keys_inv) > 1:
            raise SpecError(f"ActionScaling: scales one action, got {self.in_keys_inv}; compose several")
        if (loc is None) != (scale is None):
            raise SpecError("ActionScaling: loc and scale go together; give both or none")
        if loc is None and not self.in_keys_inv:
            raise SpecError(
                "ActionScaling: in_keys_inv=[] needs loc and scale, since there is no spec to read them from"
            )
        self.given = loc is not None
        self.dtype: torch.dtype | None = None  # of the env's action
        for name in ("low", "high"):  # its bounds, where they say loc and scale
            self.register_buffer(name, None, persistent=False)
        self.standard_normal = standard_normal
        for name, value in (("loc", loc), ("scale", scale)):
            made = None if value is None else torch.as_tensor(value)
            self.register_buffer(name, made if made is None or made.is_floating_point() else made.float())
        if self.scale is not None and bool((self.scale == 0).any()):
            raise SpecError("ActionScaling: scale must not be 0")

    @property
    def initialized(self) -> bool:
        """Whether the middle and the width are known."""
        return self.loc is not None

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict  # actions are given, not answered

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """As it is."""
        return observation_spec

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Nothing more than the bounds of the action."""
        there = not self.in_keys_inv or self.out_keys_inv[0] in specs["action"]
        if not (there or self.missing_tolerance):
            raise self.no_entry(self.in_keys_inv[0], specs["action"].keys(True, True), "the actions are")

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """The scaled bounds."""
        self.dtype = spec.dtype
        if not isinstance(spec, Bounded) or not all(bool(end.isfinite().all()) for end in spec.space):
            if self.given and spec.dtype.is_floating_point:
                return Unbounded(spec.shape, device=spec.device, dtype=spec.dtype)
            raise SpecError(f"ActionScaling: the action must have finite bounds, got {spec!r}; or give loc and scale")
        need_floats(self, spec)
        low, high = spec.space
        if not self.given:
            fixed = high == low  # as numbers that only pad
            if bool((high < low).any() | fixed.all()) or not has_width(spec):
                raise SpecError(
                    f"ActionScaling: the action must have finite bounds, the upper above the lower, and ranges "
                    f"between them that are finite, got {spec!r}"
                )
            least = -1.0 if self.standard_normal else 0.0
            self.scale = torch.where(fixed, 1.0, (high - low) / 2).to(low.dtype)
            self.loc = torch.where(fixed, low + least + 1, (high + low) / 2).to(low.dtype)
            self.low, self.high = low, high
            low, high = (torch.where(fixed, 0.0, end).to(low.dtype) for end in (least, 1.0))
            return Bounded(low, high, spec.shape, device=spec.device, dtype=spec.dtype)
        return super().derive(spec)

    def _apply_transform(self, obs: Tensor) -> Tensor:
        self._check(obs)
        scaled = (obs - self.loc) / self.scale
        return scaled if self.standard_normal else (scaled + 1) / 2

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        self._check(state)
        unit = state if self.standard_normal else state * 2 - 1
        told = unit * self.scale + self.loc
        if self.low is not None:  # which -1 and 1 may miss by a rounding
            told = torch.where(unit.abs() <= 1, told.clamp(self.low, self.high), told)
        return told if self.dtype is None else told.to(self.dtype)

    def _check(self, action: Tensor) -> None:
        if self.loc is None:
            raise SpecError(
                "ActionScaling: loc and scale are not known yet; give them, or put the transform into an env"
            )
        if self.loc.numel() > 1 and action.shape[-1:] != self.loc.shape[-1:]:
            raise ShapeError(
                f"ActionScaling: the action must have {self.loc.shape[-1]} numbers, got {list(action.shape)}"
            )

    def normalize(self, action: Tensor) -> Tensor:
        """An action of the env as the outside gives it."""
        return self._apply_transform(action)

    def denormalize(self, action: Tensor) -> Tensor:
        """An action of the outside as the env takes it."""
        return self._inv_apply_transform(action)

    @classmethod
    def from_stats(
        cls, *, mean: Any = None, std: Any = None, low: Any = None, high: Any = None, eps: float = 1e-6, **kwargs: Any
    ) -> Self:
        """From statistics of stored actions: mean and standard deviation, or bounds."""
        if (mean is None) != (std is None) or (low is None) != (high is None) or (mean is None) == (low is None):
            raise SpecError("ActionScaling.from_stats: give mean and std, or low and high")
        first, second = (
            torch.as_tensor(x, dtype=torch.get_default_dtype()) for x in ((mean, std) if low is None else (low, high))
        )
        loc, scale = (first, second) if low is None else ((first + second) / 2, (second - first) / 2)
        if loc.shape != scale.shape:
            raise ShapeError(
                f"ActionScaling.from_stats: both must have one shape, got {list(loc.shape)} and {list(scale.shape)}"
            )
        return cls(loc=loc, scale=scale.clamp_min(eps), **kwargs)


def need_floats(who: Transform, spec: TensorSpec) -> None:
    """Raises unless an action is of floating numbers.

    Raises:
        SpecTypeError: it is not.
    """
    if not (isinstance(spec.dtype, torch.dtype) and spec.dtype.is_floating_point):
        raise SpecTypeError(f"{type(who).__name__}: the action must be of floating numbers, got {spec!r}")


def has_width(spec: Bounded) -> bool:
    """Whether all bounds, and the ranges between them, are finite numbers below the dtype's greatest."""
    low, high = spec.space
    most = torch.finfo(spec.dtype).max
    return bool(((high - low).isfinite() & (low.abs() < most) & (high.abs() < most)).all())


def which_is_one(vectors: Tensor) -> Tensor:
    """The places of the ones in one-hot vectors; int64 ``[...]``.

    >>> which_is_one(torch.tensor([0.0, 0.9999999]))  # of a straight-through sample
    tensor(1)
    """
    return (vectors.to(torch.uint8) if vectors.dtype == torch.bool else vectors).argmax(-1)


class DiscreteActionProjection(DrawingActions):
    """Lets an env with few actions be played by a policy with more; numbers beyond the few are drawn among them.

    Where the env emits a mask of the few, they are drawn among those that are legal, and the mask gets a True for every
    number beyond.

    Args:
        num_actions_effective: how many actions the env has.
        max_actions: how many the policy has.
        action_key: a one-hot action.
        include_forward: widen actions in stored data.

    >>> wide = DiscreteActionProjection(2, 4)
    >>> wide.inv(TensorDict({"action": torch.tensor([0, 1, 0, 0])}))["action"]
    tensor([0, 1])
    """

    def __init__(
        self,
        num_actions_effective: int,
        max_actions: int,
        action_key: NestedKey = "action",
        include_forward: bool = True,
    ) -> None:
        super().__init__([action_key] if include_forward else [], None, [action_key])
        self.num_actions_effective = whole(
            "DiscreteActionProjection", "num_actions_effective", num_actions_effective, 1
        )
        self.max_actions = whole("DiscreteActionProjection", "max_actions", max_actions, num_actions_effective)
        self.mask_key: NestedKey | None = None
        self.dtype: torch.dtype | None = None  # of the env's action
        self._legal: Tensor | None = None

    def join(self, env: EnvBase) -> None:
        """Finds the mask of the action."""
        super().join(env)
        self.mask_key = self._mask_in(env)

    def _mask_in(self, env: EnvBase) -> NestedKey | None:
        """Where the mask of the action stands, by ``ActionMask``, the env below, or its name; None where it has none.

        It has a flag for every number of the action.
        """
        key = self.in_keys_inv[0]
        spec, told = env.full_action_spec.get(key, None), dict(self.container.base_env._mask_keys)
        for leaf in self.container._around(self)[0]:
            if isinstance(leaf, ActionMask):
                told[leaf.action_key] = leaf.mask_key
        named = [nested(entry.mask) for entry in env.plan.actions if entry.key == key and entry.mask is not None]
        for mask_key in [told[key]] if key in told else named:
            mask = env.full_observation_spec.get(mask_key, None)
            if spec is not None and mask is not None and mask.shape == spec.shape:
                return mask_key
        return None

    def overwrites(self, key: NestedKey) -> bool:
        """What it writes, and the mask."""
        return super().overwrites(key) or key == self.mask_key

    def mask_keys(self) -> dict[NestedKey, NestedKey]:
        """The mask of all numbers."""
        if self.mask_key is None:
            return {}
        return {self.container.name_outside(self, self.in_keys_inv[0]): self.memory_of(self.mask_key)}

    def widened(self, mask: Tensor) -> Tensor:
        """The mask ``[..., max_actions]`` of one ``[..., num_actions_effective]``."""
        more = mask.new_ones((*mask.shape[:-1], self.max_actions - self.num_actions_effective))
        return torch.cat((mask, more), -1)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        mask = None if self.mask_key is None else fetch(next_tensordict, self.mask_key)
        if self.mask_key is not None and mask is not None:
            for key in dict.fromkeys((self.mask_key, self.memory_of(self.mask_key))):
                write(next_tensordict, key, self.widened(mask))
        return next_tensordict

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return one_hot(which_is_one(obs), self.max_actions, obs.dtype)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        mask = None if self.mask_key is None else fetch(tensordict, self.memory_of(self.mask_key))
        self._legal = None if mask is None else mask[..., : self.num_actions_effective]
        if self.mask_key is not None and self._legal is not None:  # as the env gave it, which may read it again
            write(tensordict, self.mask_key, self._legal)
        return super()._inv_call(tensordict)

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        self.check_one_hot(self.out_keys_inv[0], state, [self.max_actions])
        number = which_is_one(state)
        shape = number.shape[len(self.stream.rows) :]
        if self._legal is None:
            drawn = self.stream.randint(0, self.num_actions_effective, shape)
        else:
            drawn = pick(self.stream.uniform(shape=shape), self._legal)
        number = torch.where(number >= self.num_actions_effective, drawn, number)
        return one_hot(number, self.num_actions_effective, self.dtype or state.dtype)

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Widens the action, and its mask."""
        key = self.in_keys_inv[0]
        if key not in specs["action"]:
            raise self.no_entry(key, specs["action"].keys(True, True), "the actions are")
        spec = specs["action"][key]
        if not isinstance(spec, OneHot) or spec.shape[-1] != self.num_actions_effective:
            raise SpecError(
                f"DiscreteActionProjection: the action must be OneHot of {self.num_actions_effective}, got {spec!r}"
            )
        self.dtype = spec.dtype
        shape = (*spec.shape[:-1], self.max_actions)
        specs["action"][key] = OneHot(self.max_actions, shape, device=spec.device, dtype=spec.dtype)
        if self.mask_key is None:
            return
        leaf = specs["observation"][self.mask_key]
        wide = Binary(shape=shape, device=leaf.device, dtype=leaf.dtype)
        for where in {self.mask_key, self.memory_of(self.mask_key)}:
            specs["observation"][where] = wide.clone()
        if self.mask_key in specs["state"]:
            specs["state"][self.mask_key] = wide

    def transform_action_spec(self, action_spec: Composite) -> Composite:
        """As it is; see :meth:`respec`."""
        return action_spec
