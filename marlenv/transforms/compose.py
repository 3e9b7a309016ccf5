"""Several transforms one after the other."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, nn

from marlenv.errors import BadIndex, SpecError, SpecTypeError
from marlenv.specs import Composite
from marlenv.specs.shapes import concrete
from marlenv.tensordicts import unite
from marlenv.transforms.base import Transform
from marlenv.transforms.flags import complete_changed, note_flags

if TYPE_CHECKING:
    from marlenv.envs import EnvBase


class Call(Transform):
    """A function of tensordicts as a transform: called with what a reset or a step answered, and returns it.

    Args:
        function: edits a tensordict and returns it. What it adds is read into the observation specs.
    """

    def __init__(self, function: Callable[[TensorDictBase], TensorDictBase]) -> None:
        super().__init__()
        self.function = function

    of_users = True

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        made = self.function(next_tensordict)
        if not isinstance(made, TensorDictBase):
            raise SpecTypeError(
                f"{self.function!r} must return the tensordict that it edits, got {type(made).__name__}"
            )
        return made

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The specs of what the function returns for zeros: observations and done flags, as after a reset."""
        from marlenv.envs import make_composite_from_td

        side = output_spec.clone()
        observation, done = side["full_observation_spec"], side["full_done_spec"]
        zeros = unite(observation.zero(), done.zero())
        made = make_composite_from_td(self._call(zeros), unsqueeze_null_shapes=False)
        for key, leaf in made.items(True, True):
            old = observation.get(key, None)
            if key not in done and (old is None or (concrete(old.shape), old.dtype) != (leaf.shape, leaf.dtype)):
                observation[key] = leaf
        for key in [k for k in observation.keys(True, True) if k not in made]:
            del observation[key]
        return side


def as_transform(transform: Any) -> Transform:
    """A transform from what users pass: a transform, or a function of tensordicts.

    Raises:
        SpecError: it is a class, or a transform of TorchRL, or half made, or cannot be called.
    """
    if isinstance(transform, Transform):
        if "_container" not in transform.__dict__:
            name = type(transform).__name__
            raise SpecError(f"{name}.__init__: must begin with super().__init__(in_keys), which it never called")
        return transform
    kind = transform if inspect.isclass(transform) else type(transform)
    if any(base.__module__.startswith("torchrl.envs") for base in kind.__mro__):
        raise SpecError(f"{kind.__name__} is TorchRL's, which reads and writes specs of TorchRL; {ours(kind.__name__)}")
    if inspect.isclass(transform):
        raise SpecError(f"expected a transform, got the class {kind.__name__}; make one, {kind.__name__}(...)")
    if callable(transform):
        return Call(transform)
    raise SpecError(f"expected a transform or a function of tensordicts, got {type(transform).__name__}")


def ours(name: str) -> str:
    """What to use in place of TorchRL's transform of that name."""
    room = importlib.import_module("marlenv.transforms")
    if name in room.__all__:
        return f"use marlenv's own: from marlenv import {name}"
    return "marlenv has none of that name: put it on marlenv.to_torchrl(env), or write it as a marlenv.Transform"


def edited(transform: Transform, hook: str, td: TensorDictBase, *known: TensorDictBase) -> TensorDictBase:
    """What a hook of a user's transform makes of what the env answered; done flags follow from those that it changed.

    Raises:
        SpecTypeError: it returned something else than a tensordict.
    """
    flags = note_flags(td)
    made = returned(transform, hook, getattr(transform, hook)(*known, td))
    complete_changed(made, flags)
    return made


def returned(transform: Transform, hook: str, made: Any) -> Any:
    """What a hook returned, where it is a tensordict."""
    if type(made) is not TensorDict and not isinstance(made, TensorDictBase):
        raise SpecTypeError(
            f"{type(transform).__name__}.{hook}: must return the tensordict that it edits, got {type(made).__name__}"
        )
    return made


