"""A game of OpenSpiel, and a return to a position."""

import torch
from torchrl.envs import OpenSpielEnv, OpenSpielWrapper


def played(td, cell):
    td["agents", "action"] = torch.full((2,), cell)  # read of the player to move
    return td


def run():
    env = OpenSpielEnv("tic_tac_toe", categorical_actions=True, return_state=True)
    assert isinstance(env, OpenSpielWrapper)
    td, moves = env.reset(), []
    for cell in (4, 0, 2):
        step, td = env.step_and_maybe_reset(played(td, cell))
        moves.append([step["next", "agents"].select("observation", "reward").clone(), int(td["current_player"])])
    kept = td.clone()
    one = env.step(played(td, 6))["next", "agents", "observation"].clone()
    two = env.step(played(env.reset(kept), 6))["next", "agents", "observation"].clone()
    return {
        "moves": moves,
        "again": torch.equal(one, two),
        "after": one,
        "seats": list(td["current_player"].shape),
        "agents": env.agent_names,
        "turn-based": not env.parallel,
        "known": "tic_tac_toe" in env.available_envs,
    }
