"""Composites as nested mappings: keys, entries, names, batch sizes and locks."""

from __future__ import annotations

import gc

import pytest
import torch
from tensordict import LazyStackedTensorDict, TensorDict, tensorclass
from torch import Tensor

from marlenv import Binary, Bounded, Categorical, Composite, NonTensor, OneHot, StackedComposite, Unbounded
from marlenv.errors import KeyMissing, LockedSpec, ShapeError, SpecError
from marlenv.testing.catalogue.specs import SPECS


def pack() -> Composite:
    """Two groups, three levels."""
    wolf = Composite(obs=Unbounded((3, 4)), act=Categorical(5, (3,)), shape=(3,))
    return Composite(wolves=wolf, world=Composite(pixels=Composite(rgb=Bounded(0, 255, (8,)))), done=Binary(1))


def stack() -> StackedComposite:
    """Two parts; the second has an entry of its own."""
    a = Composite(obs=Unbounded((2,)), act=Composite(move=Categorical(2)))
    b = Composite(obs=Unbounded((3,)), act=Composite(move=Categorical(3)), extra=Binary(1))
    spec = torch.stack([a, b])
    assert isinstance(spec, StackedComposite)
    return spec


# --- reading -----------------------------------------------------------------------------------


def test_keys_values_and_items_go_as_deep_as_they_are_told():
    spec = pack()
    assert list(spec.keys()) == list(spec) == ["wolves", "world", "done"]
    assert list(spec.keys(include_nested=True)) == [
        "wolves", ("wolves", "obs"), ("wolves", "act"), "world", ("world", "pixels"), ("world", "pixels", "rgb"),
        "done",
    ]  # fmt: skip
    leaves = [("wolves", "obs"), ("wolves", "act"), ("world", "pixels", "rgb"), "done"]
    assert list(spec.keys(True, True)) == leaves
    assert list(spec.keys(leaves_only=True)) == ["done"]
    assert [spec[key] for key in leaves] == list(spec.values(True, True))
    assert list(spec.items(True, True)) == [(key, spec[key]) for key in leaves]
    assert len(spec) == len(spec.keys()) == 3
    assert len(spec.keys(True, True)) == 4
    assert ("wolves", "obs") in spec.keys(True)
    assert ("wolves", "obs") not in spec.keys()
    assert ("wolves", ("obs",)) in spec.keys(True)
    assert repr(spec.keys()) == "['wolves', 'world', 'done']"


def test_is_leaf_says_what_counts_as_a_leaf():
    keys = list(pack().keys(True, True, is_leaf=lambda kind: issubclass(kind, Composite)))
    assert keys == ["wolves", "world", "done"]


def test_static_composites_are_listed_as_a_whole():
    spec = Composite(
        a=Composite(b=Unbounded((2,)), step_mdp_static=True),
        c=Composite(d=Composite(step_mdp_static=True)),
        e=Binary(1),
    )
    assert list(spec.keys(True, True, step_mdp_static_only=True)) == ["a", ("c", "d")]
    assert list(spec.items(step_mdp_static_only=True)) == [("a", spec["a"])]


def test_views_follow_the_composite():
    spec = pack()
    keys = spec.keys()
    spec["more"] = Binary(1)
    assert "more" in keys


def test_entries_are_read_by_nested_keys():
    spec = pack()
    rgb = spec["world", "pixels", "rgb"]
    assert rgb is spec["world"]["pixels"]["rgb"] is spec["world", ("pixels", "rgb")]
    assert spec.get(("world", "nothing"), None) is None
    assert spec.get("done") is spec["done"]
    assert ("world", "pixels") in spec
    assert ("world", "pixels", "nothing") not in spec
    assert ("done", "below") not in spec
    assert not spec.is_empty()
    assert Composite(a=Composite()).is_empty(recurse=True)
    assert not Composite(a=Composite()).is_empty()


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("wolfs", "no entry 'wolfs'; did you mean 'wolves'"),
        (("wolves", "sct"), "no entry 'sct'; did you mean 'act'"),
        (("done", "below"), r"no entry \('done', 'below'\), because 'below' would lie below Binary"),
    ],
)
def test_a_missing_entry_is_named_with_its_neighbour(key, text):
    for read in (lambda s: s[key], lambda s: s.get(key), lambda s: s.pop(key)):
        with pytest.raises(KeyMissing, match=text):
            read(pack())


