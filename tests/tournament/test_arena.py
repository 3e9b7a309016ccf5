"""The arena: known chances, the same games whatever the batch, every game once, and what goes wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from marlenv.errors import (
    BadIndex,
    DtypeError,
    IllegalAction,
    KeyMissing,
    PoolError,
    ShapeError,
    SpecError,
    UnknownName,
)
from marlenv.games import Backgammon, KuhnPoker, MatrixGame, TicTacToe
from marlenv.tournament.asking import ENDINGS
from marlenv.tournament.blocks import pack, unpack
from marlenv.tournament.games import Game
from marlenv.tournament.mcts import MCTSPlayer
from marlenv.tournament.moves import MoveLists
from marlenv.tournament.play import Arena, Played, blank
from marlenv.tournament.players import ModulePlayer, TabularPlayer, random_player
from marlenv.tournament.results import Results
from marlenv.tournament.schedule import round_robin, with_openings
from marlenv.tournament.turns import Turn


def first_legal(turn: Turn) -> torch.Tensor:
    return turn.legal.int().argmax(-1)


def random_games(count: int, rows: int, seed: int = 0) -> Played:
    arena = Arena(TicTacToe(), {"a": random_player, "b": random_player}, rows=rows, seed=seed)
    return arena.play([Game(k, ("a", "b")) for k in range(count)])


def check_chances(count: int) -> None:
    """Random against random: 737/1260 won by who begins, 8/63 drawn, 121/420 lost; by enumeration."""
    first = random_games(count, 4096).returns[:, 0]
    for sign, chance in ((1, 737 / 1260), (0, 8 / 63), (-1, 121 / 420)):
        share = float((first.sign() == sign).double().mean())
        assert abs(share - chance) < 4 * (chance * (1 - chance) / count) ** 0.5


def test_random_tic_tac_toe_has_the_known_chances() -> None:
    check_chances(100_000)


@pytest.mark.slow
def test_random_tic_tac_toe_has_the_known_chances_in_a_million_games() -> None:
    check_chances(1_000_000)


def test_a_table_meets_a_table_with_the_chances_of_a_product() -> None:
    """Rock, paper, scissors by tables: every outcome has a chance that can be written down."""
    mine, theirs = torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[0.1, 0.6, 0.3]])
    payoffs = MatrixGame("rock_paper_scissors")
    table = {
        name: TabularPlayer(lambda turn: torch.zeros_like(turn.seat), weights)
        for name, weights in (("mine", mine), ("theirs", theirs))
    }
    count = 40_000
    played = Arena(payoffs, table, rows=2048).play([Game(k, ("mine", "theirs")) for k in range(count)])
    exact = 0.5 * 0.3 + 0.3 * 0.1 + 0.2 * 0.6  # rock beats scissors, paper rock, scissors paper
    share = float((played.returns[:, 0] > 0).double().mean())
    assert abs(share - exact) < 4 * (exact * (1 - exact) / count) ** 0.5


def chances_of_tables(mine: torch.Tensor, theirs: torch.Tensor) -> list[float]:
    """How often the first player wins, draws and loses if both play by weights of the squares; by enumeration."""
    lines = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
    found = [0.0, 0.0, 0.0]

    def walk(taken: tuple[list[int], list[int]], chance: float) -> None:
        turn = len(taken[0]) - len(taken[1])
        for seat in (0, 1):
            if any(set(line) <= set(taken[seat]) for line in lines):
                found[2 * seat] += chance
                return
        free = [s for s in range(9) if s not in taken[0] and s not in taken[1]]
        if not free:
            found[1] += chance
            return
        weights = (mine, theirs)[turn][free].double()
        for square, share in zip(free, (weights / weights.sum()).tolist(), strict=True):
            both = ([*taken[0], square], taken[1]) if turn == 0 else (taken[0], [*taken[1], square])
            if share:
                walk(both, chance * share)

    walk(([], []), 1.0)
    return found


@pytest.mark.slow
def test_tables_in_tic_tac_toe_win_as_often_as_enumeration_says() -> None:
    mine, theirs = torch.tensor([0.1, 1, 0.1, 2, 5, 2, 0.1, 1, 1]), torch.tensor([3.0, 1, 3, 0.2, 0.2, 1, 4, 0.2, 3])
    players = {
        name: TabularPlayer(lambda turn: torch.zeros_like(turn.seat), weights.unsqueeze(0))
        for name, weights in (("mine", mine), ("theirs", theirs))
    }
    count = 60_000
    played = Arena(TicTacToe(), players, rows=4096, seed=1).play([Game(k, ("mine", "theirs")) for k in range(count)])
    first = played.returns[:, 0]
    for sign, chance in zip((1, 0, -1), chances_of_tables(mine, theirs), strict=True):
        share = float((first.sign() == sign).double().mean())
        assert abs(share - chance) < 4 * (chance * (1 - chance) / count) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("rules", [TicTacToe(), KuhnPoker(), Backgammon()], ids=lambda rules: type(rules).__name__)
def test_games_are_the_same_at_any_batch_size(rules) -> None:
    players = {"a": random_player, "b": random_player, "first": first_legal}
    games = round_robin(list(players), double=True, cycles=1 if isinstance(rules, Backgammon) else 20)
    plain = None
    for rows in (1, 64, 4096):
        played = Arena(rules, players, rows=rows, seed=3, max_plies=60).play(games)
        if plain is None:
            plain = played
            assert len(played.digest.unique()) >= 5  # Kuhn poker has no more ways to be played than that
        for got, want in zip(played[1:7], plain[1:7], strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=0)
    other = Arena(rules, players, rows=64, seed=4, max_plies=60).play(games)
    assert (other.digest != plain.digest).any()


def test_a_game_does_not_depend_on_what_else_is_played() -> None:
    whole = random_games(50, 7)
    alone = Arena(TicTacToe(), {"a": random_player, "b": random_player}).play([Game(33, ("a", "b"))])
    assert int(alone.digest[0]) == int(whole.digest[33])


def test_no_global_generator_is_read_or_moved() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = random_games(20, 8).digest
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(random_games(20, 8).digest, one)


def test_each_player_is_asked_once_per_step_about_its_rows() -> None:
    asked: dict[str, list[int]] = {"a": [], "b": [], "c": []}

    def spy(name: str):
        def player(turn: Turn) -> torch.Tensor:
            asked[name].append(len(turn.seat))
            return first_legal(turn)

        return player

    arena = Arena(TicTacToe(), {name: spy(name) for name in asked}, rows=6)
    arena.play(round_robin(list(asked), double=True))
    assert asked["a"][0] == asked["b"][0] == asked["c"][0] == 2  # six rows, mixed pairings, one call each
    assert sum(map(sum, asked.values())) == arena.row_steps  # no row was stepped in vain


def test_finished_rows_get_the_next_game_at_once() -> None:
    arena = Arena(TicTacToe(), {"a": random_player, "b": random_player}, rows=16)
    played = arena.play([Game(k, ("a", "b")) for k in range(400)])
    assert arena.row_steps == int(played.plies.sum())  # every step of every row was a move of a game


def test_positions_that_a_player_keeps_stay_as_they_were() -> None:
    """Finished rows get other games while players may still hold what they were given."""

    class Shares(KuhnPoker):
        def play(self, state: Any, action: torch.Tensor) -> Any:
            return super().play(state, action)._replace(cards=state.cards)  # a tensor of the state before

    kept: list[tuple[Any, list[torch.Tensor]]] = []

    def keeper(turn: Turn) -> torch.Tensor:
        kept.append((turn.state, [leaf.clone() for leaf in turn.state]))
        return random_player(turn)

    Arena(Shares(), {"a": keeper, "b": keeper}, rows=8).play(round_robin(["a", "b"], cycles=80))
    assert len(kept) > 20
    for state, copies in kept:
        assert all(torch.equal(leaf, copy) for leaf, copy in zip(state, copies, strict=True))


def test_a_game_that_is_over_as_it_begins_is_not_played_on() -> None:
    won = [0, 3, 1, 4, 2]  # the first player's row
    arena = Arena(TicTacToe(), {"a": random_player, "b": random_player}, rows=2, openings=[won, [0]])
    games = [Game(k, ("a", "b"), opening=int(k % 3 == 0)) for k in range(12)]
    played = arena.play(games)
    at_once = torch.tensor([game.opening == 0 for game in games])
    assert played.returns[at_once].tolist() == [[1.0, -1.0]] * 8
    assert ((played.plies == 0) == at_once).all()


def test_games_that_are_all_over_as_they_begin_have_no_moves() -> None:
    arena = Arena(TicTacToe(), {"a": random_player}, openings=[[0, 3, 1, 4, 2]], record=True)
    played = arena.play([Game(k, ("a", "a"), opening=0) for k in range(2)])
    assert played.moves == [[], []]
    assert played.returns.tolist() == [[1.0, -1.0]] * 2


def test_counts_of_many_games_are_those_of_their_list() -> None:
    players = dict.fromkeys("abc", random_player)
    games = [Game(k, pair) for k, pair in enumerate([("b", "a"), ("c", "c"), ("a", "c"), ("c", "b")] * 30)]
    played = Arena(TicTacToe(), players, rows=16).play(games)
    listed = [(*game.players, score) for game, score in zip(games, played.scores().tolist(), strict=True)]
    want = Results.of([row for row in listed if row[0] != row[1]])
    got = played.results()
    assert got.names == want.names == ("b", "a", "c")
    assert (got.counts == want.counts).all()
    assert played.results(["a", "b", "c"]).names == ("a", "b", "c")
    with pytest.raises(UnknownName, match="no player is called 'c'"):
        played.results(["a", "b"])


@given(
    codes=st.lists(st.lists(st.lists(st.integers(-(2**40), 2**40), min_size=2, max_size=2), max_size=5), max_size=6),
    shift=st.integers(0, 40),
)
def test_moves_are_packed_without_loss(codes: list[list[list[int]]], shift: int) -> None:
    codes = [[[x >> shift for x in move] for move in game] for game in codes]
    flat = np.array([move for game in codes for move in game], dtype=np.int64).reshape(-1, 2)
    lengths = np.array([len(game) for game in codes], dtype=np.int64)
    lists = MoveLists(flat, lengths)
    assert lists == codes
    again = MoveLists(unpack(pack(flat), len(flat), None), lengths) if len(flat) else lists
    assert again == codes
    assert again.take(np.arange(len(codes))[::-2]) == codes[::-2]
    assert [again[-k - 1] for k in range(len(codes))] == codes[::-1]
    assert again[1:] == codes[1:]


def test_openings_are_played_from_both_seats_with_the_same_cards() -> None:
    games = with_openings([Game(0, ("first", "first2"))], openings=2)
    arena = Arena(TicTacToe(), {"first": first_legal, "first2": first_legal}, openings=[[4], [0, 4]])
    played = arena.play(games)
    assert played.plies.tolist()[0] == played.plies.tolist()[1]
    assert played.digest[0] == played.digest[1]
    assert played.digest[0] != played.digest[2]
    cards = Arena(KuhnPoker(), {"first": first_legal, "first2": first_legal}, openings=[[], []]).play(games)
    assert torch.equal(cards.returns[0], cards.returns[1])  # the same deal, and both play alike


def test_a_tensordict_module_needs_no_groups() -> None:
    def module(td):
        return td.set("choice", td["action_mask"].int().argmax(-1))

    players = {"module": ModulePlayer(module, "choice"), "plain": first_legal, "random": random_player}
    games = [Game(0, ("module", "random")), Game(1, ("plain", "random"), chance=0)]
    played = Arena(TicTacToe(), players).play([games[0]])
    again = Arena(TicTacToe(), players).play([Game(0, ("plain", "random"))])
    assert torch.equal(played.digest, again.digest)
    with pytest.raises(KeyMissing, match="the module wrote no 'action'; name its key with action_key="):
        Arena(TicTacToe(), {"a": ModulePlayer(module)}).play([Game(0, ("a", "a"))])


def test_a_move_limit_cuts_games_off() -> None:
    played = Arena(TicTacToe(), {"a": first_legal}, max_plies=3).play([Game(0, ("a", "a"))])
    assert (played.plies.tolist(), played.cut.tolist(), played.returns.tolist()) == ([3], [True], [[0, 0]])


def test_who_is_stronger_is_rated_so() -> None:
    def wins_or_takes_the_centre(turn: Turn) -> torch.Tensor:
        centre = turn.legal[:, 4]
        return torch.where(centre, 4, random_player(turn))

    from marlenv.tournament.ratings import rate

    players = {"centre": wins_or_takes_the_centre, "random": random_player}
    ratings = rate(Arena(TicTacToe(), players).play(round_robin(list(players), double=True, cycles=300)).results())
    low, _ = ratings.wald(0.999)
    assert low[ratings.names.index("centre")] > 0
    assert ratings.seat > 0  # who begins has the better of it


@pytest.mark.parametrize(
    ("row", "columns", "error", "says"),
    [
        (torch.tensor([0]), 3, ShapeError, r"actions are \[1, 9\] .* got rows \[1\] of a table with 3 columns"),
        (torch.tensor([0, 0]), 9, ShapeError, r"actions are \[1, 9\] .* got rows \[2\] of"),
        (torch.tensor([9]), 9, BadIndex, "row returned 9, and the table has 2 rows"),
        (torch.tensor([-1]), 9, BadIndex, "row returned -1, and the table has 2 rows"),
        (torch.tensor([0.0]), 9, DtypeError, "row must return integers, the numbers of rows, got torch.float32"),
        (torch.tensor([True]), 9, DtypeError, "row must return integers, .* got torch.bool"),
    ],
)
def test_a_row_that_its_table_does_not_have_is_named(row, columns: int, error: type[Exception], says: str) -> None:
    player = TabularPlayer(lambda turn: row, torch.ones(2, columns))
    with pytest.raises(error, match=f"TabularPlayer: {says}"):
        Arena(TicTacToe(), {"a": player}).play([Game(0, ("a", "a"))])


def test_a_row_without_weight_on_any_legal_action_is_no_choice() -> None:
    """It cannot play on, and where players forfeit it loses that game alone."""
    player = TabularPlayer(lambda turn: turn.games % 2, torch.tensor([[1.0, *[0.0] * 8], [1.0] * 9]))
    games = [Game(k, ("a", "b")) for k in range(4)]
    players = {"a": player, "b": random_player}
    with pytest.raises(IllegalAction, match="row 0 of the table has no weight on any legal action, where .* are legal"):
        Arena(TicTacToe(), players).play(games)
    played = Arena(TicTacToe(), players, forfeits=True).play(games)
    assert played.culprit.tolist() == [0, -1, 0, -1]
    assert [ENDINGS[k] for k in played.ending.tolist()] == ["crash", "over"] * 2


def broken(turn: Turn) -> torch.Tensor:
    return torch.full_like(turn.seat, 99)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (
            lambda: Arena(TicTacToe(), {"ada": broken}).play([Game(7, ("ada", "ada"))]),
            IllegalAction,
            "'ada' chose 99 in game 7",
        ),
        (
            lambda: Arena(TicTacToe(), {"ada": broken}).play([Game(7, ("ada", "adda"))]),
            UnknownName,
            "did you mean 'ada'",
        ),
        (
            lambda: Arena(TicTacToe(), {"ada": broken}).play([Game(7, ("ada",))]),
            PoolError,
            "1 players, and the game has 2 seats",
        ),
        (
            lambda: TabularPlayer(first_legal, torch.tensor([[1.0, float("nan")]])),
            SpecError,
            "finite and none negative",
        ),
        (lambda: TabularPlayer(first_legal, [[1, 2]]), SpecError, r"a tensor of weights \[rows, n\], .* got list"),  # type: ignore[arg-type]
        (lambda: TabularPlayer(first_legal, torch.ones(1, 2) * 1j), SpecError, "a tensor of weights .*complex64"),
        (lambda: MCTSPlayer(explore="a"), SpecError, "explore must be a number from 0 on, got 'a'"),  # type: ignore[arg-type]
        (
            lambda: Arena(TicTacToe(), {"a": lambda turn: None}).play([Game(0, ("a", "a"))]),
            DtypeError,
            "player 'a' must return actions as a tensor, got NoneType",
        ),
        (
            lambda: Arena(TicTacToe(), {"a": lambda turn: [[1], [1, 2]]}).play([Game(0, ("a", "a"))]),
            DtypeError,
            "player 'a' must return actions as a tensor, got list",
        ),
        (
            lambda: MCTSPlayer(explore=float("nan")),
            SpecError,
            "MCTSPlayer: explore must be a number from 0 on, got nan",
        ),
        (
            lambda: Arena(TicTacToe(), {"a": first_legal}).play([("a", "a")]),
            SpecError,
            r"expected some like Game\(0, \('ada', 'bob'\)\), got \('a', 'a'\)",
        ),
        (lambda: blank([], 3).results(), PoolError, "only games of two have a winner .* got 3 seats; Played.pairs"),
        (lambda: blank([Game(0, ("a", "b", "c"))], 3).results(), PoolError, "games of two have .* got 3 seats"),
        (lambda: Arena(TicTacToe(), {}, seed=0.5), DtypeError, "Arena: seed must be an int, got 0.5"),
        (lambda: Arena(TicTacToe(), {"ada": None}), SpecError, "player 'ada' must be something to call .* got None"),
        (
            lambda: Arena(TicTacToe(), {"a": lambda turn: turn.legal}).play([Game(0, ("a", "a"))]),
            ShapeError,
            r"must return an action per row \[1\], got \[1, 9\]",
        ),
        (
            lambda: Arena(TicTacToe(), {"a": lambda turn: turn.seat.float()}).play([Game(0, ("a", "a"))]),
            DtypeError,
            r"player 'a' must return actions as integers \(int64\), got torch.float32",
        ),
        (
            lambda: Arena(TicTacToe(), {"a": first_legal}).play([Game(0, ("a", "a"), opening=1)]),
            PoolError,
            "opening 1 is named, and there are 0",
        ),
        (
            lambda: Arena(TicTacToe(), {"a": first_legal}, openings=[[0, 0]]).play([Game(0, ("a", "a"), opening=0)]),
            IllegalAction,
            "move 0 of opening 0 is illegal",
        ),
    ],
)
def test_mistakes_are_named(make, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()
