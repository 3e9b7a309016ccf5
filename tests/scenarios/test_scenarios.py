"""What is special about each scenario, as a law or a known number; and options that cannot be."""

import dataclasses

import harness
import pytest
import torch
from sizes import first
from tensordict import TensorDict

from marlenv.envs.registry import load
from marlenv.physics.env import make_scenario

ROWS = 8


def env_of(name, rows=ROWS, **options):
    env = harness.make(name, rows, **options)
    return env, env.reset()


def put(env, **places):
    """Moves bodies: name -> (x, y), in all rows; returns the data to go on from."""
    state = env.get_state()
    for name, xy in places.items():
        state["pos"][..., env.simulation.stepper.plan.place[name]] = torch.tensor(xy)
    return env.set_state(state)


def act(env, td, **actions):
    """A step with the same actions in all rows; zero where none is given."""
    for key in env.action_keys:
        td[key] = torch.zeros(env.full_action_spec[key].shape)
        if key[0] in actions:
            td[key] = torch.tensor(actions[key[0]]).expand(td[key].shape)
    return env.step(td)["next"]


def test_balance_ends_when_the_package_falls():
    env, _ = env_of("balance")
    data = act(env, put(env, package=(0.9, -0.98)))
    assert data["terminated"].all()
    assert (data["agents", "info", "ground_rew"] == -10).all()


def test_ball_passage_ends_at_the_goal():
    env, _ = env_of("ball_passage")
    data = act(env, put(env, ball=(0.5, 0.5), goal=(0.5, 0.505)))
    assert data["terminated"].all()


def test_patches_of_commons_are_shared_regrow_and_are_gone_for_good():
    env, _ = env_of("commons", n_agents=3, n_patches=2, appetite=0.25)
    td = put(env, agent_0=(0.1, 0.0), agent_1=(-0.1, 0.0), agent_2=(0.9, 0.9), patch_0=(0.0, 0.0), patch_1=(-0.9, 0.9))
    stock, full, paid = 1.0, 1.0, []
    for _ in range(5):
        td = act(env, td)
        taken = min(stock, 0.5)
        stock = (stock - taken) * (1 + 0.05 * (1 - stock + taken))
        paid.append(taken / 2)
        expected = torch.tensor([paid[-1], paid[-1], 0.0])
        torch.testing.assert_close(td["agents", "reward"].squeeze(-1), expected.expand(ROWS, 3))
        seen = td["agents", "observation"][..., 4:10].unflatten(-1, (2, 3))[..., 2]
        torch.testing.assert_close(seen, torch.tensor([stock, full]).expand(ROWS, 3, 2))
    assert paid == [0.25, 0.25, pytest.approx(0.00656, abs=1e-5), 0.0, 0.0]
    assert not td["terminated"].any()
    td = put(env, agent_0=(-0.9, 0.9), agent_1=(-0.9, 0.9))
    ends = [bool(act(env, td)["terminated"].all()) for _ in range(4)]
    assert ends == [False, False, True, True]


def test_food_of_dispersion_is_shared_by_those_who_touch_it_and_eaten_once():
    env, _ = env_of("dispersion", n_agents=4, n_food=1)
    data = act(env, put(env, agent_0=(0.5, 0.5), agent_1=(0.5, 0.5), food_0=(0.5, 0.52)))
    assert data["agents", "reward"].squeeze(-1).tolist() == [[0.5, 0.5, 0.0, 0.0]] * ROWS
    assert data["terminated"].all()


def test_a_target_of_discovery_needs_two_agents_and_moves_when_it_is_covered():
    env, _ = env_of("discovery", n_agents=2, n_targets=1)
    alone = act(env, put(env, agent_0=(0, 0.1), agent_1=(0.9, 0.9), target_0=(0.0, 0.0)))
    assert not alone["agents", "reward"].any()
    both = act(env, put(env, agent_0=(0, 0.1), agent_1=(0, -0.1), target_0=(0.0, 0.0)))
    assert (both["agents", "reward"] == 1).all()
    at = env.simulation.stepper.plan.place["target_0"]
    assert (env.get_state()["pos"][..., at].norm(dim=-1) > 0.1).all()