# --- writing -----------------------------------------------------------------------------------


def test_entries_are_written_by_nested_keys():
    spec = Composite(shape=(2,))
    spec["a", "b", "c"] = Unbounded((2, 3))
    assert spec["a"].shape == spec["a", "b"].shape == (2,)
    spec.set(("a", "d"), Binary(shape=(2, 1))).set("e", {"f": Unbounded((2,))})
    assert set(spec.keys(True, True)) == {("a", "b", "c"), ("a", "d"), ("e", "f")}
    spec["a"] = None
    assert spec["a"] is None
    del spec["e", "f"]
    assert spec["e"].is_empty()


def test_writing_below_a_leaf_is_refused():
    with pytest.raises(KeyMissing, match="because 'done' is Binary.*; only composites hold entries"):
        pack()["done", "x"] = Binary(1)
    with pytest.raises(KeyMissing, match="because 'done' is Binary"):
        del pack()["done", "x"]


def test_a_composite_without_batch_dimensions_takes_those_of_its_parent():
    spec = Composite(agents=Composite(obs=Unbounded((3, 4)), deep=Composite()), text=NonTensor(()), shape=(3,))
    assert spec["agents"].shape == spec["agents", "deep"].shape == spec["text"].shape == (3,)


def test_what_is_written_must_begin_with_the_batch_size():
    with pytest.raises(ShapeError, match=r"entry 'x' must begin with the batch size \[3\], got Unbounded\(\[2\]"):
        Composite(x=Unbounded((2,)), shape=(3,))
    with pytest.raises(ShapeError, match=r"entry 'x' must begin with the batch size \[3\], got batch size \[2\]"):
        Composite(x=Composite(shape=(2,)), shape=(3,))
    with pytest.raises(ShapeError, match=r"because entry 'y' has shape \[4\]"):
        Composite(x=Composite(y=Unbounded((4,))), shape=(3,))
    with pytest.raises(SpecError, match="entry 'x' must be a spec, a mapping or None, got int"):
        Composite(x=3)
    with pytest.raises(SpecError, match=r"at most one mapping of specs .* got \['int'\]"):
        Composite(3)
    with pytest.raises(SpecError, match=r"got \['dict', 'dict'\]"):
        Composite({}, {})
    with pytest.raises(SpecError, match="shape and batch_size say the same thing"):
        Composite(shape=(2,), batch_size=(3,))


def test_a_composite_made_from_another_is_like_it():
    spec = Composite(Composite(a=Unbounded((2,)), shape=(2,), device="cpu"))
    assert spec.shape == (2,)
    assert spec.device == torch.device("cpu")


def test_pop_and_del_remove():
    spec = pack()
    act = spec["wolves", "act"]
    assert spec.pop(("wolves", "act")) is act
    assert ("wolves", "act") not in spec
    assert spec.pop("nothing", None) is None
    assert isinstance(spec.pop("wolves"), Composite)
    with pytest.raises(KeyMissing, match="no entry 'wolves'"):
        del spec["wolves"]


def test_update_merges_what_both_nest():
    spec = pack()
    assert spec.update({"wolves": {"act": Categorical(9, (3,))}, "new": Binary(1)}) is spec
    assert spec["wolves", "act"].n == 9
    assert ("wolves", "obs") in spec
    assert spec.update(Composite(world=Composite(sound=Unbounded((2,)))))["world"].keys(True, True).__len__() == 2


def test_separates_moves_entries_out():
    spec = pack()
    out = spec.separates(("wolves", "act"), "done", "nothing")
    assert set(out.keys(True, True)) == {("wolves", "act"), "done"}
    assert out["wolves"].shape == ()
    assert "done" not in spec
    assert spec.separates("nothing") is None
    assert list(spec.separates("nothing", default=Binary(1))) == ["nothing"]