class Compose(Transform):
    """A chain of transforms: first to last on what the env says, last to first on what it is told.

    Args:
        *trsfs: transforms, or functions of tensordicts; or one list of them.
        transforms: the same as a list, by name.

    >>> chain = Compose(RewardSum(), StepCounter(max_steps=5))
    >>> len(chain), chain[-1]
    (2, StepCounter(max_steps=5))
    """

    _moves = False  # whether one of them puts entries elsewhere, where those before it do not find them

    def __init__(self, *trsfs: Any, transforms: Sequence[Any] | None = None) -> None:
        super().__init__()
        if trsfs and transforms is not None:
            raise SpecError("Compose: give the transforms one after the other or by transforms=[...], not both")
        listed = transforms if transforms is not None else trsfs[0] if len(trsfs) == 1 else trsfs
        given = listed if isinstance(listed, (list, tuple)) else (listed,)
        self.transforms = nn.ModuleList()
        for transform in given:
            made = as_transform(transform)
            self._refuse_if_there(made)
            self.transforms.append(made)
            made.set_container(self)

    def _refuse_if_there(self, transform: Transform) -> None:
        """Raises where a transform is in the chain already."""
        if any(one is transform for one in self):
            raise SpecError(f"Compose: {transform!r} is in this chain already; pass its copy, transform.clone()")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for transform in self:
            transform.set_container(self)

    def __iter__(self) -> Iterator[Transform]:
        return iter(self.transforms)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.transforms)

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, slice):
            return Compose(*(t.clone() for t in list(self)[item]))
        return self.transforms[item]

    def __setitem__(self, index: int, transform: Any) -> None:
        at, made, before = self._place("", index), as_transform(transform), list(self)
        self._refuse_if_there(made)
        made.set_container(self)
        self.transforms[at] = made
        self._respecced(before)
        before[at].reset_parent()

    def __delitem__(self, index: int) -> None:
        self.pop(index)

    def append(self, transform: Any) -> None:
        """Adds a transform at the end; the specs of the env that the chain belongs to follow."""
        self.insert(len(self), transform)

    def insert(self, index: int, transform: Any) -> None:
        """Adds a transform before the one at ``index``; the specs of the env that the chain belongs to follow.

        Raises:
            BadIndex: there is no such place; -1 is the one before the last transform, ``len(chain)`` the end.
        """
        at, made, before = self._place(".insert", index, end=1), as_transform(transform), list(self)
        self._refuse_if_there(made)
        made.set_container(self)
        self.transforms.insert(at, made)
        self._respecced(before)

    def pop(self, index: int = -1) -> Transform:
        """Removes and returns a transform; the specs of the env that the chain belongs to follow."""
        at, before = self._place(".pop", index), list(self)
        gone: Transform = self.transforms.pop(at)  # type: ignore[assignment]
        self._respecced(before)
        gone.reset_parent()
        return gone

    def _place(self, what: str, index: int, end: int = 0) -> int:
        """The place that an index means, counted from the first transform; ``end=1`` allows the one after the last."""
        if not isinstance(index, Integral):
            raise BadIndex(f"Compose{what}: index must be an integer, got {index!r}; there are {len(self)} transforms")
        if not -len(self) <= index < len(self) + end:
            raise BadIndex(f"Compose{what}: index {index} is out of range; there are {len(self)} transforms")
        return int(index) + (len(self) if index < 0 else 0)

    def _respecced(self, before: list[Transform]) -> None:
        """Tells the env of the chain that it has changed; puts the transforms back if they do not fit together."""
        try:
            self._specs_follow()
        except Exception:
            for new in set(self) - set(before):
                new.reset_parent()
            self.transforms = nn.ModuleList(before)
            self._specs_follow()
            raise

    def leaves(self) -> list[Transform]:
        """The transforms of this chain and of the chains in it, in order."""
        return [leaf for t in self for leaf in (t.leaves() if isinstance(t, Compose) else [t])]

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        for transform in self:
            if transform.of_users:
                next_tensordict = edited(transform, "_call", next_tensordict)
            else:
                next_tensordict = transform._call(next_tensordict)
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        given = self._known(tensordict, True) if self._moves else repeat(tensordict)
        for transform, known in zip(self, given, strict=False):
            if transform.of_users:
                tensordict_reset = edited(transform, "_reset", tensordict_reset, known)
            else:
                tensordict_reset = transform._reset(known, tensordict_reset)
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        given = self._known(tensordict) if self._moves else repeat(tensordict)
        for transform, known in zip(self, given, strict=False):
            if transform.of_users:
                next_tensordict = edited(transform, "_step", next_tensordict, known)
            else:
                next_tensordict = transform._step(known, next_tensordict)
        return next_tensordict

    def _known(self, tensordict: TensorDictBase, resetting: bool = False) -> list[TensorDictBase]:
        """What every transform knows of data that all of them have seen."""
        known = [tensordict]
        for transform in reversed(list(self)[1:]):
            known.append(transform.known_before(known[-1], resetting))
        return known[::-1]

    def known_before(self, tensordict: TensorDictBase, resetting: bool = False) -> TensorDictBase:
        """The data as the transforms before the chain know them."""
        for transform in reversed(list(self)):
            tensordict = transform.known_before(tensordict, resetting)
        return tensordict

    def _restored(self, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for transform in self:
            tensordict_reset = edited(transform, "_restored", tensordict_reset)
        return tensordict_reset

    def _on_reset(self, tensordict: TensorDictBase) -> None:
        given = self._known(tensordict) if self._moves else repeat(tensordict)
        for transform, known in zip(self, given, strict=False):
            transform._on_reset(known)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        for transform in reversed(list(self)):
            tensordict = returned(transform, "_inv_call", transform._inv_call(tensordict))
        return tensordict

    def _inv_of_some(self, tensordict: TensorDictBase) -> TensorDictBase:
        for transform in reversed(list(self)):
            tensordict = returned(transform, "_inv_call", transform._inv_of_some(tensordict))
        return tensordict

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        for transform in reversed(list(self)):
            made = transform._reset_env_preprocess(tensordict)
            tensordict = None if tensordict is None else returned(transform, "_reset_env_preprocess", made)
        return tensordict

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Applies the transforms to data, in place, one after the other."""
        for transform in self:
            tensordict = transform(tensordict)
        return tensordict

    def inv(self, tensordict: TensorDictBase) -> TensorDictBase:
        """What the env would be told; a new tensordict."""
        return self._inv_of_some(tensordict.copy())

    def _in_turn(self, hook: str, value: Any) -> Any:
        """What becomes of a value that every transform in turn is given."""
        for transform in self:
            value = getattr(transform, hook)(value)
        return value

    def transform_env_batch_size(self, batch_size: Size) -> Size:
        """The batch size after all transforms."""
        return self._in_turn("transform_env_batch_size", batch_size)

    def transform_env_device(self, device: torch.device | None) -> torch.device | None:
        """The device after all transforms."""
        return self._in_turn("transform_env_device", device)

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """What comes out, after all transforms."""
        return self._in_turn("transform_output_spec", output_spec)

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """What goes in, as the outside sees it."""
        return self._in_turn("transform_input_spec", input_spec)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """The observation specs after all transforms."""
        return self._in_turn("transform_observation_spec", observation_spec)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """The reward specs after all transforms."""
        return self._in_turn("transform_reward_spec", reward_spec)

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """The done specs after all transforms."""
        return self._in_turn("transform_done_spec", done_spec)

    def transform_action_spec(self, action_spec: Composite) -> Composite:
        """The action specs as the outside sees them."""
        return self._in_turn("transform_action_spec", action_spec)

    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """The state specs as the outside sees them."""
        return self._in_turn("transform_state_spec", state_spec)

    def transform_fake_tensordict(self, fake_tensordict: TensorDictBase) -> TensorDictBase:
        """The zeros of a step's data after all transforms."""
        return self._in_turn("transform_fake_tensordict", fake_tensordict)

    def join(self, env: EnvBase) -> None:
        """Nothing to do: the transforms join one by one."""

    def set_missing_tolerance(self, mode: bool = False) -> None:
        """Whether entries that are not there are passed over rather than an error, for all transforms."""
        super().set_missing_tolerance(mode)
        for transform in self:
            transform.set_missing_tolerance(mode)

    def dump(self, **kwargs: Any) -> None:
        """Writes out what the transforms recorded."""
        for transform in self:
            transform.dump(**kwargs)

    def empty_cache(self) -> None:
        """Forgets the parents of all transforms."""
        super().empty_cache()
        self._moves = any(type(leaf).known_before is not Transform.known_before for leaf in self.leaves())
        for transform in self:
            transform.empty_cache()

    def clone(self) -> Self:
        """A chain of copies that belongs to no env."""
        twin = super().clone()
        twin.transforms = nn.ModuleList()
        for transform in self:
            twin.append(transform.clone())
        return twin

    def close(self) -> None:
        """Closes all transforms."""
        for transform in self:
            transform.close()

    def __repr__(self) -> str:
        return f"Compose({', '.join(map(repr, self))})"
