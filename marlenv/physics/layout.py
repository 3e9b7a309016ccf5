"""Where the data of an env hold what: which entry of the tensordict is which value of the simulation, in which shape.

It is for envs whose groups are those of the world; others go through :mod:`marlenv.physics.seating`. Steps, rollouts and
resets of machine code are loops over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.keys import Path
from marlenv.physics.kernel import Field, result_fields
from marlenv.physics.simulation import SHARED
from marlenv.tensordicts import fetch, get, is_nested, new, raw, write

if TYPE_CHECKING:
    from marlenv.physics.env import ScenarioEnv

FLAGS = ("terminated", "truncated", "done")


class Entry(NamedTuple):
    """A value of the simulation in the data of an env."""

    field: Field
    """Its path in the simulation, its shape there without rows, its dtype."""
    node: Path
    """The tensordict that holds it."""
    name: str
    shape: Size
    """Its shape in the data, behind the batch."""

    def of(self, x: Tensor, time: int = 0) -> Tensor:
        """A view of ``[*T, ..., B]`` as it is in the data, ``[B, *T, ...]``.

        Args:
            x: the values; the rows are last.
            time: how many dimensions of time there are, 0 or 1.
        """
        x = x.movedim(-1, 0)
        return x.unsqueeze(-1) if x.ndim - 1 - time < len(self.shape) else x


class Level(NamedTuple):
    """The root, or a group: what has done flags of its own."""

    path: Path
    agents: Size
    """How many agents, as a size; empty for the root."""


class Layout:
    """The data of an env, entry by entry.

    Args:
        env: its groups are those of the world.
    """

    def __init__(self, env: ScenarioEnv) -> None:
        self.batch, self.device = env.batch_size, env.device
        paths = {group: path for path, group in env.seating.whole.items()}
        fields, count = result_fields(env.simulation)
        entries = [_entry(field, paths) for field in fields]
        self.observations = entries[:count]
        """Observations and infos, which resets give as well as steps."""
        self.rewards = entries[count:]
        self.levels = [Level((), Size()), *(Level(p, Size((len(a),))) for p, a in env.tree.groups.items())]
        self.agents = sum(level.agents[0] for level in self.levels[1:])
        """How many agents there are."""
        self.paths = paths
        """Group of the world -> where it is in the data."""
        self._flag_views: dict[int, list[tuple[tuple[int, ...], tuple[int, ...], int]]] = {}
        self._first = self._tree(self.observations)
        self._following = self._tree(entries)

    def _tree(self, entries: Sequence[Entry]) -> _Node:
        root = _Node(Size(), self.batch)
        for level in self.levels[1:]:
            node = root
            for name in level.path[:-1]:
                node = node.inner.setdefault(name, _Node(Size(), self.batch))
            node.inner[level.path[-1]] = _Node(level.agents, self.batch)
        for i, entry in enumerate(entries):
            node = root
            for name in entry.node:
                node = node.inner.setdefault(name, _Node(node.agents, self.batch))
            node.leaves[entry.name] = i
        for i, level in enumerate(self.levels):
            node = root
            for name in level.path:
                node = node.inner[name]
            node.leaves.update({name: len(entries) + 3 * i + k for k, name in enumerate(FLAGS)})
        return root

    def first(self, values: Sequence[Tensor], batch: Size | None = None) -> TensorDict:
        """The data that a step starts from.

        Args:
            values: observations and infos, in the order of :attr:`observations`, then three flags for each level.
            batch: of the data, where it is not the env's.
        """
        return self._first.filled(values, batch, self.device)

    def following(self, values: Sequence[Tensor | None], batch: Size | None = None) -> TensorDict:
        """The data that follow on a step: the same with rewards behind the infos; entries that are None are left out."""
        return self._following.filled(values, batch, self.device)

    def flags(self, block: Tensor) -> list[Tensor]:
        """Flags as they are in the data, views of ``[3, 1 + A, B]``: those of the rows, then those of all agents."""
        if block.shape[-1] not in self._flag_views:
            self._flag_views[block.shape[-1]] = self._flag_strides(block.shape[-1])
        return [block.as_strided(*where) for where in self._flag_views[block.shape[-1]]]

    def _flag_strides(self, rows: int) -> list[tuple[tuple[int, ...], tuple[int, ...], int]]:
        out, start = [], 0
        for level in self.levels:
            size, stride = ((rows, *level.agents, 1), (1, *(rows,) * len(level.agents), 1))
            out += [(size, stride, (k * (1 + self.agents) + start) * rows) for k in range(3)]
            start += level.agents.numel()
        return out

    def added(self, td: TensorDictBase, values: Sequence[Tensor]) -> dict[Path, Tensor] | None:
        """The entries of data that are not among ``values``, out of which :meth:`first` made them.

        None where something was replaced or left out, or is no plain tensor, or not where a rollout has room for it.
        """
        out: dict[Path, Tensor] = {}
        return out if "next" not in td.keys() and self._first.added(td, values, (), out) else None

    def put_observed(self, td: TensorDictBase, values: Sequence[Tensor]) -> None:
        """Writes what :meth:`first` takes over the entries of data that followed on a step."""
        count = len(self.observations)
        for entry, x in zip(self.observations, values, strict=False):
            write(td, (*entry.node, entry.name), x)
        for i, x in enumerate(values[count:]):
            write(td, (*self.levels[i // 3].path, FLAGS[i % 3]), x)

    def read(self, td: TensorDictBase) -> list[tuple[TensorDictBase, Tensor]] | None:
        """Observations and infos in data of the env, with the tensordicts that hold them; None unless all are there."""
        found: list[tuple[TensorDictBase, Tensor]] = []
        path, node = None, None
        for entry in self.observations:
            if entry.node != path:
                path, node = entry.node, _nested(td, entry.node)
            x = None if node is None else get(node, entry.name)
            if node is None or type(x) is not Tensor or x.dtype != entry.field.dtype or x.device != self.device:
                return None
            if x.shape != (*self.batch, *entry.shape):
                return None
            found.append((node, x))
        return found

    def read_flags(self, td: TensorDictBase) -> list[tuple[TensorDictBase, list[Tensor]]] | None:
        """The flags of every level, with the tensordicts that hold them; None unless all are there."""
        found = []
        for level in self.levels:
            node = _nested(td, level.path)
            if node is None:
                return None
            flags, want = [get(node, name) for name in FLAGS], (*self.batch, *level.agents, 1)
            if any(type(x) is not Tensor or x.shape != want or x.dtype != torch.bool for x in flags):
                return None
            found.append((node, flags))
        return found


class _Node:
    """A tensordict to be made: its entries as places in a list of values, and the tensordicts in it."""

    def __init__(self, agents: Size, batch: Size) -> None:
        self.agents, self.size = agents, Size((*batch, *agents))
        self.leaves: dict[str, int] = {}
        self.inner: dict[str, _Node] = {}

    def filled(self, values: Sequence[Tensor | None], batch: Size | None, device: torch.device | None) -> TensorDict:
        data: dict[str, Any] = {name: x for name, i in self.leaves.items() if (x := values[i]) is not None}
        for name, node in self.inner.items():
            below = node.filled(values, batch, device)
            if below._tensordict:
                data[name] = below
        return new(data, self.size if batch is None else Size((*batch, *self.agents)), device)

    def added(self, td: Any, values: Sequence[Tensor], path: Path, out: dict[Path, Tensor]) -> bool:
        """Collects what is not among ``values``; whether they are all there, and what was added are plain tensors."""
        data = raw(td)
        if data is None or td.batch_size != self.size:
            return False
        missing = len(self.leaves) + len(self.inner)
        for name, x in data.items():
            if (i := self.leaves.get(name)) is not None:
                missing -= 1
                if x is not values[i]:
                    return False
            elif (node := self.inner.get(name)) is not None:
                missing -= 1
                if not node.added(x, values, (*path, name), out):
                    return False
            elif type(x) is Tensor:
                out[*path, name] = x
            elif not raw(x) or not _Node(Size(), self.size).added(x, values, (*path, name), out):
                return False
        return not missing


def _entry(field: Field, paths: Mapping[str, Path]) -> Entry:
    group, what, *rest = field.name
    shared = group == SHARED
    path = (*(() if shared else paths[group]), what, *rest)
    lone = what == "reward" or (what == "info" and len(field.shape) < 2 - shared)
    return Entry(field, path[:-1], path[-1], Size((*field.shape, *(1,) * lone)))


def _nested(td: TensorDictBase, path: Path) -> TensorDictBase | None:
    """The tensordict at a path, if there is one."""
    node = fetch(td, path) if path else td
    return node if is_nested(node) else None


__all__ = ["FLAGS", "Entry", "Layout", "Level"]
