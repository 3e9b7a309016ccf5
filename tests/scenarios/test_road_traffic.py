"""Road traffic: its map, where cars are on their routes, who starts anew, and what VMAS cannot do."""

import warnings
from pathlib import Path

import harness
import pytest
import torch
from marlenv.scenarios.road_traffic import roads
from marlenv.scenarios.road_traffic.reward import jerk
from marlenv.scenarios.road_traffic.scenario import RoadTraffic
from marlenv.scenarios.road_traffic.tracking import corners, crashes, track
from test_against_vmas import on_the_road

from marlenv.physics import Simulation

MAP = Path(harness.vmas.__file__).parent / "scenarios_data" / "road_traffic" / "road_traffic_cpm_lab.xml"
PARTS = ("whole", "crossing", "merging_in", "merging_out")


@pytest.fixture(scope="module")
def theirs():
    """VMAS's module."""
    return __import__("vmas.scenarios.road_traffic", fromlist=["x"])


def played(rows, steps, **options):
    """A simulation and a state after random steps, with what the last one gave."""
    sim = Simulation(RoadTraffic(is_add_noise=False, **options))
    drawn = harness.RowRNG(3, [rows])
    state, *_ = sim.reset(sim.start(harness.RowRNG(1, [rows])))
    out = None
    for _ in range(steps):
        actions = drawn.uniform(-1, 1, (sim.scenario.n_agents, 2))
        state, *out = sim.transition(state, {"agents": actions})
    return sim, state, out


@pytest.mark.reference
@pytest.mark.parametrize("path", [None, str(MAP)], ids=["ours", "a file"])
def test_the_map_and_all_routes_are_those_of_vmas(path, theirs):
    known, data = roads.lanelets(path), theirs.get_map_data(str(MAP))
    assert len(known) == len(data["lanelets"]) == 104
    for lanelet in data["lanelets"]:
        left, right = known[lanelet["id"]]
        assert torch.equal(left, lanelet["left_boundary"])
        assert torch.equal(right, lanelet["right_boundary"])
    for part, wanted in zip(PARTS, theirs.get_reference_paths(data), strict=True):
        for ours, one in zip(roads.routes(known, part), wanted, strict=True):
            assert torch.equal(ours.center, one["center_line"])
            assert torch.equal(ours.left, one["left_boundary_shared"])
            assert torch.equal(ours.right, one["right_boundary_shared"])
            assert ours.loop == bool(one["is_loop"])


@pytest.mark.reference
def test_a_file_with_another_map_is_driven_on_as_in_vmas(tmp_path, monkeypatch):
    text = MAP.read_text()
    path = tmp_path / "wider.xml"
    path.write_text(text.replace("<x>2.250000000</x>", "<x>2.255000000</x>"))
    assert path.read_text() != text
    plus = {"memory": on_the_road}
    harness.Pair("road_traffic", {"n_agents": 3, "map_file_path": str(path)}, 4, **plus).run(4)


def lane(left, right):
    """A map of one lanelet, whose sides go through points with these ``x``."""
    sides = [
        f"<{name}>{''.join(f'<point><x>{x}</x><y>0</y></point>' for x in xs)}</{name}>"
        for name, xs in (("leftBound", left), ("rightBound", right))
    ]
    return f"<commonRoad><lanelet id='7'>{''.join(sides)}</lanelet></commonRoad>"


@pytest.mark.parametrize(
    ("text", "says"),
    [("<commonRoad>", "is no map of the format of CommonRoad"), ("<commonRoad/>", r"has no lanelets \[1, 2, 3"),
     ("<a><lanelet id='x'/></a>", "is no map"), (lane("12", "1"), "lanelet 7 has 2 on the left and 1 on the right"),
     (lane("1", "2"), "lanelet 7 has 1 on the left and 1"), (lane("", ""), "7 has 0 on the left and 0"),
     (lane(["1", "nan"], "12"), "lanelet 7 has 2 on the left and 2"), (None, "must be the path of a file")],
)  # fmt: skip
def test_a_file_that_is_no_map_is_refused(text, says, tmp_path):
    path = tmp_path / "map.xml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=f"RoadTraffic: .*{says}"):
        Simulation(RoadTraffic(map_file_path=str(path)))


