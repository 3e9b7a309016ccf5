"""Group maps: made by rule, checked when given, and every error names the agent or the group."""

from __future__ import annotations

import pytest
import torchrl_oracle  # tests/envs: torchrl, imported without its warnings
from hypothesis import given
from hypothesis import strategies as st
from marlenv.groups import GroupTree, resolve
from marlenv.groups.maps import prefix_of
from random_groups import trees

from marlenv import Composite, MarlGroupMapType, Unbounded, check_marl_grouping
from marlenv.errors import GroupError

AGENTS = ["wolf_0", "wolf_1", "sheep_0", "shepherd"]


@pytest.mark.reference
@pytest.mark.parametrize("name", ["ALL_IN_ONE_GROUP", "ONE_GROUP_PER_AGENT"])
def test_rules_agree_with_torchrl(name):
    peer = torchrl_oracle.envs.MarlGroupMapType[name]
    assert MarlGroupMapType[name].value == peer.value
    assert MarlGroupMapType[name].get_group_map(AGENTS) == peer.get_group_map(AGENTS)


@pytest.mark.reference
@given(
    group_map=st.dictionaries(
        st.sampled_from(["red", "blue", "green"]), st.lists(st.sampled_from([*"abcd"]), max_size=3), max_size=3
    ),
    agents=st.lists(st.sampled_from([*"abcd"]), max_size=4),
)
def test_check_accepts_what_torchrl_accepts(group_map, agents):
    def verdict(check):
        try:
            check(group_map, agents)
        except ValueError:
            return False
        return True

    assert verdict(check_marl_grouping) == verdict(torchrl_oracle.envs.check_marl_grouping)


@given(tree=trees())
def test_every_tree_passes_the_check_in_any_order_of_agents(tree):
    check_marl_grouping(tree.group_map, sorted(tree.agents))
    assert resolve(tree.group_map, tree.agents) == tree.group_map


def test_rules_by_name_and_by_spec():
    assert resolve(None, AGENTS) == {"wolf": AGENTS[:2], "sheep": ["sheep_0"], "shepherd": ["shepherd"]}
    assert resolve("ONE_GROUP_PER_AGENT", ["a"]) == {"a": ["a"]}
    specs = {"wolf_0": 1, "wolf_1": 1, "sheep_0": 2, "shepherd": 1}
    specs = {agent: Composite(x=Unbounded((n,))) for agent, n in specs.items()}
    by_spec = resolve(MarlGroupMapType.BY_SPEC, AGENTS, specs=specs)
    assert by_spec == {"group_0": ["wolf_0", "wolf_1", "shepherd"], "group_1": ["sheep_0"]}
    del specs["shepherd"]
    assert resolve("by_spec", AGENTS[:3], specs=specs) == {"wolf": AGENTS[:2], "sheep": ["sheep_0"]}


def test_the_map_is_copied():
    mine = {"all": list(AGENTS)}
    resolve(mine, AGENTS)["all"].append("ghost")
    assert mine == {"all": AGENTS}


@pytest.mark.parametrize(("name", "prefix"), [("a_1", "a"), ("a_1_2", "a_1"), ("a", "a"), ("_1", "_1"), ("a_b", "a_b")])
def test_prefix_is_the_name_without_its_number(name, prefix):
    assert prefix_of(name) == prefix


