"""Games in columns are the list of their games, and schedules are those of plain loops."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marlenv.tournament.games import Game, Games
from marlenv.tournament.schedule import repeated, round_robin

NUMBERS = st.integers(-(2**62), 2**62)
GAMES = st.lists(
    st.builds(
        Game,
        NUMBERS,
        st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(tuple),
        st.integers(0, 300),
        st.none() | NUMBERS,
        st.none() | NUMBERS,
    ),
    max_size=9,
)
PLACES = st.none() | st.integers(-12, 12)


@pytest.mark.slow
@given(GAMES, GAMES, PLACES, PLACES, PLACES.filter(lambda step: step != 0))
def test_games_are_their_list(plain: list[Game], more: list[Game], start, stop, step) -> None:
    games = Games.of(iter(plain))
    assert Games.of(games) is games
    assert (len(games), list(games), [*reversed(games)], bool(games)) == (
        len(plain), plain, plain[::-1], bool(plain),
    )  # fmt: skip
    assert games == plain
    assert plain == games
    assert games == tuple(plain)
    assert (games == more) is (plain == more)
    cut = slice(start, stop, step)
    assert isinstance(games[cut], Games)
    assert games[cut] == plain[cut]
    for k in range(-len(plain), len(plain)):
        assert games[k] == plain[k]
        assert type(games[k].id) is int
    for k in (len(plain), -len(plain) - 1):
        with pytest.raises(IndexError):
            games[k]
    for game in plain:
        assert game in games
        assert (games.index(game), games.count(game)) == (plain.index(game), plain.count(game))
    assert games + more == plain + more == plain + Games.of(more) == Games.joined([games, Games.of(more)])
    assert pickle.loads(pickle.dumps(games)) == games.tidy() == plain


@given(GAMES)
def test_columns_say_who_sits_where_and_what_chance_is_drawn_from(plain: list[Game]) -> None:
    games = (Games.of([Game(7, ("z",))]) + plain)[1:]  # a lineup that no game has any more
    seats = [game.players for game in plain]
    for some, order in ((games, seats), (games[::-1], seats[::-1])):
        assert some.first() == {players: order.index(players) for players in order}
        assert list(some.first()) == list(dict.fromkeys(order))
    assert set(games.tidy().lineups) == set(seats)
    assert games.drawn.tolist() == [game.id if game.chance is None else game.chance for game in plain]
    assert games.take(np.array([g.round % 2 == 0 for g in plain], bool)) == [g for g in plain if g.round % 2 == 0]


@given(
    st.lists(st.tuples(st.sampled_from(["ab", "ba", "aa", "abc"]), st.integers(0, 3)), max_size=4),
    st.integers(1, 3),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from(["games", "pairs", "cycles"]),
)
def test_repeated_games_are_those_of_the_loop(cycle, cycles: int, openings: int, both: bool, chance) -> None:
    given_ = [Game(5, tuple(names), turn) for names, turn in cycle]
    plain: list[Game] = []
    starts: list[int | None] = [*range(openings)] or [None]
    pair = 0
    for number in range(cycles):
        for game, (k, opening) in product(given_, enumerate(starts)):
            same = {"games": None, "pairs": pair, "cycles": number * len(starts) + k}[chance]
            for players in [game.players, game.players[::-1]] if both else [game.players]:
                plain.append(Game(len(plain), players, game.round, opening, same))
            pair += 1
    assert repeated(given_ * cycles, cycles=cycles, openings=openings, both=both, chance=chance) == plain


@given(st.integers(2, 9), st.integers(1, 5), st.booleans())
@settings(deadline=None)
def test_each_leg_of_a_round_robin_swaps_the_seats_of_the_one_before(n: int, cycles: int, double: bool) -> None:
    names = [f"p{k}" for k in range(n)]
    once = list(round_robin(names))
    rounds = n - 1 + n % 2
    plain = [
        Game(leg * len(once) + g.id, g.players[::-1] if leg % 2 else g.players, leg * rounds + g.round)
        for leg in range(cycles * (1 + double))
        for g in once
    ]
    assert round_robin(names, cycles=cycles, double=double) == plain
