"""Counter-based randomness: known numbers, independence of rows, and the distributions of its draws."""

from __future__ import annotations

import copy
import math
import pickle
import random
from itertools import permutations

import numpy as np
import pytest
import torch
from scipy import stats

from marlenv import RowRNG
from marlenv.errors import ShapeError, SpecError
from marlenv.rng import mix, mix_, row_keys

ROWS = 20_000
ALPHA = 1e-3  # the seeds are fixed: a test fails always or never


def unsigned(x: torch.Tensor) -> list[int]:
    return [int(v) % (1 << 64) for v in x.reshape(-1)]


def bits_of(x: torch.Tensor) -> torch.Tensor:
    """The 64 bits of every number, as 0 and 1."""
    return (x.unsqueeze(-1) >> torch.arange(64)) & 1


def uniform_pvalue(x: torch.Tensor) -> float:
    return float(stats.kstest(x.double().reshape(-1).numpy(), "uniform").pvalue)


def fair(counts: torch.Tensor, weights=None) -> bool:
    counts = np.asarray(counts, dtype=float)
    share = None if weights is None else np.asarray(weights, dtype=float)
    want = None if share is None else share / share.sum() * counts.sum()
    return bool(stats.chisquare(counts, want).pvalue > ALPHA)


# --- known numbers -----------------------------------------------------------------------------

# SplitMix64, from the reference implementation in C (Vigna, https://prng.di.unimi.it/splitmix64.c)
VECTORS = {
    1234567: [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821],
    0: [16294208416658607535, 7960286522194355700, 487617019471545679, 17909611376780542444, 1961750202426094747],
}


@pytest.mark.parametrize("seed", VECTORS)
def test_the_bits_are_those_of_splitmix64(seed):
    rng = RowRNG()
    rng.key = torch.tensor(seed)
    assert unsigned(rng.bits([5])) == VECTORS[seed]
    assert rng.counter == 5


def test_the_bits_agree_with_arithmetic_on_python_ints():
    def reference(state: int, n: int) -> list[int]:
        out = []
        for _ in range(n):
            state = (state + 0x9E3779B97F4A7C15) % (1 << 64)
            z = state
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % (1 << 64)
            z = (z ^ (z >> 27)) * 0x94D049BB133111EB % (1 << 64)
            out.append(z ^ (z >> 31))
        return out

    rng = RowRNG(seed=99, rows=[4])
    keys = unsigned(rng.key)
    assert [unsigned(row) for row in rng.bits([7])] == [reference(key, 7) for key in keys]


def test_these_numbers_never_change():
    rng = RowRNG(seed=7, rows=[2])
    assert unsigned(rng.key) == [8409816773569330625, 4132426733580152496]
    assert rng.randint(0, 1000, [3]).tolist() == [[950, 879, 901], [897, 189, 944]]
    assert rng.permutation(5).tolist() == [[4, 1, 0, 2, 3], [3, 4, 2, 1, 0]]
    assert rng.uniform(shape=[1], dtype=torch.float64).tolist() == [[0.8933568224355569], [0.29916455505172]]
    assert rng.normal(shape=[1]).flatten().tolist() == pytest.approx([-0.756576418876648, -0.19603852927684784])
    assert rng.choice(torch.tensor([1.0, 2.0, 1.0]).expand(2, 1, 3)).tolist() == [[1], [0]]


def test_mix_is_a_bijection_that_spreads_every_bit():
    x = torch.arange(-50_000, 50_000)
    assert len(mix(x).unique()) == len(x)
    base = mix(torch.tensor(123456789))
    flipped = mix(torch.tensor(123456789) ^ (torch.ones(64, dtype=torch.int64) << torch.arange(64)))
    changed = bits_of(flipped ^ base).sum(-1)
    assert int(changed.min()) > 15
    assert int(changed.max()) < 49


