"""Our envs as vectorized envs of Stable-Baselines3: its DummyVecEnv beside them, its wrappers and learners on top."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import marlenv
from marlenv import SerialEnv, TransformedEnv, to_sb3_vec_env
from marlenv.errors import EnvClosed, GroupError, MarlenvError, NeedsReset, ShapeError, SpecError, SpecTypeError
from marlenv.errors import Unsupported as No
from marlenv.testing.mocks import GroupedEnv

pytestmark = [pytest.mark.slow, pytest.mark.reference]
WHERE = "needs Stable-Baselines3: VENV=.venv tests/simulators.sh sb3"
vec = pytest.importorskip("stable_baselines3.common.vec_env", reason=WHERE)
from sb3_courses import Ours, Theirs  # noqa: E402 -- they need gymnasium

STEPS, ENVS = 30, 3
PAGE = (Path(__file__).parents[2] / "docs" / "migrate.md").read_text()


def spread(num_envs: int = 4, **options: Any) -> Any:
    return marlenv.make("simple_spread", num_envs=num_envs, compile="none", **{"max_steps": 7, **options})


def equal(a: Any, b: Any) -> None:
    if isinstance(a, dict):
        assert set(a) == set(b)
        for key in a:
            equal(a[key], b[key])
    else:
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def alike(one: Any, other: Any) -> None:
    """Holds that two vectorized envs give the same under the same actions."""
    rng = np.random.default_rng(0)
    equal(one.reset(), other.reset())
    ended = 0
    for _ in range(STEPS):
        actions = rng.uniform(-1, 1, (one.num_envs, 1)).astype(np.float32)
        (a, r, d, i), (b, s, e, j) = one.step(actions), other.step(actions)
        equal(a, b)
        equal(r, s.astype(np.float32))  # SubprocVecEnv leaves them as the envs give them
        equal(d, e)
        for mine, his in zip(i, j, strict=True):
            assert set(mine) == set(his)
            assert mine["TimeLimit.truncated"] is his["TimeLimit.truncated"]
            if "terminal_observation" in mine:
                equal(mine["terminal_observation"], his["terminal_observation"])
            ended += "terminal_observation" in mine
    assert ended > ENVS


@pytest.mark.parametrize("kind", ["vector", "first", "dict"])
def test_it_gives_what_dummy_vec_env_gives(kind: str) -> None:
    """Envs that end at different steps, terminated and truncated, with vectors, images and dicts to observe."""
    ours = to_sb3_vec_env(SerialEnv(ENVS, [lambda i=i: Ours(i, kind) for i in range(ENVS)]))
    theirs = vec.DummyVecEnv([lambda i=i: Theirs(i, kind) for i in range(ENVS)])
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    alike(ours, theirs)


def test_agents_of_all_rows_are_envs() -> None:
    made, env = to_sb3_vec_env(spread()), spread()
    assert made.seed(5) == list(range(5, 17))
    env.set_seed(5)
    td, seen = env.reset(), made.reset()
    for step in range(20):
        assert np.array_equal(seen, td["agents", "observation"].reshape(12, 14).numpy()), step
        action = torch.rand(12, 2, generator=torch.Generator().manual_seed(step)) * 2 - 1
        seen, rewards, dones, infos = made.step(action.numpy())
        data, td = env.step_and_maybe_reset(td.set(("agents", "action"), action.view(4, 3, 2)))
        assert np.array_equal(rewards, data["next", "agents", "reward"].reshape(-1).numpy())
        assert dones.all() == dones.any() == ((step + 1) % 7 == 0)
        if dones.any():
            last = np.stack([info["terminal_observation"] for info in infos])
            assert np.array_equal(last, data["next", "agents", "observation"].reshape(12, 14).numpy())
            assert all(info["TimeLimit.truncated"] for info in infos)
    first = to_sb3_vec_env(spread())
    first.seed(5)
    assert np.array_equal(first.reset(), made_again(5))
    assert not np.array_equal(first.reset(), made_again(5))  # a seed is for one reset


def made_again(seed: int) -> Any:
    again = to_sb3_vec_env(spread())
    again.seed(seed)
    return again.reset()


def test_an_agent_that_dies_is_done_once() -> None:
    inner = GroupedEnv({"sheep": ["s0", "s1"]}, terminate={"s0": 2, "s1": 5}, rule="all")
    made = to_sb3_vec_env(inner)
    made.reset()
    told = [made.step(np.stack([made.action_space.sample()] * 2)) for _ in range(7)]
    assert [dones.tolist() for _, _, dones, _ in told] == [
        [False, False], [True, False], [False, False], [False, False], [True, True], [False, False], [True, False]
    ]  # fmt: skip
    assert [infos[0].get("alive", True) for *_, infos in told] == [True, True, False, False, False, True, True]
    assert all(not info["TimeLimit.truncated"] for *_, infos in told for info in infos)


def test_attributes_and_methods() -> None:
    inner = spread(2)
    made = to_sb3_vec_env(TransformedEnv(inner, marlenv.RewardSum()), "rgb_array")
    assert made.get_attr("render_mode") == ["rgb_array"] * 6
    assert made.get_attr("batch_size", [0, 3]) == [torch.Size([2])] * 2
    made.set_attr("note", "hello")
    assert made.get_attr("note", 1) == ["hello"] == made.env_method("get_wrapper_attr", "note", indices=1)
    assert made.has_attr("note")
    assert not made.has_attr("action_masks")
    with pytest.raises(AttributeError):
        made.get_attr("no_such_attribute")
    assert made.env_method("set_seed", 3) == [made.inner.set_seed(3)] * 6
    import gymnasium

    assert made.env_is_wrapped(gymnasium.Wrapper) == [False] * 6
    assert made.env_is_wrapped(marlenv.RewardSum, [0]) == [True]
    made.set_options({})
    made.reset()
    assert made.reset_infos == [{}] * 6
    images = made.get_images()
    assert len(images) == 6
    assert np.array_equal(images[0], inner.render(0))
    assert np.array_equal(images[5], inner.render(1))
    assert np.array_equal(made.render(), vec.base_vec_env.tile_images([images[0], images[3]]))
    assert np.array_equal(made.env_method("render", indices=[3])[0], images[3])
    made.step_async(np.zeros((6, 2), np.float32))
    assert made.step_wait()[0]["observation"].shape == (6, 14)
    made.close()
    assert inner.is_closed


def test_wrappers_work_on_top(tmp_path: Path) -> None:
    """The same stack of SB3's wrappers on ours and on DummyVecEnv."""

    def stack(env: Any) -> Any:
        return vec.VecFrameStack(vec.VecNormalize(vec.VecMonitor(vec.VecCheckNan(env, raise_exception=True))), 3)

    ours = stack(to_sb3_vec_env(SerialEnv(ENVS, [lambda i=i: Ours(i) for i in range(ENVS)])))
    theirs = stack(vec.DummyVecEnv([lambda i=i: Theirs(i) for i in range(ENVS)]))
    rng = np.random.default_rng(1)
    equal(ours.reset(), theirs.reset())
    episodes = 0
    for _ in range(STEPS):
        actions = rng.uniform(-1, 1, (ENVS, 1)).astype(np.float32)
        (a, r, d, i), (b, s, e, j) = ours.step(actions), theirs.step(actions)
        equal(a, b)
        equal(d, e)
        np.testing.assert_allclose(r, s, atol=1e-6)
        for mine, his in zip(i, j, strict=True):
            if "episode" in his:
                episodes += 1
                assert mine["episode"]["r"] == pytest.approx(his["episode"]["r"])
                assert mine["episode"]["l"] == his["episode"]["l"]
                equal(mine["terminal_observation"], his["terminal_observation"])
    assert episodes > ENVS


