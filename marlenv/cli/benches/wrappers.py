"""What wrappers add to a step of their simulator: ours and TorchRL's around the same simulators, with the same actions.

The simulator alone is the third side of every round, and is subtracted from both. Episodes that end are reset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from marlenv.cli.benches.timing import Figure, interleaved
from marlenv.optional import need
from marlenv.wrappers.pettingzoo import PettingZooWrapper

WHO = "marlenv bench wrappers"
MOVES = (0, 1, 2, 3, 4, 5, 6)  # of tic-tac-toe: the first player wins with the last one
ROWS = 32  # of VMAS

OURS: Any = PettingZooWrapper
Play = Callable[[], int]
Sides = dict[str, Play]


def stepping(env: Any, moves: Sequence[float], steps: int, *, resets: bool = True) -> Play:
    """Steps an env: all agents play the same move, one move after the other and over again."""
    spec = env.full_action_spec
    turns = [[(key, torch.full_like(spec[key].zero(), move)) for key in env.action_keys] for move in moves]

    def play() -> int:
        td = env.reset()
        for i in range(steps):
            for key, action in turns[i % len(turns)]:
                td.set(key, action)
            td = env.step_and_maybe_reset(td)[1] if resets else env.step_mdp(env.step(td))
        return steps

    return play


def peer(module: str, name: str) -> Any:
    """A wrapper of TorchRL."""
    return getattr(need(f"torchrl.envs.libs.{module}", WHO), name)


def turns(steps: int = 350) -> Sides:
    """Tic-tac-toe over PettingZoo's turn-based interface."""
    from marlenv.wrappers._pettingzoo_tasks import make_task

    sim, one, other = (make_task("tictactoe_v3", False, {}) for _ in range(3))

    def alone() -> int:
        sim.reset()
        for i in range(steps):
            sim.step(MOVES[i % len(MOVES)])
            _, _, terminated, truncated, _ = sim.last()
            if terminated or truncated:
                sim.reset()
        return steps

    theirs = peer("pettingzoo", "PettingZooWrapper")(other, use_mask=True)
    return {
        "raw": alone,
        "marlenv": stepping(OURS(one), MOVES, steps),
        "torchrl": stepping(theirs, MOVES, steps),
    }


def together(task: str, move: Any, steps: int, options: dict[str, Any]) -> Sides:
    """A task over PettingZoo's parallel interface."""
    from marlenv.wrappers._pettingzoo_tasks import make_task

    sim, one, other = (make_task(task, True, options) for _ in range(3))
    actions = {a: move(sim.action_space(a)) for a in sim.possible_agents}

    def alone() -> int:
        sim.reset()
        for _ in range(steps):
            sim.step(actions)
            if not sim.agents:
                sim.reset()
        return steps

    theirs = peer("pettingzoo", "PettingZooWrapper")(other)
    return {
        "raw": alone,
        "marlenv": stepping(OURS(one), [0], steps),
        "torchrl": stepping(theirs, [0], steps),
    }


def spread() -> Sides:
    """Simple spread."""
    return together("simple_spread_v3", lambda space: 0, 200, {"max_cycles": 50})


def pistons() -> Sides:
    """Pistonball, which observes pictures."""
    import numpy as np

    return together("pistonball_v6", lambda space: np.zeros(space.shape, space.dtype), 20, {"max_cycles": 100})


def spiel(steps: int = 700) -> Sides:
    """Tic-tac-toe of OpenSpiel."""
    from marlenv.wrappers.open_spiel import OpenSpielEnv

    game = need("pyspiel", WHO).load_game("tic_tac_toe")

    def alone() -> int:
        state = game.new_initial_state()
        for i in range(steps):
            state.apply_action(MOVES[i % len(MOVES)])
            for player in (0, 1):
                state.observation_tensor(player)
            state.rewards()
            state.legal_actions()
            if state.is_terminal():
                state = game.new_initial_state()
        return steps

    theirs = peer("openspiel", "OpenSpielEnv")("tic_tac_toe", categorical_actions=True)
    ours = OpenSpielEnv("tic_tac_toe", categorical_actions=True)
    return {"raw": alone, "marlenv": stepping(ours, MOVES, steps), "torchrl": stepping(theirs, MOVES, steps)}


def vmas(steps: int = 50) -> Sides:
    """Balance of VMAS; without resets, which cost TorchRL's wrapper much more."""
    from marlenv.wrappers.vmas import VmasEnv

    sim = need("vmas", WHO).make_env("balance", num_envs=ROWS, seed=0)
    actions = [torch.zeros(ROWS, 2) for _ in sim.agents]

    def alone() -> int:
        sim.reset()
        for _ in range(steps):
            sim.step(actions)
        return steps

    theirs = peer("vmas", "VmasEnv")("balance", num_envs=ROWS, seed=0)
    ours = VmasEnv("balance", num_envs=ROWS, seed=0)
    return {
        "raw": alone,
        "marlenv": stepping(ours, [0], steps, resets=False),
        "torchrl": stepping(theirs, [0], steps, resets=False),
    }


CASES: dict[str, Callable[[], Sides]] = {
    "PettingZoo tictactoe, turns": turns,
    "PettingZoo simple_spread, parallel": spread,
    "PettingZoo pistonball, parallel": pistons,
    "OpenSpiel tic_tac_toe": spiel,
    f"VMAS balance, {ROWS} rows": vmas,
}


def measure(rounds: int, only: str = "") -> list[Figure]:
    """Times all cases whose name holds ``only``."""
    figures = []
    for what, make in CASES.items():
        if only in what:
            got = interleaved(make(), rounds)
            ours, theirs = (got[name] - got["raw"] for name in ("marlenv", "torchrl"))
            figures.append(Figure(f"{what} (alone {got['raw']:.0f})", ours, theirs, "torchrl", "us/step more"))
    return figures
