"""Readers of gym's info dicts, for :class:`~marlenv.wrappers._gymlike.GymLikeEnv` and the transforms that take one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.errors import DtypeError, KeyMissing, ShapeError, SpecError, SpecTypeError
from marlenv.specs import Composite, TensorSpec, Unbounded
from marlenv.wrappers._numbers import numbers_of

NO_ROWS = Size()
ANY = {torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128}
"""Dtypes that take all numbers, the nearest one if need be."""


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
        DtypeError: an entry is no number, or one that the dtype of its spec does not hold.
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
            array = info_numbers(value, batch)
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


def told_by(who: str, *infos: Any) -> dict[str, Any]:
    """What some info dicts hold together; of several values of an entry the last one that says anything.

    Raises:
        KeyMissing: none of them is a dict.
    """
    if not any(isinstance(info, Mapping) for info in infos):
        raise KeyMissing(f"{who}: the simulator gives no info dicts")
    told = [item for info in infos for item in (info or {}).items()]
    return {**dict(told), **{name: value for name, value in told if not says_nothing(value)}}


def says_nothing(value: Any) -> bool:
    """Whether an info is None, or None in every row."""
    if isinstance(value, np.ndarray):
        return value.dtype == object and all(one is None for one in value.flat)
    return value is None


def info_numbers(value: Any, batch: Size = NO_ROWS) -> NDArray[Any] | None:
    """An info as an array of numbers that torch has, zeros in rows where it is None; None if it is no number.

    >>> info_numbers(np.array([[1, 2], None], dtype=object), Size([2]))
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
    if array.dtype.kind == "O" and (numbers := numbers_of(array)) is not None:  # fractions, decimals
        array = numbers
    if array.dtype.kind not in "biuf":
        return None
    dtype = np.dtype(f"={array.dtype.kind}{min(array.dtype.itemsize, 8)}")  # C's others are none of torch's
    return array if array.dtype.char == dtype.char and array.dtype.isnative else array.astype(dtype)


def _read(key: str, value: Any, leaf: TensorSpec, batch: Size) -> Tensor:
    """A copy of an info, since simulators write into theirs again."""
    array, shape = info_numbers(value, batch), (*batch, *leaf.shape)
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
    read = torch.as_tensor(array.copy()).to(leaf.dtype)
    if read.dtype not in ANY and (wrong := array[read.numpy() != array]).size:
        raise DtypeError(
            f"default_info_dict_reader: entry {key!r} of the info must be numbers that {leaf.dtype} holds, as in its "
            f"spec, got {wrong[:5].tolist()}; give the reader a spec of another dtype"
        )
    return read.reshape(shape)
