"""``GymLikeEnv``: a simulator that forgets an observation, gives no numbers or contradicts itself is an error, and no
older or other data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from marlenv import Binary, Categorical, Composite, OneHot, SerialEnv, Unbounded
from marlenv.errors import DtypeError, KeyMissing, MarlenvError, SpecError, SpecTypeError
from marlenv.wrappers import GymLikeEnv

FLAGS = ("terminated", "truncated", "done")


class Clock:
    """Shows the time in two entries, and whatever a test gives in their place."""

    def __init__(self, **shown: Any) -> None:
        self.shown, self.time = shown, 0

    def seen(self) -> dict[str, Any]:
        return {"a": np.full(2, self.time, np.float32), "n": self.time, "deep": {"x": np.zeros(1), "turn": 2}}

    def reset(self) -> Any:
        self.time = 0
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        seen = {**self.seen(), **self.shown}
        return {name: value for name, value in seen.items() if value is not KeyMissing}, 1.0, False, False, {}


class ClockEnv(GymLikeEnv):
    flags: Any = (False, False, None)

    def _build_env(self, **shown: Any) -> Any:
        return Clock(**shown)

    def _make_specs(self, env: Any) -> None:
        deep = Composite(x=Unbounded((1,)), turn=OneHot(3, dtype=torch.bool))
        self.observation_spec = Composite(a=Unbounded((2,)), n=Unbounded((), dtype=torch.int64), deep=deep)
        self.action_spec, self.reward_spec = Categorical(2), Unbounded((1,))
        self.full_done_spec = Composite({name: Binary(shape=(1,), dtype=torch.bool) for name in FLAGS})

    def _output_transform(self, out: Any) -> Any:
        return (*out[:2], *self.flags, out[4])

    def _reset_output_transform(self, out: Any) -> Any:
        return out

    def _set_seed(self, seed: int | None) -> None:
        pass


WRONG: dict[str, tuple[dict[str, Any], type[MarlenvError], str]] = {
    "missing": ({"n": KeyMissing}, KeyMissing, "no observation 'n'"),
    "a part is missing": ({"deep": {"turn": 1}}, KeyMissing, r"no observation \('deep', 'x'\)"),
    "complex": ({"a": np.array([1j, 2])}, DtypeError, "observation 'a': .* expected numbers"),
    "a complex tensor": ({"a": torch.tensor([1j, 2])}, DtypeError, "observation 'a': .* expected numbers"),
    "texts": ({"a": np.array(["1", "2"])}, DtypeError, "observation 'a': .* expected numbers"),
    "nothing": ({"a": None}, DtypeError, "observation 'a': .* expected numbers, got None"),
    "a fraction": ({"n": 0.5}, DtypeError, r"observation 'n': .* expected whole numbers .* got \[0.5\]"),
    "a fraction within": ({"deep": {"x": [0], "turn": 0.5}}, DtypeError, r"\('deep', 'turn'\): .* whole numbers"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_observation_is_an_error_that_names_the_entry(case: str) -> None:
    shown, error, words = WRONG[case]
    with pytest.raises(error, match=rf"^ClockEnv: .*{words}"):
        ClockEnv(**shown).rollout(3)
    with pytest.raises(error, match=words):
        SerialEnv(2, lambda: ClockEnv(**shown)).rollout(3)


def test_observations_are_those_of_their_own_step() -> None:
    halves = [torch.tensor(0.5), torch.tensor(1.5)]
    data = ClockEnv(a=halves).rollout(3)["next"]
    assert data["a"].tolist() == [[0.5, 1.5]] * 3
    assert data["n"].flatten().tolist() == [1, 2, 3]
    assert data["deep", "turn"].tolist() == [[False, False, True]] * 3


GOOD = {  # what a simulator says -> terminated, truncated, done
    (True, False, None): (True, False, True),
    (False, True, None): (False, True, True),
    (None, True, None): (False, True, True),
    (None, None, True): (True, False, True),
    (None, True, True): (False, True, True),
    (False, None, True): (False, True, True),
    (True, True, True): (True, True, True),
    (False, None, None): (False, False, False),
    (0, 1.0, 1): (False, True, True),
}


@pytest.mark.parametrize("told", GOOD, ids=str)
def test_flags_that_are_not_told_follow_from_the_others(told: tuple[Any, ...]) -> None:
    env = ClockEnv()
    for form in (lambda x: x, np.array, lambda x: [x], torch.tensor):
        env.flags = tuple(None if flag is None else form(flag) for flag in told)
        data = env.step(env.rand_action(env.reset()))["next"]
        assert tuple(bool(data[name]) for name in FLAGS) == GOOD[told]


CONTRADICTIONS = [(True, False, False), (False, True, False), (False, False, True), (np.bool_(True), None, False)]
NO_FLAGS = ["False", float("nan"), 0.5, 1j, {}, np.array(2)]


@pytest.mark.parametrize("flags", CONTRADICTIONS, ids=str)
def test_done_is_terminated_or_truncated(flags: tuple[Any, ...]) -> None:
    env = ClockEnv()
    env.flags = flags
    with pytest.raises(SpecError, match=rf"^ClockEnv\.step: done is {flags[2]}, .* must be terminated \| truncated"):
        env.rollout(3)


@pytest.mark.parametrize("value", NO_FLAGS, ids=str)
@pytest.mark.parametrize("place", range(3))
def test_what_is_no_flag_is_an_error(value: Any, place: int) -> None:
    env = ClockEnv()
    env.flags = tuple(value if i == place else False for i in range(3))
    with pytest.raises(SpecTypeError, match=rf"^ClockEnv\.step: {FLAGS[place]} must be True or False"):
        env.rollout(3)


def test_a_simulator_without_flags_is_an_error() -> None:
    env = ClockEnv()
    env.flags = (None, None, None)
    with pytest.raises(SpecError, match=r"^ClockEnv\.step: the simulator gave no flags"):
        env.rollout(3)


def test_entries_of_a_reader_of_infos_come_after_the_observations() -> None:
    env = ClockEnv(n=KeyMissing)
    env._reset_output_transform = lambda out: ({k: v for k, v in out[0].items() if k != "n"}, out[1])  # type: ignore
    env.set_info_dict_reader(lambda info, td: td.set("n", torch.tensor(7)))
    assert env.rollout(2)["next", "n"].flatten().tolist() == [7, 7]
