"""Isaac Gym's and Isaac Lab's wrappers, beside stand-ins that are stepped by hand."""

from __future__ import annotations

import pickle
import sys
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from stand_in_isaac import Ant, Choosing, Direct, ManagerBased, Remembering, installed, lab_installed

from marlenv import EnvCreator, IsaacGymEnv, IsaacGymWrapper, IsaacLabWrapper, check_env_specs
from marlenv.errors import (
    DtypeError,
    IllegalAction,
    KeyCollision,
    KeyMissing,
    MissingExtra,
    NeedsReset,
    ShapeError,
    SpecError,
    SpecTypeError,
    UnknownName,
    Unsupported,
)
from marlenv.testing import run_contract

MADE = [(IsaacGymWrapper, Ant, "obs"), (IsaacLabWrapper, ManagerBased, "policy"), (IsaacLabWrapper, Direct, "policy")]


def test_every_number_is_isaac_gyms_and_the_last_observation_is_kept() -> None:
    env, raw = IsaacGymWrapper(Ant()), Ant()
    td = env.reset()
    raw.reset_idx(torch.arange(4))
    ends = [0, 0]
    for step in range(30):
        action = torch.linspace(-1.3, 0.6, 4).unsqueeze(-1) * (1 if step % 3 else -0.2)
        following, td = env.step_and_maybe_reset(td.set("action", action))
        seen, reward, over, infos = raw.step(action)
        following = following["next"]
        assert torch.equal(following["obs"], seen["obs"])  # of rows that are done, too
        assert torch.equal(following["reward"].squeeze(-1), reward)
        assert torch.equal(following["done"].squeeze(-1), over.bool())
        assert torch.equal(following["truncated"].squeeze(-1), infos["time_outs"])
        assert torch.equal(following["terminated"].squeeze(-1), over.bool() & ~infos["time_outs"])
        ends = [n + int(following[name].sum()) for n, name in zip(ends, ("terminated", "truncated"), strict=True)]
        if over.any():
            raw.reset_idx(over.nonzero().flatten())
            raw.compute_observations()
            assert torch.equal(td["obs"], raw.obs_buf)
    assert min(ends) > 1


@pytest.mark.parametrize("kind", [ManagerBased, Direct])
def test_every_number_is_isaac_labs_and_the_last_observation_is_kept(kind: Any) -> None:
    env, raw = IsaacLabWrapper(kind()), kind()
    env.set_seed(1)
    td, (seen, _) = env.reset(), raw.reset(seed=1)
    assert torch.equal(td["policy"], seen["policy"])
    ends = [0, 0]
    for step in range(30):
        action = torch.linspace(-1.3, 0.6, 4).unsqueeze(-1) * (1 if step % 3 else -0.2)
        data, td = env.step_and_maybe_reset(td.set("action", action))
        seen, reward, terminated, truncated, _ = raw.step(action)
        following, over = data["next"], terminated | truncated
        assert torch.equal(following["policy"][~over], seen["policy"][~over])
        assert torch.equal(following["policy"][over], raw.final[over])  # which Isaac Lab gives to nobody
        assert torch.equal(td["policy"], seen["policy"])  # the first of the new episodes among them
        assert torch.equal(following["reward"].squeeze(-1), reward)
        assert torch.equal(following["terminated"].squeeze(-1), terminated)
        assert torch.equal(following["truncated"].squeeze(-1), truncated & ~terminated)
        ends = [n + int(following[name].sum()) for n, name in zip(ends, ("terminated", "truncated"), strict=True)]
    assert min(ends) > 1
    assert torch.equal(env._env.resets, raw.resets)  # nothing was reset twice
    assert "_reset_idx" not in vars(env._env)  # Isaac Lab's own again


@pytest.mark.parametrize(("wrapper", "sim", "key"), MADE)
def test_rows_are_reset_alone(wrapper: Any, sim: Any, key: str) -> None:
    env = wrapper(sim())
    td = env.step(env.reset().set("action", torch.full((4, 1), 0.5)))["next"]
    mask = torch.tensor([False, True, False, False])
    again = env.reset(td.clone().set("_reset", mask.unsqueeze(-1)))
    assert torch.equal(again[key][~mask], td[key][~mask])
    assert again[key][1, 1] == 0
    assert int(torch.as_tensor(env._env.resets).sum()) == 5


