"""Steps per second of random legal play with auto-reset on the functional interface, beside OpenSpiel in the same run.

    python tests/games/chess/bench_chess.py [--seconds 1] [--rounds 5] [--batch 1 64 1024 4096] [--compile]

One thread, seconds of processor time (other people's load does not count). A step is: draw a legal action, play it,
begin anew where the game is over; ``mask`` also writes the legal actions as a bool mask to a buffer. ``functional``
makes new tensors every step, ``out`` writes to two states in turn. OpenSpiel plays one game after another from Python,
with ``legal_actions`` and ``apply_action``.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable

import pyspiel
import torch

from marlenv.games.chess import Chess, State
from marlenv.optional import has
from marlenv.rng import RowRNG

Step = Callable[[], int]


def openspiel() -> Step:
    game = pyspiel.load_game("chess")
    choose = random.Random(0)
    state = game.new_initial_state()

    def step() -> int:
        nonlocal state
        for _ in range(50):
            if state.is_terminal():
                state = game.new_initial_state()
            state.apply_action(choose.choice(state.legal_actions()))
        return 50

    return step


def ours(path: str, rows: int, *, out: bool, mask: bool) -> Step:
    rules = Chess(path=path)
    fresh = rules.start(torch.Size())
    rng = RowRNG(0, [rows])
    state = rules.start(torch.Size([rows]))
    spare = rules.start(torch.Size([rows])) if out else None
    buffer = torch.empty(rows, 4672, dtype=torch.bool)
    for _ in range(40):  # away from the beginning
        state = rules.play(state, rules.draw(state, rng))

    def step() -> int:
        nonlocal state, spare
        after = rules.play(state, rules.draw(state, rng), out=spare)
        renewed = rules.restart(after, rules.over(after), fresh, out=after if out else None)
        state, spare = renewed, state if out else None
        if mask:
            rules.legal(state, out=buffer)
        return rows

    return step


def compiled(rows: int) -> Step:
    rules = Chess(path="torch")
    fresh = rules.start(torch.Size())

    def step_fn(state: State, bits: torch.Tensor) -> State:
        after = rules.play(state, rules.sample(state, bits))
        return rules.restart(after, rules.over(after), fresh)

    fast = torch.compile(step_fn, fullgraph=True, dynamic=False)
    state, rng = rules.start(torch.Size([rows])), RowRNG(0, [rows])

    def step() -> int:
        nonlocal state
        state = fast(state, rng.bits())
        return rows

    return step


def rate(step: Step, seconds: float) -> float:
    """Steps per second of one round, by the time that this process was given."""
    count, start = 0, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        count += step()
    return count / spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 64, 1024, 4096])
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    players: dict[str, Step] = {"OpenSpiel": openspiel()}
    for rows in args.batch:
        if has("numba"):
            players[f"numba B={rows} functional"] = ours("numba", rows, out=False, mask=False)
            players[f"numba B={rows} out"] = ours("numba", rows, out=True, mask=False)
            players[f"numba B={rows} out+mask"] = ours("numba", rows, out=True, mask=True)
        players[f"torch eager B={rows} functional"] = ours("torch", rows, out=False, mask=False)
        if args.compile:
            players[f"torch compiled B={rows} functional"] = compiled(rows)
    for step in players.values():
        step()
    rates: dict[str, list[float]] = {name: [] for name in players}
    for _ in range(args.rounds):  # interleaved: a slow minute of the machine hits all
        for name, step in players.items():
            rates[name].append(rate(step, args.seconds))
    peer = rates["OpenSpiel"]
    print(f"{'':34}{'steps/s':>12}{'x OpenSpiel':>13}   (medians of {args.rounds} rounds of {args.seconds} s)")
    for name, values in rates.items():
        ratio = statistics.median(a / b for a, b in zip(values, peer, strict=True))
        print(f"{name:34}{statistics.median(values):12,.0f}{ratio:13.1f}")


if __name__ == "__main__":
    main()
