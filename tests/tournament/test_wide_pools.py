"""Players far apart: whether games have likeliest strengths is a matter of what was seen, not of how far apart they
are."""

from __future__ import annotations

import numpy as np
import pytest

from marlenv.errors import PoolError
from marlenv.tournament import Replicates, Results, rate
from marlenv.tournament.likelihood import Model
from marlenv.tournament.maxima import circles, draws_are_free, seat_is_free
from marlenv.tournament.ratings import ELO, halved, took, within
from marlenv.tournament.results import components


def ladder(n: int, won: float, drawn: float, lost: float) -> Results:
    """Checkpoints of a run, each of whom played the one before, as often from either seat."""
    counts = np.zeros((n, n, 3))
    for k in range(n - 1):
        counts[k + 1, k], counts[k, k + 1] = (won, drawn, lost), (lost, drawn, won)
    return Results(tuple(f"ckpt{k}" for k in range(n)), counts / 2)


# --- closed forms --------------------------------------------------------------------------------


@pytest.mark.parametrize("draws", ["davidson", "half"])
@pytest.mark.parametrize(
    ("n", "won", "lost"), [(7, 99, 1), (8, 99, 1), (12, 99, 1), (20, 49, 1), (40, 9, 1), (5, 9999, 1), (150, 99, 1)]
)
def test_each_step_of_a_ladder_is_worth_what_its_odds_are(n: int, won: int, lost: int, draws: str) -> None:
    for seat in (None, False):
        ratings = rate(ladder(n, won, 0, lost), draws=draws, seat=seat)
        np.testing.assert_allclose(np.diff(ratings.elo), 400 * np.log10(won / lost), atol=1e-6)
        assert ratings.elo.sum() == pytest.approx(0, abs=1e-6)
        steps = np.diag(ratings.difference_errors(), 1)  # of a share of wins, on the scale of its odds
        np.testing.assert_allclose(steps, ELO * np.sqrt(1 / won + 1 / lost), rtol=1e-6)
        ends = ratings.difference_errors()[0, -1]  # whose steps do not depend on each other
        assert ends == pytest.approx(np.sqrt(n - 1) * steps[0], rel=1e-6)


def test_draws_weigh_on_a_ladder_what_they_do_on_a_step() -> None:
    ratings = rate(ladder(12, 90, 6, 1), seat=False)
    np.testing.assert_allclose(np.diff(ratings.elo), 400 * np.log10(90), atol=1e-6)
    assert ratings.nu == pytest.approx(6 / np.sqrt(90), rel=1e-9)


def test_points_add_up_where_everybody_meets_everybody_else_across_a_wide_field() -> None:
    """At the maximum each player's expected points are its points: the likelihood equations, however far apart."""
    n = 60
    d = 3 * (np.arange(n)[:, None] - np.arange(n))
    lost = np.where(d == 3, 5.0, np.where(d == 177, 1.0, 0.0))  # the last wins once from the first, 5 from neighbours
    won = np.where(d > 0, 100.0 - lost, lost.T)
    counts = np.stack([won, np.zeros_like(won), np.where(d > 0, lost, 100.0 - lost.T)], -1) * (d != 0)[..., None] / 2
    results = Results(tuple(map(str, range(n))), counts)
    ratings = rate(results, seat=False)
    assert np.ptp(ratings.elo) > 6000
    expected = (np.nan_to_num(ratings.expected()) * (counts.sum(-1) + counts.sum(-1).T)).sum(1)
    np.testing.assert_allclose(expected, results.points, atol=1e-6)


def test_the_scale_of_counts_changes_no_strength() -> None:
    once = ladder(9, 99, 3, 1)
    for scale in (1e-6, 1e-2, 1e6, 1e12):
        again = rate(Results(once.names, once.counts * scale))
        np.testing.assert_allclose(again.elo, rate(once).elo, atol=1e-5)
        np.testing.assert_allclose(again.covariance * scale, rate(once).covariance, rtol=1e-4, atol=1)


@pytest.mark.parametrize("n", [5, 7, 8, 12])
@pytest.mark.parametrize("sign", [1, -1])
def test_who_won_all_against_the_top_of_a_ladder_is_bounded_from_there(n: int, sign: int) -> None:
    """``p ** 100 = 0.05``, as Clopper and Pearson have it, where the ladder itself is sure."""
    rungs = ladder(n, 99e4, 0, 1e4).counts
    counts = np.zeros((n + 1, n + 1, 3))
    counts[:n, :n] = rungs if sign == 1 else rungs[..., ::-1]
    counts[n, n - 1, 0 if sign == 1 else 2] = 100
    ratings = rate(Results(tuple(map(str, range(n + 1))), counts), seat=False)
    low, high = ratings.wald()
    exact = ratings.elo[n - 1] + sign * ELO * np.log(0.05 ** (1 / 100) / (1 - 0.05 ** (1 / 100)))
    assert (low[n], high[n]) == (
        (pytest.approx(exact, abs=1), np.inf) if sign == 1 else (-np.inf, pytest.approx(exact, abs=1))
    )
    score = ratings.expected()[n, :n]
    assert score.tolist() == [1.0 if sign == 1 else 0.0] * n


def test_intervals_of_a_ladder_drawn_anew_are_those_of_its_curvature() -> None:
    ratings = rate(ladder(10, 190, 0, 10), seat=False)
    wald = ratings.wald()
    for kind in ("model", "games"):
        again = Replicates(ratings, 400, seed=1, kind=kind)
        assert not again.lost.any()
        found = again.interval()
        np.testing.assert_allclose(found.high - found.low, wald.high - wald.low, rtol=0.2)


