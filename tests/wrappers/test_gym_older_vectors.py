"""What vectors of gym before 0.26 are told and answer, also where none is there (see ``gym_generation.py``)."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from marlenv.wrappers.gym.outputs import outcome
from marlenv.wrappers.gym.spaces import Spaces

spaces = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'").spaces
DONE = np.array([True, True, False])


@pytest.mark.parametrize(
    ("infos", "late"),
    [
        ([{"TimeLimit.truncated": True}, {"TimeLimit.truncated": False}, {}], [True, False, False]),
        ([{}, {}, {}], [False] * 3),
        ({"TimeLimit.truncated": np.array([True, False, False])}, [True, False, False]),
        ({"TimeLimit.truncated": np.array([True, False, None], dtype=object)}, [True, False, False]),
        ({}, [False] * 3),
    ],
)
def test_four_values_of_a_vector(infos: object, late: list[bool]) -> None:
    """Infos are a list until gym 0.23, and a dict of arrays in 0.24 and 0.25."""
    _, _, terminated, truncated, done, _ = outcome((np.zeros((3, 1)), np.zeros(3), DONE, infos), alone=False)
    assert truncated.tolist() == late
    assert terminated.tolist() == [over and not one for over, one in zip(DONE.tolist(), late, strict=True)]
    assert done is None


def test_four_values_of_a_single_env() -> None:
    for late in (True, False):
        flags = outcome((0, 0.0, True, {"TimeLimit.truncated": late}), alone=True)[2:4]
        assert tuple(map(bool, flags)) == (not late, late)


CHOICE = spaces.Discrete(9)
NESTED = spaces.Tuple([CHOICE, spaces.Dict(q=spaces.Box(0, 9, (2,)), r=spaces.Tuple([CHOICE]))])


def told(one: spaces.Space, many: spaces.Space, action: dict[str, object]) -> object:
    seen = spaces.Box(0, 1, (1,))
    env = SimpleNamespace(single_observation_space=seen, single_action_space=one, observation_space=seen)
    env.action_space = many
    return Spaces("GymEnv", env, torch.Size([2]), categorical=True).told(TensorDict(action, batch_size=[2]))


def test_an_action_of_several_parts_is_a_tuple_of_rows_before_gym_0_22() -> None:
    parts = {"0": torch.tensor([1, 2]), "1": torch.tensor([3, 4])}  # rows play (1, 3) and (2, 4)
    pair = spaces.Tuple([CHOICE, CHOICE])
    assert told(pair, spaces.Tuple([pair, pair]), parts) == ((1, 3), (2, 4))
    first, second = told(pair, spaces.Tuple([spaces.MultiDiscrete([9, 9])] * 2), parts)
    assert (first.tolist(), second.tolist()) == ([1, 2], [3, 4])  # later ones take parts
    named = spaces.Dict(x=CHOICE, y=CHOICE)
    rows = told(named, spaces.Tuple([named, named]), {"x": parts["0"], "y": parts["1"]})
    assert rows == ({"x": 1, "y": 3}, {"x": 2, "y": 4})
    deep = {"0": parts["0"], "1": {"q": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "r": {"0": parts["1"]}}}
    rows = told(NESTED, spaces.Tuple([NESTED, NESTED]), deep)
    assert [(row[0], row[1]["q"].tolist(), row[1]["r"]) for row in rows] == [(1, [1, 2], (3,)), (2, [3, 4], (4,))]
    assert all(NESTED.contains(row) for row in rows)
