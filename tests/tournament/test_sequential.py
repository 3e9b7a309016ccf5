"""Sequential tests make the errors they announce, and confidence sequences hold at every look."""

from __future__ import annotations

import numpy as np
import pytest
from sizes import some

from marlenv.errors import ShapeError, SpecError
from marlenv.tournament import SPRT, confidence_sequence, expected_score
from marlenv.tournament.brownian import Walk
from marlenv.tournament.sequential import likeliest_with_mean


def test_the_likeliest_chances_with_a_mean_are_those_that_scipy_finds() -> None:
    optimize = pytest.importorskip("scipy.optimize", reason="needs scipy: pip install -e '.[test]'")
    shares, values = np.array([0.1, 0.2, 0.4, 0.2, 0.1]), np.linspace(1, 0, 5)
    ours = likeliest_with_mean(shares, values, 0.55)
    best = optimize.minimize(
        lambda p: -(shares @ np.log(p)),
        shares,
        bounds=[(1e-9, 1)] * 5,
        constraints=[{"type": "eq", "fun": lambda p: p.sum() - 1}, {"type": "eq", "fun": lambda p: p @ values - 0.55}],
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 500},
    )
    np.testing.assert_allclose(ours, best.x, atol=1e-6)
    assert (ours.sum(), ours @ values) == (pytest.approx(1), pytest.approx(0.55))


def test_the_ratio_is_that_of_walds_test_where_there_are_no_draws() -> None:
    """Between two outcomes the mean says everything: the textbook's ratio."""
    test = SPRT(0, 50)
    p0, p1 = expected_score(0), expected_score(50)
    book = 700 * np.log(p1 / p0) + 600 * np.log((1 - p1) / (1 - p0))
    assert test.ratio([700, 0, 600]) == pytest.approx(book, abs=0.01)
    assert test.bounds == (pytest.approx(-2.944, abs=1e-3), pytest.approx(2.944, abs=1e-3))


def test_it_is_symmetric_and_grows_with_games() -> None:
    test = SPRT(-10, 10)
    assert test.ratio([50, 30, 50]) == pytest.approx(0, abs=1e-9)
    assert test.ratio([70, 30, 50]) == pytest.approx(-test.ratio([50, 30, 70]))
    assert test.ratio([10, 40, 100, 60, 20]) == pytest.approx(-test.ratio([20, 60, 100, 40, 10]))
    assert test.ratio([0, 0, 0]) == 0
    assert test.ratio([140, 60, 100]) == pytest.approx(2 * test.ratio([70, 30, 50]), abs=1e-9)
    assert test.decide([900, 100, 100]) == "stronger"
    assert test.decide([100, 100, 900]) == "not stronger"


def stopped(test: SPRT, chances: np.ndarray, seed: int, games: int = 6000, every: int = 20) -> tuple[str, int]:
    drawn = np.random.default_rng(seed).multinomial(every, chances, size=games // every).cumsum(0)
    for counts in drawn:
        if (verdict := test.decide(counts)) != "go on":
            return verdict, int(counts.sum())
    return "go on", games


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [3, 5])
@pytest.mark.parametrize("stronger", [False, True])
def test_errors_are_as_rare_as_announced(kinds: int, stronger: bool) -> None:
    test = SPRT(0, 40)
    even = np.array([0.3, 0.4, 0.3]) if kinds == 3 else np.array([0.1, 0.2, 0.4, 0.2, 0.1])
    chances = likeliest_with_mean(even, np.linspace(1, 0, kinds), expected_score(40 if stronger else 0))
    verdicts = [stopped(test, chances, seed)[0] for seed in range(600)]
    wrong = np.mean([verdict != ("stronger" if stronger else "not stronger") for verdict in verdicts])
    assert 0.005 <= wrong <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 600)


def test_confidence_sequences_hold_at_every_look() -> None:
    """Whoever stops at the worst moment is still right in 95 of 100 cases."""
    rng = np.random.default_rng(0)
    for chances in ([0.3, 0.4, 0.3], [0.9, 0.05, 0.05]):
        scores = rng.choice([1, 0.5, 0], p=chances, size=(2000, 500))
        low, high = confidence_sequence(scores, 0.95)
        mean = np.dot(chances, [1, 0.5, 0])
        missed = ((mean < low) | (mean > high)).any(-1).mean()
        assert missed <= 0.05
        assert (high - low)[:, -1].mean() < 0.2
        assert (np.diff(high - low) <= 0).all()