# --- whether there is a maximum ------------------------------------------------------------------


def test_wide_pools_without_a_maximum_are_still_refused() -> None:
    """Where the weaker one of each step draws and never wins, draws are worth more without bound; one win tells."""
    drawn = ladder(12, 98, 2, 0)
    for seat in (None, False):
        with pytest.raises(PoolError, match="no likeliest strengths"):
            rate(drawn, seat=seat)
    counts = drawn.counts.copy()
    counts[6, 5] += 0, 0, 1
    ratings = rate(Results(drawn.names, counts), seat=False)
    steps = np.diff(ratings.elo) / ELO
    for step, margin, games in ((steps[0], 98, 100), (steps[5], 97, 101)):  # won less lost, as it is to be expected
        odds = np.exp(step / 2), ratings.nu, np.exp(-step / 2)
        assert games * (odds[0] - odds[2]) / sum(odds) == pytest.approx(margin, rel=1e-9)
    half = rate(drawn, draws="half")
    np.testing.assert_allclose(np.diff(half.elo), 400 * np.log10(99), atol=1e-6)


def test_a_circle_is_found_wherever_it_is() -> None:
    bounds = np.full((3, 6, 6), -np.inf)
    for a, b in ((4, 1), (1, 3), (3, 4)):
        bounds[0, a, b] = 0.5
    bounds[1, :5, 1:][np.eye(5, dtype=bool)] = 1.0  # a chain
    bounds[2] = bounds[0]
    bounds[2, 3, 4] = -1.0  # which adds up to 0
    found = circles(bounds)
    assert sorted(found[0]) == [1, 3, 4]
    assert found[1:] == [[], []]


def recedes(counts: np.ndarray, groups: list[list[int]], seat: bool, draws: bool) -> bool:
    """Whether a direction exists in which no game gets less likely beside another outcome, by linear programming."""
    optimize = pytest.importorskip("scipy.optimize", reason="needs scipy: pip install -e '.[test]'")
    n = len(counts)
    m = n + seat + draws

    def utility(i: int, j: int, outcome: int) -> np.ndarray:
        row, half = np.zeros(m), (0.5, 0.0, -0.5)[outcome]
        row[i] += half
        row[j] -= half
        if seat:
            row[n] += half
        if draws and outcome == 1:
            row[-1] += 1
        return row

    better = [
        utility(i, j, o) - utility(i, j, other)
        for i, j, o in np.argwhere(counts > 0).tolist()
        for other in range(3)
        if other != o and (other != 1 or draws)
    ]
    if not better:
        return False
    rows = np.array(better)
    fixed = np.array([[float(k in group) for k in range(n)] + [0.0] * (m - n) for group in groups])
    found = optimize.linprog(
        -rows.sum(0), A_ub=-rows, b_ub=np.zeros(len(rows)), A_eq=fixed, b_eq=np.zeros(len(fixed)), bounds=[(-1, 1)] * m
    )
    return bool(-found.fun > 1e-7)


def pools(count: int, seed: int) -> list[np.ndarray]:
    """Few games of few players, of which about half have no maximum."""
    rng, out = np.random.default_rng(seed), []
    for _ in range(count):
        n = int(rng.integers(2, 7))
        strength, worth, nu = rng.normal(size=n) * rng.choice([0, 1, 3]), rng.choice([0, 2, -3]), rng.choice([0.5, 3])
        chances = Model(seat=True, draws=True).probabilities(np.array([*strength, worth, np.log(nu)]))
        games = rng.choice([1, 1, 2, 4]) * (rng.random((n, n)) < rng.choice([0.3, 0.6, 1])) * (1 - np.eye(n, dtype=int))
        out.append(rng.multinomial(games.astype(int), chances).astype(float))
    return out


@pytest.mark.reference
@pytest.mark.parametrize("count", [60, pytest.param(600, marks=pytest.mark.slow)])
def test_games_have_a_maximum_where_a_linear_program_says_so(count: int) -> None:
    said = {"fine": 0, "refused": 0}
    for counts in pools(count, seed=count):
        results = Results(tuple(map(str, range(len(counts)))), counts)
        if len(components(counts.sum(-1) + counts.sum(-1).T, "weak")) > 1:
            continue
        for draws in ("davidson", "half"):
            given = halved(counts) if draws == "half" else counts
            groups = components(took(given), "strong")
            inside = within(given, groups)
            weigh = bool(inside[..., 1].any())
            for seat in (None, False):
                try:
                    model = rate(results, draws=draws, seat=seat).model
                    assert not recedes(inside, groups, model.seat, weigh)
                    said["fine"] += 1
                except PoolError:
                    worth = seat is None and not seat_is_free(inside[None])[0]
                    assert recedes(inside, groups, worth, weigh)
                    said["refused"] += 1
    assert min(said.values()) > count / 10


def test_sets_of_games_are_judged_each_for_itself() -> None:
    some = [counts for counts in pools(200, seed=5) if len(counts) == 4]
    together = np.stack(some)
    for judge in (
        seat_is_free,
        lambda counts: draws_are_free(counts, seat=True),
        lambda counts: draws_are_free(counts, seat=False),
    ):
        alone = [bool(judge(counts[None])[0]) for counts in some]
        assert judge(together).tolist() == alone
        assert 0 < sum(alone) < len(alone)
