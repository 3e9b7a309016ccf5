"""Infos of vectors of gym's: those of a step are of the episode of the step, those of a reset of the next one."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from marlenv.errors import ResetError, Unsupported
from marlenv.specs import Unbounded
from marlenv.wrappers import GymEnv, GymWrapper, default_info_dict_reader
from marlenv.wrappers.gym.vector_infos import columns

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install -e '.[gymnasium]'")
vector = gymnasium.vector
MODES = ["NEXT_STEP", "SAME_STEP", "DISABLED"]


class Kept(gymnasium.Wrapper):
    """Infos of all kinds: from resets and steps, from one of them, in some steps only, arrays and nested dicts."""

    def reset(self, **options: Any) -> Any:
        self.at, self.episode = 0, getattr(self, "episode", 0) + 1
        obs, _ = self.env.reset(**options)
        return obs, {"at": 0, "episode": self.episode, "began": 1.0, "pair": np.array([self.episode, 0])}

    def step(self, action: Any) -> Any:
        *out, _ = self.env.step(action)
        self.at += 1
        info = {"at": self.at, "episode": self.episode, "pair": np.array([self.episode, self.at])}
        if out[2] or out[3]:
            info["score"] = float(self.at)
        if self.at % 2:
            info["odd"] = {"at": self.at}
        return *out, info


def make(**options: Any) -> Any:
    return Kept(gymnasium.make("CartPole-v1", **options))


KEYS = {"at": (), "episode": (), "began": (), "score": (), "pair": (2,)}


def told(info: dict[str, Any]) -> list[Any]:
    return [np.asarray(info.get(key, np.zeros(shape)), dtype=np.float32).tolist() for key, shape in KEYS.items()]


def shown(td: Any) -> list[Any]:
    return [td[key].tolist() for key in KEYS]


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", MODES)
def test_infos_are_those_of_the_episode_of_the_step(mode: str, processes: bool) -> None:
    cls = vector.AsyncVectorEnv if processes else vector.SyncVectorEnv
    makers = [partial(make, max_episode_steps=limit) for limit in (500, 7, 12)]  # ends of both kinds, not all at once
    env = GymWrapper(cls(makers, autoreset_mode=vector.AutoresetMode[mode]), categorical_action_encoding=True)
    env.set_info_dict_reader(default_info_dict_reader(spec={key: Unbounded(shape) for key, shape in KEYS.items()}))
    env.set_seed(5)
    rows = [one() for one in makers]
    td, infos = env.reset(), [row.reset(seed=5 + i)[1] for i, row in enumerate(rows)]
    ends = set()
    for _ in range(60):
        for i, info in enumerate(infos):
            assert shown(td[i]) == told(info), (mode, i)
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        for i, row in enumerate(rows):
            _, _, terminated, truncated, infos[i] = row.step(int(data["action"][i]))
            assert shown(data["next"][i]) == told(infos[i]), (mode, i)
            if terminated or truncated:
                ends.add(bool(terminated))
                assert float(data["next", "score"][i]) > 0
                infos[i] = row.reset()[1]
    assert ends == {True, False}
    env.close()


@pytest.mark.parametrize(("mode", "later"), [("NEXT_STEP", 2), ("DISABLED", 2), ("SAME_STEP", 1)])
@pytest.mark.parametrize("key", ["episode", "stats"])
def test_statistics_of_gymnasium_are_those_of_the_episodes(mode: str, later: int, key: str) -> None:
    """Gymnasium's vectors take the mask out of the options before its wrappers around them have looked. With SAME_STEP,
    gymnasium itself leaves out the first step of all episodes but the first.
    """
    makers = [partial(gymnasium.make, "CartPole-v1", max_episode_steps=limit) for limit in (2, 5)]
    inner = vector.SyncVectorEnv(makers, autoreset_mode=vector.AutoresetMode[mode])
    counted = gymnasium.wrappers.vector.RecordEpisodeStatistics(inner, stats_key=key)
    env, ends = GymWrapper(counted), []

    def read(info: Any, td: Any) -> None:
        for i in np.flatnonzero(info.get(f"_{key}", [])):
            ends.append((int(i), float(info[key]["r"][i]), "reward" in td))

    env.set_info_dict_reader(read)
    data = env.rollout(7, break_when_any_done=False)["next"]
    assert data["done"].squeeze(-1).int().tolist() == [[0, 1, 0, 1, 0, 1, 0], [0, 0, 0, 0, 1, 0, 0]]
    paid = [(0, 2), (0, later), (1, 5), (0, later)]  # the pole pays one for each step
    assert ends == [(*one, True) for one in paid]  # said with the step, not with the reset


@pytest.mark.slow
def test_infos_of_a_vector_of_ataris_that_has_none_of_ends_are_those_of_resets() -> None:
    gymnasium.register_envs(pytest.importorskip("ale_py", reason="needs ale-py: pip install -e '.[pettingzoo]'"))
    options = {"num_threads": 1, "noop_max": 0, "max_num_frames_per_episode": 40, "autoreset_mode": "SameStep"}
    raw, inner = (gymnasium.make_vec("ALE/Breakout-v5", num_envs=1, **options) for _ in range(2))
    env = GymWrapper(inner, categorical_action_encoding=True).auto_register_info_dict()
    env.set_seed(3)
    td, ends, names = env.reset(), 0, ["lives", "frame_number", "episode_frame_number"]
    raw.reset(seed=3)
    for _ in range(25):
        data, td = env.step_and_maybe_reset(td.set("action", torch.zeros(1, dtype=torch.int64)))
        _, _, _, ended, infos = raw.step(np.zeros(1, dtype=np.int64))
        told = [int(infos[name][0]) for name in names]
        assert [int(td[name]) for name in names] == told
        assert [int(data["next", name]) for name in names] == ([0, 0, 0] if ended[0] else told)
        ends += int(ended[0])
    assert ends == 2


def test_rows_see_the_options_of_a_reset_without_its_mask() -> None:
    class Asked(gymnasium.Wrapper):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            self.asked = {**(options or {})}
            return self.env.reset(seed=seed)

    rows = [Asked(make()) for _ in range(2)]
    env = GymWrapper(
        gymnasium.wrappers.vector.RecordEpisodeStatistics(vector.SyncVectorEnv([lambda i=i: rows[i] for i in range(2)]))
    )
    td = env.reset()
    env.reset(td.set("_reset", torch.tensor([[True], [False]])), options={"low": 0.5})
    assert [row.asked for row in rows] == [{"low": 0.5}, {}]


@pytest.mark.parametrize("mode", MODES)
def test_infos_that_gymnasium_lists_by_row_are_read_too(mode: str) -> None:
    rollouts = []
    for wrap in (lambda env: env, gymnasium.wrappers.vector.DictInfoToList):
        rows = [partial(make, max_episode_steps=limit) for limit in (2, 3)]
        env = GymWrapper(wrap(vector.SyncVectorEnv(rows, autoreset_mode=vector.AutoresetMode[mode])))
        env.set_info_dict_reader(default_info_dict_reader(spec={key: Unbounded(shape) for key, shape in KEYS.items()}))
        env.set_seed(0)
        torch.manual_seed(0)
        rollouts.append(env.rollout(7, break_when_any_done=False))
    assert rollouts[0]["next", "at"].tolist() == [[1, 2, 1, 2, 1, 2, 1], [1, 2, 3, 1, 2, 3, 1]]
    assert bool((rollouts[0] == rollouts[1]).all())


def test_a_reader_of_ones_own_finds_nested_infos_of_the_episode_of_the_step() -> None:
    env = GymWrapper(vector.SyncVectorEnv([partial(make, max_episode_steps=3)] * 2, autoreset_mode="SameStep"))
    env.set_info_dict_reader(
        lambda info, td: td.set("odd", torch.as_tensor(np.asarray(info.get("odd", {}).get("at", [0, 0]))))
    )
    data = env.rollout(6, break_when_any_done=False)
    assert data["next", "odd"].tolist() == [[1, 0, 3, 1, 0, 3]] * 2
    assert data["odd"].tolist() == [[0, 1, 0, 0, 1, 0]] * 2


def test_infos_that_come_as_a_dict_for_each_row_are_columns() -> None:
    """As vectors of gym 0.21 give them."""
    found = columns([{"lives": 2, "who": "a", "deep": {"x": np.ones(2)}}, {"lives": 3.5}, None])
    assert found["lives"].tolist() == [2, 3.5, 0]
    assert found["_who"].tolist() == [True, False, False]
    assert found["who"].tolist() == ["a", None, None]
    assert found["deep"]["x"].tolist() == [[1, 1], [0, 0], [0, 0]]


def test_a_final_observation_that_is_missing_in_a_row_is_an_error() -> None:
    class Forgets(vector.VectorWrapper):
        def step(self, actions: Any) -> Any:
            *out, info = self.env.step(actions)
            if "final_obs" in info:
                info["_final_obs"] = np.zeros(2, dtype=bool)
            return *out, info

    env = GymWrapper(Forgets(vector.SyncVectorEnv([partial(make, max_episode_steps=2)] * 2, autoreset_mode="SameStep")))
    with pytest.raises(ResetError, match=r"started rows \[0, 1\] anew and gave no final observation"):
        env.rollout(3)


def test_pictures_of_the_last_step_are_not_to_be_had_where_rows_start_anew_in_it() -> None:
    with pytest.raises(Unsupported, match="from_pixels.*starts rows anew in the step in which they end.*NEXT_STEP"):
        GymEnv("CartPole-v1", num_envs=2, from_pixels=True, vector_kwargs={"autoreset_mode": "SameStep"})
