"""Agents that come after the reset, when nobody was there: the simulator is stepped, and the time limit holds."""

from __future__ import annotations

from typing import Any

import pytest
from gymnasium import spaces
from test_bad_simulators import Counting
from test_wrapper_authors import Mine, look
from zoo_parallel_game import ParallelGame
from zoo_turn_game import TurnGame

from marlenv import PettingZooWrapper
from marlenv.errors import GroupError
from marlenv.wrappers import AgentStep


class Late(Mine):
    """Both agents come with the second step, and end with the fourth."""

    comes, goes = 2, 4

    def sim_reset(self, seed: int | None) -> dict[str, AgentStep]:
        self._env.count, self._env.seen = 0, []
        return {}

    def sim_step(self, actions: dict[str, Any]) -> dict[str, AgentStep]:
        self._env.count += 1
        self._env.seen.append(sorted(actions))
        over = self._env.count == self.goes
        there = ["a_0", "a_1"] if self._env.count >= self.comes else []
        return {agent: look(reward=1.0, terminated=over) for agent in there}


@pytest.mark.parametrize("any_ends", [False, True])
def test_a_simulator_is_stepped_until_somebody_comes(any_ends: bool) -> None:
    env = Late(done_on_any=any_ends)
    data = env.rollout(9)
    assert env._env.seen == [[], [], ["a_0", "a_1"], ["a_0", "a_1"]]
    assert data["a", "alive"].tolist() == [[False] * 2] * 2 + [[True] * 2] * 2
    assert data["next", "a", "reward"].flatten(1).tolist() == [[0, 0], [1, 1], [1, 1], [1, 1]]
    assert data["next", "done"].flatten().tolist() == [False] * 3 + [True]
    assert data["next", "terminated"].flatten().tolist() == [False] * 3 + [True]
    env.step(env.rand_action(env.step_mdp(data[-1])))  # after the end, nothing is played
    assert len(env._env.seen) == 4


@pytest.mark.parametrize("frames", [1, 2])
@pytest.mark.parametrize("any_ends", [False, True])
def test_the_time_limit_holds_where_nobody_ever_comes(any_ends: bool, frames: int) -> None:
    env = type("Empty", (Late,), {"comes": 99})(max_steps=3, done_on_any=any_ends, frame_skip=frames)
    for _ in range(2):  # every episode anew
        data = env.rollout(9)
        assert data["next", "truncated"].flatten().tolist() == [False, False, True]
        assert data["next", "done"].flatten().tolist() == [False, False, True]
        assert not data["next", "terminated"].any()
        assert not data["next", "a", "done"].any()  # who was never there has not ended
    env.step(env.rand_action(env.step_mdp(data[-1])))
    assert env._env.seen == [[]] * (3 * frames)


class EmptyParallel(ParallelGame):
    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed, options)
        self.agents = []
        return {}, {}


class EmptyTurns(TurnGame):
    def reset(self, seed: int | None = None, options: Any = None) -> None:
        super().reset(seed, options)
        self.agents = []


@pytest.mark.parametrize("sim", [EmptyParallel, EmptyTurns])
def test_an_env_of_pettingzoo_that_begins_with_nobody_is_an_error(sim: Any) -> None:
    env = PettingZooWrapper(sim(), max_steps=4)
    with pytest.raises(GroupError, match=rf"^PettingZooWrapper\.reset: {sim.__name__} has no agents after its reset"):
        env.rollout(6)


def test_a_game_in_turns_that_begins_with_nobody_is_an_error() -> None:
    class Nobody(Counting):
        def _build_env(self) -> Any:
            return spaces.Discrete(3)

        def sim_agents(self) -> list[str]:
            return []

    with pytest.raises(GroupError, match=r"^Nobody\.reset: Discrete has no agents after its reset"):
        Nobody(lambda count: {"p_0"}).reset()
