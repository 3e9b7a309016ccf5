"""Tic-tac-toe: the rules, and the env with TorchRL's keys."""

from marlenv.games.tictactoe.env import TicTacToeEnv
from marlenv.games.tictactoe.positions import State
from marlenv.games.tictactoe.rules import TicTacToe

__all__ = ["State", "TicTacToe", "TicTacToeEnv"]
