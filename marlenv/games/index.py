"""The names of the games."""

from __future__ import annotations

from marlenv.envs.registry import Entry

MAKE = "marlenv.games.making:make_game"

ENTRIES = [
    Entry(
        "tic_tac_toe",
        "game",
        MAKE,
        {"rules": "marlenv.games.tictactoe:TicTacToe"},
        batched=True,
        summary="three in a row on a board of nine",
    ),
    Entry(
        "connect_four",
        "game",
        MAKE,
        {"rules": "marlenv.games.connect_four:ConnectFour"},
        batched=True,
        summary="four in a row with stones that fall",
    ),
    Entry(
        "hex",
        "game",
        MAKE,
        {"rules": "marlenv.games.hex:Hex"},
        batched=True,
        summary="connect two edges of a rhombus of hexagons",
    ),
    Entry(
        "go",
        "game",
        MAKE,
        {"rules": "marlenv.games.go:Go"},
        batched=True,
        summary="surround more of a 9x9 board, or of one up to 25x25",
    ),
    Entry(
        "othello",
        "game",
        MAKE,
        {"rules": "marlenv.games.othello:Othello"},
        batched=True,
        summary="enclose discs to turn them over",
    ),
    Entry(
        "kuhn_poker",
        "game",
        MAKE,
        {"rules": "marlenv.games.kuhn:KuhnPoker"},
        batched=True,
        summary="one card each, one bet, two to ten players",
    ),
    Entry(
        "leduc_poker",
        "game",
        MAKE,
        {"rules": "marlenv.games.leduc:LeducPoker"},
        batched=True,
        summary="one card each, one on the table, two rounds of bets, two to ten players",
    ),
    Entry(
        "matrix_game",
        "game",
        MAKE,
        {"rules": "marlenv.games.matrix:MatrixGame"},
        batched=True,
        task_option="payoffs",
        summary="all choose at once and a table pays: stag_hunt, chicken, rock_paper_scissors, ... or one's own table",
    ),
    Entry(
        "prisoners_dilemma",
        "game",
        MAKE,
        {"rules": "marlenv.games.matrix:MatrixGame", "payoffs": "prisoners_dilemma", "rounds": 10},
        batched=True,
        summary="cooperate or defect, ten times",
    ),
    Entry(
        "chess",
        "game",
        "marlenv.games.chess.making:make_chess",
        batched=True,
        summary="chess and Chess960; legal moves as packed bits or bools, other people's numbers and texts",
    ),
    Entry(
        "backgammon",
        "game",
        MAKE,
        {"rules": "marlenv.games.backgammon:Backgammon"},
        batched=True,
        summary="fifteen checkers, two dice; gammons count as an option",
    ),
    Entry(
        "hanabi",
        "game",
        MAKE,
        {"rules": "marlenv.games.hanabi:Hanabi"},
        batched=True,
        summary="fireworks together, seeing all cards but one's own; two to five players",
    ),
]
