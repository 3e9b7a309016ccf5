"""Done flags: nothing ends without a cause, at any level, by any rule, in any order."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from marlenv.groups import DonePlan, Flags, aggregate, aggregate_tree
from random_groups import flags, trees
from tensordict import TensorDict

from marlenv import Binary, Composite, GroupTree
from marlenv.errors import GroupError, KeyMissing, ShapeError


def majority(t):
    return t.float().mean(-1) > 0.5


RULES = ["any", "all", majority]


def flag(*shape):
    return Binary(shape=(*shape, 1), dtype=torch.bool)


@given(data=st.data(), rule=st.sampled_from(RULES), batch=st.sampled_from([(), (3,)]), agents=st.integers(1, 4))
def test_a_level_is_done_by_the_rule_and_never_without_a_cause(data, rule, batch, agents):
    below = data.draw(flags((*batch, agents)))
    up = aggregate(below, rule)
    decide = rule if callable(rule) else (lambda t: t.any(-1)) if rule == "any" else (lambda t: t.all(-1))
    assert torch.equal(up.done, decide(below.done))
    assert torch.equal(up.done, up.terminated | up.truncated)
    assert torch.equal(up.terminated, decide(below.terminated) & up.done)
    assert not (up.truncated & ~below.done.any(-1)).any()
    if rule != "all":  # a truncation below is a truncation above whenever the rule lets it through
        assert torch.equal(up.truncated & ~decide(below.truncated), up.done & ~up.terminated & ~decide(below.truncated))


@given(data=st.data(), rule=st.sampled_from(RULES), agents=st.integers(1, 5))
def test_the_order_of_agents_is_irrelevant(data, rule, agents):
    below = data.draw(flags((2, agents)))
    order = torch.tensor(data.draw(st.permutations(range(agents))))
    shuffled = Flags(*(f[..., order] for f in below))
    for a, b in zip(aggregate(below, rule), aggregate(shuffled, rule), strict=True):
        assert torch.equal(a, b)


@given(data=st.data(), rule=st.sampled_from(["any", "all"]))
def test_the_root_of_a_tree_says_what_the_rule_says_of_all_agents(data, rule):
    tree = data.draw(trees())
    groups = {path: data.draw(flags((2, len(agents)))) for path, agents in tree.groups.items()}
    levels = aggregate_tree(tree, groups, rule)
    together = Flags(*(torch.cat(column, -1) for column in zip(*groups.values(), strict=True)))
    for a, b in zip(levels[()], aggregate(together, rule), strict=True):
        assert torch.equal(a, b)
    for level in levels.values():
        assert torch.equal(level.done, level.terminated | level.truncated)


def test_every_level_may_have_its_own_rule():
    tree = GroupTree({"red": {"x": ["a", "b"], "y": ["c"]}, "blue": ["d"]})
    yes, no = torch.tensor([True]), torch.tensor([False])
    dead, alive = Flags(yes, no), Flags(no, no)
    half = Flags(torch.tensor([True, False]), torch.tensor([False, False]))
    groups = {("red", "x"): half, ("red", "y"): dead, ("blue",): alive}
    rules = {("red", "x"): "any", ("red",): "all", (): "all"}
    levels = aggregate_tree(tree, groups, rules)
    assert (bool(levels["red",].done), bool(levels[()].done)) == (True, False)
    assert not aggregate_tree(tree, groups, {("red", "x"): "all", ("red",): "all"})["red",].done
    assert aggregate_tree(tree, groups, {(): majority})[()].done.item() is False
    with pytest.raises(GroupError, match=r"done rules: no level is called \[\('green',\)\]; levels are \[\('red',\)"):
        aggregate_tree(tree, groups, {("green",): "any"})


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("most", r"expected 'any', 'all' or a function from \[\*B, A\] to \[\*B\], got 'most'"),
        (lambda t: t, r"must give bool \[\] for \[2\], gave torch.bool \[2\]"),
        (lambda t: t.sum(-1), r"must give bool \[\] for \[2\], gave torch.int64 \[\]"),
    ],
)
def test_faults_of_rules(rule, text):
    two = torch.tensor([True, False])
    with pytest.raises(GroupError, match=text):
        aggregate(Flags(two, two), rule)


def test_one_terminated_and_one_truncated_agent():
    """USERS (b) 8: the root is done and says why."""
    below = Flags(torch.tensor([True, False]), torch.tensor([False, True]))
    assert [bool(f) for f in aggregate(below, "any")] == [True, True]
    assert [bool(f) for f in aggregate(below, "all")] == [False, True]


NAMES = ("done", "terminated", "truncated")


@given(data=st.data(), given_names=st.sets(st.sampled_from(NAMES)), known=st.sets(st.sampled_from(NAMES)))
def test_missing_flags_are_completed(data, given_names, known):
    names = [n for n in NAMES if n in given_names | known] or ["done"]
    spec = Composite({n: flag(2) for n in names}, shape=(2,))
    ends = data.draw(flags((2, 1)))
    values = {"terminated": ends.terminated, "truncated": ends.truncated, "done": ends.done}
    td = TensorDict({n: values[n] for n in given_names}, [2])
    DonePlan(spec).complete(td)
    assert set(td.keys()) == set(names)
    done = td.get("done", None)
    if done is not None and {"terminated", "truncated"} <= set(names):
        assert torch.equal(done, td["terminated"] | td["truncated"])
    if given_names == {"done"} and "terminated" in names:  # a lone flag is a termination
        assert torch.equal(td["terminated"], ends.done)
        assert "truncated" not in names or not td["truncated"].any()
    if given_names == {"truncated"} and "terminated" in names:  # a time limit is never a termination
        assert not td["terminated"].any()
    if given_names == {"done", "truncated"} and "terminated" in names:
        assert torch.equal(td["terminated"], ends.done & ~ends.truncated)
    for name in given_names:
        assert torch.equal(td[name], values[name])


def nested_plan(batch=()):
    names = ("done", "terminated")
    spec = Composite({n: flag(*batch) for n in names}, shape=batch)
    spec["g"] = Composite({n: flag(*batch, 3) for n in names}, shape=(*batch, 3))
    spec["h", "k"] = Composite({n: flag(*batch, 2) for n in names}, shape=(*batch, 2))
    return DonePlan(spec), spec


def test_flags_of_every_level_get_the_shape_of_their_spec():
    plan, _ = nested_plan()
    td = TensorDict({"done": True, "g": TensorDict({"terminated": torch.ones(3, dtype=torch.bool)}, [3])}, [])
    plan.complete(td)
    assert td["done"].shape == (1,)
    assert td["g", "done"].shape == (3, 1)
    assert td["terminated"].all()
    assert "h" not in td.keys()  # a group that is not there is not made up


def test_flags_have_the_dimensions_in_front_of_the_batch():
    plan, _ = nested_plan()
    td = plan.complete(TensorDict({"done": torch.zeros(5, 1, dtype=torch.bool)}, [5]))
    assert td["terminated"].shape == (5, 1)


def test_flags_of_data_that_name_no_device_live_where_the_spec_says():
    spec = Composite(
        done=Binary(shape=(1,), dtype=torch.bool), agents=Composite(done=Binary(shape=(2, 1), dtype=torch.bool))
    )
    td = DonePlan(spec.to("meta")).complete(TensorDict({"agents": {"observation": torch.zeros(2, device="meta")}}))
    assert td["done"].is_meta
    assert td["agents", "done"].is_meta


def test_a_level_without_any_flag_gets_false_ones():
    plan, _ = nested_plan((2,))
    td = plan.complete(TensorDict({"g": TensorDict({}, [2, 3])}, [2]))
    assert td["done"].shape == (2, 1)
    assert td["g", "terminated"].shape == (2, 3, 1)
    assert not plan.any_done(td)


def test_plan_reads_levels_from_the_root_down():
    plan, spec = nested_plan()
    assert plan.reset_keys == ["_reset", ("g", "_reset"), ("h", "k", "_reset")]
    assert plan.key_groups[1] == [("g", "done"), ("g", "terminated")]
    assert [lv.path for lv in plan.top] == [()]
    del spec["done"], spec["terminated"]
    assert [lv.path for lv in DonePlan(spec).top] == [("g",), ("h", "k")]


def test_faults_of_flags():
    uneven = Composite(done=flag(2), terminated=Binary(shape=(2, 2), dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"done_spec: the flags at the root differ in shape: \[2, 1\] and \[2, 2\]"):
        DonePlan(uneven)
    plan, _ = nested_plan((2,))
    with pytest.raises(ShapeError, match=r"done flags: 'done' must have shape \[2, 1\], got \[2, 3\]"):
        plan.complete(TensorDict({"done": torch.zeros(2, 3, dtype=torch.bool)}, [2]))
    with pytest.raises(KeyMissing, match=r"done flags: no entry 'done'; the data has \['x'\]"):
        plan.done_of(TensorDict({"x": torch.zeros(2)}, [2]), plan.top[0])
