"""The short way between one moment's data per agent and group tensors.

It is taken where the agents of every group are alike and their entries are plain arrays, and their values fit. Everything
else, and every complaint about values, is left to :class:`~marlenv.groups.Packer`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import methodcaller
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.groups import GroupTree, Packer
from marlenv.groups.packing import VECTORS, AgentData
from marlenv.groups.specs import Unequal
from marlenv.keys import Path, nested, path
from marlenv.specs import Composite, NonTensor, TensorSpec
from marlenv.tensordicts import fetch, nest, new

FLOATS, ARRAYS = {float}, {np.ndarray}


class Column:
    """One entry of a group, ``[A, *shape]``."""

    __slots__ = ("dtype", "fractions", "inner", "key", "shape", "single", "take")

    def __init__(self, key: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.key, self.shape, self.dtype = key, shape, dtype
        self.take, self.inner = methodcaller("get", key[0]), key[1:]
        self.fractions = dtype.kind == "f"
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
        if kinds == FLOATS and self.single and self.fractions:  # rewards, mostly
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
            if not self._takes(value):
                return None
            out[i] = value
        return torch.from_numpy(out)

    def _takes(self, value: Any) -> bool:
        if isinstance(value, (np.ndarray, np.generic)):
            fits = value.shape == self.shape or (self.single and value.shape in ((), (1,)))
            return fits and (self.fractions or value.dtype.kind != "f")
        return self.single and isinstance(value, (int, float)) and (self.fractions or not isinstance(value, float))


class Moments:
    """Packs data of agents as :class:`~marlenv.groups.Packer` does, faster.

    Args:
        tree: the groups.
        per_agent: agent -> spec of its entries, without batch and agent dimensions.
        unequal: what to do in a group whose agents differ.

    >>> from marlenv.specs import Unbounded
    >>> see = Composite(reward=Unbounded((1,)))
    >>> moments = Moments(GroupTree({"agents": ["a", "b"]}), {"a": see, "b": see})
    >>> moments.pack({"a": {}, "b": {"reward": 2.0}})["agents", "reward"].tolist()
    [[0.0], [2.0]]
    """

    def __init__(self, tree: GroupTree, per_agent: Mapping[str, Composite], *, unequal: Unequal = "stack") -> None:
        self._packer = Packer(tree, per_agent, unequal=unequal)
        groups = [(where, agents, columns_of([per_agent[a] for a in agents])) for where, agents in tree.groups.items()]
        self._groups = [(w, a, c, Size((len(a),))) for w, a, c in groups if c is not None]
        self._short = len(self._groups) == len(groups)
        keys = [*tree.groups, *(column.key for _, _, columns, _ in self._groups for column in columns)]
        self._flat = all(len(key) == 1 for key in keys)

    def pack(self, data: AgentData) -> TensorDict:
        """The group tensors of one moment; see :meth:`marlenv.groups.Packer.pack`."""
        if not self._short:
            return self._packer.pack(data)
        root: dict[str, Any] = {}
        for where, agents, columns, batch in self._groups:
            given = [data[agent] for agent in agents]
            entries: dict[str, Any] = {}
            for column in columns:
                filled = column.fill(given)
                if filled is None:
                    return self._packer.pack(data)
                if self._flat:
                    entries[column.key[0]] = filled
                else:
                    _plant(entries, column.key, filled)
            if self._flat:
                root[where[0]] = new(entries, batch)
            else:
                _plant(root, where, nest(entries, batch))
        return new(root, Size()) if self._flat else nest(root, Size())


class Actions:
    """Reads the actions of agents off group tensors as :class:`~marlenv.groups.Packer` does, faster."""

    def __init__(self, tree: GroupTree, per_agent: Mapping[str, TensorSpec], *, unequal: Unequal = "stack") -> None:
        specs = {agent: Composite(action=spec) for agent, spec in per_agent.items()}
        self._packer = Packer(tree, specs, unequal=unequal)
        self._groups = [
            ((*where, "action"), agents, self._packer.spec[nested(where)]["action"])
            for where, agents in tree.groups.items()
            if columns_of([specs[a] for a in agents], vectors=True) is not None
        ]
        leaves = not any(isinstance(spec, Composite) for spec in per_agent.values())
        self._short = leaves and len(self._groups) == len(tree.groups)

    def read(self, td: TensorDictBase, wanted: Collection[str]) -> dict[str, Any]:
        """Agent -> its action, as the simulator takes it; for the agents that are wanted."""
        found: dict[str, Any] = {}
        if self._short:
            for key, agents, spec in self._groups:
                here = [(i, agent) for i, agent in enumerate(agents) if agent in wanted]
                if here:
                    actions = spec.to_numpy(fetch(td, key))
                    for i, agent in here:
                        found[agent] = actions[i]
            return found
        return {agent: data["action"] for agent, data in self._packer.unpack(td, wanted).items()}


def columns_of(agents: list[Composite], *, vectors: bool = False) -> list[Column] | None:
    """The entries of a group whose agents are alike and observe plain arrays; None for every other group.

    Args:
        agents: their specs.
        vectors: whether one-hot vectors count as plain.
    """
    if any(spec != agents[0] for spec in agents[1:]):
        return None
    columns = []
    for key, spec in agents[0].items(True, True):
        odd = isinstance(spec, NonTensor if vectors else (NonTensor, *VECTORS)) or spec.dtype == torch.bfloat16
        if odd or -1 in spec.shape or not (vectors or spec.is_in(spec.zero())):
            return None
        shape, dtype = tuple(spec.shape), torch.empty(0, dtype=spec.dtype).numpy().dtype
        columns.append(Column(path(key), shape, dtype))
    return columns


def _plant(node: dict[str, Any], key: Path, value: Any) -> None:
    for name in key[:-1]:
        node = node.setdefault(name, {})
    node[key[-1]] = value
