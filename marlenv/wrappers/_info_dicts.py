"""Readers of gym's info dicts, for :class:`~marlenv.wrappers._gymlike.GymLikeEnv` and the transforms that take one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Size

from marlenv.errors import SpecError, SpecTypeError
from marlenv.specs import Composite, TensorSpec, Unbounded

NO_ROWS = Size()


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
    """Copies entries of info dicts that are numbers or arrays; entries that are missing become zeros.

    Args:
        keys: which entries; all of the first dict when left out.
        spec: their specs: a composite, a dict, or a list in the order of ``keys``.
        ignore_private: leave out entries that begin with an underscore.

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
            array = np.asarray(value)
            private = self.ignore_private and key.startswith("_")
            numbers = array.dtype.kind in "biuf" and array.shape[: len(batch)] == batch
            if not private and numbers and (self.keys is None or key in self.keys):
                tensor = torch.as_tensor(array)
                found[key] = Unbounded(tensor.shape[len(batch) :], dtype=tensor.dtype)
        self.keys, self._spec = list(found), found

    def __call__(self, info_dict: dict[str, Any], tensordict: TensorDictBase) -> TensorDictBase:
        if self._spec is None:
            self.learn(info_dict, tensordict.batch_size)
        for key, leaf in (self._spec or {}).items():
            if key in info_dict:
                value = np.asarray(info_dict[key]).copy()  # since simulators write into theirs again
                if value.dtype == object:  # None in rows that lack it
                    value = np.stack([np.zeros(leaf.shape) if one is None else one for one in value])
                shape = (*tensordict.batch_size, *leaf.shape)
                tensordict.set(key, torch.as_tensor(value).to(leaf.dtype).reshape(shape))
            else:
                tensordict.set(key, leaf.zero(tensordict.batch_size))
        return tensordict
