"""Games that are decided are ended at the move that decides them: by a score, by repetition; all others go on."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from marlenv.errors import SpecError
from marlenv.games import Backgammon, Chess, Go, MatrixGame, Othello, TicTacToe
from marlenv.tournament import ENDINGS, Adjudication, Arena, Game, random_player
from marlenv.tournament.config import Config
from marlenv.tournament.export import positions
from marlenv.tournament.rules_board import RulesBoard


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


def knights(turn) -> torch.Tensor:
    """Makes one of the first two moves of knights, so that positions come back."""
    legal = turn.legal.unflatten(-1, (73, 64))
    hops = torch.zeros_like(legal)
    hops[:, 56:64] = legal[:, 56:64]
    hops = hops.flatten(1) & (hops.flatten(1).cumsum(1) <= 2)
    return turn.rng.choice(torch.where(hops.any(1, keepdim=True), hops, turn.legal).float())


def stones(turn) -> torch.Tensor:
    """Puts a stone wherever one may be, so that boards of Go come back."""
    legal = turn.legal.clone()
    legal[:, -1] &= ~legal[:, :-1].any(1)
    return turn.rng.choice(legal.float())


def seen_by_people(rules, state) -> tuple[object, ...]:
    """What must be the same in two positions: what is shown, whose turn it is, and what may be played."""
    shown = rules.show(state), int(rules.player(state)), tuple(rules.legal(state).nonzero().flatten().tolist())
    return (*shown, int(state.passes > 0)) if isinstance(rules, Go) else shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "player", "times"),
    [(Chess(draws="forced"), knights, 3), (Go(size=3, moves=40), stones, 2), (Go(size=2, moves=40), stones, 3)],
    ids=["chess", "go", "go, three times"],
)
def test_a_position_that_comes_back_draws(rules, player, times: int) -> None:
    """By hand: positions counted as people see them, in the same games, played on."""
    games = [Game(k, ("a", "a")) for k in range(12)]
    plain = Arena(rules, {"a": player}, max_plies=80, record=True).play(games)
    board, expected = RulesBoard(rules, (), 0), []
    for k, game in enumerate(games):
        states, _ = positions(board, game, plain.moves[k])
        counts, end = Counter[object](), (int(plain.plies[k]), plain.returns[k].tolist(), int(plain.ending[k]))
        for number, state in enumerate(states):
            counts[seen_by_people(rules, state)] += not bool(rules.over(state))
            if max(counts.values()) == times:
                end = number, [0.0, 0.0], ENDINGS.index("adjudicated")
                break
        expected.append(end)
    assert ENDINGS.index("adjudicated") in [ending for _, _, ending in expected]
    for rows in (1, 5, 64):
        arena = Arena(
            rules, {"a": player}, rows=rows, adjudicate=Adjudication(repetition=times), max_plies=80, record=True
        )
        judged = arena.play(games)
        found = zip(judged.plies.tolist(), judged.returns.tolist(), judged.ending.tolist(), strict=True)
        assert list(found) == expected
        assert list(judged.moves) == [moves[:ply] for moves, (ply, _, _) in zip(plain.moves, expected, strict=True)]


class Shuffles:
    """Moves a knight out and back again."""

    wants_moves = True

    def __call__(self, turn) -> torch.Tensor:
        words = (("g1f3", "g8f6", "f3g1", "f6g8")[len(moves) % 4] for moves in turn.moves)
        return turn.rules.read_ucis(turn.state, list(words))


@pytest.mark.parametrize("opening", [None, 0])
def test_the_position_in_which_play_begins_counts(opening: int | None) -> None:
    """Out and back twice is the third time; moves of an opening are none of the players'."""
    rules, out_and_back = Chess(draws="forced"), list[int]()
    state = rules.start(torch.Size([1]))
    for word in ("g1f3", "g8f6", "f3g1", "f6g8"):
        move = rules.read_ucis(state, [word])
        out_and_back.append(int(move))
        state = rules.play(state, move)
    how = Adjudication(repetition=3)
    arena = Arena(rules, {"a": Shuffles()}, openings=[out_and_back], adjudicate=how, max_plies=20)
    played = arena.play([Game(0, ("a", "a"), opening=opening)])
    assert (int(played.plies), ENDINGS[int(played.ending)]) == (8, "adjudicated")


def test_the_rules_own_draw_by_repetition_is_theirs() -> None:
    """Chess that claims its draws and chess that is adjudicated end at the same moves, each draw counted once."""
    games = [Game(k, ("a", "a")) for k in range(24)]
    claimed, adjudicated, both = (
        Arena(Chess(draws=draws), {"a": knights}, adjudicate=how, max_plies=90).play(games)
        for draws, how in (
            ("claim", None),
            ("forced", Adjudication(repetition=3)),
            ("claim", Adjudication(repetition=3)),
        )
    )
    assert torch.equal(both.plies, claimed.plies)
    assert torch.equal(both.ending, claimed.ending)
    assert torch.equal(adjudicated.plies, claimed.plies)
    assert torch.equal(adjudicated.returns, claimed.returns)
    drawn = claimed.plies[claimed.returns.abs().sum(1) == 0]
    assert (drawn < 90).sum() >= 8


def test_games_in_which_nothing_comes_back_are_left_alone() -> None:
    games = [Game(k, ("a", "a")) for k in range(20)]
    for rules in (Othello(), TicTacToe(), Backgammon()):
        plain, judged = (
            Arena(rules, {"a": random_player}, adjudicate=how, max_plies=200).play(games)
            for how in (None, Adjudication(repetition=2))
        )
        assert torch.equal(plain.digest, judged.digest)
        assert torch.equal(plain.ending, judged.ending)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Adjudication(ahead), "say win= or draw="),
        (lambda: Adjudication(win=1), "about a score; say score="),
        (lambda: Adjudication(ahead, repetition=3), "a score decides nothing without win= or draw="),
        (lambda: Adjudication(repetition=1), "repetition must be an integer from 2 on, got 1"),
        (lambda: Adjudication(ahead, win=-1), "win must be above 0, got -1"),
        (lambda: Adjudication(ahead, win=1, draw=2), "draw must be from 0 to below win, got 2"),
        (lambda: Adjudication(ahead, win=1, win_plies=0), "win_plies must be an integer from 1 on"),
        (
            lambda: Arena(
                TicTacToe(), {"a": random_player}, adjudicate=Adjudication(lambda *at: ahead(*at)[:, None], win=1)
            ).play([Game(0, ("a", "a"))]),
            r"score must return a number per position \[1\], got \[1, 1\]",
        ),
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