@pytest.mark.parametrize("shape", [(), (0,), (1000,), (2, 3, 5)])
def test_mixing_in_place_gives_the_same_words(shape):
    wide = RowRNG(3, [*shape, 2]).bits()
    whole = wide[..., 0].clone()
    with_gaps = wide[..., 1]
    for x in (whole, with_gaps):
        wanted = mix(x)
        assert mix_(x) is x
        assert torch.equal(x, wanted)
    assert torch.equal(wide[..., 1], with_gaps)


# --- rows --------------------------------------------------------------------------------------

DRAWS = {
    "bits": lambda rng: rng.bits([3]),
    "uniform": lambda rng: rng.uniform(-1, 5, [3]),
    "uniform double": lambda rng: rng.uniform(shape=[2, 2], dtype=torch.float64),
    "normal": lambda rng: rng.normal(2.0, 3.0, [3]),
    "randint": lambda rng: rng.randint(-5, 5, [3]),
    "permutation": lambda rng: rng.permutation(6),
    "choice": lambda rng: rng.choice(torch.tensor([1.0, 0.0, 2.0]).expand(*rng.rows, 4, 3)),
    "choice of masks": lambda rng: rng.choice(torch.tensor([True, False, True]).expand(*rng.rows, 3)),
    "fork": lambda rng: rng.fork(3).bits([2]),
}
every_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())


@every_draw
def test_a_row_draws_the_same_in_a_batch_of_any_size(draw):
    many = draw(RowRNG(seed=5, rows=[64]))
    for n in (1, 8):
        assert torch.equal(draw(RowRNG(seed=5, rows=[n])), many[:n])
    grid = draw(RowRNG(seed=5, rows=[8, 8]))
    assert torch.equal(grid.flatten(0, 1), many)


@every_draw
def test_some_rows_draw_what_they_would_have_drawn(draw):
    rng = RowRNG(seed=5, rows=[8])
    rng.bits([2])
    index = torch.tensor([6, 1])
    part = draw(rng[index])
    assert rng.counter.tolist() == [2] * 8
    assert torch.equal(part, draw(rng)[index])


@every_draw
def test_draws_repeat_from_a_state(draw):
    rng = RowRNG(seed=3, rows=[4])
    rng.bits([7])
    saved = rng.state
    assert saved.shape == (4, 2)
    first = draw(rng)
    assert torch.equal(draw(RowRNG.from_state(saved)), first)
    assert torch.equal(saved, RowRNG.from_state(saved).state)
    assert not torch.equal(draw(rng), first) or draw is DRAWS["fork"]


@every_draw
def test_copies_draw_the_same(draw):
    rng = RowRNG(seed=3, rows=[4])
    rng.bits([7])
    made = [rng.clone(), copy.deepcopy(rng), pickle.loads(pickle.dumps(rng)), rng.to("cpu"), rng[:], rng[...]]
    first = draw(rng)
    for one in made:
        assert torch.equal(draw(one), first)


@every_draw
def test_no_global_rng_is_read_or_moved(draw):
    def states():
        return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()

    before, first = states(), draw(RowRNG(seed=1, rows=[4]))
    assert states() == before
    torch.manual_seed(77)
    assert torch.equal(draw(RowRNG(seed=1, rows=[4])), first)


def test_drawing_in_one_row_or_two_steps_gives_the_same_numbers():
    one, two = RowRNG(seed=2, rows=[3]), RowRNG(seed=2, rows=[3])
    assert torch.equal(one.bits([5]), torch.cat([two.bits([2]), two.bits([3])], -1))


def test_the_counter_moves_by_what_was_drawn():
    rng = RowRNG(rows=[2])
    for draw, used in [
        (rng.bits, 1),
        (lambda: rng.bits([2, 3]), 6),
        (lambda: rng.uniform(shape=[4]), 4),
        (lambda: rng.normal(shape=[4]), 8),
        (lambda: rng.randint(0, 3, [2]), 2),
        (lambda: rng.permutation(5), 5),
        (lambda: rng.choice(torch.ones(2, 3)), 1),
        (lambda: rng.bits([0]), 0),
        (lambda: rng.fork(1), 0),
    ]:
        before = rng.counter.clone()
        draw()
        assert (rng.counter - before).tolist() == [used] * 2


