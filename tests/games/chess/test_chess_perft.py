"""Move generation against published counts and against python-chess."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import chess
import pytest

from marlenv.errors import BadNotation, SpecError
from marlenv.games.chess import divide, perft

# https://www.chessprogramming.org/Perft_Results
STANDARD = {
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1": [20, 400, 8902, 197281, 4865609],
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1": [48, 2039, 97862, 4085603],
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1": [14, 191, 2812, 43238, 674624],
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1": [6, 264, 9467, 422333],
    "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8": [44, 1486, 62379, 2103487],
    "r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10": [46, 2079, 89890, 3894594],
}

# Martin Sedlak's positions, published on talkchess.com in 2013, and four more of the usual ones: fen, depth, count
TRICKY = [
    ("8/5bk1/8/2Pp4/8/1K6/8/8 w - d6 0 1", 6, 824064),  # en passant would expose the king on a diagonal
    ("8/8/1k6/8/2pP4/8/5BK1/8 b - d3 0 1", 6, 824064),
    ("8/8/1k6/2b5/2pP4/8/5K2/8 b - d3 0 1", 6, 1440467),  # en passant gives check
    ("8/5k2/8/2Pp4/2B5/1K6/8/8 w - d6 0 1", 6, 1440467),
    ("5k2/8/8/8/8/8/8/4K2R w K - 0 1", 6, 661072),  # castling gives check
    ("4k2r/8/8/8/8/8/8/5K2 b k - 0 1", 6, 661072),
    ("3k4/8/8/8/8/8/8/R3K3 w Q - 0 1", 6, 803711),
    ("r3k3/8/8/8/8/8/8/3K4 b q - 0 1", 6, 803711),
    ("r3k2r/1b4bq/8/8/8/8/7B/R3K2R w KQkq - 0 1", 4, 1274206),  # rights are lost with a captured rook
    ("r3k2r/7b/8/8/8/8/1B4BQ/R3K2R b KQkq - 0 1", 4, 1274206),
    ("r3k2r/8/3Q4/8/8/5q2/8/R3K2R b KQkq - 0 1", 4, 1720476),  # castling prevented
    ("r3k2r/8/5Q2/8/8/3q4/8/R3K2R w KQkq - 0 1", 4, 1720476),
    ("2K2r2/4P3/8/8/8/8/8/3k4 w - - 0 1", 6, 3821001),  # promotion answers a check
    ("3K4/8/8/8/8/8/4p3/2k2R2 b - - 0 1", 6, 3821001),
    ("8/8/1P2K3/8/2n5/1q6/8/5k2 b - - 0 1", 5, 1004658),  # discovered check
    ("5K2/8/1Q6/2N5/8/1p2k3/8/8 w - - 0 1", 5, 1004658),
    ("4k3/1P6/8/8/8/8/K7/8 w - - 0 1", 6, 217342),  # promotion gives check
    ("8/k7/8/8/8/8/1p6/4K3 b - - 0 1", 6, 217342),
    ("8/P1k5/K7/8/8/8/8/8 w - - 0 1", 6, 92683),  # underpromotion gives check
    ("8/8/8/8/8/k7/p1K5/8 b - - 0 1", 6, 92683),
    ("K1k5/8/P7/8/8/8/8/8 w - - 0 1", 6, 2217),  # stalemate of oneself
    ("8/8/8/8/8/p7/8/k1K5 b - - 0 1", 6, 2217),
    ("8/k1P5/8/1K6/8/8/8/8 w - - 0 1", 7, 567584),  # stalemate and checkmate
    ("8/8/8/8/1k6/8/K1p5/8 b - - 0 1", 7, 567584),
    ("8/5k2/8/5N2/5Q2/2K5/8/8 w - - 0 1", 4, 23527),  # double check
    ("8/8/2k5/5q2/5n2/8/5K2/8 b - - 0 1", 4, 23527),
    ("n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1", 5, 3605103),  # promotions, from the suite of ROCE
    ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", 4, 314346),
    ("8/Pk6/8/8/8/8/6Kp/8 w - - 0 1", 6, 1030499),
    ("8/8/7k/7p/7P/7K/8/8 w - - 0 1", 6, 10724),
]

# https://www.chessprogramming.org/Chess960_Perft_Results
FISCHER = {
    "bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9": [21, 528, 12189, 326672],
    "2nnrbkr/p1qppppp/8/1ppb4/6PP/3PP3/PPP2P2/BQNNRBKR w HEhe - 1 9": [21, 807, 18002, 667366],
    "b1q1rrkb/pppppppp/3nn3/8/P7/1PPP4/4PPPP/BQNNRKRB w GE - 1 9": [20, 479, 10471, 273318],
    "qbbnnrkr/2pp2pp/p7/1p2pp2/8/P3PP2/1PPP1KPP/QBBNNR1R w hf - 0 9": [22, 593, 13440, 382958],
    "1nbbnrkr/p1p1ppp1/3p4/1p3P1p/3Pq2P/8/PPP1P1P1/QNBBNRKR w HFhf - 0 9": [28, 1120, 31058, 1171749],
}

# castling of Chess960 in corners: king and rook change places, pass each other, stand still, are unpinned
CASTLING_960 = [
    "4k3/8/8/8/8/8/8/rRK5 w B - 0 1",  # leaving, the rook would uncover the king
    "4k3/8/8/8/8/8/8/1RK4q w B - 0 1",
    "1r2k3/8/8/8/8/8/8/RK6 w A - 0 1",
    "4k3/8/8/8/8/8/8/5KR1 w G - 0 1",
    "4k3/8/8/8/8/8/8/6KR w H - 0 1",
    "4k3/8/8/8/8/8/8/R1KR4 w DA - 0 1",
    "4k3/8/8/8/8/8/8/R5KR w HA - 0 1",
    "rk5r/8/8/8/8/8/8/RK5R w HAha - 0 1",
    "r4k1r/8/8/3b4/8/8/8/RB3K1R w HAha - 0 1",
    "1rqbkrbn/1ppppp1p/1n6/p1N3p1/8/2P4P/PP1PPPP1/1RQBKRBN w FBfb - 0 9",
]


@pytest.mark.parametrize("fen", STANDARD)
def test_standard_positions(fen: str, path: str) -> None:
    counts = STANDARD[fen] if path == "numba" else STANDARD[fen][:4]
    assert [perft(fen, depth, path=path) for depth in range(1, len(counts) + 1)] == counts


@pytest.mark.parametrize(("fen", "depth", "count"), TRICKY)
def test_tricky_positions(fen: str, depth: int, count: int) -> None:
    assert perft(fen, depth) == count


@pytest.mark.slow
@pytest.mark.parametrize(("fen", "depth", "count"), TRICKY)
def test_tricky_positions_in_torch(fen: str, depth: int, count: int) -> None:
    assert perft(fen, depth, path="torch") == count


@pytest.mark.parametrize("fen", FISCHER)
def test_chess960_positions(fen: str, path: str) -> None:
    counts = FISCHER[fen] if path == "numba" else FISCHER[fen][:3]
    assert [perft(fen, depth, True, path=path) for depth in range(1, len(counts) + 1)] == counts


def oracle(board: chess.Board, depth: int) -> int:
    if depth == 1:
        return board.legal_moves.count()
    count = 0
    for move in board.legal_moves:
        board.push(move)
        count += oracle(board, depth - 1)
        board.pop()
    return count


@pytest.mark.reference
@pytest.mark.parametrize("fen", CASTLING_960)
def test_chess960_castling_equals_python_chess(fen: str, path: str) -> None:
    board = chess.Board(fen, chess960=True)
    assert board.is_valid()
    moves = divide(fen, 3, True, path=path)
    for move in board.legal_moves:
        board.push(move)
        assert moves.pop(move.uci()) == oracle(board, 2)
        board.pop()
    assert not moves


@pytest.mark.reference
def test_chess960_starts_equal_python_chess() -> None:
    for number in random.Random(0).sample(range(960), 12):
        board = chess.Board.from_chess960_pos(number)
        assert perft(board.fen(), 3, True) == oracle(board, 3), number


def test_standard_games_count_the_same_as_chess960() -> None:
    for fen in list(STANDARD)[:2]:
        assert perft(fen, 3) == perft(fen, 3, chess960=True)


def test_no_plies_is_one_game() -> None:
    assert perft("8/8/8/8/8/8/8/K1k5 w - - 0 1", 0) == 1


def test_what_is_no_fen_is_refused() -> None:
    with pytest.raises(BadNotation, match="FEN: line 1, column 1: expected a piece or 1 to 8 empty squares on rank 8"):
        perft("start", 2)


@pytest.mark.parametrize(("count", "least"), [(perft, 0), (divide, 1)])
@pytest.mark.parametrize("depth", [-1, 1.5, True, "2"])
def test_a_depth_is_a_number_of_plies(count: Callable[[str, Any], Any], least: int, depth: Any) -> None:
    with pytest.raises(SpecError, match=f"depth must be an integer from {least} on, got {depth!r}"):
        count(chess.STARTING_FEN, depth)
