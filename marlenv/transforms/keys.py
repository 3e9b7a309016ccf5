"""Transforms of names: entries renamed, chosen, and left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tensordict import TensorDictBase, is_tensor_collection

from marlenv.errors import SpecError, SpecTypeError
from marlenv.keys import NestedKey, nested, path
from marlenv.specs import Composite
from marlenv.tensordicts import NON_TENSOR, fetch, is_nested
from marlenv.transforms.base import INPUTS, OUTPUTS, Kind, Transform

if TYPE_CHECKING:
    from marlenv.envs import EnvBase


class RenameTransform(Transform):
    """Gives entries other names: of what the env says, and of what it is told.

    Args:
        in_keys: observations, rewards or flags.
        out_keys: their names outside.
        in_keys_inv: actions or states.
        out_keys_inv: their names outside.
        create_copy: keep the old names too.

    >>> named = RenameTransform(["observation"], ["count"], ["action"], ["move"])
    >>> env = TransformedEnv(marlenv.testing.CountingEnv(), named)
    >>> env.observation_keys, env.action_keys
    (['count'], ['move'])
    """

    one_for_each: ClassVar[bool] = True

    def __init__(
        self,
        in_keys: Sequence[NestedKey],
        out_keys: Sequence[NestedKey],
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
        create_copy: bool = False,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        self.create_copy = create_copy
        if both := [key for key in self.out_keys or () if key in (self.in_keys or ())]:
            raise SpecError(
                f"RenameTransform: {both} are old and new names, whose order is not clear; use two transforms"
            )

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return self._rename(next_tensordict, self.in_keys or [], self.out_keys or [], must=not self.missing_tolerance)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._rename(tensordict_reset, self.in_keys or [], self.out_keys or [], must=False)

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        return None if tensordict is None else self._inv_call(tensordict)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._rename(tensordict, self.out_keys_inv, self.in_keys_inv, must=False)

    def _rename(
        self, td: TensorDictBase, old: Sequence[NestedKey], new: Sequence[NestedKey], must: bool
    ) -> TensorDictBase:
        for key, name in zip(old, new, strict=True):
            value = fetch(td, key)
            if value is None:
                if must:
                    raise self.no_entry(key, td.keys(True, True))
                continue
            if self.create_copy:
                td.set(name, value.clone())
            else:
                td.set(name, value)
                del td[key]
        return td

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Renames entries of stored data."""
        following = tensordict.get("next", None)
        if following is not None and not any(path(key)[0] == "next" for key in self.in_keys or ()):
            self._rename(following, self.in_keys or [], self.out_keys or [], must=False)
        return self._rename(tensordict, self.in_keys or [], self.out_keys or [], must=following is None)

    def overwrites(self, key: NestedKey) -> bool:
        """Whether an entry is gone or another."""
        return key in (self.out_keys or ()) or (not self.create_copy and key in (self.in_keys or ()))

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Renames the specs."""
        pairs = [(OUTPUTS, self.in_keys or [], self.out_keys or []), (INPUTS, self.in_keys_inv, self.out_keys_inv)]
        for kinds, old, new in pairs:
            for key, name in zip(old, new, strict=True):
                found = [kind for kind in kinds if key in specs[kind]]
                if not (found or self.missing_tolerance):
                    known = [k for kind in kinds for k in specs[kind].keys(True, True)]
                    raise self.no_entry(key, known, "the env has")
                if found and any(name in specs[kind] for kind in kinds):
                    raise SpecError(
                        f"RenameTransform: {key!r} cannot become {name!r}, which the env has already; leave that out "
                        f"first with ExcludeTransform, or take another name"
                    )
                for kind in found:
                    specs[kind][name] = specs[kind][key].clone()
                    if not self.create_copy:
                        del specs[kind][key]

    def _respec_side(self, side: Composite, kinds: tuple[Kind, ...]) -> Composite:
        return side

    def __repr__(self) -> str:
        inputs = f", {self.in_keys_inv} -> {self.out_keys_inv}" if self.in_keys_inv else ""
        return f"RenameTransform({self.in_keys} -> {self.out_keys}{inputs})"


class ExcludeTransform(Transform):
    """Leaves entries out.

    Args:
        *excluded_keys: observations, rewards or flags.
        inverse: leave them out of what the env is told instead.

    >>> env = marlenv.testing.MaskedEnv().append_transform(ExcludeTransform("observation"))
    >>> env.observation_keys
    ['action_mask']
    """

    def __init__(self, *excluded_keys: NestedKey, inverse: bool = False) -> None:
        super().__init__()
        self.excluded_keys, self.inverse = _keys(self, excluded_keys), inverse

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict if self.inverse else next_tensordict.exclude(*self.excluded_keys)

    forward = _call

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return tensordict.exclude(*self.excluded_keys) if self.inverse else tensordict

    def overwrites(self, key: NestedKey) -> bool:
        """Whether an entry is left out."""
        return not self.inverse and key in self.excluded_keys

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Leaves the specs out."""
        for key in self.excluded_keys if not self.inverse else ():
            found = [kind for kind in OUTPUTS if key in specs[kind]]
            if not (found or self.missing_tolerance):
                known = [k for kind in OUTPUTS for k in specs[kind].keys(True, True)]
                raise self.no_entry(key, known, "the env has")
            for kind in found:
                del specs[kind][key]

    def __repr__(self) -> str:
        return f"ExcludeTransform({', '.join(map(repr, self.excluded_keys))})"


