"""What wrappers add to a step of their simulator: ours and TorchRL's around the same simulators, with the same actions.

The clock of both sides stands still while the simulator steps or resets, so that what is left is the wrapper and what
it reads besides. Episodes that end are reset.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from marlenv.cli.benches.timing import Figure, chosen, interleaved
from marlenv.optional import need
from marlenv.wrappers.pettingzoo import PettingZooWrapper

WHO = "marlenv bench wrappers"
MOVES = (0, 1, 2, 3, 4, 5, 6)  # of tic-tac-toe: the first player wins with the last one
SPIEL = {"tic_tac_toe": MOVES, "kuhn_poker": (0, 0), "leduc_poker": (1, 1, 1, 1), "connect_four": (0, 1, 0, 1, 0, 1, 0)}
TOGETHER: dict[str, tuple[str, int, dict[str, Any]]] = {  # version, steps, options
    "simple_spread": ("v3", 200, {"max_cycles": 50}),
    "simple_tag": ("v3", 200, {"max_cycles": 50}),
    "rps": ("v2", 200, {"max_cycles": 50}),
    "pistonball": ("v6", 20, {"max_cycles": 100}),
    "pursuit": ("v5", 50, {}),
    "multiwalker": ("v9", 50, {}),
}
ROWS = 32  # of VMAS

OURS: Any = PettingZooWrapper
Play = Callable[[], int]
Make = Callable[["Clock"], dict[str, Play]]


class Clock:
    """Stands still while a simulator is at work."""

    def __init__(self) -> None:
        self.inside, self.steps = 0.0, 0
        self._undone: list[Callable[[], None]] = []

    def watch(self, owner: Any) -> Any:
        """Counts the time that ``step`` and ``reset`` of a simulator take, whoever calls them; gives the simulator
        back.
        """
        for name in ("step", "reset"):
            self.count(owner, name)
        return owner

    def count(self, owner: Any, name: str) -> None:
        """Counts the time of one method of an object, or of all objects of a class."""
        method = getattr(owner, name)

        @functools.wraps(method)
        def counted(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                self.inside += time.perf_counter() - start
                self.steps += name != "reset"

        self._undone.append(lambda: setattr(owner, name, method))
        setattr(owner, name, counted)

    def release(self) -> None:
        """Leaves what was watched as it was."""
        while self._undone:
            self._undone.pop()()

    def __call__(self) -> float:
        return time.perf_counter() - self.inside


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


def turns(clock: Clock, steps: int = 350) -> dict[str, Play]:
    """Tic-tac-toe over PettingZoo's turn-based interface."""
    from marlenv.wrappers.pettingzoo.tasks import make_task

    one, other = (clock.watch(make_task("tictactoe_v3", False, {})) for _ in range(2))
    theirs = peer("pettingzoo", "PettingZooWrapper")(other, use_mask=True)
    return {"marlenv": stepping(OURS(one), MOVES, steps), "torchrl": stepping(theirs, MOVES, steps)}


def together(clock: Clock, task: str, steps: int, options: dict[str, Any]) -> dict[str, Play]:
    """A task over PettingZoo's parallel interface; nobody does anything."""
    from marlenv.wrappers.pettingzoo.tasks import make_task

    one, other = (clock.watch(make_task(task, True, options)) for _ in range(2))
    theirs = peer("pettingzoo", "PettingZooWrapper")(other)
    return {"marlenv": stepping(OURS(one), [0], steps), "torchrl": stepping(theirs, [0], steps)}


def spiel(clock: Clock, game: str, moves: Sequence[int], steps: int = 700) -> dict[str, Play]:
    """A game of OpenSpiel, whose states are new every time it is played: the clock is at their class."""
    from marlenv.wrappers.open_spiel import OpenSpielEnv

    clock.count(need("pyspiel", WHO).State, "apply_action")
    theirs = peer("openspiel", "OpenSpielEnv")(game, categorical_actions=True)
    ours = OpenSpielEnv(game, categorical_actions=True)
    return {"marlenv": stepping(ours, moves, steps), "torchrl": stepping(theirs, moves, steps)}


def vmas(clock: Clock, steps: int = 50) -> dict[str, Play]:
    """Balance of VMAS; without resets, which cost TorchRL's wrapper much more."""
    from marlenv.wrappers.vmas import VmasWrapper

    one, other = (clock.watch(need("vmas", WHO).make_env("balance", num_envs=ROWS, seed=0)) for _ in range(2))
    ours, theirs = VmasWrapper(one), peer("vmas", "VmasWrapper")(other)
    return {name: stepping(env, [0], steps, resets=False) for name, env in (("marlenv", ours), ("torchrl", theirs))}


def gym(clock: Clock, steps: int = 300) -> dict[str, Play]:
    """Cart-pole of Gymnasium."""
    from marlenv.wrappers.gym import GymWrapper

    one, other = (clock.watch(need("gymnasium", WHO).make("CartPole-v1")) for _ in range(2))
    theirs = peer("gym", "GymWrapper")(other, categorical_action_encoding=True)
    ours = GymWrapper(one, categorical_action_encoding=True)
    return {"marlenv": stepping(ours, [0, 1], steps), "torchrl": stepping(theirs, [0, 1], steps)}


CASES: dict[str, Make] = {
    "Gymnasium CartPole-v1": gym,
    "PettingZoo tictactoe, turns": turns,
    **{
        f"PettingZoo {task}, parallel": partial(together, task=f"{task}_{number}", steps=steps, options=options)
        for task, (number, steps, options) in TOGETHER.items()
    },
    **{f"OpenSpiel {game}": partial(spiel, game=game, moves=moves) for game, moves in SPIEL.items()},
    f"VMAS balance, {ROWS} rows": vmas,
}


def measure(rounds: int, only: str = "") -> list[Figure]:
    """Times all cases whose name holds ``only``."""
    figures = []
    for what in chosen("wrappers", CASES, only):
        clock = Clock()
        try:
            sides = CASES[what](clock)
            got = interleaved(sides, rounds, dict.fromkeys(sides, clock))
        finally:
            clock.release()
        alone = clock.inside / clock.steps * 1e6
        figures.append(
            Figure(f"{what} (itself {alone:.0f})", got["marlenv"], got["torchrl"], "torchrl", "us/step more")
        )
    return figures
