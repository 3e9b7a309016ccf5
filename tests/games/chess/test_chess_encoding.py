"""Other people's numbers, checked against the packages that they belong to."""

from __future__ import annotations

import random

import chess
import pyspiel
import pytest
import torch
from chess_reference import ODD_STARTS, Games, action_of, legal_actions
from pettingzoo.classic.chess import chess_utils

from marlenv.errors import ShapeError, UnknownName
from marlenv.games.chess import LC0_MOVES, UCI_MOVES, Chess, encoding

NAMES = ["uci", "lc0", "openspiel", "pettingzoo"]
PROMOTIONS = [
    "3nkn2/4P3/8/8/8/8/8/4K3 w - - 0 1",
    "4k3/8/8/8/8/8/3p4/R1B1B1K1 b - - 0 1",
    "k7/4R3/8/8/8/8/4r3/K7 w - - 0 1",
]


def positions(chess960: bool) -> list[chess.Board]:
    if chess960:
        corners = [
            "4k3/8/8/8/8/8/8/1R2K1R1 w GB - 0 1",
            "rk5r/8/8/8/8/8/8/RK5R b HAha - 0 1",
            "4k3/8/8/8/8/8/8/5KR1 w G - 0 1",
        ]
        boards = [chess.Board(fen, chess960=True) for fen in corners]
    else:
        boards = [chess.Board(fen) for fen in (*ODD_STARTS, *PROMOTIONS)]
    games = Games(8, 7, Chess(chess960=chess960))
    for _ in range(40):
        boards += [board.copy(stack=False) for board in games.boards]
        games.step()
        games.renew()
    return [board for board in boards if not board.is_game_over()]


@pytest.mark.slow
@pytest.mark.parametrize("chess960", [False, True], ids=["standard", "chess960"])
@pytest.mark.parametrize("name", NAMES)
def test_numbers_come_back(name: str, chess960: bool) -> None:
    numbers = encoding(name, chess960)
    rules = Chess(chess960=chess960)
    boards = positions(chess960)
    state = rules.from_fens([board.fen() for board in boards])
    masks = numbers.mask(state.board, state.moves)
    assert masks.shape == (len(boards), numbers.size)
    for row, board in enumerate(boards):
        actions = torch.tensor(list(legal_actions(board)))
        coded = numbers.encode(state.board[row], actions)
        assert (coded >= 0).all()
        assert (coded < numbers.size).all()
        assert torch.equal(numbers.decode(state.board[row], coded), actions), board.fen()
        if not rules.over(state)[row]:
            assert set(masks[row].nonzero().flatten().tolist()) == set(coded.tolist()), board.fen()
    one = torch.stack([numbers.encode(words, torch.tensor(0)) for words in state.board])
    assert torch.equal(one, numbers.encode(state.board, torch.zeros(len(boards), dtype=torch.int64)))


def test_uci_numbers_are_uci() -> None:
    assert len(UCI_MOVES) == len(set(UCI_MOVES)) == 1968
    assert list(UCI_MOVES) == sorted(UCI_MOVES)
    for chess960 in (False, True):
        for board in positions(chess960)[:120]:
            words = Chess(chess960=chess960).from_fens([board.fen()]).board[0]
            for action, move in legal_actions(board).items():
                number = encoding("uci", chess960).encode(words, torch.tensor(action))
                assert UCI_MOVES[number] == move.uci()


def test_lc0_numbers_are_known() -> None:
    assert len(LC0_MOVES) == len(set(LC0_MOVES)) == 1858
    board = Chess().from_fens([chess.STARTING_FEN]).board[0]
    rules = Chess()
    state = rules.from_fens([chess.STARTING_FEN] * 4)
    actions = rules.read_ucis(state, ["d2d4", "e2e4", "g1f3", "c2c4"])
    assert encoding("lc0").encode(board, actions).tolist() == [293, 322, 159, 264]  # as lc0 prints them
    castling = rules.from_fens(["r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1"])
    short = rules.read_sans(castling, ["O-O", "O-O"])
    assert [LC0_MOVES[n] for n in encoding("lc0").encode(castling.board, short)] == ["e1h1", "e1h1"]
    promotion = rules.from_fens(["8/P6k/8/8/8/8/8/K7 w - - 0 1"] * 4)
    moves = rules.read_ucis(promotion, ["a7a8q", "a7a8r", "a7a8b", "a7a8n"])
    assert [LC0_MOVES[n] for n in encoding("lc0").encode(promotion.board, moves)] == ["a7a8q", "a7a8r", "a7a8b", "a7a8"]


