"""What a move of a small game of OpenSpiel and a step of gym's cost in Python calls, ours and what we call.

Of VMAS's and PettingZoo's steps, whose simulators take thousands, ours and tensordict's. No more than is written here.

A clock would measure the neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from marlenv import GymEnv, OpenSpielEnv, PettingZooEnv, VmasEnv
from marlenv.testing.counting import by_package, count_calls

pytestmark = pytest.mark.sim

MOVES = 40
MOST = {  # calls per move of a loop of step_and_maybe_reset, resets included
    "tic_tac_toe": 110,
    "kuhn_poker": 132,
    "leduc_poker": 123,
    "matrix_rps": 158,
    "goofspiel": 119,
    "pig": 106,
    "connect_four": 105,
}


POLE = 86
"""Calls per step of CartPole-v1, of which gymnasium's own are 6."""


OURS: dict[str, tuple[Callable[[], Any], int]] = {
    "vmas": (lambda: VmasEnv("balance", num_envs=8), 326),
    "simple_spread": (lambda: PettingZooEnv("simple_spread_v3"), 41),
    "simple_tag": (lambda: PettingZooEnv("simple_tag_v3"), 56),
    "tictactoe": (lambda: PettingZooEnv("tictactoe_v3", parallel=False, use_mask=True), 139),
}
"""The env, and the most calls per step in modules of marlenv and tensordict."""


def calls_per_move(name: str) -> float:
    return calls_of(OpenSpielEnv(name))


def calls_of(env: Any, *packages: str) -> float:
    """Calls per step, in some packages only if they are named."""
    env.set_seed(0)
    td = env.rand_action(env.reset())
    for _ in range(20):  # plans and caches are made on first use
        td = env.rand_action(env.step_and_maybe_reset(td)[1])
    total = 0
    for _ in range(MOVES):
        ready, found = td, []
        calls = count_calls(lambda: found.append(env.step_and_maybe_reset(ready)))  # noqa: B023
        total += sum(by_package(calls).get(name, 0) for name in packages) if packages else calls.total()
        td = env.rand_action(found[0][1])
    return total / MOVES


@pytest.mark.parametrize("name", MOST)
def test_a_move_takes_no_more_calls_than_stored(name: str) -> None:
    assert calls_per_move(name) <= MOST[name]


def test_a_call_more_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate works."""
    before, look = calls_per_move("tic_tac_toe"), OpenSpielEnv.sim_look
    one_more = lambda self, agent: look(self, agent)  # noqa: E731, PLW0108
    monkeypatch.setattr(OpenSpielEnv, "sim_look", one_more)
    assert calls_per_move("tic_tac_toe") > before + 1


def test_a_step_of_gym_takes_no_more_calls_than_stored() -> None:
    pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")
    assert calls_of(GymEnv("CartPole-v1", categorical_action_encoding=True)) <= POLE


@pytest.mark.parametrize("name", OURS)
def test_a_step_of_a_large_simulator_takes_no_more_of_our_calls_than_stored(name: str) -> None:
    make, most = OURS[name]
    assert calls_of(make(), "marlenv", "tensordict") <= most
