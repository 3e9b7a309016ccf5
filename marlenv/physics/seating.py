"""Between the groups of a world and the groups of a group map: the same agents, stacked with others.

What can be known is decided once: a group that is a group of the world is handed over as it is, a part of one is a view,
and only agents that come from several groups of the world are copied together, padded with zeros where they differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.groups import GroupTree
from marlenv.keys import Path
from marlenv.tensordicts import get, new

Entries: TypeAlias = "Mapping[str, Any]"
"""Data of the agents of a group: tensors ``[B, A, ...]`` by name, nested to any depth."""


class Run(NamedTuple):
    """Neighbouring agents of a group of the world."""

    group: str
    start: int
    stop: int


class Seating:
    """Where the agents of a world sit in a group map.

    Args:
        tree: the groups of the env.
        native: the groups of the world: name -> agents, in order.
        layouts: the :func:`layout` of the entries of each group of the world.
        widths: the size of the last dimension of their actions; None for one without.

    >>> world, see = {"a": ["a_0", "a_1"], "b": ["b_0"]}, layout({"observation": torch.zeros(8, 3, 4)})
    >>> tree = GroupTree({"odd": ["a_1", "b_0"], "even": ["a_0"]})
    >>> Seating(tree, world, {"a": see, "b": see}, {"a": 2, "b": 2}).runs["odd",]
    [Run(group='a', start=1, stop=2), Run(group='b', start=0, stop=1)]
    """

    def __init__(
        self,
        tree: GroupTree,
        native: Mapping[str, Sequence[str]],
        layouts: Mapping[str, Entries],
        widths: Mapping[str, int | None],
    ) -> None:
        self.tree, self.widths = tree, widths
        home = {agent: (group, i) for group, agents in native.items() for i, agent in enumerate(agents)}
        self.runs = {path: _runs([home[agent] for agent in agents]) for path, agents in tree.groups.items()}
        """Every group of the env as parts of groups of the world."""
        self.whole = {
            path: runs[0].group
            for path, runs in self.runs.items()
            if len(runs) == 1 and runs[0].start == 0 and runs[0].stop == len(native[runs[0].group])
        }
        """The groups of the env that are groups of the world."""
        self.padded = {
            path: _largest([layouts[run.group] for run in runs])
            for path, runs in self.runs.items()
            if any(
                (layouts[run.group], widths[run.group]) != (layouts[runs[0].group], widths[runs[0].group])
                for run in runs
            )
        }
        """The groups of the env whose agents differ, with the layout that has room for all of them."""
        self._origin = {group: path for path, group in self.whole.items()}
        self._seats = {group: [tree.place[agent] for agent in agents] for group, agents in native.items()}

    def seat(self, path: Path, data: Mapping[str, Entries], batch: Size, device: torch.device | None) -> TensorDict:
        """The data of a group of the env, ``[B, A]``.

        Args:
            path: the group.
            data: the entries of every group of the world.
            batch: ``[B]``.
            device: of the tensordict.

        """
        size = Size((*batch, len(self.tree.groups[path])))
        if path in self.whole:
            return wrap(data[self.whole[path]], size, device)
        parts = [_part(data[run.group], run) for run in self.runs[path]]
        if path in self.padded:
            room = self.padded[path]
            parts = [_pad(part, room, run.stop - run.start) for part, run in zip(parts, self.runs[path], strict=True)]
        return wrap(_join(parts), size, device)

    def actions(self, td: TensorDictBase) -> dict[str, Tensor]:
        """The actions of every group of the world, ``[B, A, ...]``, from the data of the env's groups."""
        out = {}
        for group, seats in self._seats.items():
            origin = self._origin.get(group)
            if origin is not None:
                out[group] = get(_node(td, origin), "action")
                continue
            width = self.widths[group]
            alone = [get(_node(td, path), "action")[:, i] for path, i in seats]
            out[group] = torch.stack(alone if width is None else [x[..., :width] for x in alone], 1)
        return out


def layout(entries: Entries) -> dict[str, Any]:
    """The shape behind the agents and the dtype of every entry, by name.

    >>> layout({"observation": torch.zeros(8, 3, 4)})
    {'observation': (torch.Size([4]), torch.float32)}
    """
    return {n: (x.shape[2:], x.dtype) if isinstance(x, Tensor) else layout(x) for n, x in entries.items()}


def wrap(entries: Entries, batch: Size, device: torch.device | None) -> TensorDict:
    """Nested entries as a nested tensordict."""
    return new({n: x if isinstance(x, Tensor) else wrap(x, batch, device) for n, x in entries.items()}, batch, device)


def _runs(places: Sequence[tuple[str, int]]) -> list[Run]:
    out: list[Run] = []
    for group, i in places:
        if out and out[-1].group == group and out[-1].stop == i:
            out[-1] = Run(group, out[-1].start, i + 1)
        else:
            out.append(Run(group, i, i + 1))
    return out


def _part(entries: Entries, run: Run) -> dict[str, Any]:
    at = slice(run.start, run.stop)
    return {name: x[:, at] if isinstance(x, Tensor) else _part(x, run) for name, x in entries.items()}


def _largest(layouts: Sequence[Entries]) -> dict[str, Any]:
    """The layout that has room for all."""
    out: dict[str, Any] = {}
    for name in dict.fromkeys(name for one in layouts for name in one):
        there = [one[name] for one in layouts if name in one]
        if isinstance(there[0], Mapping):
            out[name] = _largest(there)
        else:
            out[name] = Size(max(sizes) for sizes in zip(*(shape for shape, _ in there), strict=True)), there[0][1]
    return out


def _pad(part: Entries, room: Entries, agents: int) -> dict[str, Any]:
    """The entries of ``agents`` agents with zeros at the end, and zeros for what they lack."""
    out = dict(part)
    rows = _first(part)
    for name, want in room.items():
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


def _join(parts: Sequence[Entries]) -> Entries:
    """Parts of groups side by side."""
    if len(parts) == 1:
        return parts[0]
    columns = {name: [part[name] for part in parts] for name in parts[0]}
    return {name: torch.cat(xs, 1) if isinstance(xs[0], Tensor) else _join(xs) for name, xs in columns.items()}


def _node(td: TensorDictBase, path: Path) -> TensorDictBase:
    for name in path:
        td = get(td, name)
    return td
