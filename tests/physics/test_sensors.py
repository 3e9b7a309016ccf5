"""What agents measure: lidar and distances against VMAS, neighbours against brute force."""

import itertools
import math
import warnings
from dataclasses import dataclass

import convert
import pytest
import torch
import twins
from test_contacts import SHAPES, thrown

from marlenv.envs import check_env_specs
from marlenv.errors import GroupError
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
    join,
    overlap,
)
from marlenv.physics.env import ScenarioEnv
from marlenv.physics.jit import cache
from marlenv.rng import RowRNG

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from vmas.simulator.sensors import Lidar as TheirLidar

core = twins.core
COMPILES = pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")


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


@dataclass(eq=False)
class Rooms(Crowd):
    """The wall lies at an angle, and agents start within it and without."""

    def spawn(self):
        super().spawn()
        walls = self.world.groups["walls"]
        walls.pos, walls.rot = self.uniform(-0.3, 0.3, 1, 2), self.uniform(-3, 3, 1)

    def observe(self):
        return {"agents": self.near.measure().offset.flatten(2)}

    def info(self):
        walls, near = self.world.groups["walls"], self.near.measure()
        seen = (near.mask.unsqueeze(-1) & (near.index.unsqueeze(-1) == torch.arange(5))).any(2)
        return {"agents": {"pos": self.agents.pos, "seen": seen, "room": join(walls.pos, walls.rot)}}


def crosses(a, b, shape, room):
    """Whether the way from ``a`` to ``b`` leads through the outline: whether any of its points is on the other side."""
    x, y, rot = room.tolist()
    way = a + torch.linspace(0, 1, 4001).unsqueeze(-1) * (b - a) - torch.tensor([x, y])
    if isinstance(shape, Sphere):
        within = way.norm(dim=-1) < shape.radius
    else:
        c, s = math.cos(rot), math.sin(rot)
        u, v = way[:, 0] * c + way[:, 1] * s, way[:, 1] * c - way[:, 0] * s
        within = (u.abs() < shape.length / 2) & (v.abs() < shape.width / 2)
    return bool((within != within[0]).any())


@pytest.mark.parametrize("shape", [Box(1.2, 0.7, hollow=True), Box(1.2, 0.7), Sphere(0.5)], ids=str)
def test_nobody_sees_through_an_outline_from_within_or_from_outside(shape):
    td = ScenarioEnv(Rooms(walls=[shape]), 24, seed=0, compile="none").reset()["agents", "info"]
    ways = [(row, i, j) for row in range(24) for i in range(5) for j in range(5) if i != j]
    free = [not crosses(*td["pos"][row, [i, j]], shape, td["room"][row, 0]) for row, i, j in ways]
    assert [bool(td["seen"][at]) for at in ways] == free
    assert 0.2 < sum(free) / len(free) < 0.8


@pytest.mark.slow
@COMPILES
@pytest.mark.parametrize("shape", [Box(1.2, 0.7, hollow=True), Sphere(0.5)], ids=str)
def test_machine_code_sees_what_eager_mode_sees(shape):
    envs = [ScenarioEnv(Rooms(walls=[shape]), 67, seed=0, compile=tier) for tier in ("aot", "none")]
    ours, theirs = (env.rollout(5, break_when_any_done=False) for env in envs)
    assert torch.equal(ours["agents", "info", "seen"], theirs["agents", "info", "seen"])
    torch.testing.assert_close(ours["agents", "observation"], theirs["agents", "observation"], rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["none", pytest.param("aot", marks=COMPILES)])
def test_agents_hide_who_is_behind_them_and_not_themselves(tier):
    class Queue(Crowd):
        def build(self):
            world = World()
            self.agents = world.add("agents", [Agent(Sphere(0.1))] * 5)
            self.near = Neighbours(world, self.agents, blocked_by=self.agents)
            return world

        def spawn(self):
            self.agents.pos = self.tensor([[0.0, 0.0], [1.0, 0.0], [2.0, 0.05], [3.0, 0.0], [3.0, 1.0]])

        def observe(self):
            near = self.near.measure()
            return {"agents": ((near.index.unsqueeze(-1) == torch.arange(5)) & near.mask.unsqueeze(-1)).any(2).float()}

    seen = ScenarioEnv(Queue(), 2, seed=0, compile=tier).reset()["agents", "observation"][0]
    who = [set(row.nonzero().flatten().tolist()) for row in seen]
    assert who == [{1, 4}, {0, 2, 4}, {1, 3, 4}, {2, 4}, {0, 1, 2, 3}]


# --- nobody to see -------------------------------------------------------------------------------


