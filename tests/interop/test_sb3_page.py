"""Stable-Baselines3's page of vectorized envs, name by name: each is held by our ``VecEnv``, or answered elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import marlenv
from marlenv import SerialEnv, TransformedEnv, to_sb3_vec_env
from marlenv.errors import Unsupported
from marlenv.testing.mocks import CountingEnv, GroupedEnv

pytestmark = [pytest.mark.slow, pytest.mark.reference]
WHERE = "needs Stable-Baselines3: VENV=.venv tests/simulators.sh sb3"
vec = pytest.importorskip("stable_baselines3.common.vec_env", reason=WHERE)
HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "migrate.md").read_text()
EXPORT = (HERE / "test_sb3_export.py").read_text()


def spread(**options: Any) -> Any:
    return marlenv.make("simple_spread", num_envs=2, compile="none", **{"max_steps": 3, **options})


def made(mode: str | None = None) -> Any:
    return to_sb3_vec_env(spread(), mode)


ZEROS = np.zeros((6, 2), np.float32)


def a_stack_of_envs() -> None:
    env = made()
    assert isinstance(env, vec.VecEnv)
    assert env.num_envs == 6
    assert env.action_space.shape == (2,)


def boxes() -> None:
    assert type(made().observation_space).__name__ == "Box"


def choices() -> None:
    env = to_sb3_vec_env(spread(continuous_actions=False))
    env.reset()
    assert env.action_space.n == 9
    assert env.step(np.arange(6))[0].shape == (6, 14)


def dicts() -> None:
    env = to_sb3_vec_env(TransformedEnv(spread(), marlenv.StepCounter()))
    assert type(env.observation_space).__name__ == "Box"  # what is at the root is no agent's
    env = to_sb3_vec_env(TransformedEnv(CountingEnv(batch_size=[3]), marlenv.StepCounter()))
    assert set(env.reset()) == {"observation", "step_count"}


def tuples() -> None:
    """Our entries have names: those of a tuple are their places."""
    import gymnasium
    from gymnasium.spaces import Box, Discrete, Tuple

    class Pair(gymnasium.Env):  # type: ignore[type-arg]
        observation_space, action_space = Tuple([Box(0, 1, (2,)), Discrete(3)]), Discrete(2)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return (np.full(2, 0.5, np.float32), 1), {}

    env = to_sb3_vec_env(SerialEnv(2, lambda: marlenv.GymWrapper(Pair())))
    observations = env.reset()
    assert observations["0"].tolist() == [[0.5, 0.5]] * 2
    assert observations["1"].tolist() == [1, 1]


def processes() -> None:
    env = to_sb3_vec_env(marlenv.ParallelEnv(2, [CountingEnv, CountingEnv]))
    try:
        assert env.reset().shape == (2, 1)
    finally:
        env.close()


def reset_gives_observations_alone() -> None:
    env = made()
    assert isinstance(env.reset(), np.ndarray)
    assert env.reset_infos == [{}] * 6


def one_reset_is_enough() -> None:
    env = made()
    env.reset()
    for _ in range(10):
        env.step(ZEROS)


def step_gives_four() -> None:
    env = made()
    env.reset()
    observations, rewards, dones, infos = env.step(ZEROS)
    assert (observations.shape, observations.dtype) == ((6, 14), np.float32)
    assert (rewards.shape, rewards.dtype) == ((6,), np.float32)
    assert (dones.shape, dones.dtype) == ((6,), np.bool_)
    assert isinstance(infos, list)
    assert len(infos) == 6


def ends() -> tuple[Any, list[Any]]:
    """A row that terminates after two steps beside one that is cut off after three."""
    single = [TransformedEnv(CountingEnv(n), marlenv.TimeLimit(3)) for n in (2, 9)]
    env = to_sb3_vec_env(SerialEnv(2, [lambda one=one: one for one in single]))
    env.reset()
    return env, [env.step(np.zeros((2, 1), np.float32)) for _ in range(3)]


def done_is_terminated_or_truncated() -> None:
    _, steps = ends()
    assert [dones.tolist() for _, _, dones, _ in steps] == [[False, False], [True, False], [False, True]]


def a_time_limit_is_told_apart() -> None:
    """And the page's conversion to Gymnasium's flags."""
    _, steps = ends()
    told = [[info["TimeLimit.truncated"] for info in infos] for *_, infos in steps]
    assert told == [[False, False], [False, False], [False, True]]
    terminated = [
        [bool(d and not t) for d, t in zip(step[2], cut, strict=True)] for step, cut in zip(steps, told, strict=True)
    ]
    assert terminated == [[False, False], [True, False], [False, False]]


def the_last_observation_is_kept() -> None:
    _, steps = ends()
    first, last = steps[1][0], steps[1][3][0]["terminal_observation"]
    assert (last["observation"].tolist(), first["observation"][0].tolist()) == ([2.0], [0.0])


def seeds_are_for_one_reset() -> None:
    env = made()
    env.seed(3)
    one, two = env.reset(), env.reset()
    env.seed(3)
    assert np.array_equal(env.reset(), one)
    assert not np.array_equal(one, two)


def options_are_for_one_reset() -> None:
    env = made()
    env.set_options({})
    env.reset()
    assert env._options == [{}] * 6
    env.set_options([{"a": i} for i in range(6)])
    with pytest.raises(Unsupported, match="set_options takes one dict for all"):
        env.reset()


def render_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default mode, its name, and OpenCV's window otherwise."""
    cv2 = pytest.importorskip("cv2")
    shown: list[Any] = []
    monkeypatch.setattr(cv2, "imshow", lambda name, image: shown.append(image))
    monkeypatch.setattr(cv2, "waitKey", lambda wait: None)
    env = made("rgb_array")
    env.reset()
    assert env.render_mode == "rgb_array"
    assert np.array_equal(env.render(), env.render("rgb_array"))
    assert env.render("human") is None
    assert np.array_equal(shown[0][..., ::-1], vec.base_vec_env.tile_images(env.get_images()))


