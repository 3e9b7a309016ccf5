"""Every scenario does what VMAS's does: world, observations, rewards, ends, infos, from VMAS's state at every step."""

import harness
import pytest
import torch
from harness import Pair
from sizes import first, some


def angle_off(angle, goal):
    off = (angle - goal).squeeze(-1) % torch.pi
    return torch.minimum(off, torch.pi - off)


def rod_at_goal(s):
    """VMAS's ``done`` of joint_passage, row by row (its own needs all rows to be there)."""
    bar, goal = s.joint.landmark.state, s.goal.state
    return (torch.linalg.vector_norm(bar.pos - goal.pos, dim=1) <= 0.01) & (angle_off(bar.rot, goal.rot) <= 0.01)


def goal_in_all_rows(s, goal):
    """Which landmark is the goal; in VMAS the same one in all rows."""
    return {"goal": torch.full((s.world.batch_dim,), s.world.landmarks.index(goal))}


def goals_of_each_other(s):
    goals = [s.world.landmarks.index(agent.goal_b) for agent in s.world.agents]
    return {"goals": torch.tensor(goals).expand(s.world.batch_dim, 2)}


def on_the_road(s):
    """Routes of cars, which points come next, and the part of the map."""
    paths, parts = s.ref_paths_agent_related, s.parameters.map_type == "3"
    part = (paths.scenario_id[:, 0] - 1) * parts
    first = torch.tensor([0, len(s.ref_paths_map_related.long_term_intersection), 0])
    first[2] = first[1] + len(s.ref_paths_map_related.long_term_merge_in)
    path = paths.path_id + first[part.long()].unsqueeze(1)
    return {"path": path.long(), "ahead": s.distances.closest_point_on_ref_path.long(), "part": part.long()}


def sent_elsewhere(s):
    """Rows in which VMAS let cars start anew at the end of the step: they are where routes begin for them."""
    paths = s.ref_paths_agent_related
    start = paths.long_term.take_along_dim(paths.point_id.long()[..., None, None], 2).squeeze(2)
    return (start == torch.stack([agent.state.pos for agent in s.world.agents], 1)).all(-1).any(1)


