"""The arena: known chances, the same games whatever the batch, every game once, and what goes wrong."""

from __future__ import annotations

import pytest
import torch

from marlenv.errors import IllegalAction, KeyMissing, PoolError, ShapeError, SpecError, UnknownName
from marlenv.games import Backgammon, KuhnPoker, MatrixGame, TicTacToe
from marlenv.tournament.adjudicate import Adjudication
from marlenv.tournament.config import Config
from marlenv.tournament.play import Arena, Played
from marlenv.tournament.players import ModulePlayer, TabularPlayer, random_player
from marlenv.tournament.schedule import Game, round_robin, with_openings
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
            lambda: Arena(TicTacToe(), {"a": lambda turn: turn.legal}).play([Game(0, ("a", "a"))]),
            ShapeError,
            r"must return an action per row \[1\], got \[1, 9\]",
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


# --- adjudication --------------------------------------------------------------------------------


def ahead(rules, state) -> torch.Tensor:
    """In tic-tac-toe: 1 where the first seat has the centre, -1 where the second has, 0 where nobody."""
    planes = rules.observe(state)[..., 0, :, :, :].flatten(-2)
    return planes[..., 0, 4].float() - planes[..., 1, 4].float()


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_decided_games_are_ended_as_soon_as_they_are(rows: int) -> None:
    """By hand: the score after each move of the same games, played on."""
    players = {"a": random_player, "b": random_player}
    games = [Game(k, ("a", "b")) for k in range(60)]
    how = Adjudication(ahead, win=1.0, win_plies=3, draw=0.5, draw_plies=4)
    judged = Arena(TicTacToe(), players, rows=rows, adjudicate=how, record=True).play(games)
    plain = Arena(TicTacToe(), players, record=True).play(games)
    endings = set()
    for k, moves in enumerate(plain.moves):
        squares = [m for (m,) in moves]
        lead = even = 0
        ply, winner, ended = len(squares), plain.returns[k].tolist(), 0
        for number in range(1, len(squares)):
            owner = squares.index(4) % 2 if 4 in squares[:number] else None
            lead, even = (0, even + 1) if owner is None else (lead + 1, 0)
            if lead >= 3 or even >= 4:
                ply, ended = number, 6
                winner = [0.0, 0.0] if owner is None else [1.0, -1.0] if owner == 0 else [-1.0, 1.0]
                break
        assert (int(judged.plies[k]), judged.returns[k].tolist(), int(judged.ending[k])) == (ply, winner, ended)
        endings.add((ended, tuple(winner)))
    assert len(endings) >= 4


def test_draws_are_not_adjudicated_early() -> None:
    games = [Game(k, ("a", "a")) for k in range(20)]
    how = Adjudication(lambda rules, state: torch.zeros(state.code.shape), draw=0.0, draw_plies=2, after=2)
    played = Arena(TicTacToe(), {"a": random_player}, adjudicate=how).play(games)
    assert set(played.plies.tolist()) == {4}  # before anybody can have won
    assert played.returns.abs().sum() == 0


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Adjudication(ahead), "say win= or draw="),
        (lambda: Adjudication(ahead, win=-1), "win must be above 0, got -1"),
        (lambda: Adjudication(ahead, win=1, draw=2), "draw must be from 0 to below win, got 2"),
        (lambda: Adjudication(ahead, win=1, win_plies=0), "win_plies must be an integer from 1 on"),
        (
            lambda: Arena(MatrixGame("rock_paper_scissors"), {}, adjudicate=Adjudication(ahead, win=1)),
            "games of two who move in turn, got MatrixGame",
        ),
        (
            lambda: Config.of(
                {"env": "chess", "players": {"a": "random", "b": "random"}, "adjudicate": {"wins": 3}}
            ).arena(),
            "adjudicate: there is no field 'wins'; did you mean 'win'",
        ),
        (
            lambda: Config.of(
                {"env": "chess", "players": {"a": "random", "b": "random"}, "adjudicate": {"win": 3, "score": "x"}}
            ).arena(),
            "score must be 'material' or 'module:function', got 'x'",
        ),
    ],
)
def test_mistakes_about_adjudication_are_named(make, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        make()
