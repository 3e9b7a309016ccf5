"""Players of tic-tac-toe for `tic_tac_toe.toml`: what a player is, in two examples."""

from functools import cache

import torch

from marlenv.games import TicTacToe
from marlenv.tournament import random_player

RULES = TicTacToe()


def centre_first(turn):
    """Takes the middle if it is free, and any other cell if not."""
    return torch.where(turn.legal[:, 4], 4, random_player(turn))


@cache
def values(code):
    """What the one to move gets by each action in a position, if both play well; -2 where it is not legal."""
    state = type(RULES.start([]))(torch.tensor(code))
    legal, mover = RULES.legal(state), int(RULES.player(state))
    found = torch.full((9,), -2.0)
    for action in legal.nonzero().flatten().tolist():
        after = RULES.play(state, torch.tensor(action))
        if RULES.over(after):
            found[action] = RULES.returns(after)[mover]
        else:
            found[action] = -values(int(after.code)).max()
    return found


def minimax(turn):
    """Plays perfectly; among moves that are as good, any."""
    table = torch.stack([values(code) for code in turn.state.code.tolist()])
    best = table == table.max(-1, keepdim=True).values
    return turn.rng.choice(best.float())
