"""What agents measure: lidar and distances against VMAS, neighbours against brute force."""

import itertools
import warnings
from dataclasses import dataclass

import convert
import pytest
import torch
import twins
from test_contacts import SHAPES, thrown

from marlenv.envs import check_env_specs
from marlenv.physics import (
    Agent,
    Box,
    Landmark,
    Lidar,
    Line,
    Neighbours,
    Scenario,
    Simulation,
    Sphere,
    World,
    gap,
    overlap,
)
from marlenv.physics.env import ScenarioEnv
from marlenv.rng import RowRNG

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from vmas.simulator.sensors import Lidar as TheirLidar

core = twins.core


class Seen(convert.Converted):
    """A converted world in which the first agents look around."""

    def __init__(self, theirs, rays):
        super().__init__(theirs)
        self.rays = rays

    def build(self):
        world = super().build()
        self.lidar = Lidar(world, self.agents, [self.landmarks, self.agents], **self.rays)
        return world

    def observe(self):
        return {"agents": self.lidar.measure()}


@pytest.mark.reference
@pytest.mark.parametrize(
    "rays", [{"n_rays": 12, "max_range": 0.8}, {"n_rays": 5, "angle_start": -0.4, "angle_end": 1.0}]
)
def test_a_lidar_measures_what_vmas_measures(rays):
    world = thrown([*SHAPES, *SHAPES], rows=64, spread=0.8)
    world.agents[0]._collide = True
    world.add_agent(core.Agent("other", shape=core.Sphere(0.1)))
    world.agents[1].state.pos = world.agents[0].state.pos + 0.3
    for agent in world.agents:
        agent.add_sensor(TheirLidar(world, **rays))
    shadow = convert.Shadow(world)
    shadow.sim = Simulation(Seen(world, rays))
    ours = shadow.sim.observe(shadow.state())[0]["agents"]
    theirs = torch.stack([agent.sensors[0].measure() for agent in world.agents], 1)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
    assert 0.2 < (ours < rays.get("max_range", 1.0)).float().mean() < 0.95


@pytest.mark.reference
@pytest.mark.parametrize("kinds", list(itertools.product(SHAPES, repeat=2)), ids="-".join)
def test_gaps_and_overlaps_are_those_of_vmas(kinds):
    world = thrown(kinds, rows=256, spread=0.35)
    shadow = convert.Shadow(world)
    shadow.sim.world.stage.open(shadow.state())
    a, b = shadow.sim.scenario.landmarks
    theirs = world.landmarks
    torch.testing.assert_close(gap(a, b), world.get_distance(*theirs), rtol=0, atol=1e-5)
    assert torch.equal(overlap(a, b), world.is_overlapping(*theirs))
    assert overlap(a, b).any()
    every = gap(shadow.sim.scenario.landmarks, shadow.sim.scenario.landmarks)
    assert torch.equal(every[:, 0, 1], gap(a, b))
    shadow.sim.world.stage.shut()


# --- neighbours ----------------------------------------------------------------------------------


@dataclass(eq=False)
class Crowd(Scenario):
    """Agents between walls, who look for each other."""

    walls: tuple = ()
    k: int | None = None
    radius: float | None = None

    def build(self):
        world, self.looks = World(), []
        self.agents = world.add("agents", [Agent(Sphere(0.05))] * 5)
        walls = [world.add("walls", [Landmark(shape) for shape in self.walls])] if self.walls else []
        self.near = Neighbours(world, self.agents, blocked_by=walls, k=self.k, radius=self.radius)
        return world

    def spawn(self):
        self.agents.pos = self.uniform(-1, 1, 5, 2)

    def observe(self):
        self.looks.append((self.near.measure(), self.near.edges()))
        return {"agents": self.looks[-1][0].offset.flatten(2)}

    def rewards(self):
        return {"agents": self.agents.rot}

    def info(self):
        return {"agents": {"pos": self.agents.pos}}


def look(scenario, state=None):
    sim = Simulation(scenario)
    if state is None:
        state, *_ = sim.reset(sim.start(RowRNG(rows=[32])))
    sim.observe(state)
    return state["pos"][:, :5].permute(2, 1, 0), *scenario.looks[-1]