@pytest.mark.parametrize(
    ("group_map", "agents", "text"),
    [
        ({"g": ["a"]}, [1], r"agent_names must name agents by strings, got \[1\]"),
        ({"g": ["a"]}, ["a", 1, "a", 1], r"agent_names must name agents by strings, got \[1, 1\]"),
        ({"g": ["a"]}, [["a"]], r"agent_names must name agents by strings, got \[\['a'\]\]"),
        ({"g": ["a"]}, None, r"agent_names must be a list of strings, such as \['agent_0', 'agent_1'\], got None"),
        ({"g": ["a"]}, "a", r"agent_names must be a list of strings, such as .*, got 'a'"),
        ({"g": ["a"]}, [], r"there are no agents to group, got an empty list"),
        ({"g": ["a"]}, ["a", "a"], r"agent names must be unique, got \['a'\] more than once"),
        (["a"], ["a"], r"expected a mapping of the names of groups to lists of agent names, .* got \['a'\]"),
        ({}, ["a"], r"it has no groups; agents are \['a'\]"),
        ({"g": []}, ["a"], r"group 'g' has no agents"),
        ({"g": {"h": []}}, ["a"], r"group 'g/h' has no agents"),
        ({"g": {}}, ["a"], r"group 'g' has no groups below it"),
        ({"g": ["a"], "h": ["a"]}, ["a"], r"more than one place: \{'a': \['g', 'h'\]\}; an agent belongs to exactly"),
        ({"g": ["a", "a"]}, ["a"], r"more than one place: \{'a': \['g', 'g'\]\}"),
        ({"g": ["wolf_2"]}, ["wolf_1"], r"unknown agents \['wolf_2'\]; did you mean 'wolf_1'\?"),
        ({"g": ["a"]}, ["a", "b"], r"agents in no group: \['b'\]; groups are \{'g': \['a'\]\}"),
        ({"g": "ab"}, ["a", "b"], r"group 'g' must be a list of agent names, got 'ab'"),
        (
            {"g": {"b", "a"}},
            ["a", "b"],
            r"group 'g' must be a list of agent names, got a set of \['a', 'b'\]; a set has",
        ),
        ({"g": {"h": frozenset("a")}}, ["a"], r"group 'g/h' must be a list of agent names, got a set of \['a'\]"),
        ({"g": [1]}, ["a"], r"group 'g' must name agents by strings, got \[1\]"),
        ({"": ["a"]}, ["a"], r"name must be a non-empty string, got ''"),
        ({3: ["a"]}, ["a"], r"name must be a non-empty string, got 3"),
        ({"next": ["a"]}, ["a"], r"'next' cannot name a group \(next\)"),
        ({"g": {"done": ["a"]}}, ["a"], r"'done' cannot name a group \(g/done\)"),
    ],
)
def test_every_fault_is_named(group_map, agents, text):
    with pytest.raises(GroupError, match=text):
        check_marl_grouping(group_map, agents)


@pytest.mark.parametrize("rule", MarlGroupMapType)
@pytest.mark.parametrize(
    ("agents", "text"),
    [
        (["a", "b", "a"], r"agent names must be unique, got \['a'\] more than once"),
        ([1, 2], r"agent_names must name agents by strings, got \[1, 2\]"),
        ("ab", r"agent_names must be a list of strings, .* got 'ab'"),
        (None, r"agent_names must be a list of strings, .* got None"),
        ({"b", "a"}, r"agent_names must be a list of strings, .* got a set of \['a', 'b'\]; a set has no order"),
    ],
)
def test_rules_want_a_list_of_names(rule, agents, text):
    with pytest.raises(GroupError, match=text):
        rule.get_group_map(agents, dict.fromkeys("ab", Unbounded((1,))))


@pytest.mark.parametrize("use", [GroupTree, lambda group_map: resolve(group_map, ["a", "b"])])
def test_a_set_of_agents_has_no_order(use):
    with pytest.raises(GroupError, match=r"group 'g' must be a list of agent names, got a set of \['a', 'b'\]"):
        use({"g": {"b", "a"}})
    assert use({"g": dict.fromkeys(("b", "a")).keys()})  # keys of a dict have one


def test_faults_of_resolve():
    with pytest.raises(GroupError, match=r"no rule is called 'by_name'; did you mean 'by_name_prefix'\?"):
        resolve("by_name", ["a"])
    with pytest.raises(GroupError, match=r"expected a mapping, a MarlGroupMapType or its name, got list"):
        resolve([["a"]], ["a"])
    with pytest.raises(GroupError, match=r"BY_SPEC: needs the agents' specs, got none"):
        resolve(MarlGroupMapType.BY_SPEC, ["a"])
    with pytest.raises(GroupError, match=r"BY_SPEC: no spec for agents \['b'\]; specs are given for \['a'\]"):
        resolve(MarlGroupMapType.BY_SPEC, ["a", "b"], specs={"a": Unbounded((1,))})


def test_names_may_come_from_an_iterator():
    names = ["a", "b", "c"]
    want = {"early": ["a", "b"], "late": {"last": ["c"]}}

    def fresh():
        return {"early": filter(lambda name: name < "c", names), "late": {"last": (name for name in "c")}}

    assert resolve(fresh(), names) == want
    assert GroupTree(fresh()).group_map == want
    check_marl_grouping(fresh(), names)
