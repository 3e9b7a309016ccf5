"""Adapters copy nothing that can be viewed: what they hand out lies in the env's own memory, and stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tensordict import TensorDictBase

import marlenv
from marlenv.testing.mocks import GroupedEnv

pytestmark = pytest.mark.filterwarnings("ignore")
pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")
AGENTS = ["agent_0", "agent_1", "agent_2"]


class Case(NamedTuple):
    """An adapter over simple_spread, and what it hands out."""

    make: Callable[[Any], Any]
    rows: int | None
    reset: Callable[[Any], Any]
    """Starts an episode and gives all observations as a list of arrays."""
    step: Callable[[Any], Any]
    """Plays zeros, and gives what is observed then."""
    needs: str = "gymnasium"


def dicts(out: Any) -> list[Any]:
    return list(out[0].values())


def turns(env: Any) -> list[Any]:
    for _ in AGENTS:
        env.step(np.zeros(2, np.float32))
    return [env.observe(agent) for agent in AGENTS]


def zoo(env: Any) -> list[Any]:
    return dicts(env.step({agent: np.zeros(2, np.float32) for agent in AGENTS}))


def aec_reset(env: Any) -> list[Any]:
    env.reset()
    return [env.observe(agent) for agent in AGENTS]


CASES = {
    "to_gymnasium": Case(
        marlenv.to_gymnasium, None, lambda env: [env.reset()[0]], lambda env: [env.step(np.zeros((3, 2)))[0]]
    ),
    "to_gymnasium_vector": Case(
        marlenv.to_gymnasium_vector, 4, lambda env: [env.reset()[0]], lambda env: [env.step(np.zeros((4, 3, 2)))[0]]
    ),
    "to_alf": Case(
        marlenv.to_alf,
        4,
        lambda env: [env.reset().observation.numpy()],
        lambda env: [env.step(torch.zeros(4, 3, 2)).observation.numpy()],
    ),
    "to_pettingzoo_parallel": Case(
        marlenv.to_pettingzoo_parallel, None, lambda env: dicts(env.reset()), zoo, "pettingzoo"
    ),
    "to_pettingzoo_aec": Case(marlenv.to_pettingzoo_aec, None, aec_reset, turns, "pettingzoo"),
    "to_rllib": Case(marlenv.to_rllib, None, lambda env: dicts(env.reset()), zoo, "ray"),
    "to_rllib, groups": Case(
        partial(marlenv.to_rllib, agents="groups"),
        None,
        lambda env: dicts(env.reset()),
        lambda env: dicts(env.step({"agents": np.zeros(6, np.float32)})),
        "ray",
    ),
    "to_torchrl": Case(
        marlenv.to_torchrl,
        4,
        lambda env: [env.reset()["agents", "observation"].numpy()],
        lambda env: [env.rand_step(env.reset())["next", "agents", "observation"].numpy()],
        "torchrl",
    ),
}


class Watched:
    """Notes where the observations of an env lie, as it gives them."""

    def __init__(self, env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[torch.Tensor] = []
        for name in ("_reset", "_step"):
            monkeypatch.setattr(env, name, partial(self.called, getattr(env, name)))

    def called(self, call: Callable[..., TensorDictBase], *given: Any, **options: Any) -> TensorDictBase:
        out = call(*given, **options)
        self.given.append(out["agents", "observation"])
        return out

    def holds(self, array: Any) -> bool:
        return np.shares_memory(self.given[-1].numpy(), array)


def spread(rows: int | None) -> Any:
    return marlenv.make("simple_spread", num_envs=rows, compile="none", max_steps=50)


@pytest.mark.parametrize("name", CASES)
def test_observations_are_views_that_never_change(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    pytest.importorskip(case.needs, reason="VENV=.venv tests/simulators.sh")
    env = GroupedEnv({"agents": AGENTS}, batch_size=[4] if case.rows else [1])
    watched = Watched(env, monkeypatch)
    made = case.make(env)
    for array in case.reset(made):
        assert watched.holds(array), "a reset"
    handed: list[tuple[Any, Any]] = []
    for _ in range(12):
        found = case.step(made)
        for array in found:
            assert watched.holds(array), "a step"
        handed += [(array, array.copy()) for array in found]
    assert all(np.array_equal(array, before) for array, before in handed)


@pytest.mark.parametrize("name", CASES)
def test_observations_of_a_scenario_never_change(name: str) -> None:
    """Rows lie last in its memory, which it uses again once nobody looks at it."""
    case = CASES[name]
    pytest.importorskip(case.needs, reason="VENV=.venv tests/simulators.sh")
    made = case.make(spread(case.rows))
    handed = [(array, array.copy()) for array in case.reset(made)]
    for _ in range(60):  # beyond the end of an episode
        if getattr(made, "agents", AGENTS) == [] or name == "to_pettingzoo_aec" and any(made.truncations.values()):
            handed += [(array, array.copy()) for array in case.reset(made)]
        handed += [(array, array.copy()) for array in case.step(made)]
    assert all(np.array_equal(array, before) for array, before in handed)


def test_a_vectorized_env_views_what_lies_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("stable_baselines3", reason="needs Stable-Baselines3: VENV=.venv tests/simulators.sh sb3")
    env = GroupedEnv({"agents": AGENTS}, batch_size=[4])
    watched = Watched(env, monkeypatch)
    made = marlenv.to_sb3_vec_env(env)
    assert watched.holds(made.reset())
    assert watched.holds(made.step(np.zeros((12, 2), np.float32))[0])


def test_actions_are_not_copied() -> None:
    """What a user gives is read where it lies, and left as it is."""
    vector, seen = marlenv.to_gymnasium_vector(spread(4)), []
    inner = vector.inner
    step = inner.step
    object.__setattr__(inner, "step", lambda td: (seen.append(td["agents", "action"]), step(td))[1])
    vector.reset()
    actions = np.full((4, 3, 2), 0.5, np.float32)
    vector.step(actions)
    assert np.shares_memory(seen[0].numpy(), actions)
    assert (actions == 0.5).all()
