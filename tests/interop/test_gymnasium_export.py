"""Our envs behind Gymnasium's interfaces: Gymnasium's own checker, and the same numbers as our env gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import marlenv
from marlenv import GymEnv, GymWrapper, to_gymnasium, to_gymnasium_vector
from marlenv.errors import NeedsReset, SpecTypeError, Unsupported

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")
MODES = ["NEXT_STEP", "SAME_STEP", "DISABLED"]


def task(num_envs: int | None = None, **options: Any) -> Any:
    return marlenv.make("navigation", num_envs=num_envs, compile="none", **{"n_agents": 1, "max_steps": 7, **options})


ENVS = {
    "one agent": task,
    "a group": lambda: task(n_agents=3),
    "choices": lambda: task(continuous_actions=False),
    "one-hot choices": lambda: task(continuous_actions=False, categorical_actions=False),
    "no groups": lambda: GymEnv("CartPole-v1"),
    "pendulum": marlenv.PendulumEnv,
}


@pytest.mark.parametrize("name", ENVS)
@pytest.mark.filterwarnings("ignore")  # the checker recommends spaces
def test_gymnasiums_checker_finds_nothing_wrong(name: str) -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(to_gymnasium(ENVS[name]()), skip_render_check=True)


def test_numbers_are_those_of_our_env() -> None:
    gym, env = to_gymnasium(task(n_agents=3)), task(n_agents=3)
    env.set_seed(5)
    td, (seen, _) = env.reset(), gym.reset(seed=5)
    for step in range(7):
        assert np.array_equal(seen, td["agents", "observation"][0].numpy())
        action = gym.action_space.sample()
        seen, reward, terminated, truncated, _ = gym.step(action)
        data = env.step(td.set(("agents", "action"), torch.from_numpy(action).unsqueeze(0)))
        assert reward == pytest.approx(float(data["next", "agents", "reward"].double().sum()), abs=1e-6)
        assert (terminated, truncated) == (False, step == 6)
        td = env.step_mdp(data)


@pytest.mark.parametrize("mode", MODES)
def test_a_vector_that_comes_back_is_our_env(mode: str) -> None:
    """Our rows, as a vector of Gymnasium's in each of its modes, read by our own wrapper again."""
    back = GymWrapper(to_gymnasium_vector(task(4), mode))
    env = task(4)
    for one in (back, env):
        one.set_seed(3)
    td, other = env.reset(), back.reset()
    for step in range(20):
        action = torch.rand(4, 2, generator=torch.Generator().manual_seed(step)) * 2 - 1
        data, td = env.step_and_maybe_reset(td.set(("agents", "action"), action.unsqueeze(1)))
        theirs, other = back.step_and_maybe_reset(other.set("action", action))
        assert torch.equal(data["next", "agents", "observation"].squeeze(1), theirs["next", "observation"]), step
        assert torch.allclose(data["next", "agents", "reward"].reshape(4, 1), theirs["next", "reward"])
        assert torch.equal(data["next", "truncated"], theirs["next", "truncated"])
        assert torch.equal(td["agents", "observation"].squeeze(1), other["observation"]), step


def test_a_row_that_starts_anew_does_not_read_its_action() -> None:
    vector = to_gymnasium_vector(task(3))
    vector.reset(seed=0)
    for _ in range(7):
        seen, _, _, truncated, _ = vector.step(vector.action_space.sample())
    assert truncated.all()
    seen, reward, terminated, truncated, _ = vector.step(vector.action_space.sample())
    assert not (terminated | truncated).any()
    assert (reward == 0).all()
    assert vector.observation_space.contains(seen)


def test_gymnasiums_wrappers_of_vectors_work_on_top() -> None:
    wrappers = gymnasium.wrappers.vector
    vector = wrappers.RecordEpisodeStatistics(wrappers.NormalizeReward(to_gymnasium_vector(task(3))))
    vector.reset(seed=0)
    infos = [vector.step(vector.action_space.sample())[-1] for _ in range(8)]
    assert infos[6]["episode"]["l"].tolist() == [7, 7, 7]


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: to_gymnasium("navigation"), SpecTypeError, "expected an env of marlenv, got str"),
        (lambda: to_gymnasium(marlenv.make("simple_tag")), SpecTypeError, "one agent, or one group, acts, got actions"),
        (lambda: to_gymnasium(task(2)), Unsupported, r"one row, got batch size \[2\]; to_gymnasium_vector takes those"),
        (lambda: to_gymnasium_vector(GymEnv("CartPole-v1")), Unsupported, r"an env with rows, got batch size \[\]"),
        (lambda: to_gymnasium_vector(task(2), "NEXT"), Unsupported, "did you mean 'NEXT_STEP'"),
        (lambda: to_gymnasium(task()).step(None), NeedsReset, "reset"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()


def test_rows_that_are_done_must_be_reset_where_nothing_resets_them() -> None:
    vector = to_gymnasium_vector(task(2), "DISABLED")
    vector.reset(seed=0)
    for _ in range(7):
        vector.step(vector.action_space.sample())
    with pytest.raises(Unsupported, match=r"rows \[0, 1\] are done; reset them with options"):
        vector.step(vector.action_space.sample())
