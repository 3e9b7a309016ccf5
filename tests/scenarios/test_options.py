"""Every option of every scenario at odd and extreme values: what VMAS runs we run alike, or refuse for a reason."""

import dataclasses
import inspect
import re
import signal
import warnings
from contextlib import contextmanager

import harness
import pytest
import torch
from sizes import first, some
from test_against_vmas import PLUS

from marlenv.envs.registry import load
from marlenv.physics.env import make_scenario

ODD = [
    ("dispersion", {"pos_range": 0.0}),
    ("dispersion", {"n_agents": 1, "n_food": 1, "food_radius": 1e-3}),
    ("discovery", {"n_lidar_rays_entities": 0}),
    ("discovery", {"n_lidar_rays_entities": 0, "n_lidar_rays_agents": 0, "use_agent_lidar": True}),
    ("discovery", {"n_lidar_rays_entities": 1, "n_lidar_rays_agents": 1, "use_agent_lidar": True}),
    ("discovery", {"lidar_range": 0.0, "covering_range": 0.0}),
    ("flocking", {"n_obstacles": 0}),
    ("flocking", {"n_obstacles": 0, "n_lidar_rays": 0}),
    ("flocking", {"n_lidar_rays": 1}),
    ("give_way", {"v_range": 0.0}),
    ("give_way", {"a_range": 0.0}),
    ("give_way", {"pos_shaping_factor": 1000.0}),
    ("give_way", {"linear_friction": 0.0, "min_input_norm": 10.0}),
    ("joint_passage", {"n_passages": 14}),
    ("joint_passage", {"n_passages": 14, "fixed_passage": False, "collision_reward": -0.1}),
    ("joint_passage", {"n_passages": 13}),
    ("joint_passage", {"joint_length": 0.8}),
    ("joint_passage", {"joint_length": 1.93, "random_start_angle": False, "random_goal_angle": False}),
    ("joint_passage", {"max_speed_1": 0.0}),
    ("joint_passage", {"mass_ratio": 1e-3}),
    ("joint_passage", {"mass_position": -1.0}),
    ("joint_passage", {"mass_position": 10.0, "asym_package": False}),
    ("kinematic_bicycle", {"l_f": 0.0}),
    ("kinematic_bicycle", {"l_r": 0.0}),
    ("kinematic_bicycle", {"max_steering_angle": 0.0}),
    ("kinematic_bicycle", {"max_steering_angle": 1.5}),
    ("kinematic_bicycle", {"max_speed": 0.0}),
    ("kinematic_bicycle", {"n_agents": 1}),
    ("navigation", {"n_lidar_rays": 0}),
    ("navigation", {"lidar_range": 0.0}),
    ("navigation", {"pos_shaping_factor": 1000.0}),
    ("navigation", {"n_agents": 8, "n_lidar_rays": 1, "agent_radius": 0.01}),
    ("reverse_transport", {"package_width": 0.06}),
    ("reverse_transport", {"package_width": 0.06, "package_length": 0.06}),
    ("sampling", {"lidar_range": 0.0}),
    ("sampling", {"agent_radius": 2.0}),
    ("simple_tag", {"num_landmarks": 0, "bound": 0.05}),
    ("simple_tag", {"num_landmarks": 0, "bound": 0.0}),
    ("simple_tag", {"bound": 0.1}),
    ("simple_world_comm", {"num_adversaries": 1}),
    ("simple_world_comm", {"num_adversaries": 1, "num_good_agents": 1, "num_landmarks": 0}),
    ("wheel", {"line_length": 1e-3, "desired_velocity": -1.0}),
    ("wind_flocking", {"cover_angle_tolerance": 1.5}),
    ("wind_flocking", {"cover_angle_tolerance": 3.0}),
    ("wind_flocking", {"v_range": 0.0}),
    ("wind_flocking", {"f_range": 0.0, "use_controller": False}),
    ("wind_flocking", {"wind": -1.0, "desired_vel": -1.0}),
]
"""What VMAS 1.5.2 runs, to the edge."""
BELOW_ZERO = {
    ("asym_joint", "mass_ratio"), ("asym_joint", "max_speed_1"), ("buzz_wire", "max_speed_1"), ("pollock", "n_boxes"),
    ("football", "formation_agents_per_column"),
    ("football", "n_traj_points"),
    ("football", "agent_size"),
    ("football", "goal_size"),
    ("football", "goal_depth"),
    ("football", "pitch_length"),
    ("football", "pitch_width"),
    ("football", "ball_mass"),
    ("football", "ball_size"),
    ("football", "max_speed"),
    ("football", "ball_max_speed"),
    ("football", "n_red_agents"),
    *(("football", f"ai_{what}strength") for what in ("", "decision_", "precision_")),
    ("discovery", "agents_per_target"), ("road_traffic", "threshold_change_steering"),
    ("vel_control", "green_mass"), ("het_mass", "green_mass"), ("het_mass", "blue_mass"), ("het_mass", "mass_noise"),
    ("joint_passage_size", "mass_ratio"), ("joint_passage_size", "max_speed_1"),
    ("multi_give_way", "a_range"), ("goal", "a_range"), ("circle_trajectory", "a_range"),
    ("multi_give_way", "u_range"), ("goal", "u_range"), ("circle_trajectory", "u_range"), ("pollock", "n_lines"),
    ("multi_give_way", "linear_friction"), ("goal", "linear_friction"), ("circle_trajectory", "linear_friction"),
    ("multi_give_way", "comms_range"), ("goal", "dt_delay"), ("circle_trajectory", "dt_delay"),
    ("balance", "package_mass"), ("discovery", "covering_range"), ("discovery", "lidar_range"),
    ("discovery", "n_lidar_rays_agents"), ("discovery", "n_lidar_rays_entities"), ("flocking", "n_lidar_rays"),
    ("flocking", "n_obstacles"), ("give_way", "a_range"), ("give_way", "dt_delay"), ("give_way", "linear_friction"),
    ("give_way", "obs_noise"), ("give_way", "v_range"), ("joint_passage", "mass_ratio"),
    ("joint_passage", "max_speed_1"),
    ("navigation", "lidar_range"), ("navigation", "n_lidar_rays"), ("reverse_transport", "package_mass"),
    ("sampling", "lidar_range"), ("simple_tag", "num_landmarks"), ("simple_world_comm", "num_adversaries"),
    ("simple_world_comm", "num_landmarks"), ("transport", "package_mass"), ("wheel", "line_mass"),
    ("wind_flocking", "cover_angle_tolerance"), ("wind_flocking", "f_range"), ("wind_flocking", "v_range"),
}  # fmt: skip
"""Negative numbers that VMAS takes and that mean nothing: counts (read as none), masses, ranges, limits, friction."""
NOBODY = {
    (name, "n_agents")
    for name in (
        "discovery",
        "dropout",
        "diff_drive",
        "flocking",
        "kinematic_bicycle",
        "pollock",
        "sampling",
        "simple_spread",
        "wheel",
    )
} | {("simple_tag", "num_adversaries"), ("football", "ai_blue_agents")}
"""VMAS steps a world in which nobody acts; an env without actions is none."""
UNLIKE = {"physically_different": True, "n_blue_agents": 5}
REFUSED = [
    ("balance", {"n_agents": 14}, "n_agents=14 is out of range"),  # they stand within each other
    ("discovery", {"agents_per_target": 0}, "agents_per_target=0 is out of range"),  # pays for what nobody covers
    ("road_traffic", {"threshold_change_steering": 36}, "must be below max_steering_angle"),  # pays for wild steering
    ("road_traffic", {"max_steering_angle": 0.01}, "must be below max_steering_angle"),
    *(
        ("football", {f"ai_{what}strength": x}, f"ai_{what}strength={x} is out of range")
        for what in ("", "decision_", "precision_")
        for x in (2.0, 10.0)
    ),
    (
        "simple_world_comm",
        {"num_adversaries": 0},
        "num_adversaries=0 is out of range",
    ),  # the leader would be one of the prey
    *(("joint_passage", {"joint_length": x}, f"joint_length={x} is out of range") for x in (2.0, 10.0)),  # 800 m/s
    ("joint_passage", {"joint_length": 0.9}, "joint_length must be at most 0.8 with"),  # no room for it, upright
    *(("joint_passage_size", {"joint_length": x}, f"joint_length={x} is out of range") for x in (0.7, 2.0, 10.0)),
    *(  # steering left turns right
        (name, {"max_steering_angle": x}, f"max_steering_angle={x} is out of range")
        for name in ("kinematic_bicycle", "road_traffic")
        for x in (1.58, 2.0, 10.0)
    ),
    ("football", {"u_multiplier": 0.03, **UNLIKE}, "u_multiplier must be 0.05 at least"),  # the keeper goes backwards
    ("football", {"u_shoot_multiplier": 0.1, "enable_shooting": True, **UNLIKE}, "u_shoot_multiplier must be 0.2 at"),
    ("sampling", {"agent_radius": 2.1}, "at most the size of the field"),  # counts cells from the other end
    ("football", {"ball_size": 2.0}, "'Ball', which collide, overlap at every start"),  # larger than the pitch
    ("football", {"ball_size": 10.0}, "'Ball', which collide, overlap at every start"),
    ("football", {"formation_agents_per_column": 0}, "agents_per_column=0 is out of range"),
    *(
        ("het_mass", {option: x}, "must be at most green_mass" if x else "is out of range")
        for option in ("green_mass", "blue_mass")
        for x in (0.0, 0.01, 0.5)
    ),
    ("het_mass", {"mass_noise": 10.0}, "must be at most green_mass"),  # masses below 0
    *(
        ("multi_give_way", {"n_agents": n}, f"n_agents={n} is out of range") for n in (-1, 0, 1, 2, 7)
    ),  # it makes four agents all the same
]
"""What VMAS runs too, and why not."""
FAILING = [
    ("balance", {"n_agents": 1}, "AssertionError"),
    ("balance", {"package_mass": 0.0}, "nan"),
    ("ball_passage", {"n_passages": 0}, "AssertionError"),
    ("ball_passage", {"n_passages": 21}, "AssertionError"),
    ("discovery", {"n_targets": 0}, "RuntimeError"),
    ("dispersion", {"n_food": 0}, "RuntimeError"),
    ("give_way", {"a_range": 0.0, "linear_friction": 0.0}, "nan"),
    ("joint_passage", {"n_passages": 0}, "AssertionError"),
    ("joint_passage", {"n_passages": 15}, "AssertionError"),
    ("joint_passage", {"mass_position": 1.5}, "AssertionError"),
    ("joint_passage", {"joint_angle_obs_noise": 0.1}, "AssertionError"),
    ("kinematic_bicycle", {"l_f": 0.0, "l_r": 0.0}, "AssertionError"),
    ("navigation", {"agents_with_same_goal": 2}, "AssertionError"),
    ("reverse_transport", {"package_width": 0.05}, "RuntimeError"),
    ("road_traffic", {"n_agents": 1}, "ValueError"),
    ("road_traffic", {"n_nearing_agents_observed": 0}, "RuntimeError"),
    ("road_traffic", {"n_nearing_agents_observed": 20}, "ValueError"),
    ("road_traffic", {"is_partial_observation": False, "n_nearing_agents_observed": 3}, "RuntimeError"),
    ("road_traffic", {"n_points_short_term": 0}, "IndexError"),
    ("road_traffic", {"threshold_near_boundary_high": 0.0}, "nan"),
    ("road_traffic", {"max_steering_angle": 0.0}, "nan"),
    ("road_traffic", {"max_speed": 0.0}, "nan"),
    ("road_traffic", {"threshold_change_steering": 35.0}, "nan"),
    ("sampling", {"agent_radius": 10.0}, "IndexError"),
    ("sampling", {"grid_spacing": 0.07}, "AssertionError"),
    ("sampling", {"n_gaussians": 0}, "RuntimeError"),
    ("simple_tag", {"bound": 0.05}, "RuntimeError"),
    ("simple_tag", {"num_adversaries": 0}, "RuntimeError"),
    ("simple_world_comm", {"num_food": 0}, "RuntimeError"),
    ("simple_world_comm", {"num_forests": 0}, "RuntimeError"),
    ("simple_world_comm", {"num_good_agents": 0}, "RuntimeError"),
    ("transport", {"n_packages": 0}, "ValueError"),
    ("wheel", {"line_mass": 0.0}, "nan"),
    ("wind_flocking", {"cover_angle_tolerance": 0.0}, "nan"),
]
"""What VMAS cannot do either, and how it fails."""
VARIANTS = {
    "discovery": {"use_agent_lidar": True, "targets_respawn": False, "shared_reward": True},
    "give_way": {
        "use_velocity_controller": False,
        "mirror_passage": True,
        "observe_rel_pos": True,
        "energy_rew_coeff": 0.3,
    },
    "joint_passage": {"fixed_passage": False, "asym_package": False, "collision_reward": -0.1, "use_controller": True},
    "navigation": {"collisions": False, "agents_with_same_goal": 2, "observe_all_goals": True, "shared_rew": False},
    "wind_flocking": {"use_controller": False, "energy_shaping_factor": 0.3, "rot_shaping_factor": 0.5},
}
"""Other options with which all of a scenario's options are tried once more."""
NOISY = {
    (name, "obs_noise")
    for name in (
        *("asym_joint", "circle_trajectory", "give_way", "goal", "joint_passage", "joint_passage_size"),
        *("line_trajectory", "multi_give_way"),
    )
} | {(name, "joint_angle_obs_noise") for name in ("asym_joint", "joint_passage", "joint_passage_size")}


