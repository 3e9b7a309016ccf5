"""The recipes of ``docs/migrate.md`` for Stable-Baselines3's wrappers do what those of 2.9.2 do, entry by entry."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
import torch
from sb3_courses import IMAGE, Ours, Theirs
from tensordict import TensorDict

import marlenv
from marlenv import CatFrames, Compose, FiniteTensorDictCheck, SerialEnv, TransformedEnv
from marlenv.errors import NotFinite

pytestmark = [pytest.mark.slow, pytest.mark.reference]
vec = pytest.importorskip(
    "stable_baselines3.common.vec_env", reason="needs Stable-Baselines3: VENV=.venv tests/simulators.sh sb3"
)
PAGE = (Path(__file__).parents[2] / "docs" / "migrate.md").read_text()
STEPS, ENVS = 25, 3


ACTIONS = np.random.default_rng(0).uniform(-1, 1, (STEPS, ENVS, 1)).astype(np.float32)


class Played(NamedTuple):
    """What SB3 gave: observations ``[T + 1, N, ...]``, and per step rewards, dones and infos."""

    observations: list[Any]
    rewards: np.ndarray
    dones: np.ndarray
    infos: list[list[dict[str, Any]]]

    def column(self, key: str | None = None) -> np.ndarray:
        return np.stack([one if key is None else one[key] for one in self.observations])


def dummy(*given: Any) -> Any:
    return vec.DummyVecEnv([lambda i=i: Theirs(i, *given) for i in range(ENVS)])


def theirs(env: Any) -> Played:
    copy = lambda value: {k: v.copy() for k, v in value.items()} if isinstance(value, dict) else value.copy()  # noqa: E731
    seen, rewards, dones, infos = [copy(env.reset())], [], [], []
    for action in ACTIONS:
        observation, reward, done, info = env.step(action)
        seen.append(copy(observation))
        rewards.append(reward.copy())
        dones.append(done.copy())
        infos.append(info)
    return Played(seen, np.stack(rewards), np.stack(dones), infos)


def series(*given: Any) -> SerialEnv:
    return SerialEnv(ENVS, [lambda i=i: Ours(i, *given) for i in range(ENVS)])


def ours(env: Any, see: Callable[[Any], Any] = lambda td: td) -> TensorDict:
    """A rollout under the same actions, time first; ``see`` is what stands before the policy."""
    steps = iter(ACTIONS)
    policy = lambda td: see(td).set("action", torch.from_numpy(next(steps)))  # noqa: E731
    return env.rollout(STEPS, policy, break_when_any_done=False).transpose(0, 1)


def same(
    data: TensorDict, played: Played, key: str = "observation", name: str | None = None, atol: float = 0.0
) -> None:
    """Holds that an entry of ours is theirs: observations, the last ones of episodes, rewards and flags."""
    want = played.column(name)
    got = data[key].numpy()
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want[:-1])
    done = data["next", "done"].squeeze(-1).numpy()
    assert (done == played.dones).all()
    assert done.any()
    after = data["next", key].numpy()
    for t, env in np.argwhere(done):
        info = played.infos[t][env]
        last = info["terminal_observation"]
        np.testing.assert_array_equal(after[t, env], last if name is None else last[name])
        assert info["TimeLimit.truncated"] == bool(data["next", "truncated"][t, env])
    on = ~done[:-1]
    np.testing.assert_array_equal(after[:-1][on], want[1:-1][on])


def test_the_two_envs_are_one() -> None:
    for kind in ("vector", "first", "last"):
        data, played = ours(series(kind)), theirs(dummy(kind))
        same(data, played)
        np.testing.assert_array_equal(data["next", "reward"].squeeze(-1), played.rewards)


def recipe() -> dict[str, Any]:
    """The code of the page, as it stands there."""
    code = next(block for block in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "class ReturnScaling" in block)
    names: dict[str, Any] = {}
    exec(code[: code.index("\nsee, scaling =")], names)
    return names


@pytest.mark.parametrize("key", [None, "vector"])
def test_vec_normalize(key: str | None, tmp_path: Path) -> None:
    """Observations, rewards, what was saved and loaded, and what is not measured any more."""
    names, kind = recipe(), "vector" if key is None else "dict"
    wrapped = vec.VecNormalize(dummy(kind), norm_obs_keys=None if key is None else [key], clip_obs=1.5)
    played = theirs(wrapped)
    see, scaling = names["seen_by_policy"]([2], key or "observation", 1.5), names["ReturnScaling"]()
    data = ours(TransformedEnv(series(kind), scaling), see)
    np.testing.assert_allclose(data["seen"], played.column(key)[:-1], rtol=0, atol=2e-5)
    np.testing.assert_allclose(data["next", "reward"].squeeze(-1), played.rewards, rtol=0, atol=2e-5)
    assert np.abs(played.column(key)).max() == 1.5
    assert np.abs(played.rewards).max() > 1

    wrapped.save(str(tmp_path / "theirs.pkl"))
    loaded = vec.VecNormalize.load(str(tmp_path / "theirs.pkl"), dummy(kind))
    loaded.training = False
    torch.save({"see": see.state_dict(), "scaling": scaling.state_dict()}, tmp_path / "ours.pt")
    saved = torch.load(tmp_path / "ours.pt")
    again, scales = names["seen_by_policy"]([2], key or "observation", 1.5), names["ReturnScaling"]()
    again.load_state_dict(saved["see"])
    again[0].freeze()
    scales.load_state_dict(saved["scaling"])
    scales.eval()
    env = TransformedEnv(series(kind), scales)
    last = theirs(loaded)
    data = ours(env, again)
    # theirs had measured the observation after the last step, too
    assert float(see[0].statistics(key or "observation")[2]) == pytest.approx(1e-4 + STEPS * ENVS)
    np.testing.assert_allclose(data["next", "reward"].squeeze(-1), last.rewards, rtol=0, atol=2e-5)
    again[0].unfreeze()
    again[0](TensorDict({key or "observation": torch.from_numpy(_raw(wrapped, key))}, [ENVS]))
    again[0].freeze()
    np.testing.assert_allclose(ours(env, again)["seen"], last.column(key)[:-1], rtol=0, atol=2e-5)


def _raw(wrapped: Any, key: str | None) -> np.ndarray:
    """The observation that SB3 measured last."""
    found = wrapped.get_original_obs()
    return found if key is None else found[key]


@pytest.mark.parametrize(("kind", "dim"), [("vector", -1), ("last", -1), ("first", -3)])
@pytest.mark.parametrize("n", [2, 4])
def test_vec_frame_stack(kind: str, dim: int, n: int) -> None:
    wrapped = vec.VecFrameStack(dummy(kind), n)
    env = TransformedEnv(series(kind), CatFrames(n, dim, ["observation"], padding="constant"))
    same(ours(env), theirs(wrapped))
    space, spec = wrapped.observation_space, env.observation_spec["observation"]
    assert spec.shape[1:] == space.shape
    if kind != "vector":
        assert (spec.space.low[0].numpy() == space.low).all()
        assert (spec.space.high[0].numpy() == space.high).all()


def test_vec_frame_stack_of_several_entries() -> None:
    wrapped = vec.VecFrameStack(dummy("dict"), 3, channels_order={"vector": None, "image": "last"})
    env = TransformedEnv(series("dict"), CatFrames(3, -1, ["vector", "image"], padding="constant"))
    data, played = ours(env), theirs(wrapped)
    for key in ("vector", "image"):
        same(data, played, key, key)


def test_stacked_observations_by_themselves() -> None:
    """SB3's class without an env, on the data that a rollout of the bare env stored; ours, as a transform of data."""
    bare = ours(series("last"))
    space = gymnasium.spaces.Box(0, 255, IMAGE["last"], np.uint8)
    stack = vec.StackedObservations(ENVS, 3, space)
    want = [stack.reset(bare["observation"][0].numpy()).copy()]
    for t in range(STEPS - 1):
        done = bare["next", "done"][t].squeeze(-1).numpy()
        infos = [{"terminal_observation": one} if d else {} for one, d in
                 zip(bare["next", "observation"][t].numpy(), done, strict=True)]  # fmt: skip
        made, infos = stack.update(bare["observation"][t + 1].numpy(), done, infos)
        want.append(made.copy())
    frames = CatFrames(3, -1, ["observation"], padding="constant")
    stored = frames(bare.transpose(0, 1).clone()).transpose(0, 1)
    np.testing.assert_array_equal(stored["observation"], np.stack(want))


