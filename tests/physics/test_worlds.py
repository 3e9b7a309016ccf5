"""The engine drives the worlds of all scenarios of VMAS, one step from VMAS's own state at a time."""

import warnings

import convert
import pytest
import torch
import twins
from marlenv.scenarios.index import SCENARIOS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import vmas

NAMES = sorted([*vmas.scenarios, *vmas.mpe_scenarios, *vmas.debug_scenarios])
OTHERS = sorted(set(NAMES) - {entry.name for entry in SCENARIOS})
"""The worlds of scenarios that are not ours yet; tests/scenarios compares the others whole."""
GATED = {"ball_passage", "buzz_wire", "football", "give_way", "joint_passage", "joint_passage_size", "multi_give_way",
         "passage",
         "pollock", "transport"}  # fmt: skip
"""Here VMAS lets a row collide only when some row is near, by radii that are too small: the gate is taken out."""
QUICK = ["buzz_wire", "football", "kinematic_bicycle", "reverse_transport", "wheel", "wind_flocking"]
"""Together: all kinds of contacts but two, joints, scripted agents, own gravity, friction."""


def worst(name, rows, steps, monkeypatch):
    """The largest one-step error of each entry."""
    if name in GATED:
        monkeypatch.setattr(twins.core.World, "collides", twins.without_gate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # VMAS warns that its integrator can wind up
        env = vmas.make_env(name, num_envs=rows, seed=0)
    env.reset()
    shadow = convert.Shadow(env.world)
    theirs, errors = env.world.step, []

    def both():
        ours = shadow.step()
        theirs()
        errors.append(shadow.difference(ours))

    monkeypatch.setattr(env.world, "step", both)
    for t in range(steps):
        actions = env.get_random_actions()
        if t // 10 % 2:  # towards the middle, where the others are
            for action, agent in zip(actions, env.agents, strict=True):
                action[:, :2] = (-5 * agent.state.pos).clamp(-1, 1) * agent.action.u_range_tensor[:2].clamp(max=1)
        with torch.no_grad():
            env.step(actions)
    assert len(errors) == steps
    return {entry: max(error[entry] for error in errors) for entry in errors[0]}


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("name", QUICK)
def test_a_step_is_that_of_vmas(name, monkeypatch):
    error = worst(name, 8, 12, monkeypatch)
    assert max(error.values()) <= 1e-5, error


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("name", OTHERS)
def test_many_steps_of_many_rows_are_those_of_vmas(name, monkeypatch):
    error = worst(name, 32, 50, monkeypatch)
    assert max(error[entry] for entry in ("pos", "vel", "rot")) <= 1e-5, error
    assert error["ang_vel"] <= 1e-3, error


def test_all_scenarios_of_vmas_are_there():
    assert (len(NAMES), len(OTHERS)) == (41, 0)
