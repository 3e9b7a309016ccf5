"""Where the randomness of ``rand`` comes from, and how its draws are distributed."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from laws import given, same, seeded
from scipy import stats

from marlenv import (
    Binary,
    Bounded,
    Categorical,
    Choice,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    RowRNG,
    Stacked,
    StackedComposite,
    Unbounded,
)
from marlenv.errors import ShapeError, Unsupported
from marlenv.specs.bounded import whole_of
from marlenv.specs.discrete import pick
from marlenv.testing.catalogue.specs import SPECS, mask
from marlenv.testing.strategies import specs

every = pytest.mark.parametrize("example", SPECS, ids=lambda e: e.name)
by_rows = [
    e for e in SPECS if not isinstance(e.make(), (Stacked, StackedComposite)) and e.name != "composite of stacks"
]
N = 20_000
ALPHA = 1e-3  # the seeds are fixed, so a test fails always or never


# --- where it comes from -----------------------------------------------------------------------


@pytest.mark.parametrize("example", by_rows, ids=lambda e: e.name)
def test_a_row_draws_the_same_in_batches_of_1_8_and_64(example):
    spec = example.make()
    draws = {n: spec.expand(n, *spec.shape).rand(rng=RowRNG(seed=5, rows=[n])) for n in (1, 8, 64)}
    for n, value in draws.items():
        assert spec.expand(n, *spec.shape).is_in(value)
        for i in {0, n - 1}:
            assert same(value.unbind(0)[i], draws[64].unbind(0)[i])


@given(specs())
def test_any_spec_draws_the_same_for_a_row_of_any_batch(spec):
    one, many = (spec.expand(n, *spec.shape).rand(rng=RowRNG(seed=9, rows=[n])) for n in (1, 4))
    assert same(one.unbind(0)[0], many.unbind(0)[0])


def test_rows_may_be_extra_leading_dimensions_or_the_batch_of_the_spec():
    extra = Bounded(0, 1, (2,)).rand((4,), rng=RowRNG(seed=3, rows=[4]))
    within = Bounded(0, 1, (4, 2)).rand(rng=RowRNG(seed=3, rows=[4]))
    assert torch.equal(extra, within)
    single = Bounded(0, 1, (2,)).rand(rng=RowRNG(seed=3))
    assert torch.equal(single, extra[0])


def test_stacks_in_a_batch_draw_row_by_row():
    spec = next(e for e in SPECS if e.name == "stacked composite").make()
    one, many = (spec[:n].rand(rng=RowRNG(seed=2, rows=[n])) for n in (1, 4))
    assert same(one[0], many[0])


def test_drawing_moves_only_the_rng_that_was_given():
    rng = RowRNG(seed=1, rows=[4])
    other = rng.clone()
    Bounded(0, 1, (4, 3)).rand(rng=rng)
    assert rng.counter.tolist() == [3] * 4
    assert other.counter.tolist() == [0] * 4


@every
@pytest.mark.parametrize("source", ["rows", "generator"])
def test_no_global_rng_is_read_or_moved(example, source):
    spec = example.make()

    def draw():
        if source == "generator":
            return spec.rand(rng=seeded(3))
        return spec.rand(rng=RowRNG(seed=3))

    def states():
        return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()

    before = states()
    first = draw()
    assert states() == before
    torch.manual_seed(12345)
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    assert same(draw(), first)


@every
def test_a_generator_reproduces(example):
    spec = example.make()
    assert same(spec.rand(rng=seeded(1)), spec.rand(rng=seeded(1)))


@every
def test_without_a_generator_the_seed_of_torch_counts(example):
    spec = example.make()
    draws = []
    for _ in range(2):
        torch.manual_seed(4)
        draws.append(spec.rand())
    assert same(*draws)


def test_drawing_again_gives_other_values():
    rng, generator = RowRNG(), seeded(0)
    spec = Composite(a=Unbounded((8,)), b=Categorical(100, (8,)))
    assert not same(spec.rand(rng=rng), spec.rand(rng=rng))
    assert not same(spec.rand(rng=generator), spec.rand(rng=generator))


def test_sample_is_rand():
    for example in SPECS:
        spec = example.make()
        assert same(spec.sample(rng=seeded(1)), spec.rand(rng=seeded(1)))


def test_rows_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match=r"the rows of rng must be the leading dimensions of the draw \[4, 2\]"):
        Bounded(0, 1, (4, 2)).rand(rng=RowRNG(rows=[3]))
    with pytest.raises(Unsupported, match="rows of rng must be batch dimensions"):
        Choice([Categorical(2), Categorical(3)]).rand(rng=RowRNG(rows=[3]))


# --- how it is distributed ---------------------------------------------------------------------

SOURCES = {"generator": lambda: seeded(7), "rows": lambda: RowRNG(seed=7, rows=[N])}
sources = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())


def draw(spec, source):
    return spec.rand((N,), rng=source())


def fair(counts) -> bool:
    """Whether counts are as equal as chance makes them (chi-square)."""
    return stats.chisquare(np.asarray(counts)).pvalue > ALPHA


@sources
@pytest.mark.parametrize("flags", ["11111", "10110", "00100"])
def test_masked_values_are_drawn_evenly(source, flags):
    counts = draw(Categorical(5, mask=mask(flags)), source).bincount(minlength=5)
    allowed = mask(flags)
    assert not counts[~allowed].any()
    assert allowed.sum() == 1 or fair(counts[allowed])
    hot = draw(OneHot(5, mask=mask(flags)), source).sum(0)
    assert not hot[~allowed].any()
    assert allowed.sum() == 1 or fair(hot[allowed])


@sources
def test_components_are_drawn_evenly_and_independently(source):
    numbers = draw(MultiCategorical([3, 4]), source)
    assert fair((numbers[:, 0] * 4 + numbers[:, 1]).bincount(minlength=12))
    hot = draw(MultiOneHot([3, 4], mask=mask("1110111")), source)
    assert fair((hot[:, :3].float().argmax(-1) * 3 + hot[:, 4:].float().argmax(-1)).bincount(minlength=9))
    bits = draw(Binary(3), source).long()
    assert fair((bits * torch.tensor([4, 2, 1])).sum(-1).bincount(minlength=8))


@sources
def test_unequal_rows_of_nvec_are_drawn_evenly_each(source):
    numbers = draw(MultiCategorical([[2, 3], [4, 5]]), source)
    for i, row in enumerate([[2, 3], [4, 5]]):
        for k, n in enumerate(row):
            assert fair(numbers[:, i, k].bincount(minlength=n))


@sources
@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, 9, torch.int64),
        (-3, 3, torch.int8),
        (0, 255, torch.uint8),
        (2**62, 2**62 + 9, torch.int64),
        (-(2**31), -(2**31) + 4, torch.int32),
    ],
)
def test_integers_between_bounds_are_drawn_evenly(source, low, high, dtype):
    values = draw(Bounded(low, high, (), dtype=dtype), source).long() - low
    assert fair(values.bincount(minlength=high - low + 1))


@sources
@pytest.mark.parametrize(
    ("low", "high"), [(-(2**63), 2**63 - 1), (0, 2**63 - 1), (-(2**40), 2**40), (-(2**62), 2**62 + 12345)]
)
def test_wide_ranges_are_covered_evenly(source, low, high):
    values = draw(Bounded(low, high, (), dtype=torch.int64), source)
    assert int(values.min()) >= low
    assert int(values.max()) <= high
    share = (values.double() - low) / (float(high) - float(low))
    assert stats.kstest(share.numpy(), "uniform").pvalue > ALPHA


@sources
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64])
def test_unbounded_integers_cover_their_range_evenly(source, dtype):
    info = torch.iinfo(dtype)
    values = draw(Unbounded((), dtype=dtype), source).double()
    share = (values - info.min + 0.5) / (float(info.max) - info.min + 1)
    assert (
        stats.kstest(
            share.numpy() + np.random.default_rng(0).uniform(-0.5, 0.5, N) / (float(info.max) - info.min + 1), "uniform"
        ).pvalue
        > ALPHA
    )
    if dtype == torch.int32:
        assert fair((draw(Unbounded((), dtype=dtype), source) & 15).bincount(minlength=16))


@sources
@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 1e-3), (5.0, 9.0), (-3e38, 3e38), (-1e30, 3e38)])
def test_floats_between_bounds_are_uniform(source, low, high):
    values = draw(Bounded(low, high, ()), source).double().numpy()
    assert stats.kstest((values - low) / (high - low), "uniform").pvalue > ALPHA


@sources
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_unbounded_floats_are_standard_normal(source, dtype):
    assert stats.kstest(draw(Unbounded((), dtype=dtype), source).numpy(), "norm").pvalue > ALPHA
    assert stats.kstest(draw(Bounded(-math.inf, math.inf, (), dtype=dtype), source).numpy(), "norm").pvalue > ALPHA


@sources
def test_half_lines_are_exponential(source):
    assert stats.kstest(draw(Bounded(2, math.inf, ()), source).numpy() - 2, "expon").pvalue > ALPHA
    assert stats.kstest(2 - draw(Bounded(-math.inf, 2, ()), source).numpy(), "expon").pvalue > ALPHA


@sources
def test_choices_are_drawn_evenly(source):
    spec = Choice([Bounded(i, i + 0.5, ()) for i in range(4)])
    n = 2000
    rng = seeded(1) if source is SOURCES["generator"] else RowRNG(seed=1, rows=[n])
    assert fair(spec.expand(n).rand(rng=rng).long().bincount(minlength=4))


def test_very_many_values_are_all_reachable():
    spec = Categorical(1 << 30)
    assert spec.unit_dtype == torch.float64
    values = draw(spec, SOURCES["generator"])
    assert fair((values & 7).bincount(minlength=8))


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1), st.floats(0, 1, exclude_max=True))
def test_whole_numbers_never_leave_their_bounds(a, b, unit):
    low, high = sorted([a, b])
    got = whole_of(torch.tensor(unit, dtype=torch.float64), torch.tensor(low), torch.tensor(high))
    assert low <= int(got) <= high
    assert int(whole_of(torch.tensor(0.0, dtype=torch.float64), torch.tensor(low), torch.tensor(high))) == low


@pytest.mark.parametrize(
    "span", [1, 9, 2**53 - 1, 2**53, 2**53 + 1, 2**60 + 199, 2**62 - 1, 2**63 - 1, 2**63, 2**64 - 1]
)
def test_the_largest_number_below_1_stands_for_an_integer_within_the_bounds(span):
    unit = torch.tensor(math.nextafter(1, 0), dtype=torch.float64)
    for low in (-(2**63), 2**63 - 1 - span):
        got = int(whole_of(unit, torch.tensor(low), torch.tensor(low + span)))
        assert low + span - 2**11 <= got <= low + span


@given(
    st.floats(-(2.0**127), 2.0**127, width=32),
    st.floats(-(2.0**127), 2.0**127, width=32),
    st.floats(0, 1, exclude_max=True, width=32),
)
def test_floats_never_leave_their_bounds(a, b, unit):
    low, high = sorted([a, b])
    spec = Bounded(low, high, ())
    assert spec.is_in(spec.from_unit(torch.tensor(unit)))


def test_non_tensors_draw_their_example():
    assert NonTensor((), example_data="x").rand(rng=RowRNG()).data == "x"


def _counted(unit, mask):
    """The draw among allowed values by its definition, one element after the other."""
    allowed = mask.nonzero().flatten().tolist()
    return allowed[int(unit * len(allowed))] if allowed else len(mask) - 1


@pytest.mark.parametrize("n", [1, 2, 5, 361])
@pytest.mark.parametrize("shape", [(), (1,), (6,), (3, 4), (0,)])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.int64])
def test_masked_draws_count_the_allowed_values(n, shape, dtype):
    """Of masks and numbers however they lie in memory; nothing allowed gives the last value, 255 allows as 1 does."""
    stream = torch.Generator().manual_seed(n)
    for p in (0.0, 0.2, 0.5, 1.0):
        wide = torch.rand((*shape, 2 * n), generator=stream) < p
        masks = {"strided": wide[..., ::2], "turned": wide[..., :n].movedim(-1, 0).clone().movedim(0, -1)}
        masks["one for all"] = (torch.rand(n, generator=stream) < p).expand(*shape, n)
        unit = torch.rand((*shape[::-1],), generator=stream).permute(list(range(len(shape)))[::-1])
        for name, allowed in masks.items():
            given = allowed if dtype == torch.bool else 255 * allowed.to(dtype)
            for value in (unit, torch.zeros(shape), torch.full(shape, 1 - 2.0**-24)):
                got = pick(value, given)
                want = [_counted(float(u), m) for u, m in zip(value.reshape(-1), allowed.reshape(-1, n), strict=True)]
                assert got.dtype == torch.int64, name
                assert got.reshape(-1).tolist() == want, name
                assert got.shape == shape, name


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_numbers_are_drawn_as_torch_draws_them(dtype):
    spec = Unbounded((2, 3), dtype=dtype)
    drawn = spec.rand(5, rng=torch.Generator().manual_seed(0))
    assert torch.equal(drawn, torch.randn((5, 2, 3), dtype=dtype, generator=torch.Generator().manual_seed(0)))
    many = Unbounded((4000,), dtype=dtype)
    rows = many.rand(3, rng=RowRNG(7, rows=[3]))
    assert rows.dtype == dtype
    assert torch.equal(rows[:1], many.rand(1, rng=RowRNG(7, rows=[1])))
    parts = torch.view_as_real(rows.to(torch.complex128)).reshape(-1, 2)
    assert torch.allclose(parts.mean(0), torch.zeros(2, dtype=torch.float64), atol=0.03)
    assert torch.allclose(parts.T.cov(), torch.eye(2, dtype=torch.float64) / 2, atol=0.03)  # E|z|^2 = 1
    assert torch.stack([spec, spec]).rand().dtype == Composite(z=spec).rand()["z"].dtype == dtype
    assert spec.is_in(spec.rand())
    assert spec.domain == "continuous"
    assert spec.cardinality() == float("inf")
    assert bool(spec.space.high.real.isinf().all() and spec.space.high.imag.isinf().all())