def test_a_scene_is_started_in_as_isaac_labs_reset_to_does_it() -> None:
    env, raw = IsaacLabWrapper(ManagerBased()), ManagerBased()
    td = env.reset()
    raw.reset()
    scene, known = env.get_state(), raw.scene.get_state()
    assert torch.equal(scene["rigid_object", "ball", "root_pose"], known["rigid_object"]["ball"]["root_pose"])
    for _ in range(3):
        td = env.step(td.set("action", torch.full((4, 1), 0.4)))["next"]
        raw.step(torch.full((4, 1), 0.4))
    again, (seen, _) = env.reset_to_state(scene), raw.reset_to(known, torch.arange(4))
    assert torch.equal(again["policy"], seen["policy"])
    assert torch.equal(
        again["policy"][:, 0], scene["rigid_object", "ball", "root_pose"].squeeze(-1) - 10 * torch.arange(4)
    )
    assert not again["done"].any()
    assert torch.equal(env._env.resets, raw.resets)
    assert env.supports_set_state
    same = env.reset(set_state=True, scene_state=raw.scene.get_state(is_relative=True), is_relative=True)  # Isaac's own
    assert torch.equal(same["policy"], again["policy"])
    env.reset_to_state(scene, seed=3)
    assert torch.equal(env._env.resets, torch.ones(4))  # the stand-in's stream began anew


def test_single_rows_are_started_in_a_scene() -> None:
    env = IsaacLabWrapper(ManagerBased())
    td = env.reset()
    scene = env.get_state()
    for _ in range(6):  # at the end of which Isaac Lab has started all rows by itself
        td = env.step(td.set("action", torch.full((4, 1), 0.1)))["next"]
    assert td["truncated"].all()
    ended, everyone = td.clone(), torch.ones(4, 1, dtype=torch.bool)
    count = int(env._env.resets.sum())
    env.reset_to_state(scene, ended.clone().set("_reset", everyone))
    td = env.reset(td.clone().set("_reset", everyone))  # which is one more, though all had started by themselves before
    assert int(env._env.resets.sum()) == count + 8
    td = env.step(td.set("action", torch.full((4, 1), 0.1)))["next"]
    mask = torch.tensor([[False], [True], [False], [True]])
    again = env.reset_to_state(scene, td.clone().set("_reset", mask))
    rows = mask.squeeze(-1)
    assert torch.equal(again["policy"][~rows], td["policy"][~rows])
    origins = env._env.scene.env_origins
    assert torch.equal(again["policy"][rows, :1], (scene["rigid_object", "ball", "root_pose"] - origins)[rows])
    assert torch.equal(again["policy"][rows, 1], torch.zeros(2))
    nobody = env.reset_to_state(scene, td.clone().set("_reset", torch.zeros_like(mask)))
    assert torch.equal(nobody["policy"], td["policy"])
    following = env.step(again.set("action", torch.zeros(4, 1)))["next"]
    assert torch.equal(following["policy"][:, 1], torch.tensor([2.0, 1.0, 2.0, 1.0]))


def _others(resets: tuple[int, ...], scene: Any = None) -> torch.Tensor:
    """What rows 0 and 2 observe while row 1 ends, and is reset after some steps, or started in a scene."""
    env = IsaacLabWrapper(Remembering())
    td, seen = env.reset(), []
    for step in range(14):
        action = torch.full((3, 1), 0.1)
        action[1] = 4.0 if step in (3, 8) else -0.1
        data, td = env.step_and_maybe_reset(td.set("action", action))
        seen.append(data["next", "policy"][[0, 2]])
        if step in resets:
            td["_reset"] = torch.tensor([[False], [True], [False]])
            td = env.reset(td) if scene is None else env.reset_to_state(scene, td)
            assert torch.equal(td["policy"][[0, 2]], seen[-1]) or step in (5, 11)  # where they start anew
    return torch.stack(seen)


def test_rows_remember_whatever_is_done_to_others() -> None:
    """Isaac Lab's own reset of row 1 appends to the history of all rows, and asks all their modifiers once more."""
    alone = _others(())
    assert torch.allclose(alone[2, 0], torch.tensor([0.2, 0.3, 0.4, 0.6125]))  # at 0.1, 0.2, 0.3, 0.4
    assert torch.equal(_others((1, 2, 3, 6, 8, 10)), alone)
    env = IsaacLabWrapper(Remembering())
    env.reset()
    assert torch.equal(_others((1, 2, 3, 6, 8, 10), env.get_state()), alone)