@pytest.mark.parametrize("options", [{}, {"k": 2}, {"radius": 0.7}, {"k": 3, "radius": 0.9}])
def test_neighbours_are_the_nearest_within_the_radius(options):
    pos, seen, (edges, there) = look(Crowd(**options))
    far = torch.cdist(pos, pos) + torch.eye(5) * 9
    for row in range(32):
        for i in range(5):
            order = far[row, i].argsort()[: options.get("k", 4)].tolist()
            expected = [j for j in order if j != i and far[row, i, j] <= options.get("radius", 8)]
            assert seen.index[row, i][seen.mask[row, i]].tolist() == expected
            for slot, j in enumerate(expected):
                torch.testing.assert_close(seen.offset[row, i, slot], pos[row, j] - pos[row, i])
                assert seen.distance[row, i, slot].item() == pytest.approx(far[row, i, j].item(), abs=1e-5)
        listed = edges[row][:, there[row]].t().tolist()
        assert listed == [[j, i] for i in range(5) for j in seen.index[row, i][seen.mask[row, i]].tolist()]
    assert edges.shape == (32, 2, 5 * options.get("k", 4))


@pytest.mark.parametrize("wall", [Sphere(0.3), Box(0.2, 3.0), Line(3.0)], ids=lambda s: type(s).__name__)
def test_nobody_sees_through_a_wall(wall):
    crowd = Crowd(walls=[wall])
    sim = Simulation(crowd)
    state, *_ = sim.reset(sim.start(RowRNG(rows=[1])))
    if isinstance(wall, Line):
        state["rot"][sim.stepper.plan.place["wall_0"]] = torch.pi / 2
    xy = torch.tensor([[-0.8, 0.0], [-0.7, 0.5], [0.8, 0.0], [0.7, 0.5], [-0.5, -0.2]])
    state["pos"][:, [sim.stepper.plan.place[f"agent_{i}"] for i in range(5)], 0] = xy.T
    sim.observe(state)
    near, _ = crowd.looks[-1]
    sees = [set(near.index[0, i][near.mask[0, i]].tolist()) for i in range(5)]
    assert sees[0] == {1, 4}
    assert (sees[1] == {0, 4}) or (isinstance(wall, Sphere) and sees[1] == {0, 3, 4})  # above the ball


def test_the_communication_graph_is_emitted_by_the_env():
    class Wired(Crowd):
        def shared_info(self):
            return self.near.edges()._asdict()

    env = ScenarioEnv(Wired(k=2, radius=0.8), 16, seed=0, compile="none")
    check_env_specs(env)
    td = env.rollout(3)
    pos, edges, there = (
        td["next", key][:, -1] for key in (("agents", "info"), ("info", "edge_index"), ("info", "edge_mask"))
    )
    assert (edges.shape, edges.dtype) == ((16, 2, 10), torch.int64)
    far = torch.cdist(pos["pos"], pos["pos"])
    for row in range(16):
        heard = {tuple(edge) for edge in edges[row].t()[there[row]].tolist()}
        nearest = (far[row] + 9 * torch.eye(5)).sort(1)
        assert heard == {
            (j, i)
            for i in range(5)
            for d, j in zip(nearest[0][i, :2], nearest[1][i, :2].tolist(), strict=True)
            if d <= 0.8
        }


def test_rows_do_not_see_each_other():
    state = None
    for rows in (32, 3):
        crowd = Crowd(k=2)
        sim = Simulation(crowd)
        state, *_ = sim.reset(sim.start(RowRNG(rows=[rows])))
        seen = sim.observe(state)[0]["agents"][:3]
        kept = seen if rows == 32 else kept  # noqa: F821
    assert torch.equal(kept, seen)


def test_impossible_sensors_are_errors():
    with pytest.raises(ValueError, match=r"Neighbours: k must be in \[1, 4\], as many as there are others, got 5"):
        Simulation(Crowd(k=5))
    world = World()
    agents = world.add("agents", [Agent()] * 2)
    with pytest.raises(ValueError, match="needs 1 ray and a range of 0"):
        Lidar(world, agents, [agents], n_rays=0)
