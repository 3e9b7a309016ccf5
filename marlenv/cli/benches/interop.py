"""What adapters cost: a step of our env, and the same step through other libraries' interfaces.

One env on both sides, in machine code, rows that end start anew, all actions are zero. Both sides play once before they
are timed, in which the code is compiled and its first use checked. Below "marlenv" is the step through the adapter,
below "peer" the raw one; libraries that are not installed are left out, with a line that says so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from marlenv.cli.benches.timing import Figure, chosen, interleaved
from marlenv.errors import MissingExtra
from marlenv.interop import (
    to_alf,
    to_gymnasium,
    to_gymnasium_vector,
    to_pettingzoo_aec,
    to_pettingzoo_parallel,
    to_pufferlib,
    to_pymarl,
    to_rllib,
    to_sb3_vec_env,
    to_torchrl,
)
from marlenv.registration import make

ROWS, STEPS = 32, 100
Play = Callable[[], int]


def scenario(rows: int, agents: int = 3, **options: Any) -> Any:
    """Simple spread, or navigation of one agent, in machine code, which ``make`` gives where it is at hand."""
    name = "simple_spread" if agents == 3 else "navigation"
    own = {} if agents == 3 else {"n_agents": agents}
    return make(name, num_envs=rows, seed=0, max_steps=50, compile="aot", **own, **options)


def raw(env: Any) -> Play:
    """Our env by itself."""
    zero = {key: env.full_action_spec[key].zero() for key in env.action_keys}

    def play() -> int:
        td = env.reset()
        for _ in range(STEPS):
            for key, action in zero.items():
                td.set(key, action)
            td = env.step_and_maybe_reset(td)[1]
        return STEPS

    return play


def vector(env: Any, actions: Any) -> Play:
    """What starts rows anew by itself."""

    def play() -> int:
        env.reset()
        for _ in range(STEPS):
            env.step(actions)
        return STEPS

    return play


def single(env: Any, action: Callable[[], Any], over: Callable[[Any], bool]) -> Play:
    """What is reset when its episode is over."""

    def play() -> int:
        env.reset()
        for _ in range(STEPS):
            if over(env.step(action())):
                env.reset()
        return STEPS

    return play


def by_agent(env: Any) -> Play:
    """An env whose actions are dicts by agent."""
    zero = {agent: np.zeros_like(space.sample()) for agent, space in _spaces(env).items()}
    return single(env, lambda: {agent: zero[agent] for agent in env.agents}, lambda out: not env.agents)


def _spaces(env: Any) -> dict[str, Any]:
    found = getattr(env, "action_spaces", None)
    return found or {agent: env.action_space(agent) for agent in env.possible_agents}


def in_turn(env: Any) -> Play:
    """An env whose agents act one after the other; a step is one of all agents."""
    zero = {agent: np.zeros_like(env.action_space(agent).sample()) for agent in env.possible_agents}

    def play() -> int:
        env.reset()
        for _ in range(STEPS):
            for _ in env.possible_agents:
                if not env.agents or any(env.truncations.values()):
                    env.reset()
                env.step(zero[env.agent_selection])
        return STEPS

    return play


CASES: dict[str, tuple[Callable[[], Any], Callable[[Any], Play]]] = {
    f"to_torchrl, {ROWS} rows": (lambda: scenario(ROWS), lambda env: raw(to_torchrl(env))),
    f"to_gymnasium_vector, {ROWS} rows": (
        lambda: scenario(ROWS),
        lambda env: vector(to_gymnasium_vector(env, "SAME_STEP"), np.zeros((ROWS, 3, 2), np.float32)),
    ),
    f"to_sb3_vec_env, {ROWS} rows": (
        lambda: scenario(ROWS),
        lambda env: vector(to_sb3_vec_env(env), np.zeros((ROWS * 3, 2), np.float32)),
    ),
    f"to_pufferlib, {ROWS} rows": (
        lambda: scenario(ROWS),
        lambda env: vector(to_pufferlib(env), np.zeros((ROWS * 3, 2), np.float32)),
    ),
    f"to_alf, {ROWS} rows": (lambda: scenario(ROWS), lambda env: vector(to_alf(env), torch.zeros(ROWS, 3, 2))),
    "to_gymnasium": (
        lambda: scenario(1, 1),
        lambda env: single(to_gymnasium(env), lambda: np.zeros(2, np.float32), lambda out: out[2] or out[3]),
    ),
    "to_pettingzoo_parallel": (lambda: scenario(1), lambda env: by_agent(to_pettingzoo_parallel(env))),
    "to_pettingzoo_aec": (lambda: scenario(1), lambda env: in_turn(to_pettingzoo_aec(env))),
    "to_rllib": (lambda: scenario(1), lambda env: by_agent(to_rllib(env))),
    "to_pymarl": (
        lambda: scenario(1, continuous_actions=False),
        lambda env: single(to_pymarl(env), lambda: [0, 0, 0], lambda out: bool(out[1])),
    ),
}


def measure(rounds: int, only: str = "") -> list[Figure]:
    """Times all adapters whose name holds ``only``, each beside the raw env."""
    figures = []
    for what in chosen("interop", CASES, only):
        build, adapt = CASES[what]
        try:
            sides = {"adapter": adapt(build()), "raw": raw(build())}
        except MissingExtra as error:
            print(f"{what} is left out: {error}", file=sys.stderr)
            continue
        got = interleaved(sides, rounds)
        figures.append(Figure(what, got["adapter"], got["raw"], "raw", "us/step"))
    return figures