class Late(Exception):
    pass


@contextmanager
def at_most(seconds):
    def ring(*_):
        raise Late

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def fate_in_vmas(name, options, steps=50):
    """``"runs"``, ``"nan"``, ``"Late"`` (never returns), the name of the error, or ``"nobody"`` when no agent acts."""
    try:
        with warnings.catch_warnings(), at_most(5), torch.no_grad():
            warnings.simplefilter("ignore")
            env = harness.vmas.make_env(name, num_envs=3, seed=0, **options)
            for _ in range(steps):
                seen, rewards, _, infos = env.step(env.get_random_actions())
                moved = [x for body in env.world.entities for x in (body.state.pos, body.state.vel, body.state.rot)]
                told = [x for info in infos for x in info.values()]
                if not all(x.isfinite().all() for x in (*seen, *rewards, *told, *moved)):
                    return "nan"
    except Exception as error:
        return type(error).__name__
    return "runs" if seen else "nobody"


def equal(name, options, monkeypatch, steps=4):
    """Raises unless ours does what VMAS does."""
    monkeypatch.setattr(harness.core.World, "collides", harness.without_gate)
    harness.Pair(name, options, 4, **PLUS.get(name, {}), stiff=True).run(steps)


def named(cases):
    return [f"{name}-{'-'.join(f'{k}={v}' for k, v in options.items())}" for name, options, *_ in cases]


