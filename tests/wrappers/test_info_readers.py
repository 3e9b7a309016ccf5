"""Readers of gym's info dicts, on gymnasium's own Pendulum with an info that says something."""

from __future__ import annotations

import warnings
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from marlenv import GymWrapper, check_env_specs
from marlenv.errors import DtypeError, KeyCollision, ShapeError
from marlenv.specs import Bounded, Composite, Unbounded
from marlenv.wrappers import GymLikeEnv, default_info_dict_reader

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")


class Told(gymnasium.Wrapper):
    """Counts its steps in the info."""

    def reset(self, **options: Any) -> Any:
        self.steps = 0
        return self.env.reset(**options)[0], {"steps": 0.0, "_private": 1.0}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return (*self.env.step(action)[:4], {"steps": float(self.steps), "_private": 1.0})


class PendulumEnv(GymLikeEnv):
    def _build_env(self) -> Any:
        return Told(gymnasium.make("Pendulum-v1"))

    def _make_specs(self, env: Any) -> None:
        self.observation_spec = Composite(observation=Unbounded((3,)))
        self.action_spec = Bounded(-2, 2, (1,))
        self.reward_spec = Unbounded((1,))

    def _output_transform(self, out: Any) -> Any:
        observation, reward, terminated, truncated, info = out
        return observation, reward, terminated, truncated, terminated or truncated, info

    def _reset_output_transform(self, out: Any) -> Any:
        return out

    def _set_seed(self, seed: int | None) -> None:
        pass


READERS = {
    "by name": lambda: default_info_dict_reader(["steps"]),
    "learnt": lambda: None,
    "a function": lambda: lambda info, td: td.set("steps", torch.tensor(info["steps"])),
}


@pytest.mark.parametrize("reader", READERS)
def test_infos_are_in_the_data_from_the_first_reset_on(reader: str) -> None:
    env = PendulumEnv()
    assert env.set_info_dict_reader(READERS[reader]()) is env
    assert float(env.reset()["steps"]) == 0
    assert env.rollout(3)["next", "steps"].flatten().tolist() == [1, 2, 3]
    if reader != "a function":  # which says no spec
        assert "steps" in env.observation_spec
        assert "_private" not in env.observation_spec
        check_env_specs(env)


