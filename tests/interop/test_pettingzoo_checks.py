"""PettingZoo's own checks, all of them, on our envs behind its interfaces: scenarios with one row, and games."""

from __future__ import annotations

import importlib
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from marlenv.scenarios.index import SCENARIOS
from sizes import some

import marlenv
from marlenv import PettingZooWrapper, to_pettingzoo_aec, to_pettingzoo_parallel

pytest.importorskip("pettingzoo", reason="needs PettingZoo: pip install -e '.[pettingzoo]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # PettingZoo recommends names, and boxes alone

GAMES: dict[str, dict[str, Any]] = {"tic_tac_toe": {}, "connect_four": {}, "chess": {"mask": "bool"}, "kuhn_poker": {}}
ALONE = {"opponent": "random", "seat": 1, "seed": 0}
OPTIONS: dict[str, dict[str, Any]] = {"predator_prey": {"birth": 0.0}}  # PettingZoo's agents do not come back
QUICK = ("simple_tag", "navigation")


@pytest.fixture
def checks() -> Any:
    """PettingZoo's own checks, which import games of its own under deprecated names."""
    import pettingzoo.test

    return pettingzoo.test


def scenario(adapt: Any, name: str, render_mode: str | None = None, max_cycles: int = 20) -> Any:
    """An env and actions of seeds: the checks draw actions, which else end an episode early now and then.

    The seeds are of first episodes that last as many steps as the checks want.
    """
    options = {"seed": 0, "compile": "none", **OPTIONS.get(name, {})}
    zoo = adapt(marlenv.make(name, max_steps=max_cycles, **options), render_mode)
    for seed, agent in enumerate(zoo.possible_agents, start=10):
        zoo.action_space(agent).seed(seed)
    return zoo


def game(adapt: Any, name: str, illegal: str, render_mode: str | None = None, **options: Any) -> Any:
    return adapt(marlenv.make(name, illegal=illegal, **GAMES[name], **options), render_mode)


@pytest.mark.parametrize(
    "name",
    [*sorted(QUICK), *some([one.name for one in SCENARIOS if one.name not in QUICK], 3, pytest.mark.slow)],
)
def test_scenarios(name: str, checks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # a window without a screen
    aec, parallel = (partial(scenario, adapt, name) for adapt in (to_pettingzoo_aec, to_pettingzoo_parallel))
    checks.api_test(aec(), 40)
    checks.parallel_api_test(parallel(), 40)
    checks.seed_test(aec, 10)
    checks.parallel_seed_test(parallel, 10)
    checks.max_cycles_test(SimpleNamespace(env=aec, parallel_env=parallel))
    checks.render_test(aec)
    checks.state_test(aec(), parallel(), 10)


@pytest.mark.parametrize("name", GAMES)
def test_games(name: str, checks: Any) -> None:
    """Checks that do not look at masks play games in which an illegal move loses."""
    aec, parallel = (partial(game, adapt, name, "raise") for adapt in (to_pettingzoo_aec, to_pettingzoo_parallel))
    checks.api_test(aec(), 60)
    checks.parallel_api_test(parallel(), 60)
    checks.seed_test(aec, 20)
    checks.render_test(lambda render_mode=None: aec(render_mode=render_mode))
    free, together = (partial(game, adapt, name, "lose") for adapt in (to_pettingzoo_aec, to_pettingzoo_parallel))
    checks.parallel_seed_test(together, 10)
    checks.state_test(free(), together(), 10)


@pytest.mark.parametrize("name", ["tictactoe_v3", "connect_four_v3"])
def test_pettingzoos_games_come_back_as_they_were(name: str, checks: Any) -> None:
    """Through our wrapper and out again: PettingZoo's check passes, and all that is seen and paid is the game's."""
    module = importlib.import_module(f"pettingzoo.classic.{name}")
    checks.api_test(to_pettingzoo_aec(PettingZooWrapper(module.env())), 60)
    theirs, ours = module.env(), to_pettingzoo_aec(PettingZooWrapper(module.env()))
    rng = np.random.default_rng(0)
    for env in (theirs, ours):
        env.reset(seed=5)
    while theirs.agents:
        assert ours.agent_selection == theirs.agent_selection
        seen, *paid = theirs.last()[:4]
        again, *got = ours.last()[:4]
        assert got == paid
        assert np.array_equal(again["observation"], seen["observation"])
        over = paid[1] or paid[2]
        if not over:
            assert np.array_equal(again["action_mask"], seen["action_mask"])
        move = None if over else int(rng.choice(np.flatnonzero(seen["action_mask"])))
        theirs.step(move)
        ours.step(move)
    assert not ours.agents


def test_a_game_with_an_opponent(checks: Any) -> None:
    aec, parallel = (
        partial(game, adapt, "tic_tac_toe", "raise", **ALONE) for adapt in (to_pettingzoo_aec, to_pettingzoo_parallel)
    )
    checks.api_test(aec(), 60)
    checks.parallel_api_test(parallel(), 60)
    checks.seed_test(aec, 20)


def test_the_check_of_states_can_fail(checks: Any) -> None:
    """A state that is outside of its space is found."""
    env = game(to_pettingzoo_aec, "tic_tac_toe", "lose")
    whole = env.state
    env.state = lambda: whole()[:-1]
    with pytest.raises(AssertionError, match="outside of it's state space"):
        checks.state_test(env, env, 3)


@pytest.mark.parametrize("name", GAMES)
def test_boards_are_shown_by_both_interfaces(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    env = marlenv.make(name, **GAMES[name])
    board = env.rules.show(env.read(env.reset()))
    for adapt in (to_pettingzoo_aec, to_pettingzoo_parallel):
        for mode in ("ansi", "human", None):
            zoo = game(adapt, name, "raise", mode)
            zoo.reset()
            assert zoo.render() == (board if mode == "ansi" else None) or name == "kuhn_poker"
            assert bool(capsys.readouterr().out) is (mode == "human")
