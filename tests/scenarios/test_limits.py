"""What options do at their limits, what refusals say, and whether pictures show the edge of the world."""

import math
import warnings

import harness
import pytest
import torch

import marlenv
from marlenv.physics.task.picture import Picture

WALL, RADIUS = 0.1, 0.03333  # metres: half the width of the wall of bricks, and the radius of an agent
SHOOT = {"ai_red_agents": False, "enable_shooting": True, "n_blue_agents": 2, "n_red_agents": 2}
FORMATION = {"spawn_in_formation": True, "only_blue_formation": False, "formation_noise": 0.0}
ONLY_MARK = {"ball_passage", "passage", "sampling", "simple_tag"}
"""Scenarios in which VMAS does not show where the world ends, and nothing else does; ours shows it."""
UNLIKE = {"physically_different": True, "n_blue_agents": 5, "enable_shooting": True}


def vmas_env(name, rows, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return harness.vmas.make_env(name, num_envs=rows, seed=0, **options)


def at(env, name):
    return env.simulation.stepper.plan.place[name]


# --- rods -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "radii"),
    [
        ("joint_passage", {"joint_length": 0.8}, (RADIUS, RADIUS)),
        (
            "joint_passage",
            {"joint_length": 1.93, "random_start_angle": False, "random_goal_angle": False},
            (RADIUS,) * 2,
        ),
        ("joint_passage_size", {"joint_length": 0.6, "random_goal_angle": True}, (RADIUS, 3 * RADIUS)),
    ],
)
def test_the_longest_rods_start_and_end_between_wall_and_border(name, options, radii):
    env = harness.make(name, 2000, seed=1, **options)
    pos = env.reset()["agents", "observation"][..., :2]
    size = torch.tensor(radii)
    assert (pos[..., 1] + size <= -WALL + 1e-6).all()
    assert (pos.abs() <= 1 + 1e-6).all()
    state, goal = env.get_state(), at(env, "joint_goal")
    rot, half = state["rot"][:, goal], options["joint_length"] / 2
    ends = half * torch.stack((rot.cos(), rot.sin()), 1)
    for end in (state["pos"][:, :, goal] - ends, state["pos"][:, :, goal] + ends):
        assert (end[:, 1] - min(radii) >= WALL - 1e-6).all()
        assert (end.abs() <= 1 + 1e-6).all()
    td = env.full_action_spec.zero()
    assert env.step(td)["next", "agents", "observation"][..., 2:4].abs().max() < 0.1  # nothing pushed them away


@pytest.mark.reference
@pytest.mark.parametrize(("name", "fits", "long"), [("joint_passage", 0.8, 0.85), ("joint_passage_size", 0.6, 0.65)])
def test_longer_rods_start_in_the_wall_or_the_border_in_vmas(name, fits, long):
    wrong = {}
    for length in (fits, long):
        env = vmas_env(name, 2000, joint_length=length)
        pos = torch.stack([agent.state.pos for agent in env.agents], 1)
        size = torch.tensor([agent.shape.radius for agent in env.agents])
        near = (pos[..., 1].abs() < WALL + size - 1e-5) | (pos.abs().amax(-1) + size > 1 + RADIUS + 1e-5)
        wrong[length] = near.any(1).float().mean()
        text = f"joint_length(={long} is| must be at most {fits})"
    assert wrong[fits] == 0
    assert wrong[long] > 0.05
    with pytest.raises(ValueError, match=text):
        harness.make(name, 1, joint_length=long)


def test_what_a_controller_asks_for_is_charged_also_beyond_what_the_agent_has():
    """The page of goal; by hand: 2 N s/m times the speed asked for, its integral over 6 s and its derivative."""
    env = harness.make("goal", 2, energy_rew_coeff=1.0)
    env.reset()
    td = env.full_action_spec.zero()
    td["agents", "action"][0] = 1.0
    asked = 2 * (1 + 0.05 / 6 + 0.002 / 0.05)  # N, for 1 m/s, as velocities are no longer than u_range
    share = env.step(td)["next", "agents", "info", "energy_rew"].flatten()
    torch.testing.assert_close(share, torch.tensor([-asked / (math.sqrt(2) * 1.1), 0.0]), rtol=1e-5, atol=1e-9)
    assert asked > math.sqrt(2) * 1.1


# --- football ---------------------------------------------------------------------------------------


@pytest.mark.reference
@pytest.mark.parametrize("options", [{}, FORMATION], ids=["anywhere", "formation"])
def test_red_looks_where_it_does_in_vmas_and_its_page_says_so(options):
    theirs = vmas_env("football", 2, **SHOOT, **options)
    env = harness.make("football", 2, **SHOOT, **options)
    env.reset()
    for name, agent in (
        ("agent_blue_0", theirs.scenario.blue_agents[0]),
        ("agent_red_0", theirs.scenario.red_agents[0]),
    ):
        assert torch.equal(env.get_state()["rot"][:, at(env, name)], agent.state.rot[:, 0])
    back = env.get_state()["rot"][0, at(env, "agent_red_0")] == 0
    assert back == bool(options)
    assert ("faces its own goal" in " ".join(type(env.scenario).__doc__.split())) or not back


