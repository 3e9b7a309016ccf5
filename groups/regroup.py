"""The same agents in other groups: data and specs of one group map under another."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from marlenv.groups.maps import GroupMap, MarlGroupMapType, check_marl_grouping, resolve
from marlenv.groups.regroup_plan import RegroupPlan
from marlenv.groups.specs import check_stackable
from marlenv.groups.tree import GroupTree
from tensordict import LazyStackedTensorDict, TensorDictBase

from marlenv.errors import GroupError
from marlenv.keys import nested
from marlenv.specs import Composite

Groups: TypeAlias = "GroupMap | GroupTree"


def regroup(td: TensorDictBase, old: Groups, new_map: Groups | MarlGroupMapType | str) -> TensorDictBase:
    """The data with every agent's rows moved to its new group; everything outside groups stays where it is.

    A group that keeps its agents in order is handed over as it is; a group made of a run of agents of one old group is
    a view of it.

    Args:
        td: data ``[*B]`` with the groups of ``old`` below it.
        old: the groups as they are, a map or a tree.
        new_map: the groups as they shall be, a map, a rule, its name or a tree; the same agents.

    Raises:
        GroupError: the agents differ, or a new group would overwrite an entry that is no group.

    >>> from tensordict import TensorDict
    >>> td = TensorDict({"agents": TensorDict({"reward": torch.tensor([[1.0], [2.0]])}, [2])}, [])
    >>> regroup(td, {"agents": ["a", "b"]}, {"x": ["b"], "y": ["a"]})["x", "reward"]
    tensor([[2.]])
    """
    old, tree = _trees(old, new_map)
    at = td.ndim
    out = td.exclude(*[nested(p) for p in old.groups], inplace=False)
    for branch in old.branches[:-1]:
        if nested(branch) in out.keys(True) and out[nested(branch)].is_empty():
            out.del_(nested(branch))
    _check_room(tree, out.keys(True))
    for path, taken in RegroupPlan(old, tree).parts.items():
        parts = [part.take(td[nested(part.group)], at) for part in taken]
        if len(parts) == 1:
            out[nested(path)] = parts[0]
        elif _same_layout(parts, at):
            out[nested(path)] = torch.cat(parts, at)
        else:
            out[nested(path)] = LazyStackedTensorDict(*(row for part in parts for row in part.unbind(at)), stack_dim=at)
    return out


def regroup_spec(spec: Composite, old: Groups, new_map: Groups | MarlGroupMapType | str) -> Composite:
    """The spec of what :func:`regroup` makes of data with this spec.

    Raises:
        GroupError: as :func:`regroup`, or agents of a new group have an entry that cannot be one of their group, such
            as one that others of them lack.
    """
    old, tree = _trees(old, new_map)
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
        rows = {}
        for agent in agents:
            group, i = old.place[agent]
            if nested(group) in spec:
                rows[agent] = spec[nested(group)].unbind(at)[i]
        if rows:
            if lacking := [agent for agent in agents if agent not in rows]:
                entries = list(next(iter(rows.values())).keys(True, True))
                raise GroupError(
                    f"group {'/'.join(path)!r}: agents {lacking} have none of the entries {entries} that {list(rows)} "
                    f"have; group them apart"
                )
            try:
                check_stackable(rows)
            except GroupError as error:
                error.add_note(f"while regrouping; it is for group {'/'.join(path)!r}")
                raise
            out[nested(path)] = torch.stack(list(rows.values()), at)
    return out


def _trees(old: Groups, new_map: Groups | MarlGroupMapType | str) -> tuple[GroupTree, GroupTree]:
    """The groups as they are, and as they shall be."""
    old = old if isinstance(old, GroupTree) else GroupTree(old)
    try:
        if isinstance(new_map, GroupTree):
            check_marl_grouping(new_map.group_map, old.agents)
            return old, new_map
        return old, GroupTree(resolve(new_map, old.agents, default={}))
    except GroupError as error:
        error.add_note("while regrouping; the new groups must hold the same agents as the old ones")
        raise


def _check_room(tree: GroupTree, taken: Any) -> None:
    """Raises if a group would be written over an entry."""
    if clash := [nested(path) for path in tree.groups if nested(path) in taken]:
        raise GroupError(
            f"regroup: groups {clash} would overwrite entries of the data that are no groups; name them otherwise"
        )


def _same_layout(parts: list[TensorDictBase], dim: int) -> bool:
    """Whether agents have the same entries, of the same shape and dtype."""

    def layout(td: TensorDictBase) -> dict[Any, Any]:
        return {k: ((*v.shape[:dim], *v.shape[dim + 1 :]), v.dtype) for k, v in td.items(True, True)}

    try:
        return all(layout(p) == layout(parts[0]) for p in parts[1:])
    except RuntimeError:  # a lazy stack of unequal entries has no dense layout
        return False
