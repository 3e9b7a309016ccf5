"""What an env of gym observes and is told: specs of its spaces, and both ways between their values and tensors."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.errors import IllegalAction, KeyCollision
from marlenv.keys import NestedKey
from marlenv.specs import Categorical, Composite, NonTensor, TensorSpec
from marlenv.tensordicts import fetch
from marlenv.wrappers._backend import KNOWN, gym_backend
from marlenv.wrappers._choices import check_choices, check_one_hot, count_of
from marlenv.wrappers._reading import reader_of
from marlenv.wrappers._space_values import decoder_of
from marlenv.wrappers._spaces import kind_of, spec_called


class Spaces:
    """The spaces of an env, or of the rows of a vector.

    Args:
        who: the wrapper, for errors.
        env: the env, or the vector.
        batch: ``[*B]``.
        categorical: choices as numbers, rather than one-hot.
    """

    def __init__(self, who: str, env: Any, batch: Size, *, categorical: bool) -> None:
        seen = getattr(env, "single_observation_space", env.observation_space) if batch else env.observation_space
        acts = getattr(env, "single_action_space", env.action_space) if batch else env.action_space
        spec = _many(spec_called(who, "observation", seen, categorical=categorical), batch)
        self._reader = reader_of(who, seen, spec)
        lone = "pixels" if is_picture(seen) else "observation"
        self.name = None if isinstance(spec, Composite) else lone
        """What an observation is called whose space has no names; None where it has."""
        named = spec if isinstance(spec, Composite) else Composite({lone: spec}, shape=batch)
        self._state_is_observation = "state" in named and "observation" not in named
        self.observations = Composite(self._renamed(named), shape=batch) if self._state_is_observation else named
        """The specs of what is observed."""
        self.action = _many(spec_called(who, "action", acts, categorical=categorical), batch)
        """The spec of an action."""
        self._check_names(who)
        told = self.action
        self._parts = isinstance(told, Composite)
        self._nested = isinstance(told, Composite) and not {*told.keys()}.isdisjoint(self.observations.keys())
        self.acts = Composite(action=told, shape=batch) if self._nested else told
        """The spec of what is in the data: the parts of an action lie under ``"action"`` where observations have their
        names, which would be written over.
        """
        self._decode, self._alone = decoder_of(acts), not batch and kind_of(acts) == "Discrete"
        self._number = self._alone and isinstance(self.action, Categorical)
        n = count_of(self.action)
        self._who, self._n = who, n.cpu().numpy() if isinstance(n, Tensor) else n
        self._rows = batch[0] if batch and any(kind_of(one) == "Text" for one in _leaves(acts)) else 0
        self._one_by_one = batch[0] if batch and _takes_rows(env.action_space, acts) else 0

    def _check_names(self, who: str) -> None:
        if "next" in self.observations:
            raise KeyCollision(
                f"{who}: the observation 'next' has the name of the data of the next step; rename it, by "
                f"gymnasium.wrappers.TransformObservation for instance"
            )

    def read(self, observations: Any) -> dict[str, Any]:
        """The entries of observations."""
        value = self._reader(observations)
        if self.name is not None:
            return {self.name: value}
        entries: dict[str, Any] = value._tensordict
        return self._renamed(entries) if self._state_is_observation else entries

    @staticmethod
    def _renamed(entries: Any) -> dict[str, Any]:
        return {"observation" if name == "state" else name: value for name, value in entries.items()}

    def acted(self, tensordict: TensorDictBase, keys: list[NestedKey]) -> Any:
        """The action in the data, or a tensordict of its parts."""
        if self._parts and not self._nested:
            return tensordict.select(*keys)
        return fetch(tensordict, "action" if self._nested else keys[0])

    def told(self, action: Tensor | Any) -> Any:
        """The action as the simulator takes it."""
        value = action if self._number else self.numbers(action)
        told = self.decoded(_by_row(self.action, value, self._rows) if self._rows else value)
        return tuple(_row(told, i) for i in range(self._one_by_one)) if self._one_by_one else told

    def numbers(self, action: Tensor | Any) -> Any:
        """The action as arrays, one-hot ones as numbers of choices."""
        (check_choices if self._parts else check_one_hot)(self._who, self.action, action)
        return self.action.to_numpy(action)

    def decoded(self, value: Any) -> Any:
        """An action that is an array, as the simulator takes it."""
        value = int(value) if self._alone else value
        if self._n is not None and not (0 <= value < self._n if self._alone else _within(value, self._n)):
            raise IllegalAction(f"{self._who}.step: actions are numbers from 0 to {self._n - 1}, got {value}")
        return value if self._decode is None else self._decode(value)


def is_picture(space: Any) -> bool:
    """Whether what a space holds is called ``"pixels"``: a Box ``[H, W, 3]`` of numbers from 0 to 255."""
    if kind_of(space) != "Box" or len(space.shape) != 3 or space.shape[-1] != 3:
        return False
    return bool((space.low == 0).all() and (space.high == 255).all())


def _within(values: Any, n: Any) -> bool:
    return bool((values >= 0).all() and (values < n).all())


def _leaves(space: Any) -> Iterator[Any]:
    kind = kind_of(space)
    if kind not in ("Dict", "Tuple"):
        yield space
        return
    for one in space.spaces.values() if kind == "Dict" else space.spaces:
        yield from _leaves(one)


def _by_row(spec: TensorSpec, value: Any, rows: int) -> Any:
    """A value whose texts are one for each row, where one may stand for all."""
    if isinstance(spec, Composite):
        return {name: _by_row(spec[name], one, rows) for name, one in value.items()}
    return [value] * rows if isinstance(spec, NonTensor) and not isinstance(value, list) else value


def _takes_rows(space: Any, one: Any) -> bool:
    """Whether a vector takes a tuple with the action of each row, which has parts, as those of gym before 0.22 do.

    Args:
        space: of the vector's actions.
        one: of a row's.
    """
    parts = kind_of(one) in ("Dict", "Tuple") and kind_of(space) == "Tuple"
    return parts and all(part == one for part in space.spaces)


def _row(value: Any, i: int) -> Any:
    """One row of an action that has parts."""
    if isinstance(value, dict):
        return {name: _row(part, i) for name, part in value.items()}
    return tuple(_row(part, i) for part in value) if isinstance(value, tuple) else value[i]


def _many(spec: TensorSpec, batch: Size) -> TensorSpec:
    return spec.expand(*batch, *spec.shape)


def is_modern(env: Any) -> bool:
    """Whether an env has the interface of gymnasium, and of gym from 0.26 on: seeds go to ``reset``."""
    libraries = {one.__module__.partition(".")[0] for one in type(env).__mro__}
    return "gymnasium" in libraries or version("gym" if "gym" in libraries else None) >= (0, 26)


def version(library: str | None = None) -> tuple[int, ...]:
    """The version of gym, if that is the library, or the backend where none is named; a higher one otherwise."""
    module = gym_backend() if library is None else importlib.import_module(library)
    return (1,) if module.__name__ not in KNOWN[1:] else tuple(int(n) for n in module.__version__.split(".")[:2])
