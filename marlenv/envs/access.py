"""The spec families and key families of an env: five kinds, each with a full, a short and an unbatched view.

``full_action_spec`` is always a composite; ``action_spec`` is its only leaf when it has one. ``action_keys`` are all
its leaves from the root down, ``action_key`` the only one. The same for state, observation, reward and done.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Size

from marlenv.errors import KeyCollision, KeyMissing, ShapeError, SpecError, SpecTypeError
from marlenv.keys import DONE_NAMES, NestedKey, last, nested, path
from marlenv.specs import Categorical, Composite, TensorSpec

if TYPE_CHECKING:
    from marlenv.envs.env import EnvBase

SIDE = {
    "action": "_input_spec",
    "state": "_input_spec",
    "observation": "_output_spec",
    "reward": "_output_spec",
    "done": "_output_spec",
}

MASKS = frozenset(("_reset", "_step"))

NOT_CALLED = (
    "an env is not called; use step(), reset() or rollout(), and marlenv.to_torchrl(env) for TorchRL's collectors, "
    "pools and "
    "transforms"
)


def family(env: EnvBase, kind: str) -> Composite:
    """The composite of one kind; empty when nothing was assigned, but for done flags."""
    side: Composite = getattr(env, SIDE[kind])
    found = side.get(f"full_{kind}_spec", None)
    if found is not None:
        return found
    spec = Composite(shape=env.batch_size, device=env.device)
    if kind == "done":
        complete_done_spec(spec)
    write(env, kind, spec)
    return spec


def where_to_declare(keys: Iterable[NestedKey]) -> str:
    """What to do with entries that are in no spec: which of the specs they belong to.

    >>> where_to_declare(["speed", ("next", "truncated")])
    "add 'speed' to observation_spec and 'truncated' to done_spec, or drop them"
    """
    homes = {"reward": "reward_spec", **dict.fromkeys(DONE_NAMES, "done_spec")}
    found: dict[str, list[NestedKey]] = {}
    own = {nested(where[1:] if where[0] == "next" else where) for where in map(path, keys)}
    for key in sorted(own, key=str):
        found.setdefault(homes.get(last(key), "observation_spec"), []).append(key)
    if len(found) == 1:
        return f"add them to {next(iter(found))} or drop them"
    adds = [f"{', '.join(map(repr, names))} to {spec}" for spec, names in found.items()]
    return f"add {' and '.join(adds)}, or drop them"


def flag(spec: Composite) -> Categorical:
    """A done flag at the level of ``spec``; bool ``[*shape, 1]``."""
    return Categorical(2, (*spec.shape, 1), dtype=torch.bool, device=spec.device)


def complete_done_spec(spec: Composite) -> None:
    """Gives every level ``done`` and ``terminated`` when it has one of them, and an empty root both."""
    if spec.is_empty():
        spec["done"], spec["terminated"] = flag(spec), flag(spec)
        return
    for name, child in list(spec.items()):
        if isinstance(child, Composite):
            if not child.is_empty():
                complete_done_spec(child)
        elif name == "terminated" and "done" not in spec:
            spec["done"] = child.clone()
        elif name in ("done", "truncated") and "terminated" not in spec:
            spec["terminated"] = child.clone()
            if "done" not in spec:
                spec["done"] = child.clone()


def check_names(env: EnvBase, kind: str, spec: Composite) -> None:
    """Raises if an entry has a name by which an env finds the masks or what follows in the data."""
    for key in spec.keys(True, True):
        parts = path(key)
        if parts[0] == "next" or not MASKS.isdisjoint(parts):
            raise KeyCollision(
                f"{type(env).__name__}: the {kind} spec has an entry {key!r}, where the data hold what the env did; "
                f"'next' at the root, '_reset' and '_step' are names of ours: call it something else"
            )


def check_collisions(env: EnvBase) -> None:
    """Raises if two specs claim the same entry of what goes in, or of what comes out, or one that is not theirs."""
    for kind in SIDE:
        check_names(env, kind, getattr(env, f"full_{kind}_spec"))
    for kinds in (("observation", "reward", "done"), ("state", "action"), ("action", "observation", "reward", "done")):
        taken: dict[NestedKey, str] = {}
        for kind in kinds:
            for key in getattr(env, f"full_{kind}_spec").keys(True, True):
                if key in taken:
                    raise KeyCollision(
                        f"{type(env).__name__}: entry {key!r} is in both the {taken[key]} spec and the {kind} spec"
                    )
                taken[key] = kind
        for where in map(path, taken):
            for above in (nested(where[:i]) for i in range(1, len(where))):
                if above in taken:
                    raise KeyCollision(
                        f"{type(env).__name__}: entry {nested(where)!r} of the {taken[nested(where)]} spec lies within "
                        f"{above!r}, an entry of the {taken[above]} spec; call one of them something else"
                    )


def write(env: EnvBase, kind: str, spec: Composite) -> None:
    """Stores a composite: unlocks, writes, forgets the cache and locks again."""
    side: Composite = getattr(env, SIDE[kind])
    locked = side.is_locked
    if locked:
        side.unlock_()
    side[f"full_{kind}_spec"] = spec
    env._cache.clear()
    if locked:
        side.lock_()


def assign(env: EnvBase, kind: str, value: Any, *, derived: bool = False) -> None:
    """What ``env.<kind>_spec = value`` does: checks the shape, wraps a leaf, completes done flags, stores.

    Rewards and flags need a dimension behind the batch, but where they are ``derived`` from those of another env.
    """
    who = f"{type(env).__name__}.{kind}_spec"
    if isinstance(value, dict) or (value is None and kind == "state"):
        value = Composite(value or {}, shape=env.batch_size)
    if not isinstance(value, TensorSpec):
        raise SpecError(f"{who}: expected a spec, got {type(value).__name__}")
    batch = env.batch_size
    if value.shape[: len(batch)] != batch:
        raise ShapeError(
            f"{who}: the shape must begin with the env's batch size {list(batch)}, got {list(value.shape)}; "
            f"to set the spec of a single env assign {kind}_spec_unbatched"
        )
    if not isinstance(value, Composite):
        if kind == "state":
            raise SpecTypeError(f"{who}: expected a Composite with named entries, got {value!r}")
        _check_leaf(env, kind, value)
        value = Composite({kind: value}, shape=batch)
    if kind in ("reward", "done") and not derived:
        for key, leaf in value.items(True, True):
            if leaf.ndim == 0:
                raise ShapeError(f"{who}: entry {key!r} needs at least one dimension, got shape []; use (1,)")
    value = value.to(env.device) if env.device is not None else value
    if kind == "done" and env.auto_complete_done_specs:
        value = value.clone() if value.is_locked else value
        complete_done_spec(value)
    check_names(env, kind, value)
    write(env, kind, value)


def _check_leaf(env: EnvBase, kind: str, leaf: TensorSpec) -> None:
    """Raises where a leaf would take the place of what the groups of a finished env have."""
    side: Composite = getattr(env, SIDE[kind])
    found = side.get(f"full_{kind}_spec", None) if side.is_locked else None
    keys = [] if found is None else list(found.keys(True, True))
    if keys and not any(isinstance(key, str) for key in keys):
        raise SpecError(
            f"{type(env).__name__}.{kind}_spec: expected a Composite with the entries of the groups, {keys}, got a "
            f"leaf, {leaf!r}, which would be the only one, {kind!r} at the root; write "
            f"env.full_{kind}_spec[{keys[0]!r}]"
            f" = leaf into an unlocked clone, and assign that"
        )


def single(spec: Composite) -> Any:
    """The only leaf of a composite, or the composite when it has more or none."""
    leaves = list(spec.values(True, True))
    return leaves[0] if len(leaves) == 1 else spec


def unbatched(env: EnvBase, spec: TensorSpec) -> Any:
    """The spec of a single env of the batch."""
    return spec[(0,) * len(env.batch_size)] if env.batch_size else spec


class SideSpec(property):
    """A property that shows what goes in or comes out, and says what to assign instead."""

    def __set__(self, env: EnvBase, value: Any) -> None:
        name = self.fget.__name__  # type: ignore[union-attr]
        kinds = [f"{kind}_spec" for kind, where in SIDE.items() if where == f"_{name}"]
        raise SpecError(f"{type(env).__name__}.{name}: it is made of others; assign {', '.join(kinds)}")


class FullSpec:
    """``full_<kind>_spec``: the composite of all entries of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.__doc__ = f"The {kind} entries as a composite, nested like the data; shapes include the batch size."

    def __get__(self, env: EnvBase | None, owner: type | None = None) -> Any:
        if env is None:
            return self
        return family(env, self.kind) if env.cache_specs else env._family(self.kind)

    def __set__(self, env: EnvBase, value: Any) -> None:
        assign(env, self.kind, value)


