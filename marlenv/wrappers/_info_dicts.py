"""Readers of gym's info dicts, for :class:`~marlenv.wrappers._gymlike.GymLikeEnv` and the transforms that take one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any
from warnings import warn

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.errors import DtypeError, KeyCollision, ShapeError, SpecError, SpecTypeError, users_line
from marlenv.keys import DONE_NAMES, Path, nested, path
from marlenv.specs import Composite, TensorSpec, Unbounded

NO_ROWS = Size()
OWN = {("next",), ("action",), ("reward",), *((name,) for name in DONE_NAMES)}
"""Entries of every env's data, whose names no info can have."""


class BaseInfoDictReader(ABC):
    """Reads a step's info dict into a tensordict."""

    @abstractmethod
    def __call__(self, info_dict: dict[str, Any], tensordict: TensorDictBase) -> TensorDictBase:
        """Writes entries of ``info_dict`` into ``tensordict``."""

    @property
    @abstractmethod
    def info_spec(self) -> Composite | None:
        """The specs of what is written; None while they are not known."""


class default_info_dict_reader(BaseInfoDictReader):  # noqa: N801 - TorchRL's name
    """Copies entries of info dicts that are numbers or arrays; entries that are missing, or None, become zeros.

    Args:
        keys: which entries; all of the first dict when left out.
        spec: their specs: a composite, a dict, or a list in the order of ``keys``.
        ignore_private: leave out entries that begin with an underscore.

    Raises:
        DtypeError: an entry is no number.
        ShapeError: an entry has another size than in its spec.

    >>> reader = default_info_dict_reader(["lives"])
    >>> reader({"lives": 3.0}, TensorDict({}, []))["lives"]
    tensor(3.)
    """

    def __init__(
        self,
        keys: Sequence[str] | None = None,
        spec: Sequence[TensorSpec] | Mapping[str, TensorSpec] | Composite | None = None,
        ignore_private: bool = True,
    ) -> None:
        if keys is not None and (isinstance(keys, str) or not isinstance(keys, Iterable)):
            raise SpecTypeError(f"default_info_dict_reader: keys must be a list of names, got {keys!r}")
        if spec is not None and not isinstance(spec, (Composite, Mapping, Sequence)):
            raise SpecTypeError(
                f"default_info_dict_reader: spec must be a composite, a dict or a list of specs, got {spec!r}"
            )
        self.keys = None if keys is None else list(keys)
        self.ignore_private = ignore_private
        self._spec: Composite | None = None
        if isinstance(spec, Composite):
            self._spec = spec.clone()
        elif isinstance(spec, Mapping):
            self._spec = Composite(dict(spec))
        elif spec is not None:
            if self.keys is None or len(spec) != len(self.keys):
                raise SpecError(f"default_info_dict_reader: a list of specs needs as many keys, got {self.keys}")
            self._spec = Composite(dict(zip(self.keys, spec, strict=True)))
        elif self.keys is not None:
            self._spec = Composite({key: Unbounded(()) for key in self.keys})
        if self.keys is None and self._spec is not None:
            self.keys = list(self._spec)

    @property
    def info_spec(self) -> Composite | None:
        """The specs of what is written; None while they are not known."""
        return self._spec

    def learn(self, info_dict: Mapping[str, Any], batch: Size = NO_ROWS) -> None:
        """Takes keys and specs from an example.

        Args:
            info_dict: whose arrays have the batch in front.
            batch: ``[*B]``; the specs are those of one env.
        """
        found = Composite()
        for key, value in info_dict.items():
            array = numbers_of(value, batch)
            private = not isinstance(key, str) or (self.ignore_private and key.startswith("_"))
            numbers = array is not None and array.shape[: len(batch)] == batch
            if not private and numbers and (self.keys is None or key in self.keys):
                tensor = torch.as_tensor(array)
                found[key] = Unbounded(tensor.shape[len(batch) :], dtype=tensor.dtype)
        self.keys, self._spec = list(found), found

    def __call__(self, info_dict: dict[str, Any], tensordict: TensorDictBase) -> TensorDictBase:
        if self._spec is None:
            self.learn(info_dict, tensordict.batch_size)
        for key, leaf in (self._spec or {}).items():
            value = info_dict.get(key)
            nothing = says_nothing(value)
            read = leaf.zero(tensordict.batch_size) if nothing else _read(key, value, leaf, tensordict.batch_size)
            tensordict.set(key, read)
        return tensordict


def says_nothing(value: Any) -> bool:
    """Whether an info is None, or None in every row."""
    if isinstance(value, np.ndarray):
        return value.dtype == object and all(one is None for one in value.flat)
    return value is None


def numbers_of(value: Any, batch: Size = NO_ROWS) -> NDArray[Any] | None:
    """An info as an array of numbers, zeros in rows where it is None; None if it is no number.

    >>> numbers_of(np.array([[1, 2], None], dtype=object), Size([2]))
    array([[1, 2],
           [0, 0]])
    """
    try:
        array = np.asarray(value)
        if array.dtype == object and batch and array.shape == batch:  # an object for each row
            like = next((np.asarray(one) for one in array.flat if one is not None), None)
            if like is not None:
                rows = [np.zeros_like(like) if one is None else np.asarray(one) for one in array.flat]
                array = np.stack(rows).reshape(*batch, *like.shape)
    except ValueError:  # parts of unlike shapes
        return None
    return array if array.dtype.kind in "biuf" else None


def places(env: Any) -> set[Path]:
    """Where the entries of an env stand."""
    specs = (env.full_observation_spec, env.full_action_spec, env.full_reward_spec, env.full_done_spec)
    return {path(key) for spec in specs for key in spec.keys(True, True)}


def with_infos(who: str, seen: Composite, infos: Mapping[Path, TensorSpec], own: set[Path]) -> Composite:
    """Observation specs with those of infos of one env; raises KeyCollision if one stands where another entry does."""
    seen, batch = seen.clone(), tuple(seen.shape)
    for where, leaf in infos.items():
        if _taken(where, own):
            raise KeyCollision(
                f"{who}.set_info_dict_reader: the info {nested(where)!r} has the name of another entry of the env; "
                f"leave it out of the reader's keys, or rename it in the simulator"
            )
        seen[nested(where)] = leaf.expand(*batch, *leaf.shape) if batch else leaf
    return seen


def without(who: str, info: Mapping[Any, Any], own: set[Path]) -> dict[Any, Any]:
    """The infos without those that have the name of another entry of an env, of which it warns."""
    taken = [name for name in info if _taken((name,), own)]
    if taken:
        said = f"{who}: infos with the names of other entries of the env are left out: {taken}"
        warn(said, stacklevel=users_line())
    return {name: value for name, value in info.items() if name not in taken}


def _taken(where: Path, own: set[Path]) -> bool:
    return any(one[: len(where)] == where[: len(one)] for one in own | OWN)


def _read(key: str, value: Any, leaf: TensorSpec, batch: Size) -> Tensor:
    """A copy of an info, since simulators write into theirs again."""
    array, shape = numbers_of(value, batch), (*batch, *leaf.shape)
    if array is None:
        raise DtypeError(
            f"default_info_dict_reader: entry {key!r} of the info must be numbers of one shape, got {value!r}; leave "
            f"it out of the keys"
        )
    if array.size != prod(shape):
        raise ShapeError(
            f"default_info_dict_reader: entry {key!r} of the info must have the shape {list(shape)}, as in its spec, "
            f"got {list(array.shape)}; pad it in the simulator, or leave it out of the keys"
        )
    return torch.as_tensor(array.copy()).to(leaf.dtype).reshape(shape)
