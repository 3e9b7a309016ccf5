"""Suites of openings in the letters and by the rules that people keep them in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from marlenv.errors import BadNotation, IllegalAction, SpecError
from marlenv.games import Backgammon, Chess, Hanabi, TicTacToe
from marlenv.rng import RowRNG
from marlenv.tournament import Arena, Game, random_player
from marlenv.tournament.config import Config
from marlenv.tournament.openings import read_opening, read_suite

PGN = '[White "Müller"]\n[Black "Réti"]\n\n1. e4 e5 2. Nf3 *\n'
FIRST = "bbrknrqn/pppppppp/8/8/8/8/PPPPPPPP/BBRKNRQN"  # position 0 of Chess960


@pytest.mark.parametrize("letters", ["utf-8", "utf-8-sig", "latin-1"])
def test_score_sheets_are_read_in_their_letters(tmp_path: Path, letters: str) -> None:
    (tmp_path / "a.pgn").write_bytes(PGN.encode(letters))
    assert read_suite(tmp_path / "a.pgn") == [("e4", "e5", "Nf3")]


@pytest.mark.parametrize("name", ["a.txt", "a.epd"])
def test_other_suites_are_utf_8_and_the_file_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes("# Réti".encode("latin-1"))
    with pytest.raises(SpecError, match=f"openings: {tmp_path / name} is no text in UTF-8: .*; save it as UTF-8"):
        read_suite(tmp_path / name)


def test_a_config_is_utf_8_with_and_without_a_mark(tmp_path: Path) -> None:
    text = 'env = "tic_tac_toe"\n[players]\n"Réti" = "random"\nb = "random"\n'
    for letters in ("utf-8", "utf-8-sig"):
        (tmp_path / "a.toml").write_bytes(text.encode(letters))
        assert list(Config.read(tmp_path / "a.toml").players) == ["Réti", "b"]
    (tmp_path / "a.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(SpecError, match=r"a.toml: this is no TOML; .*, and TOML is text in UTF-8"):
        Config.read(tmp_path / "a.toml")


@pytest.mark.parametrize("rights", ["FCfc", "KQkq"])
def test_positions_of_chess960_are_read(tmp_path: Path, rights: str) -> None:
    """Castling rights of the outermost rooks, by their files and as in X-FEN, are those of the numbered position."""
    (tmp_path / "a.epd").write_text(f'{FIRST} w {rights} - id "x"; hmvc 4; fmvn 7;\n')
    (words,) = read_suite(tmp_path / "a.epd")
    rules = Chess(chess960=True)
    start = read_opening(rules, words).start
    want = rules.from_fens([f"{FIRST} w KQkq - 4 7"])
    assert rules.fens(start) == rules.fens(want)
    with pytest.raises(BadNotation, match="castl"):  # by the rules of chess
        read_opening(Chess(), words)


def test_positions_of_chess_are_read_alike_by_both_rules(tmp_path: Path) -> None:
    (tmp_path / "a.epd").write_text("r3k2r/8/8/8/8/8/8/R3K2R w KQkq -\n")
    (words,) = read_suite(tmp_path / "a.epd")
    assert words == ("fen r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1",)
    shutil.copy(tmp_path / "a.epd", tmp_path / "B.EPD")
    assert read_suite(tmp_path / "B.EPD") == [words]
    for rules in (Chess(), Chess(chess960=True)):
        assert rules.fens(read_opening(rules, words).start) == [words[0][4:]]
    (tmp_path / "a.epd").write_text("r3k2r/8/8/8/8/8/8/R3K2R w KQkq\n")
    with pytest.raises(BadNotation, match="en-passant") as error:
        read_suite(tmp_path / "a.epd")
    assert error.value.__notes__ == [f"in {tmp_path / 'a.epd'}"]


def test_moves_whose_names_have_spaces_stand_between_commas(tmp_path: Path) -> None:
    """Openings of every game that were written down are read back as the actions that they were."""
    for rules in (Hanabi(), Backgammon(), TicTacToe()):
        lines, want = [], []
        for pick in (0.0, 0.4, 0.9):
            state, words, actions = rules.start(torch.Size([]), rng=RowRNG(0, [])), [], []
            for _ in range(2):
                action = int(rules.pick(state, torch.tensor(pick)))
                words.append(rules.action_name(state, action))
                state = rules.play(state, torch.tensor(action))
                actions.append(action)
            lines += [", ".join(words) + "  # both", f"{words[0]},", ""]
            want += [tuple(actions), tuple(actions[:1])]
        (tmp_path / "a.txt").write_text("# moves\n" + "\n".join(lines))
        suite = read_suite(tmp_path / "a.txt")
        assert [read_opening(rules, words).moves for words in suite] == want
        assert [len(words) for words in read_suite(tmp_path / "a.txt", plies=1)] == [1] * 6
    (tmp_path / "a.txt").write_text("4 0 8\n")
    assert read_suite(tmp_path / "a.txt") == [("4", "0", "8")]
    (tmp_path / "a.txt").write_text("fen 4k3/8/8/8/8/8/8/4K2R w K - 0 1, O-O\n")
    (words,) = read_suite(tmp_path / "a.txt")
    assert words == ("fen 4k3/8/8/8/8/8/8/4K2R w K - 0 1", "O-O")


def test_an_opening_that_not_all_dice_allow_is_told_from_one_that_no_game_has() -> None:
    rules = Backgammon()
    state = rules.start(torch.Size([]), rng=RowRNG(0, []))
    moves = [int(rules.pick(state, torch.tensor(0.5)))]
    games = [Game(k, ("a", "a"), opening=0) for k in range(5)]
    with pytest.raises(IllegalAction, match="of opening 0 is illegal; dice and cards differ from game to game"):
        Arena(rules, {"a": random_player}, openings=[moves]).play(games)
    with pytest.raises(IllegalAction, match="move 4 of opening 0 is illegal; legal are others"):
        Arena(TicTacToe(), {"a": random_player}, openings=[[4, 4]]).play(games)