class ShortSpec(FullSpec):
    """``<kind>_spec``: the only leaf of its kind, or the composite when there are several."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        whole = kind in ("observation", "state")
        self.__doc__ = f"The {kind} spec" + (", a composite." if whole else "; the leaf itself when there is only one.")

    def __get__(self, env: EnvBase | None, owner: type | None = None) -> Any:
        if env is None:
            return self
        spec = family(env, self.kind) if env.cache_specs else env._family(self.kind)
        return spec if self.kind in ("observation", "state") else single(spec)


class UnbatchedSpec:
    """``<view>_unbatched``: the same for a single env; assigning it adds the batch size."""

    def __init__(self, view: FullSpec) -> None:
        self.view = view
        self.__doc__ = f"{(view.__doc__ or '').rstrip('.')}, for a single env of the batch."

    def __get__(self, env: EnvBase | None, owner: type | None = None) -> Any:
        return self if env is None else unbatched(env, self.view.__get__(env))

    def __set__(self, env: EnvBase, value: Any) -> None:
        if isinstance(value, dict):
            value = Composite(value)
        self.view.__set__(env, value.expand(*env.batch_size, *value.shape) if env.batch_size else value)


class Keys:
    """``<kind>_keys``: the nested keys of all leaves of one kind, from the root down."""

    def __init__(self, kind: str) -> None:
        self.name = f"{kind}_keys"
        self.__doc__ = f"The {kind} keys, from the root down."

    def __get__(self, env: EnvBase | None, owner: type | None = None) -> Any:
        return self if env is None else getattr(env.plan, self.name)


class Key:
    """``<kind>_key``: the nested key of the only leaf of its kind."""

    def __init__(self, kind: str) -> None:
        self.kind, self.plural = kind, f"{kind}_keys"
        self.__doc__ = f"The {kind} key, when there is one only; what losses want in ``set_keys``."

    def __get__(self, env: EnvBase | None, owner: type | None = None) -> Any:
        if env is None:
            return self
        keys: list[NestedKey] = getattr(env.plan, self.plural)
        if self.kind == "done":  # done, terminated and truncated of one level count as one
            keys = [k for k in keys if (k if isinstance(k, str) else k[-1]) == "done"] or keys
        if len(keys) != 1:
            own = next((key for key in keys if not isinstance(key, str)), None)
            which = f"; a loss of one group takes its own, such as {own}: see marlenv.group_keys" if own else ""
            raise KeyMissing(
                f"{type(env).__name__}.{self.kind}_key: the env has {len(keys)} {self.kind} entries, {keys}; "
                f"use {self.kind}_keys{which}"
            )
        return keys[0]


class SpecViews:
    """The part of :class:`~marlenv.envs.env.EnvBase` that shows its specs and keys. Abstract."""

    cache_specs: bool = True
    """Whether specs stay as they were assigned or derived; else :meth:`_family` is asked at every look."""
    batch_size: Size
    _input_spec: Composite
    _output_spec: Composite

    action_spec = ShortSpec("action")
    full_action_spec = FullSpec("action")
    action_spec_unbatched = UnbatchedSpec(action_spec)
    full_action_spec_unbatched = UnbatchedSpec(full_action_spec)
    state_spec = ShortSpec("state")
    full_state_spec = FullSpec("state")
    state_spec_unbatched = UnbatchedSpec(state_spec)
    full_state_spec_unbatched = UnbatchedSpec(full_state_spec)
    observation_spec = ShortSpec("observation")
    full_observation_spec = FullSpec("observation")
    observation_spec_unbatched = UnbatchedSpec(observation_spec)
    full_observation_spec_unbatched = UnbatchedSpec(full_observation_spec)
    reward_spec = ShortSpec("reward")
    full_reward_spec = FullSpec("reward")
    reward_spec_unbatched = UnbatchedSpec(reward_spec)
    full_reward_spec_unbatched = UnbatchedSpec(full_reward_spec)
    done_spec = ShortSpec("done")
    full_done_spec = FullSpec("done")
    done_spec_unbatched = UnbatchedSpec(done_spec)
    full_done_spec_unbatched = UnbatchedSpec(full_done_spec)

    action_keys = Keys("action")
    state_keys = Keys("state")
    observation_keys = Keys("observation")
    reward_keys = Keys("reward")
    done_keys = Keys("done")
    action_key = Key("action")
    reward_key = Key("reward")
    done_key = Key("done")

    def _family(self, kind: str) -> Composite:
        """The composite of one kind, as it is now."""
        return family(self, kind)  # type: ignore[arg-type]
