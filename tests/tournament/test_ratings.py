"""Ratings: the maximum of the likelihood, intervals, and what has none."""

from __future__ import annotations

from itertools import combinations, permutations
from statistics import NormalDist

import numpy as np
import pytest

from marlenv.errors import PoolError, SpecError, UnknownName
from marlenv.tournament import Replicates, Results, rate
from marlenv.tournament.likelihood import Model, maximum
from marlenv.tournament.play import blank
from marlenv.tournament.ratings import ELO, anchors, elo_points, normal_quantile, spread


def pool(strengths: list[float], games: int, *, nu: float = 1.0, seat: float = 30.0, seed: int = 0, sets: int = 1):
    """Counts of games of each pairing, drawn from Davidson's model; ``[sets, n, n, 3]``."""
    model, n = Model(seat=True, draws=True), len(strengths)
    theta = np.array(strengths) / ELO
    chances = model.probabilities(np.array([*(theta - theta.mean()), seat / ELO, np.log(nu)]))
    played = games * (1 - np.eye(n, dtype=int))
    return np.random.default_rng(seed).multinomial(played, chances, size=(sets, n, n)).astype(float)


def results(*args, **options) -> Results:
    counts = pool(*args, **options)[0]
    return Results(tuple(f"p{k}" for k in range(len(counts))), counts)


FIELD = results([-200, -120, -30, 0, 60, 90, 200], 12)


# --- against others ------------------------------------------------------------------------------


