"""Trees of groups: where every agent sits, and the way up from it to the root."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import networkx as nx
from marlenv.groups.maps import GroupMap, check_marl_grouping, leaves, plain

from marlenv.errors import GroupError, nearest
from marlenv.keys import NestedKey, Path, nested


class GroupTree:
    """A checked group map with its groups, agents and levels at hand.

    Args:
        group_map: group name -> agent names, nested to any depth.

    Raises:
        GroupError: a group is empty, or an agent is in two of them.

    >>> tree = GroupTree({"red": {"attack": ["a", "b"], "defence": ["c"]}, "blue": ["d"]})
    >>> tree.place["b"], tree.branches
    ((('red', 'attack'), 1), [('red',), ()])
    """

    def __init__(self, group_map: GroupMap) -> None:
        group_map = plain(group_map) if isinstance(group_map, Mapping) else group_map  # an iterator is read once
        check_marl_grouping(group_map, list(dict.fromkeys(a for _, agents in leaves(group_map) for a in agents)))
        self.group_map: dict[str, Any] = dict(group_map)
        self.groups: dict[Path, tuple[str, ...]] = {path: tuple(agents) for path, agents in leaves(self.group_map)}
        """Every group: its path and its agents, in order."""
        self.place: dict[str, tuple[Path, int]] = {
            agent: (path, i) for path, agents in self.groups.items() for i, agent in enumerate(agents)
        }
        """Every agent: the path of its group and its index in it."""
        inner = {path[:n] for path in self.groups for n in range(len(path))}
        self.branches: list[Path] = sorted(inner, key=lambda p: (-len(p), p))
        """The levels above the groups, deepest first; the root ``()`` is the last."""

    @property
    def agents(self) -> list[str]:
        """All agents, group by group."""
        return list(self.place)

    @property
    def keys(self) -> list[NestedKey]:
        """The groups' keys in a tensordict."""
        return [nested(path) for path in self.groups]

    def key(self, agent: str, name: str) -> tuple[NestedKey, int]:
        """Where an agent's entry is: the key of the group's tensor and the agent's index in it.

        >>> GroupTree({"agents": ["a", "b"]}).key("b", "reward")
        (('agents', 'reward'), 1)
        """
        if agent not in self.place:
            raise GroupError(f"group tree: no agent is called {agent!r}; {nearest(agent, self.place)}")
        path, i = self.place[agent]
        return (*path, name), i

    def children(self, branch: Path) -> list[Path]:
        """The groups and levels directly below a level, in the order of the map."""
        depth = len(branch)
        return list(dict.fromkeys(p[: depth + 1] for p in self.groups if len(p) > depth and p[:depth] == branch))

    def to_networkx(self) -> nx.DiGraph:
        """The tree as a directed graph: root ``()``, groups by path, agents by name; edges point down."""
        graph = nx.DiGraph()
        for branch in reversed(self.branches):
            graph.add_node(branch, kind="branch")
            graph.add_edges_from((branch, child) for child in self.children(branch))
        for path, agents in self.groups.items():
            graph.add_node(path, kind="group")
            for i, agent in enumerate(agents):
                graph.add_node(agent, kind="agent", index=i)
                graph.add_edge(path, agent)
        return graph

    @classmethod
    def from_networkx(cls, graph: nx.DiGraph, root: Any = ()) -> GroupTree:
        """The tree that :meth:`to_networkx` drew; the leaves are agents, their parents are groups."""
        if not nx.is_arborescence(graph):
            raise GroupError("group tree: the graph must be a tree whose edges point away from the root")

        def build(node: Any) -> Any:
            below = list(graph.successors(node))
            if all(graph.out_degree(n) == 0 for n in below):
                return [str(n) for n in sorted(below, key=lambda n: graph.nodes[n].get("index", 0))]
            if stray := [n for n in below if graph.out_degree(n) == 0]:
                raise GroupError(f"group tree: {stray} stand beside groups; an agent needs a group of its own")
            return {str(n[-1] if isinstance(n, tuple) else n): build(n) for n in below}

        made = build(root)
        return cls(made if isinstance(made, Mapping) else {"agents": made})

    def __iter__(self) -> Iterator[Path]:
        return iter(self.groups)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupTree) and self.group_map == other.group_map

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"GroupTree({self.group_map})"
