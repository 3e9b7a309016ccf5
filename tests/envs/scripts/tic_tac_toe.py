"""Tic-tac-toe to the end; what a player wins (the loser's reward is one of the deliberate differences)."""

import torch
from torchrl.envs import TicTacToeEnv
from torchrl.envs.utils import step_mdp


def played(env, cells):
    td, rows = env.reset(), []
    for cell in cells:
        td["action"] = torch.tensor(cell)
        td = env.step(td)
        rows.append(td.exclude("player0", "player1", ("next", "player0"), ("next", "player1")).clone())
        won = max(td["next", "player0", "reward"].item(), td["next", "player1", "reward"].item())
        rows.append(won)
        td = step_mdp(td)
    return rows


def run():
    env = TicTacToeEnv()
    return {
        "first wins": played(env, [0, 3, 1, 4, 2]),
        "draw": played(env, [0, 1, 2, 4, 3, 5, 7, 6, 8]),
        "reward keys": sorted(map(str, env.reward_keys)),
        "single": TicTacToeEnv(single_player=True).reset()["board"],
    }
