"""Where things start: distributed as in VMAS, by Kolmogorov and Smirnov's test of every coordinate and distance."""

import warnings

import harness
import pytest
import torch
from scipy.stats import ks_2samp

ROWS = 3000
TOGETHER = {
    "asym_joint": {},
    "ball_passage": {},
    "ball_trajectory": {},
    "passage": {},
    "give_way": {},
    "joint_passage": {"fixed_passage": False},
    "wind_flocking": {},
}
"""VMAS draws some numbers once for the whole batch here: these are spawned row by row."""
LARGE = {"road_traffic"}
"""VMAS places 20 cars row by row: a minute for thousands of rows."""
FIXED = {"multi_give_way", "vel_control", "waterfall"}
NAMES = sorted(set(harness.IN_VMAS) - FIXED)


def features(pos, rot):
    """Coordinates, directions and distances between bodies; ``[rows, n]``."""
    near = torch.cdist(pos, pos)
    i, j = torch.triu_indices(pos.shape[1], pos.shape[1], 1)
    nearest = near.masked_fill(torch.eye(pos.shape[1], dtype=torch.bool), 99.0).amin(2)
    return torch.cat((pos.flatten(1), rot.cos(), rot.sin(), near[:, i, j][:, :12], nearest.amin(1, keepdim=True)), 1)


def theirs(name, rows, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = harness.vmas.make_env(name, num_envs=1 if name in TOGETHER else rows, seed=3, **options)
        found = []
        for _ in range(rows if name in TOGETHER else 1):
            env.reset()
            bodies = [body.state for body in env.world.entities]
            found.append(features(torch.stack([b.pos for b in bodies], 1), torch.cat([b.rot for b in bodies], 1)))
    return torch.cat(found)


def ours(name, rows, options):
    sim = harness.make(name, rows, **options).simulation
    state, *_ = sim.reset(sim.start(harness.RowRNG(7, [rows])))
    entities = sorted(sim.stepper.plan.entities, key=lambda e: e.order)
    at = [sim.stepper.plan.place[e.name] for e in entities]
    return features(state["pos"][:, at].permute(2, 1, 0), state["rot"][at].t())


def related(x):
    """Which features go together: correlations, 0 where one is fixed; ``[n, n]``."""
    return torch.corrcoef(x.double().T).nan_to_num()


def check(name, rows, options):
    a, b = ours(name, rows, options), theirs(name, rows, options)
    assert a.shape == b.shape
    fixed = (a.std(0) < 1e-5) & (b.std(0) < 1e-5)
    assert ((related(a) - related(b)).abs()[~fixed][:, ~fixed] < 9 / rows**0.5).all(), name
    level = 1e-3 / a.shape[1]
    for k, (x, y) in enumerate(zip(a.T.double().numpy(), b.T.double().numpy(), strict=True)):
        if abs(x - x[0]).max() < 1e-6 and abs(y - x[0]).max() < 1e-5:
            continue  # fixed, and at the same place
        p = ks_2samp(x.round(5), y.round(5), method="asymp").pvalue
        assert p > level, (name, k, p)


@pytest.mark.reference
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"sampling", *TOGETHER, *LARGE}))
def test_things_start_where_they_do_in_vmas(name):
    check(name, ROWS, {})


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("name", sorted({*TOGETHER, *LARGE, "sampling"}))
def test_things_start_where_they_do_in_vmas_batch_by_batch(name):
    check(name, 800, TOGETHER.get(name, {}))


@pytest.mark.reference
@pytest.mark.parametrize("name", sorted(FIXED))
def test_what_starts_at_fixed_places_starts_where_it_does_in_vmas(name):
    torch.testing.assert_close(ours(name, 4, {}), theirs(name, 4, {}), rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.reference
def test_agents_of_sampling_start_where_the_edge_of_the_field_lets_them_be():
    for start in (ours, theirs):
        assert start("sampling", 300, {})[:, :6].abs().max() == pytest.approx(1 - 0.025)


def test_goals_of_speakers_differ_between_rows():
    state = harness.make("simple_speaker_listener", 3000)
    state.reset()
    share = torch.bincount(state.get_state()["memory.goal"], minlength=3) / 3000
    assert (share - 1 / 3).abs().max() < 0.04


def test_nothing_overlaps_where_things_are_scattered():
    for name in ("navigation", "discovery", "flocking", "transport"):
        sim = harness.make(name, 2000).simulation
        state, *_ = sim.reset(sim.start(harness.RowRNG(1, [2000])))
        agents = [sim.stepper.plan.place[n] for b in sim.controls for n in sim.groups[b].names]
        pos = state["pos"][:, agents].permute(2, 1, 0)
        apart = {"navigation": 0.25, "discovery": 0.2, "flocking": 0.15, "transport": 0.06}[name]
        assert (torch.cdist(pos, pos) + torch.eye(len(agents)) * 9).min() >= apart - 1e-5
