"""What every transform is: a change to what an env says, and to what it is told.

A transform of single values writes ``_apply_transform``; keys, specs and resets follow from it. A transform with memory
writes ``_reset`` and ``_step`` and edits the specs. Memory lives in the data, beside what it is about, so that rows
stay independent; no transform need look at a reset mask: the env merges fresh and kept rows in one place.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import torch
from tensordict import TensorDictBase
from tensordict.nn import dispatch
from torch import Size, Tensor, nn

from marlenv.errors import KeyCollision, KeyMissing, SpecError, SpecTypeError, Unsupported, nearest_first
from marlenv.keys import NestedKey, beside, last, nested, path
from marlenv.specs import Bounded, Composite, Stacked, TensorSpec, Unbounded
from marlenv.tensordicts import fetch, separate, store, write
from marlenv.transforms.checks import HOOKS, check_entries, check_keys, check_states, derived, place
from marlenv.transforms.names import is_public, untaken

if TYPE_CHECKING:
    from marlenv.envs import EnvBase
    from marlenv.groups import GroupTree

Kind = Literal["action", "state", "observation", "reward", "done"]
OUTPUTS: tuple[Kind, ...] = ("observation", "reward", "done")
INPUTS: tuple[Kind, ...] = ("action", "state")


class Transform(nn.Module):
    """Changes what an env says (observations, rewards, done flags) and what it is told (actions, state).

    Args:
        in_keys: entries to read, as the env names them; a subclass may choose them when the transform joins an env.
            None: all of the family ``on``, which a class of single values that says ``on`` (of what an env says) reads
            when left out, too.
        out_keys: entries to write, as the outside names them; ``in_keys`` when left out.
        in_keys_inv: entries that the env is told, as the env names them.
        out_keys_inv: the same entries as the outside names them; ``in_keys_inv`` when left out.

    >>> class AddOne(Transform):
    ...     def _apply_transform(self, x):
    ...         return x + 1
    >>> env = TransformedEnv(marlenv.testing.CountingEnv(), AddOne(in_keys=["observation"]))
    >>> env.reset()["observation"]
    tensor([1.])
    """

    on: ClassVar[Kind] = "observation"
    """The family whose keys are read when ``in_keys`` is None, or left out by a class of single values that says it."""
    default_name: ClassVar[str | None] = None
    """The name that those keys end with, where not all of the family are meant; and the key outside an env."""
    monotone: ClassVar[bool] = False
    """Whether larger values stay larger (or smaller): then the bounds of a spec are transformed like values."""
    pure: ClassVar[bool] = False
    """Whether it may be applied to many steps at once: single values, no memory, no randomness, nothing of an env; said
    by every class for itself, as a subclass may do something else."""
    invertible: ClassVar[bool] = False
    """Whether ``inv`` undoes what ``forward`` does."""
    one_for_each: ClassVar[bool] = False
    """Whether an entry of ``out_keys`` belongs to every one of ``in_keys``; of single values it always does."""
    one_size: ClassVar[bool] = False
    """Whether the agents of a group must have entries of one size; with memory of single entries always."""
    takes_texts: ClassVar[bool] = False
    """Whether it makes tensors, or anything else, of entries that are none; asked of our own classes only."""
    only_in_env: ClassVar[str] = ""
    """Why it can do nothing for data outside an env; empty where it can."""
    asks_what_was_told: ClassVar[bool] = False
    """Whether ``_step`` calls ``told``, once: it gets what was told then, and no inverse is called another time."""
    enable_inv_on_reset: ClassVar[bool] = False
    """Whether ``_inv_call`` also sees what a reset is given; single values that ``in_keys_inv`` names always do."""

    _parent: EnvBase | None
    _derived: dict[str, list[NestedKey]]
    _overwritten: frozenset[NestedKey]
    _taken: frozenset[NestedKey]
    _value_ndim: int
    _no_keys: bool

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Raises for a family that there is not."""
        super().__init_subclass__(**kwargs)
        if cls.on not in (*OUTPUTS, *INPUTS):
            raise SpecError(f"{cls.__name__}: on must be one of {sorted((*OUTPUTS, *INPUTS))}, got {cls.on!r}")
        if "of_users" not in cls.__dict__:
            cls.of_users = cls.__module__.partition(".")[0] != "marlenv"

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = (),
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = (),
        out_keys_inv: Sequence[NestedKey] | None = None,
    ) -> None:
        super().__init__()
        left_out = isinstance(in_keys, tuple) and not in_keys and not in_keys_inv
        if left_out and self._says_what_it_reads():
            in_keys, left_out = None, False
        self.in_keys = None if in_keys is None else _key_list(in_keys)
        self.out_keys = self.in_keys if out_keys is None else _key_list(out_keys)
        self.in_keys_inv = _key_list(in_keys_inv or ())
        self.out_keys_inv = list(self.in_keys_inv) if out_keys_inv is None else _key_list(out_keys_inv)
        check_keys(self)
        self.missing_tolerance = False
        self.__dict__.update(_container=None, _parent=None, _derived={}, _overwritten=frozenset())
        self.__dict__.update(_taken=frozenset(), _value_ndim=0, _no_keys=left_out)

    @classmethod
    def _writes(cls, *hooks: str) -> bool:
        """Whether the class has any of these hooks of its own."""
        return any(getattr(cls, hook) is not getattr(Transform, hook) for hook in hooks)

    @classmethod
    def _says_what_it_reads(cls) -> bool:
        """Whether it is one of single values that names their family."""
        named = any("on" in vars(base) for base in cls.__mro__ if base is not Transform)
        return named and cls.on in OUTPUTS and cls._writes("_apply_transform") and not cls._writes(*HOOKS)

    of_users: ClassVar[bool] = False
    """Whether its code is a user's, who may leave to us what follows from a done flag."""

    def check_reads(self) -> None:
        """Raises where a user's transform of single values was told of none.

        Raises:
            SpecError: it would do nothing.
        """
        if self.in_keys_inv or self._writes(*HOOKS):
            return
        told = self.of_users and self.on in INPUTS and self._writes("_inv_apply_transform")
        if told and (self._no_keys or self.in_keys):
            raise SpecError(
                f"{type(self).__name__}: on = {self.on!r} is what the env is told, and in_keys_inv must name it, such "
                f"as in_keys_inv=env.{self.on}_keys; an empty list where it shall do nothing"
            )
        idle = self._no_keys and not self.in_keys
        if idle and self.of_users and self._writes("_apply_transform", "_inv_apply_transform"):
            raise SpecError(
                f"{type(self).__name__}: no keys, so it would do nothing; pass in_keys=[...] (None: all of the family "
                f"that the class names, on = 'reward') or in_keys_inv=[...]; an empty list where that is meant"
            )

    # --- hooks on single values ------------------------------------------------------------------

    def _apply_transform(self, obs: Tensor) -> Tensor:
        """The new value of an entry that the env gives; ``[*B, ...]``."""
        return obs

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        """The value that the env is told for one that the outside gives; ``[*B, ...]``."""
        return state

    # --- hooks on whole steps --------------------------------------------------------------------

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        """Edits, in place, what the env answered."""
        self._each(next_tensordict, must=True)
        return next_tensordict

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        """Edits, in place, what a reset is given, before the env sees it; None where nothing is."""
        single_values = type(self)._inv_call is Transform._inv_call
        if tensordict is None or not (self.enable_inv_on_reset or single_values):
            return tensordict
        return self._inv_of_some(tensordict)

    def _inv_of_some(self, tensordict: TensorDictBase) -> TensorDictBase:
        """``_inv_call`` on data that need not have all entries: of a reset, or stored ones."""
        strict, self.missing_tolerance = self.missing_tolerance, True
        try:
            return self._inv_call(tensordict)
        finally:
            self.missing_tolerance = strict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        """Edits, in place, what a reset answered, for all rows; rows that are not reset are left out by the env.

        ``tensordict`` is what the reset was given, ``"_reset"`` masks included.
        """
        if type(self)._call is Transform._call:
            self._each(tensordict_reset, must=False)
            return tensordict_reset
        return self._call(tensordict_reset)

    def _restored(self, tensordict_reset: TensorDictBase) -> TensorDictBase:
        """Edits, in place, what stands after ``set_state``; as after a reset, where nothing else is written."""
        return self._reset(tensordict_reset.empty(), tensordict_reset)

    def row_state(self) -> Tensor | None:
        """What this transform knows of every row besides what is in the data; ``[*B, ...]``."""
        return None

    def set_row_state(self, state: Tensor) -> None:
        """Puts that back."""

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        """Edits, in place, what a step from ``tensordict`` answered."""
        return self._call(next_tensordict)

    def _on_reset(self, tensordict: TensorDictBase) -> None:
        """Called after every reset with the data to go on from, reset and kept rows merged; changes nothing."""

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Edits, in place, what the env is told."""
        for inner, outer in zip(self.in_keys_inv, self.out_keys_inv, strict=True):
            value = fetch(tensordict, outer)
            if isinstance(value, list):
                write(tensordict, inner, [self._inv_apply_transform(one) for one in value])
            elif value is not None:
                store(tensordict, inner, self._made("_inv_apply_transform", self._inv_apply_transform(value)))
            elif not self.missing_tolerance:
                raise self.no_entry(outer, tensordict.keys(True, True))
        return tensordict

    def _made(self, hook: str, value: Any) -> Any:
        """What a hook gave; raises where it gave nothing."""
        if value is None:
            raise SpecTypeError(f"{type(self).__name__}.{hook}: must return the new value, returned None")
        return value

    def _each(self, td: TensorDictBase, must: bool) -> set[NestedKey]:
        """Transforms what is there, in place; returns the keys that were not."""
        missing: set[NestedKey] = set()
        for old, new in one_by_one(*self._keys()):
            value = fetch(td, old)
            if isinstance(value, list):  # of agents whose entries have different sizes
                write(td, new, [self._apply_transform(one) for one in value])
            elif value is not None:
                made = self._made("_apply_transform", self._apply_transform(value))
                held = new != old and isinstance(made, Tensor) and isinstance(value, Tensor)
                store(td, new, separate([made], [value])[0] if held else made)
            elif must and not self.missing_tolerance:
                raise self.no_entry(old, td.keys(True, True))
            else:
                missing.add(old)
        return missing

    def _keys(self) -> tuple[list[NestedKey], list[NestedKey]]:
        """The entries that are read and written; outside an env those of the usual names where none were given."""
        ins: list[NestedKey] = [self.default_name or self.on] if self.in_keys is None else self.in_keys
        return ins, self.default_out_keys(ins) if self.out_keys is None else self.out_keys

    def need_keys(self) -> None:
        """Raises where no entries were named and no env has said which there are.

        Raises:
            Unsupported: so it is.
        """
        if not self.in_keys:
            raise Unsupported(f"{type(self).__name__}: an env says which entries there are; outside one give in_keys")

    def no_entry(self, key: NestedKey, known: Any, where: str = "the data has") -> KeyMissing:
        """The error for an entry that is not there; lists those that are, nearest first."""
        return KeyMissing(f"{type(self).__name__}: no entry {key!r}; {where} {nearest_first(key, known)}")

    # --- use outside an env ----------------------------------------------------------------------

    @dispatch(source="in_keys", dest="out_keys")  # type: ignore[untyped-decorator]
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Applies the transform to data, in place, wherever its entries are: a step's data, or a replay buffer's.

        Entries below ``"next"`` are transformed like those of the root; with keys that name them, ``("next",
        "observation")``, only what is named.

        Raises:
            KeyMissing: an entry is in neither place.
            Unsupported: it works in an env only.
        """
        if self.only_in_env:
            raise Unsupported(
                f"{type(self).__name__}: works in an env only: {self.only_in_env}; TransformedEnv(env, transform) has "
                f"it, and to_torchrl of that in TorchRL"
            )
        missing = self._each(tensordict, must=False)
        following = tensordict.get("next", None)
        if following is not None and not any(path(key)[0] == "next" for key in self._keys()[0]):
            missing &= self._each(following, must=False)
        if missing and not self.missing_tolerance:
            raise self.no_entry(next(iter(missing)), tensordict.keys(True, True))
        return tensordict

    @dispatch(source="in_keys_inv", dest="out_keys_inv")  # type: ignore[untyped-decorator]
    def inv(self, tensordict: TensorDictBase) -> TensorDictBase:
        """What the env would be told; a new tensordict."""
        return self._inv_of_some(tensordict.copy())

    def set_missing_tolerance(self, mode: bool = False) -> None:
        """Whether entries that are not there are passed over rather than an error."""
        self.missing_tolerance = mode

    def dump(self, **kwargs: Any) -> Any:
        """Writes out what was recorded; nothing, where nothing is."""

    # --- specs -----------------------------------------------------------------------------------

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Edits the full specs of the env, by kind, in place, after the hooks below."""

    def transform_env_batch_size(self, batch_size: Size) -> Size:
        """The batch size after the transform."""
        return batch_size

    def transform_tree(self, tree: GroupTree | None) -> GroupTree | None:
        """The groups of agents after the transform; None where the env has none."""
        return tree

    def transform_env_device(self, device: torch.device | None) -> torch.device | None:
        """The device after the transform."""
        return device

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """``full_observation_spec``, ``full_reward_spec`` and ``full_done_spec`` after the transform."""
        return self._respec_side(output_spec, OUTPUTS)

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """``full_action_spec`` and ``full_state_spec`` as the outside sees them."""
        return self._respec_side(input_spec, INPUTS)

    def _respec_side(self, side: Composite, kinds: tuple[Kind, ...]) -> Composite:
        side = side.clone()
        for kind in kinds:
            if (name := f"full_{kind}_spec") in side.keys():
                side[name] = getattr(self, f"transform_{kind}_spec")(side[name])
        return side

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """The observation specs after the transform."""
        return self._respec_outputs(observation_spec)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """The reward specs after the transform."""
        return self._respec_outputs(reward_spec)

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """The done specs after the transform."""
        return self._respec_outputs(done_spec)

    def transform_action_spec(self, action_spec: Composite) -> Composite:
        """The action specs as the outside sees them."""
        return self._respec_inputs(action_spec)

    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """The state specs as the outside sees them."""
        return self._respec_inputs(state_spec)

    def _respec_outputs(self, spec: Composite) -> Composite:
        if type(self)._apply_transform is not Transform._apply_transform:
            for old, new in one_by_one(self.in_keys or [], self.out_keys or []):
                if old in spec:
                    place(self, spec, new, derived(self, old, spec[old]), "out_keys")
        return spec

    def _respec_inputs(self, spec: Composite) -> Composite:
        for inner, outer in one_by_one(self.in_keys_inv, self.out_keys_inv):
            if inner in spec and type(self)._apply_transform is not Transform._apply_transform:
                leaf = derived(self, inner, spec[inner])
                if outer != inner:
                    del spec[inner]
                place(self, spec, outer, leaf, "out_keys_inv")
            elif inner in spec and outer != inner:
                spec[outer] = spec.pop(inner)
        return spec

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """The spec of an entry after the transform, read off by passing values through it."""
        if isinstance(spec, Stacked):
            return Stacked(*[self.derive(part) for part in spec.parts], dim=spec.dim)
        if self.monotone and isinstance(spec, Bounded):
            low, high = (self._apply_transform(end) for end in spec.space)
            return Bounded(
                torch.minimum(low, high), torch.maximum(low, high), low.shape, device=low.device, dtype=low.dtype
            )
        example = self._made("_apply_transform", self._apply_transform(spec.zero()))
        return Unbounded(example.shape, device=example.device, dtype=example.dtype)

    def need_dim(self, spec: TensorSpec, dim: int, batch_ndim: int) -> None:
        """Raises unless an entry has a dimension, counted from the end, behind those of the batch."""
        if dim < batch_ndim - spec.ndim:
            raise SpecError(
                f"{type(self).__name__}: there is no dimension {dim} behind the batch in a spec of shape "
                f"{list(spec.shape)}, batch {list(spec.shape[:batch_ndim])}; name other entries in in_keys"
            )

    def transform_fake_tensordict(self, fake_tensordict: TensorDictBase) -> TensorDictBase:
        """Edits the zeros that ``env.fake_tensordict()`` gives, where data are not quite as the specs have them."""
        return fake_tensordict

    # --- belonging to an env ---------------------------------------------------------------------

    def join(self, env: EnvBase) -> None:
        """Fills in the keys that were left out; called when the specs of ``env`` are built, before they are edited."""
        if self.in_keys is None or self.in_keys is self._derived.get("in"):
            self.in_keys = self._derived["in"] = self.default_in_keys(env)
        if self.out_keys is None or self.out_keys is self._derived.get("out"):
            self.out_keys = self._derived["out"] = self.default_out_keys(self.in_keys)
        check_keys(self, in_env=True)
        specs = [getattr(env, f"full_{kind}_spec") for kind in OUTPUTS]
        self._check_room(specs)
        check_states(self, env)
        remembers = self.one_for_each and self._writes("_step")
        if self.one_size or remembers:
            told = [getattr(env, f"full_{kind}_spec") for kind in INPUTS]
            check_entries(self, [*self.in_keys, *self.in_keys_inv], [*specs, *told], tensors=remembers)
        read = [spec[key].ndim - spec.ndim for spec in specs for key in self.in_keys if key in spec]
        taken = frozenset((*env.observation_keys, *env.reward_keys, *env.done_keys))
        self.__dict__.update(_taken=taken, _value_ndim=min(read, default=0))

    def _check_room(self, specs: list[Composite]) -> None:
        """Raises where an entry would be written over a group of entries."""
        for key in self.out_keys or ():
            held = next((spec[key] for spec in specs if key in spec), None)
            if isinstance(held, Composite) and key not in (self.in_keys or ()):
                raise KeyCollision(
                    f"{type(self).__name__}: {key!r} is a group of the env already, with {list(held.keys())}; pass "
                    f"another name, out_key=... or out_keys=[...]"
                )

    def default_in_keys(self, env: EnvBase) -> list[NestedKey]:
        """What is read when ``in_keys`` was left out; never what transforms remember, and no state that a step reads
        again where there is anything else.
        """
        keys: list[NestedKey] = [key for key in getattr(env, f"{self.on}_keys") if is_public(key)]
        states = set(env.state_keys)
        keys = [key for key in keys if key not in states] or keys
        return keys if self.default_name is None else [key for key in keys if last(key) == self.default_name]

    def default_out_keys(self, in_keys: list[NestedKey]) -> list[NestedKey]:
        """Where results go when ``out_keys`` was left out; the entries themselves, unless a subclass says otherwise."""
        return list(in_keys)

    def is_pure(self) -> bool:
        """Whether it may be applied to many steps at once: its class is ``pure``, and its numbers are of single values.

        Numbers with more dimensions than a value may be those of rows.
        """
        said = vars(type(self)).get("pure", False) and not self.in_keys_inv
        if not said or self._writes(*HOOKS, "_on_reset"):
            return False
        return all(held.ndim <= self._value_ndim for held in (*self.buffers(), *self.parameters()))

    def memories(self) -> list[NestedKey]:
        """What this transform writes besides ``out_keys`` and must find again at the next step."""
        return []

    def known_before(self, tensordict: TensorDictBase, resetting: bool = False) -> TensorDictBase:
        """The data of a step's beginning, or what a reset is given, as the transforms before this one know them."""
        return tensordict

    def mask_keys(self) -> dict[NestedKey, NestedKey]:
        """Where the masks of actions stand that this transform knows of, by the actions' names outside."""
        return {}

    def reseed(self, seed: int | None) -> None:
        """Called when the env is seeded, with a seed of the transform's own."""

    def follow(self, other: Self) -> None:
        """Draws from now on what the original of this copy would, where it draws random numbers."""

    def go_on_in(self, env: EnvBase) -> None:
        """Called in the copy of an env; draws there what the original would, also after changes to the chain."""

    def overwrites(self, key: NestedKey) -> bool:
        """Whether an entry is not, after the transform, what it was before."""
        return key in (self.out_keys or ())

    def memory_of(self, key: NestedKey) -> NestedKey:
        """Where what this transform writes under ``key`` still stands at the next step.

        That is ``key`` itself, or where a later transform changes that entry, one of the same name with an underscore.
        """
        return self.own(beside(key, f"_{last(key)}")) if key in self._overwritten else key

    def own(self, key: NestedKey) -> NestedKey:
        """The name of an entry that no transform before this one has: ``key``, numbered where it is taken."""
        return untaken(key, self._taken)

    def set_container(self, container: Any) -> None:
        """Says which env or chain of transforms this one belongs to."""
        if self.container is not None and container is not self.container:
            raise SpecError(
                f"{type(self).__name__}: belongs to an env already; give the other env a copy, transform.clone()"
            )
        self.__dict__.update(_container=weakref.ref(container), _parent=None)

    def reset_parent(self) -> None:
        """Forgets the env or chain that this transform belongs to."""
        self.__dict__.update(_container=None, _parent=None)

    @property
    def container(self) -> Any:
        """The transformed env that this transform belongs to, or the chain outside an env; None when alone."""
        held = self.__dict__["_container"]
        owner = None if held is None else held()
        return owner.container or owner if isinstance(owner, Transform) else owner

    @property
    def parent(self) -> EnvBase | None:
        """The env with all the transforms before this one; None outside an env."""
        from marlenv.transforms.env import TransformedEnv

        env = self.container
        if not isinstance(env, TransformedEnv):
            return None
        if self._parent is None:
            self.__dict__["_parent"] = env.before(self)
        return self._parent

    def told(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The data of a step as the env before this transform takes them: through the inverses of those after it."""
        return self.container.told_to(self, tensordict)

    def _specs_follow(self) -> None:
        """Lets the specs of the env follow what has changed in the transform."""
        env = self.container
        if env is not None and not isinstance(env, Transform):
            env._rebuild()

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        if self._buffers:
            self._specs_follow()

    def empty_cache(self) -> None:
        """Forgets the parent, which is made again when it is asked for."""
        self.__dict__["_parent"] = None

    def clone(self) -> Self:
        """A copy that belongs to no env; buffers and parameters are shared."""
        twin = object.__new__(type(self))  # copy() would go through __setstate__, as for a pickle
        twin.__dict__ = {name: copy(v) if type(v) in (dict, list) else v for name, v in self.__dict__.items()}
        twin.__dict__.update(_container=None, _parent=None, _derived=dict(self._derived))
        for name, keys in self._derived.items():  # still found anew when the copy joins an env
            if getattr(self, f"{name}_keys") is keys:
                setattr(twin, f"{name}_keys", twin._derived[name])
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_container": None, "_parent": None}

    def close(self) -> None:
        """Called when the env is closed."""

    def __repr__(self) -> str:
        keys = (
            f"in_keys={self.in_keys}" if self.in_keys else f"in_keys_inv={self.in_keys_inv}" if self.in_keys_inv else ""
        )
        return f"{type(self).__name__}({keys})"


class ObservationTransform(Transform):
    """A transform of observations; those of all agents when no keys are given. Abstract."""

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = (),
        out_keys_inv: Sequence[NestedKey] | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)


def _key_list(keys: Sequence[NestedKey] | str) -> list[NestedKey]:
    if isinstance(keys, str) or (isinstance(keys, tuple) and keys and all(isinstance(part, str) for part in keys)):
        return [nested(path(keys))]  # one key, by itself
    return [nested(path(key)) for key in keys]


def one_by_one(read: list[NestedKey], written: list[NestedKey]) -> list[tuple[NestedKey, NestedKey]]:
    """The keys that single values are read from and written to; none where there are not as many of both."""
    return list(zip(read, written, strict=True)) if len(read) == len(written) else []


def unbounded(spec: TensorSpec) -> Unbounded:
    """The spec without bounds."""
    return Unbounded(spec.shape, device=spec.device, dtype=spec.dtype)


def asked(
    tensordict: TensorDictBase, masks: Sequence[NestedKey], rows: Size, device: torch.device | None = None
) -> Tensor:
    """What a reset is asked to start anew, by the masks that it was given; all of it where one is missing.

    Bool ``[*B, n]``: the flags of all ``masks`` of a row side by side.

    >>> asked(TensorDict({"_reset": torch.tensor([[True], [False]])}, [2]), ["_reset"], torch.Size([2])).squeeze(-1)
    tensor([ True, False])
    """
    found = []
    for key in masks:
        mask = fetch(tensordict, key)
        every = torch.ones((*rows, 1), dtype=torch.bool, device=device)
        found.append(every if mask is None else mask.reshape(*rows, -1))
    return torch.cat(found, -1)
