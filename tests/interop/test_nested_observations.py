"""Observations, and actions, that are entries of entries, where one agent or every agent is an env of its own."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from marlenv import (
    GymWrapper,
    PettingZooWrapper,
    SerialEnv,
    to_gymnasium,
    to_gymnasium_vector,
    to_pufferlib,
    to_sb3_vec_env,
)

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")
pettingzoo = pytest.importorskip("pettingzoo", reason="needs PettingZoo: pip install -e '.[pettingzoo]'")
from gymnasium import spaces  # noqa: E402 -- where it is installed
from gymnasium.utils.env_checker import check_env  # noqa: E402

SB3 = "needs Stable-Baselines3: VENV=.venv tests/simulators.sh sb3"
PUFFER = "needs PufferLib: VENV=.venv tests/simulators.sh pufferlib"


class Clocks(pettingzoo.ParallelEnv):
    """Every agent sees its number, and how many steps there were; within entries of entries, or with a mask beside."""

    metadata: ClassVar[dict[str, Any]] = {"name": "clocks"}
    render_mode = None

    def __init__(self, count: int, masked: bool = False) -> None:
        self.possible_agents, self.masked = [f"clock_{i}" for i in range(count)], masked

    def observation_space(self, agent: str) -> Any:
        box = spaces.Box(0, 99, (2,), np.float32)
        if self.masked:
            return spaces.Dict(observation=box, action_mask=spaces.MultiBinary(3))
        return spaces.Dict(x=box, y=spaces.Dict(z=spaces.Discrete(40)))

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3)

    def _seen(self, there: list[str]) -> dict[str, Any]:
        seen = {a: np.array([self.possible_agents.index(a), self.steps], np.float32) for a in there}
        if self.masked:
            return {a: {"observation": box, "action_mask": np.ones(3, np.int8)} for a, box in seen.items()}
        return {a: {"x": box, "y": {"z": self.steps + 10 * int(box[0])}} for a, box in seen.items()}

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.steps, self.agents = 0, list(self.possible_agents)
        return self._seen(self.agents), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        there, self.steps = self.agents, self.steps + 1
        over = self.steps == 4
        self.agents = [] if over else there
        infos: dict[str, Any] = {agent: {} for agent in there}
        paid = {agent: float(actions[agent]) for agent in there}
        return self._seen(there), paid, dict.fromkeys(there, False), dict.fromkeys(there, over), infos


def clocks(count: int, rows: int | None = None, **options: Any) -> Any:
    if rows is None:
        return PettingZooWrapper(Clocks(count, **options))
    return SerialEnv(rows, lambda: PettingZooWrapper(Clocks(count, **options)))


def test_a_lone_agent_has_no_dimension_of_agents() -> None:
    env = to_gymnasium(clocks(1))
    check_env(env, skip_render_check=True)
    seen, _ = env.reset(seed=0)
    assert env.observation_space.contains(seen)
    assert env.step(2)[0]["x"].tolist() == [0, 1]


def test_a_lone_agent_of_many_rows_has_no_dimension_of_agents() -> None:
    env = to_gymnasium_vector(clocks(1, 3))
    seen, _ = env.reset(seed=0)
    assert env.observation_space.contains(seen)
    seen = env.step(np.array([0, 1, 2]))[0]
    assert env.observation_space.contains(seen)
    assert (seen["x"].tolist(), seen["y"]["z"].tolist()) == ([[0, 1]] * 3, [1] * 3)


@pytest.mark.slow
def test_every_agent_of_every_row_observes_its_own() -> None:
    """The only entry of what is observed beside the mask; it was given by row, and not by agent."""
    pytest.importorskip("stable_baselines3", reason=SB3)
    env = to_sb3_vec_env(clocks(2, 3, masked=True))
    seen = env.reset()
    assert seen["observation"].tolist() == [[0, 0], [1, 0]] * 3
    for _ in range(4):
        seen, paid, over, infos = env.step(np.arange(6) % 3)
    assert (paid.tolist(), over.all()) == ([0, 1, 2, 0, 1, 2], True)
    assert [info["terminal_observation"]["observation"].tolist() for info in infos] == [[0, 4], [1, 4]] * 3
    assert seen["observation"].tolist() == [[0, 0], [1, 0]] * 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_agent_of_every_row_observes_its_own_in_pufferlib() -> None:
    pytest.importorskip("pufferlib", reason=PUFFER)
    env = to_pufferlib(clocks(2, 3))
    env.reset(seed=0)
    env.step(np.arange(6) % 3)
    seen = env._fields
    assert seen["x"].tolist() == [[0, 1], [1, 1]] * 3
    assert seen["y"]["z"].ravel().tolist() == [1, 11] * 3


class Gripper(gymnasium.Env):
    """Takes a dict in a dict with one entry."""

    observation_space = spaces.Dict(place=spaces.Box(-9, 9, (2,), np.float32))
    action_space = spaces.Dict(arm=spaces.Dict(grip=spaces.Box(-1, 1, (3,), np.float32)))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps, self.place = 0, np.zeros(2, np.float32)
        return {"place": self.place}, {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.place = np.clip(self.place + action["arm"]["grip"][:2], -9, 9).astype(np.float32)
        return {"place": self.place}, float(action["arm"]["grip"][2]), self.steps == 5, False, {}


def test_an_action_may_be_an_entry_of_entries() -> None:
    """What is observed stands at the root; it was looked for beside the action."""
    env = to_gymnasium(GymWrapper(Gripper()))
    assert env.action_space == Gripper.action_space["arm"]["grip"]
    check_env(env, skip_render_check=True)
    env.reset(seed=0)
    seen, paid, *_ = env.step(np.array([0.5, -0.5, 0.25], np.float32))
    assert (seen["place"].tolist(), paid) == ([0.5, -0.5], 0.25)
    many = to_gymnasium_vector(SerialEnv(2, lambda: GymWrapper(Gripper())))
    many.reset()
    assert many.step(np.full((2, 3), 0.5, np.float32))[0]["place"].tolist() == [[0.5, 0.5]] * 2