def test_the_target_of_flocking_moves_by_itself():
    env, td = env_of("flocking")
    at = env.simulation.stepper.plan.place["target"]
    for _ in range(3):
        act(env, td)
    moved = env.get_state()["vel"][..., at]
    assert (moved[:, 0] > 0.1).all()  # it starts to the right


def test_agents_of_give_way_who_swapped_are_done():
    env, _ = env_of("give_way", done_on_completion=True)
    data = act(env, put(env, agent_0=(2.29, 0.0), agent_1=(-2.29, 0.0)))
    assert data["terminated"].all()
    assert torch.allclose(data["agents", "info", "final_rew"], torch.tensor(0.01))


def test_the_rod_of_joint_passage_keeps_its_length():
    env, td = env_of("joint_passage")
    for _ in range(10):
        td = env.step_mdp(env.rand_step(td))
    ends = [env.simulation.stepper.plan.place[f"agent_{i}"] for i in (0, 1)]
    pos = env.get_state()["pos"]
    assert ((pos[..., ends[0]] - pos[..., ends[1]]).norm(dim=-1) - 0.5).abs().max() < 0.03


def test_navigation_ends_when_all_are_home():
    env, _ = env_of("navigation", n_agents=2)
    home = {"agent_0": (0.5, 0), "goal_0": (0.5, 0), "agent_1": (-0.5, 0), "goal_1": (-0.5, 0.01)}
    assert act(env, put(env, **home))["terminated"].all()
    assert not act(env, put(env, agent_0=(0.0, 0.0)))["terminated"].any()


def test_walls_of_rescue_hide_victims_and_cut_the_graph():
    env, _ = env_of("rescue", n_agents=2, n_victims=1, n_walls=1)
    state = env.get_state()
    state["rot"][..., env.simulation.stepper.plan.place["wall_0"]] = torch.pi / 2
    env.set_state(state)
    at = {"agent_0": (0.0, 0.0), "agent_1": (0.4, 0.0), "victim_0": (0.4, 0.2)}
    free = put(env, wall_0=(-0.8, 0.0), **at)
    between = put(env, wall_0=(0.2, 0.0), **at)
    seen = [td["agents", "observation"][..., 16:].expand(ROWS, 2, 6) for td in (free, between)]
    there = torch.tensor([[0.4, 0.2, 1.0, 0.4, 0.0, 1.0], [0.0, 0.2, 1.0, -0.4, 0.0, 1.0]])
    torch.testing.assert_close(seen[0], there.expand(ROWS, 2, 6))
    hidden = torch.tensor([[0.0] * 6, [0.0, 0.2, 1.0, 0.0, 0.0, 0.0]])
    torch.testing.assert_close(seen[1], hidden.expand(ROWS, 2, 6))
    assert free["info", "edge_mask"].all()
    assert free["info", "edge_index"][0].tolist() == [[1, 0], [0, 1]]
    assert not between["info", "edge_mask"].any()


def test_a_victim_of_rescue_counts_once_and_is_not_seen_again():
    env, _ = env_of("rescue", n_agents=2, n_victims=2, n_walls=1)
    at = {"victim_0": (0.0, 0.0), "victim_1": (0.5, 0.5), "wall_0": (-0.8, 0.8)}
    first = act(env, put(env, agent_0=(0.05, 0.0), agent_1=(-0.05, 0.0), **at))
    assert (first["agents", "reward"] == 1).all()
    assert not first["agents", "observation"][..., 16:22].any()
    again = act(env, first)
    assert not again["agents", "reward"].any()
    assert not again["terminated"].any()
    last = act(env, put(env, agent_0=(0.5, 0.45)))
    assert (last["agents", "reward"] == 1).all()
    assert last["terminated"].all()


def test_agents_of_reverse_transport_stay_inside_and_push_the_package():
    env, td = env_of("reverse_transport", package_mass=1.0)
    for _ in range(40):
        td = act(env, td, agents=[1.0, 0.0])
    state, place = env.get_state(), env.simulation.stepper.plan.place
    package = state["pos"][..., place["package"]]
    agents = torch.stack([state["pos"][..., place[f"agent_{i}"]] for i in range(4)], 1)
    assert ((agents - package.unsqueeze(1)).abs() < 0.3).all()
    assert (state["vel"][:, 0, place["package"]] > 0.01).all()


