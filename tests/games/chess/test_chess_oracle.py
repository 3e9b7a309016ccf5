"""Random games played by us and by python-chess side by side: legal moves, FEN, SAN and reasons for ends agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from chess_reference import Games, action_of, legal_actions, why_over

from marlenv.games.chess import Chess
from marlenv.games.chess.board import squares_of

pytestmark = pytest.mark.reference

ROWS = 50
REASONS = {
    ("claim", False): {"checkmate", "stalemate", "insufficient material", "fifty moves", "threefold repetition"},
    ("forced", False): {"checkmate", "stalemate", "insufficient material", "seventy-five moves", "fivefold repetition"},
    ("claim", True): {"checkmate", "threefold repetition"},
    ("forced", True): {"fivefold repetition"},
}


def play_along(rules: Chess, plies: int, seed: int) -> Counter[str]:
    """Plays random games and compares every position; counts how they ended."""
    games = Games(ROWS, seed, rules)
    ends: Counter[str] = Counter()
    for _ in range(plies):
        before = games.state
        boards = [board.copy(stack=False) for board in games.boards]
        legal = [
            {64 * plane + square for plane, word in enumerate(words) if word for square in squares_of(word)}
            for words in before.moves.tolist()
        ]
        assert legal == [set(legal_actions(board)) for board in boards]
        assert rules.fens(before) == [board.fen() for board in boards]
        games.step()
        moves = [board.peek() for board in games.boards]
        action = torch.tensor([action_of(move, board) for move, board in zip(moves, boards, strict=True)])
        assert rules.sans(before, action) == [board.san(move) for move, board in zip(moves, boards, strict=True)]
        why = [why_over(board, rules.draws) for board in games.boards]
        assert [rules.outcomes[code] for code in rules.outcome(games.state).tolist()] == why
        ends.update(filter(None, why))
        games.renew()
    return ends


@pytest.mark.parametrize("chess960", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["standard", "chess960"])
@pytest.mark.parametrize("draws", ["claim", "forced"])
def test_random_games_equal_python_chess(draws: str, chess960: bool, path: str) -> None:
    ends = play_along(Chess(draws=draws, chess960=chess960, path=path), 60, seed=1)
    assert ends


@pytest.mark.slow
@pytest.mark.parametrize("chess960", [False, True], ids=["standard", "chess960"])
@pytest.mark.parametrize("draws", ["claim", "forced"])
def test_many_positions_equal_python_chess(draws: str, chess960: bool, sized: Callable) -> None:
    plies = sized(300, 1025)  # of fifty games; in full four times 51,250 positions
    ends = play_along(Chess(draws=draws, chess960=chess960), plies, seed=2)
    if sized(False, True):
        assert set(ends) >= REASONS[draws, chess960]


@pytest.mark.slow
@pytest.mark.parametrize("chess960", [False, True], ids=["standard", "chess960"])
def test_every_san_of_a_position_equals_python_chess(chess960: bool) -> None:
    rules = Chess(chess960=chess960)
    games = Games(20, 3, rules)
    seen: set[str] = set()
    for ply in range(90):
        if ply % 3 == 0:
            for row, board in enumerate(games.boards[:4]):
                legal = legal_actions(board)
                one = type(games.state)(*(part[row].expand(len(legal), -1) for part in games.state))
                sans = rules.sans(one, torch.tensor(list(legal)))
                assert sans == [board.san(move) for move in legal.values()], board.fen()
                assert rules.read_sans(one, sans).tolist() == list(legal)
                ucis = rules.ucis(one, torch.tensor(list(legal)))
                assert ucis == [move.uci() for move in legal.values()]
                assert rules.read_ucis(one, ucis).tolist() == list(legal)
                seen.update(sans)
        games.step()
        games.renew()
    assert any("=" in san for san in seen) or chess960
    assert {"O-O", "O-O-O"} & {san.rstrip("+#") for san in seen}
