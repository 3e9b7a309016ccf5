"""Alpha-rank, Nash averages, cycles, and intervals of all of them."""

from __future__ import annotations

import numpy as np
import pytest

from marlenv.errors import PoolError, ShapeError, SpecError
from marlenv.tournament import Results, alpha_rank, cyclic_triads, decompose, interval, nash_average
from marlenv.tournament.game_theory import log_fixation, log_stationary

RPS = np.array([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]])
PAPER_TWICE = RPS[np.ix_([0, 1, 2, 1], [0, 1, 2, 1])]


def random_table(n: int, seed: int) -> np.ndarray:
    table = np.random.default_rng(seed).normal(size=(n, n))
    return table - table.T


# --- alpha-rank ----------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0, 1e6])
def test_rock_paper_scissors_is_uniform(alpha: float) -> None:
    np.testing.assert_allclose(alpha_rank(RPS, alpha), 1 / 3, atol=1e-12)
    np.testing.assert_allclose(nash_average(RPS).weights, 1 / 3, atol=1e-9)


@pytest.mark.reference
@pytest.mark.parametrize("alpha", [0.1, 1.0, 5.0])
def test_alpha_rank_equals_open_spiel_where_that_runs(alpha: float) -> None:
    theirs = pytest.importorskip("open_spiel.python.egt.alpharank", reason="needs matplotlib: pip install -e '.[test]'")
    for seed in range(8):
        table = random_table(6, seed)
        with np.errstate(over="ignore"):
            pi = theirs.compute([table], m=50, alpha=alpha)[2]
        np.testing.assert_allclose(alpha_rank(table, alpha), pi, atol=1e-6)


@pytest.mark.reference
def test_alpha_rank_of_two_seats_equals_open_spiel() -> None:
    theirs = pytest.importorskip("open_spiel.python.egt.alpharank", reason="needs matplotlib: pip install -e '.[test]'")
    rng = np.random.default_rng(3)
    for shape in ((2, 3), (2, 2, 2)):
        tables = [rng.normal(size=shape) for _ in shape]
        pi = theirs.compute(tables, m=20, alpha=0.5)[2]
        ours = alpha_rank(tables, 0.5, population=20)
        assert ours.shape == shape
        np.testing.assert_allclose(np.sort(ours.ravel()), np.sort(pi), atol=1e-6)


@pytest.mark.parametrize("alpha", [1e2, 1e3, 1e8])
def test_alpha_rank_is_stationary_at_any_alpha(alpha: float) -> None:
    """What flows into a state flows out of it, relative to the flow: also where the chances underflow."""
    for seed in range(20):
        table = random_table(8, seed)
        log = log_fixation(alpha * (table.T - table), 50)
        np.fill_diagonal(log, -np.inf)
        share = log_stationary(log)
        out, into = share + np.logaddexp.reduce(log, 1), np.logaddexp.reduce(share[:, None] + log, 0)
        np.testing.assert_allclose(into - out, 0, atol=1e-12 * max(1.0, np.abs(share).max()))
        assert np.exp(share).sum() == pytest.approx(1)


def exact_shares(table: np.ndarray, alpha: float, population: int = 50) -> list[float]:
    """The long-run shares with sixty digits, by eliminating one state after another."""
    mpmath = pytest.importorskip("mpmath", reason="needs mpmath: pip install mpmath")
    with mpmath.workdps(60):

        def chance(gap: float) -> object:
            """That one mutant takes over a population."""
            u = mpmath.mpf(alpha) * mpmath.mpf(gap)
            return mpmath.expm1(-u) / mpmath.expm1(-population * u) if gap else mpmath.mpf(1) / population

        n = len(table)
        p = [[chance(float(table[j, i] - table[i, j])) for j in range(n)] for i in range(n)]
        for k in range(n - 1, 0, -1):
            out = sum(p[k][:k])
            for i in range(k):
                p[i][k] /= out
                for j in range(k):
                    p[i][j] += p[i][k] * p[k][j]
        share = [mpmath.mpf(1)]
        for k in range(1, n):
            share.append(sum(share[i] * p[i][k] for i in range(k)))
        return [float(x / sum(share)) for x in share]


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e3, 1e8, 1e12])
def test_no_digit_of_alpha_rank_is_lost_however_large_alpha_is(alpha: float) -> None:
    """Sums of payoffs that are equal by chance are, also where they are multiplied by alpha."""
    for seed in range(6):
        half = np.random.default_rng(seed).integers(-1, 2, (10, 10)) / 2
        table = np.triu(half, 1) - np.triu(half, 1).T
        shares = alpha_rank(table, alpha)
        np.testing.assert_allclose(shares, exact_shares(table, alpha), atol=1e-12)
        assert abs(shares.sum() - 1) < 1e-12
        limit = alpha_rank(table, 1e300)  # where it goes in the end
        np.testing.assert_allclose(limit, exact_shares(table, 1e4), atol=1e-9)
    thirds = np.round(3 * random_table(9, 1)) / 3  # of which sums are rounded
    np.testing.assert_allclose(alpha_rank(thirds, 1e9), exact_shares(np.round(3 * thirds), 1e4), atol=1e-9)
    assert alpha_rank([[0, 2], [-2, 0]], 1e308).tolist() == [1, 0]