def test_moving_a_clone_or_a_part_leaves_the_original():
    rng = RowRNG(rows=[3])
    for other in (rng.clone(), rng[:2], rng[0], RowRNG.from_state(rng.state)):
        other.bits([4])
    assert rng.counter.tolist() == [0, 0, 0]


def test_rows_last_gives_the_same_numbers_turned_around():
    for draw in (
        lambda rng, last: rng.bits([2, 3], rows_last=last),
        lambda rng, last: rng.uniform(shape=[2, 3], rows_last=last),
        lambda rng, last: rng.normal(shape=[2, 3], rows_last=last),
        lambda rng, last: rng.randint(0, 9, [2, 3], rows_last=last),
    ):
        first, last = draw(RowRNG(seed=4, rows=[5]), False), draw(RowRNG(seed=4, rows=[5]), True)
        assert last.shape == (2, 3, 5)
        assert last.is_contiguous()
        assert torch.equal(last.movedim(-1, 0), first)


def test_any_int_is_a_seed():
    keys = [int(RowRNG(seed=s).key) for s in (0, 1, -1, 2**63, 2**64 - 2, 2**200 + 5)]
    assert len(set(keys)) == len(keys)
    assert RowRNG(seed=2**64 + 3).key == RowRNG(seed=3).key
    per_row = RowRNG(seed=torch.tensor([3, 3, 4]), rows=3)
    assert per_row.key[0] == RowRNG(seed=3).key
    assert per_row.key[0] != per_row.key[1]


def test_rows_may_be_a_number_or_none():
    assert RowRNG(rows=3).rows == (3,)
    assert RowRNG().rows == ()
    assert RowRNG().bits().shape == ()
    assert RowRNG(rows=[0]).uniform(shape=[2]).shape == (0, 2)
    assert repr(RowRNG(rows=[2, 3])) == "RowRNG(rows=[2, 3], device=cpu)"


