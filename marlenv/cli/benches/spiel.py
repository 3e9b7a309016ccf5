"""Every game that OpenSpiel has too, played at random: ours of many rows and of few beside OpenSpiel's, one by one.

The parameters are those with which the tests compare both rules, position by position.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from marlenv.cli.benches.timing import Figure, interleaved
from marlenv.optional import need

Play = Callable[[], int]

ROWS, FEW = 4096, 64
STEPS = 64  # of a rollout
WORK, PEERS_WORK = 1 << 18, 20_000
"""Plies of each turn: ours of many rows, a sixteenth of them of few; OpenSpiel's."""

PEERS: dict[str, tuple[str, dict[str, Any], str]] = {  # our name of the game with its options, and theirs
    "tic-tac-toe": ("tic_tac_toe", {}, "tic_tac_toe"),
    "connect four": ("connect_four", {}, "connect_four"),
    "hex": ("hex", {}, "hex(board_size=11)"),
    "othello": ("othello", {}, "othello"),
    "breakthrough": ("breakthrough", {}, "breakthrough(rows=8,columns=8)"),
    "go 9 x 9": ("go", {"repetition": "draw"}, "go(board_size=9)"),
    "go 19 x 19": ("go", {"size": 19, "repetition": "draw"}, "go(board_size=19)"),
    "go 19 x 19, superko": ("go", {"size": 19, "repetition": "forbid"}, "go(board_size=19)"),
    "chess": ("chess", {}, "chess"),
    "backgammon": (
        "backgammon",
        {"scoring": "full"},
        "backgammon(scoring_type=full_scoring,hyper_backgammon=False,max_player_turns=100000)",
    ),
    "hanabi": ("hanabi", {"num_players": 2}, "hanabi(players=2)"),
    "leduc poker": ("leduc_poker", {}, "leduc_poker(players=2)"),
    "kuhn poker": ("kuhn_poker", {}, "kuhn_poker(players=2)"),
    "prisoners' dilemma": (
        "prisoners_dilemma",
        {},
        "repeated_game(stage_game=matrix_pd(),num_repetitions=10)",
    ),
}
"""OpenSpiel has no ban on repetitions in Go: with superko ours does more."""


def spiel(game: str, plies: int) -> Play:
    """Random legal play of one OpenSpiel game after another; what chance does is drawn, and is no ply."""
    made, choose = need("pyspiel", "marlenv bench games").load_game(game), random.Random(0)
    held = [made.new_initial_state()]

    def play() -> int:
        state = held[0]
        for _ in range(plies):
            if state.is_terminal():
                state = made.new_initial_state()
            while state.is_chance_node():
                actions, weights = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(choose.choices(actions, weights)[0])
            if state.is_simultaneous_node():
                state.apply_actions([choose.choice(state.legal_actions(p)) for p in range(made.num_players())])
            else:
                state.apply_action(choose.choice(state.legal_actions()))
        held[0] = state
        return plies

    return play


def stepping(env: Any, rows: int, steps: int, warm: int = 0, td: Any = None) -> Play:
    """Random legal play of an env with our interface, which TorchRL's have too; from ``td``, or from a reset."""
    held = [env.reset() if td is None else td]

    def play(count: int = steps) -> int:
        td = held[0]
        for _ in range(count):
            _, td = env.step_and_maybe_reset(env.rand_action(td))
        held[0] = td
        return count * rows

    if warm:
        play(warm)
    return play


def ours(name: str, rows: int, plies: int) -> Play:
    """Random play of our game through the env, as ``make`` makes it; some plies away from the beginning."""
    from marlenv.registration import make

    game, options, _ = PEERS[name]
    return stepping(make(game, num_envs=rows, seed=0, **options), rows, max(1, plies // rows), warm=20)


def rolling(name: str, rows: int, plies: int) -> Play:
    """The same by rollouts with random actions, whose data are all kept."""
    from marlenv.registration import make

    game, options, _ = PEERS[name]
    env: Any = make(game, num_envs=rows, seed=0, **options)
    times = max(1, plies // (rows * STEPS))

    def play() -> int:
        for _ in range(times):
            env.rollout(STEPS, break_when_any_done=False)
        return times * rows * STEPS

    env.rollout(STEPS, break_when_any_done=False)
    return play


def peer_figures(name: str, rounds: int, *, work: int = WORK, peers_work: int = PEERS_WORK) -> list[Figure]:
    """One game of :data:`PEERS` at 4,096 and at 64 rows, by steps and by rollouts, beside OpenSpiel's."""
    ways, sides = {"": ours, f", rollout({STEPS})": rolling}, {}
    for way, made in ways.items():
        for rows, plies in ((ROWS, work), (FEW, work // 16)):
            sides[f"{name} B={rows}{way}"] = made(name, rows, plies)
    got = interleaved({**sides, "OpenSpiel": spiel(PEERS[name][2], peers_work)}, rounds)
    return [Figure(what, got[what], got["OpenSpiel"], "OpenSpiel") for what in sides]