class Moves:
    """Shows one array, and writes into it again."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def reset(self) -> Any:
        self.value[:] = 0
        return self.value, {"at": self.value}

    def step(self, action: Any) -> Any:
        self.value += 1
        return self.value, 1.0, False, False, {"at": self.value}


class MovesEnv(PendulumEnv):
    def _build_env(self, env: Any) -> Any:
        return env


@pytest.mark.parametrize("reader", [None, default_info_dict_reader(["at"], spec=[Unbounded((3,))])])
@pytest.mark.parametrize("make", [lambda: np.zeros(3, np.float32), lambda: torch.zeros(3)])
def test_what_a_simulator_writes_into_again_is_copied(make: Any, reader: Any) -> None:
    env = MovesEnv(env=Moves(make())).set_info_dict_reader(reader)
    data = env.rollout(3, return_contiguous=False)
    for key in ("at", "observation"):
        assert [td[key].tolist() for td in data.unbind(0)] == [[n] * 3 for n in range(3)]
        assert [td["next", key].tolist() for td in data.unbind(0)] == [[n] * 3 for n in (1, 2, 3)]


class Says(gymnasium.Wrapper):
    """A pendulum whose infos a function of the number of steps gives."""

    def __init__(self, info: Any) -> None:
        super().__init__(gymnasium.make("Pendulum-v1"))
        self.info = info

    def reset(self, **options: Any) -> Any:
        self.steps = 0
        return self.env.reset(**options)[0], self.info(0)

    def step(self, action: Any) -> Any:
        self.steps += 1
        return (*self.env.step(action)[:4], self.info(self.steps))


def saying(info: Any, rows: int | None = None) -> GymWrapper:
    make = partial(Says, info)
    return GymWrapper(make() if rows is None else gymnasium.vector.SyncVectorEnv([make] * rows))


OWN = ["reward", "observation", "done", "terminated", "truncated", "next", "action"]


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("rows", [None, 2])
def test_an_info_never_takes_the_place_of_another_entry(name: str, rows: int | None) -> None:
    env = saying(lambda t: {name: 70.0 + t, "steps": t}, rows)
    with pytest.raises(KeyCollision, match=rf"^GymWrapper\.set_info_dict_reader: the info '{name}' has the name of an"):
        env.set_info_dict_reader(default_info_dict_reader([name]))
    with pytest.warns(UserWarning, match=rf"^GymWrapper: infos with the names of .* left out: \['{name}'\]"):
        env.auto_register_info_dict()
    env.set_seed(0)
    data = env.rollout(3)
    assert data["next", "steps"].reshape(-1, 3)[0].tolist() == [1, 2, 3]
    bare = saying(lambda t: {}, rows)
    bare.set_seed(0)
    actions = iter(data["action"].unbind(data.ndim - 1))
    same = bare.rollout(3, lambda td: td.set("action", next(actions)))
    for key in same.keys(True, True):
        assert torch.equal(data[key], same[key]), key


def test_readers_of_the_same_info_stand_beside_each_other() -> None:
    env = saying(lambda t: {"steps": t})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.set_info_dict_reader(default_info_dict_reader(["steps"])).auto_register_info_dict()
    assert env.rollout(3)["next", "steps"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("rows", [None, 2])
def test_no_info_is_zeros(rows: int | None) -> None:
    info = lambda t: {"a": None if t == 2 else float(t), "b": None if t == 0 else np.full(2, t)}  # noqa: E731
    env = saying(info, rows).auto_register_info_dict()
    data = env.rollout(4)
    first = data if rows is None else data[0]
    assert first["next", "a"].tolist() == [1, 0, 3, 4]
    assert first["b"].tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
    named = saying(info, rows).set_info_dict_reader(default_info_dict_reader(["a"])).rollout(4)
    assert torch.equal(named["next", "a"], data["next", "a"].float())


def test_a_vector_learns_what_a_single_env_does() -> None:
    kinds = {
        "flag": np.bool_(True), "list": [1, 2], "tensor": torch.ones(2), "number": 1, "single": np.float32(1), 3: 1.0,
        "text": "x", "nothing": None, "ragged": [[1], [1, 2]], "_own": 1, "parts": {"a": 1},
    }  # fmt: skip
    one, two = (saying(lambda t: dict(kinds), rows).auto_register_info_dict() for rows in (None, 2))
    names = {"flag": [True], "list": [1, 2], "tensor": [1, 1], "number": [1], "single": [1]}
    assert {*one.observation_spec.keys()} == {*two.observation_spec.keys()} == {"observation", *names}
    for env in (one, two):
        data = env.rollout(2).reshape(-1)
        for name, value in names.items():
            assert (data["next", name].reshape(len(data), -1) == torch.tensor(value)).all(), name


@pytest.mark.parametrize("rows", [None, 2])
def test_an_info_that_cannot_be_read_is_named(rows: int | None) -> None:
    grows = saying(lambda t: {"seen": np.zeros(t + 1)}, rows).auto_register_info_dict()  # learnt from step 1
    with pytest.raises(ShapeError, match=r"entry 'seen' of the info must have the shape \[.*2\], as in .* got \[.*1\]"):
        grows.reset()
    for value in ("x", {"a": 1}):
        env = saying(lambda t, value=value: {"seen": value}, rows)
        env.set_info_dict_reader(default_info_dict_reader(["seen"]))
        with pytest.raises(DtypeError, match=r"entry 'seen' of the info must be numbers of one shape, got"):
            env.reset()


@pytest.mark.parametrize("rows", [None, 2])
@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.5, torch.int64), (float("nan"), torch.int64), (300, torch.int8), (300, torch.uint8), (-1, torch.uint8),
        (-1, torch.uint16), (2, torch.bool), (np.ulonglong(2**63), torch.int64),
    ],
)  # fmt: skip
def test_numbers_that_the_dtype_of_a_spec_does_not_hold_are_refused(value: Any, dtype: Any, rows: int | None) -> None:
    env = saying(lambda t: {"seen": value if t == 2 else 1}, rows)
    env.set_info_dict_reader(default_info_dict_reader(["seen"], spec=[Unbounded((), dtype=dtype)]))
    assert (env.rollout(1)["next", "seen"] == 1).all()
    with pytest.raises(DtypeError, match=rf"entry 'seen' .* numbers that {dtype} holds, .* got \[.*{value}.*another"):
        env.rollout(2)


@pytest.mark.parametrize("rows", [None, 2])
def test_numbers_of_types_that_torch_lacks_are_learnt(rows: int | None) -> None:
    kinds = {"huge": np.ulonglong(2**63), "foreign": np.full(2, 3, ">i4"), "long": np.longdouble(0.5)}
    kinds |= {"share": Fraction(1, 4), "price": Decimal("1.5")}
    data = saying(lambda t: dict(kinds), rows).auto_register_info_dict().rollout(1)["next"].reshape(-1)[0]
    assert (data["huge"].tolist(), data["foreign"].tolist(), data["long"].tolist()) == (2**63, [3, 3], 0.5)
    assert (data["share"].tolist(), data["price"].tolist()) == (0.25, 1.5)