def test_a_cell_of_sampling_is_sampled_once():
    env, _ = env_of("sampling", n_agents=1, shared_rew=False)
    first = act(env, put(env, agent_0=(0.02, 0.02)))["agents", "reward"]
    again = act(env, put(env, agent_0=(0.02, 0.02)))["agents", "reward"]
    assert (first > 0).all()
    assert not again.any()


@pytest.mark.parametrize("size", [{"xdim": 0.14, "ydim": 0.14, "grid_spacing": 0.02},
                                  {"xdim": 2.1, "ydim": 2.1, "grid_spacing": 0.3, "cov": 0.02}])  # fmt: skip
def test_a_field_of_sampling_has_as_many_cells_as_it_says(size):
    env, _ = env_of("sampling", 200, **size)
    places, side = env.get_state()["memory.places"].double(), size["grid_spacing"]
    line = ((torch.arange(14, dtype=torch.float64) - 7) * side).clamp(0.025 - size["xdim"], size["xdim"] - 0.025)
    variance = size.get("cov", 0.05)
    corners = torch.cartesian_prod(line, line)
    far = (corners.unsqueeze(1).unsqueeze(1) - places).square().sum(-1)  # [cells, B, places]
    field = (torch.exp(-far / (2 * variance)) / (2 * torch.pi * variance)).sum(-1)
    torch.testing.assert_close(env.get_state()["memory.highest"].double(), field.amax(0), rtol=1e-4, atol=1e-6)
    assert env.render(0).shape == (600, 600, 3)


def test_the_goal_of_a_speaker_is_known_to_it_alone():
    env, td = env_of("simple_speaker_listener")
    goal = env.get_state()["memory.goal"]
    assert torch.equal(td["speaker", "observation"].squeeze(1).argmax(-1), goal)
    heard = act(env, td, speaker=[0.0, 0.0, 0.1, 0.9, 0.3])["listener", "observation"]
    assert torch.allclose(heard[..., -3:], torch.tensor([0.1, 0.9, 0.3]))


def test_simple_spread_is_zero_sum_of_nothing_when_all_are_covered():
    env, _ = env_of("simple_spread")
    corners = [(-0.8, 0.0), (0.8, 0.0), (0.0, 0.8)]
    places = {f"{kind}_{i}": xy for kind in ("agent", "landmark") for i, xy in enumerate(corners)}
    assert torch.allclose(act(env, put(env, **places))["agents", "reward"], torch.tensor(0.0), atol=1e-5)


def test_a_catch_in_simple_tag_costs_the_agent_and_respawns_it():
    for respawn in (False, True):
        env, _ = env_of("simple_tag", respawn_at_catch=respawn, rows=64)
        away = {
            "adversary_1": (-0.9, -0.9),
            "adversary_2": (-0.9, 0.9),
            "landmark_0": (0.9, 0.9),
            "landmark_1": (0.9, -0.9),
        }
        data = act(env, put(env, adversary_0=(0.0, 0.0), agent_0=(0.0, 0.0), **away))
        assert (data["agent", "reward"] == -10).all()
        assert (data["adversary", "reward"] == 10).all()
        gone = (env.get_state()["pos"][..., env.simulation.stepper.plan.place["agent_0"]]).abs().amax(-1) > 0.1
        assert gone.float().mean() > 0.9 if respawn else not gone.any()


def test_all_adversaries_of_simple_world_comm_hear_the_leader():
    env, td = env_of("simple_world_comm")
    data = act(env, td, lead_adversary=[0.0, 0.0, 0.2, 0.4, 0.6, 0.8])
    for group in ("lead_adversary", "adversary"):
        assert torch.allclose(data[group, "observation"][..., -4:], torch.tensor([0.2, 0.4, 0.6, 0.8]))