@pytest.mark.parametrize("map_type", ["1", "3"])
def test_where_cars_are_is_the_same_line_by_line_and_piece_by_piece(map_type, monkeypatch):
    sim, state, _ = played(40, 12, n_agents=5, map_type=map_type, scenario_probabilities=(1, 1, 1))
    cars, path = sim.scenario.cars, state["memory.path"]
    sim.world.stage.open(state)
    pos, outline = cars.planar("pos"), corners(cars.planar("pos"), cars.planar("rot"), sim.scenario.size)
    sim.world.stage.shut()
    points = torch.cat((pos.unsqueeze(1), outline), 1)
    for line in (sim.scenario.roads.center, sim.scenario.roads.left, sim.scenario.roads.right):
        found = []
        for few in (10**6, 0):
            monkeypatch.setattr("marlenv.scenarios.road_traffic.tracking.FEW", few)
            found.append(track(line, path, points, outline))
        assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    assert found[0].crossed.any()


def test_cars_start_at_a_point_of_their_route_and_know_the_next():
    for options in ({}, {"map_type": "3", "n_agents": 5, "scenario_probabilities": (1, 1, 1)}):
        sim, state, _ = played(50, 0, **options)
        sim.world.stage.open(state)
        sim.scenario.watch.look()
        assert torch.equal(sim.scenario.notes.on, sim.scenario.memory.ahead)
        assert sim.scenario.notes.off.max() < 1e-6
        sim.world.stage.shut()


@pytest.mark.reference
def test_crashes_are_those_of_vmas_with_later_cars_where_they_were(theirs):
    pos, rot = torch.rand(2, 5, 400) * 0.3, torch.rand(5, 400) * 6
    now, then = (corners(pos + off, rot, (0.16, 0.08)) for off in (0.0, 0.05))
    closed = [torch.cat((x, x[:, :1]), 1).permute(2, 3, 1, 0) for x in (now, then)]  # [A, B, 5, 2]
    wanted = torch.zeros(5, 400, dtype=torch.bool)
    for i in range(5):
        for j in range(i + 1, 5):
            hit = theirs.interX(closed[0][i], closed[1][j])
            wanted[i] |= hit
            wanted[j] |= hit
    assert torch.equal(crashes(now, then), wanted)
    assert 0.1 < wanted.float().mean() < 0.9


@pytest.mark.parametrize("options", [{"is_testing_mode": True}, {"map_type": "3"}], ids=["testing", "a part"])
def test_who_starts_anew_does_so_alone_and_away_from_all_others(options):
    options = {"n_agents": 4, "scenario_probabilities": (1, 1, 1), **options}
    sim, state, _ = played(32, 0, **options)
    gone = 0
    for _ in range(25):
        ahead = torch.tensor([1.0, 0.0]).expand(32, 4, 2)
        before = state
        state, _, _, over, info = sim.transition(state, {"agents": ahead})
        moved = (state["pos"] - before["pos"]).norm(dim=0)  # [A, B]
        jumped = moved > 0.06  # 1 m/s for 0.05 s
        gone += int(jumped.sum())
        pos = state["pos"].permute(2, 1, 0)
        apart = torch.cdist(pos, pos) + 9 * torch.eye(4)
        assert apart.amin(2).t()[jumped].min() > 0.2146 if jumped.any() else True
        assert not over[jumped.any(0)].any()
        crash = info["agents"]["is_collision_with_agents"].t() > 0
        assert not options.get("is_testing_mode") or not crash.any() or moved[crash].max() > 0.06
    assert gone > 10