@pytest.mark.slow
@pytest.mark.reference
def test_openspiel_numbers_are_openspiels() -> None:
    game, rules, numbers = pyspiel.load_game("chess"), Chess(), encoding("openspiel")
    assert game.num_distinct_actions() == numbers.size
    seen = set()
    for board in positions(False):
        state = rules.from_fens([board.fen()])
        if rules.over(state).any():
            continue
        theirs = game.new_initial_state(board.fen())
        for action, move in legal_actions(board).items():
            number = int(numbers.encode(state.board[0], torch.tensor(action)))
            assert theirs.action_to_string(number) == board.san(move)
            seen.add(number)
        mask = numbers.mask(state.board, state.moves)[0]
        assert mask.nonzero().flatten().tolist() == sorted(theirs.legal_actions())
    assert {4672, 4673} <= seen


@pytest.mark.slow
@pytest.mark.reference
def test_pettingzoo_numbers_are_pettingzoos() -> None:
    rules, numbers = Chess(), encoding("pettingzoo")
    for board in positions(False):
        state = rules.from_fens([board.fen()])
        if rules.over(state).any():
            continue
        mask = numbers.mask(state.board, state.moves)[0]
        assert mask.nonzero().flatten().tolist() == sorted(chess_utils.legal_moves(board))
        for number in mask.nonzero().flatten().tolist():
            move = chess_utils.action_to_move(board, number, int(board.turn == chess.BLACK))
            assert int(numbers.decode(state.board[0], torch.tensor(number))) == action_of(move, board)


@pytest.mark.reference
def test_a_game_in_openspiels_chess960() -> None:
    """Both castlings by their numbers, where kings and rooks stand anywhere."""
    rules, numbers = Chess(chess960=True), encoding("openspiel", True)
    state = rules.from_fens(["4k3/8/8/8/8/8/8/1R2K1R1 w GB - 0 1"])
    both = rules.read_sans(type(state)(*(part.expand(2, -1) for part in state)), ["O-O-O", "O-O"])
    assert numbers.encode(state.board[0], both).tolist() == [4672, 4673]
    assert torch.equal(numbers.decode(state.board[0], torch.tensor([4672, 4673])), both)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_without_a_meaning_are_minus_one(name: str) -> None:
    numbers = encoding(name)
    board = Chess().start(torch.Size([2])).board
    assert numbers.decode(board, torch.tensor([-1, numbers.size])).tolist() == [-1, -1]
    assert numbers.encode(board, torch.tensor([-1, 4672])).tolist() == [-1, -1]
    assert (numbers.encode(board, torch.tensor([[7], [7]])) == -1).all()  # off the board
    every = numbers.decode(board[:1], torch.arange(numbers.size).unsqueeze(0))
    known = every >= 0
    assert torch.equal(
        numbers.encode(board[:1], every.clamp(min=0))[known], torch.arange(numbers.size).unsqueeze(0)[known]
    )


def test_bad_names_and_shapes_are_refused() -> None:
    with pytest.raises(UnknownName, match="no numbering of chess moves is called 'lc1'; did you mean 'lc0'"):
        encoding("lc1")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"encoding 'uci': board \[\*B, 16\] and numbers"):
        encoding("uci").encode(torch.zeros(3, 16, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))


def test_tables_follow_the_batch() -> None:
    rules, choose = Chess(), random.Random(1)
    state = rules.start(torch.Size([2, 3]))
    action = torch.tensor([[choose.choice([384 + 12, 384 + 11]) for _ in range(3)] for _ in range(2)])
    numbers = encoding("pettingzoo").encode(state.board, action)
    assert numbers.shape == (2, 3)
    assert torch.equal(encoding("pettingzoo").decode(state.board, numbers), action)
    assert encoding("uci").mask(state.board, state.moves).sum(-1).tolist() == [[20] * 3] * 2