@pytest.mark.parametrize("odd", ["observation", "reset", "reward", "action", ""])
def test_vec_check_nan(odd: str) -> None:
    """Both stop at the same call, or at none."""
    wrapped = vec.VecCheckNan(dummy("vector", odd), raise_exception=True)
    env = TransformedEnv(series("vector", odd), FiniteTensorDictCheck())
    actions = ACTIONS.copy()
    if odd == "action":
        actions[5, 1] = np.nan
    stops = []
    for play in (_steps_of_theirs, _steps_of_ours):
        count = 0
        try:
            for _ in play(wrapped if play is _steps_of_theirs else env, actions):
                count += 1
        except (ValueError, NotFinite) as error:
            stops.append((count, str(error)))
        else:
            stops.append((count, ""))
    (theirs_at, theirs_say), (ours_at, ours_say) = stops
    assert theirs_at == ours_at
    assert bool(theirs_say) == bool(ours_say) == bool(odd)
    if odd:
        word = {"reset": "observation"}.get(odd, odd)
        assert word in theirs_say
        assert repr(word) in ours_say
        assert "row" in ours_say


def _steps_of_theirs(env: Any, actions: np.ndarray) -> Any:
    yield env.reset()
    for action in actions:
        yield env.step(action)


def _steps_of_ours(env: Any, actions: np.ndarray) -> Any:
    td = env.reset()
    yield td
    for action in actions:
        _, td = env.step_and_maybe_reset(td.set("action", torch.from_numpy(action)))
        yield td


