"""What scripts written for torchrl.data rely on: both libraries do it from the same lines, unless it says otherwise."""

from __future__ import annotations

import copy
import pickle
from itertools import product

import numpy as np
import pytest
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict

import marlenv as ours
from marlenv.errors import BadIndex, LockedSpec, NotInSpec, ReservedKey, SpecError

theirs = pytest.importorskip("torchrl.data", reason="the oracle of this file")
from described import describe, outcome  # noqa: E402  it imports torchrl

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]


def team(k) -> object:
    """Two agents that see different sizes; one has an entry of its own."""
    one = k.Composite(obs=k.Unbounded((2,)), deep=k.Composite(act=k.Categorical(3)))
    other = k.Composite(obs=k.Unbounded((3,)), deep=k.Composite(act=k.Categorical(4)), extra=k.Binary(1))
    return torch.stack([one, other])


def after(change):
    """A stack on which something was done, and what the parts then are."""

    def act(k):
        spec = team(k)
        change(spec, k)
        return sorted(map(str, spec.keys(True, True))), [describe(part) for part in spec.unbind(0)]

    return act


def writes_in_place(k) -> list[float]:
    spec = k.Bounded(-1, 1, (2,))
    spec.space.low = torch.tensor([-5.0, 0.0])
    return [
        float(spec.low[0]),
        bool(spec.is_in(torch.tensor([-4.0, 0.5]))),
        bool(spec.is_in(torch.tensor([-4.0, -1.0]))),
    ]


