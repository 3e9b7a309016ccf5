"""Aggregates of runs on tasks, and tables of teams."""

from __future__ import annotations

from statistics import NormalDist

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
from marlenv.tournament.cross_play import t_quantile
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


@pytest.mark.reference
def test_an_interval_of_two_tables_draws_both_anew_as_rliable_does() -> None:
    library = pytest.importorskip("rliable.library", reason="needs rliable: pip install -e '.[test]'")
    seeded = np.random.RandomState(1)
    with pytest.warns(FutureWarning, match="random_state is deprecated"):
        _, intervals = library.get_interval_estimates(
            {"a": [SCORES, OTHERS]},
            lambda x, y: np.array([probability_of_improvement(x, y)]),
            method="percentile",
            reps=4000,
            random_state=seeded,
        )
    low, high = aggregate_interval((SCORES, OTHERS), probability_of_improvement, replicates=4000)
    width = high - low
    assert abs(low - intervals["a"][0, 0]) < 0.06 * width
    assert abs(high - intervals["a"][1, 0]) < 0.06 * width
    fixed = aggregate_interval(SCORES, lambda mine: probability_of_improvement(mine, OTHERS), replicates=1000)
    assert fixed[1] - fixed[0] < 0.85 * width
    assert aggregate_interval([SCORES, OTHERS], probability_of_improvement, replicates=4000) == (low, high)


@pytest.mark.slow
def test_intervals_of_two_tables_hold_the_truth_as_often_as_they_say() -> None:
    """Runs that are better by half a standard deviation beat others with a chance of Phi(1 / sqrt(8))."""
    rng, true = np.random.default_rng(2), NormalDist().cdf(0.5 / np.sqrt(2))
    held = []
    for seed in range(600):
        tables = rng.normal(size=(20, 5)) + 0.5, rng.normal(size=(20, 5))
        low, high = aggregate_interval(tables, probability_of_improvement, replicates=200, seed=seed)
        held.append(low <= true <= high)
    assert 0.9 <= np.mean(held) <= 0.975


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """The interquartile mean of uniform numbers is a half."""
    rng = np.random.default_rng(1)
    held = []
    for seed in range(2000):
        low, high = aggregate_interval(rng.random((40, 3)), iqm, replicates=200, seed=seed)
        held.append(low <= 0.5 <= high)
    assert 0.933 <= np.mean(held) <= 0.967


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "least", "most"), [(3, 0.72, 0.89), (5, 0.85, 0.91), (10, 0.90, 0.93)])
def test_intervals_of_few_runs_hold_the_truth_as_rarely_as_the_docs_say(runs: int, least: float, most: float) -> None:
    rng = np.random.default_rng(runs)
    for tasks in (1, 5):
        for statistic in (lambda scores: scores.mean(), iqm):
            held = []
            for seed in range(400):
                low, high = aggregate_interval(rng.normal(size=(runs, tasks)), statistic, replicates=200, seed=seed)
                held.append(low <= 0 <= high)
            assert least - 0.05 <= np.mean(held) <= most + 0.05


def test_self_play_beats_cross_play_by_what_conventions_are_worth() -> None:
    """Two conventions that pay 10 together and 2 apart, with two policies of each."""
    convention = np.array([0, 0, 1, 1])
    mean = np.where(convention[:, None] == convention, 10.0, 2.0)
    result = cross_play(mean[..., None] + np.random.default_rng(0).normal(size=(4, 4, 200)))
    assert result.self_play == pytest.approx(10, abs=0.2)
    assert result.cross_play == pytest.approx((4 * 10 + 8 * 2) / 12, abs=0.2)
    assert result.gap == pytest.approx(10 - 14 / 3, abs=0.3)
    assert result.interval[0] < result.gap < result.interval[1]
    np.testing.assert_allclose(result.table, mean, atol=0.4)
    alike = cross_play(np.full((3, 3, 5), 7.0))
    assert (alike.gap, alike.interval) == (0, (0, 0))


