"""A plan of who goes where when the same agents are put in other groups, made once and followed for every step.

Envs and transforms make one when they are made, from the groups that there are and those that a user asks for;
:func:`~marlenv.groups.regroup` makes one per call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from marlenv.groups.tree import GroupTree
from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.errors import GroupError
from marlenv.keys import Path, nested

Data = TypeVar("Data", Tensor, TensorDictBase)
Entries: TypeAlias = "Mapping[str, Any]"
"""Data of the agents of a group: tensors ``[B, A, ...]`` by name, nested to any depth."""


class Part(NamedTuple):
    """Some agents of an old group: all of it as it is, a view of a run, or gathered one by one."""

    group: Path
    rows: tuple[int, ...]
    """Their places in the old group."""
    size: int
    """How many agents the old group has."""

    @property
    def whole(self) -> bool:
        """Whether it is all of the old group, in order."""
        return self.rows == tuple(range(self.size))

    @property
    def view(self) -> bool:
        """Whether they are neighbours in the old group, in order: then :meth:`take` gives a view."""
        return self.rows == tuple(range(self.rows[0], self.rows[0] + len(self.rows)))

    def take(self, x: Data, dim: int) -> Data:
        """These agents' share of an entry, or of all data, of the old group.

        Args:
            x: of the old group.
            dim: the dimension of the agents.

        >>> Part(("red",), (1, 2), 4).take(torch.tensor([[0, 1, 2, 3]]), 1)
        tensor([[1, 2]])
        """
        if self.whole:
            return x
        rows = slice(self.rows[0], self.rows[-1] + 1) if self.view else torch.tensor(self.rows, device=x.device)
        return x[(slice(None),) * dim + (rows,)]


class RegroupPlan:
    """Which parts of old groups make up each new one.

    Args:
        old: the groups as they are.
        new: the groups as they shall be, of the same agents.
        layouts: the :func:`layout` of the entries of each old group, where unlike agents are to be padded.

    Raises:
        GroupError: agents cannot be padded, since an entry of some is nested or has another number of dimensions.

    >>> old, new = GroupTree({"a": ["a_0", "a_1"], "b": ["b_0"]}), GroupTree({"odd": ["a_1", "b_0"], "even": ["a_0"]})
    >>> RegroupPlan(old, new).parts["odd",]
    [Part(group=('a',), rows=(1,), size=2), Part(group=('b',), rows=(0,), size=1)]
    """

    def __init__(self, old: GroupTree, new: GroupTree, layouts: Mapping[Path, Entries] | None = None) -> None:
        self.old, self.new = old, new
        """The groups as they are, and as they shall be."""
        self.parts: dict[Path, list[Part]] = {
            path: _parts([old.place[agent] for agent in agents], old) for path, agents in new.groups.items()
        }
        """Every new group, side by side."""
        self.whole: dict[Path, Path] = {
            path: parts[0].group for path, parts in self.parts.items() if len(parts) == 1 and parts[0].whole
        }
        """The new groups that are old ones."""
        self.padded: dict[Path, dict[str, Any]] = {
            path: _largest({part.group: layouts[part.group] for part in parts}, path)
            for path, parts in self.parts.items()
            if layouts is not None and any(layouts[part.group] != layouts[parts[0].group] for part in parts)
        }
        """The new groups whose agents differ, with the layout that holds all of them."""

    def join(self, path: Path, data: Mapping[Path, Entries]) -> Entries:
        """The entries of a new group ``[B, A, ...]``, padded with zeros where agents differ, from those of all old
        groups.
        """
        if path in self.whole:
            return data[self.whole[path]]
        parts = [_taken(data[part.group], part) for part in self.parts[path]]
        if path in self.padded:
            largest = self.padded[path]
            parts = [_pad(entries, largest, len(p.rows)) for entries, p in zip(parts, self.parts[path], strict=True)]
        return _side_by_side(parts)


def layout(entries: Entries) -> dict[str, Any]:
    """The shape behind the agents and the dtype of every entry, by name.

    >>> layout({"observation": torch.zeros(8, 3, 4)})
    {'observation': (torch.Size([4]), torch.float32)}
    """
    return {n: (x.shape[2:], x.dtype) if isinstance(x, Tensor) else layout(x) for n, x in entries.items()}


def _parts(places: Sequence[tuple[Path, int]], old: GroupTree) -> list[Part]:
    """Agents that come one after the other from the same old group are one part."""
    out: list[Part] = []
    for group, i in places:
        if out and out[-1].group == group:
            out[-1] = out[-1]._replace(rows=(*out[-1].rows, i))
        else:
            out.append(Part(group, (i,), len(old.groups[group])))
    return out


def _taken(entries: Entries, part: Part) -> dict[str, Any]:
    return {name: part.take(x, 1) if isinstance(x, Tensor) else _taken(x, part) for name, x in entries.items()}


def _largest(layouts: Mapping[Path, Entries], path: Path, key: Path = ()) -> dict[str, Any]:
    """The layout that holds those of all old groups, for the new group ``path``."""
    out: dict[str, Any] = {}
    for name in dict.fromkeys(name for one in layouts.values() for name in one):
        there = {group: one[name] for group, one in layouts.items() if name in one}
        if len({None if isinstance(one, Mapping) else len(one[0]) for one in there.values()}) > 1:
            who = {"/".join(group): _brief(one) for group, one in there.items()}
            raise GroupError(
                f"group {'/'.join(path)!r}: entry {nested((*key, name))!r} cannot be padded: what the agents have must "
                f"be of one kind and rank, got {who}; group them apart"
            )
        first = next(iter(there.values()))
        if isinstance(first, Mapping):
            out[name] = _largest(there, path, (*key, name))
        else:
            shapes = [shape for shape, _ in there.values()]
            out[name] = Size(max(sizes) for sizes in zip(*shapes, strict=True)), first[1]
    return out


def _brief(entry: Any) -> str:
    """An entry of a layout in an error message."""
    return f"entries {list(entry)}" if isinstance(entry, Mapping) else f"a tensor {list(entry[0])}"


def _pad(part: Entries, largest: Entries, agents: int) -> dict[str, Any]:
    """The entries of ``agents`` agents with zeros at the end, and zeros for what they lack."""
    out = dict(part)
    rows = _first(part)
    for name, want in largest.items():
        if isinstance(want, Mapping):
            out[name] = _pad(part.get(name, {"": rows}), want, agents)
            out[name].pop("", None)
        elif name in part:
            missing = [
                k for have, need in zip(part[name].shape[:1:-1], want[0][::-1], strict=True) for k in (0, need - have)
            ]
            out[name] = torch.nn.functional.pad(part[name], missing)
        else:
            out[name] = torch.zeros((rows.shape[0], agents, *want[0]), dtype=want[1], device=rows.device)
    return out


def _first(entries: Entries) -> Tensor:
    x = next(iter(entries.values()))
    return x if isinstance(x, Tensor) else _first(x)


def _side_by_side(parts: Sequence[Entries]) -> Entries:
    if len(parts) == 1:
        return parts[0]
    columns = {name: [part[name] for part in parts] for name in parts[0]}
    return {name: torch.cat(xs, 1) if isinstance(xs[0], Tensor) else _side_by_side(xs) for name, xs in columns.items()}