SAME = {
    "subclasses": lambda k: [
        issubclass(a, b) for a, b in product((k.Binary, k.MultiCategorical, k.MultiOneHot), (k.Categorical, k.OneHot))
    ],
    "instances": lambda k: [
        isinstance(k.MultiCategorical([2, 3]), k.Categorical),
        isinstance(k.Binary(2), k.Categorical),
        isinstance(k.MultiOneHot([2, 3]), k.OneHot),
        isinstance(k.Categorical(2), k.Binary),
        isinstance(k.Categorical(3), k.MultiCategorical),
    ],
    "set_provisional_n": lambda k: (spec := k.Categorical(-1), spec.set_provisional_n(4), spec.n)[-1],
    "set_provisional_n binary": lambda k: (
        spec := k.Binary(3),
        spec.set_provisional_n(4),
        spec.space.n,
        tuple(spec.rand().shape),
    )[-2:],
    "set_provisional_n multi": lambda k: (
        spec := k.MultiCategorical([2, 3]),
        spec.set_provisional_n(4),
        tuple(spec.rand().shape),
    )[-1],
    "domain": lambda k: [k.Bounded(0, 1, (2,), domain=d).domain for d in ("continuous", "discrete", None)],
    "domain of copies": lambda k: k.Bounded(0, 9, (2,), dtype=torch.int64, domain="discrete").expand(3, 2).domain,
    "domain unbounded": lambda k: k.Unbounded((2,), domain="continuous").domain,
    "space.low": writes_in_place,
    "scalar multi-categorical": lambda k: (
        spec := k.MultiCategorical(5),
        [
            tuple(spec.shape),
            tuple(spec.rand().shape),
            tuple(spec.rand((3,)).shape),
            bool(spec.is_in(torch.tensor(4))),
            bool(spec.is_in(torch.tensor([4]))),
            bool(spec.is_in(torch.tensor(5))),
            spec.project(torch.tensor(9)).tolist(),
            tuple(spec.to_one_hot(torch.tensor(3)).shape),
        ],
    )[-1],
    "scalar multi-categorical kept": lambda k: tuple(k.MultiCategorical(5, remove_singleton=False).rand().shape),
    "missing in is_in": lambda k: k.Composite(a=k.Binary(1)).is_in(TensorDict({})),
    "missing in project": lambda k: k.Composite(a=k.Bounded(0, 1, (1,)), b=k.Binary(1)).project(
        TensorDict({"a": torch.zeros(1)})
    ),
    "choice of stacks": lambda k: (
        spec := k.Choice([NonTensorStack("a", "b"), NonTensorStack("c", "d")]),
        bool(spec.is_in(spec.rand())),
        bool(spec.is_in(NonTensorStack("a", "d"))),
        spec.cardinality(),
        tuple(spec.shape),
    )[1:],
    "choice of data": lambda k: (
        spec := k.Choice([NonTensorData("a"), NonTensorData("b")]),
        bool(spec.is_in(NonTensorData("b"))),
        bool(spec.is_in(NonTensorData("c"))),
    )[1:],
    "stack of choices": lambda k: (
        one := k.Choice([k.Categorical(2, (2,)), k.Categorical(9, (2,))]),
        tuple(torch.stack([one, one.clone()]).shape),
    )[-1],
    "feature_dims": lambda k: [
        k.NonTensor((2, 3)).feature_dims,
        k.NonTensor(()).feature_dims,
        k.NonTensor((2, 3), feature_dims=1).feature_dims,
        k.NonTensor((2,), batched=True).feature_dims,
    ],
    "feature_dims rand": lambda k: [
        (type(v).__name__, tuple(v.batch_size))
        for v in (
            k.NonTensor((2,), example_data="x").rand((3,)),
            k.NonTensor((2,), example_data="x").expand(4, 2).rand(),
            k.NonTensor((), example_data="x").rand((3,)),
        )
    ],
    "unbind negative": lambda k: [tuple(s.shape) for s in k.Bounded(0, 1, (2, 3)).unbind(-2)],
    "unbind negative composite": lambda k: [
        tuple(s.shape) for s in k.Composite(a=k.Unbounded((2, 3, 4)), shape=(2, 3)).unbind(-1)
    ],
    "index_select negative": lambda k: tuple(torch.index_select(k.Unbounded((2, 3)), -1, torch.tensor([0, 2])).shape),
    "-1 survives": lambda k: [
        tuple(k.Unbounded((-1, 3))[i].shape) for i in (None, (slice(None), 0), ..., (None, slice(None), 1))
    ],
    "a list of one": lambda k: [
        tuple(k.Unbounded((2,)).encode([np.zeros(2)]).shape),
        k.Unbounded(()).encode([3.0]).tolist(),
    ],
    "len of a stack": lambda k: (len(team(k)), len(torch.stack([team(k), team(k)]))),
    "set in a stack": after(lambda s, k: s.__setitem__("new", k.Unbounded((2, 5)))),
    "set below a stack": after(lambda s, k: s.__setitem__(("deep", "act"), k.Categorical(9, (2,)))),
    "del in a stack": after(lambda s, k: s.__delitem__("extra")),
    "del below a stack": after(lambda s, k: s.__delitem__(("deep", "act"))),
    "del nothing": after(lambda s, k: s.__delitem__("nothing")),
    "update a stack": after(
        lambda s, k: s.update({"obs": k.Unbounded((2, 7)), "deep": k.Composite(act=k.Categorical(8, (2,)), shape=(2,))})
    ),
    "write through an entry": after(lambda s, k: s["deep"].__setitem__("new", k.Unbounded((2, 5)))),
    "del through an entry": after(lambda s, k: s["deep"].__delitem__("act")),
    "del through a composite": lambda k: (
        spec := k.Composite(t=team(k), shape=(2,)),
        spec.__delitem__(("t", "deep", "act")),
        spec["t"].keys(True, True).__len__(),
    )[-1],
    "update through a composite": lambda k: (
        spec := k.Composite(t=team(k), shape=(2,)),
        spec.update({"t": k.Composite(obs=k.Unbounded((2, 7)), shape=(2,))}),
        [tuple(s.shape) for s in (spec["t", "obs"], spec["t"][1]["obs"], spec["t", "deep", "act"])],
    )[-1],
    "stack of stacks": lambda k: [
        (
            two := torch.stack([team(k), team(k)], dim),
            tuple(two.shape),
            tuple(two["obs"].shape),
            bool(two.is_in(two.rand())),
        )[1:]
        for dim in (0, 1)
    ],
    "names of a numpy stack": lambda k: sorted(
        torch.stack([k.Composite(a=k.Bounded(0, 2, (2,))), k.Composite(a=k.Bounded(0, 1, (2,)))]).to_numpy(
            TensorDict({"a": torch.zeros(2, 2)}, [2])
        )
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_both_libraries_do_it(name):
    mine = outcome(SAME[name], ours)
    assert mine == outcome(SAME[name], theirs)
    assert (mine == "error") == (name in ("missing in is_in", "missing in project", "del nothing"))


@pytest.mark.parametrize("name", ["missing in is_in", "missing in project", "del nothing"])
def test_a_missing_key_is_a_key_error(name):
    with pytest.raises(KeyError):
        SAME[name](ours)
    with pytest.raises(KeyError if "project" not in name else AttributeError):
        SAME[name](theirs)


@pytest.mark.parametrize("name", ["shape", "device", "dtype", "space", "batch_size"])
def test_reserved_names_are_refused(name):
    spec = ours.Composite(a=ours.Binary(1))
    for act in (
        lambda: spec.set(name, ours.Binary(1)),
        lambda: spec[name],
        lambda: ours.Composite({name: ours.Binary(1)}),
    ):
        with pytest.raises(ReservedKey) as caught:
            act()
        assert isinstance(caught.value, KeyError)
        assert isinstance(caught.value, AttributeError)  # what torchrl raises
    assert list(spec) == ["a"]


# --- remembering how values are encoded ----------------------------------------------------------

MEMO = [
    (
        ours.Unbounded((2,)),
        [np.ones(2), np.zeros(2, dtype=np.int64), [1, 2], 3.0, np.arange(4.0)[::-2], torch.ones(2), np.ones((5, 2))],
    ),
    (ours.Unbounded((2, 1)), [np.ones(2), np.ones((1, 2)), np.ones((2, 1)), 4]),
    (ours.Bounded(0, 255, (2,), dtype=torch.uint8), [np.array([7, 255]), np.array([1.5, 2.5])]),
    (ours.OneHot(3), [2, 0, np.int64(1), np.array([1, 2])]),
    (ours.MultiOneHot([2, 3]), [[1, 2], np.array([0, 1])]),
    (ours.MultiCategorical([2, 3]), [[1, 2], np.array([0, 1])]),
    (ours.NonTensor(()), ["a", "b"]),
    (
        ours.Composite(a=ours.Unbounded((2,)), b=ours.Composite(c=ours.OneHot(3))),
        [{"a": np.ones(2), "b": {"c": 2}}, {"a": np.ones((4, 2)), "b": {"c": np.arange(4) % 3}}],
    ),
    (torch.stack([ours.Categorical(3), ours.Categorical(5)]), [[1, 2], np.array([2, 4])]),
]


@pytest.mark.parametrize(("spec", "values"), MEMO, ids=lambda x: repr(x)[:30])
def test_what_is_remembered_gives_the_same(spec, values):
    plain = [spec.clone().encode(v) for v in values]
    spec = spec.clone()
    spec.memoize_encode()
    for _ in range(3):
        for value, want in zip(values, plain, strict=True):
            assert describe(spec.encode(value)) == describe(want)
    spec.erase_memoize_cache()
    assert describe(spec.encode(values[0])) == describe(plain[0])
    for other in (copy.copy(spec), copy.deepcopy(spec), pickle.loads(pickle.dumps(spec)), spec.clone()):
        assert other == spec
        assert describe(other.encode(values[0])) == describe(plain[0])
    spec.memoize_encode(mode=False)
    assert describe(spec.encode(values[0])) == describe(plain[0])


def test_what_is_remembered_is_no_alias_and_no_stale_shape():
    spec = ours.Unbounded((2, 2))
    spec.memoize_encode()
    array = np.zeros(4, dtype=np.float32)
    first = spec.encode(array)
    second = spec.encode(array)
    array[:] = 9
    assert not first.any()
    assert not second.any()
    spec.make_neg_dim(0)
    assert spec.encode(np.zeros((3, 2))).shape == (3, 2)
    with pytest.raises(ValueError, match="expected a value of shape"):
        spec.encode(np.zeros(3))
    with pytest.raises(ValueError, match="expected a value of shape"):
        spec.encode(np.zeros(3))


def test_memoized_composites_see_new_entries():
    spec = ours.Composite(a=ours.Unbounded((2,)))
    spec.memoize_encode()
    assert spec.encode({"a": np.ones(2)})["a"].shape == (2,)
    spec["b"] = ours.OneHot(3)
    assert spec.encode({"a": np.ones(2), "b": 1})["b"].tolist() == [False, True, False]
    del spec["a"]
    with pytest.raises(KeyError, match="no entry 'a'"):
        spec.encode({"a": np.ones(2)})


# --- where torchrl cannot be the oracle ----------------------------------------------------------


def test_a_register_numbers_values_as_they_come():
    """TorchRL takes ``use_register=True`` and then fails at the first value."""
    spec = ours.OneHot(3, use_register=True)
    assert spec.use_register
    assert spec.encode("up").tolist() == [True, False, False]
    assert spec.expand(2, 3).encode(["down", "up"]).tolist() == [[False, True, False], [True, False, False]]
    assert spec.to_numpy(torch.tensor([[False, True, False], [True, False, False]])).tolist() == ["down", "up"]
    assert spec.to_numpy(spec.encode(7)) == 7
    assert spec.encode(spec.rand()).shape == (3,)
    with pytest.raises(NotInSpec, match="all 3 values are taken by"):
        spec.encode("left")
    assert spec == spec.clone() == ours.OneHot(3, use_register=True) != ours.OneHot(3)
    multi = ours.MultiOneHot([2, 2], use_register=True)
    assert multi.encode([5, "x"]).tolist() == [True, False, True, False]
    assert multi.to_numpy(multi.encode([6, "x"])).tolist() == [6, "x"]
    assert [len(box.register._numbers) for box in multi.space] == [2, 1]
    assert outcome(lambda: theirs.OneHot(3, use_register=True).encode("up")) == "error"


def test_assigned_bounds_are_drawn_checked_and_kept():
    spec = ours.Bounded(0, 1, (2,))
    assert spec.rand().max() <= 1
    spec.space.high = 100
    spec.space.low = [50, 60]
    drawn = spec.rand((100,))
    assert bool((drawn >= torch.tensor([50.0, 60.0])).all())
    assert spec.clone() == spec == ours.Bounded([50.0, 60.0], 100, (2,))
    assert repr(spec.space).startswith("ContinuousBox(low=tensor([50., 60.])")


def test_numbers_stand_for_every_element():
    """TorchRL takes numbers for specs of one element only."""
    assert ours.Unbounded((2, 3)).encode(2).tolist() == [[2.0] * 3] * 2
    out = ours.Bounded(0, 9, (2,)).encode(np.float32(1.5))
    out[0] = 7
    assert out.tolist() == [7.0, 1.5]
    assert ours.OneHot(3, (2, 3)).encode(1).tolist() == [[False, True, False]] * 2


def test_a_choice_of_plain_data():
    spec = ours.Choice(["a", ("b", 2)])
    assert spec.cardinality() == 2
    assert {repr(spec.rand().data) for _ in range(40)} == {"'a'", "('b', 2)"}
    assert spec.is_in("a")
    assert not spec.is_in("c")
    stacks = ours.Choice([NonTensorStack("a", "b"), NonTensorStack("c", "d")])
    drawn = stacks.expand(3, 2).rand()
    assert drawn.batch_size == (3, 2)
    assert stacks.expand(3, 2).is_in(drawn)
    assert {tuple(row) for row in drawn.tolist()} <= {("a", "b"), ("c", "d")}
    assert not stacks.is_in(NonTensorStack("a", "d"))
    assert stacks.expand(3, 2).zero().tolist() == [["a", "b"]] * 3
    assert stacks.expand(3, 2).one((2,)).batch_size == (2, 3, 2)
    assert not stacks.is_in(NonTensorData("a", batch_size=[2]))
    both = torch.stack([ours.Choice(["a", "b"]), ours.Choice(["c", "d"])])
    assert both.is_in(both.rand())
    assert not both.is_in(NonTensorStack("c", "a"))


def test_stacks_of_composites_to_numpy_and_back():
    spec = team(ours)
    value = spec.rand((4,))
    given = spec.to_numpy(value, safe=True)
    assert sorted(given) == ["deep", "extra", "obs"]
    assert [a.shape for a in given["obs"]] == [(4, 2), (4, 3)]
    assert given["deep"]["act"].shape == (4, 2)
    assert given["extra"][0] is None
    assert (spec.encode(given) == value).all()
    hot = ours.StackedComposite(*[ours.Composite(a=ours.OneHot(3, (2, 3)), shape=(2,)) for _ in range(2)], dim=1)
    value = hot.rand((4,))
    assert hot.to_numpy(value)["a"].shape == (4, 2, 2)
    assert (hot.encode(hot.to_numpy(value)) == value).all()
    with pytest.raises(AssertionError):
        spec.to_numpy(spec.zero().apply(lambda t: t + 77 if not t.dtype.is_floating_point else t), safe=True)


def test_updates_of_a_dense_tensordict_by_a_stack_reach_it():
    spec = ours.StackedComposite(*[ours.Composite(a=ours.Bounded(2, high, (3,))) for high in (4, 5)], dim=0)
    td = TensorDict({"x": torch.ones(2)}, [2])
    assert spec.ones_update(td) is td
    assert td["a"].tolist() == [[1.0] * 3] * 2
    assert spec.is_in(spec.rand_update(td))


def test_entries_of_one_value_in_brackets_are_that_value():
    spec = ours.Composite(a=ours.Unbounded(()), b=ours.Unbounded((2,)))
    out = spec.encode({"a": np.array([3.0]), "b": np.zeros(2)})
    assert out["a"].tolist() == 3.0
    assert out.batch_size == ()


def test_views_of_a_locked_stack_refuse_writing():
    spec = team(ours).lock_()
    before = describe(spec[0])
    for act in (
        lambda: spec["deep"].set("new", ours.Unbounded((2, 5))),
        lambda: spec["deep"].update({"act": ours.Categorical(9, (2,))}),
        lambda: spec["deep"].__delitem__("act"),
        lambda: spec.update({"deep": {"act": ours.Categorical(9, (2,))}}),
        spec["deep"].unlock_,
    ):
        with pytest.raises(LockedSpec):
            act()
        assert describe(spec[0]) == before
        assert spec["deep"].is_locked
    spec.unlock_()["deep"].set("new", ours.Unbounded((2, 5)))
    assert spec[1]["deep", "new"].shape == (5,)


def test_what_a_stack_is_given_is_its_own_memory():
    spec, given = team(ours), ours.Bounded(0, 1, (1, 4)).expand(2, 4)
    spec.update({"new": given, "deep": {"more": given}})
    for name in ("new", ("deep", "more")):
        assert spec[0][name].low.data_ptr() != spec[1][name].low.data_ptr()
        spec[0][name].low[0] = -1  # no expanded memory either
        assert spec[1][name].low.tolist() == given.low[0].tolist() == [0.0] * 4


@pytest.mark.parametrize(
    "index",
    [
        2,
        -3,
        (0, 3),
        [0, 2],
        torch.tensor([2]),
        np.array([-3]),
        torch.ones(3, dtype=torch.bool),
        slice(None, None, 0),
        slice("a"),
        "a",
        1.5,
        [1.5],
        (0, 0, 0),
        [[0], [2]],
        range(3),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    "spec",
    [
        ours.Unbounded((2, 3)),
        ours.Bounded(0, 1, (2, 3)),
        ours.Binary(3, (2, 3)),
        ours.Categorical(3, (2, 3)),
        ours.NonTensor((2, 3)),
    ],
    ids=lambda s: type(s).__name__,
)
def test_invalid_indices_never_go_through(spec, index):
    with pytest.raises(BadIndex) as caught:
        spec[index]
    assert isinstance(caught.value, IndexError)


@pytest.mark.parametrize("dim", [2, -3, 9])
def test_invalid_dimensions_never_go_through(dim):
    specs = [ours.Unbounded((2, 3)), ours.NonTensor((2, 3)), ours.Composite(a=ours.Binary(1, (2, 3, 1)), shape=(2, 3))]
    for spec in specs:
        for act in (
            lambda s: s.unbind(dim),
            lambda s: torch.index_select(s, dim, torch.tensor([0])),
            lambda s: s.squeeze(dim),
        ):
            with pytest.raises(IndexError):
                act(spec)
    for index in (torch.tensor([2]), torch.tensor([-1])):
        with pytest.raises(IndexError):
            torch.index_select(specs[0], 0, index)


@pytest.mark.parametrize("step", [-1, -2])
def test_slices_go_backwards(step):
    low = np.arange(6.0).reshape(3, 2)
    assert ours.Bounded(low, 10.0)[::step].low.tolist() == low[::step].tolist()


@pytest.mark.parametrize(
    "act",
    [
        lambda: ours.Categorical(2.5),
        lambda: ours.Categorical(True),
        lambda: ours.OneHot(2.5),
        lambda: ours.OneHot(-1),
        lambda: ours.Binary(-1),
        lambda: ours.Binary(2.5),
        lambda: ours.MultiCategorical([2.5]),
        lambda: ours.MultiCategorical([]),
        lambda: ours.MultiOneHot([2, 2.5]),
        lambda: ours.MultiCategorical([2, 3], mask=torch.tensor([0, 0, 1, 1, 1])).rand(),
        lambda: ours.MultiCategorical([2, 3], (4, 2), mask=torch.tensor([1, 1, 0, 0, 0])).rand((2,)),
        lambda: ours.MultiOneHot([2, 3], mask=torch.tensor([0, 0, 1, 1, 1])).rand(),
        lambda: ours.Composite(a=ours.MultiCategorical([2], mask=torch.tensor([0, 0]))).rand(),
        lambda: torch.stack([ours.MultiCategorical([2], mask=torch.tensor([0, 0])), ours.MultiCategorical([3])]).rand(),
    ],
)
def test_what_is_no_domain_is_refused(act):
    with pytest.raises(SpecError, match=r"must be|expected|needs at least|allows no value"):
        act()