@pytest.mark.parametrize("kind", [ManagerBased, Direct])
@pytest.mark.parametrize("rerenders", [0, 1])
def test_pictures_of_a_tiled_camera_are_those_that_were_drawn(kind: Any, rerenders: int) -> None:
    env = IsaacLabWrapper(sim := kind(camera="tiled_camera"), from_tiled_camera=True)
    sim.cfg.num_rerenders_on_reset = rerenders
    check_env_specs(env)
    td = env.reset()
    for step in range(14):
        data, td = env.step_and_maybe_reset(td.set("action", torch.linspace(-0.9, 0.4, 4).unsqueeze(-1)))
        place, time = data["next", "policy"].unbind(-1)  # final ones of rows that end, and so are the pictures
        picture = data["next", "pixels"]
        assert torch.equal(picture[:, 0, 0, 0], (place * 20 + 100).to(torch.uint8)), step
        assert torch.equal(picture[:, 1, 2, 1], time.to(torch.uint8))
        over = data["next", "done"].squeeze(-1)
        if rerenders:
            assert torch.equal(td["pixels"][:, 0, 0, 1], td["policy"][:, 1].to(torch.uint8))
        else:
            assert torch.equal(td["pixels"][over], picture[over])  # nothing was drawn since
    before = td["pixels"].clone()
    env.step(td.set("action", torch.ones(4, 1)))
    assert torch.equal(td["pixels"], before)  # a copy, which Isaac Lab does not write into
    mask = torch.tensor([[True], [False], [False], [False]])
    again = env.reset(env.step(td)["next"].set("_reset", mask))  # by the user
    assert (int(again["pixels"][0, 0, 0, 1]) == 0) is bool(rerenders)


def test_pictures_come_as_they_are_asked_for() -> None:
    sim = ManagerBased(camera="eye")

    def look(**options: Any) -> tuple[Any, Any]:
        env = IsaacLabWrapper(sim, from_tiled_camera=True, tiled_camera_name="eye", **options)
        return env.rand_step(env.reset())["next"], env.observation_spec

    seen, spec = look(pixels_key=("camera", "rgb"), pixels_channels=1)
    assert seen["camera", "rgb"].shape == (4, 2, 3, 1)
    assert spec["camera", "rgb"].is_in(seen["camera", "rgb"])
    seen, spec = look(tiled_camera_data_type="rgba", pixels_channels=None)
    assert torch.equal(seen["pixels"], sim.scene.rgba)
    seen, spec = look(tiled_camera_data_type="depth", pixels_channels=1, pixels_dtype=None)
    assert torch.equal(seen["pixels"], sim.scene.depth)
    assert seen["pixels"].dtype == spec["pixels"].dtype == torch.float32
    seen, spec = look(tiled_camera_data_type="depth", pixels_channels=None)
    assert torch.equal(seen["pixels"], (sim.scene.depth * 255).clamp(0, 255).to(torch.uint8))


def test_a_camera_is_put_into_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    lab_installed(monkeypatch)
    cfg = SimpleNamespace(scene=SimpleNamespace(), sim=SimpleNamespace(render_interval=4))
    add = IsaacLabWrapper.add_tiled_camera_config
    assert add(cfg, sensor_name="eye", width=64, height=48, data_type="depth", render_interval=2) is cfg
    camera = cfg.scene.eye
    assert (camera.width, camera.height, camera.data_types) == (64, 48, ["depth"])
    assert camera.prim_path == "{ENV_REGEX_NS}/Camera"
    assert camera.offset.convention == "world"
    assert camera.spawn.clipping_range == (0.1, 100.0)
    assert cfg.sim.render_interval == 2
    with pytest.raises(SpecTypeError, match=r"say the same thing twice"):
        add(cfg, renderer_backend="ovrtx", renderer_cfg=object())
    with pytest.raises(UnknownName, match=r"no renderer 'ovrt'; did you mean 'ovrtx'"):
        add(cfg, renderer_backend="ovrt")
    with pytest.raises(MissingExtra, match=r"needs 'isaaclab_ov'"):
        add(cfg, renderer_backend="ovrtx")
    renderers = ModuleType("isaaclab_newton.renderers")
    renderers.NewtonWarpRendererCfg = lambda: "newton"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "isaaclab_newton", ModuleType("isaaclab_newton"))
    monkeypatch.setitem(sys.modules, "isaaclab_newton.renderers", renderers)
    with pytest.raises(TypeError, match=r"renderer_cfg"):  # which the cameras of 2.3.2 do not take
        add(cfg, renderer_backend="newton_warp")


def test_settings_without_isaac_lab_are_an_error_with_the_command() -> None:
    with pytest.raises(MissingExtra, match=r"needs 'isaaclab'.*pip install isaaclab\[isaacsim\]"):
        IsaacLabWrapper.add_tiled_camera_config(object())


def _with_camera(kind: Any) -> IsaacLabWrapper:
    sim = kind(camera="tiled_camera")
    sim.cfg.num_rerenders_on_reset = 1
    return IsaacLabWrapper(sim, from_tiled_camera=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [*(lambda w=w, s=s: w(s()) for w, s, _ in MADE), *(partial(_with_camera, s) for s in (ManagerBased, Direct))],
)
def test_the_contract_holds(make: Any) -> None:
    found = run_contract(make, steps=9)
    broken = [f"{r.name}: {r.says}" for r in found if r.verdict == "broken"]
    assert not broken, "\n".join(broken)


