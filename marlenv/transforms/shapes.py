"""Transforms of shapes: dimensions added, taken away, permuted and flattened; entries put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import SpecError, SpecTypeError
from marlenv.keys import NestedKey, path
from marlenv.specs import Bounded, Composite, Stacked, TensorSpec, Unbounded
from marlenv.tensordicts import fetch
from marlenv.transforms.base import Kind, Transform

if TYPE_CHECKING:
    from marlenv.envs import EnvBase

Keys = Sequence[NestedKey] | None


class _OfDimensions(Transform):
    """A transform that moves dimensions; specs of any kind go the same way as values. Abstract."""

    monotone: ClassVar[bool] = True
    batch_ndim = 0
    from_the_end = True

    def _dim(self, dim: int, allow_positive_dim: bool, name: str = "dim") -> int:
        if dim >= 0 and not allow_positive_dim:
            raise SpecError(
                f"{type(self).__name__}: {name} must be negative, counted from the end, so that it fits batches of any "
                f"size, got {dim}; or pass allow_positive_dim=True to count from the first dimension behind the batch"
            )
        self.from_the_end = self.from_the_end and dim < 0
        return dim

    def is_pure(self) -> bool:
        """Whether it may be applied to many steps at once: its dimensions are counted from the end."""
        return self.from_the_end and super().is_pure()

    def _at(self, dim: int) -> int:
        """A dimension that is counted from the batch, or from the end."""
        return dim + self.batch_ndim if dim >= 0 else dim

    @staticmethod
    def _within_values(spec: TensorSpec, dim: int, more: int = 0) -> bool:
        """Whether a dimension belongs to single values, as the last one of one-hot numbers; ``more`` are inserted."""
        front = dim + spec.ndim + more if dim < 0 else dim
        return spec.batch_ndim + more <= front < spec.ndim + more

    def _respec_inputs(self, spec: Composite) -> Composite:
        """What the outside gives, in the other shape.

        Raises:
            SpecError: it would have no domain to draw from.
        """
        told = {outer: spec[key] for key, outer in zip(self.in_keys_inv, self.out_keys_inv, strict=True) if key in spec}
        out = super()._respec_inputs(spec)
        for key, leaf in told.items():
            one, made = (x.parts[0] if isinstance(x, Stacked) else x for x in (leaf, out[key]))
            if isinstance(made, Unbounded) and not isinstance(one, Unbounded):
                raise SpecError(
                    f"{type(self).__name__}: {key!r} is {leaf!r}, whose last dimension belongs to single values, and "
                    f"without them nothing could be drawn; name others in in_keys_inv"
                )
        return out

    def join(self, env: EnvBase) -> None:
        """Learns how many dimensions the batch has."""
        super().join(env)
        self.batch_ndim = len(env.batch_size)


class _OneDimension(_OfDimensions):
    """A transform that inserts a dimension of size one, or takes one away. Abstract."""

    invertible: ClassVar[bool] = True

    def __init__(
        self,
        dim: int | None = None,
        *,
        allow_positive_dim: bool = False,
        in_keys: Keys = None,
        out_keys: Keys = None,
        in_keys_inv: Keys = None,
        out_keys_inv: Keys = None,
    ) -> None:
        super().__init__(in_keys or (), out_keys, in_keys_inv, out_keys_inv)
        if dim is None:
            raise SpecTypeError(f"{type(self).__name__}: say which dimension, dim=-1")
        self.given_dim = self._dim(dim, allow_positive_dim)

    @property
    def dim(self) -> int:
        """Which dimension, of data with the batch of the env."""
        return self._at(self.given_dim)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dim={self.given_dim}, in_keys={self.in_keys})"


class UnsqueezeTransform(_OneDimension):
    """Inserts a dimension of size one; takes it from what the env is told.

    Args:
        dim: where, counted from the end.
        allow_positive_dim: allow counting from the first dimension behind the batch.
        in_keys: observations or rewards.
        out_keys: where the results go.
        in_keys_inv: actions or states, which the outside sees with the dimension.
        out_keys_inv: the same as the outside names them.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(), UnsqueezeTransform(-1, in_keys=["observation"]))
    >>> env.observation_spec["observation"].shape
    torch.Size([1, 1])
    """

    pure: ClassVar[bool] = True

    @property
    def unsqueeze_dim(self) -> int:
        """Which dimension, by its older name."""
        return self.dim

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return obs.unsqueeze(self.dim)

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        return state.squeeze(self.dim)

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """The spec with the dimension; without a domain where it is one within values."""
        return super().derive(spec) if self._within_values(spec, self.dim, 1) else spec.unsqueeze(self.dim)


class SqueezeTransform(_OneDimension):
    """Takes a dimension of size one away; inserts it into what the env is told.

    Args:
        dim: which, counted from the end.
        allow_positive_dim: allow counting from the first dimension behind the batch.
        in_keys: observations or rewards.
        out_keys: where the results go.
        in_keys_inv: actions or states, which the outside sees without the dimension.
        out_keys_inv: the same as the outside names them.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(), SqueezeTransform(-1, in_keys=["observation"]))
    >>> env.rollout(3)["observation"]
    tensor([0., 1., 2.])
    """

    pure: ClassVar[bool] = True

    @property
    def squeeze_dim(self) -> int:
        """Which dimension, by its older name."""
        return self.dim

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return obs.squeeze(self.dim)

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        return state.unsqueeze(self.dim)

    def _respec_inputs(self, spec: Composite) -> Composite:
        """What the outside gives, without the dimension.

        Raises:
            SpecError: what the env is told has another size there than one.
        """
        for key in self.in_keys_inv:
            if key in spec and (shape := spec[key].shape)[self.dim :][:1] != (1,):
                raise SpecError(
                    f"SqueezeTransform: {key!r} must have size 1 in dimension {self.given_dim}, got {list(shape)}; "
                    f"name others in in_keys_inv"
                )
        return super()._respec_inputs(spec)

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """The spec without the dimension, and without a domain where it was one within values."""
        self.need_dim(spec, self.dim, self.batch_ndim)
        if not self._within_values(spec, self.dim):
            return spec.squeeze(self.dim)
        return super().derive(spec) if spec.shape[self.dim] == 1 else spec


class PermuteTransform(_OfDimensions):
    """Puts the last dimensions into another order; what the env is told into the order that it was.

    Args:
        dims: the last dimensions by negative numbers, in the order that the outside sees.
        in_keys: observations or rewards.
        out_keys: where the results go.
        in_keys_inv: actions or states.
        out_keys_inv: the same as the outside names them.

    >>> turned = PermuteTransform((-1, -3, -2), in_keys=["pixels"])
    >>> turned(TensorDict({"pixels": torch.zeros(4, 5, 3)}))["pixels"].shape
    torch.Size([3, 4, 5])
    """

    pure: ClassVar[bool] = True
    invertible: ClassVar[bool] = True

    def __init__(
        self,
        dims: Sequence[int],
        in_keys: Keys = None,
        out_keys: Keys = None,
        in_keys_inv: Keys = None,
        out_keys_inv: Keys = None,
    ) -> None:
        super().__init__(in_keys or (), out_keys, in_keys_inv, out_keys_inv)
        self.dims = tuple(dims)
        want = list(range(-len(self.dims), 0))
        if sorted(self.dims) != want:
            raise SpecError(f"PermuteTransform: dims must be {want} in some order, got {list(dims)}")
        self.inverse = tuple(self.dims.index(dim) - len(self.dims) for dim in want)

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return obs.permute(*range(obs.ndim - len(self.dims)), *self.dims)

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        return state.permute(*range(state.ndim - len(self.dims)), *self.inverse)

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """The spec in the other order."""
        self.need_dim(spec, -len(self.dims), self.batch_ndim)
        if spec.event_ndim or isinstance(spec, Stacked):
            return super().derive(spec)
        return spec.permute(*range(spec.ndim - len(self.dims)), *(dim + spec.ndim for dim in self.dims))

    def __repr__(self) -> str:
        return f"PermuteTransform(dims={self.dims}, in_keys={self.in_keys})"


class FlattenObservation(_OfDimensions):
    """Makes one dimension of adjacent ones.

    Args:
        first_dim: the first of them, counted from the end.
        last_dim: the last of them.
        in_keys: observations; those called ``pixels`` when left out.
        out_keys: where the results go.
        allow_positive_dim: allow counting from the first dimension behind the batch.

    >>> flat = FlattenObservation(-2, -1, in_keys=["board"])
    >>> flat(TensorDict({"board": torch.zeros(3, 3)}))["board"].shape
    torch.Size([9])
    """

    pure: ClassVar[bool] = True
    default_name: ClassVar[str | None] = "pixels"

    def __init__(
        self,
        first_dim: int,
        last_dim: int,
        in_keys: Keys = None,
        out_keys: Keys = None,
        allow_positive_dim: bool = False,
    ) -> None:
        super().__init__(in_keys, out_keys)
        self.first_dim = self._dim(first_dim, allow_positive_dim, "first_dim")
        self.last_dim = self._dim(last_dim, allow_positive_dim, "last_dim")
        if (first_dim < 0) == (last_dim < 0) and first_dim > last_dim:
            raise SpecError(f"FlattenObservation: last_dim must not come before first_dim={first_dim}, got {last_dim}")

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return obs.flatten(self._at(self.first_dim), self._at(self.last_dim))

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """The spec with one dimension of them; without a domain where values are taken apart."""
        first, last = self._at(self.first_dim), self._at(self.last_dim)
        for dim in (first, last):
            self.need_dim(spec, dim, self.batch_ndim)
        if not self._within_values(spec, last):
            return spec.flatten(first, last)
        return spec if first % spec.ndim == last % spec.ndim else super().derive(spec)

    def __repr__(self) -> str:
        return f"FlattenObservation({self.first_dim}, {self.last_dim}, in_keys={self.in_keys})"


class _Together(Transform):
    """A transform that makes one entry of several. Abstract."""

    one_size: ClassVar[bool] = True
    del_keys: bool
    of_rewards = False
    """Whether the parts are rewards, which a reset does not give; known in an env."""

    def _join_values(self, values: list[Tensor]) -> Tensor:
        """One value of all."""
        raise NotImplementedError

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        if not self.in_keys:
            return next_tensordict
        values = [fetch(next_tensordict, key) for key in self.in_keys]
        if None in [None if value is None else 0 for value in values]:
            if self.missing_tolerance:
                return next_tensordict
            missing = self.in_keys[[value is None for value in values].index(True)]
            raise self.no_entry(missing, next_tensordict.keys(True, True))
        made, out_key = self._join_values(values), (self.out_keys or [])[0]
        if self.del_keys:
            for key in self.in_keys or ():
                _remove(next_tensordict, key)
        next_tensordict.set(out_key, made)
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return tensordict_reset if self.of_rewards else self._call(tensordict_reset)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Puts stored data together, below ``"next"`` too."""
        if not self.in_keys_inv:
            self.need_keys()
        keys, following = self.in_keys or (), tensordict.get("next", None)
        if following is not None and all(key in following for key in keys):
            self._call(following)
            if keys and not any(key in tensordict for key in keys):  # rewards
                return tensordict
        return self._call(tensordict)

    def overwrites(self, key: NestedKey) -> bool:
        """Whether an entry is gone or another."""
        return key in (self.out_keys or ()) or (self.del_keys and key in (self.in_keys or ()))

    def respec_together(self, specs: Composite, made: TensorSpec) -> None:
        """Puts the spec of the one entry in place of those of the several."""
        if self.del_keys:
            for key in self.in_keys or ():
                _remove(specs, key)
        specs[(self.out_keys or [])[0]] = made


