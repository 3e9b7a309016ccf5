"""Machine code plays odd options as separate operations do, one step at a time from the same states."""

import pytest
import torch
from sizes import LONG, some

import marlenv
import marlenv.physics.jit.cache as cache

ODD = [
    ("commons", {"n_patches": 2, "reach": 0.9, "appetite": 0.2, "shared_reward": True}),
    ("discovery", {"n_lidar_rays_entities": 0, "n_lidar_rays_agents": 0, "use_agent_lidar": True}),
    ("discovery", {"lidar_range": 0.0}),
    ("dispersion", {"pos_range": 0.0}),
    ("flocking", {"n_obstacles": 0}),
    ("flocking", {"n_obstacles": 0, "n_lidar_rays": 0}),
    ("give_way", {"v_range": 0.0, "obs_noise": 0.1}),
    ("give_way", {"pos_shaping_factor": 3.0, "dt_delay": 1}),
    ("joint_passage", {"n_passages": 14, "observe_joint_angle": True, "joint_angle_obs_noise": 0.1}),
    ("joint_passage", {"n_passages": 14, "fixed_passage": False, "obs_noise": 0.1, "max_speed_1": 0.0}),
    ("kinematic_bicycle", {"max_speed": 0.0, "max_steering_angle": 0.0}),
    ("navigation", {"n_lidar_rays": 0, "pos_shaping_factor": 3.0}),
    ("navigation", {"lidar_range": 0.0}),
    ("predator_prey", {"n_predators": 1, "n_prey": 2, "birth": 1.0, "reach": 0.5, "hunger": 0.3}),
    ("rescue", {"n_agents": 1, "n_victims": 1, "n_walls": 1, "reach": 0.6}),
    ("rescue", {"sight": 0.0, "comms_range": 0.3, "n_rays": 1}),
    ("road_traffic", {"n_agents": 3, "is_testing_mode": True, "is_observe_distance_to_boundaries": False}),
    ("road_traffic", {"n_agents": 3, "map_type": "3", "scenario_probabilities": (0.3, 0.3, 0.4), "is_ego_view": False}),
    ("sampling", {"lidar_range": 0.0, "agent_radius": 1.0}),
    ("simple_tag", {"bound": 0.0, "num_landmarks": 0}),
    ("simple_world_comm", {"num_adversaries": 1, "num_landmarks": 0}),
    ("skirmish", {"n_fighters": 1, "n_archers": 0, "n_healers": 2, "semidim": 0.3}),
    ("territory", {"n_scouts": 1, "n_guards": 2, "n_cells": 3, "scout_reach": 0.6, "victory": 0.4}),
    ("wind_flocking", {"cover_angle_tolerance": 1.5, "v_range": 0.0}),
]
QUICK = {"flocking", "simple_world_comm"}
GRAPHS = [
    pytest.param(*case, marks=() if case[0] == "flocking" else pytest.mark.full) for case in ODD if case[0] in QUICK
]
SLOW = [
    *(case for case in ODD if case[0] in QUICK),
    *some([case for case in ODD if case[0] not in {*QUICK, *LONG}], 4, pytest.mark.slow),
    *(pytest.param(*case, marks=[pytest.mark.slow, pytest.mark.full]) for case in ODD if case[0] in LONG),
]


def off(one, other):
    """The largest difference, relative where numbers are large."""
    pairs = [(one[key].double(), other[key].double()) for key in one.keys(True, True)]
    return max(((a - b).abs() / a.abs().clamp(min=1)).max().item() for a, b in pairs if a.numel())


def compare(name, options, tier, steps):
    slow, fast, twin = (marlenv.make(name, 19, seed=4, compile=how, **options) for how in ("none", tier, "none"))
    assert off(slow.reset(), fast.reset()) < 1e-5
    for _ in range(steps):
        data, state = slow.rand_action(), slow.get_state()
        fast.set_state(state)
        near = {at: torch.nextafter(state[at], torch.full_like(state[at], 1e9)) for at in ("pos", "rot")}
        twin.set_state(state.clone().update(near))
        one, same, moved = (env.step(data.clone())["next"] for env in (slow, fast, twin))
        # where joints and lines amplify the last bit, no further away than a last bit leads
        assert off(one, same) <= max(1e-5, 10 * off(one, moved))


@pytest.mark.slow
@pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")
@pytest.mark.parametrize(("name", "options"), SLOW)
def test_machine_code_plays_odd_options(name, options, tmp_path, monkeypatch):
    monkeypatch.setenv("MARLENV_CACHE", str(tmp_path))
    compare(name, options, "aot", 4)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated:DeprecationWarning")  # PyTorch's compiler imports it
@pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")
@pytest.mark.parametrize(("name", "options"), GRAPHS)
def test_compiled_graphs_play_odd_options(name, options):
    compare(name, options, "compile", 2)
