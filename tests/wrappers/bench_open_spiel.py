"""What ``OpenSpielEnv`` adds to a move of a small game.

    python tests/wrappers/bench_open_spiel.py [--moves 600] [--rounds 5] [game ...]

One thread, microseconds of processor time (other people's load does not count), medians. A move of ours is one
``env.step`` with numbers as actions. The game's own is what a player needs from pyspiel, called by hand: apply the
action, draw chance, and ask for every player's tensors, the legal actions, the returns and whose turn it is. Resets
are on neither side.
"""

from __future__ import annotations

import argparse
import gc
import statistics
from time import process_time_ns as now
from typing import Any

import numpy as np
import pyspiel
import torch

from marlenv import OpenSpielEnv

GAMES = (
    "tic_tac_toe",
    "kuhn_poker",
    "leduc_poker",
    "connect_four",
    "matrix_rps",
    "goofspiel(num_cards=4)",
    "breakthrough(rows=6,columns=6)",
    "pig",
    "liars_dice",
    "oware",
    "first_sealed_auction",
    "hex(board_size=5)",
    "blackjack",
    "dark_hex(board_size=3)",
    "phantom_ttt",
)


def ours(name: str, moves: int) -> float:
    """Microseconds of a move through the env."""
    env, spent = OpenSpielEnv(name, categorical_actions=True), 0
    env.set_seed(0)
    td = env.reset()
    for _ in range(moves):
        td = env.rand_action(td)
        start = now()
        out = env.step(td)
        spent += now() - start
        td = env.step_mdp(out)
        if bool(td["done"].any()):
            td = env.reset()
    return spent / moves / 1e3


def alone(name: str, moves: int) -> float:
    """Microseconds of a move by hand."""
    game, rng, spent = pyspiel.load_game(name), np.random.default_rng(0), 0
    state = begun(game, rng)
    for _ in range(moves):
        players = range(game.num_players())
        together = state.is_simultaneous_node()
        asked = players if together else [state.current_player()]
        chosen = [int(rng.choice(state.legal_actions(i) or [0])) for i in asked]
        start = now()
        if together:
            state.apply_actions(chosen)
        else:
            state.apply_action(*chosen)
        draw_chance(state, rng)
        look(state, game)
        spent += now() - start
        if state.is_terminal():
            state = begun(game, rng)
    return spent / moves / 1e3


def begun(game: Any, rng: np.random.Generator) -> Any:
    state = game.new_initial_state()
    draw_chance(state, rng)
    return state


def draw_chance(state: Any, rng: np.random.Generator) -> None:
    while state.is_chance_node():
        outcomes, chances = zip(*state.chance_outcomes(), strict=True)
        at = np.searchsorted(np.cumsum(chances), rng.random() * sum(chances), "right")
        state.apply_action(outcomes[min(int(at), len(outcomes) - 1)])


def look(state: Any, game: Any) -> None:
    about = game.get_type()
    for player in range(game.num_players()):
        if about.provides_observation_tensor:
            state.observation_tensor(player)
        if about.provides_information_state_tensor:
            state.information_state_tensor(player)
    if state.is_simultaneous_node():
        for player in range(game.num_players()):
            state.legal_actions(player)
    elif not state.is_terminal():
        state.legal_actions(state.current_player())
    state.returns()
    state.current_player()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", nargs="*", default=GAMES)
    parser.add_argument("--moves", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    gc.disable()
    print(f"{'us per move':32}{'alone':>8}{'ours more':>12}")
    for name in args.games:
        found: dict[Any, list[float]] = {ours: [], alone: []}
        for side in found:
            side(name, 100)  # plans and caches are made on first use
        for _ in range(args.rounds):
            for side, times in found.items():
                times.append(side(name, args.moves))
            gc.collect()
        whole, raw = (statistics.median(found[side]) for side in (ours, alone))
        print(f"{name:32}{raw:8.0f}{whole - raw:12.0f}", flush=True)


if __name__ == "__main__":
    main()