def decided(games: Results) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First, second and weights of won games, draws as half of each."""
    n = len(games.names)
    c = games.counts
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    won = [c[i, j, 0] + c[i, j, 1] / 2 for i, j in pairs]
    lost = [c[i, j, 2] + c[i, j, 1] / 2 for i, j in pairs]
    return np.array(pairs), np.array(won), np.array(lost)


@pytest.mark.reference
@pytest.mark.parametrize("seat", [True, False])
def test_draws_as_halves_equal_a_logistic_regression_of_statsmodels(seat: bool) -> None:
    glm = pytest.importorskip(
        "statsmodels.genmod.generalized_linear_model", reason="needs statsmodels: pip install -e '.[test]'"
    )
    pairs, won, lost = decided(FIELD)
    n = len(FIELD.names)
    design = np.zeros((len(pairs), n))
    design[np.arange(len(pairs)), pairs[:, 0]] += 1
    design[np.arange(len(pairs)), pairs[:, 1]] -= 1
    design = np.hstack([design[:, 1:], np.ones((len(pairs), int(seat)))])
    fit = glm.GLM(np.stack([won, lost], 1), design, family=glm.families.Binomial()).fit(tol=1e-12)
    theta = np.concatenate([[0], fit.params[: n - 1]])
    ratings = rate(FIELD, draws="half", seat=seat)
    np.testing.assert_allclose(ratings.elo, (theta - theta.mean()) * ELO, atol=1e-6)
    centre = np.eye(n) - 1 / n  # covariance of strengths about their mean
    cov = np.zeros((n, n))
    cov[1:, 1:] = fit.cov_params()[: n - 1, : n - 1]
    np.testing.assert_allclose(ratings.covariance, centre @ cov @ centre * ELO**2, rtol=1e-6, atol=1e-6)
    if seat:
        assert ratings.seat == pytest.approx(fit.params[-1] * ELO, abs=1e-6)


@pytest.mark.reference
def test_draws_as_halves_equal_choix() -> None:
    choix = pytest.importorskip("choix", reason="needs choix: pip install -e '.[test]'")
    pairs, won, lost = decided(FIELD)
    data = [
        pair
        for (i, j), w, x in zip(pairs, won, lost, strict=True)
        for pair in [(i, j)] * int(2 * w) + [(j, i)] * int(2 * x)
    ]
    theta = choix.opt_pairwise(len(FIELD.names), data, alpha=0.0, tol=1e-12)
    ratings = rate(FIELD, draws="half", seat=False)
    np.testing.assert_allclose(ratings.elo / ELO, theta - theta.mean(), atol=1e-6)


@pytest.mark.reference
def test_draws_as_halves_equal_the_elo_of_open_spiel() -> None:
    elo = pytest.importorskip(
        "open_spiel.python.algorithms.elo", reason="needs open_spiel: pip install -e '.[open_spiel]'"
    )
    c = FIELD.counts
    wins = c[..., 0] + c[..., 2].T
    draws = c[..., 1] + c[..., 1].T
    theirs = elo.compute_ratings_from_matrices(
        wins.astype(int), draws.astype(int), smoothing_factor=0.0, max_iterations=100_000, convergence_delta=1e-15
    )
    np.testing.assert_allclose(rate(FIELD, draws="half", seat=False).elo, theirs - theirs.mean(), atol=1e-6)


@pytest.mark.reference
def test_davidsons_model_is_at_the_maximum_that_scipy_finds() -> None:
    optimize = pytest.importorskip("scipy.optimize", reason="needs scipy: pip install -e '.[test]'")

    def loss(x: np.ndarray) -> float:
        """Written out game by game, as a book has it."""
        theta, seat, nu = np.concatenate([x[:6], [-x[:6].sum()]]), x[6], np.exp(x[7])
        total = 0.0
        for i in range(7):
            for j in range(7):
                a, b = np.exp(theta[i] + seat), np.exp(theta[j])
                tie = nu * np.sqrt(a * b)
                if i != j:
                    total -= FIELD.counts[i, j] @ np.log(np.array([a, tie, b]) / (a + b + tie))
        return total

    best = optimize.minimize(loss, np.zeros(8), method="BFGS", options={"gtol": 1e-8})
    ratings = rate(FIELD)
    assert ratings.log_likelihood == pytest.approx(-best.fun, rel=1e-12)
    np.testing.assert_allclose(ratings.elo[:6], best.x[:6] * ELO, atol=1e-3)
    assert (ratings.seat, ratings.nu) == (
        pytest.approx(best.x[6] * ELO, abs=1e-3),
        pytest.approx(np.exp(best.x[7]), rel=1e-5),
    )


# --- intervals -----------------------------------------------------------------------------------


def fitted(strengths: list[float], games: int, sets: int, **options):
    """Strengths and their errors of many pools at once, in points; ``[sets, n]`` each."""
    counts, n = pool(strengths, games, sets=sets, **options), len(strengths)
    model, group = Model(seat=True, draws=True), [list(range(n))]
    x = maximum(model, counts, anchors(group, n, model))
    errors = np.sqrt(np.diagonal(spread(model, x, counts, group), axis1=1, axis2=2))
    return x[:, :n] * ELO, errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strengths", "games", "nu"),
    [
        (np.linspace(-200, 200, 8), 10, 1.0),
        (np.linspace(-200, 200, 8), 2, 1.0),
        (np.linspace(-200, 200, 8), 10, 6.0),
        (np.linspace(-100, 100, 4), 8, 0.3),
    ],
    ids=["twenty a pair", "four a pair", "mostly draws", "few players"],
)
def test_intervals_hold_the_truth_as_often_as_they_say(strengths: np.ndarray, games: int, nu: float) -> None:
    theta, errors = fitted(list(strengths), games, 2000, nu=nu, seed=1)
    off = np.abs(theta - strengths)
    assert 0.933 <= (off < normal_quantile(0.95) * errors).mean() <= 0.967
    together = normal_quantile(0.95 ** (1 / len(strengths)))
    assert 0.933 <= (off < together * errors).all(-1).mean() <= 0.98  # Sidak's bound is a little wide


@pytest.mark.slow
def test_bootstrap_intervals_hold_the_truth_where_games_are_few() -> None:
    strengths = np.array([-100.0, 0, 100])
    sets = pool(list(strengths), 8, sets=2000, seed=2)
    held = []
    for counts in sets:
        ratings = rate(Results(("a", "b", "c"), counts))
        if len(ratings.reference) == 3 and ratings.model == Model(seat=True, draws=True):
            low, high = Replicates(ratings, 199, seed=3).interval(0.95)
            held.append((low < strengths) & (strengths < high))
    assert len(held) > 1900
    assert 0.933 <= np.mean(held) <= 0.967


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strengths", "games", "nu"),
    [
        ([-150.0, -50, 0, 70, 150], 10, 1.0),
        ([0.0, 250, 500, 750], 4, 0.3),
        ([0.0, 0, 0, 0], 1, 0.01),  # one in seven of these has somebody who won or lost everything
    ],
    ids=["twenty a pair", "far apart", "two a pair"],
)
def test_rank_intervals_hold_all_ranks_at_once(strengths: list[float], games: int, nu: float, sized) -> None:
    true, count, right = np.array(strengths), sized(600, 2000), []
    above = (true > true[:, None]).sum(1)
    below = (true < true[:, None]).sum(1)
    for counts in pool(strengths, games, nu=nu, sets=count, seed=4):
        best, worst = rate(Results(tuple("abcde"[: len(true)]), counts)).ranks(0.95)
        right.append(((best <= 1 + above) & (len(true) - below <= worst)).all())
    assert np.mean(right) >= 0.95


def test_bootstrap_and_curvature_agree_where_games_are_many() -> None:
    ratings = rate(results([-100, 0, 20, 80], 200))
    wald, again = ratings.wald(), Replicates(ratings, 800, seed=1).interval()
    np.testing.assert_allclose(wald.high - wald.low, again.high - again.low, rtol=0.12)
    games = Replicates(ratings, 800, seed=1, kind="games").interval()
    np.testing.assert_allclose(wald.high - wald.low, games.high - games.low, rtol=0.12)
    together = Replicates(ratings, 800, seed=1).interval(simultaneous=True)
    assert (together.high > again.high).all()
    assert (ratings.wald(simultaneous=True).high > wald.high).all()


@pytest.mark.parametrize("kind", ["model", "games"])
def test_three_games_in_a_circle_set_no_bound(kind: str) -> None:
    """Drawn anew they tie all three with a chance of 1/4 by the model, which has them equal, of 3!/3^3 by choice."""
    ratings = rate(Results.of([("a", "b", 1), ("b", "c", 1), ("c", "a", 1)]), seat=False)
    again = Replicates(ratings, 4000, kind=kind)
    assert 1 - again.lost.mean() == pytest.approx({"model": 1 / 4, "games": 6 / 27}[kind], abs=0.03)
    for simultaneous in (False, True):
        low, high = again.interval(simultaneous=simultaneous)
        assert (low.tolist(), high.tolist()) == ([-np.inf] * 3, [np.inf] * 3)


@pytest.mark.slow
@pytest.mark.parametrize(("players", "games"), [(6, 1), (4, 3), (4, 10)])
def test_intervals_of_games_chosen_anew_hold_the_truth(players: int, games: int, sized) -> None:
    strengths, held = np.linspace(-87, 87, players), []
    for k, counts in enumerate(pool(list(strengths), games, seat=0.0, sets=sized(120, 1000), seed=6)):
        ratings = rate(Results(tuple("abcdef"[:players]), counts), seat=False)
        if len(ratings.reference) == players:
            low, high = Replicates(ratings, 200, seed=k, kind="games").interval()
            assert (high - low).min() > 50
            held.append((low <= strengths) & (strengths <= high))
    assert len(held) > sized(110, 900)
    assert np.mean(held) >= 0.92


def test_a_replicate_without_draws_has_strengths() -> None:
    """Its draws have no finite weight, but strengths do not depend on that: intervals stay those of the curvature."""
    counts = np.zeros((2, 2, 3))
    counts[0, 1] = 60, 2, 40
    ratings = rate(Results(("a", "b"), counts), seat=False)
    again = Replicates(ratings, 500)
    assert not again.lost.any()
    low, high = again.interval()
    np.testing.assert_allclose(high - low, np.subtract(*ratings.wald()[::-1]), rtol=0.15)


def test_bootstrap_depends_on_its_seed_alone() -> None:
    ratings = rate(FIELD)
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    first = Replicates(ratings, 20, seed=5)
    assert (np.random.get_state()[1] == before).all()
    np.testing.assert_array_equal(first.parameters, Replicates(ratings, 20, seed=5).parameters)
    assert (first.parameters != Replicates(ratings, 20, seed=6).parameters).any()


@pytest.mark.slow
@pytest.mark.parametrize(("won", "lost"), [(1, 1), (2, 1), (3, 2)])
def test_few_games_set_no_bound_where_chance_may_give_them_all_to_one(won: int, lost: int) -> None:
    """Games drawn anew go to one side more often than in one of twenty."""
    ratings = rate(Results.of([("a", "b", 1)] * won + [("b", "a", 1)] * lost), seat=False)
    share, games = won / (won + lost), won + lost
    again = Replicates(ratings, 4000)
    assert again.lost.mean() == pytest.approx(share**games + (1 - share) ** games, abs=0.03)
    low, high = again.interval(0.95)
    assert (low.tolist(), high.tolist()) == ([-np.inf] * 2, [np.inf] * 2)


def test_nobody_is_rated_minus_nothing() -> None:
    """Elo of less than half a point below the mean is written as 0."""
    ratings = rate(Results.of([("ada", "bob", 1)] * 500 + [("ada", "bob", 0)] * 499), seat=False)
    assert -0.5 < ratings.elo[1] < 0
    assert [line.split()[:2] for line in ratings.table().splitlines()[1:]] == [["ada", "+0"], ["bob", "+0"]]
    assert [elo_points(elo) for elo in (-0.4, -0.6, 0.5, 1.5, -np.inf)] == ["+0", "-1", "+0", "+2", "-inf"]


def test_ranks_of_players_far_apart_are_sure_and_those_of_equals_are_not() -> None:
    ratings = rate(results([-300, 0, 0, 300], 100))
    for best, worst in (ratings.ranks(), Replicates(ratings, 200).ranks()):
        assert best.tolist() == [4, 2, 2, 1]
        assert worst.tolist() == [4, 3, 3, 1]


def test_superiority_of_two_players_is_the_formula_that_people_use() -> None:
    games = Results.of([("a", "b", 1)] * 60 + [("b", "a", 1)] * 40)
    los = rate(games, seat=False).superiority()
    assert los[0, 1] == pytest.approx(0.9772, abs=0.002)  # Phi((60 - 40) / sqrt(100)) = Phi(2)
    assert los[0, 1] + los[1, 0] == pytest.approx(1)


# --- what has no maximum -------------------------------------------------------------------------


@pytest.mark.parametrize("seats", [False, True])
def test_superiority_of_who_won_everything_depends_on_how_much_that_is(seats) -> None:
    """As likely as at equal strengths: 1/2 for each game won; and (2/3)^2 / 3, where without a bound it is 1/4."""
    for games in (1, 5, 40):
        won = [("a", "b", 1), ("b", "a", 0)] if seats else [("a", "b", 1)] * 2
        los = rate(Results.of(won * games)).superiority()
        assert los[0, 1] == pytest.approx(NormalDist().cdf(np.sqrt(4 * games * np.log(2))))
        assert los[1, 0] == pytest.approx(1 - los[0, 1])
    los = rate(Results.of([("a", "b", 1), ("b", "a", 1), ("a", "c", 1)]), seat=False).superiority()
    assert los[1, 2] == pytest.approx(NormalDist().cdf(np.sqrt(2 * np.log((1 / 4) / (4 / 27)))))  # they never met
    assert los[0, 2] == pytest.approx(NormalDist().cdf(np.sqrt(2 * np.log(2))))
    chain = rate(Results.of([("a", "b", 1), ("b", "c", 1), ("a", "d", 1), ("d", "a", 1)]), seat=False).superiority()
    assert chain[1, 2] == pytest.approx(NormalDist().cdf(np.sqrt(2 * np.log(2))))  # one game, neither with a bound
    apart = rate(Results.of([("a", "b", 1), ("a", "c", 1), ("a", "d", 1), ("d", "a", 1)]), seat=False).superiority()
    assert np.isnan(apart[1, 2])  # neither won from the other, whoever lies between


@pytest.mark.parametrize("names", list(permutations(["good", "bad", "bad2"])))
def test_who_lost_hundreds_of_games_to_another_is_not_above_it(names: tuple[str, ...]) -> None:
    games = [("good", "bad", 1), ("bad", "good", 0)] * 250
    games += [("bad", "bad2", 1), ("bad", "bad2", 0), ("bad2", "bad", 1), ("bad2", "bad", 0)] * 20
    ratings = rate(Results.of(games, names))
    for best, worst in (ratings.ranks(), Replicates(ratings, 200).ranks()):
        found = {name: (best[k], worst[k]) for k, name in enumerate(names)}
        assert found == {"good": (1, 1), "bad": (2, 3), "bad2": (2, 3)}


@pytest.mark.slow
def test_ranks_of_who_won_everything_ask_how_much_that_is() -> None:
    """Between equals ``n`` games go to one side with a chance of 2 / 2^n."""
    for won, best in ((5, 1), (6, 2)):  # 1/16 and 1/32 against 5 %
        assert rate(Results.of([("a", "b", 1)] * won), seat=False).ranks()[0].tolist() == [1, best]
    ladder = [(a, b, 1) for a, b in combinations("abcd", 2)] * 12  # nobody has a bound
    for names in permutations("abcd"):
        found = rate(Results.of(ladder, names), seat=False).ranks()
        assert [[dict(zip(names, rank, strict=True))[name] for name in "abcd"] for rank in found] == [[1, 2, 3, 4]] * 2
    few = rate(Results.of([(a, b, 1) for a, b in combinations("abcd", 2)]), seat=False).ranks()
    assert [rank.tolist() for rank in few] == [[1] * 4, [4] * 4]


def test_who_won_everything_has_a_lower_bound_only() -> None:
    games = [("top", "a", 1)] * 20 + [("a", "b", 1), ("b", "a", 1)] * 200
    ratings = rate(Results.of(games), seat=False)
    low, high = ratings.wald()
    assert ratings.elo[0] == np.inf
    assert high[0] == np.inf
    a = ratings.elo[1]
    exact = ELO * np.log(0.05 ** (1 / 20) / (1 - 0.05 ** (1 / 20)))  # p^20 = 0.05, as Clopper and Pearson have it
    assert low[0] == pytest.approx(a + exact, abs=1.0)
    best, worst = ratings.ranks()
    assert (best[0], worst[0]) == (1, 1)


def test_who_lost_everything_has_an_upper_bound_only() -> None:
    games = [("a", "b", 1), ("b", "a", 1)] * 200 + [("a", "low", 1)] * 20
    low, high = rate(Results.of(games), seat=False).wald()
    exact = ELO * np.log(0.05 ** (1 / 20) / (1 - 0.05 ** (1 / 20)))
    assert (low[2], high[2]) == (-np.inf, pytest.approx(-exact, abs=1.0))


@pytest.mark.slow
def test_who_only_met_the_unbounded_is_unknown() -> None:
    games = [("a", "b", 1), ("b", "a", 1)] * 9 + [("top", "a", 1), ("top", "c", 1)]
    ratings = rate(Results.of(games), seat=False)
    k = ratings.names.index("c")
    assert np.isnan(ratings.elo[k])
    assert ratings.wald().low[k] == -np.inf
    assert ratings.wald().high[k] == np.inf


def test_separate_groups_are_refused_and_named() -> None:
    games = Results.of([("a", "b", 1), ("b", "a", 1), ("c", "d", 0.5)])
    with pytest.raises(PoolError, match=r"no game links these groups of players.*\['a', 'b'\]; \['c', 'd'\]"):
        rate(games)


@pytest.mark.parametrize(
    ("games", "seat"),
    [
        ([("a", "b", 1), ("b", "a", 1)], True),  # who sits first wins: worth without bound
        ([("a", "b", 1), ("a", "b", 0), ("a", "b", 1)], True),  # always the same seats: nothing to compare
        ([("a", "b", 0), ("b", "a", 0)], True),
    ],
)
def test_a_seat_that_games_do_not_tell_is_refused(games: list, seat: bool) -> None:
    with pytest.raises(PoolError, match="do not tell what a seat is worth; play each pairing from both seats"):
        rate(Results.of(games), seat=seat)
    assert rate(Results.of(games)).seat == 0


def test_draws_alone_have_no_finite_weight() -> None:
    games = Results.of([("a", "b", 0.5), ("b", "a", 0.5)])
    with pytest.raises(PoolError, match="all games that count were drawn"):
        rate(games)
    assert rate(games, draws="half").elo.tolist() == [0, 0]


def test_draws_and_wins_that_never_meet_have_no_maximum() -> None:
    games = Results.of([("a", "b", 1), ("b", "c", 0.5), ("c", "a", 0.5)])
    with pytest.raises(PoolError, match="no likeliest strengths.*play more games, or say draws='half' or seat=False"):
        rate(games, seat=False)
    with pytest.raises(PoolError, match="no likeliest strengths"):  # a win and a draw: both are worth without bound
        rate(Results.of([("a", "b", 1), ("b", "a", 0.5)]))
    first = Results.of([("a", "b", 1), ("b", "a", 1), ("a", "b", 0.5), ("b", "a", 0.5)])  # who sits second never wins
    with pytest.raises(PoolError, match="no likeliest strengths"):
        rate(first)
    assert rate(first, seat=False).elo.tolist() == [0, 0]


def test_expected_scores_are_those_of_the_games_in_sum() -> None:
    """At the maximum each player's expected points are its points; a property of the likelihood equations."""
    ratings = rate(FIELD)
    first = ratings.model.probabilities(ratings.parameters) @ (1, 0.5, 0)
    played = FIELD.counts.sum(-1)
    expected = (played * first).sum(1) + (played * (1 - first)).sum(0)
    np.testing.assert_allclose(expected, FIELD.points, atol=1e-7)
    scores = ratings.expected()
    np.testing.assert_allclose(scores + scores.T, np.where(np.eye(7, dtype=bool), np.nan, 1))


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Results(("a", "a")), PoolError, r"two players of one name: \['a'\]"),
        (lambda: Results(("a", "b"), np.zeros((2, 2))), PoolError, r"must be \[2, 2, 3\], got \[2, 2\]"),
        (lambda: Results(("a", "b"), np.full((2, 2, 3), -1)), PoolError, "finite and not negative"),
        (lambda: Results(("a", "b"), np.ones((2, 2, 3))), PoolError, "against itself"),
        (lambda: Results.of([("ada", "bob", 1)], ["ada", "bop"]), UnknownName, "did you mean 'bop'"),
        (lambda: Results.of([("ada", "bob", 2)]), PoolError, "must be 1, 0.5 or 0, got 2"),
        (lambda: Results.of([("ada", "ada", 1)]), PoolError, "a player against itself .* of 'ada'"),
        (lambda: Results.of([("a", "b", 1)], ["a", "a", "b"]), PoolError, r"two players of one name: \['a'\]"),
        (lambda: Results(("a", "b")) + Results(("a", "c")), PoolError, "only those of the same players add up"),
        (lambda: Results(("a", "b")).payoffs(), PoolError, "'a' and 'b' have not played"),
        (lambda: rate(Results(("a",))), PoolError, "needs two players or more"),
        (lambda: rate(FIELD, draws="none"), SpecError, "draws must be 'davidson' or 'half', got 'none'"),
        (lambda: rate(FIELD).wald(95), SpecError, "level must be between 0 and 1, such as 0.95, got 95"),
        (lambda: Replicates(rate(FIELD), kind="pairs"), SpecError, "kind must be 'model' or 'games', got 'pairs'"),
        (
            lambda: Replicates(rate(Results(("a", "b"), [[[0] * 3, [0.5, 0, 0.7]], [[0.5, 0, 0.5], [0] * 3]]))),
            SpecError,
            "counts must be whole numbers, got 0.5; give the counts of the games, or use Ratings.wald",
        ),
        (lambda: Replicates(FIELD), SpecError, r"expected Ratings, got Results; give rate\(results\)"),
        (lambda: rate([("a", "b", 1)]), SpecError, r"rate: expected Results, got list; give Results.of\(games\)"),
        (lambda: rate(blank([], 2)), SpecError, r"rate: expected Results, got Played; give its results\(\)"),
        (lambda: rate(FIELD).wald("x"), SpecError, "level must be between 0 and 1, such as 0.95, got 'x'"),
        (
            lambda: Results.of([("a", "b")]),
            PoolError,
            r"Results.of: expected games \(first seat, second seat, score of the first\), got \('a', 'b'\)",
        ),
        (lambda: Results.of(["abcd"]), PoolError, "expected games .* got 'abcd'"),
        (lambda: Replicates(rate(FIELD), 0), SpecError, "replicates must be an integer from 1 on, got 0"),
    ],
)
def test_mistakes_are_named(make, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()