def test_an_interval_of_cross_play_is_the_one_of_the_book() -> None:
    """Each policy's return with itself less those with others, averaged: the t interval of n numbers, where partners do
    not matter."""
    stats = pytest.importorskip("scipy.stats", reason="needs scipy: pip install -e '.[test]'")
    own = np.array([5.0, 8.0, 6.0, 9.0, 4.0])
    table = np.where(np.eye(5, dtype=bool), own, 2.0)
    result = cross_play(table[..., None], level=0.9)
    half = stats.t.ppf(0.95, 4) * own.std(ddof=1) / np.sqrt(5)
    assert result.interval == (pytest.approx(4.4 - half), pytest.approx(4.4 + half))
    for freedom in (1, 2, 3, 4, 9, 30):
        for level in (0.5, 0.95, 0.999):
            assert t_quantile(level, freedom) == pytest.approx(stats.t.ppf(0.5 + level / 2, freedom), rel=1e-9)


@pytest.mark.parametrize("partners", [0.1, 1.0])
@pytest.mark.parametrize("n", [3, 4, 8])
def test_intervals_of_cross_play_hold_the_gap_of_policies_trained_anew(n: int, partners: float) -> None:
    """Also of three: that policies differ, not episodes, is what makes a gap unsure."""
    rng, held = np.random.default_rng(n), []
    for _ in range(150):
        skill = rng.normal(size=n) * partners
        mean = 2 + skill[:, None] + skill + rng.normal(size=(n, n)) * 0.5
        np.fill_diagonal(mean, 8 + rng.normal(size=n))
        low, high = cross_play(mean[..., None] + rng.normal(size=(n, n, 10))).interval
        held.append(low <= 6 <= high)
    assert np.mean(held) >= 0.95 - 3 * 0.218 / np.sqrt(150)


def test_two_policies_say_nothing_about_others() -> None:
    assert cross_play([[[9.0], [1.0]], [[3.0], [7.0]]]).interval == (-np.inf, np.inf)


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
        (lambda: iqm([[1.0, 2.0], [3.0, np.nan]]), ShapeError, "got nan in run 1, task 1"),
        (lambda: optimality_gap(SCORES, goal="x"), SpecError, "goal must be a number, such as 1.0, got 'x'"),
        (lambda: performance_profile(SCORES, "a"), ShapeError, "performance_profile: expected thresholds, a list of"),
        (lambda: performance_profile(SCORES, [1, np.nan]), SpecError, "thresholds must be numbers, got nan"),
        (lambda: aggregate_interval(SCORES, "iqm"), SpecError, "must be a function of scores, such as iqm, got 'iqm'"),
        (lambda: aggregate_interval([[1.0, 2.0, 3.0]], iqm), SpecError, "expected two runs or more, got 1, which does"),
        (
            lambda: aggregate_interval((SCORES, OTHERS[:1]), probability_of_improvement),
            SpecError,
            "scores that are fixed belong into the statistic",
        ),
        (lambda: probability_of_improvement(SCORES, SCORES[:, :2]), ShapeError, "the same tasks, got 5 and 2"),
        (lambda: aggregate_interval(SCORES, iqm, replicates=0), SpecError, "replicates must be an integer from 1 on"),
        (
            lambda: iqm([[1, 2], [3]]),
            ShapeError,
            r"finite scores \[runs, tasks\], got a list with rows of different len",
        ),
        (
            lambda: aggregate_interval([[1, 2], [3]], iqm),
            ShapeError,
            "aggregate_interval: .* rows of different lengths",
        ),
        (lambda: aggregate_interval([], iqm), ShapeError, r"expected finite scores \[runs, tasks\], got \[0\]"),
        (
            lambda: aggregate_interval(SCORES, probability_of_improvement),
            SpecError,
            "probability_of_improvement does not take 1 table .* aggregate_interval\\(\\(mine, theirs\\), prob",
        ),
        (lambda: aggregate_interval((SCORES, OTHERS), iqm), SpecError, "iqm does not take 2 tables of scores"),
        (lambda: aggregate_interval(SCORES, iqm, level=2, replicates=1), SpecError, "level must be between 0 and 1"),
        (lambda: cross_play(np.zeros((1, 1, 3))), ShapeError, r"expected returns \[n, n, episodes\] of n >= 2"),
        (lambda: cross_play([[[1.0], [np.nan]], [[2.0], [3.0]]]), SpecError, "returns must be finite, got nan"),
        (lambda: cross_play([[1], [1, 2]]), ShapeError, "cross_play: expected returns .* rows of different lengths"),
        (lambda: cross_play(np.zeros((3, 3, 1)), level=95), SpecError, "level must be between 0 and 1"),
    ],
)
def test_mistakes_are_named(make, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()