def test_a_dominated_strategy_dies_out() -> None:
    loser = np.zeros((4, 4))
    loser[:3, :3], loser[3, :3], loser[:3, 3] = RPS, -0.5, 0.5
    np.testing.assert_allclose(alpha_rank(loser, 1e3), [1 / 3, 1 / 3, 1 / 3, 0], atol=1e-9)
    np.testing.assert_allclose(nash_average(loser).weights, [1 / 3, 1 / 3, 1 / 3, 0], atol=1e-8)


# --- Nash averaging ------------------------------------------------------------------------------


def test_a_copy_shares_the_weight_and_changes_no_skill() -> None:
    np.testing.assert_allclose(nash_average(PAPER_TWICE).weights, [1 / 3, 1 / 6, 1 / 3, 1 / 6], atol=1e-8)
    for seed in range(5):
        table = random_table(6, seed)
        alone = nash_average(table)
        who = [*range(6), int(alone.weights.argmax())]
        copied = nash_average(table[np.ix_(who, who)])
        np.testing.assert_allclose(copied.skill[:6], alone.skill, atol=1e-7)
        weights = copied.weights.copy()
        assert weights[6] == pytest.approx(weights[who[6]], abs=1e-7)
        weights[who[6]] += weights[6]
        np.testing.assert_allclose(weights[:6], alone.weights, atol=1e-7)


def test_players_who_all_tie_are_weighed_alike_and_the_best_takes_all() -> None:
    assert nash_average(np.zeros((3, 3))).weights.tolist() == [1 / 3] * 3
    chain = np.array([[0.0, 1, 1], [-1, 0, 1], [-1, -1, 0]])
    np.testing.assert_allclose(nash_average(chain).weights, [1, 0, 0], atol=1e-9)


def test_no_player_wins_against_the_average() -> None:
    for n in (3, 8, 15, 30):
        found = nash_average(random_table(n, n))
        assert found.skill.max() < 1e-9
        assert abs(found.weights @ found.skill) < 1e-9
        assert found.weights.min() >= 0


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # than the 1e-12 that the solver is asked for
def test_nash_averages_equal_open_spiel(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSpiel's program, as exactly as its solver can; also where equilibria are many or bounds hold by chance."""
    cvxpy = pytest.importorskip("cvxpy", reason="needs cvxpy: pip install -e '.[test]'")
    pyspiel = pytest.importorskip("pyspiel", reason="needs open_spiel: pip install -e '.[open_spiel]'")
    theirs = pytest.importorskip("open_spiel.python.algorithms.nash_averaging", reason="needs cvxpy")
    names = ("tol_gap_abs", "tol_gap_rel", "tol_feas", "static_regularization_constant")
    exact = dict.fromkeys(names, 1e-12)
    solve = cvxpy.Problem.solve
    monkeypatch.setattr(cvxpy.Problem, "solve", lambda self: solve(self, solver=cvxpy.CLARABEL, **exact))
    tables = [RPS, PAPER_TWICE]
    for seed in range(12):
        sign = np.sign(random_table(5, seed))
        many = np.round(random_table(8, seed))
        tables += [sign, random_table(5, seed), sign[np.ix_([0, 1, 2, 3, 4, 0], [0, 1, 2, 3, 4, 0])], many]
    for table in tables:
        game = pyspiel.create_matrix_game(table, -table)
        np.testing.assert_allclose(nash_average(table).weights, np.ravel(theirs.nash_averaging(game)[0]), atol=1e-6)


@pytest.mark.reference
def test_the_most_even_equilibrium_is_the_one_that_scipy_finds() -> None:
    optimize = pytest.importorskip("scipy.optimize", reason="needs scipy: pip install -e '.[test]'")
    for table in (PAPER_TWICE, np.sign(random_table(6, 4)), np.round(random_table(6, 5))):
        n = len(table)
        ours = nash_average(table).weights
        best = optimize.minimize(
            lambda p: (p * np.log(np.maximum(p, 1e-300))).sum(),
            np.full(n, 1 / n),
            bounds=[(0, 1)] * n,
            constraints=[
                {"type": "ineq", "fun": lambda p, table=table: -(table @ p)},
                {"type": "eq", "fun": lambda p: p.sum() - 1},
            ],
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 2000},
        )
        np.testing.assert_allclose(ours, best.x, atol=1e-6)