def test_extracting_an_entry_and_images() -> None:
    several = to_sb3_vec_env(SerialEnv(2, [lambda i=i: Ours(i, "dict") for i in range(2)]))
    assert vec.VecExtractDictObs(several, "vector").reset().shape == (2, 2)
    images = to_sb3_vec_env(SerialEnv(2, [lambda i=i: Ours(i, "last") for i in range(2)]))
    assert vec.VecTransposeImage(images).reset().shape == (2, 3, 36, 40)


def course(number: int, kind: str = "vector") -> Any:
    return Ours(number, kind)


POOLS = {
    "make_vec_env": lambda make: pytest.importorskip("stable_baselines3.common.env_util").make_vec_env(
        lambda: make(1), n_envs=ENVS, seed=0
    ),
    "DummyVecEnv": lambda make: vec.DummyVecEnv([lambda i=i: make(i) for i in range(ENVS)]),
    "SubprocVecEnv": lambda make: vec.SubprocVecEnv([partial(make, i) for i in range(ENVS)], "forkserver"),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # SB3's processes
def test_the_pools_of_the_table(name: str) -> None:
    """Each of SB3's ways to make many envs, and ours in its line of the page."""
    line = next(line for line in PAGE.splitlines() if f"| SB3 `{name}(" in line)
    theirs = POOLS[name](Theirs)
    number = [1] * ENVS if name == "make_vec_env" else range(ENVS)
    makers = [partial(course, i) for i in number]
    env = marlenv.ParallelEnv(ENVS, makers) if "`ParallelEnv(4, maker)`" in line else SerialEnv(ENVS, makers)
    assert ("ParallelEnv" in line) is (name == "SubprocVecEnv")
    ours = to_sb3_vec_env(env)
    if name == "make_vec_env":  # it puts a Monitor around each env, which adds to the infos
        theirs = Unmonitored(theirs)
    try:
        alike(ours, theirs)
    finally:
        ours.close()
        theirs.close()


class Unmonitored(vec.VecEnvWrapper):
    """Takes away what the Monitor of ``make_vec_env`` adds."""

    def reset(self) -> Any:
        return self.venv.reset()

    def step_wait(self) -> Any:
        seen, rewards, dones, infos = self.venv.step_wait()
        return seen, rewards, dones, [{k: v for k, v in info.items() if k != "episode"} for info in infos]


@pytest.mark.filterwarnings("ignore")  # moviepy
def test_films_of_the_table(tmp_path: Path) -> None:
    """SB3's recorder around our env, and ours as its line says: the same pictures, and a film each."""
    pytest.importorskip("moviepy", reason=WHERE)
    theirs = vec.VecVideoRecorder(
        to_sb3_vec_env(spread(1), "rgb_array"), str(tmp_path / "theirs"), lambda step: step == 0, 5
    )
    frames: list[Any] = []
    capture = theirs._capture_frame
    theirs._capture_frame = lambda: (capture(), frames.append(theirs.recorded_frames[-1]))
    logger = marlenv.CSVLogger("film", str(tmp_path / "ours"), video_format="mp4")
    recorder = marlenv.VideoRecorder(logger, "film", max_frames=6)
    render = marlenv.PixelRenderTransform(preproc=lambda image: image[None])
    env = TransformedEnv(spread(1), marlenv.Compose(render, recorder))
    recorder.frames.clear()
    theirs.seed(3)
    theirs.reset()
    env.set_seed(3)
    td = env.reset()
    for _ in range(5):
        theirs.step(np.ones((3, 2), np.float32))
        td = env.step_and_maybe_reset(td.set(("agents", "action"), torch.ones(1, 3, 2)))[1]
    assert len(frames) == len(recorder.frames) == 6
    for one, other in zip(frames, recorder.frames, strict=True):
        assert np.array_equal(one, other.movedim(-3, -1).numpy())
    recorder.dump()
    theirs.close()
    assert len(list(tmp_path.glob("theirs/*.mp4"))) == len(list(tmp_path.glob("ours/**/*.mp4"))) == 1


def test_a_wrapper_like_that_of_sb3s_documents() -> None:
    """A ``VecEnvWrapper`` of one's own, with ``VecEnvStepReturn``."""
    from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn, VecEnvWrapper

    class Halved(VecEnvWrapper):
        def reset(self) -> Any:
            return self.venv.reset()

        def step_wait(self) -> VecEnvStepReturn:
            seen, reward, done, infos = self.venv.step_wait()
            return seen, reward / 2, done, infos

    one, other = Halved(to_sb3_vec_env(spread())), to_sb3_vec_env(spread())
    for made in (one, other):
        made.seed(2)
        made.reset()
    actions = np.zeros((12, 2), np.float32)
    assert np.array_equal(one.step(actions)[1] * 2, other.step(actions)[1])
    assert one.unwrapped is one.venv
    assert one.get_attr("batch_size") == [torch.Size([4])] * 12


def test_ppo_improves_on_simple_spread() -> None:
    from stable_baselines3 import PPO
    from stable_baselines3.common.evaluation import evaluate_policy

    made = vec.VecMonitor(to_sb3_vec_env(marlenv.make("simple_spread", num_envs=16, max_steps=25, compile="none")))
    made.seed(0)
    model = PPO("MlpPolicy", made, n_steps=100, batch_size=1200, n_epochs=8, learning_rate=1e-3, gamma=0.95, seed=0,
                device="cpu", policy_kwargs={"net_arch": [64, 64]})  # fmt: skip
    before = evaluate(evaluate_policy, model)
    model.learn(150_000)
    after = evaluate(evaluate_policy, model)
    assert after > before + 5, (before, after)


def evaluate(evaluate_policy: Any, model: Any) -> float:
    made = vec.VecMonitor(to_sb3_vec_env(marlenv.make("simple_spread", num_envs=32, max_steps=25, compile="none")))
    made.seed(100)
    return float(evaluate_policy(model, made, n_eval_episodes=192, deterministic=False)[0])


def test_maskable_ppo_learns_connect_four() -> None:
    contrib = pytest.importorskip("sb3_contrib", reason=WHERE)

    def game(num_envs: int) -> Any:
        return to_sb3_vec_env(marlenv.make("connect_four", num_envs=num_envs, opponent="random", seed=0))

    made = game(32)
    model = contrib.MaskablePPO("MlpPolicy", made, n_steps=64, batch_size=512, n_epochs=4, seed=0, device="cpu",
                                learning_rate=1e-3, gamma=0.97)  # fmt: skip
    before = won(model, game(64))
    model.learn(80_000)
    after = won(model, game(64))
    assert after > 0.85 > before + 0.1, (before, after)


def won(model: Any, games: Any, number: int = 512) -> float:
    """The share of games that are won; only legal moves are ever played, or the env would raise."""
    games.seed(1)
    seen, ends = games.reset(), []
    while len(ends) < number:
        masks = np.stack(games.env_method("action_masks"))
        seen, rewards, dones, _ = games.step(model.predict(seen, action_masks=masks)[0])
        ends += rewards[dones].tolist()
    return float(np.mean(np.array(ends) > 0))


def no_bounds() -> Any:
    env = Ours(0)
    env.action_spec = marlenv.Unbounded((1,))
    return env


def steps(count: int) -> Any:
    env = Ours(0)
    env.action_spec = marlenv.Bounded(0, count, (2,), dtype=torch.int64)
    return env


def closed() -> Any:
    env = spread()
    made = to_sb3_vec_env(env)
    env.close()
    return made.reset()


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: to_sb3_vec_env("simple_spread"), SpecTypeError, "expected an env of marlenv, got str"),
        (lambda: to_sb3_vec_env(marlenv.make("simple_tag")), SpecTypeError, "one group, acts, got actions"),
        (lambda: to_sb3_vec_env(marlenv.make("simple_speaker_listener", group_map="ALL_IN_ONE_GROUP")), GroupError,
         "agents of group 'agents' differ, and every agent is one of many equal envs here; put them into groups"),
        (lambda: to_sb3_vec_env(marlenv.make("chess", opponent="random")), SpecError, "'white' must be bool .4672."),
        (lambda: to_sb3_vec_env(no_bounds()), SpecError, "'action' has no bounds"),
        (lambda: to_sb3_vec_env(steps(3)), SpecError, "'action' is whole numbers"),
        (lambda: to_sb3_vec_env(spread(), "human"), No, r"render_mode must be one of .* got 'human'"),
        (lambda: to_sb3_vec_env(spread()).step(np.zeros((12, 2))), NeedsReset, "reset"),
        (lambda: to_sb3_vec_env(spread()).step(np.zeros((4, 2))), ShapeError, "expected 12 actions, one for each env"),
        (lambda: to_sb3_vec_env(spread()).set_attr("x", 1, [0]), No, r"reaches all rows, .* got indices=\[0\]; leave"),
        (lambda: to_sb3_vec_env(spread()).env_method("set_seed", 1, indices=0), No, "reaches all rows"),
        (closed, EnvClosed, "closed"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, kind: type[MarlenvError], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()
