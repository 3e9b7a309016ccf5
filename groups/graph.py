"""Group maps from graphs and to graphs: who is connected to whom decides who is stacked with whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import networkx as nx
import torch
from marlenv.groups.maps import GroupMap, check_marl_grouping, leaves
from marlenv.groups.tree import GroupTree
from torch import Tensor

from marlenv.errors import GroupError
from marlenv.keys import Path

Communities = Literal["components"] | Iterable[Iterable[str]] | Callable[[nx.Graph], Iterable[Iterable[str]]]


def group_map_from_graph(graph: nx.Graph, communities: Communities = "components") -> dict[str, list[str]]:
    """A group per connected component of a graph of agents, or per community that is given.

    Args:
        graph: nodes are agent names. A node attribute ``group`` names the node's group.
        communities: ``"components"``, the communities themselves, or a function that finds them, such as
            ``networkx.community.louvain_communities``.

    Raises:
        GroupError: the communities are not a partition of the agents.

    >>> graph = nx.Graph([("a", "b"), ("c", "d")])
    >>> group_map_from_graph(graph)
    {'group_0': ['a', 'b'], 'group_1': ['c', 'd']}
    """
    order = {agent: i for i, agent in enumerate(graph.nodes)}
    if isinstance(communities, str) and communities != "components":
        raise GroupError(
            f"group map from graph: communities must be 'components', the communities themselves or a function that "
            f"finds them, got {communities!r}"
        )
    if communities == "components":
        undirected = graph.to_undirected() if graph.is_directed() else graph
        found: Iterable[Iterable[str]] = nx.connected_components(undirected)
    elif callable(communities):
        found = communities(graph)
    else:
        found = communities
    members = [sorted(one, key=lambda a: order.get(a, len(order))) for one in found]
    members.sort(key=lambda agents: order.get(agents[0], len(order)) if agents else -1)
    names = [_name(graph, agents, i) for i, agents in enumerate(members)]
    if len(set(names)) != len(names):
        raise GroupError(f"group map from graph: nodes of different communities share the name {names}")
    group_map = dict(zip(names, members, strict=True))
    check_marl_grouping(group_map, list(graph.nodes))
    return group_map


def _name(graph: nx.Graph, agents: Iterable[str], i: int) -> str:
    titles = {graph.nodes[a].get("group") for a in agents if a in graph}
    title = titles.pop() if len(titles) == 1 else None
    return str(title) if title is not None else f"group_{i}"


def graph_from_group_map(group_map: GroupMap) -> nx.Graph:
    """A graph of the agents in which the agents of a group are all connected; nodes know their ``group``.

    >>> sorted(graph_from_group_map({"wolves": ["a", "b"], "sheep": ["c"]}).edges)
    [('a', 'b')]
    """
    graph = nx.Graph()
    for path, agents in leaves(group_map):
        graph.add_nodes_from(agents, group="/".join(path))
        graph.add_edges_from((a, b) for i, a in enumerate(agents) for b in agents[i + 1 :])
    return graph


def edge_index(group_map: GroupMap | GroupTree, graph: nx.Graph | None = None) -> dict[Path, Tensor]:
    """The edges inside every group as index pairs; int64 ``[2, E]``, rows source and target.

    Indices count the agents of the group in order, as along the ``A`` dimension of its tensors. An undirected edge is
    listed in both directions.

    Args:
        group_map: the groups.
        graph: who is connected to whom; everybody with everybody in the group when left out.

    >>> edge_index({"agents": ["a", "b"]})[("agents",)]
    tensor([[0, 1],
            [1, 0]])
    """
    tree = group_map if isinstance(group_map, GroupTree) else GroupTree(group_map)
    graph = graph_from_group_map(tree.group_map) if graph is None else graph
    if strangers := [a for a in tree.agents if a not in graph]:
        raise GroupError(f"edge index: agents {strangers} are not in the graph; it has {sorted(map(str, graph.nodes))}")
    arrows = graph if graph.is_directed() else graph.to_directed()
    out = {}
    for path, agents in tree.groups.items():
        at = {agent: i for i, agent in enumerate(agents)}
        pairs = sorted({(at[a], at[b]) for a, b in arrows.edges() if a in at and b in at})
        out[path] = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    return out
