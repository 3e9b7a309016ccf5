"""The same agents in other groups: data and specs of one group map under another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from marlenv.groups.maps import GroupMap, MarlGroupMapType, check_marl_grouping, resolve
from marlenv.groups.regroup_plan import RegroupPlan
from marlenv.groups.specs import check_stackable
from marlenv.groups.tree import GroupTree
from tensordict import LazyStackedTensorDict, TensorDictBase
from torch import Tensor

from marlenv.errors import GroupError
from marlenv.keys import Path, nested
from marlenv.specs import Composite, NonTensor, Unbounded
from marlenv.tensordicts import entries, fetch, is_nested

Groups: TypeAlias = "GroupMap | GroupTree"


def regroup(td: TensorDictBase, old: Groups, new_map: Groups | MarlGroupMapType | str) -> TensorDictBase:
    """The data with every agent's rows moved to its new group; everything outside groups stays where it is.

    A group that keeps its agents in order is handed over as it is; a group made of a run of agents of one old group is
    a view of it. What follows, under ``"next"``, is moved too.

    Args:
        td: data ``[*B]`` with the groups of ``old`` below it; those that are not there are left out.
        old: the groups as they are, a map or a tree.
        new_map: the groups as they shall be, a map, a rule, its name or a tree; the same agents.

    Raises:
        GroupError: the agents differ, or a new group would overwrite an entry that is no group, or what its agents have
            cannot be one entry of it, or some of them have no data.

    >>> from tensordict import TensorDict
    >>> td = TensorDict({"agents": TensorDict({"reward": torch.tensor([[1.0], [2.0]])}, [2])}, [])
    >>> regroup(td, {"agents": ["a", "b"]}, {"x": ["b"], "y": ["a"]})["x", "reward"]
    tensor([[2.]])
    """
    plan = RegroupPlan(*trees(old, new_map))
    out = regroup_moment(td, plan)
    following = fetch(td, "next")
    return out.set("next", regroup_moment(following, plan)) if is_nested(following) else out


def regroup_moment(td: TensorDictBase, plan: RegroupPlan) -> TensorDictBase:
    """:func:`regroup` by a plan, of the data of one moment: what follows stays as it is."""
    old, tree, at = plan.old, plan.new, td.ndim
    out = td.exclude(*old.keys, inplace=False)
    for branch in old.branches[:-1]:
        if nested(branch) in out.keys(True) and out[nested(branch)].is_empty():
            out.del_(nested(branch))
    _check_room(tree, out.keys(True))
    for path, taken in plan.parts.items():
        parts = [part.take(x, at) for part in taken if (x := fetch(td, part.group)) is not None]
        if len(parts) == len(taken) == 1:
            out[nested(path)] = parts[0]
        elif len(parts) == len(taken) and _same_layout(parts, at):
            out[nested(path)] = torch.cat(parts, at)
        elif parts:
            rows = [row for part in parts for row in part.unbind(at)]
            there = [agent for agent in tree.groups[path] if fetch(td, old.place[agent][0]) is not None]
            _check_together(path, tree, {agent: _spec_of(row) for agent, row in zip(there, rows, strict=True)})
            out[nested(path)] = LazyStackedTensorDict(*rows, stack_dim=at)
    return out


def _spec_of(value: Any) -> Any:
    """The spec of data of one agent, as far as it says what they can be stacked with."""
    if is_nested(value):
        return Composite({name: _spec_of(one) for name, one in entries(value)})
    one = value[0].unsqueeze(0) if isinstance(value, list) else value  # of rows of different sizes
    return Unbounded(one.shape, dtype=one.dtype) if isinstance(one, Tensor) else NonTensor(one.batch_size)


def regroup_spec(spec: Composite, old: Groups, new_map: Groups | MarlGroupMapType | str) -> Composite:
    """The spec of what :func:`regroup` makes of data with this spec.

    Raises:
        GroupError: as :func:`regroup`, or agents of a new group have an entry that cannot be one of their group, such
            as one that others of them lack.
    """
    old, tree = trees(old, new_map)
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
            _check_together(path, tree, rows)
            out[nested(path)] = torch.stack(list(rows.values()), at)
    return out


def _check_together(path: Path, tree: GroupTree, specs: Mapping[str, Any]) -> None:
    """Raises unless all agents of a new group have specs, and these can be stacked."""
    if lacking := [agent for agent in tree.groups[path] if agent not in specs]:
        have = list(next(iter(specs.values())).keys(True, True))
        raise GroupError(
            f"group {'/'.join(path)!r}: agents {lacking} have none of the entries {have} that {list(specs)} have; "
            f"group them apart"
        )
    try:
        check_stackable(specs)
    except GroupError as error:
        error.add_note(f"while regrouping; it is for group {'/'.join(path)!r}")
        raise


def trees(old: Groups, new_map: Groups | MarlGroupMapType | str) -> tuple[GroupTree, GroupTree]:
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
