"""Specs take part in shape algebra like tensors: a batch is a stack of singles, and nothing is lost on the way."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import assume
from hypothesis import strategies as st
from laws import given, same, seeded
from torch import Tensor

from marlenv import (
    Binary,
    Bounded,
    Categorical,
    Choice,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    Stacked,
    StackedComposite,
    Unbounded,
)
from marlenv.errors import ShapeError, Unsupported
from marlenv.testing.catalogue.specs import SPECS, mask
from marlenv.testing.strategies import composites, leaves, masks_of, shapes, specs

dense = [e for e in SPECS if not isinstance(e.make(), (Stacked, StackedComposite))]
every_dense = pytest.mark.parametrize("example", dense, ids=lambda e: e.name)


# --- a batch is a stack of singles -------------------------------------------------------------


@every_dense
@pytest.mark.parametrize("lead", [(3,), (2, 3), (1,)])
def test_rows_of_an_expanded_spec_are_in_the_single_spec(example, lead):
    single = example.make()
    batch = single.expand(*lead, *single.shape)
    assert batch.shape == (*lead, *single.shape)
    value = batch.rand()
    for row in rows_of(value, len(lead)):
        assert single.is_in(row)


def rows_of(value, ndim: int) -> list:
    """The entries of the first dimensions of a value."""
    return [row for part in value.unbind(0) for row in rows_of(part, ndim - 1)] if ndim else [value]


@every_dense
def test_a_stack_of_singles_is_in_the_expanded_spec(example):
    single = example.make()
    value = torch.stack([single.rand() for _ in range(3)])
    assert single.expand(3, *single.shape).is_in(value)


@given(st.data())
def test_expand_then_index_is_the_original(data):
    single, lead = data.draw(specs()), data.draw(shapes(2, 3, min_dims=1))
    batch = single.expand(*lead, *single.shape)
    index = tuple(data.draw(st.integers(-n, n - 1)) for n in lead)
    assert batch[index] == single
    assert batch[index].rand(rng=seeded(0)).shape == single.shape


@given(st.data())
def test_stack_then_index_or_unbind_gives_the_parts(data):
    shape = data.draw(shapes(1, 2))
    parts = data.draw(st.lists(leaves(shape), min_size=1, max_size=3))
    assume(len({p.ndim for p in parts}) == 1 and len({(p.dtype, p.device) for p in parts}) == 1)
    stacked = torch.stack(parts)
    assert stacked.shape[0] == len(parts)
    for i, part in enumerate(parts):
        assert holds_the_same(stacked[i], part)
        assert holds_the_same(stacked.unbind(0)[i], part)
        assert holds_the_same(stacked[-len(parts) + i], part)


@given(st.data())
def test_stacks_of_composites_give_the_parts(data):
    shape = data.draw(shapes(1, 2))
    one, other = data.draw(composites(shape)), data.draw(composites(shape))
    assume(can_stack(one, other))
    for parts in ([one, one], [one, other]):
        for dim in range(one.ndim + 1):
            stacked = torch.stack(parts, dim)
            assert all(holds_the_same(got, want) for got, want in zip(stacked.unbind(dim), parts, strict=True))


def can_stack(a, b) -> bool:
    """Whether what two specs both name is of one kind, shape and dtype."""
    if isinstance(a, Composite) and isinstance(b, Composite):
        return all(can_stack(a[k], b[k]) for k in set(a) & set(b))
    return (type(a), a.shape, a.dtype) == (type(b), b.shape, b.dtype)


def holds_the_same(a, b) -> bool:
    """Whether two specs say the same, but for masks that allow everything and examples of non-tensor data."""
    if isinstance(a, Composite) and isinstance(b, Composite):
        return set(a) == set(b) and all(holds_the_same(a[k], b[k]) for k in a)
    if type(a) is not type(b) or (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    if getattr(b, "mask", None) is None and getattr(a, "mask", None) is not None:
        return bool(a.mask.all())
    return a == b or not isinstance(a.rand(), Tensor)


@given(st.lists(st.floats(-5, 5, width=16), min_size=2, max_size=4), st.integers(0, 1))
def test_a_stack_keeps_the_bounds_of_each_part(lows, dim):
    parts = [Bounded(low, low + 1, (2,)) for low in lows]
    stacked = torch.stack(parts, dim)
    assert type(stacked) is Bounded
    for value, part in zip(stacked.rand((8,)).unbind(dim + 1), parts, strict=True):
        assert part.is_in(value)


def test_a_stack_keeps_the_mask_of_each_part():
    parts = [Categorical(3, mask=mask("100")), Categorical(3), Categorical(3, mask=mask("011"))]
    stacked = torch.stack(parts)
    assert stacked.mask.tolist() == [[True, False, False], [True, True, True], [False, True, True]]
    hot = torch.stack([p.to_one_hot_spec() for p in parts])
    assert torch.equal(hot.mask, stacked.mask)
    deep = torch.stack([Composite(a=Composite(act=p)) for p in parts])
    assert torch.equal(deep["a", "act"].mask, stacked.mask)
    assert torch.equal(torch.stack(parts, -1).mask, stacked.mask)


def test_stacking_unequal_composites_keeps_their_order_of_entries_apart():
    a, b = Unbounded((2,)), Categorical(3)
    stacked = torch.stack([Composite(a=a, b=b), Composite(b=b, a=a)])
    assert type(stacked) is Composite
    assert stacked["a"].shape == (2, 2)
    partly = torch.stack([Composite(a=a, b=None), Composite(a=a, b=b)])
    assert isinstance(partly, StackedComposite)
    assert partly[0]["b"] is None
    static = torch.stack(
        [Composite(a=Bounded(0, 1, (2,)), step_mdp_static=True), Composite(a=Bounded(0, 2, (2,)), step_mdp_static=True)]
    )
    assert static.step_mdp_static


# --- there and back ----------------------------------------------------------------------------


@given(st.data())
def test_unsqueeze_then_squeeze_is_the_original(data):
    spec = data.draw(specs())
    dim = data.draw(st.integers(0, spec.batch_ndim))
    assert spec.unsqueeze(dim).shape == (*spec.shape[:dim], 1, *spec.shape[dim:])
    assert spec.unsqueeze(dim).squeeze(dim) == spec
    if spec.event_ndim == 0:
        assert spec.unsqueeze(dim - spec.ndim - 1) == spec.unsqueeze(dim)


@given(st.data())
def test_flatten_then_unflatten_is_the_original(data):
    shape = data.draw(shapes(3, 3, min_dims=2))
    spec = data.draw(specs(shape))
    start = data.draw(st.integers(0, len(shape) - 1))
    end = data.draw(st.integers(start, len(shape) - 1))
    flat = spec.flatten(start, end)
    assert flat.shape == torch.empty(spec.shape, device="meta").flatten(start, end).shape
    assert flat.unflatten(start, shape[start : end + 1]) == spec
    sizes = (-1, *shape[start + 1 : end + 1])
    assert flat.unflatten(start, sizes) == spec


@given(st.data())
def test_reshape_and_back_is_the_original(data):
    shape = data.draw(shapes(3, 3, min_dims=1))
    spec = data.draw(specs(shape))
    events = spec.shape[len(shape) :]
    flat = spec.reshape(-1, *events)
    assert flat.shape == (shape.numel(), *events)
    assert flat.reshape(*shape, *events) == spec
    assert spec.reshape((*shape, *events)) == spec.view(*shape, *events) == spec


@given(st.data())
def test_unbind_then_stack_is_the_original(data):
    spec = data.draw(specs())
    assume(spec.batch_ndim)
    dim = data.draw(st.integers(0, spec.batch_ndim - 1))
    parts = spec.unbind(dim)
    assert len(parts) == spec.shape[dim]
    assert torch.stack(list(parts), dim) == spec


@given(st.data())
def test_permute_and_back_is_the_original(data):
    spec = data.draw(specs())
    order = data.draw(st.permutations(range(spec.batch_ndim)))
    back = [order.index(i) for i in range(len(order))]
    turned = spec.permute(*order) if order else spec.permute(())
    assert turned.shape[: len(order)] == tuple(spec.shape[i] for i in order)
    assert turned.permute(back) == spec
    full = [*order, *range(spec.batch_ndim, spec.ndim)]
    assert spec.permute(full) == turned


# --- every operation does what it does to a tensor ---------------------------------------------

INDICES = {
    "int": 1,
    "negative": -1,
    "slice": slice(1, None),
    "step": slice(None, None, 2),
    "none": None,
    "dots": ...,
    "dots and int": (..., 0),
    "int and dots": (0, ...),
    "two": (1, slice(0, 2)),
    "none first": (None, 1),
    "none between": (slice(None), None, 0),
    "list": [2, 0],
    "lists": ([2, 0], [0, 1]),
    "range": range(2),
    "tensor": torch.tensor([2, 0, 0]),
    "table": torch.tensor([[2, 0], [1, 1]]),
    "bool": torch.tensor([True, False, True]),
    "bool list": [True, False, True],
    "bool table": torch.ones(3, 2, dtype=torch.bool).tril(),
    "array": torch.tensor([2, 0]).numpy(),
    "number of numpy": torch.tensor([2]).numpy()[0],
    "empty list": [],
    "nothing": (),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES.keys())
@pytest.mark.parametrize(
    "spec",
    [
        Unbounded((3, 2)),
        Bounded(torch.arange(6.0).reshape(3, 2), 9, (3, 2)),
        Categorical(3, (3, 2), mask=torch.rand(3, 2, 3, generator=seeded(1)) < 0.6),
        OneHot(3, (3, 2, 3), mask=torch.rand(3, 2, 3, generator=seeded(1)) < 0.6),
        MultiCategorical([2, 3], (3, 2, 2), mask=torch.rand(3, 2, 5, generator=seeded(1)) < 0.6),
        MultiOneHot([2, 3], (3, 2, 5)),
        Binary(shape=(3, 2)),
        Composite(
            a=Categorical(3, (3, 2), mask=torch.rand(3, 2, 3, generator=seeded(1)) < 0.6),
            b=Unbounded((3, 2, 4)),
            shape=(3, 2),
        ),
    ],
    ids=lambda s: type(s).__name__,
)
def test_an_index_does_to_a_spec_what_it_does_to_a_tensor(spec, index):
    batch = torch.arange(6).reshape(3, 2)
    want = batch[index]
    got = spec[index]
    assert got.shape == (*want.shape, *spec.shape[2:])
    for name in getattr(spec, "params", ()):
        old, new = getattr(spec, name), getattr(got, name)
        assert (old is None) is (new is None)
        if old is not None:
            assert torch.equal(new, old.flatten(0, 1)[want])
    if isinstance(spec, Composite):
        assert torch.equal(got["a"].mask, spec["a"].mask.flatten(0, 1)[want])
        assert got["b"].shape == (*want.shape, 4)


FLAGS = torch.tensor([[True, False, True], [False, False, True]])


NEWER = pytest.mark.skipif(
    torch.__version__.startswith("2.6"), reason="PyTorch 2.6 takes a mask before other indices for one dimension"
)


def picks(value: Tensor, index: Any) -> Tensor:
    """What NumPy picks."""
    places = index if type(index) is tuple else (index,)
    return torch.from_numpy(value.numpy()[tuple(x.numpy() if isinstance(x, Tensor) else x for x in places)])


def unlike(dim: int) -> tuple[Stacked, StackedComposite]:
    """Four leaves ``[2, 3]``, and four composites with these and entries of their own, stacked along ``dim``."""
    leaves = [Bounded(10 * i, 10 * i + 1, (2, 3)) for i in range(4)]
    parts = [Composite(x=x, own=Unbounded((2, 3, 1 + i)), shape=(2, 3)) for i, x in enumerate(leaves)]
    return Stacked(*leaves, dim=dim), StackedComposite(*parts, dim=dim)


@pytest.mark.parametrize(
    ("dim", "index"),
    [
        (2, FLAGS),
        (2, (FLAGS, ...)),
        pytest.param(2, (FLAGS, 1), marks=NEWER),
        pytest.param(2, (FLAGS, None, slice(1, 3)), marks=NEWER),
        (2, (None, FLAGS)),
        (0, (slice(None), FLAGS)),
        (0, (..., FLAGS)),
        (0, (2, FLAGS)),
        (0, (None, slice(3), FLAGS)),
        (1, (True, 1, slice(2))),
    ],
    ids=str,
)
def test_a_table_of_flags_picks_from_a_stack_what_it_picks_from_its_values(dim, index):
    leaf, composite = unlike(dim)
    value, data = leaf.rand(), composite.rand()
    picked = picks(value, index)
    assert leaf[index].shape == composite[index].shape == picked.shape
    assert leaf[index].is_in(picked)
    assert composite[index]["x"].is_in(picks(data["x"], index))
    assert composite[index] == Composite(a=composite, shape=composite.shape)[index]["a"]


@pytest.mark.parametrize("dim", [0, 1])
def test_a_table_of_flags_over_the_stacked_dimension_is_refused(dim):
    for spec in unlike(dim):
        flags = torch.ones(spec.shape[:2], dtype=torch.bool)
        for index in (flags, (flags,), (None, flags, ...)):
            with pytest.raises(Unsupported, match="an index by a mask of several dimensions needs equal parts"):
                spec[index]


@given(st.data())
def test_masks_survive_every_operation(data):
    shape = data.draw(shapes(3, 3, min_dims=1))
    spec = data.draw(specs(shape))
    before = masks_of(spec)
    changed = [
        spec.expand(2, *spec.shape),
        spec.unsqueeze(0),
        spec.unsqueeze(0).squeeze(),
        spec[0],
        spec[:1],
        spec[...],
        spec.unbind(0)[0],
        spec.flatten(0, len(shape) - 1),
        spec.unflatten(0, (-1, 1)),
        spec.reshape(1, *spec.shape),
        spec.permute(*reversed(range(spec.batch_ndim))),
        torch.stack([spec, spec]),
        torch.index_select(spec, 0, torch.tensor([0])),
        spec.clone(),
        spec.to("cpu"),
        Composite(deep=Composite(leaf=spec), shape=()).expand(3)["deep", "leaf"],
        Composite(leaf=spec, shape=spec.shape[:1])[0]["leaf"],
    ]
    for after in changed:
        found = masks_of(after)
        assert len(found) == len(before)
        assert after.is_in(after.rand())
    twice = masks_of(spec.expand(2, *spec.shape))
    assert all(torch.equal(new[1], old) for old, new in zip(before, twice, strict=True))


@every_dense
def test_operations_of_torch_and_of_the_spec_agree(example):
    spec = example.make()
    assert torch.unsqueeze(spec, 0) == spec.unsqueeze(0)
    assert torch.squeeze(spec.unsqueeze(0), 0) == spec.unsqueeze(0).squeeze(0)
    wide = spec.expand(6, *spec.shape)
    assert torch.broadcast_to(spec, wide.shape) == wide
    assert torch.unflatten(wide, 0, (2, 3)) == wide.unflatten(0, (2, 3))
    assert torch.flatten(wide.unflatten(0, (2, 3)), 0, 1) == wide
    assert torch.unbind(wide, 0) == wide.unbind(0)
    assert torch.index_select(wide, 0, torch.tensor([1, 4])) == wide[[1, 4]]
    assert torch.clone(wide) == wide
    if -1 not in spec.shape and math.prod(spec.shape):
        assert torch.reshape(wide, (3, 2, *spec.shape)) == wide.reshape(3, 2, *spec.shape)


def test_squeeze_without_a_dimension_leaves_event_dimensions():
    assert OneHot(1, (1, 3, 1, 1)).squeeze().shape == (3, 1)
    assert Composite(a=Unbounded((1, 3, 1)), shape=(1, 3)).squeeze()["a"].shape == (3, 1)
    assert Unbounded((1, 3, 1)).squeeze().shape == (3,)
    spec = Unbounded((2, 3))
    assert spec.squeeze() is spec
    assert spec.squeeze(0) is spec


def test_expand_makes_dimensions_of_size_1_larger():
    spec = Categorical(2, (1, 3), mask=mask("10", "01", "11"))
    wide = spec.expand(4, -1, 3)
    assert wide.shape == (4, 1, 3)
    assert torch.equal(spec.expand(5, 3).mask[4], spec.mask[0])
    assert Choice([Categorical(2), Categorical(3)]).expand(4).shape == (4,)


def test_shapes_may_be_given_as_numpy_numbers():
    import numpy as np

    assert Unbounded(np.int64(3)).shape == Unbounded((np.int32(3),)).shape == Unbounded(3).shape == (3,)
    assert Unbounded(np.array([2, 3])).shape == (2, 3)
    assert Unbounded(()).rand(np.int64(2)).shape == (2,)


# --- lazy stacks -------------------------------------------------------------------------------


def lazy(dim: int) -> Stacked:
    """Unequal parts of one shape: comparable with a dense tensor."""
    return Stacked(*[Categorical(n, (2, 4)) for n in (3, 4, 5)], dim=dim)


def numbers(spec, dims: int) -> Tensor:
    """Which part stands where: the number of values, as a dense tensor."""
    if isinstance(spec, Stacked):
        return torch.stack([numbers(p, dims) for p in spec.parts], spec.dim)
    return torch.full(spec.shape, spec.n)


LAZY = {
    **{
        f"[{name}]": lambda s, i=i: s[i]
        for name, i in INDICES.items()
        if name
        not in (
            "two",
            "lists",
            "bool table",
            "empty list",
            "table",
            "range",
            "bool",
            "bool list",
            "list",
            "tensor",
            "array",
            "number of numpy",
        )
    },
    "[list]": lambda s: s[[0, 1]],
    "[:, list]": lambda s: s[:, [1, 0]],
    "[:, :, tensor]": lambda s: s[:, :, torch.tensor([1, 0])],
    "[..., 1:]": lambda s: s[..., 1:],
    "[0, None]": lambda s: s[0, None],
    "[None, :, 1]": lambda s: s[None, :, 1],
    "[1, :, 0]": lambda s: s[1, :, 0],
    "unsqueeze(0)": lambda s: s.unsqueeze(0),
    "unsqueeze(1)": lambda s: s.unsqueeze(1),
    "unsqueeze(-1)": lambda s: s.unsqueeze(-1),
    "expand": lambda s: s.expand(5, *s.shape),
    "permute": lambda s: s.permute(2, 0, 1),
    "unbind(0)": lambda s: s.unbind(0)[1],
    "unbind(1)": lambda s: s.unbind(1)[0],
    "unbind(-1)": lambda s: s.unbind(-1)[1],
    "squeeze": lambda s: s.unsqueeze(1).unsqueeze(0).squeeze(),
    "squeeze(1)": lambda s: s.unsqueeze(1).squeeze(1),
    "reshape": lambda s: s.reshape(1, *s.shape),
}


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("operation", LAZY.values(), ids=LAZY.keys())
def test_a_lazy_stack_is_reshaped_like_a_tensor(dim, operation):
    spec = lazy(dim)
    dense_one = numbers(spec, 3)
    want = operation(dense_one)
    got = operation(spec)
    assert got.shape == want.shape
    assert torch.equal(numbers(got, want.ndim), want)
    assert got.is_in(got.rand())


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_a_lazy_stack_flattens_beside_the_stacked_dimension(dim):
    spec = lazy(dim).unsqueeze(0) if dim else lazy(dim).unsqueeze(-1)
    pair = (0, 1) if dim == 2 else (2, 3) if dim == 0 else None
    if pair is None:
        return
    flat = spec.flatten(*pair)
    assert torch.equal(numbers(flat, 3), numbers(spec, 4).flatten(*pair))
    back = flat.unflatten(pair[0], spec.shape[pair[0] : pair[1] + 1])
    assert back == spec


@pytest.mark.parametrize(
    "operation",
    [
        lambda s: s.flatten(0, 1),
        lambda s: s.unflatten(0, (3, 1)),
        lambda s: s.reshape(24),
        lambda s: s[torch.ones(3, 2, dtype=torch.bool)],
        lambda s: s[torch.tensor([[0, 1]])],
        lambda s: s[[0], [1]],
        lambda s: s.make_neg_dim(0),
    ],
)
def test_a_lazy_stack_says_what_it_cannot_do(operation):
    with pytest.raises(Unsupported, match="stacked along dimension 0"):
        operation(lazy(0))


def test_a_lazy_stack_of_one_part_expands():
    assert lazy(0)[:1].expand(3, 2, 4).shape == (3, 2, 4)


def test_composites_that_hold_lazy_stacks_are_reshaped_like_any_other():
    parts = [Composite(obs=Unbounded((4, n)), shape=(4,)) for n in (2, 3)]
    env = Composite(team=torch.stack(parts, 1), step=Unbounded((4, 1)), shape=(4,))
    assert env["team"].shape == (4, 2)
    for operation, team in [
        (lambda s: s.expand(5, 4), (5, 4, 2)),
        (lambda s: s[0], (2,)),
        (lambda s: s[1:3], (2, 2)),
        (lambda s: s.unsqueeze(0), (1, 4, 2)),
        (lambda s: s.unsqueeze(1), (4, 1, 2)),
        (lambda s: s.unsqueeze(0).squeeze(), (4, 2)),
        (lambda s: s.reshape(2, 2), (2, 2, 2)),
        (lambda s: s.unflatten(0, (2, 2)), (2, 2, 2)),
        (lambda s: s.unflatten(0, (2, 2)).flatten(0, 1), (4, 2)),
        (lambda s: s.unflatten(0, (2, 2)).permute(1, 0), (2, 2, 2)),
        (lambda s: s.unbind(0)[3], (2,)),
        (lambda s: torch.stack([s, s], 1), (4, 2, 2)),
        (lambda s: s.clone().to("cpu"), (4, 2)),
    ]:
        got = operation(env)
        assert got["team"].shape == team
        assert got["team"][..., 1]["obs"].shape == (*team[:-1], 3)
        assert got.is_in(got.rand())


def test_stacked_values_have_leading_dimensions_when_their_shapes_agree():
    spec = lazy(1)
    value = spec.rand((7,))
    assert value.shape == (7, 2, 3, 4)
    assert spec.is_in(value)
    assert same(spec.zero((7,)), torch.zeros(7, 2, 3, 4, dtype=torch.int64))
    with pytest.raises(Unsupported, match="values of different shapes"):
        Stacked(Unbounded((2,)), Unbounded((3,)), dim=0).rand((2,))


def test_wrong_shapes_are_refused():
    spec = Bounded(0, 1, (2, 3))
    for wrong in (
        lambda: spec.expand(4, 5),
        lambda: spec.reshape(4),
        lambda: spec.unflatten(0, (3, 1)),
        lambda: spec.permute(0),
        lambda: spec.permute(0, 0),
        lambda: OneHot(3).expand(4),
        lambda: OneHot(3).reshape(()),
        lambda: lazy(0).expand(4, 2, 4),
        lambda: lazy(0).permute(0, 1),
    ):
        with pytest.raises(ShapeError):
            wrong()
    for wrong in (
        lambda: spec[0, 0, 0],
        lambda: spec[5],
        lambda: spec[..., 0, ...],
        lambda: spec.unsqueeze(4),
        lambda: spec.unbind(2),
        lambda: OneHot(3)[0],
        lambda: OneHot(3).unsqueeze(-1),
        lambda: lazy(0)[3],
        lambda: lazy(0)[[7]],
        lambda: lazy(0).unbind(3),
        lambda: torch.stack([spec, spec], 4),
    ):
        with pytest.raises(IndexError):
            wrong()
