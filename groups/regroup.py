"""The same agents in other groups: data and specs of one group map under another."""

from __future__ import annotations

from typing import Any

import torch
from marlenv.groups.maps import GroupMap, check_marl_grouping
from marlenv.groups.tree import GroupTree
from tensordict import LazyStackedTensorDict, TensorDictBase

from marlenv.errors import GroupError
from marlenv.keys import Path, nested
from marlenv.specs import Composite


def regroup(td: TensorDictBase, old: GroupTree, new_map: GroupMap | GroupTree) -> TensorDictBase:
    """The data with every agent's rows moved to its new group; everything outside groups stays where it is.

    A group that keeps its agents in order is handed over as it is; a group made of a run of agents of one old group is
    a view of it.

    Args:
        td: data ``[*B]`` with the groups of ``old`` below it.
        old: the groups as they are.
        new_map: the groups as they shall be; the same agents.

    Raises:
        GroupError: the agents differ, or a new group would overwrite an entry that is no group.

    >>> from tensordict import TensorDict
    >>> td = TensorDict({"agents": TensorDict({"reward": torch.tensor([[1.0], [2.0]])}, [2])}, [])
    >>> regroup(td, GroupTree({"agents": ["a", "b"]}), {"x": ["b"], "y": ["a"]})["x", "reward"]
    tensor([[2.]])
    """
    tree = _tree(old, new_map)
    at = td.ndim
    out = td.exclude(*[nested(p) for p in old.groups], inplace=False)
    for branch in old.branches[:-1]:
        if nested(branch) in out.keys(True) and out[nested(branch)].is_empty():
            out.del_(nested(branch))
    _check_room(tree, out.keys(True))
    for path, agents in tree.groups.items():
        places = [old.place[a] for a in agents]
        sources = {group for group, _ in places}
        if len(sources) == 1:
            rows = [i for _, i in places]
            out[nested(path)] = _pick(td[nested(places[0][0])], rows, at)
        else:
            parts = [_pick(td[nested(group)], [i], at) for group, i in places]
            dense = _same_layout(parts)
            out[nested(path)] = torch.cat(parts, at) if dense else _lazy(td, places, at)
    return out


def regroup_spec(spec: Composite, old: GroupTree, new_map: GroupMap | GroupTree) -> Composite:
    """The spec of what :func:`regroup` makes of data with this spec."""
    tree = _tree(old, new_map)
    at = spec.ndim
    out = spec.clone()
    for group in old.groups:
        if nested(group) in out:
            del out[nested(group)]
    for branch in old.branches[:-1]:
        if nested(branch) in out and out[nested(branch)].is_empty():
            del out[nested(branch)]
    _check_room(tree, out.keys(True))
    for path, agents in tree.groups.items():
        rows = []
        for group, i in (old.place[a] for a in agents):
            if nested(group) in spec:
                rows.append(spec[nested(group)].unbind(at)[i])
        if rows:
            out[nested(path)] = torch.stack(rows, at)
    return out


def _tree(old: GroupTree, new_map: GroupMap | GroupTree) -> GroupTree:
    if isinstance(new_map, GroupTree):
        new_map = new_map.group_map
    try:
        check_marl_grouping(new_map, old.agents)
    except GroupError as error:
        error.add_note("while regrouping; the new groups must hold the same agents as the old ones")
        raise
    return GroupTree(new_map)


def _check_room(tree: GroupTree, taken: Any) -> None:
    """Raises if a group would be written over an entry."""
    if clash := [nested(path) for path in tree.groups if nested(path) in taken]:
        raise GroupError(
            f"regroup: groups {clash} would overwrite entries of the data that are no groups; name them otherwise"
        )


def _pick(node: TensorDictBase, rows: list[int], dim: int) -> TensorDictBase:
    """Some agents of a group; a view when they are a run."""
    if rows == list(range(rows[0], rows[0] + len(rows))):
        if len(rows) == node.batch_size[dim]:
            return node
        return node[(slice(None),) * dim + (slice(rows[0], rows[0] + len(rows)),)]
    return node[(slice(None),) * dim + (torch.tensor(rows, device=node.device),)]


def _same_layout(parts: list[TensorDictBase]) -> bool:
    def layout(td: TensorDictBase) -> dict[Any, Any]:
        return {k: (v.shape, v.dtype) for k, v in td.items(True, True)}

    try:
        return all(layout(p) == layout(parts[0]) for p in parts[1:])
    except RuntimeError:  # a lazy stack of unequal entries has no dense layout
        return False


def _lazy(td: TensorDictBase, places: list[tuple[Path, int]], dim: int) -> TensorDictBase:
    rows = [td[nested(group)].unbind(dim)[i] for group, i in places]
    return LazyStackedTensorDict(*rows, stack_dim=dim)