def no_render_mode() -> None:
    env = made()
    env.reset()
    assert env.render_mode is None
    with pytest.warns(UserWarning, match="no `render_mode` was passed"):
        assert env.render() is None


def attributes() -> None:
    env = made()
    env.set_attr("mu", 0.5)
    assert env.get_attr("mu") == [0.5] * 6
    assert env.has_attr("mu")
    assert env.env_method("get_wrapper_attr", "mu", indices=[1]) == [0.5]


class MultiTask(GroupedEnv):
    """An env with a number that is set while it plays, and holds from the next reset on."""

    mu = 0.1

    def set_mu(self, new_mu: float) -> None:
        self.mu = new_mu


def a_setter_in_a_callback() -> None:
    """The page's ``ChangeMuCallback``, in a short training."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback

    class ChangeMuCallback(BaseCallback):
        def __init__(self) -> None:
            super().__init__()
            self.mus = cycle([0.1, 0.2, 0.5, 0.13, 0.9])
            self.seen: list[float] = []

        def _on_step(self) -> bool:
            self.training_env.env_method("set_mu", next(self.mus))
            self.seen += self.training_env.env_method("get_wrapper_attr", "mu", indices=0)
            return True

    callback = ChangeMuCallback()
    env = to_sb3_vec_env(MultiTask(batch_size=[2]))
    PPO("MlpPolicy", env, n_steps=4, batch_size=8, device="cpu").learn(24, callback)
    assert callback.seen == [0.1, 0.2, 0.5, 0.13]


def wrapped() -> None:
    import gymnasium
    from stable_baselines3.common.monitor import Monitor

    env = to_sb3_vec_env(TransformedEnv(spread(), marlenv.RewardSum()))
    assert env.env_is_wrapped(Monitor) == env.env_is_wrapped(gymnasium.Wrapper) == [False] * 6
    assert env.env_is_wrapped(marlenv.RewardSum) == [True] * 6


def steps_in_two_halves() -> None:
    env = made()
    env.reset()
    env.step_async(ZEROS)
    assert len(env.step_wait()) == 4


def images() -> None:
    env = made("rgb_array")
    env.reset()
    assert [image.dtype for image in env.get_images()] == [np.uint8] * 6
    assert made().get_images() == [None] * 6


def unwrapped() -> None:
    env = made()
    assert env.unwrapped is env
    assert env.getattr_depth_check("reset", False) is None
    assert list(env._get_indices(None)) == list(range(6))


HELD: dict[str, Callable[..., None]] = {
    "VecEnv": a_stack_of_envs, "num_envs": a_stack_of_envs, "action_space": a_stack_of_envs,
    "observation_space": boxes, "Box": boxes, "Discrete": choices, "Dict": dicts, "Tuple": tuples,
    "Multi Processing": processes, "reset": reset_gives_observations_alone,
    "reset_infos": reset_gives_observations_alone,
    "automatic reset": one_reset_is_enough, "step": step_gives_four, "infos": step_gives_four,
    "dones": done_is_terminated_or_truncated, "TimeLimit.truncated": a_time_limit_is_told_apart,
    "terminated": a_time_limit_is_told_apart, "should_bootstrap": a_time_limit_is_told_apart,
    "terminal_observation": the_last_observation_is_kept, "seed": seeds_are_for_one_reset,
    "set_options": options_are_for_one_reset, "render_mode": render_modes, "render": render_modes,
    "render without a mode": no_render_mode, "get_images": images, "get_attr": attributes, "set_attr": attributes,
    "has_attr": attributes, "env_method": attributes, "get_wrapper_attr": attributes,
    "ChangeMuCallback": a_setter_in_a_callback, "set_mu": a_setter_in_a_callback,
    "training_env": a_setter_in_a_callback, "env_is_wrapped": wrapped, "Monitor": wrapped, "gym.Wrapper": wrapped,
    "step_async": steps_in_two_halves, "step_wait": steps_in_two_halves, "unwrapped": unwrapped,
}  # fmt: skip
"""What the page says of ``VecEnv`` itself, and what holds it of ours."""

ELSEWHERE = {
    "VecEnvWrapper": "test_a_wrapper_like_that_of_sb3s_documents",
    "VecEnvStepReturn": "test_a_wrapper_like_that_of_sb3s_documents",
    "VecExtractDictObs": "test_extracting_an_entry_and_images",
    "VecTransposeImage": "test_extracting_an_entry_and_images",
    "VecFrameStack": "test_wrappers_work_on_top",
    "StackedObservations": "test_wrappers_work_on_top",
    "VecNormalize": "test_wrappers_work_on_top",
    "VecMonitor": "test_wrappers_work_on_top",
    "VecCheckNan": "test_wrappers_work_on_top",
    "make_vec_env": "test_the_pools_of_the_table",
    "DummyVecEnv": "test_the_pools_of_the_table",
    "SubprocVecEnv": "test_the_pools_of_the_table",
    "VecVideoRecorder": "test_films_of_the_table",
}
"""What stands around a ``VecEnv``: SB3's own works on ours, and ours answers it by a line of docs/migrate.md."""
NO_LINE = {"VecEnvWrapper", "VecEnvStepReturn"}  # for users to derive from and to annotate with


@pytest.mark.parametrize("name", HELD)
def test_a_name_of_the_page_holds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check = HELD[name]
    check(monkeypatch) if check is render_modes else check()


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_stands_around_is_tested_and_answered(name: str) -> None:
    assert f"def {ELSEWHERE[name]}(" in EXPORT
    assert name in NO_LINE or re.search(rf"^\| SB3 [^|]*`{name}\b", PAGE, re.M)


def test_no_method_of_sb3s_class_is_left_out() -> None:
    """What ``VecEnv`` has in public is in the table, so that a later version of SB3 is looked at."""
    public = {name for name in vars(vec.VecEnv) if not name.startswith("_")} - {"metadata", "close"}
    assert public - set(HELD) == {"getattr_depth_check"}
