"""Turns and rules: board and card games for any batch of positions at once."""

from marlenv.games.rules import Rules
from marlenv.games.tictactoe import TicTacToe, TicTacToeEnv
from marlenv.games.turn_based import GameEnv, TurnBasedEnv

__all__ = ["GameEnv", "Rules", "TicTacToe", "TicTacToeEnv", "TurnBasedEnv"]
