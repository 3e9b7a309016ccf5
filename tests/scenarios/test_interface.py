"""Every scenario looks from outside as it does in VMAS and TorchRL: name, options, defaults, keys, shapes, dtypes."""

import ast
import itertools
import warnings
from dataclasses import fields
from pathlib import Path

import harness
import numpy as np
import pytest
import torch
from sizes import first, some

import marlenv
from marlenv.envs.registry import load
from marlenv.physics.env.draw import SMALLEST_VIEW
from marlenv.testing import run_contract
from marlenv.testing.comparison import differences

NAMES = sorted(harness.WHERE)
HAVE_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef)
QUICK = {"drone", "give_way", "navigation", "sampling", "simple_speaker_listener", "simple_tag"}
"""Together: infos, speech, several groups, ends, memory, a controller."""
LONGEST = 120  # lines of a scenario's file, without docstrings
COMPUTED = {
    "desired_vel", "shooting_angle", "energy_coeff", "max_steering_angle", "n_food", "l_f", "l_r", "noise_level",
    "threshold_near_boundary_high", "threshold_near_other_agents_c2c_high", "threshold_near_other_agents_c2c_low",
    "scenario_probabilities",
}  # fmt: skip
"""Defaults that VMAS computes from other options, or by PyTorch."""


def source(name):
    """VMAS's file of a scenario."""
    (path,) = Path(harness.vmas.__file__).parent.joinpath("scenarios").rglob(f"{name}.py")
    return ast.parse(path.read_text())


WINDOW = {
    "viewer_size", "viewer_zoom", "render_origin", "render_title", "resolution_factor", "is_real_time_rendering",
    "is_visualize_extra_info",
}  # fmt: skip
IDLE = {
    "threshold_deviate_from_ref_path", "threshold_reach_goal", "threshold_no_reward_if_too_close_to_boundaries",
    "threshold_no_reward_if_too_close_to_other_agents", "max_ref_path_points", "n_observed_steps",
}  # fmt: skip
TO_FAIL = {"dense_reward_ratio", "probability_use_recording", "n_steps_stored", "n_steps_before_recording"}
OUTSIDE = WINDOW | IDLE | TO_FAIL | {"parameters"}
"""No options of ours: what is about VMAS's window (``env.render(size=)`` makes pictures), what VMAS never looks at,
what it takes only to refuse it, or to fail with ``map_type="2"``, and an object of VMAS's that holds other options."""


@pytest.mark.reference
@pytest.mark.parametrize("name", harness.IN_VMAS)
def test_options_and_defaults_are_those_of_vmas(name):
    calls = [n for n in ast.walk(source(name)) if isinstance(n, ast.Call) and ast.unparse(n.func) == "kwargs.pop"]
    theirs = {call.args[0].value: call.args[1] for call in calls}
    ours = {field.name: field.default for field in fields(load(harness.WHERE[name]))}
    assert set(ours) == set(theirs) - OUTSIDE
    for option in set(ours) - COMPUTED:
        assert ours[option] == ast.literal_eval(theirs[option]), option


@pytest.mark.reference
@pytest.mark.parametrize("name", first(harness.IN_VMAS, 3))
@pytest.mark.parametrize("continuous", [True, False], ids=["numbers", "choices"])
def test_keys_shapes_and_dtypes_are_those_of_torchrl(name, continuous):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = harness.VmasEnv(name, num_envs=3, continuous_actions=continuous, seed=0)
    ours = marlenv.make(name, num_envs=3, continuous_actions=continuous, seed=0, compile="none")
    assert ours.group_map == theirs.group_map
    flags = {(group, flag) for group in ours.group_map for flag in ("done", "terminated", "truncated")}
    extra = flags | {"truncated"}  # our flags are complete at every level
    for kind in ("observation", "action", "reward", "done"):
        both = [getattr(env, f"full_{kind}_spec") for env in (ours, theirs)]
        keys = [set(spec.keys(True, True)) - extra for spec in both]
        assert keys[0] == keys[1], kind
        for key in keys[0]:
            assert both[0][key].shape == both[1][key].shape, key
            assert both[0][key].dtype == both[1][key].dtype, key