def test_tasks_of_isaac_gym_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = installed(monkeypatch)
    env = IsaacGymEnv("Ant", num_envs=3, device="cpu", seed=5, graphics_device_id=0)
    assert env.rollout(3)["obs"].shape == (3, 3, 2)
    assert env.task == "Ant"
    assert calls == [{"headless": True, "graphics_device_id": 0, "seed": 5, "task": "Ant", "num_envs": 3,
                      "sim_device": "cpu", "rl_device": "cpu"}]  # fmt: skip
    assert IsaacGymEnv.available_envs == ["Ant", "Cartpole"]
    with pytest.raises(UnknownName, match=r"^IsaacGymEnv: IsaacGymEnvs has no task 'Ants'; did you mean 'Ant'"):
        IsaacGymEnv("Ants", num_envs=1, device="cpu")


@pytest.mark.parametrize(("wrapper", "sim", "key"), MADE)
def test_envs_can_be_made_elsewhere_moved_and_closed(wrapper: Any, sim: Any, key: str) -> None:
    env = pickle.loads(pickle.dumps(EnvCreator(wrapper, create_env_kwargs={"env": sim()})))()
    check_env_specs(env)
    assert env.device == torch.device("cpu")
    assert env.reset()[key].device == env.device
    env.close()
    assert env.is_closed


def _lab(rows: int = 4) -> IsaacLabWrapper:
    return IsaacLabWrapper(ManagerBased(rows))


def _camera(**options: Any) -> IsaacLabWrapper:
    return IsaacLabWrapper(ManagerBased(camera="eye"), from_tiled_camera=True, tiled_camera_name="eye", **options)


def _chosen(number: int) -> Any:
    env = IsaacLabWrapper(Choosing(), categorical_action_encoding=True)
    return env.step(env.reset().set("action", torch.tensor([0, number])))


class Several(ManagerBased):
    possible_agents = ("a", "b")


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: IsaacGymWrapper(3), SpecTypeError, r"got int, which has no 'num_envs'; IsaacGymEnv takes names"),
        (lambda: IsaacLabWrapper("Isaac-Ant-v0"), SpecTypeError, r"must be an env of Isaac Lab, got str"),
        (lambda: _chosen(3), IllegalAction, r"^IsaacLabWrapper.step: .* numbers from 0 to below 3, got \[0, 3\]"),
        (lambda: _chosen(-1), IllegalAction, r"numbers from 0 to below 3, got \[0, -1\]"),
        (lambda: IsaacLabWrapper(Several()), SpecTypeError, r"Several has several agents"),
        (lambda: IsaacLabWrapper(ManagerBased(), from_tiled_camera=True), UnknownName, r"no sensor 'tiled_camera'"),
        (lambda: _camera(tiled_camera_data_type="rbg"), UnknownName, r"'eye' does not draw 'rbg'; did you mean 'rgb'"),
        (lambda: _camera(pixels_channels=5), SpecError, r"pixels_channels must be from 1 to 3, .*'rgb' has.* got 5"),
        (lambda: _camera(pixels_dtype="uint8"), DtypeError, r"pixels_dtype must be .* or None, got 'uint8'"),
        (lambda: _camera(pixels_key="policy"), KeyCollision, r"observes a 'policy' already; pass another pixels_key"),
        (lambda: IsaacLabWrapper(Direct()).reset_to_state({}), Unsupported, r"Direct has no reset_to; only"),
        (lambda: _lab().reset_to_state(3), DtypeError, r"scene must be as env.get_state\(\) gives it, got int"),
        (lambda: _lab().reset_to_state(_lab(2).get_state()), ShapeError, r"must be that of 4 rows, .* \[2\]"),
        (lambda: _lab().reset_to_state(ManagerBased(2).scene.get_state()), ShapeError, r"every entry .* of 4 rows"),
        (lambda: _lab().reset_to_state(_lab().get_state().exclude("rigid_object")), KeyMissing, r"the scene has no"),
        (lambda: _lab().reset(scene_state=_lab().get_state()), SpecError, r"set_state=True and .* go together"),
        (lambda: _lab().reset(set_state=True), SpecError, r"set_state=True and .* go together"),
        (lambda: _lab().set_state(_lab().get_state()), Unsupported, r"less than a whole state.*reset_to_state"),
        (lambda: IsaacGymWrapper(Ant()).set_seed(1), Unsupported, r"a task takes its seed when it is made"),
        (lambda: IsaacGymEnv("Ant", num_envs=2, device="cpu"), MissingExtra, r"needs 'isaacgym'.*developer.nvidia.com"),
        (lambda: IsaacGymWrapper(Ant()).step(IsaacGymWrapper(Ant()).rand_action()), NeedsReset, r"call reset"),
        (lambda: IsaacLabWrapper(Direct()).step(IsaacLabWrapper(Direct()).rand_action()), NeedsReset, r"call reset"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()
