"""How much is cyclic once luck is taken out: no bias, and bounds that hold the truth."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from sizes import some

from marlenv.errors import PoolError, SpecError
from marlenv.tournament import Results, cyclic_share, decompose, interval
from marlenv.tournament.cycles import noise
from marlenv.tournament.report import response


def skills(n: int, spread: float) -> np.ndarray:
    """Payoffs that are differences of a number per player."""
    skill = np.linspace(-spread / 2, spread / 2, n)
    return skill[:, None] - skill


def circle(n: int) -> np.ndarray:
    """Players on a circle, each of whom beats those ahead; at most 1, and no skill at all."""
    angle = 2 * np.pi * np.arange(n) / n
    return np.sin(angle[:, None] - angle)


def played(table: np.ndarray, games: int, draws: float, rng: np.random.Generator) -> Results:
    """That many games in each seat, in which players win on average what the table says."""
    n = len(table)
    draw = draws * (1 - np.abs(table))
    chances = np.stack([(1 - draw + table) / 2, draw, (1 - draw - table) / 2], -1).clip(0, 1)
    counts = rng.multinomial(games * (1 - np.eye(n, dtype=int)), chances)
    return Results(tuple(map(str, range(n))), counts)


TRANSITIVE, CYCLIC = skills(8, 0.4), skills(8, 0.4) + 0.2 * circle(8)


def test_rock_paper_scissors_is_all_cyclic_and_two_players_are_not() -> None:
    wins = [("rock", "scissors", 1), ("scissors", "paper", 1), ("paper", "rock", 1)]
    found = cyclic_share(Results.of(wins * 30))
    assert (found.share, found.high) == (1, 1)
    assert 0.97 < found.low < 1
    assert cyclic_share(Results.of(wins)) == (1, 0, 1)  # a game each tells nothing
    assert cyclic_share(Results.of([("a", "b", 1)] * 9)) == (0, 0, 0)
    assert cyclic_share(Results.of([("a", "b", 0.5), ("b", "c", 0.5), ("c", "a", 0.5)] * 5)) == (0, 0, 1)


def test_the_noise_of_a_pair_is_the_variance_of_its_mean() -> None:
    """Summed over all that may come out of two games in one seat and three in the other, weighed by its chance."""
    first, second = 0.7, 0.4  # that the one who sits first wins

    def chance(won: int, games: int, win: float) -> float:
        return comb(games, won) * win**won * (1 - win) ** (games - won)

    mean = 0.0
    for a in range(3):
        for b in range(4):
            counts = np.zeros((2, 2, 3))
            counts[0, 1], counts[1, 0] = (a, 0, 2 - a), (b, 0, 3 - b)
            mean += chance(a, 2, first) * chance(b, 3, second) * noise(counts)[0, 1]
    exact = (4 * first * (1 - first) / 2 + 4 * second * (1 - second) / 3) / 4
    assert mean == pytest.approx(exact)
    once = Results.of([("a", "b", 1)]).counts
    assert noise(once)[0, 1] == 1
    assert noise(once + once.swapaxes(0, 1)[..., ::-1])[0, 1] == 0  # won once in either seat
    assert noise(Results.of([("a", "b", 1), ("b", "a", 1)]).counts)[0, 1] == pytest.approx(2 / 2)


def coverage(table: np.ndarray, games: int, count: int, draws: float = 0.0) -> tuple[float, float, float]:
    """How often bounds of 95 % hold what is cyclic of a table, the median share, and the mean width."""
    true, rng, found = decompose(table).share, np.random.default_rng(games + len(table)), []
    for seed in range(count):
        found.append(cyclic_share(played(table, games, draws, rng), replicates=200, seed=seed))
    share, low, high = np.array(found).T
    return float(((low <= true) & (true <= high)).mean()), float(np.median(share)), float((high - low).mean())


def test_where_nothing_is_cyclic_the_bounds_hold_0_and_those_of_the_plain_share_never_do() -> None:
    held, median, width = coverage(TRANSITIVE, 20, 60)
    assert (held >= 0.9, median < 0.05, width < 0.5) == (True, True, True)
    plain = played(TRANSITIVE, 20, 0.0, np.random.default_rng(0))
    assert decompose(plain.payoffs()).share > 0.2
    low, _ = interval(plain, lambda table: decompose(table).share, replicates=50)
    assert low > 0.1
    assert response(plain, list(plain.names), replicates=2)["cyclic"].split(" (")[1].startswith("0-")  # the report's


def test_a_true_circle_is_found_as_large_as_it_is() -> None:
    true = decompose(CYCLIC).share
    assert true == pytest.approx(0.368, abs=0.001)
    held, median, width = coverage(CYCLIC, 50, 60)
    assert held >= 0.88
    assert median == pytest.approx(true, abs=0.04)
    assert width < 0.4
    assert cyclic_share(played(CYCLIC, 50, 0.0, np.random.default_rng(1))).low > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "games", "draws"),
    some(
        [
            (TRANSITIVE, 5, 0.0),
            (CYCLIC, 5, 0.0),
            (skills(20, 0.4), 5, 0.0),
            (skills(8, 0.8), 2, 0.0),
            (0.5 * circle(3), 20, 0.0),
            (skills(5, 0.6) + 0.2 * circle(5), 10, 0.5),
            (np.zeros((6, 6)) + 0.3 * circle(6), 10, 0.3),
            (skills(6, 0.1) + 0.02 * circle(6), 200, 0.0),
        ],
        3,
    ),
)
def test_bounds_hold_the_truth_as_often_as_they_say(table: np.ndarray, games: int, draws: float, sized) -> None:
    count = sized(200, 1000)
    held, *_ = coverage(table, games, count, draws)
    assert held >= 0.95 - 0.015 - 3 * 0.218 / np.sqrt(
        count
    )  # a little is lost where variances are guessed of few games


def test_shares_depend_on_their_seed_alone() -> None:
    results = played(CYCLIC, 5, 0.0, np.random.default_rng(3))
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    first = cyclic_share(results, seed=5)
    assert (np.random.get_state()[1] == before).all()
    assert first == cyclic_share(results, seed=5)
    assert first.low < first.share < first.high


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: cyclic_share(Results.of([("a", "b", 1), ("b", "c", 1)])), PoolError, "'a' and 'c' have not played"),
        (lambda: cyclic_share(Results.of([("a", "b", 1)]), level=95), SpecError, "level must be between 0 and 1"),
        (lambda: cyclic_share(Results.of([("a", "b", 1)]), replicates=0), SpecError, "replicates must be an integer"),
    ],
)
def test_mistakes_are_named(make, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()