def test_transport_ends_at_the_goal_and_pays_no_more_there():
    env, _ = env_of("transport")
    data = act(env, put(env, package_0=(0.5, 0.5), goal=(0.5, 0.55), agent_0=(-0.9, -0.9)))
    assert data["terminated"].all()
    assert not data["agents", "reward"].any()
    assert (data["agents", "observation"][..., -1] == 1).all()


UNITS = {name: i for i, name in enumerate(["fighter_0", "fighter_1", "archer_0", "archer_1", "healer_0"])}
APART = {f"{team}_{unit}": (x, 2.0 * y) for team, x in (("red", -3.0), ("blue", 3.0)) for unit, y in UNITS.items()}


def skirmish(health, places):
    """A skirmish with units somewhere and others out of reach; health of the teams, where it is not full."""
    env, _ = env_of("skirmish", semidim=9.0)
    put(env, **APART | places)
    state = env.get_state()
    for unit, value in health.items():
        team, _, name = unit.partition("_")
        state[f"memory.{team}"][:, UNITS[name]] = value
    return env, env.set_state(state)


def all_act(env, td, red=(), forces=(0.0, 0.0)):
    """The named red units act, the others of their team are pushed."""
    return act(env, td, red=[[*forces, 1.0 if unit in red else -1.0] for unit in UNITS], blue=[0.0, 0.0, -1.0])


def test_units_of_a_skirmish_hurt_the_nearest_living_enemy_in_reach():
    red = {"red_fighter_0": (0.0, 0.0), "red_archer_0": (0.0, 0.3)}
    blue = {"fighter_0": (0.1, 0.0), "fighter_1": (0.05, 0.0), "archer_1": (0.3, 0.3), "healer_0": (0.3, 0.4)}
    env, td = skirmish({"blue_fighter_1": 0.0}, red | {f"blue_{unit}": xy for unit, xy in blue.items()})
    data = all_act(env, td, red=["fighter_0", "archer_0", "fighter_1", "healer_0"])
    health = env.get_state()["memory.blue"]
    torch.testing.assert_close(health, torch.tensor([1.44, 0.0, 0.8, 0.76, 0.8]).expand(ROWS, 5))
    torch.testing.assert_close(data["red", "reward"].squeeze(-1), torch.tensor(0.1 / 5.4).expand(ROWS, 5))
    assert data["blue", "alive"][0].tolist() == [True, False, True, True, True]
    assert torch.equal(data["blue", "reward"], -data["red", "reward"] * data["blue", "alive"].unsqueeze(-1))
    assert not all_act(env, data)["red", "reward"].any()


def test_a_healer_of_a_skirmish_heals_the_most_hurt_living_in_reach_to_the_full_at_most():
    near = {"healer_0": (0.0, 0.0), "fighter_0": (0.1, 0.0), "archer_0": (0.0, 0.1), "fighter_1": (-0.1, 0.0)}
    places = {f"red_{unit}": xy for unit, xy in near.items()}
    hurt = {"fighter_0": 0.5, "archer_0": 0.77, "healer_0": 0.1, "archer_1": 0.1, "fighter_1": 0.0}
    env, td = skirmish({f"red_{unit}": health for unit, health in hurt.items()}, places)
    data = all_act(env, td, red=["healer_0"])
    torch.testing.assert_close(env.get_state()["memory.red"], torch.tensor([0.55, 0.0, 0.77, 0.1, 0.1]).expand(ROWS, 5))
    torch.testing.assert_close(
        data["red", "reward"].squeeze(-1), torch.tensor([0.05 / 5.4, 0, *[0.05 / 5.4] * 3]).expand(ROWS, 5)
    )
    env, td = skirmish({"red_archer_0": 0.77}, places)
    all_act(env, td, red=["healer_0"])
    assert torch.allclose(env.get_state()["memory.red"][:, 2], torch.tensor(0.8))


