"""The names of the games."""

from __future__ import annotations

from typing import Any

from marlenv.envs.registry import Registration

MAKE = "marlenv.games.env.make:make_game"


def _game(name: str, rules: str, summary: str, **options: Any) -> Registration:
    """The entry of a game whose env follows from its rules, ``"module:class"``; ``options`` are what ``make`` gets
    first.
    """
    return Registration(name, "game", MAKE, {"rules": rules, **options}, batched=True, summary=summary)


GAMES = [
    _game(
        "tic_tac_toe",
        "marlenv.games.tictactoe.rules:TicTacToe",
        "three in a row on a board of nine",
        torchrl="marlenv.games.tictactoe.env:TicTacToeEnv",
    ),
    _game("connect_four", "marlenv.games.connect_four:ConnectFour", "four in a row with stones that fall"),
    _game("hex", "marlenv.games.hex:Hex", "connect two edges of a rhombus of hexagons"),
    _game("go", "marlenv.games.go:Go", "surround more of a 9x9 board, or of one up to 25x25"),
    _game("othello", "marlenv.games.othello:Othello", "enclose discs to turn them over"),
    _game("breakthrough", "marlenv.games.breakthrough:Breakthrough", "bring a stone to the other's edge"),
    _game("kuhn_poker", "marlenv.games.kuhn:KuhnPoker", "one card each, one bet, two to ten players"),
    _game(
        "leduc_poker",
        "marlenv.games.leduc:LeducPoker",
        "one card each, one on the table, two rounds of bets, two to ten players",
    ),
    Registration(
        "matrix_game",
        "game",
        MAKE,
        {"rules": "marlenv.games.matrix:MatrixGame"},
        batched=True,
        task_option="payoffs",
        tasks="marlenv.games.matrix:NAMED",
        summary="all choose at once and a table pays: stag_hunt, chicken, rock_paper_scissors, ... or one's own table",
    ),
    _game(
        "prisoners_dilemma",
        "marlenv.games.matrix:MatrixGame",
        "cooperate or defect, ten times",
        payoffs="prisoners_dilemma",
        rounds=10,
    ),
    Registration(
        "chess",
        "game",
        "marlenv.games.chess.env.make:make_chess",
        batched=True,
        summary="chess and Chess960; legal moves as packed bits or bools, other people's numbers and texts",
    ),
    _game(
        "backgammon",
        "marlenv.games.backgammon:Backgammon",
        "fifteen checkers, two dice; gammons count as an option",
    ),
    _game(
        "hanabi",
        "marlenv.games.hanabi:Hanabi",
        "fireworks together, seeing all cards but one's own; two to five players",
    ),
]
