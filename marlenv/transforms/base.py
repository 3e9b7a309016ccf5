"""What every transform is: a change to what an env says, and to what it is told.

A transform of single values writes ``_apply_transform``; keys, specs and resets follow from it. A transform with memory
writes ``_reset`` and ``_step`` and edits the specs. Memory lives in the data, beside what it is about, so that rows
stay independent; no transform ever sees a reset mask: the env merges fresh and kept rows in one place.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from marlenv.errors import KeyMissing, SpecError
from marlenv.keys import NestedKey
from marlenv.specs import Bounded, Composite, Stacked, TensorSpec, Unbounded
from marlenv.tensordicts import fetch, separate, write

if TYPE_CHECKING:
    from marlenv.envs import EnvBase

Kind = Literal["action", "state", "observation", "reward", "done"]
OUTPUTS: tuple[Kind, ...] = ("observation", "reward", "done")
INPUTS: tuple[Kind, ...] = ("action", "state")


class Transform(nn.Module):
    """Changes what an env says (observations, rewards, done flags) and what it is told (actions, state).

    Args:
        in_keys: entries to read, as the env names them; a subclass may choose them when the transform joins an env.
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
    """The family whose keys are read when ``in_keys`` is None."""
    monotone: ClassVar[bool] = False
    """Whether larger values stay larger (or smaller): then the bounds of a spec are transformed like values."""

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = (),
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = (),
        out_keys_inv: Sequence[NestedKey] | None = None,
    ) -> None:
        super().__init__()
        self.in_keys = None if in_keys is None else _key_list(in_keys)
        self.out_keys = self.in_keys if out_keys is None else _key_list(out_keys)
        self.in_keys_inv = _key_list(in_keys_inv or ())
        self.out_keys_inv = list(self.in_keys_inv) if out_keys_inv is None else _key_list(out_keys_inv)
        self._check_keys()
        self.__dict__["_container"] = None

    def _check_keys(self) -> None:
        for ins, outs in (("in_keys", "out_keys"), ("in_keys_inv", "out_keys_inv")):
            a, b = getattr(self, ins), getattr(self, outs)
            if a is not None and b is not None and len(a) != len(b):
                raise SpecError(f"{type(self).__name__}: {ins} and {outs} must be as many, got {a} and {b}")

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
        return self._each(next_tensordict, must=True)

    def _reset(self, tensordict: TensorDictBase | None, tensordict_reset: TensorDictBase) -> TensorDictBase:
        """Edits, in place, what a reset answered, for all rows; rows that are not reset are left out by the env."""
        if type(self)._call is Transform._call:
            return self._each(tensordict_reset, must=False)
        return self._call(tensordict_reset)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        """Edits, in place, what a step from ``tensordict`` answered."""
        return self._call(next_tensordict)

    def _on_reset(self, tensordict: TensorDictBase) -> None:
        """Called after every reset with the data to go on from, reset and kept rows merged; changes nothing."""

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Edits, in place, what the env is told."""
        for inner, outer in zip(self.in_keys_inv, self.out_keys_inv, strict=True):
            value = fetch(tensordict, outer)
            if value is not None:
                tensordict.set(inner, self._inv_apply_transform(value))
        return tensordict

    def _each(self, td: TensorDictBase, must: bool) -> TensorDictBase:
        for old, new in zip(self.in_keys or (), self.out_keys or (), strict=True):
            value = fetch(td, old)
            if isinstance(value, list):  # of agents whose entries have different sizes
                write(td, new, [self._apply_transform(one) for one in value])
            elif value is not None:
                made = self._apply_transform(value)
                td.set(new, made if new == old else separate([made], [value])[0])
            elif must:
                raise KeyMissing(
                    f"{type(self).__name__}: no entry {old!r}; the data has {sorted(map(str, td.keys(True, True)))}"
                )
        return td

    # --- use outside an env ----------------------------------------------------------------------

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Applies the transform to data, in place, wherever its entries are: a step's data, or a replay buffer's."""
        self._each(tensordict, must=False)
        following = tensordict.get("next", None)
        if following is not None:
            self._each(following, must=False)
        return tensordict

    def inv(self, tensordict: TensorDictBase) -> TensorDictBase:
        """What the env would be told; a new tensordict."""
        return self._inv_call(tensordict.copy())

    # --- specs -----------------------------------------------------------------------------------

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Edits the full specs of the env, by kind, in place."""
        for kind in OUTPUTS:
            specs[kind] = getattr(self, f"transform_{kind}_spec")(specs[kind])
        for kind in INPUTS:
            specs[kind] = getattr(self, f"transform_{kind}_spec")(specs[kind])

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
        for old, new in zip(self.in_keys or (), self.out_keys or (), strict=True):
            if old in spec and type(self)._apply_transform is not Transform._apply_transform:
                spec[new] = self.derive(spec[old])
        return spec

    def _respec_inputs(self, spec: Composite) -> Composite:
        for inner, outer in zip(self.in_keys_inv, self.out_keys_inv, strict=True):
            if inner in spec and type(self)._apply_transform is not Transform._apply_transform:
                leaf = self.derive(spec[inner])
                if outer != inner:
                    del spec[inner]
                spec[outer] = leaf
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
        example = self._apply_transform(spec.zero())
        return Unbounded(example.shape, device=example.device, dtype=example.dtype)

    # --- belonging to an env ---------------------------------------------------------------------

    def join(self, env: EnvBase) -> None:
        """Called once, when the transform joins ``env``: fills in the keys that were left out."""
        if self.in_keys is None:
            self.in_keys = list(getattr(env, f"{self.on}_keys"))
        if self.out_keys is None:
            self.out_keys = self.default_out_keys(self.in_keys)
        self._check_keys()

    def default_out_keys(self, in_keys: list[NestedKey]) -> list[NestedKey]:
        """Where results go when ``out_keys`` was left out; the entries themselves, unless a subclass says otherwise."""
        return list(in_keys)

    def set_container(self, container: Any) -> None:
        """Says which env or chain of transforms this one belongs to."""
        if self.container is not None and container is not self.container:
            raise SpecError(
                f"{type(self).__name__}: belongs to an env already; give the other env a copy, transform.clone()"
            )
        self.__dict__["_container"] = weakref.ref(container)

    def reset_parent(self) -> None:
        """Forgets the env or chain that this transform belongs to."""
        self.__dict__["_container"] = None

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
        return env.before(self) if isinstance(env, TransformedEnv) else None

    def clone(self) -> Self:
        """A copy that belongs to no env; buffers and parameters are shared."""
        twin = copy(self)
        twin.__dict__ = dict(self.__dict__)
        twin.__dict__["_container"] = None
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_container": None}

    def close(self) -> None:
        """Called when the env is closed."""

    def __repr__(self) -> str:
        keys = (
            f"in_keys={self.in_keys}" if self.in_keys else f"in_keys_inv={self.in_keys_inv}" if self.in_keys_inv else ""
        )
        return f"{type(self).__name__}({keys})"


def _key_list(keys: Sequence[NestedKey] | str) -> list[NestedKey]:
    return [keys] if isinstance(keys, str) else list(keys)
