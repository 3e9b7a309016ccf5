"""Moving specs between devices and dtypes."""

from __future__ import annotations

import pytest
import torch
from laws import same, seeded

from marlenv import Binary, Bounded, Categorical, Composite, NonTensor, OneHot, RowRNG, Unbounded, make
from marlenv.testing.catalogue.specs import SPECS, inside, mask

META, CPU = torch.device("meta"), torch.device("cpu")
every = pytest.mark.parametrize("example", SPECS, ids=lambda e: e.name)
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@every
def test_to_another_device_moves_everything(example):
    spec = example.make()
    moved = spec.to("meta")
    for one in inside(moved):
        assert one.device == META
        assert all(getattr(one, n) is None or getattr(one, n).device == META for n in one.params)
    assert moved.shape == spec.shape
    assert moved == moved.clone()
    assert moved != spec or isinstance(spec, Composite)


@every
def test_where_it_is_already_nothing_happens(example):
    spec = example.make()
    assert spec.to(spec.device) is spec or spec.to(spec.device) == spec
    assert spec.to(None) is spec
    assert spec.cpu() == spec.to("cpu")


def test_meta_values_are_checked_by_shape_and_dtype():
    spec = Composite(a=Bounded(0, 1, (2,)), b=Categorical(3, mask=mask("110")), device="meta")
    value = spec.rand()
    assert value.device == META
    assert spec.is_in(value)
    assert not spec.is_in(value.to(torch.float16))
    assert Bounded(0, 1, (2,)).is_in(torch.empty(2, device="meta"))
    assert not Bounded(0, 1, (2,)).is_in(torch.empty(3, device="meta"))
    assert Bounded(0, 1, (2,), device="meta").is_in(torch.full((2,), 7.0))
    assert "bounded" in repr(Bounded(0, 1, (2,), device="meta"))


def test_numbers_of_rows_arrive_on_the_device_of_the_spec():
    assert Bounded(0, 1, (2,), device="meta").rand(rng=RowRNG()).device == META


def test_the_cpu_has_one_name():
    """Tensors of ``cpu:0`` say ``cpu``; an env of it refused their actions."""
    spec = Bounded(0, 1, (2,), device="cpu:0")
    assert spec.device == spec.rand().device == CPU
    env = make("simple_spread", num_envs=2, seed=0, device="cpu:0", compile="none")
    assert env.device == CPU
    assert env.rollout(3).device == CPU


def test_the_default_device_counts():
    with torch.device("meta"):
        assert Unbounded((2,)).device == META
        assert Bounded(0, 1, (2,)).low.device == META
        assert Composite().device is None
    assert NonTensor(()).device is None


DTYPES = [
    (Bounded(-1.5, 2.5, (2,)), torch.int64, (-1, 2)),
    (Bounded(-1.5, 2.5, (2,)), torch.float64, (-1.5, 2.5)),
    (Bounded(float("-inf"), float("inf"), (2,)), torch.int32, (-(2**31), 2**31 - 1)),
    (Bounded(-9, 300, (2,), dtype=torch.int64), torch.uint8, (0, 255)),
]


@pytest.mark.parametrize(("spec", "dtype", "ends"), DTYPES)
def test_bounds_are_cast_with_the_dtype(spec, dtype, ends):
    made = spec.to(dtype)
    assert made.dtype == made.low.dtype == dtype
    assert (made.low[0].item(), made.high[0].item()) == ends
    assert made.is_in(made.rand())


def test_python_numbers_keep_their_precision():
    assert Bounded(0.1, 0.2, (1,), dtype=torch.float64).low.item() == 0.1
    assert Bounded(0, 2**62 + 1, (1,), dtype=torch.int64).high.item() == 2**62 + 1


def test_dtypes_may_be_names():
    assert Unbounded((2,), dtype="int32").dtype == torch.int32
    assert Bounded(0, 1, (2,), dtype="float64").dtype == torch.float64
    assert Categorical(3, dtype="uint8").rand().dtype == torch.uint8


def test_bounds_that_are_tensors_do_not_say_the_dtype():
    assert Bounded(torch.zeros(2, dtype=torch.int64), 3, (2,)).dtype == torch.get_default_dtype()
    assert Bounded(torch.zeros(2, dtype=torch.float64), 3).dtype == torch.get_default_dtype()


def test_a_composite_casts_all_its_entries():
    spec = Composite(a=Unbounded((2,)), b=Composite(c=OneHot(3)), d=None, e=NonTensor(())).to(torch.float64)
    assert spec["a"].dtype == spec["b", "c"].dtype == torch.float64
    assert spec["d"] is None
    assert spec["e"].dtype is None


@every
def test_values_on_another_device_than_the_spec_are_checked(example):
    spec = example.make()
    if example.name.startswith("stacked sizes"):
        return
    value = spec.rand()
    if isinstance(value, torch.Tensor):
        assert spec.is_in(value.to("meta"))


@pytest.mark.gpu
@needs_cuda
def test_cuda_draws_checks_projects_and_comes_back():
    for example in SPECS:
        spec = example.make().to("cuda")
        value = spec.rand()
        assert spec.is_in(value), example.name
        assert spec.project(value) is value
        assert spec == example.make().cuda() == spec.to(torch.device("cuda", 0)) == example.make().cuda(0)
        assert spec.cpu() == example.make().to("cpu")
        assert same(spec.encode(spec.to_numpy(value)), value), example.name


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize(
    "spec",
    [
        Bounded(-1, 1, (8, 3)),
        Categorical(5, (8,), mask=mask("10110")),
        Unbounded((8, 2), dtype=torch.int64),
        Binary(shape=(8, 4)),
        OneHot(4, (8, 4)),
    ],
    ids=lambda s: type(s).__name__,
)
def test_rows_draw_the_same_on_every_device(spec):
    here = spec.rand(rng=RowRNG(seed=3, rows=[8]))
    there = spec.to("cuda").rand(rng=RowRNG(seed=3, rows=[8], device="cuda"))
    assert there.is_cuda
    assert same(there.cpu(), here)
    assert spec.is_in(there)
    assert same(spec.project(there).cpu(), here)


def test_a_generator_draws_on_its_device():
    assert Unbounded((2,)).rand(rng=seeded(1)).device == CPU
