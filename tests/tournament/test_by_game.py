"""Games of more than two seats: a game is one observation, whatever it says of how many pairs; warnings of equals."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, norm

from marlenv.tournament import Game, Results, rate
from marlenv.tournament.asking import ILLEGAL
from marlenv.tournament.by_game import met, rate_games
from marlenv.tournament.defects import defects, wins
from marlenv.tournament.play import Played, blank
from marlenv.tournament.report import standings


def games_of(lineups: list[tuple[str, ...]], returns: object) -> Played:
    games = [Game(number, players) for number, players in enumerate(lineups)]
    return blank(games, len(lineups[0]))._replace(returns=torch.as_tensor(returns, dtype=torch.float32))


def among_equals(rng: np.random.Generator, seats: int, count: int) -> Played:
    """One among copies of another, first and last in turn; all equal, by returns that are drawn."""
    lineups = [("me", *["x"] * (seats - 1)), (*["x"] * (seats - 1), "me")] * (count // 2)
    return games_of(lineups, rng.normal(size=(count, seats)))


@pytest.mark.slow
@pytest.mark.parametrize(("seats", "count"), [(3, 20), (10, 40)])
def test_intervals_of_games_with_many_seats_hold_the_truth(seats: int, count: int) -> None:
    """In 95 of 100 cases, less 3.5 errors of so many; from the counts of pairs alone it is far fewer."""
    rng, repeats, inside, naive = np.random.default_rng(seats), 200, 0, 0
    for _ in range(repeats):
        played = among_equals(rng, seats, count)
        low, high = rate_games(played, ["me", "x"]).wald()
        inside += bool(low[0] <= 0 <= high[0])
        low, high = rate(played.pairs(["me", "x"])).wald()
        naive += bool(low[0] <= 0 <= high[0])
    assert abs(inside / repeats - 0.95) < 3.5 * (0.95 * 0.05 / repeats) ** 0.5
    assert naive < inside - (0 if seats == 3 else 40)


@pytest.mark.parametrize("draws", ["davidson", "half"])
def test_the_errors_are_those_of_ratings_with_a_game_left_out(draws: str) -> None:
    """The jackknife by its definition: all games but one are rated anew, for each of them."""
    rng, names = np.random.default_rng(1), list("abcd")
    lineups = [tuple(rng.permutation(names)[:3]) for _ in range(60)]
    played = games_of(lineups, rng.integers(0, 4, size=(60, 3)))
    found = rate_games(played, names, draws=draws)
    assert found.elo == pytest.approx(rate(played.pairs(names), draws=draws).elo, abs=1e-6)
    left = [rate(played.take(np.delete(np.arange(60), k)).pairs(names), draws=draws).elo for k in range(60)]
    again = np.cov(np.array(left).T, bias=True) * 59
    assert found.covariance == pytest.approx(again, rel=0.05, abs=0.02 * again.max())


def test_of_games_of_two_the_ratings_are_those_of_their_counts() -> None:
    played = games_of([("a", "b"), ("b", "a")] * 4, [[1, -1], [1, -1], [0, 0], [-1, 1]] * 2)
    assert rate_games(played, ["a", "b"]).wald() == pytest.approx(np.array(rate(played.results()).wald()))
    assert met(played, ["a", "b"]).counts.tolist() == played.results(["a", "b"]).counts.tolist()


def test_who_played_a_single_game_is_as_sure_as_a_single_game_of_two() -> None:
    """One game says nothing of how games differ, so the model does; the two others are two comparisons at most."""
    rng = np.random.default_rng(0)
    lineups = [tuple(rng.permutation(list("abc"))) for _ in range(30)] + [("a", "new", "b")]
    returns = np.concatenate([rng.normal(size=(30, 3)), [[2.0, 1.0, 0.0]]])
    rows, _ = standings(games_of(lineups, returns), ["a", "b", "c", "new"])
    by_name = {row["player"]: row for row in rows}
    low, high = map(float, by_name["new"]["95 %"].split())
    alone = 2 * 1.96 * 400 / np.log(10) / 0.25**0.5  # of a game against an equal whose strength is known
    assert 0.7 * alone < high - low < 1.5 * alone
    low, high = map(float, by_name["a"]["95 %"].split())
    assert 100 < high - low < alone / 2


def test_the_standings_count_a_game_once_for_each_player() -> None:
    rng = np.random.default_rng(0)
    rows, _ = standings(among_equals(rng, 10, 40), ["me", "x"])
    assert {row["player"]: row["games"] for row in rows} == {"me": "40", "x": "40"}
    low, high = map(float, rows[0]["95 %"].split())
    assert high - low > 50  # 36 from the counts of pairs, which hold the truth in 64 of 100 cases


def test_who_did_better_in_a_game_is_one_result() -> None:
    """By hand: ``a`` is above both, then between them, then level; two seats against one are one result."""
    played = games_of([("a", "b", "b"), ("b", "a", "b"), ("b", "a", "b"), ("a", "c", "b")],
                      [[3, 1, 2], [1, 2, 3], [1, 2, 1], [1, 2, 3]])  # fmt: skip
    counts = met(played, ["a", "b", "c"]).counts
    assert counts[0, 1].tolist() == [1, 0, 1]
    assert counts[1, 0].tolist() == [0, 1, 1]
    assert counts[0, 2].tolist() == [0, 0, 1]
    assert counts[2, 1].tolist() == [0, 0, 1]
    assert counts.sum() == 6


# --- warnings ------------------------------------------------------------------------------------


def drawn(rng: np.random.Generator, chances: np.ndarray, games: int, draws: float = 0.0) -> Results:
    """Games of every pair from both seats, won with the chances ``[n, n]``."""
    n, counts = len(chances), np.zeros((len(chances), len(chances), 3))
    for i, j in permutations(range(n), 2):
        won = (1 - draws) * chances[i, j]
        counts[i, j] = rng.multinomial(games, [won, draws, 1 - draws - won])
    return Results(tuple(f"p{k}" for k in range(n)), counts)


@pytest.mark.parametrize(("n", "games", "draws"), [(4, 2, 0.0), (10, 2, 0.3), (30, 2, 0.0), (10, 10, 0.0)])
def test_of_equal_players_none_is_surely_better(n: int, games: int, draws: float) -> None:
    rng, equal = np.random.default_rng(n + games), np.full((n, n), 0.5)
    for _ in range(20):
        results = drawn(rng, equal, games, draws)
        assert not wins(results).any()
        assert not [text for text in defects(blank([], 2), results) if "circle" in text]


def test_who_is_clearly_better_is_found() -> None:
    """Of ten players, 40 games a pair, nine in ten of them won by the stronger; and rock, paper, scissors alike."""
    rng = np.random.default_rng(0)
    ladder = np.where(np.triu(np.ones((10, 10))) > 0, 0.9, 0.1)
    sure = wins(drawn(rng, ladder, 20))
    assert sure[np.triu_indices(10, 1)].sum() >= 40
    assert not sure[np.tril_indices(10)].any()
    circle = np.array([[0.5, 0.9, 0.1], [0.1, 0.5, 0.9], [0.9, 0.1, 0.5]])
    assert "they win in a circle" in defects(blank([], 2), drawn(rng, circle, 30))[0]


@pytest.mark.parametrize("players", [2, 3, 8])
def test_surely_better_is_the_exact_binomial_test_for_all_pairs(players: int) -> None:
    """SciPy's test, at the two-sided level of 3.5 errors, shared by all pairs that met."""
    pairs = players * (players - 1) // 2
    doubt = 1 - (1 - 2 * norm.sf(3.5)) ** (1 / pairs)
    for won in range(10, 61):
        counts = np.zeros((players, players, 3))
        counts[np.triu_indices(players, 1)] = 5, 3, 5
        counts[0, 1] = won, 7, 10
        exact = binomtest(won, won + 10).pvalue < doubt
        assert wins(Results(tuple("abcdefgh"[:players]), counts)).sum() == exact


def test_forfeits_do_not_make_players_alike_and_say_nothing_of_seats() -> None:
    """Who fails at the first move fails from any seat: games without a move are alike whoever played them."""
    lineups = [("bad", "x"), ("bad", "y")] * 10
    played = games_of(lineups, [[-1, 1]] * 20)
    played = played._replace(ending=torch.full((20,), ILLEGAL), culprit=torch.zeros(20, dtype=torch.int64))
    assert defects(played, played.results()) == ["'bad' forfeited 20 games: illegal move"]
    both = games_of([("a", "b"), ("b", "a")] * 20, [[-1, 1]] * 40)  # who sits first forfeits
    lost = both._replace(ending=torch.full((40,), ILLEGAL), culprit=torch.zeros(40, dtype=torch.int64))
    assert [text for text in defects(both, both.results()) if "sits first" in text]
    assert not [text for text in defects(lost, lost.results()) if "sits first" in text]
