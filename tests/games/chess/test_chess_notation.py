"""FEN, EPD, UCI and SAN: round trips, exact errors, and no other error for any text at all."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import chess
import pytest
import torch
from chess_reference import ODD_STARTS, legal_actions
from hypothesis import given, settings
from hypothesis import strategies as st

from marlenv.errors import BadNotation, DtypeError, ShapeError
from marlenv.games.chess import Chess, Position, perft, read_epd, read_fen, read_pgn, write_epd, write_fen
from marlenv.games.chess.text.notation import read_san, read_uci

START = chess.STARTING_FEN
KIWIPETE = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"

BAD_FENS = [
    ("", "line 1, column 1: expected pieces, then the side to move, w or b, then castling rooks from KQkq, or -, then"),
    ("x w", "line 1, column 1: expected a piece or 1 to 8 empty squares on rank 8, got 'x'"),
    (
        "8/8/8/8/8/8/8/8 w",
        "line 1, column 18: expected castling rooks from KQkq, or -, then an en-passant square, or -",
    ),
    (START + " x", "line 1, column 58: expected the end, after two clocks, got 'x'"),
    (START.replace("8/8/8", "8/9/8"), "line 1, column 21: expected a piece or 1 to 8 empty squares on rank 5, got '9'"),
    (START.replace("rnbq", "rnbx"), "line 1, column 4: expected a piece or 1 to 5 empty squares on rank 8, got 'x'"),
    (
        START.replace("8/8/8", "44/8/8"),
        "line 1, column 20: expected a piece on rank 6, where 4 squares are left "
        "(empty squares in a row are one number), got '4'",
    ),
    (START.replace("pppppppp", "ppppppppp"), "line 1, column 18: expected '/' and rank 6, got 'p'"),
    (
        START.replace("PPPPPPPP", "PPPPPP"),
        "line 1, column 33: expected a piece or 1 to 2 empty squares on rank 2, got '/'",
    ),
    (START.replace("BNR w", "BN w"), "line 1, column 43: expected a piece or 1 empty square on rank 1, got ' '"),
    ("8/8/8/8/8/8/8 w - - 0 1", "line 1, column 14: expected '/' and rank 1, got ' '"),
    ("8/8/8/8/8/8/8/ w - - 0 1", "line 1, column 15: expected a piece or 1 to 8 empty squares on rank 1, got ' '"),
    (
        "8/8/8/8/8/8/8/7 w - - 0 1",
        "line 1, column 16: expected a piece on rank 1, where 1 square is left "
        "(empty squares in a row are one number), got ' '",
    ),
    (START.replace("RNBQKBNR w", "RNBQKBNR/8 w"), "line 1, column 44: expected the end of the board, got '/'"),
    (START.replace(" w ", " W "), "line 1, column 45: expected the side to move, w or b, got 'W'"),
    (
        START.replace("KQkq", "KQkz"),
        "line 1, column 50: expected castling rooks from KQkq, or their files, or -, got 'z'",
    ),
    (START.replace("KQkq", "KK"), "line 1, column 48: expected each castling rook once, got 'K'"),
    (START.replace("- 0", "e4 0"), "line 1, column 52: expected an en-passant square like e3, or -, got 'e4'"),
    (START.replace("- 0", "- -1"), "line 1, column 54: expected a number from 0 to 99999, got '-1'"),
    (START.replace("- 0 1", "- 0 ²"), "line 1, column 56: expected a number from 0 to 99999, got '²'"),
    ("\n\n" + START.replace(" w ", " x "), "line 3, column 45: expected the side to move"),
]

IMPOSSIBLE = [
    ("8/8/8/8/8/8/8/K7 w - - 0 1", "Black must have one king, and has 0"),
    ("kk6/8/8/8/8/8/8/K7 w - - 0 1", "Black must have one king, and has 2"),
    ("k7/8/8/8/8/8/8/K6P w - - 0 1", "a pawn cannot stand on h1, on the first or the last rank"),
    ("kp6/8/8/8/8/8/8/K7 w - - 0 1", "a pawn cannot stand on b8"),
    ("k7/8/8/8/8/P7/PPPPPPPP/K7 w - - 0 1", "White has 9 pawns; there are 8"),
    ("k7/rrrrrrrr/rrrrrrrr/8/8/8/8/K7 b - - 0 1", "Black has 17 pieces; there are 16"),
    ("k7/8/8/8/8/8/8/K6r b - - 0 1", "White is in check, but it is Black's turn, who could capture the king"),
    ("kK6/8/8/8/8/8/8/8 w - - 0 1", "Black is in check, but it is White's turn"),
    ("k7/8/8/8/8/1n6/2n5/K6r w - - 0 1", "White is in check by 3 pieces; no move gives check by more than 2"),
    ("4k3/8/8/8/8/8/8/4K3 w K - 0 1", "White cannot castle with h1: there is no rook of his"),
    ("r3k3/8/8/8/8/8/8/4K2R w Kk - 0 1", "Black cannot castle with h8: there is no rook of his"),
    ("4k3/8/8/8/8/8/8/3K3R w K - 0 1", "White cannot castle with the king on d1"),
    ("4k3/8/8/8/8/8/8/4K1R1 w G - 0 1", "White castles with the rook on g1 only in Chess960"),
    ("4k3/8/8/8/4P3/8/8/4K3 w - e3 0 1", "an en-passant square is on rank 6 when it is White's turn, not e3"),
    ("4k3/8/8/8/8/8/8/4K3 b - e3 0 1", "no pawn has just passed the en-passant square e3"),
    ("4k3/8/8/8/4P3/8/4N3/4K3 b - e3 0 1", "the pawn cannot have come over the en-passant square e3"),
]


@pytest.mark.parametrize(("text", "says"), BAD_FENS)
def test_a_bad_fen_is_explained(text: str, says: str) -> None:
    with pytest.raises(BadNotation) as caught:
        read_fen(text)
    assert str(caught.value).startswith("FEN: " + says)


@pytest.mark.parametrize("read", [read_fen, read_epd, read_pgn, Chess().from_fens, lambda text: perft(text, 1)])
def test_what_is_no_text_is_named(read: Callable[[Any], Any]) -> None:
    with pytest.raises(DtypeError, match="expected a str, got int 5"):
        read([5] if getattr(read, "__name__", "") == "from_fens" else 5)


def test_one_text_is_not_a_text_per_row() -> None:
    rules = Chess()
    with pytest.raises(DtypeError, match=r"FEN: expected a list with a text for every row, got the str '8/8': write"):
        rules.from_fens("8/8")
    with pytest.raises(DtypeError, match=r"moves: expected a list with a text for every row, .* write \['e4'\]"):
        rules.read_sans(rules.from_fens([START, START]), "e4")


@pytest.mark.parametrize(("text", "says"), IMPOSSIBLE)
def test_an_impossible_position_breaks_a_rule(text: str, says: str) -> None:
    with pytest.raises(BadNotation) as caught:
        read_fen(text)
    assert str(caught.value).startswith("FEN: impossible position: " + says)
    assert repr(text) in str(caught.value)


def test_chess960_castling_is_explained() -> None:
    with pytest.raises(
        BadNotation, match="column 24: expected a rook on the right of White's king on his first rank, got 'K'"
    ):
        read_fen("4k3/8/8/8/8/8/8/R3K3 w K - 0 1", chess960=True)
    with pytest.raises(BadNotation, match="White can castle with one rook on each side of the king"):
        read_fen("4k3/8/8/8/8/8/8/R1R1K3 w AC - 0 1", chess960=True)
    with pytest.raises(BadNotation, match="White cannot castle with the king on e2"):
        read_fen("4k3/8/8/8/8/8/4K3/R7 w A - 0 1", chess960=True)


def test_the_text_of_a_batch_is_named() -> None:
    with pytest.raises(BadNotation) as caught:
        Chess().from_fens([START, "x"])
    assert caught.value.__notes__ == ["in text 1 of 2"]


@pytest.mark.parametrize("fen", ODD_STARTS)
def test_fens_come_back(fen: str) -> None:
    assert chess.Board(write_fen(read_fen(fen))).fen(en_passant="fen") == fen
    state = Chess().from_fens([fen])
    assert Chess().fens(state) == [chess.Board(fen).fen()]
    assert Chess().fens(Chess().from_fens(Chess().fens(state))) == Chess().fens(state)


def test_clocks_may_be_missing() -> None:
    assert write_fen(read_fen("4k3/8/8/8/8/8/8/4K3 b - -")) == "4k3/8/8/8/8/8/8/4K3 b - - 0 1"
    assert write_fen(read_fen("4k3/8/8/8/8/8/8/4K3 b - - 7")) == "4k3/8/8/8/8/8/8/4K3 b - - 7 1"
    assert write_fen(read_fen("  4k3/8/8/8/8/8/8/4K3   b - - 7 0 ")) == "4k3/8/8/8/8/8/8/4K3 b - - 7 1"


@pytest.mark.parametrize(
    ("fen", "xfen", "shredder"),
    [
        ("2r1kr2/8/8/8/8/8/8/2R1KR2 w KQkq - 0 1", "KQkq", "FCfc"),
        ("4k3/8/8/8/8/8/8/RR2K1RR w GB - 0 1", "GB", "GB"),
        ("4k3/8/8/8/8/8/8/RR2K1RR w HA - 0 1", "KQ", "HA"),
        ("1r2k1r1/8/8/8/8/8/8/4K3 b gb - 0 1", "kq", "gb"),
    ],
)
def test_castling_rooks_have_two_spellings(fen: str, xfen: str, shredder: str) -> None:
    position = read_fen(fen, chess960=True)
    assert write_fen(position).split()[2] == xfen == chess.Board(fen, chess960=True).castling_xfen()
    assert (
        write_fen(position, shredder=True).split()[2]
        == shredder
        == chess.Board(fen, chess960=True).castling_shredder_fen()
    )
    assert read_fen(write_fen(position), chess960=True) == position
    assert read_fen(write_fen(position, shredder=True), chess960=True) == position


def test_words_come_back() -> None:
    for fen in ODD_STARTS:
        position = read_fen(fen)
        assert Position.from_words([*position.words(), 0, 0, 0]) == position


# --- EPD -----------------------------------------------------------------------------------------


def test_epd_operations_come_back() -> None:
    line = "2rr3k/pp3pp1/1nnqbN1p/3pN3/2pP4/2P3Q1/PPB4P/R4RK1 w - - bm Qg6; "
    line += 'id "WAC.001"; c0 "a \\"b\\"; c"; hmvc 3; fmvn 24;'
    position, operations = read_epd(line)
    assert operations == {"bm": ("Qg6",), "id": ("WAC.001",), "c0": ('a "b"; c',), "hmvc": ("3",), "fmvn": ("24",)}
    assert (position.halfmove, position.fullmove) == (3, 24)
    assert read_epd(write_epd(position, operations)) == (position, operations)
    assert read_epd("4k3/8/8/8/8/8/8/4K3 w - -")[1] == {}
    assert write_epd(read_fen("4k3/8/8/8/8/8/8/4K3 w - - 5 9"), {"noop": []}) == "4k3/8/8/8/8/8/8/4K3 w - - noop;"


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        ("bm Kd2", r"EPD: line 1, column 35: expected ';' after the operation 'bm', got the end"),
        ('id "x', r"EPD: line 1, column 34: expected '\"' that closes the string of column 32, got the end"),
        ("1x;", r"EPD: line 1, column 29: expected the name of an operation, once, got '1x'"),
        ("a; a;", r"EPD: line 1, column 32: expected the name of an operation, once, got 'a'"),
        ("hmvc x;", r"EPD: line 1, column 34: expected a number from 0 to 99999, got 'x'"),
        ("hmvc;", r"EPD: line 1, column 33: expected a number after 'hmvc', got ';'"),
        ("fmvn 1 2;", r"EPD: line 1, column 36: expected ';' after the number of 'fmvn', got '2'"),
    ],
)
def test_bad_epd_is_explained(rest: str, says: str) -> None:
    with pytest.raises(BadNotation, match=says):
        read_epd("4k3/8/8/8/8/8/8/4K3 w - -   " + rest)


@pytest.mark.parametrize(
    ("operations", "error", "says"),
    [
        ({"bm": "Kd2"}, DtypeError, r"EPD: 'bm': expected a list with a text for every operand, got the str 'Kd2'"),
        ({"acd": [3]}, DtypeError, r"EPD: 'acd': expected a str, got int 3"),
        ({3: ["x"]}, DtypeError, r"EPD: the name of an operation: expected a str, got int 3"),
        ({"best move": ["Kd2"]}, BadNotation, r"the name of an operation is a letter, .* got 'best move'"),
        ({"c0;bm": ["Kd2"]}, BadNotation, r"the name of an operation is a letter, .* got 'c0;bm'"),
        ({"hmvc": []}, BadNotation, r"EPD: 'hmvc' has one number from 0 to 99999, got \[\]"),
        ({"fmvn": ["1", "2"]}, BadNotation, r"EPD: 'fmvn' has one number from 0 to 99999, got \['1', '2'\]"),
    ],
)
def test_epd_that_could_not_be_read_is_not_written(operations: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        write_epd(read_fen("4k3/8/8/8/8/8/8/4K3 w - -"), operations)


# --- moves ---------------------------------------------------------------------------------------


def play(fen: str, text: str, kind: str = "san", chess960: bool = False) -> str:
    rules = Chess(chess960=chess960)
    state = rules.from_fens([fen])
    read = rules.read_sans if kind == "san" else rules.read_ucis
    return rules.sans(state, read(state, [text]))[0]


@pytest.mark.parametrize(
    "text", ["Nf3xd4", "N3xd4", "Nxd4", "Nd4", "N3d4", "Nf3-d4", "Nf3d4", "Nxd4!?", "Nxd4+", "N3xd4!!"]
)
def test_san_is_read_generously(text: str) -> None:
    assert play("4k3/8/8/8/3p4/5N2/8/4K3 w - - 0 1", text) == "Nxd4"


def test_castling_and_promotion_have_many_spellings() -> None:
    assert {play(KIWIPETE, text) for text in ("O-O-O", "0-0-0", "O-O-O!")} == {"O-O-O"}
    assert {play(KIWIPETE, text, "uci") for text in ("e1c1", "e1a1", "E1C1".lower())} == {"O-O-O"}
    fen = "3nk3/4P3/8/8/8/8/8/4K3 w - - 0 1"
    assert {play(fen, text) for text in ("exd8=Q", "ed8Q", "exd8(Q)", "exd8/Q", "e7xd8=Q+")} == {"exd8=Q+"}
    assert play(fen, "e7d8n", "uci") == play(fen, "exd8=N") == "exd8=N"
    assert play("4k3/8/8/8/5Pp1/8/8/4K3 b - f3 0 1", "gxf3 e.p.".replace(" ", "")) == "gxf3"


def test_chess960_castles_onto_the_rook() -> None:
    fen = "4k3/8/8/8/8/8/8/1R2K1R1 w GB - 0 1"
    assert play(fen, "e1g1", "uci", True) == play(fen, "O-O", "san", True) == "O-O"
    assert play(fen, "e1b1", "uci", True) == "O-O-O"


BAD_SANS = [
    ("", "SAN: line 1, column 1: expected a move like e4, Nbxd7, e8=Q or O-O, got the end of ''"),
    ("Nf9", "SAN: line 1, column 3: expected a move like e4, Nbxd7, e8=Q or O-O, got '9'"),
    ("e4 e5", "SAN: line 1, column 3: expected the end of the move, got ' '"),
    ("O-O", "SAN: line 1, column 1: expected a legal move (Na3 Nc3 Nf3 Nh3 a3 a4 b3 b4 and 12 more), got 'O-O'"),
    ("e4=Q", "SAN: line 1, column 1: expected a legal move ("),
    ("e5", "SAN: line 1, column 1: expected a legal move ("),
]


@pytest.mark.parametrize(("text", "says"), BAD_SANS)
def test_bad_san_is_explained(text: str, says: str) -> None:
    with pytest.raises(BadNotation) as caught:
        Chess().read_sans(Chess().start(torch.Size([1])), [text])
    assert str(caught.value).startswith(says)
    assert caught.value.__notes__ == [f"in row 0: {START}"]


def test_ambiguous_san_names_the_choices() -> None:
    with pytest.raises(BadNotation, match=r"expected one move, not any of \['Nbd2', 'Nfd2'\], got 'Nd2'"):
        play("4k3/8/8/8/8/5N2/8/1N2K3 w - - 0 1", "Nd2")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "UCI: line 1, column 1: expected a move like e2e4 or e7e8q, got the end"),
        ("e2e9", "UCI: line 1, column 4: expected a move like e2e4 or e7e8q, got '9'"),
        ("e2e4x", "UCI: line 1, column 5: expected a move like e2e4 or e7e8q, got 'x'"),
        ("0000", "UCI: line 1, column 1: expected a move like e2e4 or e7e8q, got '0'"),
        (
            "e2e5",
            "UCI: line 1, column 1: expected a legal move (a2a3 a2a4 b1a3 b1c3 b2b3 b2b4 c2c3 c2c4 and 12 more), got "
            "'e2e5'",
        ),
        ("e1h1", "UCI: line 1, column 1: expected a legal move ("),
    ],
)
def test_bad_uci_is_explained(text: str, says: str) -> None:
    with pytest.raises(BadNotation) as caught:
        Chess().read_ucis(Chess().start(torch.Size([1])), [text])
    assert str(caught.value).startswith(says)


def test_a_text_per_row_is_needed() -> None:
    with pytest.raises(ShapeError, match="one text per row, 2; got 1"):
        Chess().read_sans(Chess().start(torch.Size([2])), ["e4"])


# --- any text at all -----------------------------------------------------------------------------

almost_fen = st.builds(
    lambda fen, at, put: fen[: at % (len(fen) + 1)] + put + fen[at % (len(fen) + 1) + len(put) % 3 :],
    st.sampled_from([*ODD_STARTS, "1r2k1r1/8/8/8/8/8/8/1R2K1R1 w GBgb - 0 1"]),
    st.integers(0, 100),
    st.text(st.sampled_from("pnbrqkPNBRQK12345678/ wb-KQkqABCDEFGHabcdefgh3690 \n"), max_size=4),
)


@pytest.mark.slow
@settings(max_examples=300)
@given(text=st.one_of(st.text(max_size=80), almost_fen), chess960=st.booleans())
def test_any_text_is_a_fen_or_bad_notation(text: str, chess960: bool) -> None:
    for read in (read_fen, read_epd):
        with contextlib.suppress(BadNotation):
            read(text, chess960=chess960)


@settings(max_examples=300)
@given(text=almost_fen)
def test_a_fen_that_is_read_can_be_played(text: str) -> None:
    try:
        position = read_fen(text)
    except BadNotation:
        return
    rules = Chess()
    state = rules.from_fens([text])
    board = chess.Board(write_fen(position))
    assert rules.fens(state) == [board.fen()]
    if not rules.over(state).any():
        assert set(rules.legal(state)[0].nonzero().flatten().tolist()) == set(legal_actions(board))


@settings(max_examples=200)
@given(data=st.data(), black=st.booleans())
def test_the_judge_of_positions_agrees_with_python_chess(data: st.DataObject, black: bool) -> None:
    pieces = data.draw(st.lists(st.tuples(st.integers(0, 63), st.sampled_from("PNBRQpnbrq")), max_size=14))
    squares = ["."] * 64
    for square, piece in pieces:
        squares[square] = piece
    for king, square in zip(
        "Kk", data.draw(st.lists(st.integers(0, 63), min_size=2, max_size=2, unique=True)), strict=True
    ):
        squares[square] = king
    castling = frozenset(data.draw(st.sets(st.sampled_from([0, 7, 56, 63]), max_size=2)))
    passant = data.draw(st.none() | st.integers(40 if not black else 16, 47 if not black else 23))
    position = Position("".join(squares), black, castling, passant, 0, 1)
    board = chess.Board.empty()
    for square, piece in enumerate(squares):
        if piece != ".":
            board.set_piece_at(square, chess.Piece.from_symbol(piece))
    board.turn, board.castling_rights, board.ep_square = not black, sum(1 << s for s in castling), passant
    unlikely = chess.STATUS_IMPOSSIBLE_CHECK  # two checkers that no move could have brought there are let through
    assert (position.broken_rule(False) is None) == (board.status() & ~unlikely == 0)


@settings(max_examples=300)
@given(
    text=st.one_of(st.text(max_size=9), st.from_regex(r"[NBRQKO0]?[a-h1-8x=+#\-]{0,7}", fullmatch=True)),
    fen=st.sampled_from(ODD_STARTS),
)
def test_any_text_is_a_move_or_bad_notation(text: str, fen: str) -> None:
    position = read_fen(fen)
    actions = list(legal_actions(chess.Board(fen)))
    for read in (read_san, read_uci):
        with contextlib.suppress(BadNotation):
            assert read(text, position, actions) in actions


def test_what_we_read_python_chess_reads_alike() -> None:
    choose = random.Random(0)
    for fen in ODD_STARTS:
        board = chess.Board(fen)
        legal = legal_actions(board)
        position = read_fen(fen)
        for action, move in choose.sample(list(legal.items()), min(8, len(legal))):
            assert read_san(board.san(move), position, list(legal)) == action
            assert read_san(board.lan(move), position, list(legal)) == action
            assert read_uci(move.uci(), position, list(legal)) == action