class SelectTransform(Transform):
    """Leaves everything out but some entries.

    Args:
        *selected_keys: what stays.
        keep_rewards: keep all rewards too.
        keep_dones: keep all flags too.

    >>> env = marlenv.testing.MaskedEnv().append_transform(SelectTransform("action_mask"))
    >>> sorted(env.rollout(1)["next"].keys())
    ['action_mask', 'done', 'reward', 'terminated']
    """

    def __init__(self, *selected_keys: NestedKey, keep_rewards: bool = True, keep_dones: bool = True) -> None:
        super().__init__()
        self.selected_keys = _keys(self, selected_keys)
        self.keep_rewards, self.keep_dones = keep_rewards, keep_dones
        self.kept: list[NestedKey] = [*self.selected_keys, *["reward"] * keep_rewards, *["done"] * keep_dones]

    def join(self, env: EnvBase) -> None:
        """Finds the rewards, flags and states that stay."""
        super().join(env)
        memories = [key for key in env.observation_keys if not is_public(key)]
        self.kept = [*self.selected_keys, *env.state_keys, *memories]
        self.kept += [*(env.reward_keys if self.keep_rewards else ()), *(env.done_keys if self.keep_dones else ())]

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict.select(*self.kept, strict=False)

    forward = _call

    def overwrites(self, key: NestedKey) -> bool:
        """Whether an entry is left out."""
        return key not in self.kept and is_public(key)

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Leaves the specs out; a key that no entry has is an error."""
        known = [key for kind in OUTPUTS for key in specs[kind].keys(True, True)]
        for key in self.selected_keys:
            there = any(path(other)[: len(path(key))] == path(key) for other in known)
            if not (there or self.missing_tolerance):
                raise self.no_entry(key, known, "the env has")
        for kind, kept in (("observation", False), ("reward", self.keep_rewards), ("done", self.keep_dones)):
            for key in [] if kept else list(specs[kind].keys(True, True)):  # type: ignore[index]
                if is_public(key) and not any(path(key)[: len(path(one))] == path(one) for one in self.selected_keys):
                    del specs[kind][key]  # type: ignore[index]

    def __repr__(self) -> str:
        return f"SelectTransform({', '.join(map(repr, self.selected_keys))})"


def is_public(key: NestedKey) -> bool:
    """Whether a key is a public one: memories, whose names begin with an underscore, are kept.

    >>> is_public("step_count"), is_public("_step_count")
    (True, False)
    """
    return not path(key)[-1].startswith("_")


class RemoveEmptySpecs(Transform):
    """Leaves groups out that have no entries, and gives them back to the env.

    >>> env = marlenv.testing.CountingEnv()
    >>> env.observation_spec = Composite(observation=Unbounded((1,)), empty=Composite())
    >>> list(TransformedEnv(env, RemoveEmptySpecs()).observation_spec.keys())
    ['observation']
    """

    def __init__(
        self, in_keys: Any = None, out_keys: Any = None, in_keys_inv: Any = None, out_keys_inv: Any = None
    ) -> None:
        super().__init__(in_keys or (), out_keys, in_keys_inv, out_keys_inv)
        self.inputs: list[NestedKey] = []

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Leaves the empty specs out."""
        self.inputs = [key for kind in INPUTS for key in _empty(specs[kind])]
        for spec in specs.values():
            for key in _empty(spec):
                del spec[key]

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        _drop_empty(next_tensordict)
        return next_tensordict

    forward = _call

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        for key in sorted(self.inputs, key=lambda key: len(path(key))):
            if fetch(tensordict, key) is None:
                tensordict.create_nested(key)
        return tensordict


def _empty(spec: Composite) -> list[NestedKey]:
    """The keys of composites without leaves, the innermost first."""
    found = [key for key, leaf in spec.items(True) if isinstance(leaf, Composite) and not list(leaf.keys(True, True))]
    return sorted((nested(path(key)) for key in found), key=lambda key: -len(path(key)))


def _drop_empty(td: TensorDictBase) -> None:
    for name in list(td.keys()):
        value = td.get(name)
        if is_nested(value) and is_tensor_collection(value) and not isinstance(value, NON_TENSOR):
            _drop_empty(value)
            if not list(value.keys()):
                del td[name]


def _keys(transform: Transform, keys: Sequence[Any]) -> list[NestedKey]:
    try:
        return [nested(path(key)) for key in keys]
    except TypeError:
        raise SpecTypeError(
            f"{type(transform).__name__}: keys must be strings or tuples of strings, got {list(keys)}"
        ) from None