def test_an_interval_after_stopping_holds_where_the_plain_one_does_not() -> None:
    """Stopping when a player looks good makes it look better than it is; the plain interval does not know."""
    rng = np.random.default_rng(1)
    scores = rng.choice([1.0, 0.0], size=(2000, 400))
    t = np.arange(1, 401)
    mean = scores.cumsum(-1) / t
    half = 1.96 * 0.5 / np.sqrt(t)
    ends = np.where((mean - half > 0.5).any(-1), (mean - half > 0.5).argmax(-1), 399)
    rows = np.arange(2000)
    low, high = confidence_sequence(scores)
    assert ((low[rows, ends] <= 0.5) & (high[rows, ends] >= 0.5)).mean() >= 0.95
    assert ((mean - half)[rows, ends] > 0.5).mean() > 0.15


def test_bounds_depend_on_the_past_alone() -> None:
    scores = np.random.default_rng(2).random(50)
    low, high = confidence_sequence(scores)
    for part in (1, 7, 30):
        np.testing.assert_array_equal(confidence_sequence(scores[:part])[0], low[:part])
        np.testing.assert_array_equal(confidence_sequence(scores[:part])[1], high[:part])


# --- after stopping ------------------------------------------------------------------------------


def ended_low_by_waves(walk: Walk, games: float) -> float:
    """The chance to have ended low, as a sum over eigenfunctions of the interval; a book's other way to write it."""
    width, push = walk.high - walk.low, walk.drift / walk.variance
    n = np.arange(1, 400)
    rate = walk.variance * (n * np.pi / width) ** 2 / 2 + walk.drift * push / 2
    flow = np.pi * walk.variance / width**2 * n * np.sin(n * np.pi * -walk.low / width) * np.exp(push * walk.low)
    odds = np.exp(-2 * push * np.array([walk.low, walk.high]))
    ever = walk.high / width if walk.drift == 0 else (1 - odds[1]) / (odds[0] - odds[1])
    return float(ever - (flow * np.exp(-rate * games) / rate).sum())


@pytest.mark.parametrize("drift", [-0.3, -0.01, 0.0, 0.02, 0.2])
@pytest.mark.parametrize("games", [3, 20, 90, 700])
def test_paths_end_as_often_as_a_book_says(drift: float, games: int) -> None:
    walk = Walk(drift, 0.5, -3.0, 2.0)
    ended = walk.ended_low(games)
    assert ended == pytest.approx(ended_low_by_waves(walk, games), abs=1e-9)
    other = Walk(-drift, 0.5, -2.0, 3.0).ended_low(games)  # seen in a mirror: who ended high
    assert ended + other + walk.alive_below(games, games + 1, 99.0) == pytest.approx(1, abs=1e-9)


@pytest.mark.reference
@pytest.mark.parametrize("drift", [-0.2, -0.03])
def test_with_one_bound_the_time_to_it_is_inverse_gaussian(drift: float) -> None:
    stats = pytest.importorskip("scipy.stats", reason="needs scipy: pip install -e '.[test]'")
    mean, shape = 3.0 / -drift, 9.0 / 0.5  # of the time at which -3 is reached
    law = stats.invgauss(mean / shape, scale=shape)
    for games in (5, 30, 200):
        assert Walk(drift, 0.5, -3.0, 60.0).ended_low(games) == pytest.approx(law.cdf(games), abs=1e-9)


def test_paths_that_are_looked_at_now_and_then_end_as_simulated_ones() -> None:
    rng, every, walk = np.random.default_rng(0), 10, Walk(0.01, 0.05, -3.0, 2.5, 10)
    ends, values, x, alive = np.zeros(20_000), np.zeros(20_000), np.zeros(20_000), np.ones(20_000, dtype=bool)
    for games in range(every, 4001, every):
        x[alive] += rng.normal(walk.drift * every, np.sqrt(walk.variance * every), alive.sum())
        out = alive & ((x < walk.low) | (x > walk.high))
        ends[out], values[out] = games, x[out]
        alive &= ~out
    for games, value in ((50, 3.0), (200, -3.2), (200, 0.5), (400, 2.7)):
        worse = ((ends < games) & (values < walk.low)).mean() + (replayed_until(walk, games) < value).mean()
        assert walk.below(games, value) == pytest.approx(worse, abs=0.015)


