"""Transforms of names: entries renamed, chosen, and left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tensordict import TensorDictBase, is_tensor_collection

from marlenv.errors import SpecError, SpecTypeError
from marlenv.groups import GroupTree
from marlenv.keys import NestedKey, Path, nested, path
from marlenv.specs import Composite
from marlenv.tensordicts import NON_TENSOR, fetch, is_nested, shallow, write
from marlenv.transforms.base import INPUTS, OUTPUTS, Kind, Transform
from marlenv.transforms.names import below, is_public

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
        self.moved: list[tuple[NestedKey, NestedKey]] = []
        """Groups of entries: their names, and those that they have outside."""
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
            if isinstance(value, list):  # of agents whose entries have different sizes
                write(td, name, [one.clone() for one in value] if self.create_copy else value)
            else:
                td.set(name, value.clone() if self.create_copy else value)
            if not self.create_copy:
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
        gone = () if self.create_copy else self.in_keys or ()
        return key in (self.out_keys or ()) or any(below(key, one) for one in gone)

    def known_before(self, tensordict: TensorDictBase, resetting: bool = False) -> TensorDictBase:
        """The data with the old names of groups, where the transforms before look for what they remember."""
        old, new = [one for one, _ in self.moved], [one for _, one in self.moved]
        return self._rename(shallow(tensordict), new, old, must=False) if self.moved else tensordict

    def transform_tree(self, tree: GroupTree | None) -> GroupTree | None:
        """The groups by their new names."""
        if tree is None or not self.moved:
            return tree
        groups = dict(tree.groups)
        for key, name in self.moved:
            old = path(key)
            groups = {(*path(name), *p[len(old) :]) if below(p, key) else p: who for p, who in groups.items()}
        return _tree(groups)

    def _check_agents(self, specs: dict[Kind, Composite]) -> None:
        """Raises where agents would see under one name and act under another.

        Raises:
            SpecError: so it is.
        """
        seen, told = _pairs(self.in_keys, self.out_keys), _pairs(self.in_keys_inv, self.out_keys_inv)
        groups = getattr(self.container, "tree", None)
        for mine, others, kinds, names in (
            (seen, told, INPUTS, "in_keys_inv and out_keys_inv"),
            (told, seen, OUTPUTS, "in_keys and out_keys"),
        ):
            for key, name in mine:
                held = groups is not None and any(below(p, key) for p in groups.groups)
                if held and (key, name) not in others and any(key in specs[kind] for kind in kinds):
                    raise SpecError(
                        f"RenameTransform: {key!r} is a group of agents, whose entries would be under two names; give "
                        f"{key!r} and {name!r} in {names} too"
                    )

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Renames the specs."""
        if not self.create_copy:
            self._check_agents(specs)
        seen = _pairs(self.in_keys, self.out_keys) if not self.create_copy else []
        self.moved = [pair for pair in seen if any(_is_group(specs[kind], pair[0]) for kind in OUTPUTS)]
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


def _pairs(old: Sequence[NestedKey] | None, new: Sequence[NestedKey] | None) -> list[tuple[NestedKey, NestedKey]]:
    """Pairs of an old and a new name; none where there are no keys."""
    return list(zip(old or (), new or (), strict=True))


def _is_group(spec: Composite, key: NestedKey) -> bool:
    return key in spec and isinstance(spec[key], Composite)


def _tree(groups: Mapping[Path, Sequence[str]]) -> GroupTree:
    """The tree of groups that are given by their paths."""
    made: dict[str, Any] = {}
    for *above, name in groups:
        node = made
        for part in above:
            node = node.setdefault(part, {})
        node[name] = list(groups[(*above, name)])
    return GroupTree(made)


