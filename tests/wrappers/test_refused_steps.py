"""A step that a simulator refuses is no step: the time limit cuts off after as many others as without it. And a reset
that it refuses uses up no seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from test_bad_simulators import Counting
from test_batched_simulators import ROWS, Batch
from test_pettingzoo_side_by_side import Quiet
from test_wrapper_authors import Mine
from twin_envs import assert_same_data

from marlenv import GymWrapper, OpenSpielEnv, PettingZooWrapper
from marlenv.errors import IllegalAction

pytestmark = pytest.mark.sim
LIMIT = 4


class Refuses(Exception):
    """What simulators of these tests raise."""


def refusing(base: Any, hook: str) -> Any:
    """A class of ``base`` whose simulator refuses to play while ``sulks`` is set."""

    def play(self: Any, *args: Any) -> Any:
        if self.sulks:
            raise Refuses
        return getattr(base, hook)(self, *args)

    return type("Sulking", (base,), {hook: play, "sulks": False})


class Sulky(Quiet):
    """A parallel env of PettingZoo that refuses, too."""

    sulks = False

    def step(self, actions: dict[str, Any]) -> Any:
        if self.sulks:
            raise Refuses
        return super().step(actions)


class OfMyOwn(PettingZooWrapper):
    """Not stepped the fast way, as the env's own class is."""


BATCHED = type("Endless", (Batch,), {"ends": {}})
ENVS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "parallel": lambda: (env := refusing(Mine, "sim_step")(max_steps=LIMIT), env),
    "turns": lambda: (env := refusing(Counting, "sim_play")(lambda n: {f"p_{n % 3}"}, max_steps=LIMIT), env),
    "batched": lambda: (env := refusing(BATCHED, "sim_step")(batch_size=[ROWS], max_steps=LIMIT), env),
    "pettingzoo": lambda: (PettingZooWrapper(sim := Sulky(), max_steps=LIMIT), sim),
    "pettingzoo, one's own": lambda: (OfMyOwn(sim := Sulky(), max_steps=LIMIT), sim),
}


@pytest.mark.parametrize("refused_at", [0, 2, LIMIT - 1])
@pytest.mark.parametrize("name", ENVS)
def test_a_refused_step_does_not_count(name: str, refused_at: int) -> None:
    env, sulks = ENVS[name]()
    td, cut = env.reset(), []
    for t in range(LIMIT):
        td = env.rand_action(td)
        for _ in range(2 if t == refused_at else 0):
            sulks.sulks = True
            with pytest.raises(Refuses):
                env.step(td.copy())
            sulks.sulks = False
        td = env.step_mdp(env.step(td))
        cut.append(bool(td["truncated"].all()))
        assert bool(td["truncated"].any()) == cut[-1]
    assert cut == [False] * (LIMIT - 1) + [True]


def test_an_illegal_move_of_open_spiel_does_not_count() -> None:
    env = OpenSpielEnv("tic_tac_toe", categorical_actions=True, max_steps=3)
    td, cut = env.reset(), []
    for move, legal in ((0, True), (0, False), (1, True), (2, True)):
        td["agents", "action"] = torch.tensor([move, move])
        if legal:
            td = env.step_mdp(env.step(td))
            cut.append(bool(td["truncated"]))
            continue
        with pytest.raises(IllegalAction, match="action 0 of agent 'player_1' is illegal"):
            env.step(td.copy())
    assert cut == [False, False, True]


class Grumpy(Quiet):
    """A parallel env of PettingZoo that refuses to begin."""

    grumbles = False

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if self.grumbles:
            raise Refuses
        return super().reset(seed, options)


class GrumpyGym(gymnasium.Env):
    """The same, of gymnasium."""

    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (3,)), gymnasium.spaces.Discrete(2)
    grumbles = False

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        if self.grumbles:
            raise Refuses
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), {}


def _rows_of(sim: Any) -> Any:
    return gymnasium.vector.SyncVectorEnv([lambda: sim, GrumpyGym])


BEGINS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "pettingzoo": lambda: (PettingZooWrapper(sim := Grumpy()), sim),
    "gym": lambda: (GymWrapper(sim := GrumpyGym()), sim),
    "vector": lambda: (GymWrapper(_rows_of(sim := GrumpyGym())), sim),
}


@pytest.mark.parametrize("told", [{}, {"options": {"wind": 1}}], ids=["plain", "options"])
@pytest.mark.parametrize("name", BEGINS)
def test_a_refused_reset_uses_up_no_seed(name: str, told: dict[str, Any]) -> None:
    """Whoever tries again gets the episode that was asked for."""
    firsts = []
    for refused in (False, True):
        env, sim = BEGINS[name]()
        env.reset()
        env.set_seed(7)
        if refused:
            sim.grumbles = True
            with pytest.raises(Refuses):
                env.reset(**told)
            sim.grumbles = False
        firsts.append([env.reset(**told), env.reset()] if name == "pettingzoo" else [env.reset(**told)])
    for one, other in zip(*firsts, strict=True):
        assert_same_data(one, other)
