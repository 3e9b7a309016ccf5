"""A person plays in the terminal: what is typed comes from a pipe here, as it would from a keyboard."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Size

import marlenv
from marlenv.cli.__main__ import main
from marlenv.games import ConnectFour, GameEnv


@pytest.fixture
def play(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path):  # noqa: ANN201
    """Types lines into ``marlenv play``; exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def typed(words: str, lines: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines.replace(" / ", "\n") + "\n"))
        try:
            code = main(["play", *words.split()])
        except SystemExit as stop:
            code = int(stop.code or 0)
        out = capsys.readouterr()
        return code, out.out, out.err

    return typed


LEFT = """
def left(td):
    mask = td["o", "action_mask"]
    return td.set(("o", "action"), mask.int().argmax(-1))
"""


def test_nobody_has_earned_less_than_nothing_in_a_game_that_was_stopped(
    play: Callable[[str, str], tuple[int, str, str]], tmp_path: Path
) -> None:
    play("connect_four --save game.json --seed 5", "4 / quit")
    assert '"o": 0.0' in (tmp_path / "game.json").read_text()


def test_a_game_against_a_policy_is_played_to_its_end_and_kept(play, tmp_path: Path) -> None:  # noqa: ANN001
    (tmp_path / "my_player.py").write_text(LEFT)
    code, out, err = play("connect_four --opponent my_player:left --save game.json --seed 5", "4 / 4 / 4 / 4")
    assert (code, err) == (0, "")
    assert "x: you, o: my_player:left" in out
    assert out.splitlines()[-11:-3] == [
        "",
        ". . . . . . .",
        ". . . . . . .",
        ". . . x . . .",
        "o . . x . . .",
        "o . . x . . .",
        "o . . x . . .",
        "1 2 3 4 5 6 7",
    ]
    assert out.splitlines()[-2:] == ["x wins: line", "saved: game.json"]
    kept = json.loads((tmp_path / "game.json").read_text())
    assert kept == {
        "game": "connect_four",
        "seed": 5,
        "options": [],
        "players": {"x": "you", "o": "my_player:left"},
        "moves": ["4", "1", "4", "1", "4", "1", "4"],
        "actions": [3, 0, 3, 0, 3, 0, 3],
        "result": "x wins: line",
        "returns": {"x": 1.0, "o": -1.0},
    }
    state = ConnectFour().start(Size([]))
    for action in kept["actions"]:
        state = ConnectFour().play(state, torch.tensor(action))
    assert ConnectFour().returns(state).tolist() == [1.0, -1.0]


def test_random_opponents_follow_the_seed(play) -> None:  # noqa: ANN001
    games = [play(f"othello --seat white --seed {seed}", "quit")[1] for seed in (1, 1, 2, 3, 4, 5)]
    assert games[0] == games[1]
    assert len(set(games)) > 2
    assert "black plays" in games[0]


