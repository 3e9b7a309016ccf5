"""What a move of a small game of OpenSpiel and a step of gym's cost in Python calls, ours and what we call; no more
than is written here.

A clock would measure the neighbours.
"""

from __future__ import annotations

from typing import Any

import pytest

from marlenv import GymEnv, OpenSpielEnv
from marlenv.testing.counting import count_calls

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


def calls_per_move(name: str) -> float:
    return calls_of(OpenSpielEnv(name))


def calls_of(env: Any) -> float:
    env.set_seed(0)
    td = env.rand_action(env.reset())
    for _ in range(20):  # plans and caches are made on first use
        td = env.rand_action(env.step_and_maybe_reset(td)[1])
    total = 0
    for _ in range(MOVES):
        ready, found = td, []
        total += count_calls(lambda: found.append(env.step_and_maybe_reset(ready))).total()  # noqa: B023
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
