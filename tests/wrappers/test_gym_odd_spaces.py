"""Spaces that are seldom seen in gymnasium's envs: actions of one part, other dtypes, and observations of nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from marlenv import GymWrapper, PettingZooWrapper
from marlenv.errors import IllegalAction, KeyCollision, SpecError, Unsupported

pytestmark = pytest.mark.sim
SEEN, TWO = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)


class Takes(gymnasium.Env[Any, Any]):
    """Keeps what it is told, and complains where it is none of its actions; ends with its third step."""

    def __init__(self, acts: Any = TWO, sees: Any = SEEN) -> None:
        self.action_space, self.observation_space, self.told = acts, sees, []

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.told.append(action)
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps == 3, False, {}


ONE_PART: dict[str, tuple[Any, Any, Callable[[Any], Any]]] = {
    "a dict": (spaces.Dict(gear=spaces.Discrete(3)), "gear", lambda told: told["gear"]),
    "a tuple": (spaces.Tuple([spaces.Discrete(3)]), "0", lambda told: told[0]),
    "a dict in a dict": (spaces.Dict(car=spaces.Dict(at=spaces.Discrete(3))), ("car", "at"), lambda a: a["car"]["at"]),
    "numbers": (spaces.Dict(push=spaces.Box(-1, 1, (2,))), "push", lambda told: told["push"].tolist()),
}  # fmt: skip


@pytest.mark.parametrize("kind", ONE_PART)
@pytest.mark.parametrize("rows", [None, 2])
def test_an_action_of_one_part_reaches_the_simulator(kind: str, rows: int | None) -> None:
    space, key, part = ONE_PART[kind]
    envs = [Takes(space) for _ in range(rows or 1)]
    sim = envs[0] if rows is None else gymnasium.vector.SyncVectorEnv([lambda env=env: env for env in envs])
    env = GymWrapper(sim, categorical_action_encoding=True)
    env.set_seed(0)
    data = env.rollout(3, break_when_any_done=False)
    for i, one in enumerate(envs):
        assert [part(told) for told in one.told] == (data[key] if rows is None else data[key][i]).tolist()


@pytest.mark.parametrize("shape", [1, 3, (2, 3)])
@pytest.mark.parametrize("rows", [None, 2])
def test_bits_are_zeros_and_ones_however_many_they_are(shape: Any, rows: int | None) -> None:
    """As many choices as there are bits had been taken for legal: none but 0 of one bit, 2 of three."""
    envs = [Takes(spaces.MultiBinary(shape)) for _ in range(rows or 1)]
    env = GymWrapper(envs[0] if rows is None else gymnasium.vector.SyncVectorEnv([lambda e=e: e for e in envs]))
    td = env.reset()
    ones = env.action_spec.one()
    env.step(td.set("action", ones))
    assert all(np.asarray(one.told).tolist() == [np.ones(shape).tolist()] for one in envs)
    with pytest.raises(IllegalAction, match="actions are numbers from 0 to (below 2|1), got"):
        env.step(env.reset().set("action", ones + 1))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize("start", [0, 2])
@pytest.mark.parametrize("rows", [None, 2])
def test_choices_have_the_dtype_of_their_space(dtype: Any, start: int, rows: int | None) -> None:
    envs = [Takes(spaces.Discrete(4, start=start, dtype=dtype)) for _ in range(rows or 1)]  # type: ignore[arg-type]
    sim = envs[0] if rows is None else gymnasium.vector.SyncVectorEnv([lambda env=env: env for env in envs])
    data = GymWrapper(sim, categorical_action_encoding=True).rollout(3, break_when_any_done=False)
    for i, one in enumerate(envs):
        actions = (data["action"] if rows is None else data["action"][i]).tolist()
        assert one.told == [action + start for action in actions]


def test_choices_of_an_agent_have_the_dtype_of_their_space() -> None:
    from pettingzoo import ParallelEnv

    class Game(ParallelEnv[str, Any, Any]):
        metadata = {"name": "game"}  # noqa: RUF012
        possible_agents = ["a_0", "a_1"]  # noqa: RUF012
        observation_space = lambda self, agent: SEEN  # noqa: E731
        action_space = lambda self, agent: spaces.Discrete(4, dtype=np.int32)  # type: ignore[arg-type]  # noqa: E731

        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            self.agents = list(self.possible_agents)
            return {a: np.zeros(2, np.float32) for a in self.agents}, {a: {} for a in self.agents}

        def step(self, actions: Any) -> Any:
            assert all(self.action_space(a).contains(action) for a, action in actions.items()), actions
            told.append([int(action) for action in actions.values()])
            seen, infos = self.reset()
            return seen, *(dict.fromkeys(seen, value) for value in (0.0, False, False)), infos

    told: list[Any] = []
    data = PettingZooWrapper(Game()).rollout(5)
    assert told == data["a", "action"].tolist()


NOTHING = {"box": spaces.Box(0, 1, (0,)), "dict": spaces.Dict({}), "tuple": spaces.Tuple([])}
SOME = [pytest.param(space, id=name, marks=[pytest.mark.slow] * (name != "box")) for name, space in NOTHING.items()]


@pytest.mark.slow
@pytest.mark.parametrize("sees", SOME)
def test_processes_that_see_nothing_and_start_anew_in_the_next_step_are_refused(sees: Any) -> None:
    made = {mode: gymnasium.vector.AsyncVectorEnv([partial(Takes, sees=sees)], autoreset_mode=mode) for mode in
            (gymnasium.vector.AutoresetMode.NEXT_STEP, gymnasium.vector.AutoresetMode.SAME_STEP)}  # fmt: skip
    try:
        refused, taken = made.values()
        with pytest.raises(
            Unsupported, match=r"^GymWrapper: with observations that hold nothing, AsyncVectorEnv reset"
        ):
            GymWrapper(refused)
        done = GymWrapper(taken).rollout(9, break_when_any_done=False)["next", "done"]
        assert done[0].flatten().int().tolist() == [0, 0, 1] * 3
    finally:
        for env in made.values():
            env.close()


def test_numbers_that_torch_does_not_have_are_named() -> None:
    space = spaces.Box(0, 2**64 - 1, (2,), dtype=np.uint64)
    with pytest.raises(
        SpecError, match=r"numbers up to 9223372036854775807, got a Box of uint64 up to 1844674407370955"
    ):
        GymWrapper(Takes(sees=space))
    fits = spaces.Box(0, 2**63 - 1, (2,), dtype=np.uint64)
    assert int(GymWrapper(Takes(sees=fits)).observation_spec["observation"].high.max()) == 2**63 - 1


def test_an_observation_called_next_is_refused() -> None:
    with pytest.raises(KeyCollision, match=r"^GymWrapper: the observation 'next' has the name of the data of the next"):
        GymWrapper(Takes(sees=spaces.Dict(next=SEEN, other=SEEN)))


def test_vectors_of_one_class_of_envs_may_start_anew_in_different_ways() -> None:
    vector, modes = gymnasium.vector, ("NEXT_STEP", "SAME_STEP", "DISABLED")
    made = [vector.SyncVectorEnv([Takes] * 2, autoreset_mode=vector.AutoresetMode[mode]) for mode in modes]
    for one in made:  # whose metadata is that of the last
        env = GymWrapper(one, categorical_action_encoding=True)
        data = env.rollout(9, break_when_any_done=False)
        assert data["next", "done"][0].flatten().int().tolist() == [0, 0, 1] * 3
        assert len(one.envs[0].told) == 9