def test_a_game_is_saved_where_names_have_spaces(
    play: Callable[[str, str], tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "my games").mkdir()
    lines = "4 / save my games/one two.json / save 'my games/drei ü.json' / save \"4.svg\" / save / quit"
    _, out, _ = play("tic_tac_toe --seed 1", lines)
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["4.svg", "drei ü.json", "one two.json"]
    assert "  saved: my games/one two.json" in out.splitlines()
    assert "no legal move is called 'save'" in out


def test_hint_lists_legal_moves_and_undo_takes_back_the_answer_too(play) -> None:  # noqa: ANN001
    code, out, _ = play("tic_tac_toe --seed 3", "undo / hint / 4 / hint / undo / hint / 8 / quit")
    assert code == 0
    lines = out.splitlines()
    assert "  there is nothing to undo" in lines
    hints = [lines[i + 1].split() for i, line in enumerate(lines) if line == "x> hint"]
    assert hints[0] == hints[2] == list("012345678")
    assert len(hints[1]) == 7
    assert "4" not in hints[1]
    assert lines[-1] == "stopped"


def test_two_people_can_share_the_terminal(play) -> None:  # noqa: ANN001
    code, out, _ = play("hex --seat all --set rows=3", "B1 / a1 / b2 / a2 / b2 / b3")
    assert code == 0
    assert "o plays a2" in out
    assert "Hex: no legal move is called 'b2'; known: ['a3', 'b3', 'c1', 'c2', 'c3']" in out
    assert out.splitlines()[-1] == "x wins: connected"


def test_the_other_hand_stays_hidden_until_the_end(play) -> None:  # noqa: ANN001
    _, out, _ = play("kuhn_poker --seed 1", "save cards.svg / bet")
    before, _, after = out.partition("> bet")
    assert "player_1  ?" in before
    assert "player_1  ?" not in after
    assert "a picture would show what you may not know" in before


def test_a_game_in_which_all_choose_at_once(play, tmp_path: Path) -> None:  # noqa: ANN001
    code, out, _ = play(
        "prisoners_dilemma --seat 2 --seed 0 --set rounds=2 --save two.json",
        "undo / defect / undo / cooperate / defect",
    )
    assert code == 0
    kept = json.loads((tmp_path / "two.json").read_text())
    assert [row[1] for row in kept["moves"]] == ["Cooperate", "Defect"]
    pays = {
        ("Cooperate", "Cooperate"): 5,
        ("Cooperate", "Defect"): 10,
        ("Defect", "Cooperate"): 0,
        ("Defect", "Defect"): 1,
    }
    assert kept["returns"]["player_1"] == sum(pays[tuple(row)] for row in kept["moves"])


@pytest.mark.slow
def test_chess_is_kept_as_pgn_that_the_chess_package_reads(play, tmp_path: Path) -> None:  # noqa: ANN001
    pgn = pytest.importorskip("chess.pgn")
    code, out, _ = play("chess --seat all --save mate.pgn", "f3 / e5 / Ke2 / g4 / Qh4")
    assert code == 0
    assert "expected a legal move" in out  # Ke2 is none for black
    assert out.splitlines()[-2] == "black wins: checkmate"
    game = pgn.read_game(io.StringIO((tmp_path / "mate.pgn").read_text()))
    assert game is not None
    assert not game.errors
    assert game.headers["Result"] == "0-1"
    assert game.end().board().is_checkmate()


def test_pictures_and_the_end_of_input(play, tmp_path: Path) -> None:  # noqa: ANN001
    code, out, err = play("go --set size=5", "C3 / save now.svg / save now.svg / help")
    assert (code, err) == (0, "")
    assert (tmp_path / "now.svg").read_text().startswith("<svg")
    assert "--save now.svg: the file exists; choose another name or remove it" in out
    assert out.splitlines()[-1] == "stopped"


@pytest.mark.parametrize("name", [n for n in marlenv.available("game") if isinstance(marlenv.make(n), GameEnv)])
def test_every_game_can_be_played_by_people(play, name: str) -> None:  # noqa: ANN001
    code, out, err = play(f"{name} --seed 1 --color always", "hint / quit")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    hint = next(lines[i + 1] for i, line in enumerate(lines) if line.endswith("> hint"))
    move = hint.split("  ")[1]
    code, out, err = play(f"{name} --seed 1", f"{move} / quit")
    assert (code, err) == (0, "")
    assert "no legal move" not in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("tic_tac_to", "no env is called 'tic_tac_to'; did you mean 'tic_tac_toe'?"),
        ("simple_spread", "marlenv play: 'simple_spread' is no game; known: ["),
        ("tic_tac_toe --seat 3", "--seat must be 1 to 2, one of ['x', 'o'], or all, got '3'"),
        ("tic_tac_toe --seat \u00b2", "--seat must be 1 to 2, one of ['x', 'o'], or all, got '\u00b2'"),
        ("tic_tac_toe --opponent me", "--opponent must be 'random' or module:callable, got 'me'"),
        ("go --set sice=5", "Go has no option 'sice'; did you mean 'size'?"),
        ("tic_tac_toe --save game.txt", "--save game.txt: the name must end in .json, .svg or .pgn"),
        ("tic_tac_toe --save game.pgn", "tic_tac_toe is not written in PGN; choose a name that ends in .json"),
        ("tic_tac_toe --save no/where.json", "--save no/where.json: there is no folder"),
        ("tic_tac_toe --color red", "unknown choice 'red'"),
    ],
)
def test_errors_are_one_line(play, words: str, says: str) -> None:  # noqa: ANN001
    code, _, err = play(words, "quit")
    assert code == 2
    assert says in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("chess --set layout=torchrl", "e4 / e5 / Nf3 / Nc6"),
        ("chess", "e4 / e5 / Nf3 / Nc6"),
        ("tic_tac_toe --set layout=torchrl", "0 / 3 / 1 / 4"),
    ],
)
def test_a_game_that_was_cut_off_says_so(
    play: Callable[[str, str], tuple[int, str, str]], words: str, lines: str
) -> None:
    code, out, err = play(f"{words} --max-steps 4 --seat all", lines)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "draw: move limit"