SLOW = {"joint_passage", "kinematic_bicycle", "sampling"}


@pytest.mark.reference
@pytest.mark.parametrize(("name", "options"), first(ODD, 3), ids=named(ODD))
def test_what_is_odd_but_runs_in_vmas_is_the_same_here(name, options, monkeypatch):
    equal(name, options, monkeypatch, 2 if name in SLOW else 6)


@pytest.mark.reference
@pytest.mark.parametrize(("name", "options", "fate"), FAILING, ids=named(FAILING))
def test_what_vmas_cannot_do_is_refused_in_words(name, options, fate):
    assert fate_in_vmas(name, options, 5) == fate
    with pytest.raises(
        ValueError, match=rf"{load(harness.WHERE[name]).__name__}: .*{next(iter(options))}|must be a positive"
    ):
        make_scenario(load(harness.WHERE[name]), **options)


@pytest.mark.reference
@pytest.mark.parametrize(("name", "options", "says"), REFUSED, ids=named(REFUSED))
def test_what_vmas_runs_and_we_do_not_means_nothing(name, options, says):
    assert fate_in_vmas(name, options, 5) == "runs"
    with pytest.raises(ValueError, match=says):
        make_scenario(load(harness.WHERE[name]), **options)


@pytest.mark.parametrize(("name", "option"), sorted(BELOW_ZERO | NOBODY))
def test_what_is_refused_is_refused_on_the_page(name, option):
    about = inspect.getdoc(load(harness.WHERE[name]))
    text = re.search(rf"^    {option}: (.*(?:\n        .*)*)", about, re.M)[1]
    assert re.search(r"from [\d.]+ (?:to \d+|on)|above 0|not both", text), text


