"""Packing: what goes in comes out, agent by agent, whatever the groups are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from marlenv.groups import Packer, group_specs, resolve, stack_agents
from random_groups import agent_specs, draw_data, same, trees
from tensordict import LazyStackedTensorDict

from marlenv import (
    Bounded,
    Categorical,
    Composite,
    GroupTree,
    MultiOneHot,
    NonTensor,
    OneHot,
    StackedComposite,
    Unbounded,
)
from marlenv.errors import DtypeError, GroupError, KeyMissing, ShapeError

SEE = Composite(observation=Unbounded((2,)), count=Unbounded((), dtype=torch.int64))
PAIR = GroupTree({"agents": ["a", "b"]})


def packer(spec=SEE, other=None, **options):
    return Packer(PAIR, {"a": spec, "b": spec if other is None else other}, **options)


def expected(value, spec):
    """What unpack gives for a value that was packed: numbers for one-hot vectors."""
    if isinstance(value, dict):
        return {k: expected(v, spec[k]) for k, v in value.items()}
    return np.asarray(value).argmax(-1) if isinstance(spec, OneHot) else value


def blank(spec):
    """What unpack gives for an agent that was absent."""
    if isinstance(spec, Composite):
        return {k: blank(v) for k, v in spec.items()}
    if isinstance(spec, NonTensor):
        return spec.example_data
    return spec.to_numpy(spec.project(spec.zero()))


@settings(max_examples=40)
@given(data=st.data())
def test_pack_then_unpack_is_identity(data):
    tree = data.draw(trees())
    unequal = data.draw(st.sampled_from(["stack", "pad"]))
    equal = unequal == "pad"  # entries of one name but different kinds cannot be padded
    specs = data.draw(agent_specs(tree, equal=equal))
    packs = Packer(tree, specs, unequal=unequal)
    present = data.draw(st.lists(st.sampled_from(tree.agents), unique=True))
    given_data = draw_data(specs, present, seed=data.draw(st.integers(0, 99)))
    packed = packs.pack(given_data)
    back = packs.unpack(packed)
    for agent in tree.agents:
        want = expected(given_data[agent], specs[agent]) if agent in present else blank(specs[agent])
        assert same(back[agent], want), agent
    assert packs.unpack(packed, only=present).keys() == set(present)


@settings(max_examples=30)
@given(data=st.data())
def test_specs_accept_what_pack_makes(data):
    tree = data.draw(trees())
    specs = data.draw(agent_specs(tree))
    packs = Packer(tree, specs)
    present = data.draw(st.lists(st.sampled_from(tree.agents), unique=True))
    packed = packs.pack(draw_data(specs, present, seed=3))
    assert packs.spec == group_specs(tree, specs)
    for group in tree.keys:
        packs.spec[group].assert_is_in(packed[group])


@settings(max_examples=20)
@given(data=st.data())
def test_unpack_then_pack_is_identity(data):
    tree = data.draw(trees())
    specs = data.draw(agent_specs(tree, equal=True, text=False))
    packs = Packer(tree, specs)
    drawn = packs.spec.rand(rng=torch.Generator().manual_seed(0))
    again = packs.pack(packs.unpack(drawn))
    for key in drawn.keys(True, True):
        assert torch.equal(again[key], drawn[key]), key


@settings(max_examples=30)
@given(sizes=st.lists(st.integers(1, 4), min_size=2, max_size=4), lacking=st.sets(st.integers(0, 3)))
def test_padded_agents_are_told_by_pad_mask(sizes, lacking):
    names = [f"a{i}" for i in range(len(sizes))]
    specs = {
        name: Composite(x=Unbounded((n,)), **({} if i in lacking else {"y": Bounded(2, 3, (1,))}))
        for i, (name, n) in enumerate(zip(names, sizes, strict=True))
    }
    packs = Packer(GroupTree({"agents": names}), specs, unequal="pad")
    given_data = draw_data(specs, names, seed=1)
    packed = packs.pack(given_data)
    packs.spec.assert_is_in(packed)
    assert packed["agents", "x"].shape == (len(sizes), max(sizes))
    masks = packed["agents"].get("pad_mask", None)
    some_lack_y = 0 < len(set(range(len(sizes))) & lacking) < len(sizes)
    assert (masks is None) == (len(set(sizes)) == 1 and not some_lack_y)
    for i, (name, n) in enumerate(zip(names, sizes, strict=True)):
        assert np.array_equal(packed["agents", "x"][i, :n], given_data[name]["x"])
        assert not packed["agents", "x"][i, n:].any()
        if masks is not None and "x" in masks:
            assert masks["x"][i].tolist() == [True] * n + [False] * (max(sizes) - n)
        if masks is not None and "y" in masks:
            assert masks["y"][i].item() == (i not in lacking)


def test_lazily_stacked_agents_keep_their_shapes():
    packs = packer(Composite(x=Unbounded((1,))), Composite(x=Unbounded((3,)), y=Unbounded((2,))))
    packed = packs.pack({"a": {"x": [1.0]}, "b": {"x": [1.0, 2.0, 3.0]}})
    assert isinstance(packs.spec["agents"], StackedComposite)
    assert isinstance(packed["agents"], LazyStackedTensorDict)
    assert packed["agents"][1]["x"].tolist() == [1.0, 2.0, 3.0]
    assert packed["agents"][1]["y"].tolist() == [0.0, 0.0]
    assert "y" not in packed["agents"][0]


def test_absent_agents_get_zeros_or_what_is_nearest_to_zero():
    packs = packer(Composite(x=Unbounded((2,)), far=Bounded(3, 4, (1,)), hot=OneHot(3)))
    row = packs.pack({})["agents"][0]
    assert row["x"].tolist() == [0.0, 0.0]
    assert row["far"].tolist() == [3.0]
    assert row["hot"].tolist() == [True, False, False]


def test_one_hot_entries_may_be_given_as_numbers():
    packs = packer(Composite(hot=OneHot(3)))
    packed = packs.pack({"a": {"hot": 2}, "b": {"hot": np.array([False, True, False])}})
    assert packed["agents", "hot"].int().tolist() == [[0, 0, 1], [0, 1, 0]]
    assert packs.unpack(packed) == {"a": {"hot": 2}, "b": {"hot": 1}}
    vectors = packs.unpack(packed, as_vectors=True)
    assert [vectors[a]["hot"].tolist() for a in "ab"] == [[False, False, True], [False, True, False]]


def test_padded_one_hot_actions_come_back_as_numbers():
    packs = packer(Composite(act=OneHot(2)), Composite(act=OneHot(4)), unequal="pad")
    drawn = packs.spec.rand()
    assert int(packs.unpack(drawn)["a"]["act"]) < 2
    assert packs.spec.is_in(packs.pack({"a": {"act": 1}, "b": {"act": 3}}))


def test_specs_that_differ_in_bounds_only_are_dense_and_need_no_pad_mask():
    packs = packer(Composite(x=Bounded(0, 1, (2,))), Composite(x=Bounded(0, 5, (2,))), unequal="pad")
    assert list(packs.spec["agents"]) == ["x"]
    assert packs.spec["agents", "x"].high.tolist() == [[1.0, 1.0], [5.0, 5.0]]


def test_padded_categorical_actions_are_legal_for_their_agent():
    packs = packer(Composite(act=Categorical(2)), Composite(act=Categorical(5)), unequal="pad")
    drawn = packs.spec.rand([200])["agents", "act"]
    assert drawn[:, 0].max() == 1
    assert drawn[:, 1].max() == 4


def test_dynamic_entries_are_as_large_as_the_largest_value():
    packs = packer(Composite(x=Unbounded((-1, 2))))
    packed = packs.pack({"a": {"x": np.ones((3, 2))}, "b": {"x": np.ones((3, 2))}})
    assert packed["agents", "x"].shape == (2, 3, 2)


def test_values_are_copied():
    value = np.ones(2, dtype=np.float32)
    packed = packer().pack({"a": {"observation": value}})
    value[:] = 9
    assert packed["agents", "observation"][0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("value", [5.0, [5.0], np.ones(3), np.ones((1, 2)), torch.ones(1), [[1.0, 2.0]]])
def test_values_are_never_broadcast(value):
    with pytest.raises(ShapeError, match=r"entry 'observation' of agent 'b' must have shape \[2\], got \["):
        packer().pack({"b": {"observation": value}})


@pytest.mark.parametrize("value", [1.5, np.float32(1.5), np.array(1.5), torch.tensor(1.5)])
def test_fractions_are_refused_where_integers_are_wanted(value):
    with pytest.raises(DtypeError, match=r"entry 'count' of agent 'b': expected whole numbers for torch.int64, got"):
        packer().pack({"a": {"count": 1.0}, "b": {"count": value}})


def test_a_number_may_come_with_or_without_a_dimension():
    packs = packer(Composite(x=Unbounded((1,)), n=Unbounded((), dtype=torch.int64)))
    packed = packs.pack({"a": {"x": 2.0, "n": [3]}})["agents"][0]
    assert (packed["x"].tolist(), packed["n"].item()) == ([2.0], 3)


def test_errors_of_packing_name_agent_and_entry():
    nested = packer(Composite(info=Composite(x=Unbounded((1,)))))
    with pytest.raises(GroupError, match=r"pack: unknown agents \['c'\]; known: \['a', 'b'\]"):
        nested.pack({"c": {}})
    with pytest.raises(GroupError, match=r"the data of agent 'a' must be a mapping with 'info', got int"):
        nested.pack({"a": 3})
    with pytest.raises(GroupError, match=r"entry 'info' of agent 'b' must be a mapping with 'x', got float"):
        nested.pack({"b": {"info": 3.0}})


def test_errors_of_unpacking_name_the_entry():
    packs = packer()
    td = packs.pack({})
    with pytest.raises(KeyMissing, match=r"unpack: no group 'agents' in the data; it has \['other'\]"):
        packs.unpack(td.rename_key_("agents", "other"))
    broken = packs.pack({})
    del broken["agents", "count"]
    with pytest.raises(KeyMissing, match=r"entry \('agents', 'count'\) is missing; the group has \['observation'\]"):
        packs.unpack(broken)


def test_group_specs_says_whose_specs_differ():
    specs = {"a": Composite(x=Unbounded((1,))), "b": Composite(x=Unbounded((2,)))}
    with pytest.raises(GroupError, match=r"agents 'a' and 'b' have different specs") as caught:
        group_specs(PAIR, specs, unequal="raise")
    assert "while stacking group 'agents'" in caught.value.__notes__
    with pytest.raises(GroupError, match=r"group 'agents': no specs for agents \['b'\]; specs are given for \['a'\]"):
        group_specs(PAIR, {"a": specs["a"]})
    mixed = {"a": Composite(x=Unbounded((1,))), "b": Composite(x=Categorical(3))}
    with pytest.raises(GroupError, match=r"entry 'x' cannot be padded: .*one kind, dtype and rank"):
        group_specs(PAIR, mixed, unequal="pad")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (Categorical(3), Bounded(-1, 1, ())),
        (Unbounded((2,)), Unbounded((2, 2))),
        (Composite(y=Unbounded((2,))), Unbounded((2,))),
    ],
    ids=["dtype", "rank", "nested"],
)
def test_group_specs_refuse_to_stack_what_is_no_entry_of_a_group(a, b):
    specs = {"a": Composite(deep=Composite(act=a)), "b": Composite(deep=Composite(act=b), own=Unbounded((1,)))}
    for make in (group_specs, Packer):
        with pytest.raises(GroupError, match=r"entry \('deep', 'act'\) cannot .* of agents 'a' and 'b': .*") as caught:
            make(PAIR, specs)
        assert str(caught.value).endswith("group them apart (group_map='by_spec')")
        assert "while stacking group 'agents'" in caught.value.__notes__
    apart = GroupTree(resolve("by_spec", ["a", "b"], specs=specs))
    assert sorted(Packer(apart, specs).spec) == ["a", "b"]


@settings(max_examples=20)
@given(data=st.data(), batch=st.lists(st.integers(1, 3), max_size=2))
def test_group_specs_put_the_batch_in_front(data, batch):
    tree = data.draw(trees())
    specs = data.draw(agent_specs(tree, equal=True, text=False))
    plain, batched = group_specs(tree, specs), group_specs(tree, specs, batch_size=batch)
    assert batched.shape == torch.Size(batch)
    for key in plain.keys(True, True):
        assert batched[key].shape == (*batch, *plain[key].shape)
    assert batched[(0,) * len(batch)] == plain if batch else batched == plain


def test_stack_agents_stacks_behind_the_batch():
    data = {"a": {"x": torch.zeros(4, 1)}, "b": {"x": torch.ones(4, 1)}}
    out = stack_agents(GroupTree({"g": {"one": ["b", "a"]}}), data, torch.Size([4]))
    assert out["g", "one", "x"][0].flatten().tolist() == [1.0, 0.0]
    uneven = {"a": {"x": torch.zeros(4, 1)}, "b": {"x": torch.ones(4, 2)}}
    assert isinstance(stack_agents(PAIR, uneven, torch.Size([4]))["agents"], LazyStackedTensorDict)


def test_another_word_for_unequal_agents_is_refused():
    for make in (packer, lambda unequal: group_specs(PAIR, {"a": SEE, "b": SEE}, unequal=unequal)):
        with pytest.raises(GroupError, match=r"unequal must be one of \['stack', 'pad', 'raise'\], got 'banana'"):
            make(unequal="banana")


def test_padded_numbers_keep_their_domain():
    sizes = {"a": 2, "b": 3}
    bounded = {a: Composite(o=Bounded(0, 1, (n,), domain="discrete")) for a, n in sizes.items()}
    unbounded = {a: Composite(o=Unbounded((n,), domain="discrete")) for a, n in sizes.items()}
    for specs in (bounded, unbounded):
        assert group_specs(PAIR, specs, unequal="pad")["agents", "o"].domain == "discrete"


WORDS = {"one": ["up", "down"], "several": [["x", "up"], ["y", "down"]]}


def numbering(kind, **others):
    """An entry that numbers its values as they come."""
    one = OneHot(3, use_register=True) if kind == "one" else MultiOneHot([2, 3], use_register=True)
    return Composite(act=one, **others)


@pytest.mark.parametrize("lazily", [False, True])
@pytest.mark.parametrize("kind", WORDS)
def test_words_of_a_group_are_numbered_together(kind, lazily):
    """Of agents with a spec each: what was packed comes back, and so does what the group's spec encoded."""
    first, second = WORDS[kind]
    packs = packer(*[numbering(kind, x=Unbounded((n,))) for n in (1, 1 + lazily)])
    assert isinstance(packs.spec["agents"], StackedComposite) == lazily
    alone = packs.pack({"b": {"act": first}})
    assert packs.unpack(alone, {"b"})["b"]["act"].tolist() == first
    both = packs.pack({"a": {"act": second}, "b": {"act": first}})
    back = packs.unpack(both)
    assert [back[agent]["act"].tolist() for agent in "ab"] == [second, first]
    group = packs.spec["agents", "act"]
    assert group.to_numpy(both["agents", "act"]).tolist() == [second, first]
    both["agents", "act"] = group.encode([first, second])
    back = packs.unpack(both)
    assert [back[agent]["act"].tolist() for agent in "ab"] == [first, second]


def test_agents_of_unequal_choices_number_their_own():
    packs = packer(Composite(act=OneHot(2, use_register=True)), Composite(act=OneHot(3, use_register=True)))
    back = packs.unpack(packs.pack({"a": {"act": "up"}, "b": {"act": "down"}}))
    assert [back[agent]["act"].tolist() for agent in "ab"] == ["up", "down"]


def test_unequal_choices_that_are_numbered_as_they_come_are_not_padded():
    both = Composite(act=OneHot(2, use_register=True)), Composite(act=OneHot(3, use_register=True))
    with pytest.raises(GroupError, match=r"OneHot.*cannot be padded: it numbers values as they come.*unequal='stack'"):
        packer(*both, unequal="pad")