PLUS = {
    "ball_trajectory": {"infos": False},
    "discovery": {"rest": lambda s: s.covered_targets.any(-1)},
    "het_mass": {
        "memory": lambda s: {"mass": torch.tensor([a.mass for a in s.world.agents]).expand(s.world.batch_dim, 2)}
    },
    "joint_passage": {"done": rod_at_goal},
    "joint_passage_size": {
        "done": rod_at_goal,
        "memory": lambda s: {"large": s.big_passage_pos, "small": s.small_passage_pos, "way": s.middle_angle[:, 0]},
    },
    "road_traffic": {"memory": on_the_road, "rest": sent_elsewhere, "late": True},
    "sampling": {"memory": lambda s: {"places": torch.stack(s.locs, 1)}},
    "simple_adversary": {"memory": lambda s: goal_in_all_rows(s, s.world.agents[0].goal)},
    "simple_crypto": {
        "memory": lambda s: {"key": s.world.agents[2].key.float(), "secret": s.world.agents[0].secret.float()}
    },
    "simple_push": {"memory": lambda s: goal_in_all_rows(s, s.world.agents[0].goal)},
    "simple_reference": {"memory": goals_of_each_other},
    "simple_speaker_listener": {"memory": lambda s: goal_in_all_rows(s, s.world.agents[0].goal_b)},
}
CASES = [
    ("balance", {}),
    ("balance", {"n_agents": 4, "package_mass": 10, "random_package_pos_on_line": False}),
    ("ball_passage", {}),
    ("ball_passage", {"n_passages": 3, "fixed_passage": True, "random_start_angle": False}),
    ("ball_trajectory", {}),
    ("ball_trajectory",
     {"pos_shaping_factor": 2, "speed_shaping_factor": 0.5, "dist_shaping_factor": 3, "joints": False}),
    ("buzz_wire", {}),
    ("buzz_wire", {"random_start_angle": False, "pos_shaping_factor": 3, "collision_reward": -2, "max_speed_1": 0.05}),
    ("dispersion", {}),
    ("dispersion", {"n_agents": 3, "n_food": 5, "share_reward": True, "food_radius": 0.2, "pos_range": 0.5}),
    ("dispersion", {"penalise_by_time": True, "food_radius": 0.3}),
    ("discovery", {}),
    ("discovery", {"targets_respawn": False, "use_agent_lidar": True, "shared_reward": True, "covering_range": 0.5,
                   "agent_collision_penalty": -0.3, "time_penalty": -0.01, "n_lidar_rays_entities": 7}),
    ("dropout", {}),
    ("dropout", {"n_agents": 2, "energy_coeff": 0.5, "start_same_point": True}),
    ("flocking", {}),
    ("flocking", {"n_agents": 1}),
    ("flocking", {"n_agents": 2, "n_obstacles": 3, "collision_reward": -0.5, "dist_shaping_factor": 2}),
    ("football", {}),
    ("football", {"ai_red_agents": False, "enable_shooting": True, "n_red_agents": 2, "pos_shaping_factor_ball_goal": 3,
                  "pos_shaping_factor_agent_ball": 2, "distance_to_ball_trigger": 0.1, "shooting_radius": 1,
                  "shooting_angle": 5, "u_rot_multiplier": 0.01}),
    ("football", {"physically_different": True, "n_blue_agents": 5, "spawn_in_formation": True, "enable_shooting": True,
                  "ai_strength": (1, 0.7), "ai_decision_strength": (1, 0.5), "ai_precision_strength": (0, 0.8),
                  "n_traj_points": 2, "shooting_radius": 1}),
    ("football", {"spawn_in_formation": True, "only_blue_formation": False, "randomise_formation_indices": True,
                  "n_blue_agents": 4, "formation_agents_per_column": 3, "observe_teammates": False, "goal_size": 0.5,
                  "observe_adversaries": False, "formation_noise": 0.5, "ball_mass": 0.1, "u_multiplier": 0.3}),
    ("football", {"disable_ai_red": True, "n_blue_agents": 2, "n_red_agents": 1,
                  "dict_obs": True, "pitch_width": 1, "pitch_length": 1.2, "scoring_reward": 7, "goal_depth": 0.2}),
    ("football", {"n_red_agents": 0, "agent_size": 0.05, "ball_size": 0.04, "max_speed": 0.5, "ball_max_speed": 2}),
    ("give_way", {}),
    ("give_way", {"mirror_passage": True, "observe_rel_pos": True, "done_on_completion": True, "box_agents": True,
                  "agent_collision_penalty": -0.1, "passage_collision_penalty": -0.2, "energy_rew_coeff": 0.3,
                  "obstacle_collision_penalty": -0.4, "dt_delay": 2}),
    ("give_way", {"use_velocity_controller": False, "v_range": 0.8, "final_reward": 0.5, "linear_friction": 0.2}),
    ("joint_passage", {}),
    ("joint_passage", {"n_passages": 3, "fixed_passage": False, "asym_package": False, "collision_reward": -0.1,
                       "observe_joint_angle": True, "use_controller": True, "energy_reward_coeff": 0.2}),
    ("joint_passage",
     {"n_passages": 3, "all_passed_rot": False, "mass_ratio": 3, "mass_position": -0.5, "max_speed_1": 0.1}),
    ("joint_passage_size", {}),
    ("joint_passage_size",
     {"fixed_passage": True, "random_goal_angle": True, "observe_joint_angle": True, "asym_package": True,
                            "mass_ratio": 3, "mass_position": -0.5, "max_speed_1": 0.1, "pos_shaping_factor": 2,
                            "collision_reward": -0.2, "energy_reward_coeff": 0.3, "n_passages": 4}),
    ("joint_passage_size", {"rot_shaping_factor": 2, "middle_angle_180": True, "use_vel_controller": True,
                            "collision_reward": -0.1, "mass_ratio": 4}),
    ("multi_give_way", {}),
    ("multi_give_way", {"u_range": 1, "a_range": 0.5, "linear_friction": 0.3, "shared_rew": False, "final_reward": 0.5,
                        "pos_shaping_factor": 2, "agent_collision_penalty": -0.3, "min_input_norm": 0.3}),
    ("multi_give_way", {"box_agents": True}),
    ("multi_give_way", {"pos_shaping_factor": 0}),
    ("passage", {}),
    ("passage", {"n_passages": 3, "shared_reward": True}),
    ("passage", {"n_passages": 20}),
    ("navigation", {}),
    ("navigation", {"n_agents": 1}),
    ("navigation", {"collisions": False, "agents_with_same_goal": 2, "observe_all_goals": True, "shared_rew": False}),
    ("navigation", {"n_agents": 6, "collisions": False, "agents_with_same_goal": 3, "split_goals": True,
                    "enforce_bounds": True, "world_spawning_x": 1.5}),
    ("reverse_transport", {}),
    ("reverse_transport", {"n_agents": 2, "package_width": 0.4, "package_mass": 5}),
    ("road_traffic", {}),
    ("road_traffic", {"n_agents": 4, "is_testing_mode": True, "reward_reach_goal": 3}),
    ("road_traffic", {"n_agents": 4, "map_type": "3", "scenario_probabilities": [0.3, 0.3, 0.4],
                      "reward_reach_goal": 3}),
    ("road_traffic", {"n_agents": 5, "map_type": "3", "scenario_probabilities": [0, 0.5, 0.5], "reward_reach_goal": 3,
                      "is_testing_mode": True, "n_stored_steps": 1}),
    ("road_traffic", {"n_agents": 8, "map_type": "3", "is_observe_distance_to_boundaries": False,
                      "is_observe_vertices": False}),
    ("road_traffic", {"n_agents": 5, "is_ego_view": False, "is_observe_distance_to_boundaries": False,
                      "is_observe_ref_path_other_agents": True, "n_points_nearing_boundary": 3}),
    ("road_traffic", {"n_agents": 5, "is_ego_view": False, "is_observe_vertices": False, "world_x_dim": 5,
                      "world_y_dim": 4.2}),
    ("road_traffic", {"n_agents": 6, "is_partial_observation": False, "n_nearing_agents_observed": 3,
                      "is_observe_ref_path_other_agents": True, "is_observe_vertices": False}),
    ("road_traffic", {"n_agents": 4, "is_partial_observation": False, "n_nearing_agents_observed": 1,
                      "is_ego_view": False, "is_observe_ref_path_other_agents": True}),
    ("road_traffic", {"n_agents": 4, "n_nearing_agents_observed": 3, "is_apply_mask": False, "agent_length": 0.22,
                      "is_observe_distance_to_agents": False, "is_observe_distance_to_center_line": False,
                      "n_points_short_term": 5, "sample_interval_ref_path": 1, "agent_width": 0.1, "lane_width": 0.2,
                      "max_speed": 1.5, "max_steering_angle": 0.4, "dt": 0.1}),
    ("road_traffic", {"n_agents": 4, "l_f": 0.1, "l_r": 0.05, "threshold_change_steering": 3, "reward_progress": 3,
                      "threshold_near_boundary_high": 0.05, "threshold_near_boundary_low": 0.01, "reward_vel": 8,
                      "threshold_near_other_agents_c2c_high": 0.5, "threshold_near_other_agents_c2c_low": 0.2}),
    ("sampling", {}),
    ("sampling",
     {"n_agents": 2, "shared_rew": False, "norm": False, "cov": [0.05, 0.1], "n_gaussians": 2, "xdim": 0.5}),
    ("simple", {}),
    ("simple_adversary", {}),
    ("simple_adversary", {"n_agents": 5, "n_adversaries": 2}),
    ("simple_crypto", {}),
    ("simple_crypto", {"dim_c": 2}),
    ("simple_push", {}),
    ("simple_reference", {}),
    ("simple_speaker_listener", {}),
    ("simple_spread", {}),
    ("simple_spread", {"n_agents": 5, "obs_agents": False}),
    ("simple_tag", {}),
    ("simple_tag", {"num_good_agents": 3, "num_adversaries": 2, "shape_agent_rew": True, "shape_adversary_rew": True,
                    "agents_share_rew": True, "adversaries_share_rew": False}),
    ("simple_tag",
     {"num_good_agents": 2, "observe_same_team": False, "observe_pos": False, "observe_vel": False, "bound": 0.7}),
    ("simple_world_comm", {}),
    ("simple_world_comm", {"num_good_agents": 1, "num_adversaries": 2, "num_food": 3, "num_forests": 1}),
    ("transport", {}),
    ("transport", {"n_agents": 3, "n_packages": 2, "package_mass": 5, "package_width": 0.25}),
    ("wheel", {}),
    ("wheel", {"n_agents": 2, "line_length": 1, "line_mass": 3, "desired_velocity": 0.2}),
    ("wind_flocking", {}),
    ("wind_flocking", {"use_controller": False, "f_range": 2, "energy_shaping_factor": 0.3, "rot_shaping_factor": 0.5,
                       "pos_shaping_factor": 0.2, "observe_rel_pos": True, "observe_rel_vel": True,
                       "observe_pos": False}),
    ("wind_flocking", {"cover_angle_tolerance": 0.4, "desired_vel": 0.2, "wind": 1}),
    ("asym_joint", {"obs_noise": 0}),
    ("asym_joint",
     {"obs_noise": 0, "joint_length": 0.8, "random_start_angle": True, "observe_joint_angle": True, "mass_ratio": 2,
                    "mass_position": -0.5, "rot_shaping_factor": 3, "energy_reward_coeff": 0.3}),
    ("asym_joint", {"obs_noise": 0, "asym_package": False, "mass_ratio": 3, "max_speed_1": 0.1}),
    ("circle_trajectory", {}),
    ("circle_trajectory", {"u_range": 2, "a_range": 0.5, "dt_delay": 2, "min_input_norm": 0.5, "linear_friction": 0.3}),
    ("diff_drive", {}),
    ("diff_drive", {"n_agents": 4}),
    ("goal", {}),
    ("goal", {"u_range": 2, "a_range": 0.5, "dt_delay": 2, "min_input_norm": 0.5, "linear_friction": 0.3,
              "pos_shaping_factor": 3, "time_rew_coeff": -0.2, "energy_rew_coeff": 0.3}),
    ("het_mass", {}),
    ("het_mass", {"green_mass": 0.5, "blue_mass": 3, "mass_noise": 0.3}),
    ("line_trajectory", {}),
    ("pollock", {"n_agents": 5, "n_lines": 4, "n_boxes": 4}),
    ("pollock", {"n_agents": 4, "n_lines": 2, "n_boxes": 2, "lidar": True}),
    ("vel_control", {}),
    ("vel_control", {"green_mass": 3}),
    ("drone", {}),
    ("kinematic_bicycle", {}),
    ("kinematic_bicycle", {"n_agents": 3, "width": 0.15, "l_f": 0.2, "max_speed": 2}),
    ("waterfall", {}),
    ("waterfall", {"n_agents": 2, "joints": False}),
]  # fmt: skip


