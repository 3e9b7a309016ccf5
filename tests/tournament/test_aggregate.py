"""Aggregates of runs on tasks, and tables of teams."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from marlenv.errors import PoolError, ShapeError, SpecError
from marlenv.tournament import (
    Game,
    aggregate_interval,
    cross_play,
    iqm,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    team_returns,
)
from marlenv.tournament.play import blank

RNG = np.random.default_rng(0)
SCORES, OTHERS = RNG.gamma(2.0, size=(9, 5)), RNG.gamma(2.5, size=(7, 5)).round(1)


@pytest.mark.reference
def test_aggregates_equal_rliable() -> None:
    metrics = pytest.importorskip("rliable.metrics", reason="needs rliable: pip install -e '.[test]'")
    for scores in (SCORES, OTHERS, SCORES[:4], SCORES[:, :1]):
        assert iqm(scores) == pytest.approx(metrics.aggregate_iqm(scores), abs=1e-12)
        assert optimality_gap(scores, 2.0) == pytest.approx(metrics.aggregate_optimality_gap(scores, 2.0), abs=1e-12)
    for mine, theirs in ((SCORES, OTHERS), (OTHERS[:6], OTHERS[1:])):
        expected = metrics.probability_of_improvement(mine, theirs)
        assert probability_of_improvement(mine, theirs) == pytest.approx(expected, abs=1e-12)


@pytest.mark.reference
def test_profiles_and_intervals_equal_rliable() -> None:
    library = pytest.importorskip("rliable.library", reason="needs rliable: pip install -e '.[test]'")
    thresholds = np.linspace(0, 6, 13)
    theirs = [library.run_score_deviation(SCORES, tau) for tau in thresholds]
    np.testing.assert_allclose(performance_profile(SCORES, thresholds), theirs, atol=1e-12)
    seeded = np.random.RandomState(0)
    with pytest.warns(FutureWarning, match="random_state is deprecated"):  # it tells arch its seed in the old way
        _, intervals = library.get_interval_estimates(
            {"a": SCORES}, lambda x: np.array([iqm(x)]), method="percentile", reps=4000, random_state=seeded
        )
    low, high = aggregate_interval(SCORES, iqm, replicates=4000)
    width = high - low
    assert abs(low - intervals["a"][0, 0]) < 0.06 * width
    assert abs(high - intervals["a"][1, 0]) < 0.06 * width


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """The interquartile mean of uniform numbers is a half."""
    rng = np.random.default_rng(1)
    held = []
    for seed in range(2000):
        low, high = aggregate_interval(rng.random((40, 3)), iqm, replicates=200, seed=seed)
        held.append(low <= 0.5 <= high)
    assert 0.933 <= np.mean(held) <= 0.967


def test_self_play_beats_cross_play_by_what_conventions_are_worth() -> None:
    """Two conventions that pay 10 together and 2 apart, with two policies of each."""
    convention = np.array([0, 0, 1, 1])
    mean = np.where(convention[:, None] == convention, 10.0, 2.0)
    result = cross_play(mean[..., None] + np.random.default_rng(0).normal(size=(4, 4, 200)), seed=1)
    assert result.self_play == pytest.approx(10, abs=0.2)
    assert result.cross_play == pytest.approx((4 * 10 + 8 * 2) / 12, abs=0.2)
    assert result.gap == pytest.approx(10 - 14 / 3, abs=0.3)
    assert result.interval[0] < result.gap < result.interval[1]
    np.testing.assert_allclose(result.table, mean, atol=0.4)
    alike = cross_play(np.full((3, 3, 5), 7.0))
    assert (alike.gap, alike.interval) == (0, (0, 0))


def test_returns_of_teams_are_those_of_their_games() -> None:
    games = [Game(k, team) for k, team in enumerate([("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")] * 2)]
    played = blank(games, 2)._replace(returns=torch.arange(16.0).reshape(8, 2))
    names, returns = team_returns(played)
    assert names == ["a", "b"]
    assert returns.tolist() == [[[0.5, 8.5], [2.5, 10.5]], [[4.5, 12.5], [6.5, 14.5]]]
    with pytest.raises(PoolError, match="and 'b' with 'b' did 1 times; use cross_play_teams"):
        team_returns(blank(games[:7], 2))
    with pytest.raises(PoolError, match="expected games of two policies at most, got"):
        team_returns(blank([Game(0, ("a", "b", "c"))], 3))


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: iqm([1.0, 2.0]), ShapeError, r"iqm: expected finite scores \[runs, tasks\], got \[2\]"),
        (lambda: optimality_gap([[np.nan]]), ShapeError, "expected finite scores"),
        (lambda: probability_of_improvement(SCORES, SCORES[:, :2]), ShapeError, "the same tasks, got 5 and 2"),
        (lambda: aggregate_interval(SCORES, iqm, replicates=0), SpecError, "replicates must be an integer from 1 on"),
        (lambda: aggregate_interval(SCORES, iqm, level=2, replicates=1), SpecError, "level must be between 0 and 1"),
        (lambda: cross_play(np.zeros((1, 1, 3))), ShapeError, r"expected returns \[n, n, episodes\] of n >= 2"),
        (lambda: cross_play([[[1.0], [np.nan]], [[2.0], [3.0]]]), SpecError, "returns must be finite, got nan"),
    ],
)
def test_mistakes_are_named(make, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()
