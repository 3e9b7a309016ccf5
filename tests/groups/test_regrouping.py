"""Regrouping: the same agents in other groups, and back."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from marlenv.groups import RegroupPlan, group_specs, regroup, regroup_spec
from marlenv.groups.regroup_plan import layout
from random_groups import agent_specs, trees
from tensordict import LazyStackedTensorDict, NonTensorStack, TensorDict

from marlenv import Composite, GroupTree, MarlGroupMapType, RegroupTransform, TransformedEnv, Unbounded
from marlenv.errors import GroupError
from marlenv.testing import GroupedEnv


@st.composite
def other_grouping(draw, tree):
    """Another tree of the same agents."""
    agents = draw(st.permutations(tree.agents))
    cut = draw(st.integers(0, len(agents)))
    parts = {f"p{i}": list(part) for i, part in enumerate((agents[:cut], agents[cut:])) if part}
    return GroupTree({"top": parts} if draw(st.booleans()) else parts)


def filled(tree, specs, batch):
    """Data in which every entry of every agent says whose it is."""
    td = group_specs(tree, specs, batch_size=batch).rand(rng=torch.Generator().manual_seed(0))
    td.batch_size = batch
    td["shared"] = torch.arange(max(1, torch.Size(batch).numel())).reshape(batch)
    return td


@settings(max_examples=40)
@given(data=st.data(), batch=st.sampled_from([(), (2,), (2, 3)]))
def test_there_and_back_is_identity(data, batch):
    tree = data.draw(trees())
    shared = data.draw(agent_specs(GroupTree({"all": tree.agents}), equal=True, text=False))
    spec = group_specs(tree, shared, batch_size=batch)
    td = filled(tree, shared, batch)
    new = data.draw(other_grouping(tree))
    moved = regroup(td, tree, new)
    for agent in tree.agents:
        for key in shared[agent].keys(True, True):
            key = key if isinstance(key, tuple) else (key,)
            (old_group, i), (new_group, j) = tree.place[agent], new.place[agent]
            was, now = td[(*old_group, *key)], moved[(*new_group, *key)]
            assert torch.equal(was.select(len(batch), i), now.select(len(batch), j))
    assert torch.equal(moved["shared"], td["shared"])
    new_spec = regroup_spec(spec, tree, new)
    new_spec.assert_is_in(moved)
    back = regroup(moved, new, tree)
    assert set(back.keys(True, True)) == set(td.keys(True, True))
    assert all(torch.equal(back[k], td[k]) for k in td.keys(True, True))
    assert regroup_spec(new_spec, new, tree) == spec


@settings(max_examples=25)
@given(data=st.data())
def test_unequal_agents_become_lazy_stacks(data):
    tree = data.draw(trees(max_agents=4))
    specs = data.draw(agent_specs(tree, text=False))
    td = filled(tree, specs, (2,))
    moved = regroup(td, tree, GroupTree({"all": tree.agents}))
    for j, agent in enumerate(tree.agents):
        group, i = tree.place[agent]
        was, now = td[group[0] if len(group) == 1 else group][:, i], moved["all"][:, j]
        for key in specs[agent].keys(True, True):
            assert torch.equal(was[key], now[key])
    regroup_spec(group_specs(tree, specs, batch_size=(2,)), tree, {"all": tree.agents})["all"].assert_is_in(
        moved["all"]
    )


def two_groups():
    tree = GroupTree({"red": ["a", "b", "c"], "blue": ["d"]})
    x = torch.arange(8.0).reshape(2, 4, 1)
    td = TensorDict({"red": TensorDict({"x": x[:, :3]}, [2, 3]), "blue": TensorDict({"x": x[:, 3:]}, [2, 1])}, [2])
    return tree, td


def test_runs_of_agents_are_views():
    tree, td = two_groups()
    moved = regroup(td, tree, {"x": ["b", "c"], "y": ["a"], "blue": ["d"]})
    td["red", "x"].fill_(9.0)
    assert (moved["x", "x"] == 9).all()
    assert (moved["y", "x"] == 9).all()
    assert moved["blue"] is td["blue"]


def test_scattered_agents_are_copies():
    tree, td = two_groups()
    moved = regroup(td, tree, {"x": ["c", "a"], "y": ["b", "d"]})
    assert moved["x", "x"][0].flatten().tolist() == [2.0, 0.0]
    assert moved["y", "x"][1].flatten().tolist() == [5.0, 7.0]
    td["red", "x"].fill_(9.0)
    assert moved["x", "x"][0].flatten().tolist() == [2.0, 0.0]


def test_entries_between_groups_stay():
    tree = GroupTree({"red": {"p": ["a"], "q": ["b"]}})
    one = TensorDict({"x": torch.zeros(1)}, [1])
    td = TensorDict({"red": TensorDict({"p": one, "q": one.clone(), "done": torch.ones(1)}, []), "score": 3}, [])
    moved = regroup(td, tree, {"all": ["a", "b"]})
    assert set(moved.keys(True, True)) == {("all", "x"), ("red", "done"), "score"}
    spec = Composite(red=Composite(p=Composite(x=Unbounded((1,)), shape=(1,)), done=Unbounded((1,))))
    spec["red", "q"] = spec["red", "p"].clone()
    assert set(regroup_spec(spec, tree, {"all": ["a", "b"]}).keys(True, True)) == {("all", "x"), ("red", "done")}
    with pytest.raises(GroupError, match=r"groups \['red'\] would overwrite entries of the data that are no groups"):
        regroup(td, tree, {"red": ["a", "b"]})


def test_lazy_groups_can_be_regrouped():
    tree = GroupTree({"g": ["a", "b"], "h": ["c"]})
    parts = [TensorDict({"x": torch.full((n,), float(n))}, []) for n in (1, 2)]
    td = TensorDict(
        {"g": LazyStackedTensorDict(*parts, stack_dim=0), "h": TensorDict({"x": torch.zeros(1, 5)}, [1])}, []
    )
    moved = regroup(td, tree, {"all": ["c", "b", "a"]})
    assert [part["x"].shape[0] for part in moved["all"].unbind(0)] == [5, 2, 1]


def test_the_agents_must_be_the_same():
    tree, td = two_groups()
    with pytest.raises(GroupError, match=r"agents in no group: \['d'\]") as caught:
        regroup(td, tree, {"red": ["a", "b", "c"]})
    assert "the new groups must hold the same agents" in caught.value.__notes__[0]


SEEN = {
    "nested": (torch.ones(3), {"b": torch.ones(2)}, r"'a_group': 'a tensor \[3\]', 'b_group': \"entries \['b'\]\""),
    "rank": (torch.ones(3), torch.ones(2, 2), r"'a_group': 'a tensor \[3\]', 'b_group': 'a tensor \[2, 2\]'"),
}


@pytest.mark.parametrize(("a", "b", "text"), SEEN.values(), ids=SEEN.keys())
def test_what_is_nested_or_of_another_rank_for_some_agents_only_is_refused(a, b, text):
    old, new = GroupTree({"a_group": ["a"], "b_group": ["b"]}), GroupTree({"top": {"g": ["a", "b"]}})

    def entries(x):
        return {n: entries(y) for n, y in x.items()} if isinstance(x, dict) else x.expand(4, 1, *x.shape)

    def specs(x):
        return Composite({n: specs(y) for n, y in x.items()}) if isinstance(x, dict) else Unbounded(x.shape)

    data = {"a": {"see": {"x": a}}, "b": {"see": {"x": b}}}
    with pytest.raises(GroupError, match=rf"group 'top/g': entry \('see', 'x'\) cannot be padded: .* got \{{{text}\}}"):
        RegroupPlan(old, new, {(f"{agent}_group",): layout(entries(one)) for agent, one in data.items()})
    spec = group_specs(old, {agent: specs(one) for agent, one in data.items()}, batch_size=(4,))
    before = repr(spec)
    with pytest.raises(GroupError, match=r"entry \('see', 'x'\) cannot be one entry of agents 'a' and 'b'") as caught:
        regroup_spec(spec, old, new)
    assert caught.value.__notes__ == ["while regrouping; it is for group 'top/g'"]
    assert repr(spec) == before


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (torch.zeros(1, 3, 2), r"got\nUnbounded\(\[3\], float32\)\nUnbounded\(\[3, 2\], float32\)\ngroup them apart"),
        (torch.zeros(1, 3, dtype=torch.int64), r"got\nUnbounded\(\[3\], float32\)\nUnbounded\(\[3\], int64\)"),
        (TensorDict({"p": torch.zeros(1, 3)}, [1]), "must be of one kind, dtype and rank"),
        (NonTensorStack("up"), "must be of one kind, dtype and rank"),
    ],
    ids=["rank", "dtype", "nested", "text"],
)
def test_data_that_cannot_be_one_entry_are_refused_as_their_specs_are(other, text):
    old, new = {"x": ["a"], "y": ["b"]}, {"z": ["a", "b"]}
    td = TensorDict({"x": TensorDict({"see": torch.zeros(1, 3)}, [1]), "y": TensorDict({"see": other}, [1])}, [])
    with pytest.raises(GroupError, match=rf"entry 'see' cannot be one entry of agents 'a' and 'b': .*{text}") as caught:
        regroup(td, old, new)
    assert caught.value.__notes__ == ["while regrouping; it is for group 'z'"]
    assert regroup(td, old, {"v": ["b"], "w": ["a"]})["v"] is td["y"]


def test_groups_without_data_stay_without():
    old, td = {"x": ["a", "b"], "y": ["c"]}, TensorDict({"x": TensorDict({"reward": torch.ones(2)}, [2])}, [])
    assert set(regroup(td, old, {"v": ["b"], "u": ["a"], "w": ["c"]}).keys()) == {"v", "u"}
    with pytest.raises(
        GroupError, match=r"group 'w': agents \['c'\] have none of the entries \['reward'\] that \['a'\]"
    ):
        regroup(td, old, {"v": ["b"], "w": ["a", "c"]})


@pytest.mark.parametrize("new", [{"all": ["c", "a", "b"]}, {"p": {"q": ["b"]}, "r": ["c", "a"]}])
def test_a_rollout_is_that_of_the_env_in_other_groups(new):
    """The transform, which regroups one moment after the other, says what is right."""
    old = {"x": ["a", "b"], "y": ["c"]}

    def played(env):
        env.set_seed(0)

        def act(td):
            for key in env.action_keys:
                td[key] = td[(*key[:-1], "observation")][..., 1:] + 0.5

        return env.rollout(3, act)

    make = partial(GroupedEnv, old, terminate={"b": 2}, rule="all", batch_size=[2])
    moved = regroup(played(make()), old, new)
    want = played(TransformedEnv(make(), RegroupTransform(new)))
    assert set(moved.keys(True, True)) == set(want.keys(True, True))
    assert all(torch.equal(moved[key], want[key]) for key in want.keys(True, True))


def test_groups_come_as_maps_rules_and_trees():
    old, td = {"red": ["a", "b"], "blue": ["c"]}, TensorDict({}, [])
    td["red"] = TensorDict({"x": torch.tensor([1.0, 2.0])}, [2])
    td["blue"] = TensorDict({"x": torch.tensor([3.0])}, [1])
    spec = Composite(red=Composite(x=Unbounded((2,)), shape=(2,)), blue=Composite(x=Unbounded((1,)), shape=(1,)))
    for have in (old, GroupTree(old)):
        for want in ("all_in_one_group", MarlGroupMapType.ALL_IN_ONE_GROUP, {"agents": ["a", "b", "c"]}):
            assert regroup(td, have, want)["agents", "x"].tolist() == [1, 2, 3]
            assert regroup_spec(spec, have, want)["agents", "x"].shape == (3,)
        assert regroup(td, have, GroupTree({"g": ["c", "a", "b"]}))["g", "x"].tolist() == [3, 1, 2]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("agents", {"x": ["a"]}, "expected a mapping of the names of groups to lists .* got 'agents'"),
        ({"agents": ["a"]}, "by_prefix", "no rule is called 'by_prefix'; did you mean 'by_name_prefix'"),
        ({"agents": ["a"]}, None, "it has no groups"),
        ({"agents": ["a"]}, 3, "expected a mapping, a MarlGroupMapType or its name, got int"),
    ],
)
def test_what_names_no_groups_is_refused(old, new, text):
    td = TensorDict({"agents": TensorDict({"x": torch.zeros(1)}, [1])}, [])
    with pytest.raises(GroupError, match=text):
        regroup(td, old, new)