@pytest.mark.parametrize("multiplier", [0.3, 0.6, 1.2])
def test_a_shot_is_2_67_times_the_square_of_its_multiplier(multiplier):
    options = {"enable_shooting": True, "n_blue_agents": 1, "n_red_agents": 0, "ball_max_speed": 100.0}
    env = harness.make("football", 1, u_shoot_multiplier=multiplier, **options)
    td = env.reset()
    state = env.get_state()
    state["pos"][0, :, at(env, "agent_blue_0")] = torch.tensor([-0.06, 0.0])
    state["pos"][0, :, at(env, "Ball")] = 0.0
    env.set_state(state)
    td["agent_blue", "action"] = torch.tensor([[[0.0, 0.0, 0.0, 1.0]]])
    force = env.step(td)["next", "agent_blue", "observation"][0, 0, 10:12]
    torch.testing.assert_close(force, torch.tensor([2.67 * multiplier**2, 0.0]))


def test_a_keeper_turns_as_much_harder_as_its_page_says():
    env = harness.make("football", 1, n_red_agents=0, **UNLIKE)
    torque = [body.entity.kind.per_action("u_multiplier")[2] for body in env.scenario.sides["blue"]]
    assert torque[4] / torque[0] == pytest.approx(670, rel=0.01)
    for option in ({"u_multiplier": 0.05}, {"u_shoot_multiplier": 0.2}):  # the limits themselves
        own = harness.make("football", 1, n_red_agents=0, **UNLIKE, **option).scenario.sides["blue"]
        assert all(x >= 0 for body in own for x in body.entity.kind.per_action("u_multiplier"))


# --- steering ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "group"), [("kinematic_bicycle", "bicycle"), ("road_traffic", "agents")])
def test_steering_left_turns_left_up_to_the_limit(name, group):
    more = {"n_agents": 3, "is_add_noise": False} if name == "road_traffic" else {"n_agents": 1}
    for angle in (0.5, 1.2, 1.57):
        env = harness.make(name, 1, max_steering_angle=1.57, **more)
        env.reset()
        before = env.get_state()["rot"][0, 0]
        td = env.full_action_spec.zero()
        td[group, "action"][0, 0] = torch.tensor([0.5, angle])
        env.step(td)
        assert env.get_state()["rot"][0, 0] > before + 0.01


# --- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "got"),
    [
        ("road_traffic", {"n_agents": 2}, "n_agents=2, n_nearing_agents_observed=2"),
        (
            "road_traffic",
            {"n_agents": 6, "map_type": "3", "scenario_probabilities": (0.0, 0.0, 1.0)},
            "n_agents=6, map_type='3', scenario_probabilities=(0.0, 0.0, 1.0)",
        ),
        ("football", {"physically_different": True}, "n_blue_agents=3, physically_different=True"),
        ("football", {"pitch_width": 0.3}, "agent_size=0.025, goal_size=0.35, pitch_width=0.3"),
        ("football", {"ai_strength": (1.0, 0.5, 0.2)}, "ai_strength=(1.0, 0.5, 0.2)"),
    ],
)
def test_a_refusal_shows_the_options_that_it_names_and_no_others(name, options, got):
    with pytest.raises(ValueError, match="must|needs|leaves") as error:
        harness.make(name, 1, **options)
    assert str(error.value).partition(", got ")[2] == got


def test_cars_on_a_part_of_the_map_are_as_many_as_the_page_says():
    for odds, most in (((1.0, 0.0, 0.0), 10), ((0.0, 1.0, 0.0), 5), ((0.0, 0.0, 1.0), 5), ((1.0, 0.0, 1.0), 5)):
        options = {"map_type": "3", "scenario_probabilities": odds}
        harness.make("road_traffic", 1, n_agents=most, **options)
        with pytest.raises(ValueError, match=f"n_agents must be at most {most} "):
            harness.make("road_traffic", 1, n_agents=most + 1, **options)


# --- pictures ---------------------------------------------------------------------------------------


@pytest.mark.reference
@pytest.mark.parametrize(
    "name",
    ["balance", "ball_passage", "dispersion", "football", "joint_passage", "joint_passage_size", "passage", "pollock",
     "road_traffic", "sampling", "simple_tag", "simple_world_comm", "transport"],
)  # fmt: skip
def test_pictures_show_the_edge_of_the_world_where_vmas_does(name, monkeypatch):
    drawn = []
    monkeypatch.setattr(Picture, "border", lambda _, x, y: drawn.append((x, y)))
    env = marlenv.make(name, num_envs=1, seed=0, compile="none")
    env.reset()
    env.render(0, size=(40, 40))
    scene = vmas_env(name, 1).scenario
    laws = env.simulation.world.laws
    seen = scene.visualize_semidims or name in ONLY_MARK
    assert drawn == ([(laws.x_semidim, laws.y_semidim)] if seen else [])