def replayed_until(walk: Walk, games: int) -> np.ndarray:
    """Values at one look of the paths that had not ended before; infinite for the others."""
    rng, x, alive = np.random.default_rng(1), np.zeros(20_000), np.ones(20_000, dtype=bool)
    for look in range(walk.every, games + 1, walk.every):
        alive &= (x > walk.low) & (x < walk.high) if look > walk.every else alive
        x += rng.normal(walk.drift * walk.every, np.sqrt(walk.variance * walk.every), len(x))
    return np.where(alive, x, np.inf)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "every", "true"), some([(3, 10, 0), (3, 10, 40), (5, 5, 40), (5, 5, -30), (3, 100, 40), (3, 10, 120)], 6)
)
def test_estimates_after_stopping_are_honest(kinds: int, every: int, true: float, sized) -> None:
    """Their intervals hold the truth at least as often as they say, and they are not biased; plain means are."""
    test, values, count = SPRT(0, 40), np.linspace(1, 0, kinds), sized(300, 2000)
    even = np.array([0.3, 0.4, 0.3]) if kinds == 3 else np.array([0.1, 0.2, 0.4, 0.2, 0.1])
    chances = likeliest_with_mean(even, values, expected_score(true))
    rng, held, above, plain, games = np.random.default_rng(abs(true) + every), [], [], [], []
    for _ in range(count):
        counts = rng.multinomial(every, chances)
        while test.decide(counts) == "go on":
            counts += rng.multinomial(every, chances)
        found = test.estimate(counts, every=every)
        held.append(found.low <= true <= found.high)
        above.append(found.elo > true)
        games.append(counts.sum())
        plain.append(counts @ values / counts.sum() > expected_score(true))
    error = 4 / np.sqrt(count)
    wider = 0.02 if np.mean(games) < 100 else 0  # where few games are played, bounds are a little wide
    assert 0.933 - error * 0.218 / 4 <= np.mean(held) <= 0.967 + wider + error * 0.218 / 4
    assert abs(np.mean(above) - 0.5) <= 0.03 + error / 4
    if every == 10 and true in (0, 40):
        assert abs(np.mean(plain) - 0.5) > 0.1  # failed tests look worse, passed ones better than they are


def test_an_estimate_lies_within_its_bounds_and_tells_good_from_bad() -> None:
    test = SPRT(0, 40)
    order = [[70, 90, 120], [170, 240, 180], [120, 90, 74], [40, 10, 12]]  # failed, undecided, passed, passed early
    found = [test.estimate(counts) for counts in order]
    assert all(one.low < one.elo < one.high for one in found)
    assert [one.elo for one in found] == sorted(one.elo for one in found)
    wide, narrow = test.estimate(order[0], 0.99), test.estimate(order[0], 0.5)
    assert wide.low < found[0].low < narrow.low < narrow.high < found[0].high < wide.high
    assert wide.elo == narrow.elo
    mirrored = SPRT(-40, 0).estimate(order[0][::-1])
    assert mirrored.elo == pytest.approx(-found[0].elo, abs=1e-5)
    assert (mirrored.low, mirrored.high) == (
        pytest.approx(-found[0].high, abs=1e-4),
        pytest.approx(-found[0].low, abs=1e-4),
    )


@pytest.mark.parametrize("kinds", [3, 5])
def test_who_won_every_game_has_a_lower_bound_only(kinds: int) -> None:
    """As ratings have it: no strength is too high for a record without a loss."""
    test = SPRT(-1000, 1000, alpha=1e-9, beta=1e-9)  # far from its end
    for games in (5, 1, 3):
        won = np.eye(kinds)[0] * games
        best, worst = test.estimate(won, every=1000), test.estimate(won[::-1], every=1000)
        assert (best.high, worst.low) == (np.inf, -np.inf)
        assert np.isfinite([best.low, worst.high]).all()
    assert np.isfinite(test.estimate(np.full(kinds, 9.0))).all()


@pytest.mark.parametrize("kinds", [3, 5])
@pytest.mark.parametrize("games", [1, 5, 10, 200])
def test_who_won_every_game_is_as_strong_as_its_chance_says(games: int, kinds: int) -> None:
    """No outcome is better, so what is rare is to win them all: a chance of ``p ** games``."""
    found = SPRT(0, 10).estimate(np.eye(kinds)[0] * games)
    assert expected_score(found.elo) ** games == pytest.approx(0.5)
    assert expected_score(found.low) ** games == pytest.approx(0.025)
    lost = SPRT(0, 10).estimate(np.eye(kinds)[-1] * games)
    assert (lost.elo, lost.low, lost.high) == (-found.elo, -np.inf, -found.low)
    assert found.high == np.inf


