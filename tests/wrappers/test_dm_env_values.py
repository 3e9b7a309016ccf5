"""What dm_env's envs observe and pay is what their specs say, or an error that names it; actions are what the env's own
spec takes, as its ``validate`` says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

dm_env = pytest.importorskip("dm_env")

from dm_env.specs import Array, BoundedArray, DiscreteArray, StringArray  # noqa: E402

from marlenv import DMControlWrapper  # noqa: E402
from marlenv.errors import DtypeError, KeyMissing, MarlenvError, ShapeError, SpecTypeError  # noqa: E402
from marlenv.wrappers import DMTeamsWrapper  # noqa: E402

pytestmark = pytest.mark.sim


class Task:
    """Shows one value, and takes actions that its spec takes."""

    def __init__(self, seen: Any, value: Any, acts: Any = None, pays: Any = None, reward: Any = 1.0) -> None:
        self.seen, self.value, self.reward, self.played = seen, value, reward, []
        self.acts = BoundedArray((2,), np.float64, -1, 1) if acts is None else acts
        self.pays = Array((), np.float64) if pays is None else pays

    def observation_spec(self) -> Any:
        return self.seen

    def action_spec(self) -> Any:
        return self.acts

    def reward_spec(self) -> Any:
        return self.pays

    def reset(self) -> Any:
        return dm_env.restart(self.value)

    def step(self, action: Any) -> Any:
        self.played.append(self.acts.validate(action))
        return dm_env.transition(self.reward, self.value)


class Team(Task):
    """Two of them at once."""

    def observation_spec(self) -> Any:
        return [self.seen] * 2

    def action_spec(self) -> Any:
        return [self.acts] * 2

    def reward_spec(self) -> Any:
        return [self.pays] * 2

    def reset(self) -> Any:
        return dm_env.restart([self.value] * 2)

    def step(self, action: Any) -> Any:
        self.played += [self.acts.validate(one) for one in action]
        return dm_env.transition([self.reward] * 2, [self.value] * 2)


X = Array((2,), np.float32)
WRONG: dict[str, tuple[Any, Any, type[MarlenvError], str]] = {
    "another shape": (Array((2, 3), np.float32), np.zeros((3, 2), np.float32), ShapeError, r"\[3, 2\].*\[2, 3\]"),
    "another size": (X, np.zeros(3), ShapeError, r"\[3\].*\[2\]"),
    "nothing": (Array((), np.float32), None, DtypeError, "expected numbers, got"),
    "fractions": (Array((2,), np.int32), np.array([0.5, 2]), DtypeError, r"whole numbers .* got \[0.5\]"),
    "no numbers": (Array((2,), np.int64), np.array([np.nan, 0]), DtypeError, r"whole numbers .* got \[nan\]"),
    "too large": (Array((2,), np.uint8), np.array([300, -1]), DtypeError, r"0\.\.255.*got -1\.\.300"),
    "no flags": (Array((2,), bool), np.array([3, 0]), DtypeError, r"0 or 1 .* got \[3\]"),
    "complex": (X, np.array([1j, 0]), DtypeError, "expected numbers, got"),
    "texts": (X, np.array(["1", "2"]), DtypeError, "expected numbers, got"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_a_spec_does_not_hold_is_an_error(case: str) -> None:
    seen, value, error, words = WRONG[case]
    with pytest.raises(error, match=rf"^DMControlWrapper: observation 'x': .*{words}"):
        DMControlWrapper(Task({"x": seen}, {"x": value})).reset()


def test_a_missing_entry_is_an_error() -> None:
    with pytest.raises(KeyMissing, match="^DMControlWrapper: the simulator gave no observation 'y'"):
        DMControlWrapper(Task({"x": X, "y": X}, {"x": np.zeros(2)})).reset()


UNKNOWN: dict[str, tuple[dict[str, Any], str]] = {
    "texts": ({"seen": {"x": X, "s": StringArray(())}}, "observation 's'"),
    "nested": ({"seen": {"x": {"y": X}}}, "observation 'x'"),
    "a tuple": ({"seen": (X, X)}, "observation 'observation'"),
    "actions": ({"seen": X, "acts": {"a": X}}, "the action"),
    "rewards": ({"seen": X, "pays": {"a": X}}, "the reward"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_a_spec_that_is_no_array_of_numbers_is_refused_by_name(case: str) -> None:
    specs, what = UNKNOWN[case]
    with pytest.raises(SpecTypeError, match=f"^DMControlWrapper: {what}: expected a dm_env array of numbers"):
        DMControlWrapper(Task(value=np.zeros(2), **specs))
    with pytest.raises(SpecTypeError, match=f"^DMTeamsWrapper: agent 'agent_0': {what}: expected a dm_env array"):
        DMTeamsWrapper(Team(value=np.zeros(2), **specs))


def test_a_reward_that_its_spec_does_not_hold_is_an_error() -> None:
    env = DMControlWrapper(Task(X, np.zeros(2, np.float32), pays=Array((), np.int64), reward=0.5))
    with pytest.raises(DtypeError, match=r"^DMControlWrapper\.step: the reward: .* whole numbers .* got \[0.5\]"):
        env.rollout(1)
    env._env.reward = np.int32(3)
    assert env.rollout(1)["next", "reward"].tolist() == [[3]]


HELD = {  # spec, value -> what is in the data
    "a number": (Array((), np.float32), 3, [3.0]),
    "one in brackets": (Array((), np.float32), np.array([3.0]), [3.0]),
    "unsigned": (Array((2,), np.uint16), np.array([65535, 1], np.uint16), [65535, 1]),
    "a list": (X, [1, 2], [1.0, 2.0]),
    "a wider dtype": (X, np.array([0.5, 2]), [0.5, 2.0]),
    "a choice": (DiscreteArray(3), np.array(2), [2]),
}


@pytest.mark.parametrize("case", HELD)
def test_what_a_spec_holds_is_read_as_it_is(case: str) -> None:
    seen, value, wanted = HELD[case]
    env = DMControlWrapper(Task(seen, value))
    data = env.reset()
    assert data["observation"].tolist() == wanted
    assert env.observation_spec.is_in(data.select("observation"))


ACTS = {
    "choices": DiscreteArray(3),
    "choices of int64": DiscreteArray(3, dtype=np.int64),
    "a number": BoundedArray((), np.float64, -1, 1),
    "float32": BoundedArray((2,), np.float32, -1, 1),
    "unsigned": BoundedArray((2,), np.uint16, 0, 5),
    "a matrix": BoundedArray((2, 1), np.int8, 0, 5),
}


@pytest.mark.parametrize("acts", ACTS)
@pytest.mark.parametrize("categorical", [True, False])
def test_actions_are_those_that_the_env_takes(acts: str, categorical: bool) -> None:
    task = Task(X, np.zeros(2, np.float32), ACTS[acts])
    env = DMControlWrapper(task, categorical_action_encoding=categorical)
    told = env.rollout(3)["action"]
    one_hot = acts.startswith("choices") and not categorical
    for action, played in zip(told, task.played, strict=True):
        wanted = action.int().argmax().numpy() if one_hot else action.numpy()
        np.testing.assert_array_equal(wanted.reshape(played.shape), played)


@pytest.mark.parametrize("acts", ACTS)
def test_actions_of_a_team_are_those_that_the_env_takes(acts: str) -> None:
    team = Team(X, np.zeros(2, np.float32), ACTS[acts])
    told = DMTeamsWrapper(team).rollout(3)["agents", "action"].flatten(0, 1)
    for action, played in zip(told, team.played, strict=True):
        np.testing.assert_array_equal(action.numpy().reshape(played.shape), played)
