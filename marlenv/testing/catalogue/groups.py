"""Group maps in every form, and an example of every public class of ``marlenv.groups``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from marlenv.groups import DoneLevel, DonePlan, Flags, GroupTree, MarlGroupMapType, Packer, RegroupPlan, TurnView
from marlenv.specs import Binary, Composite, Unbounded


class Layout(NamedTuple):
    """A group map with a name; its agents are those of the map.

    >>> LAYOUTS[0].tree().agents
    ['a']
    """

    name: str
    group_map: dict[str, Any]

    def tree(self) -> GroupTree:
        """The checked tree."""
        return GroupTree(self.group_map)


LAYOUTS = [
    Layout("one agent", {"agents": ["a"]}),
    Layout("one group", {"agents": ["a", "b", "c"]}),
    Layout("two groups", {"wolves": ["w0", "w1"], "sheep": ["s0", "s1", "s2"]}),
    Layout("a group per agent", {"a": ["a"], "b": ["b"]}),
    Layout("mixed order", {"even": ["a2", "a0"], "odd": ["a1", "a3"]}),
    Layout("two levels", {"red": {"attack": ["a", "b"], "defence": ["c"]}, "blue": {"all": ["d", "e"]}}),
    Layout("unequal depths", {"red": {"attack": {"left": ["a"], "right": ["b"]}, "keeper": ["c"]}, "referee": ["r"]}),
]

_FLAG = Binary(shape=(1,), dtype=torch.bool)
_TREE = LAYOUTS[2].tree()

EXAMPLES: dict[type, Callable[[], Any]] = {
    GroupTree: lambda: GroupTree(LAYOUTS[5].group_map),
    MarlGroupMapType: lambda: MarlGroupMapType.BY_NAME_PREFIX,
    Flags: lambda: Flags(torch.tensor([True, False]), torch.tensor([False, False])),
    DoneLevel: lambda: DonePlan(Composite(done=_FLAG.clone())).levels[0],
    DonePlan: lambda: DonePlan(Composite(done=_FLAG.clone(), terminated=_FLAG.clone())),
    Packer: lambda: Packer(_TREE, {agent: Composite(observation=Unbounded((2,))) for agent in _TREE.agents}),
    TurnView: TurnView,
    RegroupPlan: lambda: RegroupPlan(_TREE, GroupTree({"all": _TREE.agents})),
}
"""Public classes and how to make one."""