@pytest.mark.reference
def test_the_second_type_of_map_fails_in_vmas_when_it_uses_what_it_recorded():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"map_type": "2", "probability_use_recording": 1.0, "n_agents": 4}
        env = harness.vmas.make_env("road_traffic", num_envs=2, seed=0, **options)
    env.scenario.initial_state_buffer.add(torch.zeros(4, 8))
    with pytest.raises(TypeError, match="cannot unpack non-iterable NoneType"):
        env.reset()
    with pytest.raises(ValueError, match="map_type must be '1' or '3'"):
        RoadTraffic(map_type="2")


@pytest.mark.slow
@pytest.mark.reference
def test_what_is_no_option_of_ours_changes_nothing_in_vmas():
    def rewards(**options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            env = harness.vmas.make_env("road_traffic", num_envs=3, seed=0, n_agents=3, **options)
        env.seed(0)
        env.reset()
        return torch.stack([torch.stack(env.step(env.get_random_actions())[1]) for _ in range(4)])

    usual = rewards()
    idle = ("threshold_deviate_from_ref_path", "threshold_reach_goal", "max_ref_path_points", "n_observed_steps",
            "threshold_no_reward_if_too_close_to_boundaries", "threshold_no_reward_if_too_close_to_other_agents",
            "n_steps_stored", "probability_use_recording")  # fmt: skip
    for option in idle:
        assert torch.equal(rewards(**{option: 3}), usual), option
    assert not torch.equal(rewards(reward_progress=3), usual)


def test_noise_is_uniform_and_of_its_own_size():
    sim, state, _ = played(300, 0, n_agents=3)
    noisy = Simulation(RoadTraffic(n_agents=3, noise_level=0.5))
    off = noisy.observe(state)[0]["agents"] - sim.observe(state)[0]["agents"]
    assert 0 <= off.min() < 0.01
    assert 0.49 < off.max() < 0.5 + 1e-5
    assert abs(off.mean() - 0.25) < 0.01


@pytest.mark.parametrize("free", [0.0, 10.0, 34.9])
def test_sudden_steering_costs_and_never_pays(free):
    """From one end to the other it costs what the formula says; what is free costs nothing."""
    options = RoadTraffic(threshold_change_steering=free)
    most = options.max_steering_angle
    now = torch.tensor([1.0, 0.5, 0.2, free / 70])
    cost = jerk(now, -now, most, free * torch.pi / 180)
    assert cost[0].item() == pytest.approx(-0.01 * (70 - free) / (35 - free), rel=1e-4)
    assert (cost.diff() >= 0).all()
    assert cost[-1].item() == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize(
    "options",
    [{"threshold_change_steering": 35}, {"threshold_change_steering": 80}, {"max_steering_angle": 0.1},
     {"threshold_change_steering": -1}],
)  # fmt: skip
def test_steering_that_is_all_free_is_refused(options):
    with pytest.raises(ValueError, match="RoadTraffic: threshold_change_steering(.* must be below max_|=-1 is out of)"):
        RoadTraffic(**options)
    if options.get("threshold_change_steering", 0) >= 0:
        RoadTraffic(**options, n_stored_steps=1)  # then steering costs nothing


def test_of_a_car_that_reverses_others_see_its_speed_the_way_it_faces():
    sim, state, _ = played(8, 0, n_agents=2, n_nearing_agents_observed=1)
    state["pos"][:, 0], state["pos"][:, 1] = torch.tensor([[1.0], [1.0]]), torch.tensor([[1.5], [1.0]])
    state["rot"][:], state["vel"][:] = 0.0, 0.0
    state["vel"][0, 1] = -0.4  # faces to the right, goes to the left
    seen = sim.observe(state)[0]["agents"][:, 0, 10 + 8 : 10 + 10]
    torch.testing.assert_close(seen, torch.tensor([[0.4, 0.0]]).expand(8, 2))
