"""Habitat and RoboHive through their wrappers, on stand-ins with their public surface (``stand_in_gym_suites.py``)."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
import stand_in_gym_suites as suites
import torch

import marlenv
from marlenv import EnvCreator, SerialEnv, check_env_specs, default_info_dict_reader
from marlenv.errors import (
    DeviceError,
    EnvClosed,
    MissingExtra,
    NeedsReset,
    SpecError,
    SpecTypeError,
    UnknownName,
    Unsupported,
)
from marlenv.testing import run_contract
from marlenv.wrappers import HabitatEnv, RoboHiveEnv

pytestmark = [pytest.mark.sim, pytest.mark.filterwarnings("ignore")]  # gym says that it is not maintained
PICK, REACH = "HabitatRenderPick-v0", "FrankaReachRandom-v0"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    suites.habitat(monkeypatch)
    suites.robohive(monkeypatch)


def test_every_number_is_habitats() -> None:
    import gym

    env, raw = HabitatEnv(PICK), gym.make(PICK, override_options=[])
    env.set_seed(3)
    raw.seed(3)
    td, seen, steps = env.reset(), raw.reset(), 0
    ends = set()
    for _ in range(80):
        assert np.array_equal(td["joint"], seen["joint"])
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        seen, reward, done, _ = raw.step(data["action"].numpy())
        steps += 1
        assert float(data["next", "reward"]) == np.float32(reward)
        flags = [bool(data["next", name]) for name in ("terminated", "truncated", "done")]
        out = bool(seen["joint"][0] > 1)
        assert flags == [out, steps == 7 and not out, done]
        assert np.array_equal(data["next", "joint"], seen["joint"])
        if done:
            ends.add((*flags[:2], steps == 7))
            seen, steps = raw.reset(), 0
    assert {(True, False, False), (False, True, True)} <= ends


STAY, OUT, WIN = [0.0, 0.0], [0.6, 0.0], [0.0, 0.6]


@pytest.mark.parametrize(
    ("actions", "options", "ends"),
    [
        ([STAY] * 7, [], "truncated"),
        ([STAY] * 3, ["habitat.environment.max_episode_steps=3"], "truncated"),
        ([OUT] * 2, [], "terminated"),
        ([*[STAY] * 5, OUT, OUT], [], "terminated"),  # in the step of the limit
        ([WIN] * 7, [], "truncated"),  # a success is no end of this task
        ([WIN] * 2, ["habitat.task.end_on_success=True"], "terminated"),
        ([*[STAY] * 5, WIN, WIN], ["habitat.task.end_on_success=True"], "terminated"),
        ([STAY] * 7, ["habitat.task.end_on_success=True"], "truncated"),
    ],
)
def test_the_limit_of_habitat_truncates(actions: Any, options: list[str], ends: str) -> None:
    env = HabitatEnv(PICK, override_options=options)
    td = env.reset()
    for i, action in enumerate(actions, 1):
        data = env.step(td.set("action", torch.tensor(action)))["next"]
        flags = {name for name in ("terminated", "truncated", "done") if data[name]}
        assert flags == ({ends, "done"} if i == len(actions) else set())
        td = env.step_mdp(td)


def test_habitat_is_told_where_to_draw_and_what_else() -> None:
    env = HabitatEnv(PICK, override_options=["habitat.seed=3"], device="cpu")
    asked = env._env.unwrapped.override_options
    assert asked[0] == "habitat.simulator.habitat_sim_v0.gpu_device_id=0"
    assert asked[1:] == ["habitat.simulator.concur_render=False", "habitat.seed=3"]
    assert env.reset().device == torch.device("cpu")
    drawn = HabitatEnv(PICK, from_pixels=True, pixels_only=False, categorical_action_encoding=True)
    check_env_specs(drawn)
    assert drawn.reset()["pixels"].shape == (6, 5, 3)
    assert HabitatEnv.available_envs == [PICK]


def test_every_number_is_robohives() -> None:
    env, raw = RoboHiveEnv(REACH), suites.Reach()
    env.set_seed(3)
    raw.seed(3)
    td = env.reset()
    raw.reset()
    check = {"qp": torch.float64, "time": torch.float64}
    assert {name: td[name].dtype for name in check} == check
    assert "unused" not in td.keys()
    for step in range(1, 13):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        _, reward, solved, _, _ = raw.step(data["action"].numpy())
        after = data["next"]
        assert np.array_equal(after["qp"], raw.at)
        assert np.array_equal(after["time"], [raw.obs_dict["time"]])
        assert float(after["reward"]) == np.float32(reward)
        assert bool(after["truncated"]) is (step % 5 == 0)
        assert bool(after["terminated"]) is solved
        if step % 5 == 0:
            raw.reset()
            assert np.array_equal(td["qp"], raw.at)
    before = td["qp"].clone()
    env.step(env.rand_action(td))
    assert torch.equal(td["qp"], before)  # what it observes is written again by RoboHive


def test_cameras_of_robohive() -> None:
    env = RoboHiveEnv(REACH, from_pixels=True, from_depths=True, picture_size=(4, 6))
    check_env_specs(env)
    env.set_seed(0)
    data = env.rollout(3)["next"]
    assert set(data.keys()) == {"pixels", "depths", "reward", "done", "terminated", "truncated"}
    assert data["pixels"].shape == (3, 2, 4, 6, 3)
    assert data["pixels"][:, :, 0, 0, 0].tolist() == [[1, 101], [2, 102], [3, 103]]
    assert data["depths"].shape == (3, 2, 1, 4, 6)
    both = RoboHiveEnv(REACH, from_pixels=True, pixels_only=False, cameras=["side"], picture_size=(4, 6))
    td = both.reset()
    assert td["pixels"].shape == (1, 4, 6, 3)
    assert td["pixels"].unique().tolist() == [100]
    assert "qp" in td.keys()
    assert RoboHiveEnv.get_available_cams(REACH) == ["top", "side"]


def test_infos_of_robohive_are_read_on_request() -> None:
    env = RoboHiveEnv(REACH).set_info_dict_reader(default_info_dict_reader(["solved", "rwd_dense"]))
    env.set_seed(0)
    data = env.rollout(3)["next"]
    assert torch.allclose(data["rwd_dense"].flatten(), data["reward"].flatten())
    check_env_specs(env)


@pytest.mark.parametrize("make", [partial(HabitatEnv, PICK), partial(RoboHiveEnv, REACH)])
def test_the_contract_holds(make: Any) -> None:
    results = run_contract(lambda: make(), steps=12)  # noqa: PLW0108 - gym's own vectors cannot reset single rows
    assert not [f"{r.name}: {r.says}" for r in results if r.verdict == "broken"]


@pytest.mark.parametrize("make", [partial(HabitatEnv, PICK), partial(RoboHiveEnv, REACH)])
def test_it_is_seeded_sent_to_others_skips_frames_and_closes(make: Any) -> None:
    pool = SerialEnv(2, EnvCreator(make))
    rollouts = []
    for _ in range(2):
        pool.set_seed(1)
        rollouts.append(pool.rollout(4))
    assert bool((rollouts[0] == rollouts[1]).all())
    env, twin = make(frame_skip=2), make()
    for one in (env, twin):
        one.set_seed(0)
    with pytest.raises(NeedsReset):
        env.step(env.rand_action())
    td, other = env.rand_action(env.reset()), twin.reset()
    total: Any = 0
    for _ in range(2):
        other = twin.step(other.set("action", td["action"].clone()))
        total, over, other = total + other["next", "reward"], bool(other["next", "done"]), twin.step_mdp(other)
        if over:
            break
    assert torch.equal(env.step(td)["next", "reward"], total)
    env.close()
    with pytest.raises(EnvClosed):
        env.reset()


def test_they_have_names() -> None:
    assert marlenv.make(f"habitat/{PICK}", num_envs=2).rollout(2, break_when_any_done=False)["joint"].shape == (2, 2, 3)
    assert marlenv.make(f"robohive/{REACH}", num_envs=2).rollout(2, break_when_any_done=False)["qp"].shape == (2, 2, 2)


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: HabitatEnv("HabitatPick-v0"), UnknownName, "no env 'HabitatPick-v0'; did you mean 'HabitatRenderPick"),
        (lambda: RoboHiveEnv("FrankaReach-v0"), UnknownName, "no env 'FrankaReach-v0'; did you mean 'FrankaReachRan"),
        (lambda: HabitatEnv(PICK, device="nope"), DeviceError, "^HabitatEnv: 'nope' is no device; use 'cpu'"),
        (lambda: HabitatEnv(PICK, override_options="a=b"), SpecTypeError, "must be a list of settings, got 'a=b'"),
        (lambda: HabitatEnv(PICK, override_option=[]), TypeError, "did you mean 'override_options'"),
        (lambda: RoboHiveEnv(REACH, picture_size=3), SpecError, "picture_size must be height and width, got 3"),
        (lambda: RoboHiveEnv(REACH, picture_size=(3, 0)), SpecError, "width of pictures must be an integer from 1"),
        (lambda: RoboHiveEnv(REACH, from_depths=True), SpecError, "from_depths=True needs from_pixels=True"),
        (lambda: RoboHiveEnv(REACH, cameras=["top"]), SpecError, r"cameras=\['top'\] needs from_pixels=True"),
        (
            lambda: RoboHiveEnv(REACH, from_pixels=True, cameras=[]),
            SpecError,
            r"a list of cameras, got \[\]; get_avail",
        ),
        (lambda: RoboHiveEnv(REACH, from_pixels=True, cameras="top"), SpecError, "a list of cameras, got 'top'"),
        (lambda: RoboHiveEnv(REACH, num_envs=4), Unsupported, "no vectors, got num_envs=4; SerialEnv and ParallelEnv"),
        (lambda: RoboHiveEnv(REACH, num_envs=-1), SpecError, "num_envs must be an integer from 0 on, got -1"),
    ],
)
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()


@pytest.mark.parametrize(
    ("made", "module", "how"),
    [
        (lambda: HabitatEnv(PICK), "habitat.gym", "https://github.com/facebookresearch/habitat-lab"),
        (lambda: RoboHiveEnv(REACH), "robohive", "pip install robohive"),
    ],
)
def test_a_missing_simulator_is_named(made: Any, module: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"Env needs '{module.partition('.')[0]}', which is not installed; .*{how}"):
        made()