# --- cycles --------------------------------------------------------------------------------------


def test_a_table_is_the_sum_of_two_orthogonal_ones() -> None:
    table = random_table(7, 0)
    found = decompose(table)
    np.testing.assert_allclose(found.transitive + found.cyclic, table, atol=1e-12)
    assert (found.transitive * found.cyclic).sum() == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(found.cyclic.sum(1), 0, atol=1e-12)
    assert decompose(RPS).share == 1
    strengths = np.array([3.0, 1, 0, -4])
    assert decompose(strengths[:, None] - strengths).share == pytest.approx(0, abs=1e-15)


def test_triads_are_found_once_each() -> None:
    assert cyclic_triads(RPS) == [(0, 2, 1)]
    assert len(cyclic_triads(PAPER_TWICE)) == 2
    strengths = np.arange(5.0)
    assert cyclic_triads(strengths[:, None] - strengths) == []


# --- intervals -----------------------------------------------------------------------------------


def played(table: np.ndarray, games: int, seed: int) -> Results:
    """Games of two seats, in which the first wins with the chance that the table gives."""
    n = len(table)
    win = (1 + table) / 2
    rng = np.random.default_rng(seed)
    counts = np.zeros((n, n, 3))
    counts[..., 0] = rng.binomial(games, win) * (1 - np.eye(n))
    counts[..., 2] = (games - counts[..., 0]) * (1 - np.eye(n))
    return Results(tuple(map(str, range(n))), counts)


STATISTICS = {
    "alpha-rank": lambda table: alpha_rank(table, 2.0),
    "Nash": lambda table: nash_average(table).weights,
}


@pytest.mark.parametrize("name", STATISTICS)
def test_intervals_hold_what_the_true_table_gives(name: str) -> None:
    true = 0.4 * RPS
    low, high = interval(played(true, 200, seed=0), STATISTICS[name], replicates=200)
    exact = STATISTICS[name](true)
    assert ((low - 1e-9 <= exact) & (exact <= high + 1e-9)).all()
    assert (high - low > 0).all()


@pytest.mark.parametrize("name", STATISTICS)
def test_a_game_from_each_seat_makes_nothing_sure(name: str) -> None:
    """Who won both may be the weaker one, with a chance of a quarter between equals; of 40 games nobody is."""
    for games in (
        [("rock", "scissors", 1), ("scissors", "paper", 1), ("paper", "rock", 1)],
        [("a", "b", 1), ("b", "a", 0), ("b", "c", 1), ("c", "b", 0), ("a", "c", 1), ("c", "a", 0)],
    ):
        low, high = interval(Results.of(games), lambda table: STATISTICS[name](20 * table), replicates=200)
        assert (low < 0.05).all()
        assert (high > 0.3).all()
        low, high = interval(Results.of(games * 40), lambda table: STATISTICS[name](20 * table), replicates=200)
        assert (high - low).min() < 0.05


def test_luck_keeps_what_one_wins_the_other_loses_and_moves_no_mean() -> None:
    tables = []

    def checked(table: np.ndarray) -> np.ndarray:
        tables.append(table)
        np.testing.assert_array_equal(table, -table.T)
        return table

    games = played(0.9 * RPS, 2, seed=1)
    low, high = interval(games, checked, replicates=2000)
    np.testing.assert_allclose(np.mean(tables, 0), games.payoffs(), atol=0.05)
    assert (low <= games.payoffs()).all()
    assert (games.payoffs() <= high).all()
    assert (high - low)[~np.eye(3, dtype=bool)].min() > 0.3


def held(table: np.ndarray, games: int, statistic, count: int, replicates: int) -> float:
    """How often intervals hold what a statistic of the true table is."""
    exact, out = statistic(table), []
    for seed in range(count):
        low, high = interval(played(table, games, seed), statistic, replicates=replicates, seed=seed)
        out.append((low <= exact + 1e-9) & (exact - 1e-9 <= high))
    return float(np.mean(out))


TABLES = {
    "even": np.zeros((4, 4)),
    "in a circle": 0.4 * RPS,
    "in order": np.tanh((np.arange(6.0)[:, None] - np.arange(6.0)) / 3),
    "far apart": np.tanh((np.arange(6.0)[:, None] - np.arange(6.0)) / 1.2),
}


