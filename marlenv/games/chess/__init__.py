"""Chess and Chess960: rules for any batch of positions on any device, and everything that people write games in.

``Chess`` is what a :class:`~marlenv.games.rules.Rules` user needs; ``board.py`` draws squares, planes and state.
"""

from marlenv.games.chess.board import OUTCOMES, State, back_rank
from marlenv.games.chess.env.chess_env import ChessEnv
from marlenv.games.chess.env.grouped_chess_env import GroupedChessEnv
from marlenv.games.chess.numberings.encoding import LC0_MOVES, UCI_MOVES, Encoding, encoding
from marlenv.games.chess.perft import divide, perft
from marlenv.games.chess.rules import Chess
from marlenv.games.chess.text.notation import read_epd, read_fen, write_epd, write_fen
from marlenv.games.chess.text.pgn import Game, Ply, read_pgn, record, write_pgn
from marlenv.games.chess.text.position import Position

__all__ = [
    "LC0_MOVES",
    "OUTCOMES",
    "UCI_MOVES",
    "Chess",
    "ChessEnv",
    "Encoding",
    "Game",
    "GroupedChessEnv",
    "Ply",
    "Position",
    "State",
    "back_rank",
    "divide",
    "encoding",
    "perft",
    "read_epd",
    "read_fen",
    "read_pgn",
    "record",
    "write_epd",
    "write_fen",
    "write_pgn",
]