class ExcludeTransform(Transform):
    """Leaves entries out.

    Args:
        *excluded_keys: observations, rewards or flags; of a group all, and ``group_map`` has it no more.
        inverse: leave them out of what the env is told instead.

    >>> env = marlenv.testing.MaskedEnv().append_transform(ExcludeTransform("observation"))
    >>> env.observation_keys
    ['action_mask']
    """

    def __init__(self, *excluded_keys: NestedKey, inverse: bool = False) -> None:
        super().__init__()
        self.excluded_keys, self.inverse = _keys(self, excluded_keys), inverse
        self.kept: dict[NestedKey, list[NestedKey]] = {}
        """By group: what transforms before remember there, which stays."""

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        if self.inverse:
            return next_tensordict
        out = next_tensordict.exclude(*self.excluded_keys)
        for key, memories in self.kept.items():
            group = fetch(next_tensordict, key)
            if group is not None:
                out.set(key, group.select(*memories, strict=False))
        return out

    forward = _call

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return tensordict.exclude(*self.excluded_keys) if self.inverse else tensordict

    def overwrites(self, key: NestedKey) -> bool:
        """Whether an entry is left out."""
        return not self.inverse and any(below(key, one) for one in self.excluded_keys)

    def transform_tree(self, tree: GroupTree | None) -> GroupTree | None:
        """The groups without those that are left out."""
        if tree is None or self.inverse:
            return tree
        left = {p: who for p, who in tree.groups.items() if not any(below(p, key) for key in self.excluded_keys)}
        return _tree(left) if left and len(left) < len(tree.groups) else tree

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Leaves the specs out."""
        self.kept = {}
        for key in self.excluded_keys if not self.inverse else ():
            found = [kind for kind in OUTPUTS if key in specs[kind]]
            if not (found or self.missing_tolerance):
                known = [k for kind in OUTPUTS for k in specs[kind].keys(True, True)]
                raise self.no_entry(key, known, "the env has")
            for kind in found:
                self._leave_out(specs[kind], key)

    def _leave_out(self, spec: Composite, key: NestedKey) -> None:
        """Deletes an entry of a spec; of a group what no transform remembers."""
        group = spec[key]
        memories = [k for k in group.keys(True, True) if not is_public(k)] if isinstance(group, Composite) else []
        if not memories:
            del spec[key]
            return
        self.kept[key] = memories
        for one in [k for k in group.keys(True, True) if k not in memories]:
            del group[one]

    def __repr__(self) -> str:
        return f"ExcludeTransform({', '.join(map(repr, self.excluded_keys))})"


class SelectTransform(Transform):
    """Leaves everything out but some entries.

    Args:
        *selected_keys: what stays.
        keep_rewards: keep all rewards too.
        keep_dones: keep all flags too; ``done`` and ``terminated`` of the root stay in any case.

    >>> env = marlenv.testing.MaskedEnv().append_transform(SelectTransform("action_mask"))
    >>> sorted(env.rollout(1)["next"].keys())
    ['action_mask', 'done', 'reward', 'terminated']
    """

    def __init__(self, *selected_keys: NestedKey, keep_rewards: bool = True, keep_dones: bool = True) -> None:
        super().__init__()
        self.selected_keys = _keys(self, selected_keys)
        self.keep_rewards, self.keep_dones = keep_rewards, keep_dones
        self.kept = _whole([*self.selected_keys, *["reward"] * keep_rewards, *["done"] * keep_dones])

    def join(self, env: EnvBase) -> None:
        """Finds the rewards, flags and states that stay."""
        super().join(env)
        memories = [key for key in env.observation_keys if not is_public(key)]
        kept = [*self.selected_keys, *env.state_keys, *memories]
        kept += [*(env.reward_keys if self.keep_rewards else ()), *(env.done_keys if self.keep_dones else ())]
        self.kept = _whole(kept)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict.select(*self.kept, strict=False)

    forward = _call

    def overwrites(self, key: NestedKey) -> bool:
        """Whether an entry is left out."""
        return is_public(key) and not any(below(key, one) for one in self.kept)

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Leaves the specs out; a key that no entry has is an error."""
        known = [key for kind in OUTPUTS for key in specs[kind].keys(True, True)]
        for key in self.selected_keys:
            if not (any(below(other, key) for other in known) or self.missing_tolerance):
                raise self.no_entry(key, known, "the env has")
        for kind, kept in (("observation", False), ("reward", self.keep_rewards), ("done", self.keep_dones)):
            for key in [] if kept else list(specs[kind].keys(True, True)):  # type: ignore[index]
                if is_public(key) and not any(below(key, one) for one in self.selected_keys):
                    del specs[kind][key]  # type: ignore[index]

    def __repr__(self) -> str:
        return f"SelectTransform({', '.join(map(repr, self.selected_keys))})"


def _whole(keys: Sequence[NestedKey]) -> list[NestedKey]:
    """Keys without those below another, which chosen by themselves would leave out what else is there."""
    return [key for key in keys if not any(key != one and below(key, one) for one in keys)]


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
