"""Trees of groups, and their graphs."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from marlenv.groups import edge_index, graph_from_group_map, group_map_from_graph
from random_groups import trees

from marlenv import GroupTree
from marlenv.errors import GroupError

RED_BLUE = {"red": {"attack": ["a", "b"], "defence": ["c"]}, "blue": ["d"]}


@given(tree=trees())
def test_every_agent_has_one_place(tree):
    for agent in tree.agents:
        path, i = tree.place[agent]
        assert tree.groups[path][i] == agent
        assert tree.key(agent, "reward") == ((*path, "reward"), i)
    assert sorted(tree.agents) == sorted(a for agents in tree.groups.values() for a in agents)


@given(tree=trees())
def test_levels_come_deepest_first_and_reach_every_group(tree):
    depths = [len(b) for b in tree.branches]
    assert depths == sorted(depths, reverse=True)
    assert tree.branches[-1] == ()
    below = [child for branch in tree.branches for child in tree.children(branch)]
    assert sorted(below) == sorted([*tree.groups, *tree.branches[:-1]])


@given(tree=trees())
def test_networkx_and_back_is_identity(tree):
    graph = tree.to_networkx()
    assert nx.is_arborescence(graph)
    back = GroupTree.from_networkx(graph)
    assert back == tree
    assert back.agents == tree.agents


@given(tree=trees())
def test_components_of_the_group_graph_are_the_groups(tree):
    graph = graph_from_group_map(tree.group_map)
    again = group_map_from_graph(graph)
    assert {name: sorted(agents) for name, agents in again.items()} == {
        "/".join(path): sorted(agents) for path, agents in tree.groups.items()
    }


@given(tree=trees())
def test_edge_index_without_a_graph_connects_everybody_in_the_group(tree):
    for path, edges in edge_index(tree).items():
        n = len(tree.groups[path])
        assert edges.dtype == torch.int64
        assert sorted(map(tuple, edges.T.tolist())) == [(i, j) for i in range(n) for j in range(n) if i != j]


@given(data=st.data())
def test_edge_index_counts_agents_in_the_order_of_the_group(data):
    tree = data.draw(trees())
    arrows = data.draw(st.lists(st.tuples(st.sampled_from(tree.agents), st.sampled_from(tree.agents)), max_size=8))
    graph = nx.DiGraph()
    graph.add_nodes_from(tree.agents)
    graph.add_edges_from(arrows)
    for path, edges in edge_index(tree, graph).items():
        agents = tree.groups[path]
        named = {(agents[i], agents[j]) for i, j in edges.T.tolist()}
        assert named == {(a, b) for a, b in arrows if a in agents and b in agents}


def test_edges_of_undirected_and_multi_graphs():
    graph = nx.Graph([("a", "b"), ("b", "c")])
    assert edge_index({"g": ["c", "b", "a"]}, graph)[("g",)].tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    many = nx.MultiDiGraph([("a", "b"), ("a", "b")])
    assert edge_index({"g": ["a", "b"]}, many)[("g",)].tolist() == [[0], [1]]
    assert edge_index({"g": ["a"]})[("g",)].shape == (2, 0)
    with pytest.raises(GroupError, match=r"agents \['z'\] are not in the graph; it has \['a', 'b', 'c'\]"):
        edge_index({"g": ["z"]}, graph)


def test_communities_may_be_given_or_found():
    graph = nx.Graph([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")])
    assert group_map_from_graph(graph) == {"group_0": ["a", "b", "c", "d", "e"]}
    assert group_map_from_graph(graph, [{"d", "e"}, {"a", "b", "c"}]) == {
        "group_0": ["a", "b", "c"],
        "group_1": ["d", "e"],
    }
    cliques = nx.Graph([("a", "b"), ("b", "c"), ("a", "c"), ("x", "y"), ("y", "z"), ("x", "z"), ("c", "x")])
    by_greedy = group_map_from_graph(cliques, nx.community.greedy_modularity_communities)
    assert sorted(map(sorted, by_greedy.values())) == [["a", "b", "c"], ["x", "y", "z"]]
    named = nx.Graph([("a", "b")])
    nx.set_node_attributes(named, "wolves", "group")
    assert group_map_from_graph(named.to_directed()) == {"wolves": ["a", "b"]}


@pytest.mark.parametrize(
    ("communities", "text"),
    [
        ([{"a"}], r"agents in no group: \['b'\]"),
        ([{"a", "b"}, {"b"}], r"agents in more than one place: \{'b'"),
        ([{"a", "b", "z"}], r"unknown agents \['z'\]"),
        ([{"a", "b"}, set()], r"group 'group_0' has no agents"),
        ("louvain", r"communities must be 'components', the communities themselves or a function .* got 'louvain'"),
    ],
)
def test_communities_must_be_a_partition(communities, text):
    with pytest.raises(GroupError, match=text):
        group_map_from_graph(nx.Graph([("a", "b")]), communities)


def test_faults_of_graphs():
    split = nx.Graph()
    split.add_nodes_from(["a", "b"], group="same")
    with pytest.raises(GroupError, match=r"different communities share the name \['same', 'same'\]"):
        group_map_from_graph(split)
    with pytest.raises(GroupError, match=r"name agents by strings, got \[0\]"):
        group_map_from_graph(nx.path_graph(1))
    with pytest.raises(GroupError, match=r"there are no agents"):
        group_map_from_graph(nx.Graph())
    with pytest.raises(GroupError, match=r"must be a tree whose edges point away from the root"):
        GroupTree.from_networkx(nx.DiGraph([("a", "b"), ("b", "a")]))
    with pytest.raises(GroupError, match=r"\['lone'\] stand beside groups; an agent needs a group of its own"):
        GroupTree.from_networkx(nx.DiGraph([((), "lone"), ((), ("g",)), (("g",), "a")]))


def test_faults_of_trees():
    tree = GroupTree(RED_BLUE)
    with pytest.raises(GroupError, match=r"no agent is called 'e'; known: \['a', 'b', 'c', 'd'\]"):
        tree.key("e", "reward")
    with pytest.raises(GroupError, match=r"agents in more than one place: \{'a': \['g', 'h'\]\}"):
        GroupTree({"g": ["a"], "h": ["a"]})


def test_tree_reads_like_its_map():
    tree = GroupTree(RED_BLUE)
    assert tree.keys == [("red", "attack"), ("red", "defence"), "blue"]
    assert list(tree) == [("red", "attack"), ("red", "defence"), ("blue",)]
    assert repr(tree) == f"GroupTree({RED_BLUE})"
    assert tree != GroupTree({"blue": ["d"]})
    assert GroupTree.from_networkx(nx.DiGraph([("root", "a"), ("root", "b")]), "root") == GroupTree(
        {"agents": ["a", "b"]}
    )