@pytest.mark.parametrize("name", harness.WHERE)
def test_every_option_has_a_line_of_its_own_on_the_page(name):
    kind = load(harness.WHERE[name])
    lines = re.findall(r"^    (\w+): ", inspect.getdoc(kind).partition("Args:")[2], re.M)
    assert set(lines) == {field.name for field in dataclasses.fields(kind)}


def values(field):
    """Odd and extreme values of an option."""
    if field.type == "bool":
        return [not field.default]
    if field.type.startswith("int"):
        return [-1, 0, 1, 2, 7]
    return [-0.5, 0.0, 0.01, 0.5, 2.0, 10.0]


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize(
    ("name", "varied"), some([(name, False) for name in harness.IN_VMAS] + [(name, True) for name in VARIANTS], 11)
)
def test_every_option_is_equal_to_that_of_vmas_or_refused_for_a_reason(name, varied, sized, monkeypatch):
    others, wrong = VARIANTS[name] if varied else {}, []
    for field in dataclasses.fields(load(harness.WHERE[name])):
        option = name, field.name
        all_values = values(field)
        telling = [x for x in all_values if isinstance(x, bool) or x in (0, 2)]
        for value in [] if option in NOISY else sized(telling, all_values):
            options = {**others, field.name: value}
            fate = fate_in_vmas(name, options, 10)
            meant = option not in (NOBODY if fate == "nobody" else BELOW_ZERO if value < 0 else ())
            meant = meant and (name, field.name, value) not in [(n, *next(iter(o.items()))) for n, o, _ in REFUSED]
            try:
                if fate == "runs":
                    equal(name, options, monkeypatch)
                else:
                    data = make_scenario(load(harness.WHERE[name]), num_envs=2, compile="none", **options).rollout(2)
                    assert all(x.isfinite().all() for x in data.values(True, True) if x.is_floating_point())
            except (ValueError, AssertionError) as error:
                refused = isinstance(error, ValueError)
                if not refused or (fate in ("runs", "nobody") and meant):
                    wrong.append((options, fate, str(error)[:90]))
    assert not wrong, "\n".join(map(str, wrong))
