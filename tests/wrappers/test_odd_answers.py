"""Rewards, flags and observations that simulators should not give: an error that names them, and alone as in a pool."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from test_bad_simulators import Counting
from test_pettingzoo_side_by_side import Quiet
from zoo_turn_game import TurnGame

from marlenv import Categorical, Composite, GymWrapper, PettingZooWrapper, SerialEnv, Unbounded
from marlenv.errors import DtypeError, KeyMissing, ShapeError, SpecError, SpecTypeError
from marlenv.wrappers import AgentSpecs, AgentStep, ParallelSimEnv

BOX, NAN = spaces.Box(-1, 1, (1,)), float("nan")
BYTES, CHOICE = spaces.Box(0, 255, (2,), np.uint8), spaces.Discrete(3)


class Odd(gymnasium.Env):
    """Answers what it is told, from its first step on."""

    action_space = spaces.Discrete(2)

    def __init__(self, seen: Any = None, space: Any = BOX, *, reward: Any = 0.0, ends: Any = False) -> None:
        self.observation_space, self.reward, self.ends = space, reward, ends
        self.seen = space.sample() if seen is None else seen

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.seen, self.reward, self.ends, False, {}


def alone(make: Callable[[], Any], **options: Any) -> Any:
    return GymWrapper(make(), **options)


def pool(make: Callable[[], Any], **options: Any) -> Any:
    return SerialEnv(2, partial(alone, make, **options))


@pytest.mark.parametrize("run", [alone, pool])
@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize(
    ("space", "seen", "says"),
    [
        (BYTES, np.array([300, -1]), r"numbers in 0\.\.255, which uint8 holds, got -1\.\.300"),
        (BYTES, np.array([300.0, 1.0]), r"numbers in 0\.\.255, which uint8 holds, got 1\.0\.\.300\.0"),
        (spaces.Box(0, 9, (2,), np.int64), [1.5, 2.0], r"whole numbers for torch\.int64, got \[1\.5\]"),
        (CHOICE, 1.5, r"whole numbers for torch\.int64, got \[1\.5\]"),
        (spaces.MultiDiscrete([3, 3]), [1.5, 1], r"whole numbers for torch\.int64, got \[1\.5\]"),
        (spaces.Box(-1, 1, ()), "1", r"numbers, got array\('1'"),
        (spaces.Box(-1, 1, (2,)), {"a": 1}, r"numbers, got \{'a': 1\}"),
        (spaces.Dict(a=spaces.Dict(b=BYTES)), {"a": {"b": [0, 256]}}, r"numbers in 0\.\.255, .*, got 0\.\.256"),
    ],
)
def test_numbers_that_a_space_does_not_hold_are_an_error(
    run: Any, categorical: bool, space: Any, seen: Any, says: str
) -> None:
    env = run(lambda: Odd(seen, space), categorical_action_encoding=categorical)
    at = r": observation \('a', 'b'\)" if isinstance(space, spaces.Dict) else ""
    with pytest.raises(DtypeError, match=rf"^GymWrapper{at}: the simulator gave .* not in its space; expected {says}"):
        env.rollout(2)


@pytest.mark.parametrize("run", [alone, pool])
@pytest.mark.parametrize(
    ("space", "seen", "numbers"),
    [
        (BYTES, np.array([255.0, 0.0]), [255, 0]),
        (BYTES, [3, 4], [3, 4]),
        (spaces.Box(-1, 1, (2,)), np.array([0.25, 1 / 3]), [0.25, float(np.float32(1 / 3))]),
        (spaces.Box(-9, 9, (2,)), [1, 2], [1.0, 2.0]),
        (spaces.Box(-9, 9, (1,)), [Fraction(1, 2)], [0.5]),
        (spaces.Discrete(3, start=4), 5.0, 1),
    ],
)
def test_numbers_of_another_type_that_a_space_holds_are_taken(run: Any, space: Any, seen: Any, numbers: Any) -> None:
    data = run(lambda: Odd(seen, space), categorical_action_encoding=True).rollout(2)
    found = data["next", "observation"].reshape(-1, *space.shape)[0]
    assert found.tolist() == numbers
    assert found.dtype == data["observation"].dtype


PART = spaces.Dict(b=CHOICE, c=BOX)


@pytest.mark.parametrize(
    ("space", "seen", "says"),
    [
        (PART, {"b": 1}, r"no observation 'c'; its space has the parts \['b', 'c'\], got \['b'\]$"),
        (spaces.Dict(a=PART), {"a": {"b": 1}}, r"no observation \('a', 'c'\); .* \['b', 'c'\], got \['b'\]"),
        (spaces.Tuple([CHOICE, CHOICE]), (1,), r"no observation '1'; .* \['0', '1'\], got \['0'\]"),
        (PART, np.zeros(2), r"no observation 'b'; .*, got ndarray"),
        (spaces.Tuple([CHOICE, CHOICE]), 1, r"no observation '0'; .*, got int"),
    ],
)
def test_a_missing_part_of_what_gym_observes_is_named(space: Any, seen: Any, says: str) -> None:
    with pytest.raises(KeyMissing, match=rf"^GymWrapper: the simulator gave {says}"):
        GymWrapper(Odd(seen, space)).rollout(2)


def test_a_missing_part_of_a_tuple_of_pettingzoo_is_named() -> None:
    class Short(Quiet):
        def observation_space(self, agent: str) -> Any:
            return spaces.Tuple([CHOICE, CHOICE])

        def _look(self, agents: Any) -> Any:
            return {a: (1,) if a == "wolf_1" else (1, 2) for a in agents}

    says = r"^PettingZooWrapper\.reset: agent 'wolf_1' is there and has no \('observation', '1'\)"
    with pytest.raises(KeyMissing, match=says):
        PettingZooWrapper(Short()).reset()


@pytest.mark.parametrize("run", [alone, pool])
@pytest.mark.parametrize("reward", [NAN, np.float32("nan"), np.array([NAN]), "1", 1j, [None], torch.tensor(NAN)])
def test_a_reward_of_gym_that_is_not_a_number_is_an_error(run: Any, reward: Any) -> None:
    with pytest.raises(SpecError, match=r"^GymWrapper\.step: the reward is not a number, got "):
        run(lambda: Odd(reward=reward)).rollout(2)


@pytest.mark.parametrize("reward", [NAN, None])
def test_the_row_of_a_vector_whose_reward_is_not_a_number_is_named(reward: Any) -> None:
    env = GymWrapper(SyncVectorEnv([Odd, partial(Odd, reward=reward)]))
    with pytest.raises(SpecError, match=r"^GymWrapper\.step: the reward in row 1 is not a number, got array"):
        env.rollout(2)


@pytest.mark.parametrize(
    ("reward", "number"),
    [(-0.0, -0.0), (np.float64(-0.0), -0.0), (0.0, 0.0), (None, 0.0), (Fraction(1, 2), 0.5), (np.array([0.5]), 0.5),
     ([0.5], 0.5), (True, 1.0), (float("inf"), float("inf")), (torch.tensor(0.5, requires_grad=True), 0.5)],
)  # fmt: skip
def test_a_reward_is_the_same_number_alone_and_in_a_pool(reward: Any, number: float) -> None:
    for run in (alone, pool):
        got = run(lambda: Odd(reward=reward)).rollout(1)["next", "reward"].flatten().tolist()
        assert [(one, np.copysign(1, one)) for one in got] == [(number, np.copysign(1, number))] * len(got)


def test_a_reward_that_the_simulator_writes_over_is_added_once() -> None:
    class Paying(Odd):
        def step(self, action: Any) -> Any:
            self.reward += 1
            return super().step(action)

    env = GymWrapper(Paying(reward=np.zeros(1)), frame_skip=3)
    assert env.rollout(2)["next", "reward"].flatten().tolist() == [1 + 2 + 3, 4 + 5 + 6]


@pytest.mark.parametrize("run", [alone, pool])
@pytest.mark.parametrize("flag", [None, NAN, "False", np.array([False, True]), [], torch.tensor(NAN)])
def test_a_flag_of_gym_that_is_none_is_an_error(run: Any, flag: Any) -> None:
    with pytest.raises(SpecTypeError, match=r"^GymWrapper\.step: terminated must be True or False, got "):
        run(lambda: Odd(ends=flag)).rollout(2)


@pytest.mark.parametrize("flag", [0, np.bool_(False), np.array([False]), 0.0, torch.tensor(False)])
def test_a_flag_of_gym_may_be_a_number(flag: Any) -> None:
    assert GymWrapper(Odd(ends=flag)).rollout(2)["next", "terminated"].tolist() == [[False], [False]]


class Lying(Quiet):
    """Gives one agent something else, from the second step on."""

    reward: Any = 0.5
    flag: Any = False

    def step(self, actions: dict[str, Any]) -> Any:
        observations, rewards, terminated, *rest = super().step(actions)
        if self.t > 1:
            rewards["wolf_1"], terminated["wolf_1"] = self.reward, self.flag
        return observations, rewards, terminated, *rest


def lying(**what: Any) -> PettingZooWrapper:
    return PettingZooWrapper(type("Told", (Lying,), what)())


@pytest.mark.parametrize("rows", [0, 2])
@pytest.mark.parametrize(
    ("what", "error", "says"),
    [
        ({"flag": "False"}, SpecTypeError, "terminated of agent 'wolf_1' must be True or False, got str 'False'"),
        ({"flag": None}, SpecTypeError, "terminated of agent 'wolf_1' must be True or False, got None"),
        ({"flag": NAN}, SpecTypeError, "terminated of agent 'wolf_1' must be True or False, got float nan"),
        ({"flag": np.array([False, True])}, SpecTypeError, "terminated of agent 'wolf_1' must be .*, got ndarray"),
        ({"reward": "1"}, SpecError, "the reward of agent 'wolf_1' is not a number, got '1'"),
        ({"reward": 1j}, SpecError, "the reward of agent 'wolf_1' is not a number, got 1j"),
        ({"reward": np.array([0.5, 0.5])}, ShapeError, r"entry 'reward' of agent 'wolf_1' must have shape \[1\], got"),
    ],
)
def test_odd_answers_of_pettingzoo_are_the_same_errors_alone_and_in_a_pool(
    rows: int, what: dict[str, Any], error: type[Exception], says: str
) -> None:
    env = SerialEnv(rows, partial(lying, **what)) if rows else lying(**what)
    with pytest.raises(error, match=rf"^PettingZooWrapper\.step \(number 2 of the episode\): {says}"):
        env.rollout(4)


@pytest.mark.parametrize("reward", [np.array([0.5]), np.array(0.5), [0.5], torch.tensor([0.5]), Fraction(1, 2)])
def test_a_reward_of_pettingzoo_may_be_an_array_of_one_number(reward: Any) -> None:
    for env in (lying(reward=reward), SerialEnv(2, partial(lying, reward=reward))):
        assert env.rollout(2)["next", "wolf", "reward"][..., -1, 1, 0].flatten().tolist() == [0.5] * (1 + env.ndim)


def test_a_flag_of_a_later_turn_is_looked_at_too() -> None:
    class Late(PettingZooWrapper):
        def sim_play(self, actions: Any) -> Any:
            out = dict(super().sim_play(actions))
            return {a: (r, "False" if self._flags.steps == 5 else e, c) for a, (r, e, c) in out.items()}

    says = r"^Late\.step \(number 5 of the episode\): terminated of agent '\w+' must be True or False, got str 'False'"
    with pytest.raises(SpecTypeError, match=says):
        Late(TurnGame()).rollout(9)


class Paid(ParallelSimEnv):
    """Pays one agent what it is told."""

    reward: Any = 0.0

    def _build_env(self) -> Any:
        return object()

    def agent_specs(self) -> dict[str, AgentSpecs]:
        return {a: AgentSpecs(Composite(observation=Unbounded((1,))), Categorical(2)) for a in ("a_0", "a_1")}

    def sim_reset(self, seed: int | None) -> dict[str, AgentStep]:
        return {a: AgentStep({"observation": [0.0]}) for a in ("a_0", "a_1")}

    def sim_step(self, actions: dict[str, Any]) -> dict[str, AgentStep]:
        return {a: AgentStep({"observation": [1.0]}, self.reward if a == "a_1" else 0.25) for a in actions}


@pytest.mark.parametrize("reward", ["x", "1", 1j, None, NAN, np.float32("nan"), torch.tensor(NAN), ["x"], [[1], []]])
def test_a_reward_that_is_not_a_number_names_its_agent(reward: Any) -> None:
    says = r"^Told\.step \(number 1 of the episode\): the reward of agent 'a_1' is not a number, got "
    told = type("Told", (Paid,), {"reward": reward})
    with pytest.raises(SpecError, match=says):
        told().rollout(1)
    with pytest.raises(SpecError, match=r"^Told\.step: the reward of agent 'a_1' is not a number, got "):
        told(frame_skip=2).rollout(1)


@pytest.mark.parametrize("listed", [False, True])
def test_a_reward_that_a_simulator_of_agents_writes_over_is_added_once(listed: bool) -> None:
    class Paying(Paid):
        def _build_env(self) -> Any:
            self.reward = np.zeros(1)
            return super()._build_env()

        def sim_step(self, actions: dict[str, Any]) -> dict[str, AgentStep]:
            self.reward += 1
            got = super().sim_step(actions)
            return {a: s._replace(reward=s.reward.tolist()) if listed and a == "a_1" else s for a, s in got.items()}

    paid = Paying(frame_skip=3).rollout(2)["next", "a", "reward"]
    assert paid.flatten(1).tolist() == [[0.75, 1 + 2 + 3], [0.75, 4 + 5 + 6]]


def test_a_reward_may_have_a_gradient() -> None:
    weight = torch.tensor(3.0, requires_grad=True)
    reward = type("Told", (Paid,), {"reward": property(lambda self: weight * 2)})().rollout(1)["next", "a", "reward"]
    assert reward.flatten().tolist() == [0.25, 6.0]
    reward.sum().backward()
    assert weight.grad is not None
    assert weight.grad.item() == 2.0


@pytest.mark.parametrize("observe", ["acting", "all"])
@pytest.mark.parametrize("any_ends", [False, True])
def test_a_game_in_which_nobody_acts_any_more_is_over(observe: str, any_ends: bool) -> None:
    class Silent(Counting):
        def sim_play(self, actions: dict[str, Any]) -> dict[str, Any]:
            self.count += 1
            return {f"p_{i}": (float(self.count), False, i == 2 and self.count == 9) for i in range(3)}

    data = Silent(lambda count: {f"p_{count % 3}"}, observe=observe, done_on_any=any_ends).rollout(20)
    assert data["next", "done"].flatten().tolist() == [False] * 8 + [True]
    assert data["next", "p", "terminated"][-1].flatten().tolist() == [True, True, False]  # p_2 was cut off
    assert data["next", "p", "truncated"][-1].flatten().tolist() == [False, False, True]
    assert data["next", "p", "reward"][-1].flatten().tolist() == [9.0, 9.0, 9.0]
    assert data["next", "p", "observation"][-1].flatten().tolist() == [9.0, 9.0, 9.0]
    assert not data["next", "p", "mask"][-1].any()