def test_vec_transpose_image() -> None:
    wrapped = vec.VecTransposeImage(dummy("last"))
    env = TransformedEnv(series("last"), marlenv.PermuteTransform((-1, -3, -2), ["observation"]))
    same(ours(env), theirs(wrapped))
    assert env.observation_spec["observation"].shape[1:] == wrapped.observation_space.shape
    of_dict = vec.VecTransposeImage(dummy("dict"))
    env = TransformedEnv(series("dict"), marlenv.PermuteTransform((-1, -3, -2), ["image"]))
    data, played = ours(env), theirs(of_dict)
    for key in ("vector", "image"):
        same(data, played, key, key)


def test_vec_monitor() -> None:
    played = theirs(vec.VecMonitor(dummy("vector")))
    data = ours(TransformedEnv(series("vector"), marlenv.RecordEpisodeStats()))
    record, finished = data["next", "episode"], 0
    for t in range(STEPS):
        for env in range(ENVS):
            said = played.infos[t][env].get("episode")
            assert (said is None) == (int(record["length"][t, env]) == 0)
            if said is not None:
                finished += 1
                assert int(record["length"][t, env]) == said["l"]
                assert float(record["return"][t, env]) == pytest.approx(float(said["r"]), abs=1e-6)
    assert finished > 10
    same(data, played)


def test_vec_extract_dict_obs() -> None:
    for key in ("vector", "image"):
        wrapped = vec.VecExtractDictObs(dummy("dict"), key)
        chain = Compose(marlenv.SelectTransform(key), marlenv.RenameTransform([key], ["observation"]))
        env = TransformedEnv(series("dict"), chain)
        same(ours(env), theirs(wrapped))
        assert env.observation_keys == ["observation"]
        assert env.observation_spec["observation"].shape[1:] == wrapped.observation_space.shape
