"""Where the data of an env hold what: which entry of the tensordict is which value of the simulation, in which shape.

Specs, steps, rollouts and resets are loops over it. Where the groups are others than the world's, the world's are
filled first and regrouped then (:mod:`marlenv.physics.env.grouping`); short cuts are for groups of the world
(:attr:`Layout.direct`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.groups import GroupTree
from marlenv.groups.regroup_plan import Entries
from marlenv.groups.specs import PAD_MASK
from marlenv.keys import LIFE_NAMES, Path
from marlenv.physics.env.grouping import Grouping, wrap
from marlenv.physics.jit.source import Field, result_fields
from marlenv.physics.simulation import SHARED, Simulation
from marlenv.tensordicts import fetch, get, is_nested, new, plant, put, raw, write

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

    def under(self, paths: Mapping[str, Path]) -> Entry:
        """The same in data in which its group is elsewhere."""
        group = self.field.name[0]
        return self._replace(node=(*paths[group], *self.node[1:])) if group in paths else self

    def of(self, x: Tensor, time: int = 0) -> Tensor:
        """A view of ``[*T, ..., B]`` as it is in the data, ``[B, *T, ...]``.

        Args:
            x: the values; the rows are last.
            time: how many dimensions of time there are, 0 or 1.
        """
        return self.shaped(x.movedim(-1, 0), time)

    def shaped(self, x: Tensor, time: int = 0) -> Tensor:
        """A view of ``[B, *T, ...]``, a value of the simulation, as it is in the data."""
        return x.unsqueeze(-1) if x.ndim - 1 - time < len(self.shape) else x


class Level(NamedTuple):
    """The root, or a group: what has done flags of its own."""

    path: Path
    agents: Size
    """How many agents, as a size; empty for the root."""


class Layout:
    """The data of an env, entry by entry; made when the env is made.

    Args:
        entries: observations and infos, and rewards, as :func:`world_entries` lists them.
        tree: the groups of the data.
        grouping: how the groups of the world become those of the data.
        pad_masks: of the groups that are padded, ``[A]``.
        batch: ``[B]``.
        device: of the data.
    """

    def __init__(
        self,
        entries: tuple[Sequence[Entry], Sequence[Entry]],
        tree: GroupTree,
        grouping: Grouping,
        pad_masks: Mapping[Path, TensorDict],
        batch: Size,
        device: torch.device | None,
    ) -> None:
        self.batch, self.device, self._grouping, self._pad_masks = batch, device, grouping, pad_masks
        self.mortal = any(_of_life(entry.field) for entry in entries[0])
        """Whether agents may die while their row goes on."""
        self.direct = len(grouping.whole) == len(tree.groups) and not grouping.plan.padded and not self.mortal
        """Whether the groups are those of the world, so that every entry of the data is a value of the simulation."""
        self.paths = {group: path for path, group in grouping.whole.items()}
        """Group of the world -> where it is in the data."""
        self.observations, self.rewards = ([entry.under(self.paths) for entry in some] for some in entries)
        self.levels = [Level((), Size()), *(Level(p, Size((len(a),))) for p, a in tree.groups.items())]
        self.agents = sum(level.agents[0] for level in self.levels[1:])
        """How many agents there are."""
        self._flag_views: dict[int, list[tuple[tuple[int, ...], tuple[int, ...], int]]] = {}
        self._first = self._tree(self.observations)
        self._following = self._tree([*self.observations, *self.rewards])

    def _tree(self, entries: Sequence[Entry]) -> _Template:
        root = _Template(Size(), self.batch)
        for level in self.levels[1:]:
            node = root
            for name in level.path[:-1]:
                node = node.inner.setdefault(name, _Template(Size(), self.batch))
            node.inner[level.path[-1]] = _Template(level.agents, self.batch)
        for i, entry in enumerate(entries):
            node = root
            for name in entry.node:
                node = node.inner.setdefault(name, _Template(node.agents, self.batch))
            node.leaves[entry.name] = i
        for i, level in enumerate(self.levels):
            node = root
            for name in level.path:
                node = node.inner[name]
            node.leaves.update({name: len(entries) + 3 * i + k for k, name in enumerate(FLAGS)})
        return root

    def data(self, values: Mapping[Path, Tensor], flags: Tensor | None) -> TensorDict:
        """The data of a reset, or of a step where there are rewards among the values.

        Args:
            values: of the simulation, rows first.
            flags: whether rows are terminated, truncated, done; bool ``[3, B]``; None where nothing is done.
        """
        steps = self.rewards[0].field.name in values
        entries = [*self.observations, *self.rewards] if steps else self.observations
        block = torch.zeros((3, 1 + self.agents, *self.batch), dtype=torch.bool, device=self.device)
        views = self.flags(block if flags is None else block.copy_(flags.unsqueeze(1)))
        if self.direct:
            filled = [entry.shaped(values[entry.field.name]) for entry in entries]
            return (self._following if steps else self._first).filled([*filled, *views], None, self.device)
        world = by_group(entries, values)
        groups: dict[Path, Entries] = {(group,): nested for group, nested in world.items()}
        out = wrap(world.get(SHARED, {}), self.batch, self.device)
        for i, level in enumerate(self.levels):
            node = self._grouping.join(level.path, groups, self.batch, self.device) if level.path else out
            if level.path in self._pad_masks:
                put(node, PAD_MASK, self._pad_masks[level.path].expand(*self.batch, *level.agents).clone())
            own = views[3 * i : 3 * i + 3]
            for name, flag in zip(FLAGS, self._with_deaths(node, own) if level.path else own, strict=True):
                put(node, name, flag)
            if level.path:
                plant(out, level.path, node)
        return out

    def _with_deaths(self, node: TensorDict, flags: Sequence[Tensor]) -> Sequence[Tensor]:
        """The flags of a group: the dead are terminated, and never truncated later; nobody who is done lives."""
        if not self.mortal:
            return flags
        terminated, truncated, _ = flags
        alive, before = (get(node, name).unsqueeze(-1) for name in LIFE_NAMES)
        lives = alive & (before | ~truncated)  # who is born in the last step of all has not lived
        terminated, truncated = terminated | ~lives, truncated & lives
        done = terminated | truncated
        for name in LIFE_NAMES:
            put(node, name, ~done.squeeze(-1))
        return terminated, truncated, done

    def first(self, values: Sequence[Tensor], batch: Size | None = None) -> TensorDict:
        """The data that a step starts from.

        Args:
            values: observations and infos, in the order of :attr:`observations`, then three flags for each level.
            batch: of the data, where it is not the env's.
        """
        return self._first.filled(values, batch, self.device)

    def following(self, values: Sequence[Tensor | None], batch: Size | None = None) -> TensorDict:
        """The data that follow on a step: the same with rewards behind the infos; entries that are None are left
        out.
        """
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

        None where something was replaced or left out, or is no plain tensor, or not where a rollout stores it.
        """
        out: dict[Path, Tensor] = {}
        return out if "next" not in td.keys() and self._first.added(td, values, (), out) else None

    def form(self, found: Mapping[Path, Tensor]) -> StepForm:
        """The form of steps in which somebody writes entries like those that were ``found`` each time."""
        count = len(self.observations) + len(FLAGS) * len(self.levels)
        template = self._first.grown(dict(zip(found, range(count, count + len(found)), strict=True)))
        return StepForm(template, [_kind(x) for x in found.values()], self.device)

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