def test_empty_keeps_everything_but_the_entries():
    spec = Composite(a=Unbounded((2, 3)), shape=(2,), device="cpu", names=["agent"], step_mdp_static=True)
    made = spec.empty()
    assert (made.shape, made.device, made.names, made.step_mdp_static) == ((2,), torch.device("cpu"), ["agent"], True)
    assert made.is_empty()


def test_the_batch_size_can_be_assigned():
    spec = Composite(a=Unbounded((2, 3)), b=Composite(c=Unbounded((2, 3)), d=Composite()))
    spec.shape = (2,)
    assert spec.shape == spec.batch_size == spec["b"].shape == spec["b", "d"].shape == (2,)
    spec.batch_size = ()
    assert spec.shape == ()
    with pytest.raises(ShapeError, match=r"cannot have shape \[3\], because entry 'a' has shape \[2, 3\]"):
        spec.shape = (3,)


def test_devices_of_entries_follow_the_composite():
    spec = Composite(a=Unbounded((2,)), device="meta")
    assert spec["a"].device == torch.device("meta")
    spec["b"] = Composite(c=Categorical(2))
    assert spec["b", "c"].device == spec["b"].device == torch.device("meta")
    assert spec.clear_device_().device is None
    assert spec["a"].device == torch.device("meta")


# --- names -------------------------------------------------------------------------------------


def named() -> Composite:
    inner = Composite(y=Unbounded((2, 3, 4)), shape=(2, 3, 4))
    return Composite(x=Unbounded((2, 3)), inner=inner, shape=(2, 3), names=["env", "agent"])


