"""What users of GymEnv do besides stepping: read infos, teach spaces, send envs to processes, go by way of ALF."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from marlenv import EnvCreator, ParallelEnv, SerialEnv, check_env_specs, to_alf
from marlenv.errors import EnvClosed, IllegalAction, SpecError
from marlenv.specs import Categorical
from marlenv.wrappers import (
    GymEnv,
    GymWrapper,
    default_info_dict_reader,
    gym_backend,
    register_gym_spec_conversion,
    set_gym_backend,
)

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")


def pendulum(gravity: float) -> GymEnv:
    return GymEnv("Pendulum-v1", g=gravity)


def test_what_a_simulator_was_made_with_is_read_through_its_wrappers() -> None:
    """Gymnasium's own wrappers hide it; the documents read it of single envs and of pools."""
    env = pendulum(9.81)
    assert not hasattr(env._env, "g")
    assert env.g == env._env.unwrapped.g == 9.81
    says = "^'GymEnv' object has no attribute 'no_such_thing', and neither has its simulator, TimeLimit$"
    with pytest.raises(AttributeError, match=says) as error:
        env.no_such_thing  # noqa: B018
    assert (error.value.name, error.value.obj) == ("no_such_thing", env)
    pools = SerialEnv(2, pendulum, create_env_kwargs=[{"gravity": 1.5}, {"gravity": 2.5}])
    assert pools.g == [1.5, 2.5]


def test_infos_of_a_simulator_are_read() -> None:
    env, raw = GymEnv("Taxi-v3"), gymnasium.make("Taxi-v3")
    assert env.auto_register_info_dict() is env
    assert {"prob", "action_mask"} <= set(env.observation_spec.keys())
    check_env_specs(env)
    env.set_seed(1)
    td, (_, info) = env.reset(), raw.reset(seed=1)
    for _ in range(10):
        assert np.array_equal(td["action_mask"].numpy(), info["action_mask"])
        assert float(td["prob"]) == info["prob"]
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        info = raw.step(int(data["action"].argmax()))[4]


def test_infos_of_a_vector_are_read_row_by_row() -> None:
    for known in (default_info_dict_reader(["prob"]), None):
        env, rows = GymEnv("Taxi-v3", num_envs=3), [gymnasium.make("Taxi-v3") for _ in range(3)]
        env.set_info_dict_reader(known)
        assert env.observation_spec["prob"].shape == (3,)
        check_env_specs(env)
        env.set_seed(4)
        td, infos = env.reset(), [row.reset(seed=4 + i)[1] for i, row in enumerate(rows)]
        for _ in range(5):
            assert td["prob"].tolist() == [info["prob"] for info in infos]
            if known is None:
                assert td["action_mask"].tolist() == [info["action_mask"].tolist() for info in infos]
            data, td = env.step_and_maybe_reset(env.rand_action(td))
            infos = [row.step(int(a.argmax()))[4] for row, a in zip(rows, data["action"], strict=True)]


def test_spaces_of_ones_own_are_taught() -> None:
    class Dice(gymnasium.spaces.Space):
        def __init__(self) -> None:
            super().__init__((), np.int64)

    class Thrown(gymnasium.Env):
        observation_space, action_space = Dice(), gymnasium.spaces.Discrete(2)

        def reset(self, **_: Any) -> Any:
            return 5, {}

        def step(self, action: int) -> Any:
            return 2, 1.0, False, False, {}

    with pytest.raises(SpecError, match="no conversion for a space of type Dice; .*register_gym_spec_conversion"):
        GymWrapper(Thrown())

    @register_gym_spec_conversion(Dice)
    def dice(space: Any, **options: Any) -> Categorical:
        return Categorical(7)

    env = GymWrapper(Thrown())
    check_env_specs(env)
    td = env.rand_step(env.reset())
    assert (int(td["observation"]), int(td["next", "observation"])) == (5, 2)


@pytest.mark.slow
def test_envs_are_made_in_processes() -> None:
    rollouts = []
    for pool in (SerialEnv, ParallelEnv):
        env = pool(2, EnvCreator(partial(GymEnv, "CartPole-v1", categorical_action_encoding=True)))
        env.set_seed(0)
        rollouts.append(env.rollout(20, break_when_any_done=False))
        env.close()
    assert bool((rollouts[0] == rollouts[1]).all())


def test_a_closed_env_is_closed() -> None:
    raw = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    env = GymWrapper(raw)
    env.reset()
    env.close()
    with pytest.raises(EnvClosed, match="GymWrapper: the env is closed"):
        env.reset()


def test_data_are_on_the_env_s_device() -> None:
    env = GymEnv("CartPole-v1", device="cpu")
    data = env.rollout(3)
    assert data.device == data["next"].device == env.observation_spec.device == torch.device("cpu")


@pytest.mark.slow
def test_without_gym_the_command_is_said() -> None:
    """In a process in which neither library can be found."""
    code = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("gym", "gymnasium"):
            raise ModuleNotFoundError(f"no {name}", name=name)

