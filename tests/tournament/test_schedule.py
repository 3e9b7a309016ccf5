"""Schedules: everybody meets whom they should, from the seats they should; Swiss rounds are the best there are."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from marlenv.errors import PoolError, SpecError, UnknownName
from marlenv.tournament.games import Game
from marlenv.tournament.schedule import (
    _cost,
    _records,
    advance,
    bracket,
    cross_play_teams,
    focal_background,
    gauntlet,
    round_robin,
    swiss_round,
    with_openings,
)


def names(n: int) -> list[str]:
    return [f"p{k}" for k in range(n)]


@given(st.integers(2, 13), st.booleans(), st.integers(1, 2))
@settings(deadline=None)
def test_a_round_robin_pairs_all_with_all(n: int, double: bool, cycles: int) -> None:
    games = round_robin(names(n), double=double, cycles=cycles)
    met = Counter(frozenset(game.players) for game in games)
    assert len(met) == n * (n - 1) // 2
    assert set(met.values()) == {(1 + double) * cycles}
    assert [game.id for game in games] == list(range(len(games)))
    for number in {game.round for game in games}:
        busy = [p for game in games if game.round == number for p in game.players]
        assert len(busy) == len(set(busy)) == n - n % 2
    first, second = Counter(g.players[0] for g in games), Counter(g.players[1] for g in games)
    assert all(abs(first[p] - second[p]) <= (0 if double else 1) for p in names(n))
    if double:
        assert set(Counter(game.players for game in games).values()) == {cycles}


def test_a_gauntlet_is_run_by_the_challengers_alone() -> None:
    games = gauntlet(["x", "y"], names(3))
    assert len(games) == 2 * 2 * 3
    assert all(len({"x", "y"} & set(game.players)) == 1 for game in games)


def test_teams_are_all_choices_of_a_policy_per_group() -> None:
    games = cross_play_teams(["a", "b", "c"], {"left": ["l0", "l1"], "right": ["r0", "r1"]})
    assert Counter((g.players[0], g.players[2]) for g in games) == Counter((x, y) for x in "abc" for y in "abc")
    assert all(g.players[0] == g.players[1] and g.players[2] == g.players[3] for g in games)


def test_openings_are_played_from_both_seats_with_the_same_chance() -> None:
    games = with_openings(round_robin(names(4)), openings=3)
    assert len(games) == 6 * 3 * 2
    for one, other in zip(games[::2], games[1::2], strict=True):
        assert (one.players, one.opening, one.chance) == (other.players[::-1], other.opening, other.chance)
    assert len({game.chance for game in games}) == 18
    assert [game.id for game in games] == list(range(36))


# --- Swiss ---------------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn, most: int) -> tuple[list[str], list[tuple[str, str, float]], list[str]]:
    """Swiss tournaments that have come some way."""
    players = names(draw(st.integers(2, most)))
    rounds = draw(st.integers(0, max(1, len(players) // 2)))
    games: list[tuple[str, str, float]] = []
    byes: list[str] = []
    for _ in range(rounds):
        try:
            pairs, bye = swiss_round(players, games, byes)
        except PoolError:
            break
        games += [(a, b, draw(st.sampled_from([0, 0.5, 1]))) for a, b in pairs]
        byes += [] if bye is None else [bye]
    return players, games, byes


@given(histories(17))
@settings(deadline=None, max_examples=60)
def test_swiss_rounds_keep_their_rules(history: tuple) -> None:
    players, games, byes = history
    met = Counter(frozenset(game[:2]) for game in games)
    assert not met or max(met.values()) == 1
    assert len(set(byes)) == len(byes)
    assert len(byes) == (2 * len(games) // (len(players) - 1) if len(players) % 2 else 0)
    for player in players:
        seats = [1 if a == player else -1 for a, b, _ in games if player in (a, b)]
        balance = [sum(seats[: k + 1]) for k in range(len(seats))]
        assert all(abs(b) <= 2 for b in balance)
        assert not any(a == b == c for (a, b), (_, c) in pairwise(pairwise(seats)))


def matchings(nodes: list[int]):
    """All ways to pair an even number of nodes."""
    if not nodes:
        yield []
        return
    first, *rest = nodes
    for other in rest:
        for more in matchings([x for x in rest if x != other]):
            yield [(first, other), *more]


@given(histories(8))
@settings(deadline=None, max_examples=60)
def test_no_other_swiss_round_is_better(history: tuple) -> None:
    players, games, byes = history
    records = _records(players, games, byes)
    nodes = list(range(len(players) + len(players) % 2))
    costs = []
    for match in matchings(nodes):
        each = [_cost(players, records, i, j) for i, j in match]
        if None not in each:
            costs.append(sum(each))
    if not costs:
        with pytest.raises(PoolError, match="no round of .* players is left"):
            swiss_round(players, games, byes)
        return
    pairs, bye = swiss_round(players, games, byes)
    chosen = [tuple(sorted((players.index(a), players.index(b)))) for a, b in pairs]
    chosen += [] if bye is None else [(players.index(bye), len(players))]
    assert sum(_cost(players, records, i, j) for i, j in chosen) == min(costs)


def test_two_who_both_have_to_sit_second_do_not_meet_whatever_their_scores() -> None:
    games = [("p0", "p2", 1), ("p1", "p3", 1), ("p4", "p5", 1), ("p0", "p3", 1), ("p1", "p2", 1)]
    pairs, _ = swiss_round(names(8), games)
    assert len(pairs) == 4
    assert {"p0", "p1"} <= {second for _, second in pairs}
    assert {"p2", "p3"} <= {first for first, _ in pairs}


def test_winners_meet_winners() -> None:
    games = [("p0", "p1", 1), ("p2", "p3", 1), ("p4", "p5", 1), ("p6", "p7", 1)]
    pairs, bye = swiss_round(names(8), games)
    assert bye is None
    assert {frozenset(pair) for pair in pairs if "p0" in pair or "p2" in pair} <= {
        frozenset(p) for p in (("p0", "p2"), ("p0", "p4"), ("p0", "p6"), ("p2", "p4"), ("p2", "p6"))
    }
    assert all({a, b} <= {"p0", "p2", "p4", "p6"} or {a, b} <= {"p1", "p3", "p5", "p7"} for a, b in pairs)


def test_scores_are_numbers_of_any_kind() -> None:
    games = [("p0", "p1", 1), ("p2", "p3", 0.5)]
    assert swiss_round(names(4), [(a, b, np.float32(x)) for a, b, x in games]) == swiss_round(names(4), games)
    assert swiss_round(names(4), [(a, b, torch.tensor(x)) for a, b, x in games]) == swiss_round(names(4), games)


# --- knockout ------------------------------------------------------------------------------------


@given(st.integers(2, 33))
def test_the_best_win_a_knockout_and_meet_last(n: int) -> None:
    places = bracket(names(n))
    rounds = 0
    while len(places) > 2:
        pairs = zip(places[::2], places[1::2], strict=True)
        places = advance(places, [min((p for p in pair if p), key=lambda p: int(p[1:])) for pair in pairs])
        rounds += 1
        assert None not in places
        assert set(places) == set(names(len(places)))  # the best of all are still there
    assert set(places) == {"p0", "p1"}
    assert 2 ** (rounds + 1) >= n > 2**rounds


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: round_robin(["a", "a"]), PoolError, r"two players of one name: \['a'\]"),
        (lambda: round_robin(["a"]), PoolError, "expected 2 players or more"),
        (lambda: round_robin(["a", "b"], cycles=0), SpecError, "cycles must be an integer from 1 on, got 0"),
        (lambda: round_robin("ab"), PoolError, "round_robin: expected a list of players, got the text 'ab'"),
        (lambda: gauntlet("new", ["a"]), PoolError, r"gauntlet: expected a list of players, got the text 'new'; write"),
        (lambda: gauntlet(["new"], "a"), PoolError, "gauntlet: expected a list of players, got the text 'a'"),
        (lambda: focal_background("me", ["x"], 2, [[0]]), PoolError, "focal_background: expected a list .* text 'me'"),
        (lambda: focal_background(["me"], {"a": "x"}, ["a"], [[0]]), PoolError, "expected a list .* the text 'x'"),
        (lambda: cross_play_teams("ab", {"g": ["a"]}), PoolError, "cross_play_teams: expected a list of players"),
        (lambda: swiss_round(names(3), byes="p0"), PoolError, "swiss_round: byes: expected a list of players, got the"),
        (lambda: swiss_round(names(2), [("p0", "p1")]), PoolError, r"expected games \(first seat, .* \('p0', 'p1'\)"),
        (
            lambda: advance(["ada", "bob"], "ada"),
            PoolError,
            "advance: winners: expected a list of players, got the text",
        ),
        (lambda: gauntlet([], ["a", "b"]), PoolError, "expected challengers and a field"),
        (lambda: focal_background(["a"], ["b"], 2, [[2]]), PoolError, r"must be some of 0..1, got \[2\]"),
        (lambda: focal_background([], ["b", "c"], 2, [[0]]), PoolError, r"focal and background policies, got \[\] and"),
        (lambda: focal_background(["a", "b"], [], 2, [[0]]), PoolError, "expected focal and background policies"),
        (lambda: cross_play_teams(["a"], {"g": []}), PoolError, "expected groups with agents"),
        (lambda: with_openings([Game(0, ("a", "b"))], 0), SpecError, "openings must be an integer from 1 on"),
        (lambda: swiss_round(["ada", "bob"], [("ada", "bop", 1)]), UnknownName, "did you mean 'bob'"),
        (lambda: swiss_round(["ada", "bob"], byes=["adda"]), UnknownName, "did you mean 'ada'"),
        (lambda: swiss_round(["a", "b"], [("a", "b", 1)]), PoolError, "after 1 rounds no round of 2 players is left"),
        (lambda: swiss_round(["a", "b"], [("a", "b", 0.75)]), PoolError, "score must be 1, 0.5 or 0, got 0.75"),
        (lambda: swiss_round(["a", "b"], [("a", "b", float("nan"))]), PoolError, "must be 1, 0.5 or 0, got nan"),
        (lambda: swiss_round(["a", "b"], [("a", "a", 1)]), PoolError, "a player against itself .* of 'a'"),
        (lambda: advance(["a", "b", "c"], ["a"]), PoolError, r"expected 2, 4, 8, ... places, .* got \['a', 'b', 'c'\]"),
        (lambda: advance(["a", "b", None, None], ["a"]), PoolError, "a player in each pair of neighbours"),
        (lambda: advance(["a", "b", "b", "c"], ["b", "c"]), PoolError, "two players of one name"),
        (lambda: advance(["a", "b"], ["a", "b"]), PoolError, "of 'a' and 'b' exactly one goes on"),
        (lambda: advance(["a", None], ["c"]), PoolError, r"\['c'\] are not in this round"),
    ],
)
def test_mistakes_are_named(make, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()