NAMES = {
    "expand": (lambda s: s.expand(5, 2, 3), [None, "env", "agent"]),
    "unsqueeze": (lambda s: s.unsqueeze(1), ["env", None, "agent"]),
    "squeeze": (lambda s: s.unsqueeze(0).squeeze(), ["env", "agent"]),
    "index": (lambda s: s[0], ["agent"]),
    "slice": (lambda s: s[:, 1:], ["env", "agent"]),
    "none": (lambda s: s[None, :, 0], [None, "env"]),
    "dots": (lambda s: s[..., 0], ["env"]),
    "tensor": (lambda s: s[torch.tensor([0])], [None, None]),
    "unbind": (lambda s: s.unbind(1)[0], ["env"]),
    "permute": (lambda s: s.permute(1, 0), ["agent", "env"]),
    "flatten": (lambda s: s.flatten(0, 1), [None]),
    "unflatten": (lambda s: s.unflatten(0, (1, 2)), [None, None, "agent"]),
    "reshape": (lambda s: s.reshape(3, 2), [None, None]),
    "clone": (lambda s: s.clone(), ["env", "agent"]),
    "to": (lambda s: s.to("meta").to("cpu"), ["env", "agent"]),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_follow_the_dimensions(name):
    operation, want = NAMES[name]
    got = operation(named())
    assert got.names == want
    assert got["inner"].names == [*want, None]


def test_names_reach_values_and_nested_composites():
    spec = named()
    assert spec["inner"].names == ["env", "agent", None]
    assert spec.rand().names == ["env", "agent"]
    assert spec.rand((5,)).names == [None, "env", "agent"]
    assert spec.zero()["inner"].names == ["env", "agent", None]
    spec.names = None
    assert spec.names == spec["inner"].names[:2] == [None, None]


def test_refine_names_names_what_has_no_name():
    spec = Composite(shape=(2, 3, 4))
    assert spec.refine_names(..., "c").names == [None, None, "c"]
    assert spec.refine_names("a", ...).names == ["a", None, "c"]
    assert spec.refine_names("a", "b", "c").names == ["a", "b", "c"]
    with pytest.raises(SpecError, match="dimension 'a' has a name, got 'z' for it"):
        spec.refine_names("z", ...)
    with pytest.raises(SpecError, match="expected 3 names, one per batch dimension"):
        spec.names = ["a"]


# --- locking -----------------------------------------------------------------------------------

WRITING = {
    "set": lambda s: s.set("new", Binary(1)),
    "item": lambda s: s.__setitem__("done", Binary(1)),
    "nested item": lambda s: s.__setitem__(("world", "pixels", "more"), Binary(1)),
    "below a nested one": lambda s: s["world", "pixels"].set("more", Binary(1)),
    "del": lambda s: s.__delitem__("done"),
    "nested del": lambda s: s.__delitem__(("world", "pixels", "rgb")),
    "pop": lambda s: s.pop("done"),
    "update": lambda s: s.update({"world": {"pixels": {"rgb": Binary(1)}}}),
    "separates": lambda s: s.separates("done"),
    "shape": lambda s: setattr(s, "shape", ()),
    "make_neg_dim": lambda s: s["wolves"].make_neg_dim(0),
}


@pytest.mark.parametrize("how", WRITING)
def test_a_locked_composite_refuses_writing(how):
    spec = pack().lock_()
    before = spec.clone()
    with pytest.raises(LockedSpec, match="a locked spec; call unlock_\\(\\) first"):
        WRITING[how](spec)
    assert spec == before
    WRITING[how](spec.unlock_())


def test_reading_and_copying_a_locked_composite_is_fine():
    spec = pack().lock_()
    assert spec.is_in(spec.rand())
    for made in (spec.clone(), spec.expand(4), spec.unsqueeze(0), torch.stack([spec, spec]), spec.to(torch.float64)):
        assert not made.is_locked
        assert not made["wolves"].is_locked
    assert spec.is_locked
    assert spec["wolves"].is_locked
    assert spec.to("cpu")["wolves"].is_locked is False


def test_what_was_locked_from_above_is_unlocked_from_there():
    spec = pack().lock_()
    for inner in (spec["world"], spec["world", "pixels"]):
        with pytest.raises(LockedSpec, match="while a composite that holds it is locked; unlock that one"):
            inner.unlock_()
    spec.unlock_()
    assert not spec["world", "pixels"].is_locked


def test_a_composite_in_two_locked_ones_needs_both():
    inner = Composite(a=Binary(1))
    one, two = Composite(x=inner).lock_(), Composite(y=inner).lock_()
    with pytest.raises(LockedSpec):
        one.unlock_()
    assert one.is_locked
    assert inner.is_locked
    del two
    gc.collect()
    one.unlock_()
    assert not inner.is_locked


def test_locking_twice_needs_one_unlock():
    spec = pack()
    spec.lock_().lock_()
    assert not spec.unlock_()["world"].is_locked


def test_locking_one_level_only():
    spec = pack().lock_(recurse=False)
    assert spec.is_locked
    assert spec.locked
    spec["world", "pixels"].set("more", Binary(1))
    with pytest.raises(LockedSpec):
        spec["more"] = Binary(1)
    spec.lock_()
    assert spec["world"].is_locked
    spec.is_locked = False
    assert not spec["world"].is_locked


def test_masks_may_change_under_a_lock():
    spec = Composite(act=Categorical(2)).lock_()
    spec["act"].update_mask(torch.tensor([True, False]))
    assert spec.rand()["act"] == 0


# --- lazy stacks -------------------------------------------------------------------------------


def test_a_stack_lists_what_all_parts_have():
    spec = stack()
    assert list(spec.keys(True, True)) == ["obs", ("act", "move")]
    assert len(spec) == 2
    assert "extra" not in spec
    assert spec["obs"].shape == (2, -1)
    assert spec["act", "move"].parts[1].n == 3
    assert spec[1]["extra"] == Binary(1)
    assert spec.repr_exclusive_keys() == "1 -> ['extra']"
    with pytest.raises(KeyMissing, match=r"no entry 'extra' in all parts; only the parts \[1\] have it"):
        spec["extra"]
    with pytest.raises(KeyMissing, match="did you mean 'obs'"):
        spec["obz"]


def test_writing_to_a_stack_reaches_the_parts():
    spec = stack()
    spec["new"] = Unbounded((2, 4))
    spec["act", "jump"] = Binary(shape=(2, 1))
    spec["deep"] = {"down": Unbounded((2, 1))}
    spec["hole"] = None
    assert spec[0]["new"].shape == (4,)
    assert spec[1]["act", "jump"].shape == (1,)
    assert spec[1]["deep", "down"].shape == (1,)
    assert spec["hole"] is None
    spec.set(("act", "jump"), Binary(shape=(2, 3)))
    assert spec[0]["act", "jump"].shape == (3,)
    del spec["act", "jump"]
    assert list(spec[1]["act"]) == ["move"]
    del spec["extra"]
    assert "extra" not in spec[1]
    assert spec.pop("new").shape == (2, 4)
    assert "new" not in spec[0]
    with pytest.raises(KeyMissing, match="no entry 'extra' in any part; all have"):
        del spec["extra"]


def test_writing_to_a_stack_inside_a_composite_reaches_the_parts():
    spec = Composite(team=stack(), shape=())
    spec["team", "act", "jump"] = Binary(shape=(2, 1))
    assert spec["team"][0]["act", "jump"].shape == (1,)
    del spec["team", "act", "move"]
    assert list(spec["team"][1]["act"]) == ["jump"]


def test_updating_a_stack_reaches_the_parts():
    spec = stack()
    spec.update({"act": {"move": Categorical(9, (2,))}, "new": Binary(shape=(2, 1))})
    assert [part["act", "move"].n for part in spec.parts] == [9, 9]
    assert spec[0]["new"].shape == (1,)
    other = stack()
    other[1]["extra"] = Unbounded((7,))
    assert spec.update(other)[1]["extra"].shape == (7,)
    assert spec[0]["act", "move"].n == 2
    taken = stack().separates("obs")
    assert taken["obs"].shape == (2, -1)


def test_what_is_written_to_a_stack_must_have_its_batch_size():
    with pytest.raises(ShapeError, match=r"entry 'new' must begin with the batch size \[2\], got \[3\]"):
        stack()["new"] = Unbounded((3,))
    with pytest.raises(SpecError, match="entry .new. must be a spec, a mapping or None, got int"):
        stack()["new"] = 3


def test_a_locked_stack_refuses_writing():
    spec = Composite(team=stack()).lock_()
    for write in (
        lambda: spec["team"].set("new", Binary(shape=(2, 1))),
        lambda: spec["team"].__delitem__("obs"),
        lambda: spec["team"].update({}),
        lambda: spec["team"][0].set("new", Binary(1)),
        lambda: spec["team"][0]["act"].set("new", Binary(1)),
        spec["team"][0].unlock_,
        spec["team"].unlock_,
    ):
        with pytest.raises(LockedSpec):
            write()
    spec.unlock_()
    assert not spec["team"].is_locked
    assert not spec["team"][0]["act"].is_locked


def test_checks_of_a_stack_name_part_and_entry():
    spec = stack()
    td = spec.rand()
    td[1]["act", "move"].fill_(77)
    assert not spec.is_in(td)
    with pytest.raises(AssertionError) as caught:
        spec.assert_is_in(td)
    assert caught.value.__notes__ == ["in entry 'move'", "in entry 'act'", "in part 1 along dimension 0"]
    with pytest.raises(TypeError, match="expected float32, got float64"):
        spec.type_check(torch.stack([td[0], td[0]]).double())
    with pytest.raises(ShapeError, match=r"expected 2 parts along the stacked dimension, got \w+ \[3\]"):
        spec.type_check(torch.stack([td[0], td[0], td[0]]))
    assert not spec.is_in(torch.zeros(2))
    assert not spec.is_in({"obs": 1})
    assert spec.empty().is_empty()
    assert spec.zero()[1]["extra"].shape == (1,)


def test_the_batch_size_of_a_stack_follows_from_its_parts():
    spec = stack()
    spec.shape = (2,)
    with pytest.raises(NotImplementedError, match=r"cannot have shape \[3\]; change the shape of the parts"):
        spec.shape = (3,)
    assert spec.clear_device_().device is None


def test_type_check_names_the_entry():
    spec = Composite(a=Composite(b=Binary(1)), c=OneHot(2))
    with pytest.raises(TypeError, match="expected int8, got float32") as caught:
        spec.type_check(TensorDict({"a": {"b": torch.zeros(1)}}))
    assert caught.value.__notes__ == ["in entry 'b'", "in entry 'a'"]
    spec.type_check(TensorDict({"a": {"b": torch.zeros(1)}, "c": spec["c"].rand()}), selected_keys=["c"])
    spec.type_check(torch.zeros(2, dtype=torch.bool), "c")
    with pytest.raises(TypeError, match="under 'c': expected bool"):
        spec["c"].type_check(torch.zeros(2), "c")


def test_the_catalogue_holds_every_composite_of_this_file():
    assert {"composite deep", "stacked composite", "composite named"} <= {e.name for e in SPECS}


@tensorclass
class Sight:
    """A tensorclass for ``data_cls``."""

    far: Tensor
    kind: Tensor


def sight(size: int = 2) -> Composite:
    return Composite(far=Bounded(0, 1, (size,)), kind=Categorical(3), data_cls=Sight)


def wrong_sight(size: int = 2) -> Sight:
    return Sight(far=torch.full((size,), 3.0), kind=torch.tensor(7), batch_size=[])


def test_values_of_a_tensorclass_are_projected_in_place():
    value = wrong_sight()
    assert sight().project(value) is value
    assert (value.far.tolist(), value.kind.item()) == ([1, 1], 2)
    held = Composite(eye=sight()).project(TensorDict({"eye": wrong_sight()}))
    assert isinstance(held["eye"], Sight)
    assert held["eye"].kind == 2
    team = torch.stack([sight(2), sight(3)])
    rows = team.project(LazyStackedTensorDict(wrong_sight(2), wrong_sight(3), stack_dim=0)).unbind(0)
    assert [row.far.tolist() for row in rows] == [[1, 1], [1, 1, 1]]


def test_enumerated_values_are_of_the_tensorclass():
    spec = Composite(far=Categorical(2), kind=Categorical(3), data_cls=Sight)
    listed = spec.enumerate()
    assert spec.is_in(listed)
    assert listed.far.tolist() == [0, 0, 0, 1, 1, 1]
    assert listed.kind.tolist() == [0, 1, 2, 0, 1, 2]


def test_rows_of_different_sizes_are_checked_repaired_and_translated():
    spec = Composite(a=Bounded(0, 1, (-1,)))
    value = LazyStackedTensorDict(*[TensorDict({"a": torch.full((n,), 3.0)}) for n in (2, 3)], stack_dim=0)
    spec.type_check(value)
    assert not spec.is_in(value)
    assert [row["a"].tolist() for row in spec.project(value).unbind(0)] == [[1, 1], [1, 1, 1]]
    assert [row["a"].tolist() for row in spec.to_numpy(value)] == [[1, 1], [1, 1, 1]]


def test_a_composite_of_a_composite_keeps_names_and_marks():
    deep = Composite(x=Unbounded((2, 3)), shape=(2, 3), names=["rows", "agents"])
    spec = Composite(deep=deep, shape=(2,), names=["rows"], step_mdp_static=True)
    spec["deep"].names = ["rows", "agents"]
    made = Composite(spec)
    assert (made.names, made.step_mdp_static, made["deep"].names) == (["rows"], True, ["rows", "agents"])


def test_a_longer_shape_has_names_for_all_dimensions():
    spec = Composite(a=Unbounded((2, 3)), shape=(2,), names=["rows"])
    spec.shape = (2, 3)
    assert spec.names == spec.zero().names == ["rows", None]


def test_what_is_no_key_is_not_in_a_composite():
    assert ("a", 1) not in Composite(a=Composite(b=Binary(1)))
