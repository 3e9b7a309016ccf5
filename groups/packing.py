"""Between a simulator's data, one dict per agent, and group tensors, one row per agent.

Every value is written once, straight into the tensor that is handed out. Agents that are absent get zeros, or the value
of their spec that is nearest to zero. Actions come back agent by agent, as arrays, and only for the agents that are
asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from marlenv.groups.columns import Columns
from marlenv.groups.specs import PAD_MASK, PadMasks, Unequal, specs_and_masks
from marlenv.groups.tree import GroupTree
from tensordict import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.errors import DtypeError, GroupError, KeyMissing, ShapeError, nearest
from marlenv.keys import NestedKey, Path, nested, path
from marlenv.specs import Composite, MultiOneHot, NonTensor, OneHot, StackedComposite, TensorSpec
from marlenv.specs.dtypes import unfit
from marlenv.specs.shapes import concrete
from marlenv.tensordicts import fetch, nest, plant

AgentData = Mapping[str, Mapping[str, Any]]

ARRAYS = (np.ndarray, Tensor)
VECTORS = (OneHot, MultiOneHot)
"""Specs whose values are vectors for the network and numbers for the simulator."""


class PackedEntry(NamedTuple):
    """One leaf of a group: where it is, and which corner of its row each agent fills."""

    key: Path
    spec: TensorSpec
    corners: list[tuple[slice, ...] | None]
    """Per agent: None if it fills the whole row."""
    own: list[TensorSpec | None]
    """Per agent: its spec of this entry; None if it has none. One that numbers values as they come is the group's row,
    so that a number stands for one value in the whole group."""
    blanks: list[Any]
    """Per agent: what its row holds when it has no value; 0, or an array where zero is outside the spec."""


class Packer:
    """Packs per-agent data into group tensors and unpacks group tensors into per-agent data.

    Args:
        tree: the groups.
        per_agent: agent name -> spec of its entries, without batch and agent dimensions.
        unequal: what to do in a group whose agents differ: ``"stack"`` lazily, ``"pad"`` or ``"raise"``.
        masks: what is told of padding, as of :func:`group_specs`.

    >>> see = Composite(observation=Unbounded((2,)))
    >>> packer = Packer(GroupTree({"agents": ["a", "b"]}), {"a": see, "b": see})
    >>> packer.pack({"b": {"observation": [1.0, 2.0]}})["agents", "observation"]
    tensor([[0., 0.],
            [1., 2.]])
    """

    def __init__(
        self,
        tree: GroupTree,
        per_agent: Mapping[str, Composite],
        *,
        unequal: Unequal = "stack",
        masks: PadMasks | None = None,
    ) -> None:
        self.tree = tree
        self.spec, told = specs_and_masks(tree, per_agent, unequal, Size(), masks)
        """The spec of what :meth:`pack` returns."""
        self._plans = {p: self._plan(p, [per_agent[a] for a in agents]) for p, agents in tree.groups.items()}
        self._pad_masks = {p: TensorDict(dict(flags), [len(tree.groups[p])]) for p, flags in told.items()}
        self.columns = None if told else Columns.of(tree, per_agent)
        """The entries as columns, where they are plain arrays of equal agents."""
        self._dense = {p: not isinstance(self.spec[nested(p)], StackedComposite) for p in tree.groups}

    def _plan(self, group: Path, specs: list[Composite]) -> list[list[PackedEntry]]:
        """The entries of a group: one list for a dense group, one per agent for a lazy stack."""
        whole = self.spec[nested(group)]
        if isinstance(whole, StackedComposite):
            return [self._entries(part, [spec]) for part, spec in zip(whole.parts, specs, strict=True)]
        return [self._entries(whole, specs)]

    def _entries(self, spec: Composite, agents: list[Composite]) -> list[PackedEntry]:
        found = []
        for key in spec.keys(True, True):
            if path(key)[0] == PAD_MASK:
                continue
            leaf = spec[key]
            row = concrete(leaf.shape if spec.ndim == 0 else leaf.shape[1:])
            own = [agent.get(key, None) for agent in agents]
            corners = [
                None if one is None or concrete(one.shape) == row else tuple(slice(0, n) for n in concrete(one.shape))
                for one in own
            ]
            rows = leaf.unbind(0) if spec.ndim else [leaf]
            if getattr(leaf, "use_register", False):
                own = [None if one is None else its for one, its in zip(own, rows, strict=True)]
            found.append(PackedEntry(path(key), leaf, corners, own, [_blank(one) for one in rows]))
        return found

    # --- in --------------------------------------------------------------------------------------

    def pack(self, data: AgentData, *, device: torch.device | None = None) -> TensorDict:
        """The group tensors of one moment.

        Args:
            data: agent name -> entry name -> value (number, array, tensor; nested dicts for nested entries). An agent
                that is left out, or an entry that it leaves out, is zeros. Entries that have no spec are left out.
                One-hot entries may be given as numbers.
            device: where the tensors go.

        Raises:
            GroupError: an unknown agent, or data of an agent that are not a mapping.
            ShapeError: a value that does not have the shape of its spec; the message names agent and entry.
            DtypeError: a fraction where the spec has integers, or a number that its dtype does not hold.
        """
        if strangers := data.keys() - self.tree.place.keys():
            name = sorted(strangers)[0]
            raise GroupError(f"pack: unknown agents {sorted(strangers)}; {nearest(name, self.tree.place)}")
        made = None if self.columns is None else self.columns.pack(data)
        if made is None:
            made = self._pack_groups(data)
        return made if device is None or device.type == "cpu" else made.to(device)

    def _pack_groups(self, data: AgentData) -> TensorDict:
        """The group tensors of one moment, entry by entry; whatever the groups are, and with a complaint where one is
        due.
        """
        out: dict[str, Any] = {}
        for group, agents in self.tree.groups.items():
            given = [data.get(agent) for agent in agents]
            plans = self._plans[group]
            if self._dense[group]:
                packed: Any = self._pack_dense(plans[0], given, agents, Size([len(agents)]))
                if (flags := self._pad_masks.get(group)) is not None:
                    packed._tensordict[PAD_MASK] = flags.clone()
            else:
                rows = [
                    self._pack_dense(plan, [one], (a,), Size())
                    for plan, one, a in zip(plans, given, agents, strict=True)
                ]
                packed = LazyStackedTensorDict(*rows, stack_dim=0)
            plant(out, group, packed)
        return nest(out, Size())

    def _pack_dense(
        self, plan: list[PackedEntry], given: list[Any], agents: tuple[str, ...], batch: Size
    ) -> TensorDict:
        data: dict[str, Any] = {}
        for entry in plan:
            try:
                values = [None if one is None else _dig(one, entry.key) for one in given]
            except AttributeError as error:
                raise _not_a_mapping(entry, given, agents) from error
            try:
                packed = _fill(entry, values, batch)
            except (ValueError, TypeError, RuntimeError) as error:
                raise _blame(entry, values, agents, batch, error) from error
            plant(data, entry.key, packed)
        return nest(data, batch)

    # --- out -------------------------------------------------------------------------------------

    def unpack(
        self, td: TensorDictBase, only: Collection[str] | None = None, *, as_vectors: bool = False
    ) -> dict[str, dict[str, Any]]:
        """The data of each agent, as simulators take it: arrays and numbers.

        Args:
            td: holds this packer's entries under the groups' keys, without batch dimensions.
            only: the agents that are wanted; all of them when left out.
            as_vectors: leave one-hot entries as they are, for the caller to look at.

        Raises:
            KeyMissing: an entry is not in ``td``.
        """
        out: dict[str, dict[str, Any]] = {}
        for group, agents in self.tree.groups.items():
            wanted = [i for i, agent in enumerate(agents) if only is None or agent in only]
            if not wanted:
                continue
            node = fetch(td, group)
            if node is None:
                raise KeyMissing(
                    f"unpack: no group {nested(group)!r} in the data; it has {sorted(map(str, td.keys()))}"
                )
            plans = self._plans[group]
            if self._dense[group]:
                for entry in plans[0]:
                    array = _read(node, entry, group, as_vectors)
                    for i in wanted:
                        if entry.own[i] is not None:
                            corner = entry.corners[i]
                            value = array[i] if corner is None else array[i][corner[: np.ndim(array[i])]]
                            plant(out.setdefault(agents[i], {}), entry.key, value)
            else:
                for i in wanted:
                    for entry in plans[i]:
                        value = _read(node[i], entry, group, as_vectors)
                        value = value if isinstance(entry.spec, NonTensor) else value[()]
                        plant(out.setdefault(agents[i], {}), entry.key, value)
        return out


def _read(node: TensorDictBase, entry: PackedEntry, group: Path, as_vectors: bool) -> Any:
    """One entry of a group, or of one agent, as an array; a list or the thing itself when it is not a tensor."""
    value = fetch(node, entry.key)
    if as_vectors and isinstance(entry.spec, VECTORS) and value is not None:
        return TensorSpec.to_numpy(entry.spec, value)
    if type(value) is Tensor and not isinstance(entry.spec, NonTensor):
        return entry.spec.to_numpy(value)
    if value is None and not isinstance(entry.spec, NonTensor):
        where = nested((*group, *entry.key))
        raise KeyMissing(f"unpack: entry {where!r} is missing; the group has {sorted(map(str, node.keys(True, True)))}")
    if isinstance(value, (NonTensorData, NonTensorStack)):
        return value.tolist()
    return value if isinstance(entry.spec, NonTensor) else entry.spec.to_numpy(value)


def _dig(data: Any, key: Path) -> Any:
    for name in key:
        if data is None:
            return None
        data = data.get(name)
    return data


def _blank(spec: TensorSpec) -> Any:
    """What stands for an absent value: 0, or the value of the spec that is nearest to zeros."""
    if isinstance(spec, NonTensor):
        return None
    zeros = spec.zero()
    return 0 if spec.is_in(zeros) else spec.project(zeros)


def _fill(entry: PackedEntry, values: list[Any], batch: Size) -> Any:
    """One entry of all agents; ``[*batch, ...]``, where ``batch`` is ``[A]``, or empty for a single agent."""
    spec = entry.spec
    if isinstance(spec, NonTensor):
        items = [spec.example_data if v is None else v for v in values]
        return NonTensorStack(*[NonTensorData(v) for v in items]) if batch else NonTensorData(items[0])
    shape = concrete(spec.shape) if -1 not in spec.shape else _grown(spec.shape, values, batch)
    out = torch.empty(shape, dtype=spec.dtype)
    rows = out.numpy() if spec.dtype != torch.bfloat16 else None
    for i, value in enumerate(values):
        at: Any = i if batch else ()
        corner = entry.corners[i]
        if value is None or corner is not None:
            out[at] = entry.blanks[i]
        if value is None:
            continue
        if corner is not None:
            at = (i, *corner) if batch else corner
        if isinstance(spec, VECTORS):
            value = _vector(value, entry.own[i])
        shape = out[at].shape if rows is None else rows[at].shape
        value = _fitted(value if isinstance(value, ARRAYS) else np.asarray(value), shape, spec.dtype)
        if rows is None or isinstance(value, Tensor):
            out[at] = torch.as_tensor(value)
        else:
            rows[at] = value
    return out


def _vector(value: Any, spec: Any) -> Any:
    """A one-hot value as the vector that it stands for, when it was given as a number."""
    if spec is None or np.shape(value) == tuple(spec.shape):
        return value
    if not spec.use_register:
        _check_numbers(value if isinstance(value, Tensor) else np.asarray(value), torch.int64)
    return spec.encode(value)


def _fitted(value: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Any:
    """The value, which must not be broadcast; a single number may come as ``()`` or ``(1,)``."""
    _check_numbers(value, dtype)
    if tuple(value.shape) == tuple(shape):
        return value
    if _one_number(value.shape, shape):
        return value.reshape(shape)
    raise ValueError(f"expected shape {list(shape)}, got {list(value.shape)}")


def _one_number(have: tuple[int, ...], want: tuple[int, ...]) -> bool:
    """Whether both are shapes of a single number: ``()`` or ``(1,)``."""
    return len(want) <= 1 and len(have) <= 1 and prod(have) == prod(want) == 1


def _check_numbers(value: Any, dtype: torch.dtype) -> None:
    if wrong := unfit(value, dtype):
        raise DtypeError(wrong)


def _blame(
    entry: PackedEntry, values: list[Any], agents: tuple[str, ...], batch: Size, error: Exception
) -> ShapeError | DtypeError:
    """The error of :func:`_fill` with the agent and the entry in it."""
    where = f"pack: entry {nested(entry.key)!r} of agent"
    if isinstance(error, DtypeError):
        given = [(a, v) for a, v in zip(agents, values, strict=True) if v is not None]
        dtype = torch.int64 if isinstance(entry.spec, VECTORS) else entry.spec.dtype
        wrong = (a for a, v in given if unfit(v if isinstance(v, ARRAYS) else np.asarray(v), dtype))
        return DtypeError(f"{where} {next(wrong, given[0][0])!r}: {error}")
    want = concrete(entry.spec.shape[len(batch) :])
    for i, value in enumerate(values):
        corner = entry.corners[i]
        mine = want if corner is None else Size(s.stop for s in corner)
        got = () if value is None else np.shape(value)
        if value is not None and tuple(got) != tuple(mine) and not _one_number(got, mine):
            return ShapeError(f"{where} {agents[i]!r} must have shape {list(mine)}, got {list(got)}")
    return ShapeError(f"pack: entry {nested(entry.key)!r} of agents {list(agents)}: {error}")


def _not_a_mapping(entry: PackedEntry, given: list[Any], agents: tuple[str, ...]) -> GroupError:
    """Says whose data, or whose nested entry, is no mapping."""
    for agent, node in zip(agents, given, strict=True):
        for depth in range(len(entry.key)):
            if node is not None and not hasattr(node, "get"):
                what = f"entry {nested(entry.key[:depth])!r} of agent" if depth else "the data of agent"
                return GroupError(
                    f"pack: {what} {agent!r} must be a mapping with {entry.key[depth]!r}, got {type(node).__name__}"
                )
            node = None if node is None else node.get(entry.key[depth])
    return GroupError(f"pack: the data of agents {list(agents)} must be mappings")


def _grown(shape: Size, values: list[Any], batch: Size) -> Size:
    """The shape with dynamic dimensions as large as the largest value needs."""
    row = shape[len(batch) :]
    sizes = [np.shape(v) for v in values if v is not None]
    full = [s if s >= 0 else max((one[i] for one in sizes), default=1) for i, s in enumerate(row)]
    return Size((*batch, *full))


def stack_agents(tree: GroupTree, data: Mapping[str, Mapping[NestedKey, Tensor]], batch_size: Size) -> TensorDict:
    """Group tensors from per-agent tensors that already have batch dimensions.

    Args:
        tree: the groups.
        data: agent name -> key -> tensor ``[*B, ...]``.
        batch_size: ``*B``.

    Returns:
        A tensordict ``[*B]`` with entries ``[*B, A, ...]`` under the groups' keys.

    >>> data = {"a": {"reward": torch.zeros(4, 1)}, "b": {"reward": torch.ones(4, 1)}}
    >>> stack_agents(GroupTree({"agents": ["a", "b"]}), data, Size([4]))["agents", "reward"].shape
    torch.Size([4, 2, 1])
    """
    out = TensorDict({}, batch_size=batch_size)
    dim = len(batch_size)
    for group, agents in tree.groups.items():
        parts = [TensorDict(dict(data[a]), batch_size=batch_size) for a in agents]
        out[nested(group)] = LazyStackedTensorDict.maybe_dense_stack(parts, dim)
    return out