def test_the_dead_of_a_skirmish_do_nothing_and_the_last_death_ends_it():
    gone = {f"blue_{unit}": 0.0 for unit in UNITS if unit != "fighter_0"}
    places = {"red_fighter_0": (0.0, 0.0), "red_fighter_1": (0.1, 0.1), "blue_fighter_0": (0.1, 0.0)}
    env, td = skirmish(gone | {"blue_fighter_0": 0.05, "red_fighter_1": 0.0}, places)
    state, at = env.get_state(), env.simulation.stepper.plan.place["red_fighter_1"]
    start, state["vel"][..., at] = state["pos"][..., at], 1.0
    td = env.set_state(state)
    data = all_act(env, td, red=["fighter_1"])
    assert not data["red", "reward"].any()  # the dead hurt nobody
    data = all_act(env, all_act(env, data, forces=(0.0, 1.0)))
    assert torch.equal(start, env.get_state()["pos"][..., at])
    assert not data["red", "observation"][:, 1].any()
    assert data["red", "alive"][0].tolist() == [True, False, True, True, True]
    assert not data["terminated"].any()
    put(env, red_fighter_0=(0.0, 0.0))
    data = all_act(env, td, red=["fighter_0"])
    assert data["terminated"].all()
    won = 1 + 0.05 / 5.4
    torch.testing.assert_close(data["red", "reward"].squeeze(-1), torch.tensor([won, 0, won, won, won]).expand(ROWS, 5))


def test_a_skirmish_can_have_groups_of_kinds_within_teams():
    plain = harness.make("skirmish", 4, seed=0)
    kinds = ("fighter", "archer", "healer")
    teams = {team: {k: [n for n in names if k in n] for k in kinds} for team, names in plain.group_map.items()}
    nested = make_scenario(harness.WHERE["skirmish"], 4, seed=0, compile="none", group_map=teams)
    assert nested.group_map == teams
    one, other = (env.reset() for env in (plain, nested))
    for team in teams:
        parts = [other[team, kind, "observation"] for kind in kinds]
        assert torch.equal(one[team, "observation"], torch.cat(parts, 1))


def test_a_push_at_the_end_of_the_wheel_turns_it():
    env, _ = env_of("wheel", n_agents=1, line_mass=1.0)
    state = env.get_state()
    state["rot"].zero_()
    env.set_state(state)
    td = put(env, agent_0=(0.9, -0.033))
    for _ in range(3):
        td = act(env, td, agents=[0.0, 1.0])
    assert (env.get_state()["ang_vel"][:, env.simulation.stepper.plan.place["line"]] > 0).all()


def test_the_big_agent_of_wind_flocking_feels_no_wind_below_the_small_one():
    env, _ = env_of("wind_flocking")
    act(env, put(env, agent_0=(0.0, 0.0), agent_1=(0.0, 1.0)))
    assert env.get_state()["gravity.agents"][..., 0].abs().max() < 0.01
    act(env, put(env, agent_0=(0.0, 1.0), agent_1=(0.0, 0.0)))
    assert torch.allclose(env.get_state()["gravity.agents"][:, 1], torch.tensor(-2.0), atol=0.01)


def test_the_chain_of_waterfall_holds_together():
    env, td = env_of("waterfall", rows=2)
    for _ in range(8):
        td = env.step_mdp(env.rand_step(td))
    place = env.simulation.stepper.plan.place
    pos = env.get_state()["pos"]
    steps = [(pos[..., place[f"agent_{i}"]] - pos[..., place[f"agent_{i + 1}"]]).norm(dim=-1) for i in range(4)]
    assert torch.stack(steps).max() < 0.1 + 2 * 0.04 + 0.03


def test_drones_end_when_they_tip_over():
    env, td = env_of("drone")
    for _ in range(300):
        td = act(env, td, drone=[1e-4, 0.0, 0.0])  # ten times its range
        if td["terminated"].any():
            break
    assert td["terminated"].all()
    assert (env.get_state()["inner.drone"][:, 0].abs().amax(-1) > torch.pi / 6).all()


def test_a_bicycle_that_steers_left_turns_left():
    env, td = env_of("kinematic_bicycle")
    for _ in range(10):
        td = act(env, td, bicycle=[1.0, 0.3])
    assert (env.get_state()["rot"][:, env.simulation.stepper.plan.place["bicycle_0"]] > 0.3).all()


