"""What players are given is theirs: whatever they do with it, the games are those of players that only look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import marlenv
from marlenv.games import Backgammon, ConnectFour, KuhnPoker, MatrixGame, TicTacToe
from marlenv.games.rules import picked
from marlenv.tournament import Arena, Game, ModulePlayer, Turn, random_player
from marlenv.tournament.play import Played

GAMES = [Game(k, ("me", "me") if k % 3 == 0 else ("me", "other") if k % 2 else ("other", "me")) for k in range(6)]


def chooses(turn: Turn) -> torch.Tensor:
    """The same as :func:`spoils`, which then writes into everything that it was given."""
    return picked(turn.legal, turn.rng.uniform(shape=turn.legal.shape[1:-1]))


def spoils(turn: Turn) -> torch.Tensor:
    action = chooses(turn)
    given = [turn.legal, turn.seat, turn.games, *turn.data.values(True, True)]
    if turn.rules is not None:
        given += [*turn.state, turn.observation]
    for tensor in given:
        tensor.fill_(1)
    return action


def played(game: Any, player: Callable[[Turn], torch.Tensor], rows: int, **more: Any) -> Played:
    players = {"me": player, "other": random_player}
    return Arena(game, players, rows=rows, seed=1, max_plies=30, **more).play(GAMES)


@pytest.mark.parametrize("rows", [1, 2, 6])
@pytest.mark.parametrize(
    "rules",
    [ConnectFour(), Backgammon(), KuhnPoker(), TicTacToe(), MatrixGame("rock_paper_scissors", rounds=3)],
    ids=lambda rules: type(rules).__name__,
)
def test_a_player_that_writes_into_its_turn_changes_no_game(rules: Any, rows: int) -> None:
    clean, got = played(rules, chooses, 6), played(rules, spoils, rows)
    assert torch.equal(got.digest, clean.digest)
    assert torch.equal(got.returns, clean.returns)


@pytest.mark.parametrize("kind", ["env", "transformed"])
def test_nor_does_it_in_an_env(kind: str) -> None:
    def make() -> Any:
        env = marlenv.make("tic_tac_toe")
        return marlenv.TransformedEnv(env, marlenv.transforms.StepCounter(20)) if kind == "transformed" else env

    results = [played(make, player, rows) for player, rows in ((chooses, 6), (spoils, 1), (spoils, 6))]
    for other in results[1:]:
        assert torch.equal(other.digest, results[0].digest)


def test_a_player_that_is_asked_again_after_a_failure_is_asked_the_same() -> None:
    """It fails where it is asked about several at once, and by then has written into what it was given."""

    def fails(turn: Turn) -> torch.Tensor:
        action = spoils(turn)
        if len(turn) > 1:
            raise RuntimeError("too many")
        return action

    clean, got = played(ConnectFour(), chooses, 6), played(ConnectFour(), fails, 6, forfeits=True)
    assert torch.equal(got.digest, clean.digest)


def test_a_module_may_write_in_place() -> None:
    def module(td: Any) -> Any:
        action = td["action_mask"].int().argmax(-1)
        td["action_mask"].fill_(True)
        td["observation"].zero_()
        return td.set("action", action)

    def first(turn: Turn) -> torch.Tensor:
        return turn.legal.int().argmax(-1)

    for game in (TicTacToe(), MatrixGame("chicken", rounds=2)):
        digests = [played(game, player, 6).digest for player in (first, ModulePlayer(module))]
        assert torch.equal(*digests)


def test_moves_are_recorded_of_a_player_that_answers_in_one_tensor_again_and_again() -> None:
    answers: dict[int, torch.Tensor] = {}

    def first(turn: Turn) -> torch.Tensor:
        return answers.setdefault(len(turn), torch.zeros_like(turn.seat)).copy_(turn.legal.int().argmax(-1))

    moves = Arena(TicTacToe(), {"a": first}, record=True).play([Game(k, ("a", "a")) for k in range(3)]).moves
    assert list(moves) == [[[0], [1], [2], [3], [4], [5], [6]]] * 3  # 0, 2, 4, 6 make the diagonal


@pytest.mark.parametrize("ask", ["state", "legal", "seat"])
def test_who_only_reads_may_go_without_copies(ask: str) -> None:
    """The turn that is lent has the tensors of the game itself, and what it draws is drawn from the same stream."""
    seen: list[bool] = []

    def reads(turn: Turn) -> torch.Tensor:
        lent = turn.lent()
        bare, copied, again = (getattr(one, ask) for one in (lent, turn, turn.lent()))
        pairs = zip(bare, copied, again, strict=True) if ask == "state" else [(bare, copied, again)]
        for one, copy, other in pairs:
            assert torch.equal(one, copy)
            seen.append(one.data_ptr() == other.data_ptr() != copy.data_ptr())
        return picked(lent.legal, lent.rng.uniform())

    assert torch.equal(played(TicTacToe(), reads, 6).digest, played(TicTacToe(), chooses, 6).digest)
    assert any(seen)