def test_numbers_do_not_depend_on_the_device():
    moved = RowRNG(seed=3, rows=[4]).to("meta")
    assert moved.device.type == "meta"
    assert moved.uniform(shape=[2]).shape == (4, 2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@every_draw
def test_numbers_are_equal_on_cuda(draw):
    here, there = RowRNG(seed=5, rows=[64]), RowRNG(seed=5, rows=[64], device="cuda")
    if draw in (DRAWS["choice"], DRAWS["choice of masks"]):
        weights = torch.tensor([1.0, 0.0, 2.0]).expand(64, 3)
        assert torch.equal(here.choice(weights), there.choice(weights.cuda()).cpu())
    else:
        assert torch.equal(draw(here), draw(there).cpu())


# --- independence ------------------------------------------------------------------------------


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    """Pearson's correlation in units of its standard error, which is about 1 for independent numbers."""
    a, b = a.double().reshape(-1), b.double().reshape(-1)
    r = torch.corrcoef(torch.stack([a, b]))[0, 1]
    return abs(float(r)) * math.sqrt(len(a))


def test_neighbouring_rows_draws_and_seeds_are_not_correlated():
    u = RowRNG(seed=11, rows=[1000]).uniform(shape=[200])
    assert correlation(u[1:], u[:-1]) < 3.5
    assert correlation(u[:, 1:], u[:, :-1]) < 3.5
    assert correlation(u[1:, 1:], u[:-1, :-1]) < 3.5
    assert correlation(u[1:, :-1], u[:-1, 1:]) < 3.5
    for step in (1, 2, 256, 2**32):
        other = RowRNG(seed=11 + step, rows=[1000]).uniform(shape=[200])
        assert correlation(u, other) < 3.5
        assert correlation(u[1:], other[:-1]) < 3.5


def test_the_first_draws_of_neighbouring_seeds_are_uniform():
    first = torch.stack([RowRNG(seed=s).uniform() for s in range(2000)])
    assert uniform_pvalue(first) > ALPHA
    assert correlation(first[1:], first[:-1]) < 3.5


def test_the_first_draws_of_neighbouring_rows_are_uniform():
    assert uniform_pvalue(RowRNG(seed=0, rows=[ROWS]).uniform()) > ALPHA


def test_every_bit_is_fair_and_independent_of_the_next():
    ones = bits_of(RowRNG(seed=13, rows=[ROWS]).bits()).double()
    shares = ones.mean(0)
    assert float((shares - 0.5).abs().max()) < 4.5 / (2 * math.sqrt(ROWS))
    pairs = torch.corrcoef(ones.T) - torch.eye(64)
    assert float(pairs.abs().max()) < 5 / math.sqrt(ROWS)


def test_streams_are_independent():
    rng = RowRNG(seed=17, rows=[2000])
    own, one, two = (r.uniform(shape=[50]) for r in (rng.clone(), rng.fork(1), rng.fork(2)))
    for a, b in ((own, one), (own, two), (one, two)):
        assert correlation(a, b) < 3.5
    assert uniform_pvalue(one) > ALPHA


def test_a_fork_depends_on_its_name_only():
    rng = RowRNG(seed=17, rows=[4])
    first = rng.fork(3).bits([2])
    rng.bits([100])
    assert torch.equal(rng.fork(3).bits([2]), first)
    assert rng.counter.tolist() == [100] * 4
    streams = [rng.fork(i) for i in (-2, -1, 0, 1, 2, 2**40)] + [
        rng.fork(1).fork(2),
        rng.fork(2).fork(1),
        rng.fork(3).fork(0),
    ]
    keys = torch.stack([s.key for s in streams])
    assert len(keys.unique()) == keys.numel()
    assert not set(keys.reshape(-1).tolist()) & set(rng.key.tolist())


def test_keys_of_many_rows_and_seeds_are_different():
    keys = torch.stack([row_keys(seed, torch.Size([5000])) for seed in range(20)])
    assert len(keys.unique()) == keys.numel()


# --- distributions -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_uniform_is_uniform_and_below_1(dtype):
    u = RowRNG(seed=1, rows=[ROWS]).uniform(shape=[2], dtype=dtype)
    assert u.dtype == dtype
    assert float(u.min()) >= 0
    assert float(u.max()) < 1
    steps = {torch.float16: 2.0**11, torch.bfloat16: 2.0**8}.get(dtype)
    if steps:
        assert torch.equal(u.double() * steps, (u.double() * steps).round())
        assert fair((u.double() * 16).long().reshape(-1).bincount(minlength=16))
    else:
        assert uniform_pvalue(u) > ALPHA


def test_uniform_between_ends():
    assert uniform_pvalue((RowRNG(seed=2, rows=[ROWS]).uniform(-3, 5) + 3) / 8) > ALPHA
    low = torch.tensor([0.0, 10.0])
    u = RowRNG(seed=2, rows=[ROWS]).uniform(low, low + 1, [2])
    assert uniform_pvalue(u - low) > ALPHA
    assert RowRNG(rows=[2]).uniform(2, 2).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normal_is_normal(dtype):
    x = RowRNG(seed=3, rows=[ROWS]).normal(shape=[2], dtype=dtype)
    assert stats.kstest(x.reshape(-1).double().numpy(), "norm").pvalue > ALPHA
    assert correlation(x[:, 0], x[:, 1]) < 3.5
    assert bool(x.isfinite().all())
    shifted = RowRNG(seed=3, rows=[ROWS]).normal(torch.tensor([5.0, -5.0]), 0.5, [2], dtype=dtype)
    assert torch.allclose(shifted, torch.tensor([5.0, -5.0], dtype=dtype) + 0.5 * x)


def test_the_tails_of_normal_are_as_heavy_as_they_should_be():
    x = RowRNG(seed=5, rows=[200_000]).normal()
    beyond = int((x.abs() > 3).sum())
    assert stats.binomtest(beyond, 200_000, 2 * stats.norm.sf(3)).pvalue > ALPHA


@pytest.mark.parametrize(("low", "high"), [(0, 7), (-3, 4), (10, 11), (0, 1000)])
def test_randint_is_fair(low, high):
    x = RowRNG(seed=4, rows=[ROWS]).randint(low, high, [2])
    assert int(x.min()) >= low
    assert int(x.max()) < high
    assert high - low == 1 or fair((x - low).reshape(-1).bincount(minlength=high - low))


@pytest.mark.parametrize("span", [2**31, 3 * 2**29, 2**20 + 1])
def test_randint_covers_wide_ranges_evenly(span):
    x = RowRNG(seed=4, rows=[ROWS]).randint(-5, span - 5)
    assert uniform_pvalue((x + 5).double() / span) > ALPHA


def test_randint_takes_tensors_and_dtypes():
    high = torch.tensor([1, 2, 3])
    x = RowRNG(seed=4, rows=[ROWS]).randint(0, high, [3], dtype=torch.int32)
    assert x.dtype == torch.int32
    for k in range(3):
        assert x[:, k].max() == k
        assert k == 0 or fair(x[:, k].bincount(minlength=k + 1))


def test_permutations_are_fair():
    p = RowRNG(seed=6, rows=[ROWS]).permutation(4)
    assert torch.equal(p.sort(-1).values, torch.arange(4).expand(ROWS, 4))
    number = {order: i for i, order in enumerate(permutations(range(4)))}
    assert fair(torch.tensor([number[tuple(row)] for row in p.tolist()]).bincount(minlength=24))
    assert RowRNG(rows=[2]).permutation(1).tolist() == [[0], [0]]
    assert RowRNG(rows=[2]).permutation(0).shape == (2, 0)


@pytest.mark.parametrize("flags", ["1111", "0110", "0001"])
def test_choice_among_allowed_is_fair(flags):
    mask = torch.tensor([f == "1" for f in flags])
    counts = RowRNG(seed=8, rows=[ROWS]).choice(mask.expand(ROWS, 4)).bincount(minlength=4)
    assert not counts[~mask].any()
    assert mask.sum() == 1 or fair(counts[mask])


@pytest.mark.parametrize("weights", [[1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 0.0, 3.0], [0.5], [1e-3, 1.0], [5, 1, 2]])
def test_choice_follows_the_weights(weights):
    w = torch.tensor(weights)
    counts = RowRNG(seed=9, rows=[ROWS]).choice(w.expand(ROWS, len(w))).bincount(minlength=len(w))
    assert not counts[w == 0].any()
    assert (w > 0).sum() == 1 or fair(counts[w > 0], w[w > 0])


def test_choice_of_nothing_is_0_and_never_a_forbidden_entry():
    assert RowRNG(rows=[2]).choice(torch.zeros(2, 3)).tolist() == [0, 0]
    assert RowRNG(rows=[2]).choice(torch.zeros(2, 3, dtype=torch.bool)).tolist() == [0, 0]
    masks = torch.rand(ROWS, 5, 7, generator=torch.Generator().manual_seed(0)) < 0.3
    masks[..., 2] = True
    picked = RowRNG(seed=10, rows=[ROWS]).choice(masks)
    assert picked.shape == (ROWS, 5)
    assert bool(masks.gather(-1, picked.unsqueeze(-1)).all())
    weights = masks.float()
    assert bool(weights.gather(-1, RowRNG(seed=10, rows=[ROWS]).choice(weights).unsqueeze(-1)).bool().all())


def test_wrong_shapes_and_ranges_are_refused():
    with pytest.raises(ShapeError, match=r"must be the rows \[2\] and what each chooses from, got \[3, 2\]"):
        RowRNG(rows=[2]).choice(torch.ones(3, 2))
    with pytest.raises(ShapeError, match=r"expected int64 \[\*B, 2\], got int64 \[4, 3\]"):
        RowRNG.from_state(torch.zeros(4, 3, dtype=torch.int64))
    with pytest.raises(SpecError, match="expected 1 to"):
        RowRNG().randint(5, 4)
    with pytest.raises(SpecError, match=r"low and high must be integers, got low=0, high=5.5"):
        RowRNG().randint(0, 5.5)
    with pytest.raises(SpecError, match=r"RowRNG.permutation: n must be an integer from 0 on, got 2.0"):
        RowRNG().permutation(2.0)
