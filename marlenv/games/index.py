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
]
