"""Turns and rules: board and card games for any batch of positions at once."""

from marlenv.games.backgammon import Backgammon
from marlenv.games.breakthrough import Breakthrough
from marlenv.games.chess import Chess, ChessEnv
from marlenv.games.connect_four import ConnectFour
from marlenv.games.env.game_env import GameEnv
from marlenv.games.env.policy_per_row import PolicyPerRow
from marlenv.games.env.turn_based import TurnBasedEnv
from marlenv.games.go import Go
from marlenv.games.hanabi import Hanabi
from marlenv.games.hex import Hex
from marlenv.games.kuhn import KuhnPoker
from marlenv.games.leduc import LeducPoker
from marlenv.games.matrix import MatrixGame
from marlenv.games.othello import Othello
from marlenv.games.rules import Rules
from marlenv.games.tictactoe import TicTacToe, TicTacToeEnv

__all__ = [
    "Backgammon",
    "Breakthrough",
    "Chess",
    "ChessEnv",
    "ConnectFour",
    "GameEnv",
    "Go",
    "Hanabi",
    "Hex",
    "KuhnPoker",
    "LeducPoker",
    "MatrixGame",
    "Othello",
    "PolicyPerRow",
    "Rules",
    "TicTacToe",
    "TicTacToeEnv",
    "TurnBasedEnv",
]
