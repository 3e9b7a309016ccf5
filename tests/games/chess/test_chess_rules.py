"""The ends of games, returns, observations, starting positions, and what is refused."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from typing import Any

import chess
import pyspiel
import pytest
import torch

from marlenv.errors import BadNotation, DtypeError, IllegalAction, ShapeError, SpecError, UnknownName
from marlenv.games.chess import OUTCOMES, Chess, State, back_rank
from marlenv.games.rules import Rules, where
from marlenv.rng import RowRNG


def after(rules: Chess, sans: str, fen: str | None = None) -> State:
    """The position after a score, without batch dimensions."""
    state = rules.from_fens([fen]) if fen else rules.start(torch.Size([1]))
    for san in sans.split():
        state = rules.play(state, rules.read_sans(state, [san]))
    return State(*(part[0] for part in state))


def reason(rules: Chess, state: State) -> str:
    return rules.outcomes[int(rules.outcome(state))]


SHUFFLE = "Nf3 Nf6 Ng1 Ng8 "

ENDS = [  # (draws, fen or None, score, reason, White's return)
    ("claim", None, "f3 e5 g4 Qh4", "checkmate", -1),
    ("claim", None, "e4 e5 Qh5 Nc6 Bc4 Nf6 Qxf7", "checkmate", 1),
    ("claim", "7k/5Q2/8/6K1/8/8/8/8 w - - 0 1", "Kg6", "stalemate", 0),
    ("claim", "8/8/8/8/8/2k5/1p6/1K6 b - - 0 1", "Kd3 Kxb2", "insufficient material", 0),
    ("claim", "8/8/4k3/8/3b4/3n4/8/3BK3 w - - 0 1", "Ke2 Bc3 Kxd3 Bd4 Kxd4", "insufficient material", 0),
    ("claim", None, SHUFFLE * 2, "threefold repetition", 0),
    ("claim", None, SHUFFLE + "Nf3 Nf6 Ng1", "", 0),
    ("forced", None, SHUFFLE * 3, "", 0),
    ("forced", None, SHUFFLE * 4, "fivefold repetition", 0),
    ("claim", "8/5k2/8/8/3R4/8/2K5/8 w - - 98 150", "Rd5 Ke6", "fifty moves", 0),
    ("forced", "8/5k2/8/8/3R4/8/2K5/8 w - - 98 150", "Rd5 Ke6", "", 0),
    ("forced", "8/5k2/8/8/3R4/8/2K5/8 w - - 148 150", "Rd5 Ke6", "seventy-five moves", 0),
    ("claim", "6k1/5ppp/8/8/8/8/8/R5K1 w - - 99 150", "Ra8", "checkmate", 1),  # mate comes before the clock
    ("claim", "8/8/8/8/8/2k5/1p6/1K6 b - - 99 80", "Kd3", "fifty moves", 0),
]


@pytest.mark.parametrize(("draws", "fen", "score", "why", "white"), ENDS)
def test_games_end_when_they_should(draws: str, fen: str | None, score: str, why: str, white: int, path: str) -> None:
    rules = Chess(draws=draws, path=path)
    state = after(rules, score, fen)
    assert reason(rules, state) == why
    assert bool(rules.over(state)) is bool(why)
    assert rules.returns(state).tolist() == [white, -white]
    assert bool(rules.legal(state).any()) is not bool(why)


def test_bishops_of_one_colour_are_insufficient(path: str) -> None:
    rules = Chess(path=path)
    fens = [
        "8/8/4k3/2b5/8/4B1K1/8/6B1 w - - 0 1",
        "8/8/4k3/2b5/8/3B2K1/8/8 w - - 0 1",
        "8/8/4k3/8/8/2NN2K1/8/8 b - - 0 1",
    ]
    over = [bool(one) for one in rules.over(rules.from_fens(fens))]
    assert over == [chess.Board(fen).is_insufficient_material() for fen in fens] == [True, False, False]


def test_castling_rights_and_en_passant_tell_positions_apart() -> None:
    rules = Chess()
    fen = "4k3/8/8/8/8/8/8/4K2R w K - 0 1"
    back_and_forth = "Rh2 Kd8 Rh1 Ke8 "  # the first position could castle, the later ones cannot
    assert reason(rules, after(rules, back_and_forth * 2, fen)) == ""
    assert reason(rules, after(rules, back_and_forth * 2 + "Rh2", fen)) == "threefold repetition"
    capture = "4k3/8/8/8/5p2/8/4P3/4K3 w - - 0 1"
    score = "e4" + " Kd8 Kd1 Ke8 Ke1" * 2  # at first Black could have taken en passant
    assert reason(rules, after(rules, score, capture)) == ""
    assert reason(rules, after(rules, score + " Kd8", capture)) == "threefold repetition"


@pytest.mark.slow
def test_the_same_game_ends_at_the_same_ply_in_openspiel() -> None:
    game, choose = pyspiel.load_game("chess"), random.Random(5)
    paths = [Chess(path="torch"), Chess()]
    for _ in range(4):
        theirs = game.new_initial_state()
        ours = [rules.start(torch.Size([1])) for rules in paths]
        while not theirs.is_terminal():
            action = choose.choice(theirs.legal_actions())
            san = theirs.action_to_string(action)
            theirs.apply_action(action)
            ours = [rules.play(state, rules.read_sans(state, [san])) for rules, state in zip(paths, ours, strict=True)]
            assert [bool(rules.over(state)) for rules, state in zip(paths, ours, strict=True)] == [
                theirs.is_terminal()
            ] * 2
        assert paths[0].returns(ours[0])[0].tolist() == theirs.returns()[::-1]  # Black is their player 0


def test_every_reason_has_a_word() -> None:
    assert len(set(OUTCOMES)) == len(OUTCOMES) == 8
    assert isinstance(Chess(), Rules)
    assert Chess().n_actions == 4672
    assert Chess().players == ("white", "black")
    assert (Chess().longest, Chess(draws="forced").longest) == (12_700, 19_050)


# --- starting positions --------------------------------------------------------------------------


def test_the_standard_start_is_number_518() -> None:
    rules = Chess(chess960=True)
    fens = rules.fens(rules.start_from(torch.arange(960)))
    assert fens == [chess.Board.from_chess960_pos(number).fen() for number in range(960)]
    assert fens[518] == rules.fens(rules.start(torch.Size()))[0] == chess.STARTING_FEN


@pytest.mark.parametrize("wrong", ["5", 5.0, True, None])
def test_what_is_no_number_has_no_position(wrong: Any) -> None:
    with pytest.raises(DtypeError, match=f"back_rank: number must be an integer from 0 to 959, got {wrong!r}"):
        back_rank(wrong)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64])
def test_starts_are_numbered_by_any_integers(dtype: torch.dtype) -> None:
    rules = Chess(chess960=True)
    want = [chess.Board.from_chess960_pos(number).fen() for number in (5, 0, 5)]
    assert rules.fens(rules.start_from(torch.tensor([5, 0, 5], dtype=dtype))) == want
    for wrong, says in (
        ([5], r"list \[5\]"),
        (torch.tensor([5.0]), "torch.float32"),
        (torch.tensor([True]), "torch.bool"),
    ):
        with pytest.raises(DtypeError, match=rf"Chess.start_from: numbers must be an int64 tensor .*, got {says}"):
            rules.start_from(wrong)


def test_chess960_draws_a_start_per_row() -> None:
    rules = Chess(chess960=True)
    many, one = (rules.start(torch.Size([n]), rng=RowRNG(3, [n])) for n in (64, 1))
    fens = rules.fens(many)
    assert fens[0] == rules.fens(one)[0]
    assert len(set(fens)) > 50
    assert set(rules.fens(Chess(chess960=True, number=7).start(torch.Size([3]), rng=RowRNG(3, [3])))) == {
        chess.Board.from_chess960_pos(7).fen()
    }


def test_starts_are_new_memory() -> None:
    rules = Chess()
    state = rules.start(torch.Size([2]))
    state.board.zero_()
    assert rules.fens(rules.start(torch.Size([2]))) == [chess.STARTING_FEN] * 2


def test_rows_are_reset_with_where() -> None:
    rules = Chess()
    state = rules.play(rules.start(torch.Size([3])), torch.full((3,), 6 * 64 + 12))
    mixed = where(torch.tensor([True, False, True]), rules.start(torch.Size([3])), state)
    assert [fen.split()[1] for fen in rules.fens(mixed)] == ["w", "b", "w"]
    renewed = rules.restart(state, torch.tensor([True, False, True]))
    assert all(torch.equal(a, b) for a, b in zip(mixed, renewed, strict=True))


def test_options_are_checked() -> None:
    with pytest.raises(UnknownName, match=r"Chess: draws='claims'; did you mean 'claim'\?"):
        Chess(draws="claims")  # type: ignore[arg-type]
    for number in (960, -1, 1.0, "5", True):
        with pytest.raises(SpecError, match=f"Chess: number must be an integer from 0 to 959, got {number!r}"):
            Chess(chess960=True, number=number)  # type: ignore[arg-type]
    with pytest.raises(BadNotation, match="position 4 needs chess960=True"):
        Chess(number=4)
    with pytest.raises(BadNotation, match=r"numbered positions need Chess\(chess960=True\)"):
        Chess().start_from(torch.tensor([3]))
    with pytest.raises(BadNotation, match="numbered 0 to 959; got 960"):
        Chess(chess960=True).start_from(torch.tensor([3, 960]))


# --- observations --------------------------------------------------------------------------------


def expected_planes(board: chess.Board, seat: int, repeats: int) -> torch.Tensor:
    """The table of observation.py, read with python-chess."""
    me = chess.BLACK if seat else chess.WHITE
    planes = torch.zeros(23, 64)
    for plane, (color, piece) in enumerate([(c, p) for c in (me, not me) for p in chess.PIECE_TYPES]):
        for square in board.pieces(piece, color):
            planes[plane, square ^ (56 if seat else 0)] = 1
    planes[12], planes[13], planes[14] = repeats >= 2, repeats >= 3, seat
    planes[15] = torch.tensor(float(board.fullmove_number)) / 100
    planes[16], planes[17] = board.has_kingside_castling_rights(me), board.has_queenside_castling_rights(me)
    planes[18], planes[19] = board.has_kingside_castling_rights(not me), board.has_queenside_castling_rights(not me)
    planes[20] = torch.tensor(float(board.halfmove_clock)) / 100
    if board.has_legal_en_passant():
        planes[21, board.ep_square ^ (56 if seat else 0)] = 1
    planes[22] = board.turn == me
    return planes.reshape(23, 8, 8)


def test_observations_are_the_table_of_the_docstring(path: str) -> None:
    rules, choose = Chess(path=path), random.Random(2)
    board = chess.Board("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1")
    state = rules.from_fens([board.fen()])
    for san in ("a4", "Rg8", "Rg1", "Rh8", "Rh1", "Rg8", "Rg1", "Rh8", "Rh1"):
        state = rules.play(state, rules.read_sans(state, [san]))
        board.push_san(san)
        seen = rules.observe(state)[0]
        repeats = 3 if board.is_repetition(3) else 2 if board.is_repetition(2) else 1
        for seat in range(2):
            assert torch.equal(seen[seat], expected_planes(board, seat, repeats)), san
    for _ in range(30):
        move = choose.choice(list(board.legal_moves))
        state = rules.play(state, rules.read_ucis(state, [move.uci()]))
        board.push(move)
        seen = rules.observe(state)[0]
        for seat in range(2):
            assert torch.equal(seen[seat][14:], expected_planes(board, seat, 1)[14:])


# --- illegal actions, pictures -------------------------------------------------------------------


def test_illegal_actions_are_named() -> None:
    rules = Chess()
    state = rules.start(torch.Size([2, 2]))
    action = torch.tensor([[6 * 64 + 12, 12], [6 * 64 + 12, 0]])
    assert rules.permits(state, action).tolist() == [[True, False], [True, False]]
    with pytest.raises(
        IllegalAction, match=r"Chess: row 1: white may not play e2f2 \(action 12\); legal: a2a3 a2a4 ... \(20 moves\)"
    ):
        rules.check(state, action)
    black = rules.play(state, torch.full((2, 2), 6 * 64 + 12))
    with pytest.raises(IllegalAction, match=r"row 0: black may not play e7d7 \(action 1804\)"):
        rules.check(black, torch.full((2, 2), 28 * 64 + 12))
    with pytest.raises(IllegalAction, match=r"may not play no action at all \(there are 4672\) \(action 4672\)"):
        rules.check(state, torch.full((2, 2), 4672))
    with pytest.raises(IllegalAction, match=r"may not play h1\?\? \(action 7\)"):
        rules.check(state, torch.full((2, 2), 7))
    over = after(rules, "f3 e5 g4 Qh4")
    with pytest.raises(IllegalAction, match="the game is over: checkmate"):
        rules.check(over, torch.tensor(6 * 64 + 12))
    with pytest.raises(IllegalAction, match="row 0: white may not play e2f2"):
        rules.sans(State(*(part[0] for part in state)), torch.tensor([12, 12]))
    rules.check(state, torch.full((2, 2), 6 * 64 + 12))


def test_a_position_is_drawn_in_letters() -> None:
    rules = Chess()
    assert rules.show(after(rules, "e4 c5")) == (
        "8  r n b q k b n r\n7  p p . p p p p p\n6  . . . . . . . .\n5  . . p . . . . .\n4  . . . . P . . .\n"
        "3  . . . . . . . .\n2  P P P P . P P P\n1  R N B Q K B N R\n   a b c d e f g h\nWhite to move"
    )
    colored = rules.show(after(rules, "e4"), color=True)
    assert "Black to move" in colored
    assert colored.count("\x1b[0m") == 8
    with pytest.raises(ShapeError, match="one position is drawn at a time"):
        rules.show(rules.start(torch.Size([2])))


def test_a_position_is_drawn_as_svg() -> None:
    rules = Chess()
    picture = ET.fromstring(rules.svg(after(rules, "e4 e5"), 6 * 64 + 12))
    tags = [element.tag.rpartition("}")[2] for element in picture]
    assert tags.count("use") == 32
    marked = [element for element in picture if element.get("fill") in ("#dcd06a", "#b5a43a")]
    assert len(marked) == 2


def test_actions_have_names() -> None:
    rules = Chess()
    state = after(rules, "e4 e5 Nf3")
    assert rules.action_name(state, 59 * 64 + 1) == "Nc6"
    assert rules.action_name(state, 12) == "e7f7"