@pytest.mark.parametrize("counts", [[10, 1, 0], [9, 5, 0], [9, 1, 0, 0, 0], [4, 1, 0, 0, 0], [9, 0, 1, 0, 0]])
def test_games_without_a_loss_set_bounds_if_not_all_were_won(counts: list[int]) -> None:
    """The chances to do better and worse, counted through with multinomials: each bound lies near where 2.5 % are."""
    values, games = np.linspace(1, 0, len(counts)), sum(counts)
    seen, score = np.maximum(counts, 0.5 * np.eye(len(counts))[-1]), np.dot(counts, values)

    def as_good(elo: float) -> float:
        chances = likeliest_with_mean(np.maximum(seen, 1e-9) / seen.sum(), values, expected_score(elo))
        points = np.ones(1)  # the chance of each number of points, by one game after another
        for _ in range(games):
            points = sum(np.pad(points * chance, (k, len(values) - 1 - k)) for k, chance in enumerate(chances[::-1]))
        return float(points[round(score * (len(values) - 1)) :].sum())

    for test, every in ((SPRT(0, 10), 1), (SPRT(-1000, 1000, alpha=1e-9, beta=1e-9), 1000)):  # far from their ends
        found = test.estimate(counts, every=every)
        assert np.isfinite(found).all()
        assert found.low < found.elo < found.high
        assert 0.0003 < as_good(found.low) < 0.1
        assert 0.9 < as_good(found.high) < 0.9999
        assert 0.3 < as_good(found.elo) < 0.9  # ties with what was seen among them


@pytest.mark.slow
@pytest.mark.parametrize("true", [600, 1000])
def test_estimates_of_the_much_stronger_are_not_wild(true: float) -> None:
    test, rng, known, found = SPRT(0, 40), np.random.default_rng(true), {}, []
    for _ in range(60):
        counts = np.zeros(3, np.int64)
        while test.decide(counts) == "go on":
            won = rng.binomial(2, expected_score(true))
            counts += [won, 0, 2 - won]
        key = tuple(counts.tolist())
        known[key] = known.get(key) or test.estimate(counts, every=2)
        found.append(known[key])
    assert np.mean([one.elo > true for one in found]) < 0.65
    assert np.mean([one.low <= true <= one.high for one in found]) > 0.89


def test_scores_to_expect_are_those_of_odds_however_far_apart_two_are() -> None:
    """A factor of ten in the odds for 400 points."""
    for steps in (0, 1, 3, 12):
        assert expected_score(-400.0 * steps) == pytest.approx(1 / (1 + 10**steps), rel=1e-12)
        assert expected_score(400.0 * steps) == pytest.approx(1 - expected_score(-400.0 * steps), rel=1e-15)
    assert [expected_score(elo) for elo in (1e6, -1e6, float("inf"), -float("inf"))] == [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: SPRT(10, 0), SpecError, "elo0 must be below elo1, got 10 and 0"),
        (lambda: SPRT(0, 10, alpha=0.6, beta=0.6), SpecError, "add up to less than 1"),
        (lambda: SPRT(0, 10).ratio([1, 2]), ShapeError, r"expected 3 counts \(won, drawn, lost\) or 5"),
        (lambda: SPRT(0, 10).ratio([1, 2, -3]), SpecError, "not negative"),
        (lambda: SPRT(0, 10).estimate([0, 0, 0]), SpecError, "no game has been played"),
        (lambda: SPRT(0, 10).estimate([1, 0, 0], every=0), SpecError, "every must be an integer from 1 on, got 0"),
        (lambda: SPRT(0, 10).estimate([1, 0, 0], 95), SpecError, "level must be between 0 and 1"),
        (lambda: SPRT("a", 10), SpecError, "SPRT: elo0 must be a number, got 'a'"),
        (lambda: SPRT(0, 10, beta=None), SpecError, "SPRT: beta must be a number, got None"),
        (lambda: SPRT(0, float("inf")), SpecError, "must lie from -2400 to 2400.*got 0 and inf"),
        (lambda: SPRT(0, 10).decide("won"), ShapeError, "expected 3 counts"),
        (lambda: SPRT(0, 10).estimate([0.1, 0.1, 0.2]), SpecError, "no whole game has been played.* add up to 0.4"),
        (lambda: confidence_sequence(0.5), ShapeError, r"scores in the order of the games, \[..., G\], got 0.5"),
        (lambda: confidence_sequence([[1], [1, 0]]), ShapeError, "rows of different lengths"),
        (lambda: confidence_sequence([2.0]), SpecError, "scores must lie from 0 to 1"),
        (lambda: confidence_sequence([1.0], 95), SpecError, "level must be between 0 and 1"),
        (lambda: confidence_sequence([1.0], "x"), SpecError, "level must be between 0 and 1, such as 0.95, got 'x'"),
    ],
)
def test_mistakes_are_named(make, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()