UNPAID = {"diff_drive", "drone", "kinematic_bicycle", "pollock"}
"""Without rewards."""


def run(name, options, rows, steps, monkeypatch, **more):
    monkeypatch.setattr(harness.core.World, "collides", harness.without_gate)
    pair = Pair(name, options, rows, **PLUS.get(name, {}), **more)
    pair.run(steps)
    for share in (0.6, 0.3) if pair.paid < 1e-3 and name not in UNPAID else ():  # few things happen where things start
        pair.crowd(share)
        pair.run(2)
    least = 1e-4 if options.get("pos_shaping_factor") == 0 else 1e-3
    assert name in UNPAID or pair.paid > least, f"no reward worth the name: {pair.paid}"


@pytest.mark.reference
@pytest.mark.parametrize(("name", "options"), first(CASES, 3), ids=[name for name, _ in CASES])
def test_a_few_steps_are_those_of_vmas(name, options, monkeypatch):
    heavy = name in {"joint_passage", "kinematic_bicycle", "road_traffic", "sampling", "waterfall"}
    heavy = heavy or "box_agents" in options
    run(name, options, 8, 3 if heavy else 12, monkeypatch)


@pytest.mark.reference
@pytest.mark.parametrize("mode", ["discrete", "multidiscrete"])
@pytest.mark.parametrize("name", first(harness.IN_VMAS, 4))
def test_choices_do_what_they_do_in_vmas(name, mode, monkeypatch):
    monkeypatch.setattr(harness.core.World, "collides", harness.without_gate)
    Pair(name, {}, 4, **PLUS.get(name, {}), mode=mode).run(3)


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize(("name", "options"), some(CASES, 4), ids=[name for name, _ in CASES])
def test_many_steps_of_64_rows_are_those_of_vmas(name, options, sized, monkeypatch):
    run(name, options, 64, sized(30, 100), monkeypatch)


@pytest.mark.reference
def test_all_scenarios_are_compared():
    assert {name for name, _ in CASES} == set(harness.IN_VMAS)