@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ("opponent=random", "--opponent"),
        ("single_player=true", "--opponent"),
        ("seat=1", "--seat"),
        ("max_plies=3", "--max-steps"),
        ("seed=1", "--seed"),
    ],
)
def test_who_plays_is_no_option_of_the_game(
    play: Callable[[str, str], tuple[int, str, str]], tmp_path: Path, option: str, instead: str
) -> None:
    code, _, err = play(f"tic_tac_toe --set layout=torchrl --save game.json --set {option}", "1 / quit")
    name = option.partition("=")[0]
    assert code != 0
    assert f"--set {name}= would change who plays, and not the game; use {instead}" in " ".join(err.split())
    assert not (tmp_path / "game.json").exists()


def test_ctrl_c_keeps_the_game(
    play: Callable[[str, str], tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hasty_player.py").write_text("def stops(td):\n    raise KeyboardInterrupt\n")  # while the other thinks
    code, out, _ = play("connect_four --opponent hasty_player:stops --save game.json --seed 5", "4 / 4")
    assert (code, out.splitlines()[-2:]) == (0, ["stopped", "saved: game.json"])
    assert json.loads((tmp_path / "game.json").read_text())["moves"] == ["4"]
    lines = iter(["4"])

    def interrupted(words: str) -> str:
        print(words)
        for line in lines:
            return line
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupted)
    code, out, _ = play("connect_four --save other.json --seed 5", "")
    assert (code, out.splitlines()[-2:]) == (0, ["stopped", "saved: other.json"])
    assert len(json.loads((tmp_path / "other.json").read_text())["moves"]) == 2


@pytest.mark.parametrize(
    ("encoding", "rank"),
    [
        ("ascii", "8  r n b q k b n r"),
        ("latin-1", "8  r n b q k b n r"),
        ("utf-8", "\u265c\u265e\u265d\u265b\u265a\u265d\u265e\u265c"),
    ],
)
def test_pieces_are_letters_where_the_terminal_has_no_figures(
    monkeypatch: pytest.MonkeyPatch, encoding: str, rank: str
) -> None:
    terminal = io.BytesIO()
    out = io.TextIOWrapper(terminal, encoding=encoding, errors="replace", write_through=True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("quit\n"))
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["play", "chess", "--color", "always"]) == 0
    shown = terminal.getvalue().decode(encoding)
    plain = re.sub("\x1b\\[[0-9;]*m", "", shown)
    assert rank in plain or rank in plain.replace(" ", "")
    assert "?" not in shown
    assert ("\x1b" in shown) == (encoding == "utf-8")


def test_input_that_is_closed_is_the_end_of_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # as after <&-
    assert main(["play", "tic_tac_toe", "--seed", "1"]) == 0
    out = capsys.readouterr()
    assert (out.err, out.out.splitlines()[-1]) == ("", "stopped")