sys.meta_path.insert(0, Hidden())
from importlib import util
real = util.find_spec
util.find_spec = lambda name, *rest: None if name in ("gym", "gymnasium") else real(name, *rest)
from marlenv import GymEnv
assert GymEnv.available_envs == []
try:
    GymEnv("CartPole-v1")
except ImportError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert 'MissingExtra gym_backend needs gymnasium or gym; pip install "marlenv-torch[gymnasium]"' in done.stdout, (
        done.stderr[-2000:]
    )


def test_a_backend_may_be_set_within_another_and_by_a_decorator() -> None:
    gym = pytest.importorskip("gym")

    @set_gym_backend("gym")
    def inner() -> list[str]:
        with set_gym_backend("gymnasium"):
            within = gym_backend().__name__
        return [within, gym_backend().__name__]

    assert inner() == ["gymnasium", "gym"]
    assert gym_backend() is gymnasium
    setter = set_gym_backend("gym")
    setter.set()
    assert gym_backend() is gym
    set_gym_backend("gymnasium").set()
    assert gym_backend() is gymnasium


class Ends(gymnasium.Env):
    """Ends after as many steps as the action says; the time limit is three steps."""

    observation_space = gymnasium.spaces.Box(-9, 9, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(9)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        self.at += 1
        return np.full(1, self.at, np.float32), 1.0, self.at >= action, False, {}


@pytest.mark.parametrize(
    ("until", "kinds", "discounts"),
    [
        (2, ["FIRST", "MID", "LAST", "FIRST"], [1, 1, 0, 1]),  # a normal end: nothing to bootstrap from
        (8, ["FIRST", "MID", "MID", "LAST", "FIRST"], [1, 1, 1, 1, 1]),  # a timeout: bootstrap
        (3, ["FIRST", "MID", "MID", "LAST", "FIRST"], [1, 1, 1, 0, 1]),  # both at once: the end counts
    ],
)
def test_alfs_table_of_step_type_and_discount(until: int, kinds: list[str], discounts: list[int]) -> None:
    """What ALF makes with ``AlfGymWrapper(gym_env)``: the recipe of the page about moving here."""
    make = lambda: GymWrapper(gymnasium.wrappers.TimeLimit(Ends(), 3), categorical_action_encoding=True)  # noqa: E731
    env = to_alf(SerialEnv(1, make))
    steps = [env.reset()]
    while len(steps) < len(kinds):
        steps.append(env.step(torch.tensor([until])))
    names = {0: "FIRST", 1: "MID", 2: "LAST"}
    assert [names[int(step.step_type)] for step in steps] == kinds
    assert [int(step.discount) for step in steps] == discounts
    assert [float(step.reward) for step in steps] == [0.0 if kind == "FIRST" else 1.0 for kind in kinds]


@pytest.mark.slow
@pytest.mark.sim
def test_atari_beside_itself() -> None:
    """Real games: the wheel of ale-py has their ROMs."""
    pytest.importorskip("ale_py", reason="needs ale-py: pip install -e '.[pettingzoo]'")
    gymnasium.register_envs(__import__("ale_py"))
    options = {
        "frameskip": 4,
        "repeat_action_probability": 0.25,
        "obs_type": "grayscale",
        "max_num_frames_per_episode": 120,
    }
    env = GymEnv("ALE/Breakout-v5", categorical_action_encoding=True, **options)
    env.auto_register_info_dict()
    check_env_specs(env)
    raw = gymnasium.make("ALE/Breakout-v5", **options)
    env.set_seed(5)
    td, (seen, info) = env.reset(), raw.reset(seed=5)
    ends = set()
    for _ in range(70):
        assert np.array_equal(td["observation"].numpy(), seen)
        assert float(td["lives"]) == info["lives"]
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        seen, reward, terminated, truncated, info = raw.step(int(data["action"]))
        assert float(data["next", "reward"]) == reward
        assert np.array_equal(data["next", "observation"].numpy(), seen)
        assert (bool(data["next", "terminated"]), bool(data["next", "truncated"])) == (terminated, truncated)
        if terminated or truncated:
            ends.add((terminated, truncated))
            seen, info = raw.reset()
    assert (False, True) in ends


def test_what_every_env_takes_but_no_wrapper_is_not_offered() -> None:
    with pytest.raises(TypeError, match="^GymEnv has no option 'group_map', and neither has the simulator; known:"):
        GymEnv("CartPole-v1", group_map=None)


@pytest.mark.parametrize("bad", [[0, 0], [1, 1], [0.5, 0.5], [0.3, 0.7], [0, 2], [0, float("nan")]])
def test_what_is_not_one_hot_is_refused(bad: list[float]) -> None:
    """Action 0 was played, or the larger one."""
    env = GymEnv("CartPole-v1")
    td = env.reset()
    with pytest.raises(IllegalAction, match=r"GymEnv.step: actions must be one-hot, got \["):
        env.step(td.clone().set("action", torch.tensor(bad)))
    env.step(td.set("action", torch.tensor([0, 0.9999999])))
    rows = SerialEnv(2, partial(GymEnv, "CartPole-v1"))
    td = rows.reset()
    with pytest.raises(IllegalAction, match="one-hot"):
        rows.step(td.set("action", torch.tensor([[0, 1], bad])))