@pytest.mark.parametrize("name", TABLES)
def test_intervals_of_few_games_hold_the_truth(name: str) -> None:
    """Also of a mean over all opponents, to which the luck of each game adds little and a bias would add up."""
    for statistic in (lambda table: table.mean(1), lambda table: alpha_rank(table, 1e3)):
        assert held(TABLES[name], 1, statistic, 60, 60) >= 0.84


@pytest.mark.slow
@pytest.mark.parametrize("games", [1, 2, 3, 5, 20])
@pytest.mark.parametrize("name", TABLES)
def test_intervals_hold_the_truth_from_one_game_on(name: str, games: int, sized) -> None:
    means = {"mean": lambda table: table.mean(1), "row": lambda table: table[0], "alpha-rank": alpha_rank}
    if (name, games) == ("in a circle", 1):  # which takes long
        means["Nash"] = lambda table: nash_average(table).weights
    found = {what: held(TABLES[name], games, means[what], sized(100, 400), 100) for what in means}
    assert min(found.values()) >= 0.88, found


@pytest.mark.slow
def test_intervals_of_alpha_rank_hold_the_truth_as_often_as_they_say() -> None:
    true = np.array([[0.0, 0.3, -0.2], [-0.3, 0, 0.25], [0.2, -0.25, 0]])
    exact = alpha_rank(true, 0.2)
    held = []
    for seed in range(500):
        low, high = interval(played(true, 200, seed), lambda table: alpha_rank(table, 0.2), replicates=200, seed=seed)
        held.append((low <= exact) & (exact <= high))
    assert 0.92 <= np.mean(held) <= 0.975  # 1500 intervals of three shares that depend on each other


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: alpha_rank(RPS, 0), SpecError, "alpha must be a positive number, got 0"),
        (lambda: alpha_rank([]), ShapeError, r"expected a square table of payoffs \[n, n\], got \[0\]"),
        (lambda: alpha_rank(RPS, "x"), SpecError, "alpha must be a positive number, got 'x'"),  # type: ignore[arg-type]
        (lambda: alpha_rank(None), ShapeError, r"expected a square table of payoffs \[n, n\], got \[\]"),
        (lambda: alpha_rank([[0, "a"], [1, 0]]), ShapeError, "expected a table of payoffs .* got what is no numbers"),
        (lambda: alpha_rank(Results.of([("a", "b", 1)])), ShapeError, r"a table .*, got Results; give its payoffs\(\)"),
        (lambda: nash_average(Results.of([("a", "b", 1)])), ShapeError, r"got Results; give its payoffs\(\)"),
        (lambda: alpha_rank([[0, 1], [1]]), ShapeError, "a table of payoffs .* got a list with rows of different"),
        (
            lambda: alpha_rank([[[0, 1], [1]], RPS]),
            ShapeError,
            "for each of K seats, got a list with rows of different",
        ),
        (
            lambda: alpha_rank(np.zeros((2, 2, 2))),
            ShapeError,
            r"got \[2, 2, 2\]; give K tables, one for each seat, as a list",
        ),
        (lambda: interval([("a", "b", 1)], np.mean), SpecError, "expected Results, got list; give Results.of"),
        (lambda: interval(Results.of([("a", "b", 1)]), np.mean, level="x"), SpecError, "such as 0.95, got 'x'"),
        (lambda: alpha_rank(RPS[:2]), ShapeError, r"expected a square table of payoffs \[n, n\], got \[2, 3\]"),
        (lambda: alpha_rank([RPS, RPS, RPS]), ShapeError, "expected 3 tables with 3 dimensions"),
        (lambda: alpha_rank(RPS * np.nan), SpecError, "let every pair play"),
        (lambda: alpha_rank(RPS, population=1), SpecError, "population must be an integer from 2 on, got 1"),
        (lambda: nash_average(RPS + 1), SpecError, "payoffs == -payoffs.T"),
        (lambda: decompose(RPS[0]), ShapeError, r"decompose: expected a square table of payoffs \[n, n\], got \[3\]"),
        (lambda: cyclic_triads(RPS * np.inf), SpecError, "must be finite"),
        (lambda: nash_average([[0, 1], [-1]]), ShapeError, "nash_average: expected .* rows of different lengths"),
        (
            lambda: interval(Results(("a", "b"), [[[0] * 3, [0.5, 0.2, 0.7]], [[0] * 3] * 2]), np.mean),
            SpecError,
            "counts must be whole numbers, got 0.5",
        ),
        (
            lambda: interval(Results.of([("a", "b", 1), ("b", "c", 1)]), np.mean),
            PoolError,
            "'a' and 'c' have not played",
        ),
    ],
)
def test_mistakes_are_named(make, error: type[Exception], says: str) -> None:
    with np.errstate(invalid="ignore"), pytest.raises(error, match=says):
        make()
