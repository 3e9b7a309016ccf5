"""What an env says does not hang on ``torch.set_default_dtype``: numbers and their types are the same under float64."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tensordict import TensorDictBase

import marlenv
from marlenv.registration import available

GAMES: list[tuple[str, dict[str, object]]] = [
    *((name, {}) for name in available("game")),
    ("chess", {"layout": "torchrl"}),
    ("tic_tac_toe", {"layout": "torchrl"}),
    ("tic_tac_toe", {"illegal": "lose"}),
    ("connect_four", {"opponent": "random"}),
    ("go", {"size": 3, "repetition": "forbid", "moves": 5}),
    ("matrix_game", {"rounds": 3}),
]


@pytest.fixture
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def played(name: str, options: dict[str, object]) -> TensorDictBase:
    env = marlenv.make(name, 2, seed=0, **options)
    marlenv.check_env_specs(env, seed=0)
    return env.rollout(12, break_when_any_done=False)


@pytest.mark.parametrize(("name", "options"), GAMES)
def test_games_are_the_same(name: str, options: dict[str, object], request: pytest.FixtureRequest) -> None:
    known = played(name, options)
    request.getfixturevalue("float64")
    data = played(name, options)
    for key, value in known.items(True, True):
        assert data[key].dtype == value.dtype, key
        assert torch.equal(data[key], value), key


SIMULATORS = ["pettingzoo/simple_tag_v3", "pettingzoo/tictactoe_v3", "open_spiel/leduc_poker"]  # VMAS itself changes


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize("name", ["simple_spread", "simple_tag", "balance", *SIMULATORS])
def test_scenarios_and_simulators_are_the_same(name: str, request: pytest.FixtureRequest) -> None:
    known = marlenv.make(name, seed=0).rollout(4)
    request.getfixturevalue("float64")
    env = marlenv.make(name, seed=0)
    assert all(value.dtype == known[key].dtype for key, value in env.rollout(4).items(True, True))
    marlenv.check_env_specs(env)