def test_the_first_step_of_a_rod_pays_for_its_start_where_the_way_to_it_counts_more():
    """The start counts with the factor, the way in a step with its square."""
    env, td = env_of("joint_passage_size", pos_shaping_factor=10.0)
    state, place = env.get_state(), env.simulation.stepper.plan.place
    rod = torch.stack([state["pos"][..., place[f"agent_{i}"]] for i in (0, 1)]).mean(0)
    far = (rod - (state["memory.large"] + state["memory.small"]) / 2).norm(dim=-1)
    paid = [act(env, td)["agents", "info", "pos_rew"][:, 0, 0] for _ in range(2)]
    torch.testing.assert_close(paid[0], far * (10 - 100), rtol=1e-3, atol=1e-3)
    assert paid[1].abs().max() < 0.5


def test_gaps_of_a_joint_passage_are_anywhere_but_on_the_right():
    env, _ = env_of("joint_passage", 500, fixed_passage=False)
    gaps = env.simulation.world.groups["passages"].entities
    state, place = env.get_state(), env.simulation.stepper.plan.place
    free = [e.name for e in gaps if not e.kind.collide]
    x = torch.stack([state["pos"][..., place[name]][:, 0] for name in free])
    slots = ((x + 1 + 0.0333) / (2.0666 / 14)).floor().long()
    assert sorted(set(slots.flatten().tolist())) == list(range(13))


# --- mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("balance", {"n_agents": 1}, ValueError, r"Balance: n_agents=1 is out of range; n_agents in \[2, 13\]"),
        ("balance", {"n_agents": 14}, ValueError, r"n_agents=14 is out of range; n_agents in \[2, 13\]"),
        ("balance", {"n_agents": 2.0}, TypeError, "Balance: n_agents must be int, got 2.0"),
        ("balance", {"package_mas": 2.0}, TypeError, "no option 'package_mas'; did you mean 'package_mass'"),
        ("ball_passage", {"n_passages": 21}, ValueError, r"n_passages in \[1, 20\]"),
        ("navigation", {"agents_with_same_goal": 2}, ValueError, "agents_with_same_goal=2 .* needs collisions=False"),
        ("navigation", {"shared_rew": 1}, TypeError, "shared_rew must be bool, got 1"),
        ("sampling", {"cov": [0.1]}, ValueError, "cov needs one number or n_gaussians"),
        ("sampling", {"grid_spacing": 0.07}, ValueError, "multiples of grid_spacing"),
        ("sampling", {"xdim": 0.0}, ValueError, r"xdim=0.0 is out of range; .*xdim in \[1e-06, 1000000.0\]"),
        ("give_way", {"linear_friction": -1.0}, ValueError, r"linear_friction=-1.0 is out of range"),
        ("wind_flocking", {"cover_angle_tolerance": 0.0}, ValueError, "cover_angle_tolerance=0.0 is out of range"),
    ],
)
def test_impossible_options_are_errors(name, options, error, message):
    with pytest.raises(error, match=message):
        _ = load(harness.WHERE[name])(**options).world


@pytest.mark.parametrize("name", harness.WHERE)
def test_every_option_refuses_what_it_cannot_be_by_its_name(name):
    kind = load(harness.WHERE[name])
    for field in dataclasses.fields(kind):
        bad = ["no", float("nan"), float("inf"), -float("inf")]
        for value in [*bad, 2] if isinstance(field.default, bool) else bad:
            with pytest.raises((TypeError, ValueError), match=f"{kind.__name__}: {field.name}(=| must be).*{value}"):
                kind(**{field.name: value})


@pytest.mark.parametrize("name", first(harness.WHERE, 2))
@pytest.mark.parametrize("value", [-1, 0])
def test_a_low_number_is_refused_by_its_name_or_gives_finite_data(name, value):
    kind = load(harness.WHERE[name])
    for field in dataclasses.fields(kind):
        if isinstance(field.default, (int, float)) and not isinstance(field.default, bool):
            said, data = field.name, TensorDict()
            try:
                data = make_scenario(
                    kind, num_envs=2, compile="none", **{field.name: type(field.default)(value)}
                ).rollout(2)
            except ValueError as error:
                said = str(error)
            assert field.name in said
            assert all(x.isfinite().all() for x in data.values(True, True) if x.is_floating_point()), field.name