@pytest.mark.parametrize("name", NAMES)
def test_a_name_makes_an_env_with_every_option_of_the_platform(name):
    env = marlenv.make(
        name, num_envs=5, device="cpu", seed=3, group_map="one_group_per_agent", max_steps=2, continuous_actions=True,
        compile="none",
    )  # fmt: skip
    data = env.rollout(3, break_when_any_done=False)
    assert set(env.group_map) == set(env.agent_names)
    assert data["next", "done"].squeeze(-1)[:, 1].all()
    assert all(data["next", agent, "reward"].shape == (5, 3, 1, 1) for agent in env.agent_names)


def broken_or_not_judged(name, **options):
    make_env = lambda num_envs=3: marlenv.make(name, num_envs, seed=0, max_steps=4, compile="none")  # noqa: E731
    return {r.name: r.says for r in run_contract(make_env, **options) if r.verdict != "held"}


@pytest.mark.slow
@pytest.mark.parametrize("name", first(sorted(QUICK), 2))
def test_the_contract_holds(name):
    assert broken_or_not_judged(name, steps=20) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", some(NAMES, 7))
def test_the_contract_holds_for_as_long_as_it_looks(name, sized):
    assert broken_or_not_judged(name, steps=sized(20, 64)) == {}


@pytest.mark.parametrize("name", NAMES)
def test_the_file_of_a_scenario_fits_on_two_screens(name):
    text = Path(__import__(harness.WHERE[name].split(":")[0], fromlist=["x"]).__file__).read_text()
    told = [n.body[0] for n in ast.walk(ast.parse(text)) if isinstance(n, HAVE_DOCSTRINGS) and ast.get_docstring(n)]
    assert len(text.splitlines()) - sum(doc.end_lineno - doc.lineno + 1 for doc in told) <= LONGEST


@pytest.mark.parametrize("name", NAMES)
def test_every_row_has_its_picture(name):
    env = marlenv.make(name, 2, seed=0, compile="none")
    env.reset()
    pictures = [env.render(row, size=(120, 120)) for row in (0, 1)]
    few = name in {"asym_joint", "goal", "line_trajectory"}  # things of two or three colours
    assert all(len(np.unique(picture.reshape(-1, 3), axis=0)) > (4 if few else 10) for picture in pictures)
    fixed = name in {
        "asym_joint",
        "give_way",
        "multi_give_way",
        "vel_control",
        "waterfall",
    }  # (nearly) the same at every start
    assert fixed or not np.array_equal(*pictures)


@pytest.mark.parametrize(
    "name",
    [
        "diff_drive",
        "kinematic_bicycle",
        "simple_adversary",
        "simple_crypto",
        "simple_push",
        "simple_speaker_listener",
        "simple_tag",
        "predator_prey",
        "simple_world_comm",
        "skirmish",
    ],
)
def test_agents_of_different_groups_have_different_colours(name):
    env = marlenv.make(name, 200, seed=3, compile="none")
    env.reset()
    place = env.simulation.stepper.plan.place
    pos = env.get_state()["pos"].permute(0, 2, 1)
    near = torch.cdist(pos, pos).masked_fill(torch.eye(len(place), dtype=torch.bool), 9.0).flatten(1).amin(1)
    row, colors = int(near.argmax()), {}  # where nothing hides anything
    picture = env.render(row, size=(600, 600))
    for group, agents in env.group_map.items():
        for agent in agents:
            x, y = (pos[row, place[agent]] * 600 / (2 * SMALLEST_VIEW)).round().int().tolist()
            colors.setdefault(group, set()).add(tuple(picture[300 - y, 298 + x].tolist()))
    for one, other in itertools.combinations(colors.values(), 2):
        assert all(sum(abs(p - q) for p, q in zip(a, b, strict=True)) > 60 for a in one for b in other), colors


@pytest.mark.reference
def test_all_scenarios_of_the_installed_vmas_are_there():
    theirs = {*harness.vmas.scenarios, *harness.vmas.debug_scenarios, *harness.vmas.mpe_scenarios}
    assert set(harness.IN_VMAS) == theirs
    assert set(NAMES) <= set(marlenv.available())


def test_states_branch_and_come_back():
    for name in ("discovery", "give_way", "joint_passage", "drone", "wind_flocking", "sampling"):
        env = marlenv.make(name, 3, seed=0, compile="none")
        env.rollout(2)
        state, actions = env.get_state(), [env.rand_action() for _ in range(2)]
        once, again = (
            [env.step(action.clone())["next"] for action in actions]
            for _ in range(2)
            if env.set_state(state) is not None
        )
        for one, two in zip(once, again, strict=True):
            assert not differences(one, two), name