Kind = tuple[Size, torch.dtype, torch.device]


def _kind(x: Tensor) -> Kind:
    return x.shape, x.dtype, x.device


class StepForm:
    """The data that steps start from, where somebody writes the same entries in each of them.

    Args:
        template: of all entries, those that are written last.
        kinds: shapes, dtypes and devices of what is written.
        device: of the data.
    """

    def __init__(self, template: _Template, kinds: Sequence[Kind], device: torch.device | None) -> None:
        self._template, self._kinds, self._device = template, kinds, device

    def filled(self, values: Sequence[Tensor], written: Sequence[Tensor]) -> TensorDict:
        """The data with what was written in the step before.

        Args:
            values: as of :meth:`Layout.first`.
            written: entries in the order in which the form was asked for.
        """
        return self._template.filled([*values, *written], None, self._device)

    def written(self, td: TensorDictBase, values: Sequence[Tensor]) -> list[Tensor] | None:
        """What somebody wrote into the data; None where anything else was changed, or an entry is not like before."""
        out: list[Any] = [None] * len(self._kinds)
        return out if self._template.matches(td, values, self._kinds, out) else None


class _Template:
    """A tensordict to be made: its entries as places in a list of values, and the tensordicts in it."""

    def __init__(self, agents: Size, batch: Size) -> None:
        self.agents, self.size = agents, Size((*batch, *agents))
        self.leaves: dict[str, int] = {}
        self.inner: dict[str, _Template] = {}

    def filled(self, values: Sequence[Tensor | None], batch: Size | None, device: torch.device | None) -> TensorDict:
        data: dict[str, Any] = {name: x for name, i in self.leaves.items() if (x := values[i]) is not None}
        for name, node in self.inner.items():
            below = node.filled(values, batch, device)
            if below._tensordict:
                data[name] = below
        return new(data, self.size if batch is None else Size((*batch, *self.agents)), device)

    def grown(self, places: Mapping[Path, int]) -> _Template:
        """The same with more entries, at these places in the list."""
        made = _Template(self.agents, self.size)
        made.size, made.leaves = self.size, self.leaves | {path[0]: i for path, i in places.items() if len(path) == 1}
        for name in dict.fromkeys((*self.inner, *(path[0] for path in places if len(path) > 1))):
            below = {path[1:]: i for path, i in places.items() if path[0] == name and len(path) > 1}
            made.inner[name] = self.inner.get(name, _Template(Size(), self.size)).grown(below)
        return made

    def matches(self, td: Any, values: Sequence[Tensor], kinds: Sequence[Kind], written: list[Any]) -> bool:
        """Whether a tensordict holds ``values`` themselves, behind them in the list entries of these ``kinds``, and
        nothing else; the latter take their places in ``written``.
        """
        data, count = raw(td), len(values)
        if data is None or td.batch_size != self.size or len(data) != len(self.leaves) + len(self.inner):
            return False
        for name, x in data.items():
            if (i := self.leaves.get(name)) is None:
                node = self.inner.get(name)
                if node is None or not node.matches(x, values, kinds, written):
                    return False
            elif i < count:
                if x is not values[i]:
                    return False
            else:
                if type(x) is not Tensor or _kind(x) != kinds[i - count]:
                    return False
                written[i - count] = x
        return True

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
            elif not raw(x) or not _Template(Size(), self.size).added(x, values, (*path, name), out):
                return False
        return not missing