@dataclass(eq=False)
class Lonely(Scenario):
    """Agents who look for landmarks, of which there are none, or for each other."""

    n_agents: int = 2
    each_other: bool = False
    keep_away: bool = True

    def build(self):
        world = World()
        self.agents = world.add("agents", [Agent(Sphere(0.05))] * self.n_agents)
        self.none = world.add("none", [])
        self.near = Neighbours(world, self.agents, None if self.each_other else self.none)
        self.lidar = Lidar(world, self.agents, self.none, n_rays=3)
        return world

    def spawn(self):
        self.scatter(self.agents, 0.2, away_from=[self.none] if self.keep_away else [])

    def observe(self):
        near, none = self.near.measure(), self.none
        pairs = gap(self.agents, none), overlap(self.agents, none), gap(none, self.agents).movedim(2, 1)
        assert [x.shape for x in pairs] == [(self.rows, self.n_agents, 0)] * 3
        assert near.offset.shape == (self.rows, self.n_agents, 0, 2)
        return {"agents": join(self.agents.pos, self.lidar.measure(), near.offset, near.distance, *pairs)}

    def rewards(self):
        return {"agents": self.agents.rot}

    def shared_info(self):
        return {"edges": self.near.edges().edge_index}


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"n_agents": 1, "each_other": True}], ids=["no landmarks", "nobody else"])
@pytest.mark.parametrize("tier", ["none", pytest.param("aot", marks=COMPILES)])
def test_where_nobody_is_nobody_is_seen(options, tier):
    env = ScenarioEnv(Lonely(**options), 4, seed=0, compile=tier)
    td = env.rollout(3)
    n = options.get("n_agents", 2)
    assert env.simulation.scenario.near.k == 0
    assert td["agents", "observation"].shape == (4, 3, n, 5)
    assert (td["agents", "observation"][..., 2:] == 1.0).all()
    assert td["info", "edges"].shape == (4, 3, 2, 0)


def test_empty_groups_keep_nobody_away():
    places = [
        ScenarioEnv(Lonely(keep_away=keep_away), 8, seed=0, compile="none").reset()["agents", "observation"]
        for keep_away in (True, False)
    ]
    assert torch.equal(*places)


def test_one_body_is_seen_like_a_group_of_one():
    world = World()
    agents, goal = world.add("agents", [Agent()] * 3), world.add("goal", Landmark(collide=False))
    assert Neighbours(world, agents, goal).k == Neighbours(world, agents, [goal][0].alone).k == 1
    assert Lidar(world, agents[0], goal).agents.names == ("agent_0",)


# --- mistakes ------------------------------------------------------------------------------------

NAN = float("nan")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_rays": 0}, "n_rays must be an integer from 1 on, got 0"),
        ({"n_rays": 3.0}, "n_rays must be an integer from 1 on, got 3.0"),
        ({"max_range": -1.0}, "max_range must be a number from 0 on, got -1.0"),
        ({"max_range": NAN}, "max_range must be a number from 0 on, got nan"),
        ({"angle_start": NAN}, "angle_start must be a finite number, got nan"),
        ({"angle_end": "1"}, "angle_end must be a finite number, got '1'"),
    ],
)
def test_impossible_lidars_are_errors(options, says):
    world = World()
    agents = world.add("agents", [Agent()] * 2)
    with pytest.raises(ValueError, match=f"Lidar: {says}"):
        Lidar(world, agents, [agents], **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"k": 5}, "k, of 4 others, must be an integer from 1 to 4, got 5"),
        ({"k": 1.0}, "k, of 4 others, must be an integer from 1 to 4, got 1.0"),
        ({"radius": -1.0}, "radius must be a number from 0 on, got -1.0"),
        ({"radius": NAN}, "radius must be a number from 0 on, got nan"),
    ],
)
def test_impossible_neighbours_are_errors(options, says):
    world = World()
    agents = world.add("agents", [Agent()] * 5)
    with pytest.raises(ValueError, match=f"Neighbours: {says}"):
        Neighbours(world, agents, **options)


def test_sensors_look_around_in_their_own_world():
    world, other = World(), World()
    agents, foreign = world.add("agents", [Agent()] * 2), other.add("agents", [Agent()] * 2)
    for make in (
        lambda: Lidar(world, foreign, [agents]),
        lambda: Lidar(world, agents, [agents, foreign[1:]]),
        lambda: Neighbours(world, agents, foreign),
        lambda: Neighbours(world, agents, blocked_by=foreign[1]),
    ):
        with pytest.raises(GroupError, match=r"must be bodies of its own world.*\['agents'\].*'agent_1'\] of another"):
            make()
    with pytest.raises(TypeError, match="Lidar: targets must be bodies as World.add returns them, got str"):
        Lidar(world, agents, ["agents"])
    with pytest.raises(TypeError, match="Lidar: targets must be bodies or a list of them, got Agent"):
        Lidar(world, agents, Agent())
