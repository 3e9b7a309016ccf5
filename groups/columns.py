"""The packer's short way: one numpy array per entry of a group of equal agents, filled in one go.

:class:`~marlenv.groups.Packer` takes it where the agents of every group are alike, their entries are plain arrays, and
their values fit. Everything else, and every complaint about values, is the packer's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from operator import methodcaller
from typing import Any, Self

import numpy as np
import torch
from marlenv.groups.tree import GroupTree
from tensordict import TensorDict
from torch import Size, Tensor

from marlenv.keys import Path, path
from marlenv.specs import Composite, MultiOneHot, NonTensor, OneHot
from marlenv.specs.dtypes import ENDS, NUMBERS, misfits
from marlenv.tensordicts import nest, new, plant

SCALARS, ARRAYS = {float, int}, {np.ndarray}
NOBODY: dict[str, Any] = {}


class AgentColumn:
    """One entry of all agents of a group, ``[A, *shape]``."""

    __slots__ = ("dtype", "ends", "fractions", "inner", "key", "shape", "single", "take", "torch")

    def __init__(self, key: Path, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self.key, self.shape, self.torch = key, shape, dtype
        self.dtype = torch.empty(0, dtype=dtype, device="cpu").numpy().dtype
        self.ends = (0, 1) if dtype == torch.bool else ENDS.get(dtype, (-math.inf, math.inf))
        self.take, self.inner = methodcaller("get", key[0]), key[1:]
        self.fractions = dtype.is_floating_point
        self.single = shape in ((), (1,))
        """Whether it is one number per agent."""

    def fill(self, agents: list[Any]) -> Tensor | None:
        """The entry of all agents, zeros for those who have none; None if a value does not fit."""
        try:
            values = list(map(self.take, agents))
            for name in self.inner:
                values = [None if data is None else data.get(name) for data in values]
        except AttributeError:  # no mapping
            return None
        kinds = {*map(type, values)}
        if self.single and self.fractions and kinds <= SCALARS:  # rewards, mostly
            return torch.from_numpy(np.array(values, self.dtype).reshape(len(values), *self.shape))
        if kinds != ARRAYS:
            return self._fill_one_by_one(values)
        shape, dtype = self.shape, self.dtype
        for value in values:  # most are arrays of the column's very kind
            if value.dtype is not dtype or value.shape != shape:
                return self._fill_one_by_one(values)
        return torch.from_numpy(np.array(values))

    def _fill_one_by_one(self, values: list[Any]) -> Tensor | None:
        out = np.zeros((len(values), *self.shape), self.dtype)
        for i, value in enumerate(values):
            if value is None:
                continue
            if not self.takes(value):
                return None
            out[i, ...] = value  # an array of one number, too
        return torch.from_numpy(out)

    def takes(self, value: Any) -> bool:
        """Whether a value has the shape and the kind of the entry."""
        if isinstance(value, (np.ndarray, np.generic)):
            kind = value.dtype.kind
            if not (value.shape == self.shape or (self.single and value.shape in ((), (1,)))):
                return False
            if kind not in NUMBERS or isinstance(value, np.ma.MaskedArray):
                return False
            if self.fractions or kind == "b":
                return True
            return kind != "f" and self.torch != torch.bool and not misfits(np.asarray(value), self.torch)
        if not self.single or not isinstance(value, (int, float)):
            return False
        low, high = self.ends
        return self.fractions or (not isinstance(value, float) and low <= value <= high)


class Columns:
    """The entries of all groups as columns; made by :meth:`of`, which says whether there are any.

    Args:
        groups: path, agents and columns of every group.
    """

    def __init__(self, groups: Sequence[tuple[Path, tuple[str, ...], list[AgentColumn]]]) -> None:
        self._groups = [(where, agents, columns, Size((len(agents),))) for where, agents, columns in groups]
        keys = [key for where, _, columns in groups for key in (where, *(column.key for column in columns))]
        self._flat = all(len(key) == 1 for key in keys)

    @classmethod
    def of(cls, tree: GroupTree, per_agent: Mapping[str, Composite]) -> Self | None:
        """The columns of all groups; None if a group's agents differ, or do not observe plain arrays."""
        groups = [(w, agents, _columns_of([per_agent[a] for a in agents])) for w, agents in tree.groups.items()]
        return None if any(c is None for _, _, c in groups) else cls([(w, a, c) for w, a, c in groups if c is not None])

    def __iter__(self) -> Iterator[tuple[Path, tuple[str, ...], list[AgentColumn]]]:
        """Path, agents and columns of every group."""
        return ((where, agents, columns) for where, agents, columns, _ in self._groups)

    def pack(self, data: Mapping[str, Any]) -> TensorDict | None:
        """The group tensors of one moment; None if a value does not fit."""
        root: dict[str, Any] = {}
        flat = self._flat
        for where, agents, columns, batch in self._groups:
            given = [data.get(agent, NOBODY) for agent in agents]
            entries: dict[str, Any] = {}
            for column in columns:
                filled = column.fill(given)
                if filled is None:
                    return None
                if flat:
                    entries[column.key[0]] = filled
                else:
                    plant(entries, column.key, filled)
            if flat:
                root[where[0]] = new(entries, batch)
            else:
                plant(root, where, nest(entries, batch))
        return new(root, Size()) if flat else nest(root, Size())


def _columns_of(agents: list[Composite]) -> list[AgentColumn] | None:
    """The columns of a group whose agents are alike and observe plain arrays; None for every other group."""
    if any(spec != agents[0] for spec in agents[1:]):
        return None
    columns = []
    for key, spec in agents[0].items(True, True):
        odd = isinstance(spec, (NonTensor, OneHot, MultiOneHot)) or spec.dtype == torch.bfloat16 or -1 in spec.shape
        if odd or not spec.is_in(spec.zero()):
            return None
        columns.append(AgentColumn(path(key), tuple(spec.shape), spec.dtype))
    return columns