def world_entries(simulation: Simulation) -> tuple[list[Entry], list[Entry]]:
    """Observations and infos of a simulation, and its rewards, as they are in data with the groups of the world."""
    fields, count = result_fields(simulation)
    entries = [_entry(field) for field in fields]
    return entries[:count], entries[count:]


def _entry(field: Field) -> Entry:
    """Numbers without a dimension of their own, such as rewards and many infos, get one."""
    group, what, *_ = field.name
    if _of_life(field):
        return Entry(field, (group,), field.name[-1], Size(field.shape))
    shared = group == SHARED
    lone = what == "reward" or (what == "info" and len(field.shape) < 2 - shared)
    path = field.name[shared:]
    return Entry(field, path[:-1], path[-1], Size((*field.shape, *(1,) * lone)))


def _of_life(field: Field) -> bool:
    """Whether it says who lives."""
    return field.name[1:-1] == ("info",) and field.name[0] != SHARED and field.name[-1] in LIFE_NAMES


def by_group(entries: Sequence[Entry], values: Mapping[Path, Tensor]) -> dict[str, dict[str, Any]]:
    """Values of a simulation, nested as they are in the data, for each group of the world; those of the rows under
    ``""``.
    """
    out: dict[str, dict[str, Any]] = {}
    for entry in entries:
        group = entry.field.name[0]
        inside = entry.node if group == SHARED else () if _of_life(entry.field) else entry.field.name[1:-1]
        plant(out.setdefault(group, {}), (*inside, entry.name), entry.shaped(values[entry.field.name]))
    return out


def columns(flags: Sequence[Tensor]) -> list[Tensor]:
    """The flags of levels, ``[3, *T, *A, B]`` each, as they are in the data, three ``[B, *T, *A, 1]`` of each level."""
    out = []
    for level in flags:
        (_, *between, rows), (block, *strides, one) = level.shape, level.stride()
        size, stride, start = (rows, *between, 1), (one, *strides, 1), level.storage_offset()
        out += [level.as_strided(size, stride, start + k * block) for k in range(3)]
    return out


def _nested(td: TensorDictBase, path: Path) -> TensorDictBase | None:
    """The tensordict at a path, if there is one."""
    node = fetch(td, path) if path else td
    return node if is_nested(node) else None


__all__ = ["FLAGS", "Entry", "Layout", "Level", "StepForm", "by_group", "columns", "world_entries"]