def _remove(tree: Any, key: NestedKey) -> None:
    """Deletes an entry, and the groups that are empty then."""
    del tree[key]
    where = path(key)[:-1]
    while where and not list(tree[where].keys()):
        del tree[where]
        where = where[:-1]


class CatTensors(_Together):
    """Concatenates entries.

    Args:
        in_keys: of one family; observations that are vectors when left out.
        out_key: where the result goes.
        dim: along which dimension, counted from the end.
        del_keys: leave the parts out.
        unsqueeze_if_oor: give parts that lack the dimension one of size one.
        sort: put the keys into alphabetical order.

    >>> both = CatTensors(["b", "a"], "ab")
    >>> both(TensorDict({"a": torch.zeros(1), "b": torch.ones(1)}))["ab"]
    tensor([0., 1.])
    """

    def __init__(
        self,
        in_keys: Keys = None,
        out_key: NestedKey = "observation_vector",
        dim: int = -1,
        *,
        del_keys: bool = True,
        unsqueeze_if_oor: bool = False,
        sort: bool = True,
    ) -> None:
        if in_keys is None and dim != -1:
            raise SpecError(f"CatTensors: without in_keys dim must be -1, got {dim}")
        if not isinstance(out_key, (str, tuple)):
            raise SpecTypeError(f"CatTensors: out_key must be a key, got {out_key!r}")
        keys = sorted(in_keys, key=_order) if in_keys is not None and sort else in_keys
        super().__init__(None)
        self.in_keys = None if keys is None else list(keys)
        self.out_keys = [out_key]
        self.dim, self.del_keys, self.unsqueeze_if_oor = dim, del_keys, unsqueeze_if_oor

    def default_in_keys(self, env: EnvBase) -> list[NestedKey]:
        """Observations that are vectors of a row."""
        spec, ndim = env.full_observation_spec, len(env.batch_size) + 1
        return sorted([key for key in super().default_in_keys(env) if spec[key].ndim == ndim], key=_order)

    def _join_values(self, values: list[Tensor]) -> Tensor:
        if self.unsqueeze_if_oor:
            short = -self.dim - 1 if self.dim < 0 else self.dim
            values = [v if short < v.ndim else v.unsqueeze(0 if self.dim < 0 else -1) for v in values]
        return torch.cat(values, self.dim)

    def _fit(self, values: list[Any]) -> Tensor:
        """One value of all, of specs.

        Raises:
            SpecError: they do not fit together.
        """
        try:
            if all(isinstance(value, Tensor) for value in values):
                return self._join_values(values)
        except (RuntimeError, IndexError) as error:
            raise self._unfit(values) from error
        raise self._unfit(values)

    def _unfit(self, values: list[Any]) -> SpecError:
        shapes = [list(v.shape) if isinstance(v, Tensor) else type(v).__name__ for v in values]
        return SpecError(
            f"CatTensors: {self.in_keys} do not fit together along dimension {self.dim}, their shapes are {shapes}; "
            f"unsqueeze_if_oor=True gives those a dimension that have none"
        )

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Puts the whole in place of the parts."""
        self.of_rewards = False
        for kind in ("observation", "reward", "state"):
            spec, keys = specs[kind], self.in_keys or ()
            found = [key for key in keys if key in spec]
            if not found:
                continue
            if len(found) < len(keys):
                raise self.no_entry(
                    next(key for key in keys if key not in spec), spec.keys(True, True), f"the {kind}s are"
                )
            leaves = [spec[key] for key in keys]
            if all(isinstance(leaf, Bounded) for leaf in leaves):
                low, high = (self._fit([getattr(leaf.space, end) for leaf in leaves]) for end in ("low", "high"))
                made: TensorSpec = Bounded(low, high, low.shape, dtype=low.dtype, device=low.device)
            else:
                whole = self._fit([leaf.zero() for leaf in leaves])
                made = Unbounded(whole.shape, dtype=whole.dtype, device=whole.device)
            self.respec_together(spec, made)
            self.of_rewards = kind == "reward"
            return
        if self.in_keys:
            raise self.no_entry(self.in_keys[0], specs["observation"].keys(True, True), "the observations are")

    def __repr__(self) -> str:
        return f"CatTensors({self.in_keys}, {(self.out_keys or [''])[0]!r})"


def _order(key: NestedKey) -> str:
    return key if isinstance(key, str) else "_".join(key)


class Stack(_Together):
    """Stacks entries along a new dimension; unstacks what the env is told.

    Args:
        in_keys: entries of one shape.
        out_key: where the stack goes.
        in_key_inv: an entry that the env is told, as the outside gives it: the stack.
        out_keys_inv: the entries that the env takes.
        dim: where the new dimension goes, counted from the end.
        allow_positive_dim: allow counting from the first dimension.
        del_keys: leave the parts out.

    >>> both = Stack(["a", "b"], "ab", dim=-2)
    >>> both(TensorDict({"a": torch.zeros(1), "b": torch.ones(1)}))["ab"]
    tensor([[0.],
            [1.]])
    """

    invertible: ClassVar[bool] = True

    def __init__(
        self,
        in_keys: Sequence[NestedKey],
        out_key: NestedKey,
        in_key_inv: NestedKey | None = None,
        out_keys_inv: Keys = None,
        dim: int = -1,
        allow_positive_dim: bool = False,
        *,
        del_keys: bool = True,
    ) -> None:
        if dim >= 0 and not allow_positive_dim:
            raise SpecError(
                f"Stack: dim must be negative, so that it fits batches of any size, got {dim}; or pass "
                f"allow_positive_dim=True"
            )
        if (in_key_inv is None) != (out_keys_inv is None):
            raise SpecError("Stack: in_key_inv and out_keys_inv go together; give both or none")
        super().__init__(in_keys, [out_key], [] if in_key_inv is None else [in_key_inv], out_keys_inv)
        if out_key in (self.in_keys or ()):
            raise SpecError(f"Stack: out_key {out_key!r} must not be one of in_keys")
        self.dim, self.del_keys = dim, del_keys

    def _join_values(self, values: list[Any]) -> Any:
        return torch.stack(values, self.dim)

    def _fit(self, specs: list[TensorSpec]) -> TensorSpec:
        """One spec of all.

        Raises:
            SpecError: they have different shapes, or not that many dimensions.
        """
        shapes = {tuple(spec.shape) for spec in specs}
        ndim = len(next(iter(shapes))) + 1
        if len(shapes) > 1 or not -ndim <= self.dim < ndim:
            raise SpecError(
                f"Stack: the entries must have one shape, and {self.dim} be a dimension of their stack; their shapes "
                f"are {[list(spec.shape) for spec in specs]}"
            )
        return self._join_values(specs)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        for whole in self.in_keys_inv:
            value = fetch(tensordict, whole)
            if value is not None:
                for key, one in zip(self.out_keys_inv, value.unbind(self.dim), strict=True):
                    tensordict.set(key, one)
                _remove(tensordict, whole)
        return tensordict

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Puts the stack in place of the parts."""
        self.of_rewards = False
        for kind in ("observation", "reward", "done"):
            found = {key: specs[kind][key] for key in self.in_keys or () if key in specs[kind]}
            if absent := [key for key in self.in_keys or () if found and key not in found]:
                raise self.no_entry(absent[0], specs[kind].keys(True, True), f"the {kind}s are")
            if found:
                self.of_rewards = kind == "reward"
                self.respec_together(specs[kind], self._fit(list(found.values())))

    def _respec_inputs(self, spec: Composite) -> Composite:
        for whole in self.in_keys_inv:
            if keys := [key for key in self.out_keys_inv if key in spec]:
                made = self._fit([spec[key] for key in keys])
                for key in keys:
                    _remove(spec, key)
                spec[whole] = made
        return spec

    def __repr__(self) -> str:
        return f"Stack({self.in_keys}, {(self.out_keys or [''])[0]!r}, dim={self.dim})"
